"""Deferred writes: writes that a program issues without waiting for each."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from threading import get_ident
from types import TracebackType
from typing import Any, Literal, TypeVar

from kazoo.exceptions import ConfigurationError, ConnectionClosedError

from parkazoo.compat.ensembles import Ensembles, time_out
from parkazoo.engine.deferred.as_given import (
    DIRECTORIES_REMEMBERED,
    apart_from_guard,
    checked,
    directory_of_guard,
    error_of,
    verify_open,
    verify_options,
    verify_taken,
)
from parkazoo.engine.deferred.lanes import Lane, Lanes
from parkazoo.engine.deferred.marker import DISCONNECTED, PAUSE_S
from parkazoo.engine.deferred.naming import Naming
from parkazoo.engine.deferred.own_operations import OwnOperations
from parkazoo.engine.deferred.writes import PENDING, Write, directory_of
from parkazoo.errors import DeferredError
from parkazoo.kazoo_private import Create, Delete, SetData
from parkazoo.protocol.asking import checked_acl, prefixed
from parkazoo.protocol.context import Context
from parkazoo.protocol.ops.batch import find_children
from parkazoo.protocol.placement import CERTAIN
from parkazoo.protocol.rights import own_acl
from parkazoo.protocol.states import CLOSED_ERRORS
from parkazoo.protocol.steps import WriteRequest
from parkazoo.types.handlers import Event
from parkazoo.wire.routine import current_routine

T = TypeVar("T")


class Ticket(Write):
    """Shows the outcome of one deferred write.

    :ivar state: ``"pending"``; ``"committed"``: it is done; ``"failed"``: the server refused it; ``"dropped"``: it
        was not done, and will not be; ``"unknown"``: it may have been done, see :class:`DeferredError`.
    :ivar error: the reason for one of the last three; None otherwise.
    """

    __slots__ = ("_deferred",)

    _deferred: Deferred

    def wait(self, timeout: float | None = None) -> bool:
        """Sends the write, and waits until its outcome is known.

        :param timeout: in seconds; None: as long as it takes.
        :returns: whether the outcome is known.
        """
        return self._deferred.wait_until(lambda: self.state != PENDING, timeout)

    def __repr__(self) -> str:
        return f"<Ticket {self.request.path} {self.state}>"


class Deferred:
    """Issues writes that are **not durable, and not visible to other clients, until the barrier**.

    A call returns at once; the writes go to the servers in batches, without waiting for answers::

        with client.deferred() as later:
            for number in range(10_000):
                later.put(f"/counts/{number}", b"7")
        # here all of them are done, or DeferredError names those that are not

    - On each ensemble a prefix of the issued writes is done, whatever fails. Znodes with the same parent are on
      the same ensemble. Between ensembles there is no order. (If another client makes a directory again on another
      ensemble, pending writes in it follow the writes that were issued there meanwhile.)
    - Each write is done at most once; exactly once while the session lives, lost connections included.
    - This client's own operations see them, because they send all pending writes first.
    - After LOST nothing is sent any more. Tickets show the outcomes.
    - Nothing fails silently: an error that no barrier has raised is logged at the end.

    Any thread may call. Made by :meth:`ParKazooClient.deferred`.
    """

    def __init__(
        self, client: Any, own: OwnOperations, max_pending: int, linger_s: float, skips: bool, guard: str | None
    ) -> None:
        self._client = client
        self._own = own
        self._max_pending = max_pending
        self._lock = own.lock
        whole = None if guard is None else prefixed(client.chroot, guard)
        self._lanes = Lanes(own, skips, whole, linger_s, self._tell)
        self._waiters: list[Event] = []
        self._naming = Naming(self._lanes)
        self._guarded: int | None = None

    def locate_guard(self) -> None:
        """Finds the ensemble to which all writes must go."""
        if (directory := directory_of_guard(self._lanes)) is not None:
            self._guarded = self._find(directory)

    @property
    def _context(self) -> Context:
        return self._own.driver.context

    # ---- writes ------------------------------------------------------------------------------------

    def put(self, path: str, value: bytes | None) -> Ticket:
        """Sets the data of an existing znode, whatever its version.

        :returns: the ticket; its error may be NoNodeError or NoAuthError.
        :raises TypeError: path or value is of a wrong type. :raises ValueError: they are too large for ZooKeeper.
        :raises DeferredError: no more writes are taken: one was refused, the session is over, or this is closed.
        :raises CrossEnsembleError: the znode is not on the guard's ensemble.
        """
        return self._issue(SetData, path, value, -1)

    def add(self, path: str, value: bytes = b"") -> Ticket:
        """Creates a znode, with the client's default ACL. Its parent must exist.

        The first child of a directory takes several requests, and later batches wait for them.

        :returns: the ticket; its error may be NodeExistsError, NoNodeError or NoAuthError.
        :raises: as :meth:`put`.
        """
        return self._issue(Create, path, value, checked_acl(self._client.default_acl or None), 0)

    def drop(self, path: str) -> Ticket:
        """Deletes a znode without children, whatever its version.

        If it has had children on another ensemble, it takes several requests, and later batches wait for them.

        :returns: the ticket; its error may be NoNodeError, NotEmptyError or NoAuthError.
        :raises: as :meth:`put`.
        """
        return self._issue(Delete, path, None, -1)

    def _issue(self, kind: Callable[..., WriteRequest], path: str, value: bytes | None, *rest: Any) -> Ticket:
        request, size = checked(self._client.chroot, kind, path, value, *rest)
        self._client.check_process()
        ticket = Ticket(request, size)
        ticket._deferred = self
        directory = directory_of(request.path)
        while not self._put(directory, ticket):
            self.wait_until(lambda: self.pending < self._max_pending, None)
        return ticket

    def _put(self, directory: str, ticket: Ticket) -> bool:
        """Returns whether there was room for it."""
        lane, lanes = self._lane_of(directory, ticket.request.path), self._lanes
        taken = self._interruptible(lanes.enter, lanes.put, lane, directory, ticket, self._max_pending)
        return verify_taken(lanes, taken)

    def _lane_of(self, directory: str, path: str) -> Lane:
        """:param path: of a write in the directory."""
        lane = self._lanes.of.get(directory)
        if lane is not None:
            return lane
        if len(self._lanes.of) >= DIRECTORIES_REMEMBERED:
            self.wait_until(lambda: not self.pending, None)
            with self._lock:
                if not self.pending:
                    self._lanes.of.clear()
        verify_open(self._lanes)
        ensemble = self._find(directory)
        if self._guarded not in (None, ensemble):
            self.locate_guard()  # its directory may have moved
        with self._lock:
            verify_open(self._lanes)
            if self._guarded not in (None, ensemble):
                raise apart_from_guard(self._lanes, path, ensemble, self._guarded or 0)
            lane = self._interruptible(self._lanes.enter, self._lanes.assign, directory, ensemble)
        return lane  # noqa: RET504 - inside, a signal handler's exception could keep the lock

    def _interruptible(self, call: Callable[..., T], *arguments: object) -> T:
        """Makes a call. If a signal handler or gevent raises in it, the client drops its connections."""
        try:
            return call(*arguments)
        except BaseException:
            self._own.session.interrupted(get_ident())
            raise

    def _find(self, directory: str) -> int:
        """Returns the ensemble that holds the children of a directory.

        If pins decide and the client does not know it, it asks, after all its pending writes were sent. If the
        directory does not exist, it asks again when those have ended.
        """
        has_waited = False
        while (context := self._context).known(directory).certainty < CERTAIN:
            self._interruptible(self._lanes.flush)
            answer = self._client.handler.async_result()
            self._interruptible(self._own.driver.run, find_children(context, directory), answer)
            try:
                ensemble = answer.get()
            except DISCONNECTED:
                verify_open(self._lanes)
                self._client.handler.sleep_func(PAUSE_S)
                continue
            if ensemble is not None:
                return ensemble
            if has_waited or not self.pending:
                break
            has_waited = self._await_issued(None)
        return context.known(directory).mirror.ensemble

    # ---- waiting -----------------------------------------------------------------------------------

    @property
    def pending(self) -> int:
        """Returns the number of writes without an outcome."""
        return self._lanes.pending

    def barrier(self, timeout: float | None = None) -> None:
        """Waits until everything issued so far is done, durable and visible to all clients.

        :param timeout: in seconds; None: as long as it takes. While servers are unreachable, that is until they
            are back or the session is over.
        :raises DeferredError: it names each write since the last barrier that is not done.
        :raises ForkError: a parent process started this client.
        :raises: the handler's ``timeout_exception``; the writes stay pending.
        """
        self._client.check_process()  # first: in a child process the lock may be held for ever
        naming = self._naming
        waiting = naming.begin(current_routine())
        try:
            if not self._await_issued(timeout):
                message = f"{self.pending} deferred writes have no answer within {timeout} s"
                raise time_out(self._client.handler, message, timeout or 0.0)
        except BaseException:
            naming.give_up(waiting)
            raise
        if bad := naming.bad(waiting):
            error = self._error(bad)
            try:
                raise error
            finally:  # not before: a signal handler's exception would come in its place
                naming.name(bad, waiting)
        else:
            naming.end(waiting)

    def _await_issued(self, timeout: float | None) -> bool:
        """Returns whether everything issued so far has ended within the timeout."""
        lanes = self._lanes
        with self._lock:
            number = next(lanes.numbers)
        return self.wait_until(lambda: all(each.has_ended(number) for each in lanes.all), timeout)

    def wait_until(self, condition: Callable[[], bool], timeout: float | None) -> bool:
        """Sends everything, and waits for a condition that the end of a write may bring about.

        :param condition: is called with the lock held: a write that goes from lane to lane is in one of them.
        """
        self._client.check_process()
        self._client.listeners.before_use()
        deadline_s = None if timeout is None else time.monotonic() + timeout
        while True:
            self._interruptible(self._lanes.flush)
            with self._lock:
                if condition():
                    return True
                remaining_s = None if deadline_s is None else deadline_s - time.monotonic()
                if remaining_s is not None and remaining_s <= 0:
                    return False
                has_changed = self._client.handler.event_object()
                self._waiters.append(has_changed)
            try:
                has_changed.wait(remaining_s)
            finally:
                with self._lock:
                    if has_changed in self._waiters:
                        self._waiters.remove(has_changed)
            self._client.check_process()

    def _tell(self) -> None:
        """With the lock held: writes have ended."""
        while self._waiters:
            self._waiters[-1].set()
            del self._waiters[-1]  # after that: a signal handler's exception may come between

    def _error(self, bad: list[Write]) -> DeferredError:
        return error_of(bad, self._client.unchroot)

    # ---- the end -----------------------------------------------------------------------------------

    def close(self, timeout: float | None = None) -> None:
        """Runs the last :meth:`barrier` and takes no more writes. To close again does nothing.

        :raises: as :meth:`barrier`. After a time-out it can be closed again.
        """
        self._client.check_process()  # first: in a child process the lock may be held for ever
        with self._lock:
            self._lanes.ended = self._lanes.ended or "closed"
        try:
            self.barrier(timeout)
        except DeferredError:
            self._remove()
            raise
        self._remove()

    def _remove(self) -> None:
        self._interruptible(self._lanes.enter, self._lanes.remove)
        self._client.forget_deferred(self)

    def abandon(self, timeout: float) -> None:
        """Waits up to a timeout, then gives up pending writes, and logs them. The client calls it, too, when it
        stops. A barrier names them all the same, if one waits or comes.
        """
        self._client.check_process()  # first, as above
        if self not in self._client._deferred:  # it was closed, or abandoned, before
            return
        with self._lock:
            self._lanes.ended = self._lanes.ended or "closed"
        if not self.wait_until(lambda: not self.pending, timeout):
            why = ConnectionClosedError("nobody waits for it any longer")
            self._interruptible(self._lanes.enter, self._lanes.end, why)
        if bad := self._naming.unheard():
            self._client.logger.error("Not done, and no barrier has said so: %s", self._error(bad))
        self._remove()

    def __enter__(self) -> Deferred:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes. If the block has raised, its error goes on, and errors of the writes are logged.

        After ^C it waits at most the session timeout.
        """
        if kind is not None and not issubclass(kind, Exception):
            self.abandon(self._client._session_timeout / 1000)
            return
        try:
            self.close()
        except DeferredError as mine:
            if kind is None:
                raise
            self._client.logger.error("Deferred writes, after another error: %s", mine)


