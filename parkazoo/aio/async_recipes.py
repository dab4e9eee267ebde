"""kazoo's recipes, as a client offers them."""

from __future__ import annotations

from collections.abc import Iterable

from parkazoo.aio.recipe.async_election import AsyncElection
from parkazoo.aio.recipe.async_lock import AsyncLock, AsyncReadLock, AsyncWriteLock
from parkazoo.aio.recipe.async_semaphore import AsyncSemaphore
from parkazoo.aio.tending import Tending


class AsyncRecipes(Tending):
    """Has a method for each recipe, with kazoo's name: it makes the recipe's object, and asks nothing."""

    def Lock(self, path: str, identifier: str | None = None, extra_lock_patterns: Iterable[str] = ()) -> AsyncLock:
        """See :class:`parkazoo.aio.recipe.async_lock.AsyncLock`."""
        return AsyncLock(self, path, identifier, extra_lock_patterns)

    def ReadLock(
        self, path: str, identifier: str | None = None, extra_lock_patterns: Iterable[str] = ()
    ) -> AsyncReadLock:
        """See :class:`parkazoo.aio.recipe.async_lock.AsyncReadLock`."""
        return AsyncReadLock(self, path, identifier, extra_lock_patterns)

    def WriteLock(
        self, path: str, identifier: str | None = None, extra_lock_patterns: Iterable[str] = ()
    ) -> AsyncWriteLock:
        """See :class:`parkazoo.aio.recipe.async_lock.AsyncWriteLock`."""
        return AsyncWriteLock(self, path, identifier, extra_lock_patterns)

    def Semaphore(self, path: str, identifier: str | None = None, max_leases: int = 1) -> AsyncSemaphore:
        """See :class:`parkazoo.aio.recipe.async_semaphore.AsyncSemaphore`."""
        return AsyncSemaphore(self, path, identifier, max_leases)

    def Election(self, path: str, identifier: str | None = None) -> AsyncElection:
        """See :class:`parkazoo.aio.recipe.async_election.AsyncElection`."""
        return AsyncElection(self, path, identifier)
