"""How a recipe for asyncio waits: for a watch, or until there is a connection again."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import TypeVar

from kazoo.exceptions import ConnectionClosedError, ConnectionLoss, OperationTimeoutError, SessionExpiredError
from kazoo.protocol.states import WatchedEvent

from parkazoo.aio.tending import Tending, answer
from parkazoo.aio.waking import settle
from parkazoo.protocol.outlasting import outlasting
from parkazoo.types.znodes import Watch

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 1.0
SPREAD = 0.4  # of a pause, or many clients would come at once
T = TypeVar("T")


class GrowingPauses:
    """Between attempts, longer and longer. A change of the session ends one."""

    def __init__(self, client: Tending) -> None:
        self._client = client
        self._next_s = FIRST_PAUSE_S

    async def next(self) -> None:
        pause_s, self._next_s = self._next_s, min(2 * self._next_s, LONGEST_PAUSE_S)
        await self._client.changed(pause_s * random.uniform(1 - SPREAD, 1 + SPREAD))


async def steadily(client: Tending, attempt: Callable[[], Awaitable[T]]) -> T:
    """Repeats an attempt after a lost connection and a lost session.

    :raises ConnectionClosedError: the client was stopped.
    """
    pauses = None
    while True:
        try:
            return await attempt()
        except ConnectionClosedError:  # it is a SessionExpiredError
            raise
        except (ConnectionLoss, OperationTimeoutError, SessionExpiredError):
            pauses = pauses or GrowingPauses(client)
        await pauses.next()


@outlasting
class Sight:
    """What one look has read, until it is out of date. It is itself the watch on all that it reads.

    A lost connection does not put it out of date: the next one tells of changes.

    ``with Sight(client) as sight`` forgets the watch at the end, and that of a read still under way.

    :ivar told: the types of the events that it was called with.
    :ivar on_change: called with the first of them.
    """

    def __init__(self, client: Tending, on_change: Callable[[], None] = lambda: None) -> None:
        self.told: tuple[str, ...] = ()  # an empty set takes 216 bytes, and many wait
        self.on_change = on_change
        self._client = client
        self._change: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._reads: list[tuple[str, asyncio.Future[object] | None]] = []

    def __call__(self, event: WatchedEvent) -> None:
        is_first = not self.told
        self.told += (event.type,)
        if is_first:
            self.on_change()
        settle(self._change)

    async def read(self, read: Callable[[str, Watch], asyncio.Future[T]], path: str) -> T:
        """Reads, with a watch."""
        issued, at = read(path, self), len(self._reads)
        self._reads.append((path, issued))  # type: ignore[arg-type]  # only asked whether it is done
        result = await answer(issued)
        self._reads[at] = path, None  # who waits for a change needs no answer any more
        return result

    def change(self) -> asyncio.Future[None]:
        """Await it: it comes when something that was read has changed, or the session is lost."""
        return self._change

    def __enter__(self) -> Sight:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        for path, issued in self._reads:
            if issued is None or issued.done():
                self._forget(path)
            else:
                issued.add_done_callback(lambda _, path=path: self._forget(path))  # type: ignore[misc]

    def _forget(self, path: str) -> None:
        self._client.forget_watch(path, self)


class ShortSight(Sight):
    """It is out of date, too, when the connection is lost."""

    outlasts_connection = False
