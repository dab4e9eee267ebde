"""kazoo's recipes, as a client offers them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime, timedelta
from typing import Any, ParamSpec, TypeVar, overload

from parkazoo.aio.recipe.async_barrier import AsyncBarrier, AsyncDoubleBarrier
from parkazoo.aio.recipe.async_counter import AsyncCounter, NumberT
from parkazoo.aio.recipe.async_election import AsyncElection
from parkazoo.aio.recipe.async_lease import AsyncMultiNonBlockingLease, AsyncNonBlockingLease, utc
from parkazoo.aio.recipe.async_lock import AsyncLock, AsyncReadLock, AsyncWriteLock
from parkazoo.aio.recipe.async_locking_queue import AsyncLockingQueue
from parkazoo.aio.recipe.async_once import AsyncOnce
from parkazoo.aio.recipe.async_partitioner import AsyncSetPartitioner, Divide
from parkazoo.aio.recipe.async_party import AsyncParty, AsyncShallowParty
from parkazoo.aio.recipe.async_queue import AsyncQueue
from parkazoo.aio.recipe.async_semaphore import AsyncSemaphore
from parkazoo.aio.recipe.async_spread import AsyncSpread
from parkazoo.aio.recipe.async_tree_cache import AsyncTreeCache
from parkazoo.aio.recipe.listing import SharedListings
from parkazoo.aio.tending import Tending
from parkazoo.aio.tree_states import TreeStates

P = ParamSpec("P")
T = TypeVar("T")
ItemT = TypeVar("ItemT")


class AsyncRecipes(Tending):
    """Has ``once``, and a method for each recipe, with kazoo's name, which makes its object and asks nothing."""

    def __init__(self) -> None:
        super().__init__()
        self._once = AsyncOnce(self)
        self.listings = SharedListings(self)

    async def once(self, func: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Does a write exactly once, however often the connection is lost; waits while the session lives.

        ``await client.once(client.create, "/queue/item-", b"...", sequence=True)``. The write is sent in a
        transaction that also sets an ephemeral znode of this client; after a lost connection that znode shows
        whether the write was done. If it is cancelled, the write may have been done, or may be done later, but
        never twice.

        :param func: this client's ``create``, ``set`` or ``delete``, or the ``commit`` of one of its transactions.
        :returns: the result of `func`. If an answer was lost, the stat of a ``set`` may be newer than the write.
        :raises SessionExpiredError, ConnectionClosedError: the session has ended. The message says so if the write
            may have been done; otherwise it was not.
        :raises AnswerLostError: the write was done, its answer was lost, and since then the znode was deleted or
            its directory has moved.
        :raises TypeError: `func` is another function, or has ``include_data`` or ``recursive``.
        :raises RequestTooLargeError: the servers do not take so many bytes; the write was not done.
        :raises: every other error of `func`.
        """
        result: T = await self._once.call(func, args, kwargs)
        return result

    def watch_tree(self, path: str) -> TreeStates:
        """Returns the states of a znode and of all below it, on all ensembles; see :class:`TreeStates`.

        ``async with zk.watch_tree(path) as states: async for state in states``.
        """
        return TreeStates(self, path)

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

    @overload
    def Counter(self, path: str, *, support_curator: bool = False) -> AsyncCounter[int]: ...
    @overload
    def Counter(self, path: str, default: NumberT, support_curator: bool = False) -> AsyncCounter[NumberT]: ...
    def Counter(self, path: str, default: Any = 0, support_curator: bool = False) -> AsyncCounter[Any]:
        """See :class:`parkazoo.aio.recipe.async_counter.AsyncCounter`."""
        return AsyncCounter(self, path, default, support_curator)

    def Queue(self, path: str) -> AsyncQueue:
        """See :class:`parkazoo.aio.recipe.async_queue.AsyncQueue`."""
        return AsyncQueue(self, path)

    def LockingQueue(self, path: str) -> AsyncLockingQueue:
        """See :class:`parkazoo.aio.recipe.async_locking_queue.AsyncLockingQueue`."""
        return AsyncLockingQueue(self, path)

    def TreeCache(self, path: str) -> AsyncTreeCache:
        """See :class:`parkazoo.aio.recipe.async_tree_cache.AsyncTreeCache`."""
        return AsyncTreeCache(self, path)

    def Barrier(self, path: str) -> AsyncBarrier:
        """See :class:`parkazoo.aio.recipe.async_barrier.AsyncBarrier`."""
        return AsyncBarrier(self, path)

    def DoubleBarrier(self, path: str, num_clients: int, identifier: str | None = None) -> AsyncDoubleBarrier:
        """See :class:`parkazoo.aio.recipe.async_barrier.AsyncDoubleBarrier`."""
        return AsyncDoubleBarrier(self, path, num_clients, identifier)

    def Party(self, path: str, identifier: str | None = None) -> AsyncParty:
        """See :class:`parkazoo.aio.recipe.async_party.AsyncParty`."""
        return AsyncParty(self, path, identifier)

    def ShallowParty(self, path: str, identifier: str | None = None) -> AsyncShallowParty:
        """See :class:`parkazoo.aio.recipe.async_party.AsyncShallowParty`."""
        return AsyncShallowParty(self, path, identifier)

    def Spread(self, path: str, buckets: int) -> AsyncSpread:
        """See :class:`parkazoo.aio.recipe.async_spread.AsyncSpread`."""
        return AsyncSpread(self, path, buckets)

    def SetPartitioner(
        self,
        path: str,
        set: Iterable[ItemT],
        partition_func: Divide[ItemT] | None = None,
        identifier: str | None = None,
        time_boundary: float = 30,
        max_reaction_time: float = 1,
        state_change_event: asyncio.Event | None = None,
    ) -> AsyncSetPartitioner[ItemT]:
        """See :class:`parkazoo.aio.recipe.async_partitioner.AsyncSetPartitioner`."""
        return AsyncSetPartitioner(
            self, path, set, partition_func, identifier, time_boundary, max_reaction_time, state_change_event
        )

    def NonBlockingLease(
        self,
        path: str,
        duration: timedelta,
        identifier: str | None = None,
        utcnow: Callable[[], datetime] = utc,
    ) -> AsyncNonBlockingLease:
        """See :class:`parkazoo.aio.recipe.async_lease.AsyncNonBlockingLease`."""
        return AsyncNonBlockingLease(self, path, duration, identifier, utcnow)

    def MultiNonBlockingLease(
        self,
        count: int,
        path: str,
        duration: timedelta,
        identifier: str | None = None,
        utcnow: Callable[[], datetime] = utc,
    ) -> AsyncMultiNonBlockingLease:
        """See :class:`parkazoo.aio.recipe.async_lease.AsyncMultiNonBlockingLease`."""
        return AsyncMultiNonBlockingLease(self, count, path, duration, identifier, utcnow)
