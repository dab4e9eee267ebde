"""ParKazooClient for asyncio."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Literal, TypeVar
from weakref import WeakSet

from kazoo.exceptions import (
    AuthFailedError,
    ConfigurationError,
    ConnectionClosedError,
    ConnectionLoss,
    WriterNotClosedException,
)
from kazoo.protocol.states import KazooState, KeeperState
from kazoo.retry import KazooRetry

from parkazoo import monitoring
from parkazoo.aio.async_calls import plain
from parkazoo.aio.async_deferred import AsyncDefersWrites
from parkazoo.aio.async_dict import AsyncSharing
from parkazoo.aio.async_newer_calls import AsyncNewerCalls
from parkazoo.aio.async_recipes import AsyncRecipes
from parkazoo.aio.asyncio_loop import AsyncioLoop
from parkazoo.aio.asyncio_runtime import AsyncioRuntime
from parkazoo.aio.client_states import ClientStates
from parkazoo.aio.ending import Ending
from parkazoo.aio.future_reply import FutureReply
from parkazoo.compat.monitor import make_monitor
from parkazoo.engine.ports import Reply, give
from parkazoo.engine.session import Session
from parkazoo.errors import ForkError
from parkazoo.kazoo_private import Create, Exists, collect_hosts, normpath
from parkazoo.protocol import asking
from parkazoo.protocol.asking import prefixed
from parkazoo.protocol.client_id import SessionId
from parkazoo.protocol.cluster_map import FIRST, format_hosts
from parkazoo.protocol.placement import MAP
from parkazoo.protocol.states import CLOSED_ERRORS, CONNECTED_STATES, kazoo_state
from parkazoo.protocol.steps import Request
from parkazoo.types import ACLs, AddWatchMode
from parkazoo.types.client import Listener
from parkazoo.types.handlers import Log
from parkazoo.types.znodes import Watch
from parkazoo.wire.about import About
from parkazoo.wire.member import FINAL_STATES, Member, MemberOptions
from parkazoo.wire.sasl import verify_sasl
from parkazoo.wire.tls import Tls, make_context

UNSETTLED = KeeperState.CONNECTING
CHROOT_TIMEOUT_S = 1.0
LISTENERS_S = 1.0  # at most, until they have heard of all at the end
ClientT = TypeVar("ClientT", bound="ParKazooClient")


class ParKazooClient(AsyncRecipes, AsyncNewerCalls, AsyncDefersWrites, AsyncSharing):
    """A client of several ensembles, on the event loop that runs when it is started.

    ``async with ParKazooClient(hosts) as zk`` starts and stops it. It has no thread, and no task of its own but
    those that withdraw what a cancelled recipe has left. So a loop that is blocked for the session timeout loses
    the session, for nobody pings meanwhile. Only the thread of its loop may use it.

    :class:`parkazoo.ParKazooClient` has what the two have in common: states, sessions and errors.

    :ivar state: its KazooState. :ivar client_state: its KeeperState.
    """

    runtime_type: type[AsyncioRuntime] = AsyncioRuntime
    """Runs the session."""

    def __init__(
        self,
        hosts: str | list[str] = "127.0.0.1:2181",
        timeout: float = 10.0,
        *,
        client_id: SessionId | None = None,
        default_acl: ACLs | None = None,
        auth_data: Iterable[tuple[str, str]] | None = None,
        sasl_options: Mapping[str, object] | None = None,
        read_only: bool = False,
        randomize_hosts: bool = True,
        logger: Log | None = None,
        keyfile: str | None = None,
        keyfile_password: str | None = None,
        certfile: str | None = None,
        ca: str | None = None,
        use_ssl: bool = False,
        verify_certs: bool = True,
        check_hostname: bool = False,
        give_up_after: float | None = None,
        consistency: Literal["ensemble", "total"] = "ensemble",
        listeners: Iterable[monitoring.Listener] = (),
        counters: bool = False,
    ) -> None:
        """:param hosts: ``"host:port,host:port/chroot"``, or a list of these parts: servers of any ensembles.
        :param timeout: session timeout in seconds; servers have limits of their own.
        :param client_id: of an earlier client, to resume its session at the first start; see :attr:`client_id`.
        :param default_acl: ACL of znodes created without one.
        :param auth_data: schemes and credentials, such as ``("digest", "user:password")``.
        :param sasl_options: for pure-sasl: mechanism, username, password, and so on.
        :param read_only: accept servers without a quorum; they only answer reads.
        :param randomize_hosts: try servers in any order.
        :param keyfile: with `certfile`, this client's key and certificate for TLS; PEM files.
        :param ca: a PEM file with the certificates to trust; by default the system's.
        :param give_up_after: seconds of SUSPENDED after which the client becomes LOST and gives up its sessions on
            all ensembles. By default it stays SUSPENDED until the ensemble is back.
        :param consistency: ``"total"``: the reads and writes of all clients made so have one order on all
            ensembles; ``"ensemble"``: each ensemble has an order of its own.
        :param listeners: hear of the client's work, each on a thread of its own; see
            :class:`parkazoo.monitoring.Listener`.
        :param counters: count requests and their seconds for :meth:`counters`.
        :raises ValueError: `give_up_after` is not above 0, or `consistency` is neither of the two.
        """
        if give_up_after is not None and not give_up_after > 0:
            raise ValueError(f"give_up_after must be seconds above 0, not {give_up_after!r}")
        if consistency not in ("ensemble", "total"):
            raise ValueError(f"consistency must be 'ensemble' or 'total', not {consistency!r}")
        super().__init__()
        self.hosts: list[tuple[str, int]]
        self.hosts, chroot = collect_hosts(hosts)
        self.chroot = normpath(chroot) if chroot else ""
        self.default_acl = default_acl
        self.auth_data = set(auth_data or ())
        self.sasl_options = sasl_options
        self.read_only = read_only
        self.randomize_hosts = randomize_hosts
        self.tls = Tls(use_ssl, ca, certfile, keyfile, keyfile_password, verify_certs, check_hostname)
        self._resumed = client_id
        self.logger: Log = logger or logging.getLogger("parkazoo")
        self.session_timeout_s = float(timeout)
        self.give_up_after_s = give_up_after
        self.has_total_order = consistency == "total"
        self.monitor = make_monitor(listeners, counters, None, self.unchroot, self.logger)
        self.client_state: str = KeeperState.CLOSED
        self.state: str = KazooState.LOST
        self._about = About()
        self._listeners: dict[Listener, None] = {}
        self._ends: dict[Callable[[None], None], None] = {}  # called with None when no further state comes
        self._ending: Ending | None = None
        self._process = 0

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.describe_hosts()}{self.chroot} {self.client_state}>"

    async def __aenter__(self: ClientT) -> ClientT:
        """Starts the client, as :meth:`start` does."""
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stops the client, whatever the block raised."""
        await self.stop()

    # ---- the session -----------------------------------------------------------------------------

    async def start(self, timeout: float | None = 15) -> None:
        """Connects to the first ensemble that answers, and reads the cluster map there.

        After an error nothing keeps running; nor if it is cancelled.

        :param timeout: seconds to wait; None: for ever.
        :raises ClusterMapError: the map is missing, damaged, of a newer format, or does not fit the servers; at
            once.
        :raises AuthFailedError: the servers refuse the credentials.
        :raises ConfigurationError: the TLS or SASL options cannot be used; at once.
        :raises TimeoutError: it names the servers that were not reached, and why.
        :raises RuntimeError: the client runs on another loop.
        """
        self._verify_loop()
        if self._session is not None and self._session.is_leaving and (ending := self._end()) is not None:
            await asyncio.wait([ending.end])  # of a session that has failed, or is being stopped
        if self._loop is None:
            await self._verify_options()
        session = self._begin()
        try:
            await self._settle(timeout)
            if not self.connected:
                raise self._failure(session, timeout)
            lacks_chroot = bool(self.chroot) and await self._lacks_chroot()
        except BaseException:
            session.leaves_sessions = True
            with suppress(WriterNotClosedException):  # the error of the start counts
                await self.stop()
            raise
        if lacks_chroot:
            warnings.warn(
                "No chroot path exists, the chroot path should be created before normal use.", stacklevel=2
            )

    def _verify_loop(self) -> None:
        """That it does not run on another loop. If that is closed, the client has ended, and listeners and watches
        hear of it now.

        :raises RuntimeError: it does.
        """
        if self._loop is None or self._loop is asyncio.get_running_loop():
            return
        if not self._loop.is_closed():
            raise RuntimeError("the client runs on another event loop: stop it there first")
        assert self._session is not None
        self._session.abandon(ConnectionClosedError("its event loop was closed before the client was stopped"))
        self._cleanups.clear()  # they will never end
        self._changes.clear()
        self.listings.forget()
        self._runtime.move_to(asyncio.get_running_loop())
        self._have_ended()

    async def _verify_options(self) -> None:
        """TLS reads files."""
        if self.sasl_options is not None:
            verify_sasl(self.sasl_options)
        if self.tls.use_ssl:
            loop, verified = AsyncioLoop(asyncio.get_running_loop()), self._new_future()

            def verify() -> None:
                outcome: Exception | None = None
                try:
                    make_context(self.tls)
                except Exception as error:
                    outcome = error
                loop.call(partial(give, FutureReply(verified), outcome))

            loop.run_blocking(verify)
            await verified

    def _begin(self) -> Session[Member]:
        if self._session is not None and self._loop is not None:
            return self._session
        self._process = os.getpid()
        self._loop = asyncio.get_running_loop()
        self._runtime = self.runtime_type(self._loop, self.monitor)
        self.client_state = KeeperState.CONNECTING
        self.session_number += 1
        resumed, self._resumed = self._resumed, None
        self._session = Session(self, self._runtime, self._make_member, resumed)
        _started.add(self)
        self._session.begin()
        return self._session

    async def _settle(self, timeout_s: float | None) -> None:
        """Wait until it is connected, or will not be."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self.client_state == UNSETTLED:
                    await self.changed(None)

    def _failure(self, session: Session[Member], timeout_s: float | None) -> Exception:
        """Why it is not connected."""
        if session.failure is not None:
            return session.failure
        if self.client_state == KeeperState.AUTH_FAILED:
            return AuthFailedError()
        if self.client_state == KeeperState.CLOSED:
            return ConnectionClosedError("the client was stopped")
        message = (
            f"Connection time-out: no session with {session.roster.describe_missing()} within {timeout_s} s: "
            f"are the servers running and reachable, and is {MAP} right? See `parkazoo map check`"
        )
        if session.roster.cluster_map is None:
            message += ". Servers of any ensemble will do: give some of several in hosts"
        return TimeoutError(message)

    async def _lacks_chroot(self) -> bool:
        """Whether the chroot certainly does not exist. It waits a second at most for an ensemble."""
        try:
            async with asyncio.timeout(CHROOT_TIMEOUT_S):
                return await self._ask(Exists(self.chroot, None)) is None
        except (ConnectionLoss, TimeoutError):
            return False

    async def stop(self) -> None:
        """Finishes the operations that were issued, then closes the sessions on all ensembles and so deletes their
        ephemerals. Each watch gets the event NONE.

        It takes at most the session timeout for each of the two, or ten seconds for the second if that is longer.
        If it is cancelled, it goes on by itself.

        :raises WriterNotClosedException: a server has not answered within that time.
        :raises RuntimeError: the client runs on another loop.
        """
        self._verify_loop()
        if (ending := self._end()) is not None:
            await asyncio.wait([ending.end])
            await self.cleaned()
            await self._heard()
            ending.end.result()

    async def _heard(self) -> None:
        """Waits until each listener has heard of all so far, a second at most."""
        if self.monitor is None:
            return
        loop, has_heard = asyncio.get_running_loop(), asyncio.Semaphore(0)

        def tell() -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(has_heard.release)

        with suppress(TimeoutError):
            async with asyncio.timeout(LISTENERS_S):
                for _ in range(self.monitor.when_heard(tell)):
                    await has_heard.acquire()

    def leave(self) -> asyncio.Future[None]:
        """Begins to end all connections, and leaves the sessions to their time-out. Operations without an answer
        raise ConnectionLoss. A client with this :attr:`client_id` may go on with the sessions.

        :returns: a future that is done at the end.
        :raises RuntimeError: the client runs on another loop.
        """
        self._verify_loop()
        if self._session is not None:
            self._session.leaves_all = True
        ending = self._end()
        if ending is not None:
            return asyncio.shield(ending.end)
        ended: asyncio.Future[None] = self._new_future()
        ended.set_result(None)
        return ended

    def _end(self) -> Ending | None:
        """Have it end; None if it does not run."""
        session = self._session
        if self._ending is None and session is not None and self._loop is not None:
            for each in self._deferred:
                each.end()
            self._ending = Ending(
                session,
                self._runtime,
                self.session_timeout_s,
                self.connected and not session.leaves_all,
                self._is_issuing,
                self._have_ended,
            )
        return self._ending

    def _is_issuing(self) -> bool:
        return self._unfinished.has_any() or self._has_deferred()

    def _have_ended(self) -> None:
        assert self._session is not None
        self._give_up_deferred()
        self._session.drop_watches(KeeperState.CLOSED)  # now: the next start may be on another loop
        self._loop = self._ending = None
        if self.client_state not in FINAL_STATES:
            self._change(KeeperState.CLOSED)

    @property
    def connected(self) -> bool:
        """Returns whether the client is connected."""
        return self.client_state in CONNECTED_STATES

    @property
    def client_id(self) -> SessionId | None:
        """Returns the client's id and password; ``ParKazooClient(client_id=...)`` resumes the client. None if not
        connected. See :attr:`parkazoo.ParKazooClient.client_id`.
        """
        return self._session.client_id if self._session is not None and self.connected else None

    @property
    def granted_timeout_s(self) -> float | None:
        """Returns the session time-out that servers have granted, in seconds, the shortest of all. None
        if the client has no session.
        """
        members = () if self._session is None else self._session.roster.members
        return min((each.granted_ms / 1000 for each in members if each.granted_ms), default=None)

    def add_listener(self, listener: Listener) -> None:
        """Adds a plain function, which the loop calls with each new KazooState; one that returns True is removed.

        It is called before any later answer wakes its task.
        """
        if not callable(listener):
            raise ConfigurationError("listener must be callable")
        if inspect.iscoroutinefunction(listener):
            raise TypeError("a listener is a plain function, not a coroutine function")
        self._listeners[listener] = None

    def remove_listener(self, listener: Listener) -> None:
        """Removes a listener, if it is one."""
        self._listeners.pop(listener, None)

    def states(self) -> ClientStates:
        """Returns an iterator of the client's KazooState, and of each later one; none is left out.

        It ends when the client stops, or by its ``aclose()``.

        ``async for state in zk.states()``. Its steps raise ConnectionClosedError if the client does not run.
        """
        return ClientStates(self)

    def _change(self, state: str, ensemble: str = "") -> None:
        """As with kazoo, it stays LOST until there is a connection again.

        :param ensemble: whose loss has changed it; empty: no one's.
        """
        was_closed, self.client_state = self.client_state in CLOSED_ERRORS, state
        before = self.state
        if not (was_closed and state == KeeperState.CONNECTING):
            self.state = kazoo_state(state)
        self.wake()
        if self.state != before:
            if self.monitor is not None:
                self.monitor.tell(monitoring.StateChanged(before, self.state, ensemble))
            if self.state == KazooState.LOST:
                self.session_number += 1  # now: an answer from before the end may wake its task only later
                self.lose()
            self._runtime.call(partial(self._tell, self.state, list(self._listeners)))
        if state in FINAL_STATES:
            self._runtime.call(self._end_states)

    def _end_states(self) -> None:
        """Behind the last one."""
        for end in list(self._ends):
            end(None)

    def _tell(self, state: str, listeners: list[Listener]) -> None:
        for listener in listeners:
            if listener in self._listeners:  # still
                try:
                    if listener(state) is True:
                        self.remove_listener(listener)
                except (Exception, asyncio.CancelledError):
                    self.logger.exception("Error in connection state listener")

    # ---- requests --------------------------------------------------------------------------------

    def forget_watch(self, path: str, watch: Watch) -> None:
        """See :meth:`AsyncCalls.forget_watch`."""
        if self._session is not None and self._session.watching is not None:
            self._session.watching.forget(prefixed(self.chroot, path), watch)

    def _call(self, request: Request, reply: Reply) -> None:
        """Issues a request."""
        state, session = self.client_state, self._session
        if session is None or state in CLOSED_ERRORS:
            failure = None if session is None else session.failure
            reply.set_exception(failure or CLOSED_ERRORS.get(state, ConnectionClosedError)())
        elif self._own_operations is None:
            session.call(request, reply)
        else:
            self._own_operations.call(request, reply)

    async def add_watch(self, path: str, watch: Watch, mode: int = AddWatchMode.PERSISTENT) -> None:
        """Leaves a watch that stays until it is removed, on a map that has not grown; ZooKeeper 3.6.

        PERSISTENT tells of each change of the znode, and of its list of children. PERSISTENT_RECURSIVE, with one
        ensemble, tells of each znode at or below it that is created, set or deleted. If data and children are on
        two ensembles, the events of the two have no order.

        When a connection is lost it gets the event NONE, and another with state CONNECTED once it is set again.
        Read again then, for what came between is not told. It ends with the session, and with the event NONE of
        state CLOSED when the map begins to grow. Before ZooKeeper 3.9 set no other watch on the same path.

        :raises UnimplementedError: the map, or an ensemble, has no such watch; the message says what to do.
        """
        await self.add_watch_async(path, watch, mode)

    def add_watch_async(
        self, path: str, watch: Watch, mode: int = AddWatchMode.PERSISTENT
    ) -> asyncio.Future[None]:
        """See :meth:`add_watch`."""
        watched, kind = asking.add_watch(self.chroot, path, plain(watch), mode)
        future: asyncio.Future[None] = self._new_future()
        if self._session is None:
            future.set_exception(ConnectionClosedError("the client is not connected: start it"))
        else:
            self._session.add_watch(watched, watch, kind, FutureReply(future))
        return future

    async def remove_watches(self, path: str, watch: Watch | None = None) -> bool:
        """Removes watches on the data, the existence and the children of a path; the servers forget them.

        A watch whose call has no answer yet stays. An event under way may still call one that was removed. A watch
        that is being set by another call may get the event NONE: set it again.

        :param watch: only those of this function.
        :returns: whether there was one.
        """
        return await self.remove_watches_async(path, watch)

    def remove_watches_async(self, path: str, watch: Watch | None = None) -> asyncio.Future[bool]:
        """See :meth:`remove_watches`."""
        watched = asking.watched(self.chroot, path, watch)
        future: asyncio.Future[bool] = self._new_future()
        if self._session is None:
            future.set_exception(ConnectionClosedError("the client is not connected: start it"))
        else:
            self._session.remove_watches(watched, watch, FutureReply(future))
        return future

    def _new_future(self) -> asyncio.Future[Any]:
        self.verify_here()
        return asyncio.get_running_loop().create_future()

    # ---- for the session: see parkazoo.engine.ports.Client ---------------------------------------

    def describe_hosts(self) -> str:
        """Returns the hosts of the next start as ``"h:p,h:p"``."""
        return format_hosts(self.hosts)

    def registration(self, session: int, client: int, epoch: int) -> Create:
        """See :meth:`parkazoo.engine.ports.Client.registration`."""
        return self._about.registration(session, client, epoch, bool(self.auth_data))

    def session_changed(self, state: str, ensemble: str) -> None:
        """See :meth:`parkazoo.engine.ports.Client.session_changed`."""
        if state == KeeperState.EXPIRED_SESSION:
            self.session_number += 1
        if state != self.client_state:
            self._change(state, ensemble)
        else:
            self.wake()

    def _make_member(self, session: Session[Member], name: str, hosts: str, client_id: SessionId | None) -> Member:
        options = MemberOptions(
            self.unchroot,
            self._logger_for,
            self.session_timeout_s,
            self.auth_data,
            self.tls,
            self.sasl_options,
            KazooRetry(max_tries=-1),
            self.read_only,
            self.randomize_hosts,
        )
        return Member(session, self._runtime, name, hosts, client_id, options)

    def _logger_for(self, name: str) -> Log:
        is_known = name != FIRST and isinstance(self.logger, logging.Logger)
        return self.logger.getChild(name) if is_known and isinstance(self.logger, logging.Logger) else self.logger

    # ---- a fork ----------------------------------------------------------------------------------

    def abandon(self) -> None:
        """Ends the client in a child process, just after the fork, and leaves the parent's session alone."""
        session = self._session
        if session is None or self._loop is None:
            return
        error = ForkError(
            f"this client is connected in process {self._process}; its child {os.getpid()} needs a client of its "
            "own, made after the fork"
        )
        self._loop = self._ending = None
        self.client_state, self.state = KeeperState.CLOSED, KazooState.LOST
        session.abandon(error)


_started: WeakSet[ParKazooClient] = WeakSet()


def _abandon_all() -> None:
    for client in list(_started):
        client.abandon()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_abandon_all)
