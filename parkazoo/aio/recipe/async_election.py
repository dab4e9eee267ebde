"""kazoo's Election for asyncio."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar

from parkazoo.aio.recipe.async_lock import AsyncLock
from parkazoo.aio.tending import Tending

P = ParamSpec("P")
T = TypeVar("T")


class AsyncElection:
    """kazoo's Election: ``await client.Election("/leader").run(lead)``.

    :ivar lock: that the leader holds.
    """

    def __init__(self, client: Tending, path: str, identifier: str | None = None) -> None:
        """:param identifier: the data of its znode, for :meth:`contenders`."""
        self.lock = AsyncLock(client, path, identifier)

    async def run(self, func: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Waits until it is elected, then awaits ``func(*args, **kwargs)``, and resigns.

        If it is cancelled, it resigns at once, or contends no more.

        :returns: what `func` returns.
        :raises LockLostError: the session was lost meanwhile, which has cancelled `func`.
        :raises ConnectionClosedError: the client was stopped.
        """
        if not callable(func):
            raise ValueError("leader function is not callable")
        async with self.lock:
            return await func(*args, **kwargs)

    async def contenders(self) -> list[str]:
        """Returns the identifiers of the leader and of those that wait, in order."""
        return await self.lock.contenders()
