"""A client's options, recipes, listeners and attributes, as programs written for kazoo use them."""

from __future__ import annotations

import logging
import sys
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

from kazoo.exceptions import ConnectionClosedError

from parkazoo import monitoring
from parkazoo.compat.creation import Unfinished, ensure_path
from parkazoo.compat.internals import (
    JointConnection,
    Table,
    Watchers,
    WatcherSet,
    child_places,
    data_places,
    watched_paths,
)
from parkazoo.compat.kazoo_member import KazooMember
from parkazoo.compat.listeners import Listeners
from parkazoo.compat.monitor import make_monitor
from parkazoo.compat.newer_calls import NewerCalls
from parkazoo.engine.ports import RequestPort
from parkazoo.protocol import asking
from parkazoo.protocol.asking import prefixed
from parkazoo.protocol.context import Context
from parkazoo.protocol.order import children, node
from parkazoo.protocol.placement import split
from parkazoo.protocol.steps import PathRequest
from parkazoo.recipe.barrier import Barrier, DoubleBarrier
from parkazoo.recipe.buckets import Spread as _Spread
from parkazoo.recipe.counter import Counter
from parkazoo.recipe.exactly_once import ExactlyOnce
from parkazoo.recipe.lock import Lock, ReadLock, Semaphore, WriteLock
from parkazoo.recipe.partitioner import SetPartitioner
from parkazoo.recipe.party import Party, ShallowParty
from parkazoo.recipe.queue import LockingQueue, Queue
from parkazoo.recipe.tree_cache import TreeCache as _TreeCache
from parkazoo.recipe.waits import Waits
from parkazoo.recipe.watchers import ChildrenWatch, DataWatch
from parkazoo.types import ACLs, AddWatchMode, KazooRetry, handlers
from parkazoo.types.client import Listener
from parkazoo.types.handlers import Log
from parkazoo.types.znodes import AsyncResult, Watch
from parkazoo.wire.about import About
from parkazoo.wire.handler import ThreadingHandler
from parkazoo.wire.runtime import LoopRuntime

# typing.get_type_hints() needs these names while a program runs, and Python 3.10 has not all of them.
if TYPE_CHECKING:
    from typing_extensions import Unpack
else:
    if sys.version_info >= (3, 11):
        from typing import Unpack
    else:
        Unpack = type

Find = Callable[[Context, Sequence[RequestPort], str], list[Table]]
P = ParamSpec("P")
T = TypeVar("T")
RECIPES: tuple[type, ...] = (
    Barrier,
    ChildrenWatch,
    Counter,
    DataWatch,
    DoubleBarrier,
    Lock,
    LockingQueue,
    Party,
    Queue,
    ReadLock,
    Semaphore,
    SetPartitioner,
    ShallowParty,
    WriteLock,
)
PATIENCE = 1 / 3  # of the session timeout: how long answers may wait for state listeners


