"""kazoo's SetPartitioner for asyncio."""

from __future__ import annotations

import asyncio
import inspect
import os
import socket
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Generic, TypeVar

from kazoo.exceptions import ConnectionClosedError, NoNodeError
from kazoo.recipe.partitioner import PartitionState

from parkazoo.aio.recipe.async_lock import AsyncLock
from parkazoo.aio.recipe.async_party import AsyncShallowParty
from parkazoo.aio.recipe.possession import LockLostError
from parkazoo.aio.recipe.sight import ShortSight, Sight, steadily
from parkazoo.aio.recipe.task_turns import TaskTurns
from parkazoo.aio.tending import Tending
from parkazoo.aio.waking import set_event
from parkazoo.kazoo_private import normpath
from parkazoo.protocol.asking import check_path
from parkazoo.protocol.placement import join

ItemT = TypeVar("ItemT")
Divide = Callable[[str, list[str], list[ItemT]], Sequence[ItemT]]


class AsyncSetPartitioner(Generic[ItemT]):
    """kazoo's SetPartitioner: the members of a party divide items among them, each of which one member has.

    ``async with client.SetPartitioner("/work", ["a", "b"]) as partitioner`` leaves at the end; ``async for share
    in partitioner`` gives a list of items that are this member's until :meth:`wait_for_release`. Members of both
    kinds of client share a party.

    It has no task: it joins, waits and locks in :meth:`wait_for_acquire`, and only its watch works meanwhile. So
    RELEASE comes at once, when members come or go, or the connection is lost; FAILURE comes with a lost session.

    :ivar state: kazoo's PartitionState. :ivar state_change_event: is set at each change of it.
    """

    def __init__(
        self,
        client: Tending,
        path: str,
        items: Iterable[ItemT],
        partition_func: Divide[ItemT] | None = None,
        identifier: str | None = None,
        time_boundary: float = 30,
        max_reaction_time: float = 1,
        state_change_event: asyncio.Event | None = None,
    ) -> None:
        """:param items: the same for all members; ``str(item)`` is the name of a znode.
        :param partition_func: gives a member's items; called with its identifier, those of all members, and all
            items.
        :param identifier: by default the host's name and the process's id. Each member needs its own.
        :param time_boundary: seconds for which the party must be the same before it is divided.
        :param max_reaction_time: kazoo's, in seconds; this reacts at once.
        :raises ValueError: the identifier has a slash, or the time is below 0.
        :raises TypeError: an argument is of a wrong type, such as an event of another kind than asyncio's.
        """
        check_path(path)
        if isinstance(time_boundary, bool) or not isinstance(time_boundary, (int, float)):
            raise TypeError(f"time_boundary must be seconds, not {time_boundary!r}")
        if not time_boundary >= 0:
            raise ValueError(f"time_boundary must not be below 0, not {time_boundary!r}")
        if not isinstance(state_change_event, (asyncio.Event, type(None))):  # another's wait would block the loop
            raise TypeError(f"state_change_event must be an asyncio.Event, not {state_change_event!r}")
        divide = partition_func or _by_turns
        if not callable(divide) or inspect.iscoroutinefunction(divide):
            raise TypeError(f"partition_func must be a plain function, not {divide!r}")
        self.client = client
        self.path: str = normpath(path)
        self.time_boundary = time_boundary
        self.max_reaction_time = max_reaction_time
        self.state: str = PartitionState.ALLOCATING
        self.state_change_event = state_change_event or asyncio.Event()
        self._items = list(items)
        self._divide = divide
        self._identifier = identifier or f"{socket.gethostname()}-{os.getpid()}"
        self._party = AsyncShallowParty(client, join(self.path, "party"), self._identifier)
        self._turns = TaskTurns()
        self._share: list[ItemT] = []
        self._locks: list[AsyncLock] = []
        self._sight: Sight | None = None  # of the party, while it has a share
        self._hurry: Callable[[], None] | None = None  # ends the wait for a lock
        self._has_finished = False

    def __iter__(self) -> Iterator[ItemT]:
        """The items that this has."""
        return iter(list(self._share))

    @property
    def failed(self) -> bool:
        """Whether the state is FAILURE: it is over."""
        return self.state == PartitionState.FAILURE

    @property
    def release(self) -> bool:
        """Whether the state is RELEASE: call :meth:`release_set` as soon as possible."""
        return self.state == PartitionState.RELEASE

    @property
    def allocating(self) -> bool:
        """Whether the state is ALLOCATING: call :meth:`wait_for_acquire`."""
        return self.state == PartitionState.ALLOCATING

    @property
    def acquired(self) -> bool:
        """Whether the state is ACQUIRED: it has its items."""
        return self.state == PartitionState.ACQUIRED

    async def wait_for_acquire(self) -> None:
        """Joins, and waits while the state is ALLOCATING; also while the connection is lost. If it is cancelled,
        it has no item, and stays a member.

        A client that stops meanwhile makes the state FAILURE.

        :raises ConnectionClosedError: the client was stopped before.
        :raises: what `partition_func` raises; then the state is FAILURE.
        """
        self.client.verify_here()
        await self._turns.take()
        try:
            if self.allocating:
                self.client.losses.add(self._fail)
                await steadily(self.client, self._allocate)
        except Exception:
            self._fail()
            raise
        finally:
            if not (self.acquired or self.release):  # a program may be at work on what is to be released
                self._let_go()
            if self.failed:  # meanwhile
                self._party._let_go()
            self._turns.give()

    async def _allocate(self) -> None:
        while self.allocating:
            await self._party.join()
            if not self.allocating:  # it has finished meanwhile, or lost its session
                return
            sight = ShortSight(self.client)
            try:
                members = await self._stable_members(sight)
                if members is not None and self.allocating and await self._lock_share(sight, members):
                    self._sight = sight
                    sight.on_change = self._have_changed
                    self._set_state(PartitionState.ACQUIRED)
                    return
            finally:
                if self._sight is not sight:
                    sight.close()
            await self._release_locks()

    async def _stable_members(self, sight: Sight) -> list[str] | None:
        """The names of the members; None if they change."""
        try:
            names: list[str] = await sight.read(self.client.get_children_async, self._party.path)
        except NoNodeError:
            names = []
        if self._party._znode_name not in names:  # another program has deleted it
            self._party._let_go()
            return None
        with suppress(TimeoutError):
            async with asyncio.timeout(self.time_boundary):
                await sight.change()
        return None if sight.told else names

    async def _lock_share(self, sight: Sight, members: list[str]) -> bool:
        """Whether it has all of its items, and the members are the same. Then there is no suspension."""
        identifiers = [name.partition("-")[2] for name in members]
        share = list(self._divide(self._identifier, identifiers, list(self._items)))
        with suppress(TimeoutError):
            async with asyncio.timeout(None) as limit:
                self._hurry = partial(limit.reschedule, asyncio.get_running_loop().time())
                sight.on_change = self._stop_waiting
                try:
                    for item in share:
                        lock = AsyncLock(self.client, join(join(self.path, "locks"), str(item)))
                        self._locks.append(lock)
                        await lock.acquire()
                finally:
                    self._hurry = None
        if sight.told or not self.allocating or not all(lock.is_acquired for lock in self._locks):
            return False
        self._share = share
        return True

    def _stop_waiting(self) -> None:
        """For a lock: there is another reason to go on."""
        hurry, self._hurry = self._hurry, None
        if hurry is not None:
            hurry()

    def _have_changed(self) -> None:
        """The members have, or the connection was lost."""
        if self.acquired:
            self._set_state(PartitionState.RELEASE)

    async def wait_for_release(self) -> None:
        """Waits while the state is ACQUIRED."""
        self.client.verify_here()
        while self.acquired:
            self.state_change_event.clear()
            await self.state_change_event.wait()

    async def release_set(self) -> None:
        """Releases the items, if it has any; the state is ALLOCATING then. If it is cancelled, the release goes on
        by itself.
        """
        self.client.verify_here()
        if self.failed or self.allocating:  # then a wait_for_acquire has the locks
            return
        self._set_state(PartitionState.ALLOCATING)
        await self._release_locks()

    async def finish(self) -> None:
        """Releases the items, and leaves the party. If it is cancelled, it goes on by itself."""
        self.client.verify_here()
        self._has_finished = True
        self.client.losses.discard(self._fail)
        if not self.failed:
            self._set_state(PartitionState.FAILURE)
        self._stop_waiting()
        await self.client.finish(self._leave(self._take_locks()))

    async def __aenter__(self) -> AsyncSetPartitioner[ItemT]:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """As :meth:`finish`."""
        await self.finish()

    def __aiter__(self) -> AsyncSetPartitioner[ItemT]:
        return self

    async def __anext__(self) -> list[ItemT]:
        """Waits until the last share is to be released, releases it, and waits for the next one. :meth:`finish`
        ends the iteration.

        :raises LockLostError: the session was lost.
        """
        await self.wait_for_release()
        while not self.acquired:
            if self._has_finished:
                raise StopAsyncIteration
            if self.failed:
                raise LockLostError(f"{self.path}: the session was lost, and so was this member's share")
            if self.release:
                await self.release_set()
            await self.wait_for_acquire()
        return list(self)

    def _fail(self) -> None:
        """It has lost its session, or cannot divide."""
        self.client.losses.discard(self._fail)
        if not self.failed:
            self._set_state(PartitionState.FAILURE)
        self._stop_waiting()
        self._let_go()
        self._party._let_go()

    def _set_state(self, state: str) -> None:
        self.state = state
        set_event(self.state_change_event)

    def _take_locks(self) -> list[AsyncLock]:
        """They are this one's no more."""
        locks, self._locks = self._locks, []
        self._share = []
        if self._sight is not None:
            self._sight.close()
            self._sight = None
        return locks

    async def _release_locks(self) -> None:
        locks = self._take_locks()
        if locks:
            await self.client.finish(_release(locks))

    def _let_go(self) -> None:
        """Has them released; nobody waits for that."""
        for lock in self._take_locks():
            lock._let_go()

    async def _leave(self, locks: list[AsyncLock]) -> None:
        with suppress(ConnectionClosedError):
            await _release(locks)
            await self._party.leave()


async def _release(locks: list[AsyncLock]) -> None:
    for lock in locks:
        await lock.release()


def _by_turns(identifier: str, members: list[str], items: list[ItemT]) -> Sequence[ItemT]:
    """As kazoo does."""
    return sorted(items)[sorted(members).index(identifier) :: len(members)]  # type: ignore[type-var]
