"""How a recipe for asyncio waits: for a watch, or until there is a connection again."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import TypeVar

from kazoo.exceptions import ConnectionClosedError, ConnectionLoss, OperationTimeoutError, SessionExpiredError
from kazoo.protocol.states import WatchedEvent

from parkazoo.aio.tending import Tending, answer
from parkazoo.types.znodes import Watch

PAUSE_S, MOST_PAUSE_S = 0.05, 1.0
T = TypeVar("T")


async def steadily(client: Tending, attempt: Callable[[], Awaitable[T]]) -> T:
    """Repeats an attempt after a lost connection and a lost session.

    :raises ConnectionClosedError: the client was stopped.
    """
    pause_s = PAUSE_S
    while True:
        try:
            return await attempt()
        except ConnectionClosedError:  # it is a SessionExpiredError
            raise
        except (ConnectionLoss, OperationTimeoutError, SessionExpiredError):
            pass
        await client.changed(pause_s)
        pause_s = min(2 * pause_s, MOST_PAUSE_S)


class Sight:
    """What one look has read, until it is out of date. It is itself the watch on all that it reads.

    ``with Sight(client) as sight`` forgets the watch at the end, and that of a read still under way.

    :ivar told: the types of the events that it was called with.
    """

    def __init__(self, client: Tending) -> None:
        self.told: set[str] = set()
        self._client = client
        self._change: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._reads: list[tuple[str, asyncio.Future[object]]] = []

    def __call__(self, event: WatchedEvent) -> None:
        self.told.add(event.type)
        if not self._change.done():
            self._change.set_result(None)

    async def read(self, read: Callable[[str, Watch], asyncio.Future[T]], path: str) -> T:
        """Reads, with a watch."""
        issued = read(path, self)
        self._reads.append((path, issued))  # type: ignore[arg-type]  # only asked whether it is done
        return await answer(issued)

    async def change(self) -> None:
        """Waits until something that was read has changed, or the connection is lost."""
        await self._change

    def __enter__(self) -> Sight:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for path, issued in self._reads:
            if issued.done():
                self._forget(path)
            else:
                issued.add_done_callback(lambda _, path=path: self._forget(path))  # type: ignore[misc]

    def _forget(self, path: str) -> None:
        self._client.forget_watch(path, self)