class CompatibleClient(NewerCalls):
    """Has the options, recipes and attributes of a KazooClient. An attribute of one connection is the first
    ensemble's.
    """

    _session: Any = None  # the engine's, from the first start on
    _runtime: LoopRuntime  # the session's
    _changed_by = ""  # the ensemble by whose connection the state changes just now
    _first_session: tuple[int | None, bytes] = (None, b"")  # a client_id to begin with

    def __init__(
        self,
        hosts: str | list[str] = "127.0.0.1:2181",
        timeout: float = 10.0,
        client_id: tuple[int, bytes] | None = None,
        handler: handlers.Handler | None = None,
        default_acl: ACLs | None = None,
        auth_data: Iterable[tuple[str, str]] | None = None,
        sasl_options: dict[str, Any] | None = None,
        read_only: bool | None = None,
        randomize_hosts: bool = True,
        connection_retry: KazooRetry | dict[str, Any] | None = None,
        command_retry: KazooRetry | dict[str, Any] | None = None,
        logger: Log | None = None,
        keyfile: str | None = None,
        keyfile_password: str | None = None,
        certfile: str | None = None,
        ca: str | None = None,
        use_ssl: bool = False,
        verify_certs: bool = True,
        check_hostname: bool = False,
        *,
        give_up_after: float | None = None,
        consistency: Literal["ensemble", "total"] = "ensemble",
        listeners: Iterable[monitoring.Listener] = (),
        counters: bool = False,
        **kwargs: Unpack[handlers.DeprecatedRetryOptions],
    ) -> None:
        """:param hosts: ``"host:port,host:port/chroot"``, or a list of these parts: servers of any ensembles.
        :param timeout: session timeout in seconds; servers have limits of their own.
        :param client_id: of an earlier client, to resume its session; see :attr:`client_id`.
        :param handler: kazoo's for gevent or eventlet, one object for each client. Threads by default.
        :param default_acl: ACL of znodes created without one.
        :param auth_data: schemes and credentials; see :meth:`add_auth`.
        :param sasl_options: for pure-sasl: mechanism, username, password, and so on.
        :param read_only: accept servers without a quorum; they only answer reads.
        :param randomize_hosts: try servers in any order.
        :param connection_retry: the pauses between attempts to connect.
        :param command_retry: the attempts of :meth:`retry`, and the pauses between them.
        :param keyfile: with `certfile`, this client's key and certificate for TLS; PEM files.
        :param ca: a PEM file with the certificates to trust; by default the system's.
        :param give_up_after: seconds of SUSPENDED after which the client becomes LOST and gives up its sessions on
            all ensembles. By default it stays SUSPENDED until the ensemble is back.
        :param consistency: ``"total"``: the reads and writes of all clients made so have one order on all
            ensembles, as on one ZooKeeper. Each change of ensemble waits for earlier answers, and a read then
            sends a write first. ``"ensemble"``: each ensemble has an order of its own.
        :param listeners: hear of requests, connections, states and so on; see
            :class:`parkazoo.monitoring.Listener`.
        :param counters: count requests and their seconds for :meth:`counters`.
        :raises ConfigurationError: the options contradict each other.
        :raises TypeError: one of `listeners` is no Listener.
        :raises ValueError: `give_up_after` is not above 0, or `consistency` is neither of the two.
        """
        if give_up_after is not None and not give_up_after > 0:
            raise ValueError(f"give_up_after must be seconds above 0, not {give_up_after!r}")
        if consistency not in ("ensemble", "total"):
            raise ValueError(f"consistency must be 'ensemble' or 'total', not {consistency!r}")
        super().__init__(
            hosts,
            timeout,
            client_id,
            handler or ThreadingHandler(),
            default_acl,
            auth_data,
            sasl_options,
            read_only,
            randomize_hosts,
            connection_retry,
            command_retry,
            logger or logging.getLogger("parkazoo"),
            keyfile,
            keyfile_password,
            certfile,
            ca,
            use_ssl,
            verify_certs,
            check_hostname,
            **kwargs,
        )
        self.monitor = make_monitor(listeners, counters, self.handler, self.unchroot, self.logger)
        self._about = About()
        self.give_up_after_s = give_up_after
        self.has_total_order = consistency == "total"
        self._connection: Any = JointConnection(self._members, self._connection.sasl_options)
        self._data_watchers = Watchers(
            partial(self._watchers_on, data_places, node), partial(self._watched, of_children=False)
        )
        self._child_watchers = Watchers(
            partial(self._watchers_on, child_places, children), partial(self._watched, of_children=True)
        )
        self._settled = self.handler.event_object()
        self._starting = self.handler.lock_object()
        self._deferred_lock = self.handler.rlock_object()
        self.patience_s = self._session_timeout / 1000 * PATIENCE
        self.listeners = Listeners(self.handler, self._call_listeners, self.patience_s, self._resume)
        self.exactly_once = ExactlyOnce(self)
        self.waits = Waits(self.handler)
        self._unfinished = Unfinished()
        self._retry = self.new_retry(self.waits.pause)
        for recipe in RECIPES:
            setattr(self, recipe.__name__, partial(recipe, self))

    def TreeCache(self, path: str) -> _TreeCache:
        """See :class:`parkazoo.recipe.tree_cache.TreeCache`."""
        return _TreeCache(self, path)

    def Spread(self, path: str, buckets: int) -> _Spread:
        """See :class:`parkazoo.recipe.buckets.Spread`."""
        return _Spread(self, path, buckets)

    def once(self, func: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Retries a write as ``retry`` does, but does it exactly once, however often the connection is lost.

        ``client.once(client.create, "/queue/item-", b"...", sequence=True)``. The write is sent in a transaction
        that also sets an ephemeral znode of this client; after a lost connection that znode shows whether the
        write was done. See docs/design/once.md. It waits while the session lives. Threads do not wait for each
        other. If a signal handler or gevent.Timeout ends the wait, the write may have been done, or may be done
        later, but never twice.

        :param func: this client's ``create``, ``set`` or ``delete``, or the ``commit`` of one of its transactions.
        :returns: the result of `func`. If an answer was lost, the stat of a ``set`` may be newer than the write.
        :raises SessionExpiredError, ConnectionClosedError: the session has ended. The message says so if the write
            may have been done; otherwise it was not.
        :raises AnswerLostError: the write was done, its answer was lost, and since then the znode was deleted or
            its directory has moved.
        :raises TypeError: `func` is another function, or has ``include_data`` or ``recursive``.
        :raises RequestTooLargeError: the servers do not take so many bytes; the write was not done.
        :raises: every other error of `func`.
        """
        result: T = self.exactly_once(func, args, kwargs)
        return result

    def make_above(self, request: PathRequest, acl: ACLs | None) -> None:
        """Creates all missing levels above the znode of a create, above the chroot too."""
        result: AsyncResult[object] = self.handler.async_result()
        ensure_path(self, split(request.path)[0], acl).pass_on(self._unfinished.reply(result))
        result.get()

    # ---- what programs and recipes reach for --------------------------------------------------

    def new_retry(self, sleep: Callable[[float], object]) -> KazooRetry:
        """Returns a copy of the policy of :meth:`retry` with other pauses."""
        again = self._retry.copy()
        again.sleep_func = sleep
        return again

    def withdraw_watch(self, path: str, watch: Watch) -> None:
        """Removes a watch from the data and the children of a path. An event under way may still call it."""
        full = prefixed(self.chroot, path)
        for table in (self._data_watchers, self._child_watchers):
            table[full].discard(watch)

    def add_watch(self, path: str, watch: Watch, mode: int = AddWatchMode.PERSISTENT) -> None:
        """Leaves a watch that stays until it is removed, on a map that has not grown; ZooKeeper 3.6.

        PERSISTENT tells of each change of the znode, and of its list of children. PERSISTENT_RECURSIVE, with one
        ensemble, tells of each znode at or below it that is created, set or deleted. If data and children are on
        two ensembles, the events of the two have no order.

        When a connection is lost it gets the event NONE, and another with state CONNECTED once it is set again.
        Read again then, for what came between is not told. It ends with the session, and with the event NONE of
        state CLOSED when the map begins to grow. Before ZooKeeper 3.9 set no other watch on the same path.

        :raises UnimplementedError: the map, or an ensemble, has no such watch; the message says what to do.
        """
        self.add_watch_async(path, watch, mode).get()

    def add_watch_async(self, path: str, watch: Watch, mode: int = AddWatchMode.PERSISTENT) -> AsyncResult[None]:
        """See :meth:`add_watch`."""
        watched, kind = asking.add_watch(self.chroot, path, watch, mode)
        result: AsyncResult[None] = self.handler.async_result()
        if (session := self._session_for(result)) is not None:
            session.add_watch(watched, watch, kind, result)
        return result

    def remove_watches(self, path: str, watch: Watch | None = None) -> bool:
        """Removes watches on the data, the existence and the children of a path; the servers forget them.

        A watch whose call has no answer yet stays. An event under way may still call one that was removed. A watch
        that is being set by another call may get the event NONE: set it again.

        :param watch: only those of this function.
        :returns: whether there was one.
        """
        return self.remove_watches_async(path, watch).get()

    def remove_watches_async(self, path: str, watch: Watch | None = None) -> AsyncResult[bool]:
        """See :meth:`remove_watches`."""
        watched = asking.watched(self.chroot, path, watch)
        result: AsyncResult[bool] = self.handler.async_result()
        if (session := self._session_for(result)) is not None:
            session.remove_watches(watched, watch, result)
        return result

    def _session_for(self, reply: Any) -> Any:
        """Returns the session; None without one, and then the reply has the error."""
        if self.listeners.is_calling:
            self.listeners.before_use()
        if self._session is None:
            reply.set_exception(ConnectionClosedError("the client is not connected: start it"))
        return self._session

    def _members(self) -> tuple[KazooMember, ...]:
        """Returns all members; the first is the one with which the session began."""
        session = self._session
        if session is None:
            return ()
        return (
            session.roster.first,
            *(member for member in session.roster.members if member is not session.roster.first),
        )

    def _watchers_on(
        self,
        find: Find,
        key: Callable[[str], str],
        path: str,
    ) -> WatcherSet:
        session = self._session
        if session is None or session.driver is None:
            return WatcherSet([], lambda watcher: None)
        places = find(session.driver.context, session.roster.ports, path)
        return WatcherSet(places, partial(session.watching.leave, key(path)))

    def call_later(self, delay_s: float, call: Callable[[], None]) -> None:
        """Has the loop call a function that returns at once, after `delay_s`; perhaps not, if the client stops
        before.
        """

        def begin() -> None:
            self._runtime.call_later(delay_s, call)

        self._runtime.call(begin)

    def _watched(self, of_children: bool) -> list[str]:
        return watched_paths(self._members(), of_children)

    @property
    def last_zxid(self) -> int:
        """Returns the last zxid of the first ensemble; zxids of different ensembles cannot be compared."""
        return int(self._session.roster.first.last_zxid) if self._session else 0

    @property
    def _queue(self) -> Any:
        return self._session.roster.first.backlog if self._session else deque()

    @property
    def _pending(self) -> Any:
        return self._session.roster.first._pending if self._session else deque()

    @property
    def _protocol_version(self) -> int | None:
        return self._session.roster.first._protocol_version if self._session else None

    @property
    def _session_id(self) -> int | None:
        return self._session.roster.first._session_id if self._session else self._first_session[0]

    @_session_id.setter
    def _session_id(self, number: int | None) -> None:
        self._first_session = number, self._first_session[1]

    @property
    def _session_passwd(self) -> bytes:
        return self._session.roster.first._session_passwd if self._session else self._first_session[1]

    @_session_passwd.setter
    def _session_passwd(self, password: bytes) -> None:
        self._first_session = self._first_session[0], password
        if self._session is not None:
            self._session.roster.first._session_passwd = password

    def check_process(self) -> None:
        """
        :raises ForkError: this is a child of the process that has started the client.
        """

    def _reset(self) -> None:
        """Overrides kazoo's: queues, watches and session ids are the members'."""
        self._reset_session()

    def _reset_session(self) -> None:
        self._first_session = None, bytes(16)

    def _reset_watchers(self) -> None:
        """Overrides kazoo's: each member tells its own watches."""

    def _notify_pending(self, state: str) -> None:
        """Overrides kazoo's: each member fails its own requests."""

    # ---- state listeners -----------------------------------------------------------------------

    def _make_state_change(self, state: str) -> None:
        """Overrides kazoo's: a listener may wait for what this client does."""
        with self.listeners.lock:  # the loop and a thread in stop() may both say LOST
            old, self.state = self.state, state
        is_new = old != state
        if is_new and self.monitor is not None:
            self.monitor.tell(monitoring.StateChanged(old, state, self._changed_by))
        if is_new and self.state_listeners:
            loop = self._runtime.loop if self._session is not None and self._runtime.loop.is_here() else None
            self.listeners.tell(state, loop)

    def _resume(self) -> None:
        for member in self._members():
            member.go_on()

    def _call_listeners(self, state: str) -> None:
        for listener in list(self.state_listeners):
            self._call_listener(listener, state)

    def _call_listener(self, listener: Listener, state: str) -> None:
        try:
            if listener(state) is True:
                self.remove_listener(listener)
        except BaseException as error:
            if not (isinstance(error, SystemExit) and self._stopped.is_set()):  # else the program is about to exit
                self.logger.exception("Error in connection state listener")
