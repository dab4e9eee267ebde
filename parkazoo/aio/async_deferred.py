"""Deferred writes for asyncio: writes that a program issues without waiting for each."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from types import TracebackType
from typing import Any, Literal

from kazoo.exceptions import ConfigurationError, ConnectionClosedError

from parkazoo.aio.future_reply import FutureReply
from parkazoo.aio.tending import Tending
from parkazoo.aio.waking import settle
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
from parkazoo.protocol.ops.batch import find_children
from parkazoo.protocol.placement import CERTAIN
from parkazoo.protocol.rights import own_acl
from parkazoo.protocol.states import CLOSED_ERRORS
from parkazoo.protocol.steps import WriteRequest
from parkazoo.types.handlers import Log

WRITES_A_TURN = 256  # about a millisecond of them


class AsyncTicket(Write):
    """Shows the outcome of one deferred write. ``await ticket`` sends the write, waits for that, and raises its
    error.

    :ivar state: ``"pending"``; ``"committed"``: it is done; ``"failed"``: the server refused it; ``"dropped"``: it
        was not done, and will not be; ``"unknown"``: it may have been done, see :class:`DeferredError`.
    :ivar error: the reason for one of the last three; None otherwise.
    """

    __slots__ = ("_deferred",)

    def __init__(self, request: WriteRequest, size: int, deferred: AsyncDeferred) -> None:
        super().__init__(request, size)
        self._deferred = deferred

    def __await__(self) -> Generator[Any, None, None]:
        yield from self._deferred.until(lambda: self.state != PENDING).__await__()
        if self.error is not None:
            raise self.error

    def __repr__(self) -> str:
        return f"<AsyncTicket {self.request.path} {self.state}>"


class AsyncDeferred:
    """Issues writes that are **not durable, and not visible to other clients, until the barrier**.

    The writes go to the servers in batches, without waiting for answers::

        async with client.deferred() as later:
            for number in range(10_000):
                await later.put(f"/counts/{number}", b"7")
        # here all of them are done, or DeferredError names those that are not

    A call waits only while `max_pending` writes are pending, and, once the cluster has grown, for the place of an
    unknown directory. One that is cancelled then has issued nothing. Promises are as of
    :class:`parkazoo.structures.deferred.Deferred`. Made by :meth:`ParKazooClient.deferred`.
    """

    def __init__(
        self, client: AsyncDefersWrites, own: OwnOperations, max_pending: int, linger_s: float, skips: bool,
        guard: str | None,
    ) -> None:  # fmt: skip
        self._client = client
        self._own = own
        self._max_pending = max_pending
        whole = None if guard is None else prefixed(client.chroot, guard)
        self._lanes = Lanes(own, skips, whole, linger_s, self._tell)
        self._waiters: set[asyncio.Future[None]] = set()
        self._naming = Naming(self._lanes)
        self._guarded: int | None = None
        self._issued = 0

    # ---- writes ------------------------------------------------------------------------------------

    async def put(self, path: str, value: bytes | None) -> AsyncTicket:
        """Sets the data of an existing znode, whatever its version.

        :returns: the ticket; its error may be NoNodeError or NoAuthError.
        :raises TypeError: path or value is of a wrong type. :raises ValueError: they are too large for ZooKeeper.
        :raises DeferredError: no more writes are taken: one was refused, the session is over, or this is closed.
        :raises CrossEnsembleError: the znode is not on the guard's ensemble.
        """
        return await self._issue(SetData, path, value, -1)

    async def add(self, path: str, value: bytes = b"") -> AsyncTicket:
        """Creates a znode, with the client's default ACL. Its parent must exist.

        The first child of a directory takes several requests, and later batches wait for them.

        :returns: the ticket; its error may be NodeExistsError, NoNodeError or NoAuthError.
        :raises: as :meth:`put`.
        """
        return await self._issue(Create, path, value, checked_acl(self._client.default_acl or None), 0)

    async def drop(self, path: str) -> AsyncTicket:
        """Deletes a znode without children, whatever its version.

        If it has had children on another ensemble, it takes several requests, and later batches wait for them.

        :returns: the ticket; its error may be NoNodeError, NotEmptyError or NoAuthError.
        :raises: as :meth:`put`.
        """
        return await self._issue(Delete, path, None, -1)

    async def _issue(
        self, kind: Callable[..., WriteRequest], path: str, value: bytes | None, *rest: Any
    ) -> AsyncTicket:
        request, size = checked(self._client.chroot, kind, path, value, *rest)
        self._client.verify_here()
        self._issued += 1
        if not self._issued % WRITES_A_TURN:
            await asyncio.sleep(0)
        directory, lanes = directory_of(request.path), self._lanes
        ticket = AsyncTicket(request, size, self)
        while True:
            lane = lanes.of.get(directory) or await self._find_lane(directory, request.path)
            if verify_taken(lanes, lanes.enter(lanes.put, lane, directory, ticket, self._max_pending)):
                return ticket
            await self.until(lambda: self.pending < self._max_pending)

    async def _find_lane(self, directory: str, path: str) -> Lane:
        """:param path: of a write in the directory."""
        if len(self._lanes.of) >= DIRECTORIES_REMEMBERED:
            await self.until(lambda: not self.pending)
            self._lanes.of.clear()
        verify_open(self._lanes)
        ensemble = await self._find(directory)
        guarded = directory_of_guard(self._lanes)
        if guarded is not None and self._guarded != ensemble:  # its directory may have moved
            self._guarded = await self._find(guarded)
        verify_open(self._lanes)
        if self._guarded not in (None, ensemble):
            raise apart_from_guard(self._lanes, path, ensemble, self._guarded or 0)
        return self._lanes.enter(self._lanes.assign, directory, ensemble)

    async def _find(self, directory: str) -> int:
        """See :meth:`parkazoo.structures.deferred.Deferred._find`."""
        has_waited, driver = False, self._own.driver
        while (context := driver.context).known(directory).certainty < CERTAIN:
            self._lanes.flush()
            found = self._client.new_future()
            driver.run(find_children(context, directory), FutureReply(found))
            try:
                ensemble: int | None = await found
            except DISCONNECTED:
                verify_open(self._lanes)
                await self._client.changed(PAUSE_S)
                continue
            if ensemble is not None:
                return ensemble
            if has_waited or not self.pending:
                break
            await self._until_issued()
            has_waited = True
        return driver.context.known(directory).mirror.ensemble

    # ---- waiting -----------------------------------------------------------------------------------

    @property
    def pending(self) -> int:
        """Returns the number of writes without an outcome."""
        return self._lanes.pending

    async def barrier(self) -> None:
        """Waits until everything issued so far is done, durable and visible to all clients.

        :func:`asyncio.timeout` limits that; the writes stay pending. While servers are unreachable, it waits until
        they are back or the session is over.

        :raises DeferredError: it names each write since the last barrier that is not done.
        """
        self._client.verify_here()
        waiting = self._naming.begin(asyncio.current_task())
        try:
            await self._until_issued()
        except BaseException:  # it is cancelled
            self._naming.give_up(waiting)
            raise
        bad = self._naming.bad(waiting)
        self._naming.name(bad, waiting)
        if bad:
            raise error_of(bad, self._client.unchroot)

    async def _until_issued(self) -> None:
        number = next(self._lanes.numbers)
        await self.until(lambda: all(each.has_ended(number) for each in self._lanes.all))

    async def until(self, condition: Callable[[], bool]) -> None:
        """Sends everything, and waits for a condition that the end of a write may bring about."""
        while True:
            self._lanes.flush()
            if condition():
                return
            change = self._client.new_future()
            self._waiters.add(change)
            try:
                await change
            finally:
                self._waiters.discard(change)

    def _tell(self) -> None:
        """Writes have ended."""
        for each in self._waiters:
            settle(each)

    # ---- the end -----------------------------------------------------------------------------------

    async def close(self) -> None:
        """Runs the last :meth:`barrier` and takes no more writes. To close again does nothing.

        Where it is cancelled, the client goes on with it for the session timeout at most.

        :raises: as :meth:`barrier`.
        """
        self._client.verify_here()
        self.end()
        try:
            await self.barrier()
        except DeferredError:
            self._remove()
            raise
        except BaseException:
            self._client.own(self._wind_up())
            raise
        self._remove()

    def end(self) -> None:
        """Takes no more writes, and sends all."""
        self._lanes.ended = self._lanes.ended or "closed"
        self._lanes.flush()

    def give_up(self) -> None:
        """Gives up pending writes, and logs them. A barrier names them all the same, if one waits or comes."""
        if self not in self._client._deferred:  # it was closed, or given up, before
            return
        if self.pending:
            why = ConnectionClosedError("nobody waits for it any longer")
            self._lanes.enter(self._lanes.end, why)
            self._tell()
        if bad := self._naming.unheard():
            self._client.logger.error(
                "Not done, and no barrier has said so: %s", error_of(bad, self._client.unchroot)
            )
        self._remove()

    async def _wind_up(self) -> None:
        try:
            async with asyncio.timeout(self._client.session_timeout_s):
                await self.until(lambda: not self.pending)
        except TimeoutError:
            pass
        self.give_up()

    def _remove(self) -> None:
        self._lanes.enter(self._lanes.remove)
        self._client.forget_deferred(self)

    async def __aenter__(self) -> AsyncDeferred:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes. If the block has raised, its error goes on, and errors of the writes are logged.

        After a cancellation the client goes on with it by itself, for the session timeout at most.
        """
        if kind is not None and not issubclass(kind, Exception):
            self.end()
            self._client.own(self._wind_up())
            return
        try:
            await self.close()
        except DeferredError as mine:
            if kind is None:
                raise
            self._client.logger.error("Deferred writes, after another error: %s", mine)


