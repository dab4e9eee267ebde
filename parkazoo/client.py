"""ParKazooClient: stands wherever KazooClient stood."""

from __future__ import annotations

import os
import sys
import time
import warnings
from contextlib import suppress
from functools import partial
from threading import get_ident
from typing import TypeVar
from weakref import WeakSet

from kazoo.exceptions import (
    AuthFailedError,
    ConnectionLoss,
    WriterNotClosedException,
)
from kazoo.protocol.states import KazooState, KeeperState

from parkazoo.compat.ensembles import AwaitedAnswer, time_out
from parkazoo.compat.kazoo_member import KazooMember
from parkazoo.engine.ports import Reply
from parkazoo.engine.session import Session
from parkazoo.errors import ForkError
from parkazoo.kazoo_private import CONNECTION_DROP, SESSION_EXPIRED, Create, Exists
from parkazoo.protocol.cluster_map import FIRST, format_hosts
from parkazoo.protocol.placement import MAP, logical
from parkazoo.protocol.states import CLOSED_ERRORS
from parkazoo.protocol.steps import Request
from parkazoo.structures.deferred import DefersWrites
from parkazoo.structures.distributed_dict import Sharing
from parkazoo.types.handlers import Event, Log
from parkazoo.wire import loop as loops
from parkazoo.wire.farewell import say_farewell
from parkazoo.wire.handler import ThreadingHandler, start_handler, stop_handler
from parkazoo.wire.member import MemberOptions
from parkazoo.wire.routine import end_after_fork, is_current
from parkazoo.wire.runtime import LoopRuntime
from parkazoo.wire.sasl import verify_sasl
from parkazoo.wire.tls import make_context

SETTLED = (KeeperState.CONNECTED, KeeperState.CONNECTED_RO, KeeperState.AUTH_FAILED, KeeperState.CLOSED)
MIN_CLOSE_TIMEOUT_S = 10  # kazoo's
CLOSE_AT_LEAST_S = 1.0  # also if the process was frozen, and its time has passed
CHROOT_TIMEOUT_S = 1.0
LISTENERS_S = 1.0  # at most, until they have heard of all at the end
ClientT = TypeVar("ClientT", bound="ParKazooClient")


