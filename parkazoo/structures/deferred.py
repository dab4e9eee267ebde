"""Deferred writes: writes that need not be waited for."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import get_ident
from types import TracebackType
from typing import Any, TypeVar

from kazoo.exceptions import ConnectionClosedError

from parkazoo.compat.creation import checked_acl, prefixed
from parkazoo.compat.ensembles import time_out
from parkazoo.engine.deferrals import Deferrals
from parkazoo.engine.deferring import DISCONNECTED, PAUSE_S, Lanes, RunningLane
from parkazoo.engine.driver import Driver
from parkazoo.errors import GUARD, CrossEnsembleError, DeferredError
from parkazoo.kazoo_private import Create, Delete, SetData
from parkazoo.protocol.context import Context
from parkazoo.protocol.deferral import DROPPED, FAILED, OVERHEAD_BYTES, PENDING, UNKNOWN, Write, directory_of
from parkazoo.protocol.grown.batches import find_children
from parkazoo.protocol.grown.common import GrownContext
from parkazoo.protocol.reserved import refusal
from parkazoo.protocol.steps import Request

LARGEST_BYTES = (1 << 20) - (1 << 14)  # servers take packets of 1 MiB; the rest is for the chain
ACL_BYTES = 12  # of an entry, beside scheme and id; the first is in OVERHEAD_BYTES
NAMED = 5  # writes or keys that an error's message names
DIRECTORIES_REMEMBERED = 1 << 16
MAKE_OTHERS = "Make others with client.deferred()"

T = TypeVar("T")


class Ticket(Write):
    """One deferred write, and what has become of it.

    :ivar state: ``"pending"``; ``"committed"``: it is done; ``"failed"``: the server has refused it;
        ``"dropped"``: it was not done, and will not be; ``"unknown"``: no one knows, see :class:`DeferredError`.
    :ivar error: why it is none of the first two; None otherwise.
    """

    __slots__ = ("_deferred",)

    _deferred: Deferred

    def wait(self, timeout: float | None = None) -> bool:
        """Put the write on the wire, and wait until it is known what has become of it.

        :param timeout: in seconds; None: as long as it takes.
        :returns: whether that is known.
        """
        return self._deferred.wait_until(lambda: self.state != PENDING, timeout)

    def __repr__(self) -> str:
        return f"<Ticket {self.request.path} {self.state}>"


class Deferred:
    """Writes that are **not durable, and not visible to other clients, until the barrier**.

    A call returns at once; the writes go to the servers in batches, which are not awaited::

        with client.deferred() as later:
            for number in range(10_000):
                later.put(f"/counts/{number}", b"7")
        # here all of them are done, or DeferredError has said which are not

    - What is done is a prefix of what was issued, for each ensemble, whatever fails. Znodes with the same parent
      are on the same ensemble. Between ensembles there is no order. (If another client makes a directory again on
      another ensemble, what is pending in it follows what was issued there meanwhile.)
    - Each write is done at most once; exactly once while the session lives, lost connections included.
    - This client's own operations see them: they put what is pending on the wire first.
    - After LOST nothing is sent any more. Tickets say what is done.
    - Nothing fails silently: an error that no barrier has raised is logged at the end.

    Any thread may call. Made by :meth:`ParKazooClient.deferred`.
    """

    def __init__(
        self,
        client: Any,
        deferrals: Deferrals,
        max_pending: int,
        linger_s: float,
        skips: bool,
        guard: str | None,
    ) -> None:
        self._client = client
        self._deferrals = deferrals
        self._max_pending = max_pending
        self._lock = client.handler.rlock_object()
        whole = None if guard is None else prefixed(client.chroot, guard)
        self._lanes = Lanes(deferrals, self._lock, skips, whole, linger_s, self._tell)
        self._waiters: list[Any] = []
        self._guarded = None if whole is None else self._find(directory_of(whole))

    @property
    def _driver(self) -> Driver:
        driver = self._deferrals.session.driver
        assert driver is not None
        return driver

    @property
    def _context(self) -> Context:
        return self._driver.context

    # ---- writes ------------------------------------------------------------------------------------

    def put(self, path: str, value: bytes | None) -> Ticket:
        """Set the data of a znode that is there, whatever its version.

        :returns: the ticket; refused, it has NoNodeError or NoAuthError.
        :raises TypeError: path or value is of a wrong type. :raises ValueError: they are too large for ZooKeeper.
        :raises DeferredError: no more writes are taken: one was refused, the session is over, or this is closed.
        :raises CrossEnsembleError: it is not on the guard's ensemble.
        """
        return self._issue(SetData, path, value, -1)

    def add(self, path: str, value: bytes = b"") -> Ticket:
        """Create a znode, with the client's default ACL. Its parent must be there.

        As the first child of its directory it takes several requests, and batches behind it wait for them.

        :returns: the ticket; refused, it has NodeExistsError, NoNodeError or NoAuthError.
        :raises: as :meth:`put`.
        """
        return self._issue(Create, path, value, checked_acl(self._client.default_acl or None), 0)

    def drop(self, path: str) -> Ticket:
        """Delete a znode without children, whatever its version.

        If it has had children on another ensemble, it takes several requests, and batches behind it wait for them.

        :returns: the ticket; refused, it has NoNodeError, NotEmptyError or NoAuthError.
        :raises: as :meth:`put`.
        """
        return self._issue(Delete, path, None, -1)

    def _issue(self, kind: Callable[..., Request], path: str, value: bytes | None, *rest: Any) -> Ticket:
        if not isinstance(path, str):
            raise TypeError("Invalid type for 'path' (string expected)")
        if value is not None and not isinstance(value, bytes):
            raise TypeError("Invalid type for 'value' (must be a byte string)")
        whole = prefixed(self._client.chroot, path)
        size = len(whole.encode()) + len(value or b"") + OVERHEAD_BYTES
        if kind is Create:
            size += sum(len(who.scheme) + len(who.id) + ACL_BYTES for _, who in rest[0][1:])
        if size > LARGEST_BYTES:
            raise ValueError(
                f"{path}: {len(value or b'')} bytes are too many for a deferred write: at most {LARGEST_BYTES}, "
                "with the path and the ACL"
            )
        request = kind(whole, *rest) if kind is Delete else kind(whole, value, *rest)
        if (error := refusal(request)) is not None:
            raise error
        self._client.check_process()
        if self._lanes.pending >= self._max_pending:
            self.wait_until(lambda: self.pending < self._max_pending, None)
        ticket = Ticket(request, size)
        ticket._deferred = self
        if (error := self._hand_over(self._lane_of(request).add, ticket)) is not None:
            self._verify_open()
            raise DeferredError(
                f"no more deferred writes are taken on this ensemble: {error!r}. {MAKE_OTHERS}"
            ) from error
        return ticket

    def _lane_of(self, request: Request) -> RunningLane:
        lane = self._lanes.of.get(directory := directory_of(request.path))
        return self._begin(directory, request.path) if lane is None else lane

    def _begin(self, directory: str, path: str) -> RunningLane:
        if len(self._lanes.of) >= DIRECTORIES_REMEMBERED:
            self.wait_until(lambda: not self.pending, None)
            self._lanes.forget()
        self._verify_open()
        ensemble = self._find(directory)
        with self._lock:
            self._verify_open()
            if self._guarded not in (None, ensemble):
                names = self._context.names
                guard = "guard", str(self._lanes.guard), names[self._guarded or 0]
                raise CrossEnsembleError([guard, ("write", path, names[ensemble])], GUARD)
            lane = self._hand_over(self._lanes.assign, directory, ensemble)
        return lane  # noqa: RET504 - inside, a signal handler's exception could keep the lock

    def _hand_over(self, call: Callable[..., T], *arguments: Any) -> T:
        """Call it. If a signal handler raises meanwhile, or gevent, the client drops its connections, as for its
        other calls."""
        try:
            return call(*arguments)
        except BaseException:
            self._deferrals.session.interrupted(get_ident())
            raise

    def _verify_open(self) -> None:
        if self._lanes.ended:
            raise DeferredError(f"these deferred writes are {self._lanes.ended}. {MAKE_OTHERS}")
        if self._deferrals.session.number != self._lanes.client:
            raise DeferredError(f"no more deferred writes are taken: the session is over. {MAKE_OTHERS}")

    def _find(self, directory: str) -> int:
        """The ensemble that holds the children of a directory.

        Where pins decide, a client that does not know asks, behind all that it has written. If the directory is
        not there, it asks again when that has ended.
        """
        has_waited = False
        while isinstance(context := self._context, GrownContext):
            self._flush()
            answer = self._client.handler.async_result()
            self._hand_over(self._driver.run, find_children(context, directory), answer)
            try:
                ensemble = answer.get()
            except DISCONNECTED:
                self._verify_open()
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
        """How many writes have no outcome yet."""
        return self._lanes.pending

    def barrier(self, timeout: float | None = None) -> None:
        """Wait until everything issued so far is done, durable and visible to all clients.

        :param timeout: in seconds; None: as long as it takes. While servers are away, that is until they are back
            or the session is over.
        :raises DeferredError: it names each write since the last barrier that is not done.
        :raises ForkError: this is a child of the process that has started the client.
        :raises: the handler's ``timeout_exception``; the writes stay pending.
        """
        self._client.check_process()  # first: in a child process the lock may be held for ever
        if not self._await_issued(timeout):
            message = f"{self.pending} deferred writes have no answer within {timeout} s"
            raise time_out(self._client.handler, message, timeout or 0.0)
        if bad := self._bad():
            error = self._error(bad)
            try:
                raise error
            finally:  # not before: a signal handler's exception would come in its place
                self._forget(bad)

    def _await_issued(self, timeout: float | None) -> bool:
        """Whether everything issued so far has ended in time."""
        lanes = self._lanes
        with self._lock:
            number = next(lanes.numbers)
        return self.wait_until(lambda: all(each.lane.has_ended(number) for each in lanes.running), timeout)

    def wait_until(self, condition: Callable[[], bool], timeout: float | None) -> bool:
        """Put all on the wire, and wait until a condition holds that the end of a write may bring about.

        :param condition: is called with the lock held: a write that goes from lane to lane is in one of them.
        """
        self._client.check_process()
        self._client.listeners.before_use()
        deadline_s = None if timeout is None else time.monotonic() + timeout
        while True:
            self._flush()
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

    def _flush(self) -> None:
        for lane in self._lanes.running:
            self._hand_over(lane.flush)

    def _tell(self) -> None:
        """With the lock held: writes have ended."""
        if self._waiters:
            waiters, self._waiters = self._waiters, []
            for each in waiters:
                each.set()

    def _bad(self) -> list[Write]:
        """What has ended badly, and was not told."""
        with self._lock:
            bad = [write for running in self._lanes.running for write in running.lane.bad]
        return list(dict.fromkeys(bad))

    def _forget(self, told: list[Write]) -> None:
        with self._lock:
            for running in self._lanes.running:
                running.lane.forget(told)

    def _error(self, bad: list[Write]) -> DeferredError:
        unchroot = self._client.unchroot
        by_state: dict[str, list[tuple[str, Exception]]] = {FAILED: [], DROPPED: [], UNKNOWN: []}
        for write in bad:
            assert write.error is not None
            by_state[write.state].append((unchroot(write.request.path), write.error))
        counts = ", ".join(f"{len(each)} {state}" for state, each in by_state.items() if each)
        some = [pair for each in by_state.values() for pair in each][:NAMED]
        named = ", ".join(f"{path} ({error!r})" for path, error in some)
        more = ", ..." if len(bad) > len(some) else ""
        return DeferredError(f"deferred writes: {counts}: {named}{more}", *by_state.values())

    # ---- the end -----------------------------------------------------------------------------------

    def close(self, timeout: float | None = None) -> None:
        """The last :meth:`barrier`; no more writes are taken. Closing again does nothing.

        :raises: as :meth:`barrier`. After a time-out it can be closed again.
        """
        self._client.check_process()  # first: in a child process the lock may be held for ever
        with self._lock:
            self._lanes.ended = self._lanes.ended or "closed"
        try:
            self.barrier(timeout)
        except DeferredError:
            self._remove_lanes()
            raise
        self._remove_lanes()

    def _remove_lanes(self) -> None:
        with self._lock:
            self._hand_over(self._lanes.remove)
        self._client.forget_deferred(self, self._deferrals)

    def abandon(self, timeout: float) -> None:
        """Wait for so long, then give up what is pending. Called by the client, too, when it stops."""
        with self._lock:
            self._lanes.ended = self._lanes.ended or "closed"
        if not self.wait_until(lambda: not self.pending, timeout):
            for lane in self._lanes.running:
                self._hand_over(lane.end, ConnectionClosedError("nobody waits for it any longer"))
        if bad := self._bad():
            self._client.logger.error("Not done, and no barrier has said so: %s", self._error(bad))
            self._forget(bad)
        self._remove_lanes()

    def __enter__(self) -> Deferred:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close. If the block has raised, its error goes on, and those of the writes are logged.

        After ^C it waits for the session timeout at most.
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