class AsyncDefersWrites(Tending):
    """Makes AsyncDeferreds of a client."""

    logger: Log
    session_timeout_s: float
    has_total_order: bool
    client_state: str
    _runtime: Any
    _own_operations: OwnOperations | None = None  # while there are deferred writes
    _deferred: tuple[AsyncDeferred, ...] = ()

    def deferred(
        self,
        max_pending: int = 10_000,
        linger_s: float = 0.002,
        on_error: Literal["stop", "skip"] = "stop",
        guard: str | None = None,
    ) -> AsyncDeferred:
        """Returns an :class:`AsyncDeferred`: its writes are **not durable, and not visible to others, until the
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
        verify_options(max_pending, linger_s, on_error, guard)
        self.verify_here()
        session = self._session
        is_closed = self._loop is None or self.client_state in CLOSED_ERRORS
        if session is None or session.driver is None or session.is_leaving or is_closed:
            raise ConnectionClosedError("the client is not connected: start it")
        if self.has_total_order:
            raise ConfigurationError("writes of a client with consistency='total' cannot be deferred")
        own = self._own_operations
        if own is None:
            acl = own_acl(self.auth_data)
            own = OwnOperations(session, self._runtime, self.session_timeout_s, acl, threading.RLock())
        made = AsyncDeferred(self, own, max_pending, linger_s, on_error == "skip", guard)
        self._own_operations = own
        self._deferred = (*self._deferred, made)
        return made

    def forget_deferred(self, deferred: AsyncDeferred) -> None:
        """Forgets an AsyncDeferred that is closed."""
        self._deferred = tuple(each for each in self._deferred if each is not deferred)
        if not self._deferred:
            self._own_operations = None

    def new_future(self) -> asyncio.Future[Any]:
        """
        :raises RuntimeError: the client runs on another loop.
        """
        return self._new_future()

    def _has_deferred(self) -> bool:
        """Whether deferred writes are pending as the client stops. If none is, their markers are removed."""
        if any(each.pending for each in self._deferred):
            return True
        self._give_up_deferred()
        return False

    def _give_up_deferred(self) -> None:
        for each in self._deferred:
            each.give_up()