class ParKazooClient(DefersWrites, Sharing):
    """Acts as a KazooClient over several ensembles.

    It takes every argument of :class:`kazoo.client.KazooClient`. `hosts` are servers of any of the ensembles,
    perhaps with a chroot; the cluster map there, at ``/parkazoo/map``, names all ensembles. Credentials, TLS and
    retry options apply to all. docs/reference/differences.md lists the differences from kazoo.

    The client has a ZooKeeper session on each ensemble that it uses; the first request that needs an ensemble
    opens one. It is SUSPENDED while an ensemble on which it has an ephemeral or a watch is unreachable; operations
    on the others go on. It is LOST if a session expires where it may have an ephemeral; then it closes all its
    sessions and begins anew. Other ensembles may fail and return: a request that needs one raises ConnectionLoss
    after the session timeout. After a ConnectionLoss an operation may have been done or not, as with kazoo. The
    next operation on that directory finishes an interrupted one.
    """

    session_number = 0
    """The number of this client's session: ephemerals of earlier ones may exist, but are not this session's."""
    _session: Session[KazooMember] | None = None
    _fork_error: ForkError | None = None  # in a child process
    _workers: tuple[object, ...] = ()  # the handler's, which call watches and completion callbacks

    def __repr__(self) -> str:
        """Shows hosts, state and, if the client has a map, the connected ensembles. Sends nothing."""
        about = [repr(f"{self.describe_hosts()}{self.chroot}"), str(self._state)]
        session = self._session
        if session is not None and session.roster.cluster_map is not None and self._state not in CLOSED_ERRORS:
            states = {member.name: member.state for member in session.roster.members}
            connected = ", ".join(name for name, state in states.items() if state == KazooState.CONNECTED)
            others = [f"; {name} {state}" for name, state in states.items() if state != KazooState.CONNECTED]
            place = f"{len(session.roster.cluster_map.ensembles)} in cluster {session.roster.cluster_map.cluster}"
            about.append(f"on {connected or 'none'} of {place}{''.join(others)}")
        return f"<{type(self).__name__} {' '.join(about)}>"

    def __enter__(self: ClientT) -> ClientT:  # typing.Self comes with Python 3.11
        """Starts the client, as :meth:`start` does."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stops and closes the client, whatever the block raised."""
        self.stop()
        self.close()

    # ---- requests ------------------------------------------------------------------------------

    def _call(self, request: Request, async_object: Reply | None) -> bool | None:
        """Issues a request. Every public method and recipe of kazoo calls this, as with kazoo."""
        if self.listeners.is_calling:
            self.listeners.before_use()
        state, session = self._state, self._session  # once, in this order: another thread may just start it
        if session is None or state in CLOSED_ERRORS:
            if async_object is not None:
                failure = session.failure if session and state == KeeperState.CLOSED else None
                async_object.set_exception(failure or CLOSED_ERRORS[state]())
            return False
        if session.interrupted_thread is not None:
            session.recover()
        try:
            if request is CONNECTION_DROP:  # kazoo's test hooks
                self._runtime.call(session.drop_connections)
            elif request is SESSION_EXPIRED:
                self._runtime.call(partial(session.expire, "a test wants it"))
            else:
                own = self._own_operations
                if own is None or own.session is not session:
                    session.call(request, async_object)
                else:
                    own.call(request, async_object)
        except BaseException:  # raised by a signal handler, or by gevent
            session.interrupted(get_ident())
            raise
        return None

    def unchroot(self, path: str) -> str:
        """Converts a path as a server names it into the user's: out of the mirror, below the chroot."""
        return str(super().unchroot(logical(path)))

    # ---- the session ---------------------------------------------------------------------------

    def start(self, timeout: float = 15) -> None:
        """Connects to the first ensemble that answers, and reads the cluster map there.

        After an error nothing keeps running, except a connection that does not end within ten seconds, as with
        :meth:`stop`: it ends later.

        :param timeout: seconds to wait.
        :raises ClusterMapError: the map is missing, damaged, of a newer format, or does not fit the servers; at
            once.
        :raises AuthFailedError: the servers refuse the credentials.
        :raises ConfigurationError: the TLS or SASL options cannot be used; at once.
        :raises: the handler's ``timeout_exception``; it names the servers that were not reached, and why.
        """
        self.start_async()
        self._settled.wait(timeout)
        self.listeners.wait(self.patience_s)
        session = self._session
        if not self.connected and session is not None:
            error = session.failure
            if error is None and self._state == KeeperState.AUTH_FAILED:
                error = AuthFailedError()
            if error is None:
                missing = session.roster.describe_missing()
                message = (
                    f"Connection time-out: no session with {missing} within {timeout} s: "
                    f"are the servers running and reachable, and is {MAP} right? See `parkazoo map check`"
                )
                if session.roster.cluster_map is None:
                    message += ". Servers of any ensemble will do: give some of several in hosts"
                error = time_out(self.handler, message, timeout)
            session.leaves_sessions = True
            with suppress(WriterNotClosedException):  # the error of the start counts
                self.stop()
                self.close()
            raise error
        if self.chroot and self._lacks_chroot():
            warnings.warn(
                "No chroot path exists, the chroot path should be created before normal use.", stacklevel=2
            )

    def _lacks_chroot(self) -> bool:
        """Returns whether the chroot certainly does not exist. It waits a second at most for an ensemble."""
        answer = AwaitedAnswer(self.handler)
        self._call(Exists(self.chroot, None), answer)
        if not answer.has_come(CHROOT_TIMEOUT_S) or isinstance(answer.value, ConnectionLoss):
            return False
        if isinstance(answer.value, Exception):
            raise answer.value
        return answer.value is None

    def start_async(self) -> Event:
        """Begins to connect, and queues operations from now on.

        If the cluster map cannot be used, the client becomes CLOSED, logs why, and every operation raises that
        error.

        :returns: an event that is set while the client is connected.
        :raises ConfigurationError: the TLS or SASL options cannot be used.
        :raises ForkError: a parent process started this client.
        :raises RuntimeError: a watch or completion callback of this client calls it.
        """
        self.check_process()
        self.listeners.before_use()
        with self._starting:
            live = self._start()
        return live  # noqa: RET504 - from within, a signal handler's exception could keep the lock

    def _start(self) -> Event:
        if self._session is not None and not self._session.is_leaving:
            return self._live
        if self.use_ssl:
            make_context(self)  # only to see that it can be made
        if self._connection.sasl_options is not None:
            verify_sasl(self._connection.sasl_options)
        if self._is_in_callback():
            raise RuntimeError(
                "a watch or completion callback cannot start its own client: client.handler.spawn(client.start)"
            )
        self._safe_close()
        last = self._session
        if last is not None:
            last.close()
        self._stopped.clear()
        self._writer_stopped.clear()
        self._settled.clear()
        start_handler(self.handler)
        self._workers = tuple(getattr(self.handler, "_workers", ()))
        number, password = self._first_session
        self._runtime = LoopRuntime(self.handler, self.listeners, self.monitor)
        self._session = Session(self, self._runtime, self._make_member, (number, password) if number else None)
        try:
            self._session_callback(KeeperState.CONNECTING)
            self._reset_session()
            self.session_number += 1
            self._process = os.getpid()
            _started.add(self)
            self._session.begin()
        except BaseException:  # no thread can be started; or a signal handler's
            self._session.is_leaving = self._session.is_stopping = True
            self._state = KeeperState.CLOSED
            raise
        finally:
            if last is not None:  # only now: a watch that reads again is to read in the new session
                last.drop_watches(KeeperState.CLOSED)
        return self._live

    def stop(self) -> None:
        """Finishes the operations that were issued, then closes the sessions on all ensembles and so deletes their
        ephemerals.

        On an unreachable ensemble the session ends when it expires there, and operations that wait for it raise
        ConnectionLoss. No watch is called after this; each gets the event NONE at the next start.

        It takes at most the session timeout, or ten seconds if that is longer, and leaves callbacks that run
        longer to themselves. If that time has passed before the sessions are closed, they get one more
        second. In a ``__del__`` at the interpreter's end it only closes the sessions.

        :raises WriterNotClosedException: a server has not answered within that time.
        """
        if self._stopped.is_set() and (self._session is None or self._session.is_stopping):
            return  # otherwise a stop() was interrupted before it could ask for the end
        if sys.is_finalizing():
            self._state = KeeperState.CLOSED
            say_farewell(link for member in self._members() if (link := member._connection._link) is not None)
            return
        if loops.is_here():  # in a `__del__`: what it would wait for, it holds up
            self.handler.spawn(self.stop)
            return
        self.listeners.before_use()
        self._end_deferred()
        deadline_s = time.monotonic() + self._close_timeout_s
        was_connected = self.connected
        try:
            if self._session is not None:
                self._session.is_leaving = True
            self._stopped.set()
            if self._session is not None and self._session.driver is not None and was_connected:
                is_idle = self.handler.event_object()
                self._runtime.call(self._session.fail_away)
                self._session.when_idle(is_idle.set, self._unfinished.has_any)
                is_idle.wait(self._session_timeout / 1000)
        finally:  # also if that is interrupted, by ^C for one
            try:
                self._safe_close(deadline_s)
            finally:
                if self._state != KeeperState.CLOSED:
                    self._session_callback(KeeperState.CLOSED)
                self.waits.wake()
                self.listeners.wait(max(0.0, deadline_s - time.monotonic()))
                if self.monitor is not None:
                    self.monitor.wait(min(LISTENERS_S, max(0.0, deadline_s - time.monotonic())))

    @property
    def _close_timeout_s(self) -> float:
        return float(max(self._session_timeout // 1000, MIN_CLOSE_TIMEOUT_S))

    def _safe_close(self, deadline_s: float | None = None) -> None:
        if deadline_s is None:
            deadline_s = time.monotonic() + self._close_timeout_s
        has_stopped = self.handler.event_object()
        if self._session is not None:
            self._session.stop(has_stopped.set)
            has_stopped.wait(max(CLOSE_AT_LEAST_S, deadline_s - time.monotonic()))
        if isinstance(self.handler, ThreadingHandler) or not self._is_in_callback():
            stop_handler(self.handler, max(0.0, deadline_s - time.monotonic()))
        else:
            self.handler.spawn(stop_handler, self.handler)  # it waits for the callback to return
        if self._session is not None and not has_stopped.is_set():
            raise WriterNotClosedException(
                "Writer still open from prior connection and wouldn't close after "
                f"{self._close_timeout_s:.0f} seconds"
            )

    def registration(self, session: int, client: int, epoch: int) -> Create:
        """See :meth:`parkazoo.engine.ports.Client.registration`."""
        return self._about.registration(session, client, epoch, bool(self.auth_data))

    def session_changed(self, state: str, ensemble: str) -> None:
        """Takes a new KeeperState of the whole client. The session calls it, one call at a time.

        :param ensemble: whose connection has brought it about; empty if none has.
        """
        if self._stopped.is_set() and self._state == KeeperState.CLOSED:
            return  # stop() has not waited for the session any longer
        if state == KeeperState.EXPIRED_SESSION:
            self.session_number += 1
        if state != self._state:  # programs that override it hear of each state once
            self._changed_by = ensemble
            try:
                self._session_callback(state)
            finally:
                self._changed_by = ""
        self.waits.wake()
        if state in SETTLED:
            self._settled.set()
        else:
            self._settled.clear()  # a start() from now on waits

    def _is_in_callback(self) -> bool:
        return any(is_current(worker) for worker in self._workers)

    def check_process(self) -> None:
        """Verifies that this process may use the client.

        :raises ForkError: a parent process started this client.
        """
        if self._fork_error is not None:
            raise self._fork_error

    def abandon(self) -> None:
        """Ends the client in a child process, just after the fork, and leaves the parent's session alone.

        Its threads do not exist here, but locks that they held may be locked for ever: it waits for none.
        """
        if self._session is None or self._stopped.is_set():
            return
        self._fork_error = ForkError(
            f"this client is connected in process {self._process}; its child {os.getpid()} needs a client of its "
            "own, made after the fork"
        )
        self._state, self.state = KeeperState.CLOSED, KazooState.LOST
        self._live, self._stopped = self.handler.event_object(), self.handler.event_object()
        self._stopped.set()
        self._session.abandon(self._fork_error)
        self.handler._running = False  # the exit waits for nothing
        for worker in self._workers:
            end_after_fork(worker)

    @property
    def client_id(self) -> tuple[int, bytes] | None:
        """Returns the client's id and password; ``ParKazooClient(client_id=...)`` resumes the client. None if not
        connected.

        The id stays the same until the client is LOST, also when the map gains ensembles. It is the
        ``ephemeralOwner`` of this client's ephemerals on every ensemble. With one ensemble, both are of the
        session there. With several, the id is a number of the client's own, and the password holds its sessions on
        the ensembles that it has joined so far.
        """
        return self._session.client_id if self._session and self.connected else None

    def set_hosts(self, hosts: str | list[str], randomize_hosts: bool | None = None) -> None:
        """Sets the hosts of the next start, as kazoo's does. If there are several ensembles, the map has their
        hosts.
        """
        super().set_hosts(hosts, randomize_hosts)
        session = self._session
        if session is not None:
            if session.roster.cluster_map is None or len(session.roster.cluster_map.names) == 1:
                session.roster.first.hosts = self.hosts
            for member in session.roster.members:
                member.randomize_hosts = self.randomize_hosts

    def describe_hosts(self) -> str:
        """Returns the hosts of the next start as ``"h:p,h:p"``."""
        return format_hosts(self.hosts)

    @property
    def session_timeout_s(self) -> float:
        return float(self._session_timeout) / 1000

    def _make_member(
        self, session: Session[KazooMember], name: str, hosts: str, client_id: tuple[int, bytes] | None
    ) -> KazooMember:
        options = MemberOptions(
            self.unchroot,
            self.logger_for,
            self.session_timeout_s,
            self.auth_data,
            self,
            self._connection.sasl_options,
            self._conn_retry.copy(),
            bool(self.read_only),
            self.randomize_hosts,
        )
        hook = self._connection.connect_hook
        return KazooMember(session, self._runtime, name, hosts, client_id, options, self.handler, hook)

    def logger_for(self, name: str) -> Log:
        """Returns the log of an ensemble's connection; the client's own until its ensemble is known."""
        is_known = name != FIRST and hasattr(self.logger, "getChild")
        return self.logger.getChild(name) if is_known else self.logger


_started: WeakSet[ParKazooClient] = WeakSet()


def _abandon_all() -> None:
    for client in list(_started):
        client.abandon()


if sys.platform != "win32":
    os.register_at_fork(after_in_child=_abandon_all)
