"""The states of a znode and of all below it, one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING

from parkazoo.aio.waking import set_event
from parkazoo.recipe.subtree import Found
from parkazoo.recipe.tree_reads import TreeReads
from parkazoo.types.znodes import Watch

if TYPE_CHECKING:
    from parkazoo.aio.tending import Tending


class TreeStates:
    """``async with`` it, then ``async for``: first the state once the whole subtree was read, then later ones.

    A state is a new dict: value and stat by path, of each znode that exists and may be read; empty if none does.
    :class:`parkazoo.recipe.tree_watcher.TreeWatcher` has what is promised. If waiting for the next is cancelled,
    nothing is lost.
    """

    def __init__(self, client: Tending, path: str) -> None:
        self._client = client
        self._reads = TreeReads(client, path, later, forgetting(client), self._note, ends_with_client=True)
        self._has_changed = asyncio.Event()
        self._has_begun = False
        self._has_ended = False
        self._seen = -1  # the number of changes in the last state

    async def __aenter__(self) -> TreeStates:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Forgets the watches, and ends the iteration."""
        self._has_ended = True
        self._reads.end()
        self._has_changed.set()

    def __aiter__(self) -> TreeStates:
        return self

    async def __anext__(self) -> Mapping[str, Found]:
        """
        :raises ConnectionClosedError: the client stops.
        :raises NoAuthError: the first znode may not be read.
        """
        if not (self._has_begun or self._has_ended):
            self._client.verify_here()
            self._has_begun = True
            self._reads.begin()
        while True:
            self._has_changed.clear()
            if self._has_ended:
                raise StopAsyncIteration
            if self._reads.failure is not None:
                raise self._reads.failure
            if self._reads.is_newer(self._seen) and (state := self._reads.snapshot()) is not None:
                self._seen, found = state
                return found
            await self._has_changed.wait()

    def _note(self) -> None:
        self._reads.take_changes()
        set_event(self._has_changed)


def later(delay_s: float, call: Callable[[], None]) -> asyncio.TimerHandle:
    """Has the loop that runs call a function."""
    return asyncio.get_running_loop().call_later(delay_s, call)


def forgetting(client: Tending) -> Callable[[str, Watch], None]:
    """A function that forgets a watch on a path, also one that the answer brings at which the loop is."""

    def forget(path: str, watch: Watch) -> None:
        asyncio.get_running_loop().call_soon(client.forget_watch, path, watch)

    return forget
