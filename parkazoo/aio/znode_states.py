"""The states of a znode, or of its children, one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from types import TracebackType
from typing import Any, Generic, TypeVar

from kazoo.exceptions import ConnectionClosedError, ConnectionLoss, SessionExpiredError
from kazoo.protocol.states import WatchedEvent

from parkazoo.aio.waking import set_event
from parkazoo.protocol.outlasting import outlasting
from parkazoo.types.znodes import Watch

T = TypeVar("T")
Wait = Callable[["asyncio.Future[Any]"], Awaitable[Any]]
PAUSE_S = 0.1  # after a lost connection: requests fail at once while the session begins anew


class ZnodeStates(Generic[T]):
    """``async with`` it, then ``async for``: the state that there is now, and each one that differs from the last.

    It reads again after each event; if a connection was lost, when a server tells that something has changed
    meanwhile. So the newest state always comes; between two that come, others may have been. If waiting for the
    next is cancelled, nothing is lost.

    :param read: reads the state, and leaves a watch for what comes after; it waits for each answer by a function.
    :param key: tells states apart.
    :param forget: forgets that watch.
    """

    def __init__(
        self,
        read: Callable[[Watch, Wait], Awaitable[T]],
        key: Callable[[T], Hashable],
        forget: Callable[[Watch], None],
    ) -> None:
        self._read = read
        self._key = key
        self._forget = forget
        self._seen: list[Hashable] = []  # the last state; empty before the first
        self._is_due = asyncio.Event()
        self._is_due.set()
        self._has_ended = False

    async def __aenter__(self) -> ZnodeStates[T]:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Forgets the watch, and ends the iteration."""
        self._has_ended = True
        self._is_due.set()
        self._forget(self._note)

    def __aiter__(self) -> ZnodeStates[T]:
        return self

    async def __anext__(self) -> T:
        """
        :raises ConnectionClosedError: the client stops.
        :raises: what a read raises, but for a lost connection.
        """
        while True:
            await self._is_due.wait()
            if self._has_ended:
                raise StopAsyncIteration
            for state in await self._read_again():
                key = self._key(state)
                if self._seen != [key]:
                    self._seen = [key]
                    return state

    async def _read_again(self) -> list[T]:
        """The state; nothing if the connection was lost meanwhile."""
        self._is_due.clear()
        try:
            return [await self._read(self._note, self._wait)]
        except BaseException as error:
            self._is_due.set()
            is_lost = isinstance(error, (ConnectionLoss, SessionExpiredError))
            if not is_lost or isinstance(error, ConnectionClosedError):  # which is a SessionExpiredError
                raise
        await asyncio.sleep(PAUSE_S)
        return []

    async def _wait(self, issued: asyncio.Future[Any]) -> Any:
        """A cancellation does not reach the read: so it is known when its watch has come."""
        issued.add_done_callback(self._have_read)
        await asyncio.wait([issued])
        return issued.result()

    def _have_read(self, issued: asyncio.Future[Any]) -> None:
        if not issued.cancelled():
            issued.exception()  # perhaps nobody else looks at it
        if self._has_ended:
            self._forget(self._note)

    @outlasting
    def _note(self, event: WatchedEvent) -> None:
        set_event(self._is_due)
