"""The members of a session by hand: they connect to ensembles that a test plays, by its clock."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from kazoo.exceptions import ConnectionLoss, NoAuthError, NodeExistsError, NoNodeError, SessionExpiredError
from kazoo.protocol.states import KeeperState, ZnodeStat

from parkazoo.engine.ports import OnAnswer, OtherSession, Owner, give
from parkazoo.kazoo_private import CONNECTION_DROP, Create, GetData, SetData
from parkazoo.protocol.client_id import SessionId
from parkazoo.protocol.cluster_map import format_hosts
from parkazoo.protocol.holdings import leaves_watch
from parkazoo.protocol.placement import ENSEMBLE, MAP
from parkazoo.protocol.server_list import Server
from parkazoo.protocol.states import CLOSED_ERRORS
from tests.fakes.runtime import Runtime, Timer

CONNECT_S = 1.0  # an attempt to connect
SESSION_TIMEOUT_S = 10.0
CONFIG = "/zookeeper/config"
PASSWORD = b"p" * 16
STAT = ZnodeStat(*[0] * len(ZnodeStat._fields))


class Ensemble:
    """What a member talks to.

    :ivar data: by path; an exception is what a read gets.
    :ivar sessions: those that have not ended.
    """

    numbers = itertools.count(1)

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data
        self.is_up = True
        self.can_write = True
        self.refuses_credentials = self.loses_registrations = self.refuses_creates = False
        self.sessions: set[int] = set()
        self.seen: list[Any] = []  # requests

    def connect(self, session_id: int) -> int:
        """Resume that session, or begin one for 0; 0 if it has expired."""
        if not session_id:
            session_id = next(self.numbers)
            self.sessions.add(session_id)
        return session_id if session_id in self.sessions else 0

    def read(self, path: str) -> Any:
        found = self.data.get(path, NoNodeError())
        return found if isinstance(found, Exception) else (found, STAT)

    def answer(self, request: Any) -> Any:
        self.seen.append(request)
        if isinstance(request, GetData):
            return self.read(request.path)
        if isinstance(request, Create):
            if request.path in self.data:
                return NodeExistsError()
            if self.refuses_creates:
                return NoAuthError()
            self.data[request.path] = request.data
            return request.path
        if isinstance(request, SetData):
            if request.path not in self.data:
                return NoNodeError()
            self.data[request.path] = request.data
        return "/"


class Member:
    """The client of one ensemble: an attempt to connect takes CONNECT_S; answers come on the loop.

    :ivar has_ephemerals, has_watches: the test sets them; they end with the session.
    :ivar watches: on data, for a test that sets them. :ivar told: what the session asked of it.
    :ivar registered: the sessions that have registered. :ivar is_slow: the servers do not answer.
    """

    is_slow = False

    def __init__(
        self,
        owner: Owner[Member],
        runtime: Runtime,
        name: str,
        find: Callable[[str], list[Ensemble]],
        hosts: str,
    ) -> None:
        self.name = name
        self.hosts = hosts
        self.state = KeeperState.CLOSED
        self.session_id, self.session_password = 0, PASSWORD
        self.has_ephemerals = self.has_watches = False
        self.watches: list[tuple[str, Any]] = []
        self.ephemerals: list[str] = []
        self.begun_s: list[float] = []
        self.told: list[str] = []
        self.registered: list[int] = []
        self.limit_s: float | None = None
        self.ensemble: Ensemble | None = None  # where it has been connected last
        self._owner = owner
        self._runtime = runtime
        self._find = find
        self._tries = itertools.count()
        self._next: Timer | None = None  # attempt
        self._queue: deque[tuple[Any, Any]] = deque()
        self._to_close = 0  # a session
        self._is_stopping = False

    # ---- what the session asks of it ---------------------------------------------------------------

    @property
    def has_unanswered(self) -> bool:
        """All of them fail when the connection is lost."""
        return bool(self._queue)

    @property
    def is_connected(self) -> bool:
        return self.state == KeeperState.CONNECTED

    def begin(self) -> None:
        self.begun_s.append(self._runtime.now_s)
        self.state = KeeperState.CONNECTING
        self._try_later()

    def submit(self, request: Any, reply: Any) -> None:
        if request is CONNECTION_DROP:
            self._drop()
            return
        if self.state in CLOSED_ERRORS:
            if reply is not None:
                reply.set_exception(CLOSED_ERRORS[self.state]())
            return
        entry = request, reply
        self._queue.append(entry)
        self._runtime.call(self._serve)
        if self.limit_s is not None:
            self._runtime.call_later(self.limit_s, partial(self._lose_patience, entry))

    def settle(self, name: str, hosts: str | None, spare: Sequence[Server], limit_s: float | None) -> None:
        self.name = name
        self.hosts = hosts or self.hosts
        self.spare = format_hosts(spare)
        self.limit_s = limit_s

    def resume(self, session: SessionId) -> None:
        self.session_id, self.session_password = session
        self.has_ephemerals = True

    def fail_waiting(self, error: Exception | None) -> None:
        self._fail(error or ConnectionLoss())

    def renew(self, why: str, error: type[Exception]) -> None:
        self.told.append(f"renew: {why}")
        self._to_close = self.session_id
        self._forget_session()
        self.state = KeeperState.CONNECTING
        self._fail(error())
        self._try_later()

    def begin_stop(self) -> None:
        if self.begun_s and not self._is_stopping:
            self._is_stopping = True
            self._runtime.call_later(CONNECT_S, self._finish)

    def close(self) -> None:
        self.told.append("close")

    def abandon(self) -> None:
        self.told.append("abandon")

    def distrust(self, thread: int) -> None:
        self.told.append(f"distrust {thread}")
        self._drop()

    def drop_watches(self, state: str) -> None:
        self.told.append(f"drop watches: {state}")
        self.has_watches = False

    def forget_watch(self, path: str, watch: Any, of_children: bool | None = None) -> bool:
        self.told.append(f"forget a watch on {path}")
        was_there = (path, watch) in self.watches
        self.watches = [each for each in self.watches if each != (path, watch)]
        return was_there

    @property
    def has_unnamed_ephemerals(self) -> bool:
        return self.has_ephemerals and not self.ephemerals

    def ephemerals_below(self, path: str) -> list[str]:
        return [each for each in self.ephemerals if each.startswith(path + "/")]

    def forget_ephemerals(self, path: str) -> None:
        self.ephemerals = [each for each in self.ephemerals if not each.startswith(path + "/")]

    def watches_on(self, path: str) -> list[Any]:
        return [watch for watched, watch in self.watches if watched == path]

    def data_watches(self) -> list[tuple[str, Any]]:
        return self.watches

    def child_watches(self) -> list[tuple[str, Any]]:
        return []

    def read_map(self) -> None:
        self.submit(GetData(MAP, None), OnAnswer(self._have_read_map))

    def _have_read_map(self, answer: Any) -> None:
        self._owner.take_copy(self, answer, self.hosts.split(",")[0])

    def describe_troubles(self) -> str:
        return "no answer yet" if self._reached() else "it is down"

    # ---- what happens to it ------------------------------------------------------------------------

    def lose(self) -> None:
        """Its servers go down; they forget its session when it has timed out."""
        assert self.ensemble is not None
        self.ensemble.is_up = False
        self._runtime.call_later(SESSION_TIMEOUT_S, partial(self._time_out, self.ensemble, self.session_id))
        self._drop()

    def _time_out(self, ensemble: Ensemble, session_id: int) -> None:
        """On the servers."""
        if not ensemble.is_up:
            ensemble.sessions.discard(session_id)

    def _drop(self) -> None:
        if self.state == KeeperState.CONNECTING:
            return
        self._change(KeeperState.CONNECTING)
        self._fail(ConnectionLoss())
        if not self._owner.is_leaving:
            self.drop_watches(KeeperState.CONNECTING)
        self._try_later()

    def _try_later(self, delay_s: float = CONNECT_S) -> None:
        if self._next is not None:
            self._next.cancel()
        self._next = self._runtime.call_later(delay_s, self._try)

    def _reached(self) -> list[tuple[str, Ensemble]]:
        """Its servers that answer."""
        found = zip(self.hosts.split(","), self._find(self.hosts), strict=True)
        return [(address, ensemble) for address, ensemble in found if ensemble.is_up]

    def _try(self) -> None:
        """One server is asked: those that answer take turns."""
        if self._is_stopping or self.state != KeeperState.CONNECTING:
            return
        servers = self._reached()
        if servers:
            address, ensemble = servers[next(self._tries) % len(servers)]
            if ensemble.refuses_credentials:
                self._change(KeeperState.AUTH_FAILED)
                self._finish()
                return
            ensemble.sessions.discard(self._to_close)
            asked = self.session_id
            session_id = ensemble.connect(asked)
            if not session_id:
                self._expire()
            else:
                trouble = self._shake_hands(ensemble, address, session_id)
                if trouble is None:
                    self._connect(ensemble, session_id)
                    return
                if session_id != asked:
                    ensemble.sessions.discard(session_id)
                if isinstance(trouble, OtherSession):
                    self._try_later(0)
                    return
        self._try_later()

    def _shake_hands(self, ensemble: Ensemble, address: str, session_id: int) -> Exception | None:
        """As wire/handshake.py does."""
        must_register = session_id not in self.registered
        record = ensemble.read(ENSEMBLE)
        copy = None if self._owner.has_map and must_register else ensemble.read(MAP)
        trouble = self._owner.recognize(self, record, copy, address)
        if trouble is None and not must_register:
            self.read_config(ensemble)
        if trouble is not None or not (must_register and ensemble.can_write):
            return trouble
        create = self._owner.registration(self, session_id)
        if isinstance(ensemble.answer(create), NodeExistsError):
            ensemble.answer(SetData(create.path, create.data, -1))
        if ensemble.loses_registrations:
            return ConnectionLoss()
        trouble = self._owner.take_copy(self, ensemble.read(MAP), address)
        trouble = trouble or self._owner.unready(self)
        if trouble is None:
            self.registered.append(session_id)
            self.read_config(ensemble)
        return trouble

    def read_config(self, ensemble: Ensemble) -> None:
        self._owner.take_config(self, ensemble.read(CONFIG))

    def _connect(self, ensemble: Ensemble, session_id: int) -> None:
        self.ensemble, self.session_id = ensemble, session_id
        self._change(KeeperState.CONNECTED if ensemble.can_write else KeeperState.CONNECTED_RO)
        self._serve()

    def _expire(self) -> None:
        """A server has said so. See `_session_callback` in wire/member.py."""
        is_fatal = self._owner.is_fatal(self)
        if is_fatal:
            self._change(KeeperState.EXPIRED_SESSION)
            self._fail(SessionExpiredError())
            self.drop_watches(KeeperState.EXPIRED_SESSION)
        self._forget_session()
        if is_fatal:
            self._change(KeeperState.CONNECTING)

    def _forget_session(self) -> None:
        self.session_id = 0
        self.has_ephemerals = False

    def _serve(self) -> None:
        while self._queue and not self.is_slow and self.state in (KeeperState.CONNECTED, KeeperState.CONNECTED_RO):
            assert self.ensemble is not None
            request, reply = self._queue.popleft()
            answer = self.ensemble.answer(request)
            self.has_watches = self.has_watches or leaves_watch(request)
            give(reply, answer)

    def _lose_patience(self, entry: tuple[Any, Any]) -> None:
        """See :class:`parkazoo.wire.patience.Patience`."""
        if entry in self._queue:
            request, reply = entry
            self._queue.remove(entry)
            if leaves_watch(request):
                self._owner.member_missed(self)
            if reply is not None:
                reply.set_exception(ConnectionLoss())

    def _fail(self, error: Exception) -> None:
        while self._queue:
            _, reply = self._queue.popleft()
            if reply is not None:
                reply.set_exception(error)

    def _finish(self) -> None:
        if self.state == KeeperState.CLOSED:
            return
        self._serve()
        if self.ensemble is not None and self.ensemble.is_up:
            self.ensemble.sessions -= {self.session_id, self._to_close}
        self._forget_session()
        self._change(KeeperState.CLOSED)
        self._fail(ConnectionLoss())
        self._owner.member_ended(self)

    def _change(self, state: str) -> None:
        self.state = state
        self._owner.member_changed(self, state)
