"""One ensemble's client and its life."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from socket import socket
from types import MappingProxyType
from typing import Any, NamedTuple

from kazoo.exceptions import (
    AuthFailedError,
    ConnectionLoss,
    NoAuthError,
    NoNodeError,
    NotReadOnlyCallError,
    SessionExpiredError,
)
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.states import EVENT_TYPE_MAP, EventType, KeeperState, WatchedEvent
from kazoo.retry import KazooRetry

from parkazoo.engine.ports import OnAnswer, Owner, Reply
from parkazoo.errors import RequestTooLargeError
from parkazoo.kazoo_private import CloseInstance, GetChildren, GetChildren2, Transaction, collect_hosts
from parkazoo.monitoring import WatchFired
from parkazoo.protocol.client_id import SessionId
from parkazoo.protocol.cluster_map import format_hosts, parse_hosts
from parkazoo.protocol.holdings import Holdings, leaves_ephemeral, leaves_watch
from parkazoo.protocol.lasting_watch import LastingWatch
from parkazoo.protocol.newer_requests import AddWatch, SetWatches, SetWatches2
from parkazoo.protocol.outlasting import outlasts
from parkazoo.protocol.placement import MAP, directory_of_pin, shown
from parkazoo.protocol.server_list import CONFIG, Server
from parkazoo.protocol.states import CLOSED_ERRORS, CONNECTED_STATES, kazoo_state
from parkazoo.protocol.steps import DataAnswer, WatchRequest, WireRequest
from parkazoo.protocol.subject import Subject, error_about
from parkazoo.protocol.watches import DirectoryWatch
from parkazoo.protocol.went_back import Memory, Verdict, VersionLook, VersionRise
from parkazoo.types.handlers import Log
from parkazoo.types.znodes import Watch, ZnodeStat
from parkazoo.wire.backlog import Backlog
from parkazoo.wire.connection import MemberConnection
from parkazoo.wire.exchange import Pending
from parkazoo.wire.kept_watches import KeptWatches
from parkazoo.wire.lasting_table import LastingTable
from parkazoo.wire.log import DiscreetLog
from parkazoo.wire.own_read import OWN_PATHS, OwnRead
from parkazoo.wire.patience import Patience
from parkazoo.wire.running import WireRuntime
from parkazoo.wire.sasl import converse
from parkazoo.wire.sizes import Sizes
from parkazoo.wire.tls import TlsOptions

FAILURES = {  # for earlier requests; everywhere else it is ConnectionLoss, as with kazoo
    KeeperState.AUTH_FAILED: AuthFailedError,
    KeeperState.EXPIRED_SESSION: SessionExpiredError,
}
OWN_REQUESTS = (OwnRead, VersionLook, VersionRise, SetWatches)  # a lost connection costs nothing
NO_SESSION: tuple[None, bytes] = (None, bytes(16))
FINAL_STATES = (KeeperState.AUTH_FAILED, KeeperState.CLOSED)
ENDING_STATES = (KeeperState.EXPIRED_SESSION, *FINAL_STATES)


class MemberOptions(NamedTuple):
    """What all members of a client have in common.

    :param unchroot: the user's name for a physical path.
    :param logger_for: the log of an ensemble's connection, by the ensemble's name.
    :param retry: the pauses between attempts to connect.
    """

    unchroot: Callable[[str], str]
    logger_for: Callable[[str], Log]
    session_timeout_s: float
    auth_data: set[tuple[str, str]]
    tls: TlsOptions
    sasl_options: Mapping[str, object] | None
    retry: KazooRetry
    read_only: bool
    randomize_hosts: bool


class Member:
    """The sessions on one ensemble, part of a client for all of them.

    It shares their loop and credentials, reports each state to the session, its owner, and names paths as their
    user does. Its states change on the loop. What the session needs of it is in
    :class:`parkazoo.engine.ports.MemberPort`.

    :param hosts: servers to begin with, ``"h:p,h:p"``.
    :param session: an earlier session to go on with.
    :ivar is_stopping: its session ends, or has not begun.
    """

    overrides: Mapping[str, Any] = MappingProxyType({})
    """What a program has put in place of functions of its handler, by name; `select` counts."""

    def __init__(
        self,
        owner: Owner[Any],
        runtime: WireRuntime,
        name: str,
        hosts: str,
        session: SessionId | None,
        options: MemberOptions,
    ) -> None:
        self.name = name
        self.owner = owner
        self.runtime = runtime
        self.hosts: list[Server] = collect_hosts(hosts)[0]  # as a user gives them: a name twice, too
        self.logger = options.logger_for(name)
        self._unchroot = options.unchroot
        self._logger_for = options.logger_for
        self._session_timeout = int(options.session_timeout_s * 1000)
        self.auth_data = options.auth_data
        self.tls = options.tls
        self.sasl_options = options.sasl_options
        self.retry_policy = options.retry
        self.read_only = options.read_only
        self.randomize_hosts = options.randomize_hosts
        self._state: str = KeeperState.CLOSED
        self.is_stopping = True
        self.backlog = Backlog()
        self._pending: deque[Pending] = deque()
        self._child_watchers: defaultdict[str, set[Watch]] = defaultdict(set)
        self._data_watchers: defaultdict[str, set[Watch]] = defaultdict(set)
        self._kept = KeptWatches()
        self._lasting = LastingTable()
        self._lasting_are_lost = False  # and know it
        self.last_zxid = 0
        self._protocol_version: int | None = None
        self.granted_ms = 0  # the session's time-out
        self._session_id: int | None
        self._session_passwd: bytes
        self._session_id, self._session_passwd = session or NO_SESSION
        self.is_renewing = False
        self.holdings = Holdings()
        self.memory = Memory()
        self.last_xid = 0
        self.sizes = Sizes()
        self._suspects: dict[int, int] = {}  # sizes of requests that may have been too large, by xid
        self._doubtful: deque[Pending] = deque()  # those requests, until an attempt to connect has ended
        if session is not None:
            self.holdings.assume()
        self._registered = 0  # the session that is
        self.spare_hosts: list[Server] = []  # it tries them when it cannot reach its hosts
        self._limit_s: float | None = None
        self._patience: Patience | None = None
        self.troubles: dict[Server, str] = {}  # why the last attempt failed, by host and port
        self._connection = self._make_connection(DiscreetLog(self.logger))

    def _make_connection(self, logger: Log) -> MemberConnection:
        return MemberConnection(self, logger)

    def _reset_session(self) -> None:
        self._session_id, self._session_passwd = NO_SESSION

    def begin(self) -> None:
        """Start to connect, without waiting. Requests are queued from now on."""
        self.is_stopping = False
        self._become(KeeperState.CONNECTING)
        self._connection.start()
        self._be_patient()

    def submit(self, request: WireRequest, reply: Reply | None) -> None:
        """Queue a request; never blocks. `reply` gets the answer, or what kazoo's ``_call`` would set."""
        state = self._state
        if state in CLOSED_ERRORS:
            if reply is not None:
                reply.set_exception(CLOSED_ERRORS[state]())
            return
        if not self._connection.submit(request, reply) or self._state in CLOSED_ERRORS:
            self._fail(self.backlog, self._state)  # it closed meanwhile, perhaps without seeing this request

    @property
    def state(self) -> str:
        """The KazooState of this ensemble."""
        return kazoo_state(self._state)

    def _become(self, state: str) -> None:
        self._state = state

    def socket_maker(self) -> Callable[..., socket] | None:
        """What makes its sockets instead, with kazoo's arguments; it may block."""
        return None

    def is_connected_otherwise(self) -> bool:
        """Whether another function makes its connections."""
        return False

    def authenticate(self, sock: socket, host: str, timeout_s: float) -> None:
        """SASL on a connected socket. It blocks; several servers may be asked at once."""
        assert self.sasl_options is not None
        converse(self.sasl_options, SequentialThreadingHandler(), sock, host, timeout_s, self._connection.logger)

    @property
    def servers(self) -> list[Server]:
        """All that it knows."""
        return [*self.hosts, *self.spare_hosts]

    @property
    def session_id(self) -> int:
        return self._session_id or 0

    @property
    def is_connected(self) -> bool:
        return self._state in (KeeperState.CONNECTED, KeeperState.CONNECTED_RO)

    @property
    def session_password(self) -> bytes:
        return self._session_passwd

    def must_register(self, session: int | None) -> bool:
        return not self.is_renewing and self._registered != session

    def registered(self, session: int, answer: object) -> None:
        """Take the answer to the registration of a session of this member. An exception: it is not registered."""
        if not isinstance(answer, Exception):
            self._registered = session
        elif not isinstance(answer, NotReadOnlyCallError):  # it will, on a server that can write
            self._connection.report.not_registered(answer)

    @property
    def has_ephemerals(self) -> bool:
        return bool(self.holdings) or any(leaves_ephemeral(each[0]) for each in self._pending.copy())

    @property
    def has_unnamed_ephemerals(self) -> bool:
        """See :attr:`parkazoo.engine.ports.MemberPort.has_unnamed_ephemerals`."""
        return self.holdings.has_more

    def ephemerals_below(self, path: str) -> list[str]:
        """On the loop: the physical paths of the ephemerals of known names below one."""
        return self.holdings.below(path)

    def forget_ephemerals(self, path: str) -> None:
        """On the loop: what is below a physical path is no ephemeral that the client would miss."""
        self.holdings.forget(path)

    @property
    def has_watches(self) -> bool:
        return self.has_left_watches or any(leaves_watch(each) for each in self._unanswered())

    @property
    def has_left_watches(self) -> bool:
        """Whether a server keeps a watch of the user."""
        has_single = any(any(table.values()) for table in (self._child_watchers, self._data_watchers))
        return has_single or bool(self._lasting)

    @property
    def has_unanswered(self) -> bool:
        return any(not isinstance(each, OWN_REQUESTS) for each in self._unanswered())

    def _unanswered(self) -> list[WireRequest]:
        """The requests that a lost connection fails."""
        return [*(request for request, *_ in self._pending.copy()), *self.backlog.requests()]

    def settle(self, name: str, hosts: str | None, spare: Sequence[Server], limit_s: float | None) -> None:
        """See :meth:`parkazoo.engine.ports.MemberPort.settle`."""
        is_known = name == self.name
        if not is_known:
            self.logger = self._logger_for(name)
            self._connection.logger = DiscreetLog(self.logger)
            self.name = name
            self.logger.info(
                "ensemble %s: the client begins here, on %s",
                name,
                format_hosts(self.hosts),
                extra={"ensemble": name},
            )
        is_new, self._limit_s = limit_s != self._limit_s, limit_s
        if is_known and is_new and self._state == KeeperState.CONNECTING:  # also for what waits by now
            self._be_patient()
        if hosts is None:
            return
        known, before = self.servers, self.hosts
        self.hosts, self.spare_hosts = list(parse_hosts(hosts)), list(spare)
        if self.servers == known:
            return
        if is_known:
            others = f"; {format_hosts(spare)} if they are away" if spare else ""
            self.logger.info(
                "ensemble %s: its servers are now %s%s", name, hosts, others, extra={"ensemble": name}
            )
        self._connection.take_hosts(before if is_known else [])

    def read_again(self, path: str) -> None:
        """On the loop: one of the OWN_PATHS has changed."""
        if path == MAP:
            self.owner.map_told(self)
        else:
            self._read_own(path)

    def read_map(self) -> None:
        """See :meth:`parkazoo.engine.ports.MemberPort.read_map`."""
        self._read_own(MAP)

    def _read_own(self, path: str) -> None:
        self.submit(OwnRead(path, None), OnAnswer(partial(self._have_read_again, path)))

    def _have_read_again(self, path: str, answer: DataAnswer) -> None:
        if isinstance(answer, Exception) and not isinstance(answer, (NoAuthError, NoNodeError)):
            return  # the next connection reads it
        if path == CONFIG:
            self.owner.take_config(self, answer)
            return
        server = str(self._connection.address)
        trouble = self.owner.take_copy(self, answer, server)
        if trouble is not None:
            fields = {"ensemble": self.name, "server": server, "path": path, "reason": str(trouble)}
            self.logger.error("ensemble %s: %s", self.name, trouble, extra=fields)

    def keep_memory(self, now_s: float) -> None:
        """On the loop, now and then while it is connected: have the ensemble's version rise, if that is due."""
        if self._state == KeeperState.CONNECTED and not self.is_renewing and not self.is_stopping:
            look = self.memory.look(now_s, self.last_zxid)
            if look is not None:
                self.submit(look, OnAnswer(self._have_looked))
                if self.has_unanswered:
                    self.memory.expect_others()

    def _have_looked(self, answer: DataAnswer) -> None:
        if isinstance(answer, Exception) or self.is_renewing:
            return  # the next connection reads it
        data, stat = answer
        verdict = self.memory.judge(stat)
        if verdict is Verdict.NOTED and self.memory.was_there:  # it could not see that when it connected
            self.memory.take(stat)
            self.runtime.loop.call(partial(self.owner.went_back, self))
        elif verdict is not Verdict.WENT_BACK:
            rise = self.memory.rise(data or b"", stat, self.last_zxid)
            if rise is not None:
                self.submit(rise, OnAnswer(self._has_risen))

    def _has_risen(self, answer: ZnodeStat | Exception) -> None:
        if isinstance(answer, NoAuthError):
            self.memory.may_not()
        elif not isinstance(answer, Exception):
            self.memory.take(answer)

    def resume(self, session: SessionId) -> None:
        """See :meth:`parkazoo.engine.ports.MemberPort.resume`."""
        self._session_id, self._session_passwd = session
        self.holdings.assume()

    def fail_waiting(self, error: Exception | None) -> None:
        """See :meth:`parkazoo.engine.ports.MemberPort.fail_waiting`."""
        self._fail_oldest(len(self.backlog), error)
        self._be_patient()

    def renew(self, why: str, error: type[Exception] = SessionExpiredError) -> None:
        """On the loop: close the session on its servers and begin another. Earlier requests expire.

        :param why: for the log. :param error: what they get.
        """
        self._connection.report.renewed(why)
        self.holdings.clear()
        self._become(KeeperState.CONNECTING)
        self._disown_pending(error)
        self._fail(self.backlog, KeeperState.EXPIRED_SESSION, kind=error)
        self._be_patient()
        self._connection.wake()

    def begin_stop(self) -> None:
        """Ask for the end of the session, after the queued requests."""
        if not self.is_stopping:
            self.is_stopping = True
            self.backlog.put(CloseInstance, None)
            self._connection.wake()

    def leave(self) -> None:
        """See :meth:`parkazoo.engine.ports.MemberPort.leave`."""
        self.is_stopping = True
        self._connection.leave()

    def close(self) -> None:
        """See :meth:`parkazoo.engine.ports.MemberPort.close`. It holds nothing."""

    def go_on(self) -> None:
        """The gate is open: take what servers have answered meanwhile."""
        self._connection.resume()

    def distrust(self, thread: int) -> None:
        """See :meth:`Link.distrust`."""
        self._connection.distrust(thread)

    def abandon(self) -> None:
        """In a child process: the connection is the parent's."""
        self.is_stopping = True
        self._become(KeeperState.CLOSED)
        self._connection.abandon()

    def unchroot(self, path: str) -> str:
        """The user's name for a physical path, in watches' events and transactions' results."""
        return self._unchroot(path)

    def describe(self, request: WireRequest) -> Subject:
        """A request in an error's message: the user's path, and the ensemble."""
        path = getattr(request, "path", None)
        if isinstance(request, Transaction):
            return Subject("transaction", self.name)
        return Subject("" if path is None else shown(self.unchroot(directory_of_pin(path))), self.name)

    def register(self, request: WatchRequest | AddWatch, is_missing: bool = False) -> None:
        """The server keeps the watch of this request: it has answered.

        :param is_missing: the znode is not there.
        """
        watcher = request.watcher
        if watcher is None or (isinstance(watcher, DirectoryWatch) and watcher.has_ended):  # it was looking again
            return
        if not self.is_renewing:  # else its call has failed
            if isinstance(watcher, LastingWatch):
                self._lasting.add(request.path, watcher)
                return
            if isinstance(request, (GetChildren, GetChildren2)):
                self._child_watchers[request.path].add(watcher)
            else:
                self._data_watchers[request.path].add(watcher)
                (self._kept.missing.add if is_missing else self._kept.missing.discard)(request.path)

    def describe_troubles(self) -> str:
        """Each server, and why the last attempt to connect to it failed."""
        servers = [(host.strip(), int(port)) for host, port in self.servers]
        troubles = dict(self.troubles)  # the loop changes it
        return ", ".join(f"{format_hosts([each])}: {troubles.get(each, 'no answer yet')}" for each in servers)

    def tell_watches(self, kind: int, path: str) -> None:
        """On the loop: an event has come; have its watches called, and forget them.

        :param kind: one of EVENT_TYPE_MAP.
        """
        if kind not in EVENT_TYPE_MAP:
            self.logger.warning("Received unknown event %r", kind)
            return
        if self.is_stopping:
            return
        event = WatchedEvent(EVENT_TYPE_MAP[kind], self._state, self.unchroot(path))
        if self.runtime.monitor is not None and path not in OWN_PATHS:
            self.runtime.monitor.tell(WatchFired(self.name, event.type))
        called: list[Watch] = []
        if event.type != EventType.CHILD:
            self._kept.missing.discard(path)
            called += self._call_watches(self._data_watchers.pop(path, set()), event)
        if event.type in (EventType.CHILD, EventType.DELETED):
            called += self._call_watches(self._child_watchers.pop(path, set()), event)
        if self._lasting:
            for lasting in self._lasting.heard(event.type, path):
                if lasting.watcher not in called:  # a function is called once for an event
                    lasting.hear(path, event)

    def drop_watches(self, state: str) -> None:
        """See :meth:`parkazoo.engine.ports.MemberPort.drop_watches`."""
        event = WatchedEvent(EventType.NONE, state, None)
        self._drop_single(event, is_end=state != KeeperState.CONNECTING)
        if self._lasting:
            self._drop_lasting(event)

    def _drop_single(self, event: WatchedEvent, is_end: bool) -> None:
        """:param is_end: those, too, that outlast a connection."""
        tables = self._child_watchers, self._data_watchers
        self._child_watchers, self._data_watchers = defaultdict(set), defaultdict(set)
        dropped: list[set[Watch]] = []
        for table, left in zip(tables, (self._child_watchers, self._data_watchers), strict=True):
            for path, watchers in list(table.items()):
                kept = set() if is_end else {each for each in list(watchers) if outlasts(each)}
                if kept:
                    left[path] = kept
                dropped.append(watchers - kept)
        self._kept.missing.intersection_update(self._data_watchers)
        if is_end:
            self._kept.forget()
        for watchers in dropped:
            self._call_watches(watchers, event)

    def _drop_kept(self) -> None:
        """No server can say what they have missed."""
        if not self.owner.is_leaving:
            self._drop_single(WatchedEvent(EventType.NONE, KeeperState.CONNECTING, None), is_end=True)

    def kept_watches(self) -> list[tuple[SetWatches, Reply]]:
        """A server has taken the session. These requests go before any other."""
        if self.is_stopping or self.is_renewing or self.owner.is_leaving:
            return []
        tables = self._data_watchers, self._child_watchers
        kept = ([path for path, each in list(table.items()) if any(map(outlasts, list(each)))] for table in tables)
        return [(request, OnAnswer(self._have_kept)) for request in self._kept.requests(*kept)]

    def _have_kept(self, answer: object) -> None:
        if not isinstance(answer, Exception):
            self._kept.answered()
        elif not isinstance(answer, (ConnectionLoss, SessionExpiredError)):  # else it is tried again, or is over
            self._drop_kept()

    def _drop_lasting(self, event: WatchedEvent) -> None:
        """Lasting watches end with the client's session alone. They hear when their connection is lost."""
        is_end = event.state in ENDING_STATES
        if is_end or not (self.is_connected or self._lasting_are_lost):
            watches = [*self._lasting]
            self._lasting_are_lost = not is_end
            if is_end:
                self._lasting.clear()
            for watch in watches:
                (watch.end if is_end else watch.tell)(event)

    def _set_lasting(self) -> None:
        """There is a connection again: the server is to keep the lasting watches. Then programs read again."""
        self._lasting_are_lost = False
        for request in self._lasting.requests(self.last_zxid):
            self.submit(request, OnAnswer(partial(self._have_set, request)))

    def _have_set(self, request: SetWatches2, answer: object) -> None:
        if isinstance(answer, Exception):  # the next connection does it
            return
        event = WatchedEvent(EventType.NONE, self._state, None)
        for path in (*request.single, *request.recursive):
            for watch in self._lasting.on(path):
                watch.tell(event)

    def _call_watches(self, watchers: set[Watch], event: WatchedEvent) -> list[Watch]:
        """Have each function called once, although a DirectoryWatch stands in for it beside itself.

        :returns: the functions.
        """
        for watcher in list(watchers):
            if isinstance(watcher, DirectoryWatch) and _is_in(watcher.watcher, watchers):
                watcher.leave()
            else:
                self.runtime.deliver(watcher, event)
        return [each for each in watchers if not isinstance(each, DirectoryWatch)]

    def forget_watch(self, path: str, watch: Watch | LastingWatch, of_children: bool | None = None) -> bool:
        """See :meth:`parkazoo.engine.ports.RequestPort.forget_watch`."""
        was_there, tables = self._lasting.discard(path, watch), (self._data_watchers, self._child_watchers)
        for table in tables if of_children is None else (tables[of_children],):
            watchers = table.get(path, set())
            was_there = was_there or watch in watchers
            watchers.discard(watch)
        self._tidy(path)
        return was_there

    def tidy(self, path: str) -> None:
        """A watch on a physical path was taken out of a table."""
        self.runtime.call(partial(self._tidy, path))

    def _tidy(self, path: str) -> None:
        """On the loop, which alone leaves watches: forget a path that has none any more."""
        for table in (self._child_watchers, self._data_watchers):
            if path in table and not table[path]:
                del table[path]
        if path not in self._data_watchers:
            self._kept.missing.discard(path)

    def watches_on(self, path: str) -> list[Watch | LastingWatch]:
        """The watches on the data and on the children of a physical path."""
        return [*self._lasting.on(path), *self._data_watchers.get(path, ()), *self._child_watchers.get(path, ())]

    def data_watches(self) -> list[tuple[str, Watch]]:
        """The watches on data and on existence, with the physical paths."""
        return _each_of(self._data_watchers)

    def child_watches(self) -> list[tuple[str, Watch]]:
        """The watches on children, with the physical paths."""
        return _each_of(self._child_watchers)

    def _session_callback(self, state: str) -> None:
        """On the loop. The client's state changes, then requests fail, then watches go."""
        if self.is_renewing and state not in FINAL_STATES:
            self._go_on_renewing(state)
            return
        if state == KeeperState.EXPIRED_SESSION and not self.owner.is_fatal(self):
            self._session_callback(KeeperState.CONNECTING)
            self._drop_kept()
            self._forget_session()
            return
        if state == self._state:
            return
        before = self._state
        if before == KeeperState.CONNECTED:
            self._kept.lose(self.last_zxid)
        self._become(state)
        if state in CONNECTED_STATES:
            self._lose_patience()
            self._set_lasting()
            self.owner.member_changed(self, state)
            if state == KeeperState.CONNECTED_RO:  # it may be behind, or cut off
                self._drop_kept()
            return
        self.holdings.lost(request for request, *_ in self._pending)
        self._be_patient()
        self.owner.member_changed(self, state)
        if state == KeeperState.CONNECTING and before in CLOSED_ERRORS:  # a new session; the queue waits for it
            return
        self._fail(self._pending, state)
        self._fail(self.backlog, state)
        if not self.owner.is_leaving:  # otherwise they are called when the client starts again
            self.drop_watches(state)
            if before == KeeperState.CONNECTED_RO:
                self._drop_kept()
        if state in CLOSED_ERRORS:
            self._lose_patience()
            self._forget_session()

    def _be_patient(self) -> None:
        """There is no connection: requests that wait for one have failed, and others may come."""
        self._lose_patience()
        if self._limit_s is not None:
            self._patience = Patience(self.runtime.loop, self._limit_s, self.backlog, self._fail_oldest)

    def _lose_patience(self) -> None:
        if self._patience is not None:
            self._patience.end()
            self._patience = None

    def _fail_oldest(self, count: int, error: Exception | None = None) -> None:
        """So many of the requests that wait for a connection. Without an error they get ConnectionLoss."""
        oldest = deque(self.backlog.take_oldest(count))
        if any(leaves_watch(request) for request, _ in oldest):
            self.owner.member_missed(self)
        self._fail(oldest, KeeperState.CONNECTING, error=error)

    def _go_on_renewing(self, state: str) -> None:
        """The session is being replaced: this member stays CONNECTING, whatever happens."""
        if state in CONNECTED_STATES:  # to close the session
            return
        self._pending.clear()
        if state == KeeperState.EXPIRED_SESSION:  # it is closed
            self.is_renewing = False
            self._forget_session()

    def _forget_session(self) -> None:
        self.memory.ended(self.last_zxid)
        self._reset_session()
        self.holdings.clear()
        self.last_zxid = 0
        self._protocol_version = None

    def _disown_pending(self, error: type[Exception]) -> None:
        """What waits for an answer has expired; the answers may still come. Nothing more is sent meanwhile."""
        pending = self._pending
        with self._connection.exclusive():
            self.is_renewing = True
            disowned = list(pending)
            pending.clear()
            pending.extend((request, None, xid) for request, _, xid in disowned)
        for request, reply, _ in disowned:
            if reply is not None:
                reply.set_exception(error_about(error, self.describe(request)))

    def _fail(
        self,
        requests: deque[Any],
        state: str,
        *,
        error: Exception | None = None,
        kind: type[Exception] | None = None,
    ) -> None:
        """Answer queued or pending requests; others may take from the deque at the same time.

        :param error: what they get. :param kind: of the error that each gets; without both, what the state says.
        """
        kind = kind or FAILURES.get(state, ConnectionLoss)
        while True:
            try:
                request, reply, *xid = requests.popleft()
            except IndexError:
                return
            if xid and xid[0] in self._suspects:
                self._doubtful.append((request, reply, *xid))
            elif reply is not None:
                reply.set_exception(error or error_about(kind, self.describe(request)))

    def note_ending(self, *, by_server: bool) -> bool:
        """On the loop: the connection has ended; what waits for an answer fails next, or by :meth:`note_attempt`.

        :returns: whether the same server is to be tried first: it matters whether it lives.
        """
        self._suspects = self.sizes.ended(by_server=by_server)
        return self.sizes.is_in_doubt

    def note_attempt(self, *, lives: bool) -> None:
        """On the loop: an attempt to connect has ended. Fails the requests that may have been too large.

        :param lives: see :meth:`Sizes.tried`.
        """
        self.sizes.tried(lives=lives)
        suspects, self._suspects = self._suspects, {}
        if not lives:
            self._fail(self._doubtful, KeeperState.CONNECTING)
        while self._doubtful:
            request, reply, xid = self._doubtful.popleft()
            if reply is not None:
                reply.set_exception(
                    error_about(
                        RequestTooLargeError,
                        self.describe(request),
                        after=f": {suspects[xid]:,} bytes may be more than the servers take (jute.maxbuffer): one "
                        "ended the connection",
                    )
                )


def _each_of(table: dict[str, set[Watch]]) -> list[tuple[str, Watch]]:
    return [(path, each) for path, watchers in list(table.items()) for each in list(watchers)]


def _is_in(function: object, watchers: set[Watch]) -> bool:
    """Whether the user's function is one of the watches itself. One that has no hash cannot be."""
    return isinstance(function, Hashable) and function in watchers