class DefersWrites(Ensembles):
    """Makes Deferreds of a client."""

    _own_operations: OwnOperations | None = None  # while there are deferred writes
    _deferred: tuple[Deferred, ...] = ()
    _deferred_lock: AbstractContextManager[object]  # of these two, and of all lanes; a thread may take it again

    def deferred(
        self,
        max_pending: int = 10_000,
        linger_s: float = 0.002,
        on_error: Literal["stop", "skip"] = "stop",
        guard: str | None = None,
    ) -> Deferred:
        """Returns a :class:`Deferred`: its writes are **not durable, and not visible to others, until the
        barrier**.

        :param max_pending: the number of pending writes from which calls wait.
        :param linger_s: seconds after which a batch that is not full is sent.
        :param on_error: when a write is refused: ``"stop"``: no later write is done on its ensemble;
            ``"skip"``: later ones are done.
        :param guard: the path of a znode without which no batch is done, such as the contender of a lock. If it
            is missing, the lane stops. All writes must be on its ensemble.
        :raises TypeError: an option has the wrong type. :raises ValueError: an option is out of range.
        :raises ConnectionClosedError: the client is not connected.
        :raises ConfigurationError: the client was made with ``consistency="total"``.
        """
        self.check_process()
        verify_options(max_pending, linger_s, on_error, guard)
        session = self._session
        if session is None or session.driver is None or self._state in CLOSED_ERRORS:
            raise ConnectionClosedError("the client is not connected: start it")
        if self.has_total_order:
            raise ConfigurationError("writes of a client with consistency='total' cannot be deferred")
        with self._deferred_lock:
            own = self._own_operations
            if own is None or own.session is not session:
                patience_s, acl = self._session_timeout / 1000, own_acl(self.auth_data)
                own = OwnOperations(session, self._runtime, patience_s, acl, self._deferred_lock)
            made = Deferred(self, own, max_pending, linger_s, on_error == "skip", guard)
            self._own_operations = own
            self._deferred = (*self._deferred, made)
        try:
            made.locate_guard()
        except BaseException:
            made.abandon(0)
            raise
        return made

    def forget_deferred(self, deferred: Deferred) -> None:
        """Forgets a Deferred that is closed."""
        with self._deferred_lock:
            self._deferred = tuple(each for each in self._deferred if each is not deferred)
            if not self._deferred:
                self._own_operations = None

    def _end_deferred(self) -> None:
        """Waits for pending writes before the client stops, for at most the session timeout."""
        deadline_s = time.monotonic() + self._session_timeout / 1000
        for each in self._deferred:
            each.abandon(deadline_s - time.monotonic())
