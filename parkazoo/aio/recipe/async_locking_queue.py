"""kazoo's LockingQueue for asyncio."""

from __future__ import annotations

from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING

from kazoo.exceptions import NodeExistsError, NoNodeError

from parkazoo.aio.recipe.async_queue import check_entry
from parkazoo.aio.recipe.entry_hold import EntryHold
from parkazoo.aio.recipe.possession import Body, LockLostError
from parkazoo.aio.recipe.sight import Sight, steadily
from parkazoo.aio.recipe.task_turns import TaskTurns
from parkazoo.errors import AnswerLostError
from parkazoo.kazoo_private import normpath
from parkazoo.protocol.asking import check_path
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.recipe.queue_layout import (
    OURS,
    QueueLayout,
    entries_of,
    errors_of,
    first_data,
    is_lock,
    may_be_kazoos,
)

if TYPE_CHECKING:
    from parkazoo.aio.async_recipes import AsyncRecipes


class AsyncLockingQueue:
    """kazoo's LockingQueue: an entry is locked, then consumed or released.

    ``async with client.LockingQueue("/q").entry() as value`` does all of that. :meth:`get`, :meth:`consume` and
    :meth:`release` have one entry for the object, as kazoo's do; tasks that share it take turns.
    :class:`parkazoo.recipe.queue.LockingQueue` has what is promised, and where the locks are.
    """

    def __init__(self, client: AsyncRecipes, path: str) -> None:
        check_path(path)
        self.client = client
        self.path: str = normpath(path)
        self._turns = TaskTurns()
        self._layout: QueueLayout | None = None  # of the folder, while it is believed to exist
        self._held: EntryHold | None = None

    async def put(self, value: bytes, priority: int = 100) -> None:
        """Puts an entry exactly once; see :meth:`AsyncQueue.put`."""
        check_entry(value, priority)
        await self._put([value], priority)

    async def put_all(self, values: list[bytes], priority: int = 100) -> None:
        """Puts several entries, all or none, exactly once; see :meth:`AsyncQueue.put`."""
        if not isinstance(values, list):
            raise TypeError("values must be a list of byte strings")
        for value in (b"", *values):
            check_entry(value, priority)
        if values:
            await self._put(values, priority)

    async def _put(self, values: list[bytes], priority: int) -> None:
        while True:
            layout = await steadily(self.client, self._choose)
            transaction = self.client.transaction()
            for value in values:
                transaction.create(layout.path_of(f"entry-{priority:03d}-"), value, sequence=True)
            with suppress(AnswerLostError):  # they were put, and another client has taken one
                errors = errors_of(await self.client.once(transaction.commit))
                if errors and isinstance(errors[0], NoNodeError):  # another program has deleted the folder
                    self._layout = None
                    continue
                for error in errors:
                    raise error
            return

    async def get(self) -> bytes:
        """Locks the first entry that is not locked, and waits for one; or returns the one that is being processed,
        unless its session is lost. :func:`asyncio.timeout` limits that. If it is cancelled, the client releases
        the entry.

        :raises ConnectionClosedError: the client was stopped.
        """
        await self._turns.take()
        try:
            held = self._held
            if held is None or not held.is_of_now:
                self._held = None
                if held is not None:
                    self.client.own(held.withdraw())
                held = await self._hold()
                left, self._held = self._held, held
                if left is not None:  # its consume was refused meanwhile
                    self.client.own(left.withdraw())
            return held.value
        finally:
            self._turns.give()

    async def holds_lock(self) -> bool:
        """Returns whether this still holds the lock of the entry that it got."""
        return self._held is not None and await steadily(self.client, self._held.is_held)

    async def consume(self) -> bool:
        """Removes the entry that is being processed. If it is cancelled, it goes on by itself, also while the
        connection is lost.

        :returns: whether it was removed; False if the lock was lost, and another client may have the entry.
        """
        return await self._give_back(is_consumed=True)

    async def release(self) -> bool:
        """Releases the entry that is being processed; else as :meth:`consume`.

        :returns: whether this still had its lock.
        """
        return await self._give_back(is_consumed=False)

    async def _give_back(self, is_consumed: bool) -> bool:
        self.client.verify_here()
        held, self._held = self._held, None
        return held is not None and bool(await self.client.finish(self._end(held, is_consumed)))

    async def _end(self, held: EntryHold, is_consumed: bool) -> bool:
        """If that is refused, it is still being processed, unless there is another one by then."""
        try:
            return await held.end(is_consumed)
        except Exception:
            if self._held is None:
                self._held = held
            else:
                await held.withdraw()
            raise

    def entry(self) -> EntryInProcess:
        """``async with queue.entry() as value``: locks an entry of its own, whatever :meth:`get` has, and waits
        for one. The end of the block consumes it; if the block raises, or is cancelled, it is released.

        A lost session cancels the block, which raises :class:`LockLostError`, as that of a lock does.
        """
        return EntryInProcess(self)

    async def qsize(self) -> int:
        """Returns the number of entries, locked ones included; waits while the connection is lost."""
        return await steadily(self.client, self._count)

    async def _count(self) -> int:
        try:
            names = await self.client.get_children(entries_of(self.path))
        except NoNodeError:
            return 0
        return sum(not is_lock(name) for name in names)

    async def _choose(self) -> QueueLayout:
        """The layout of the folder, which it makes if it is missing."""
        if self._layout is None:
            cluster_map = await self.client.known_map()
            is_kazoos = may_be_kazoos(cluster_map) and await self._make_entries(cluster_map) != OURS
            layout = QueueLayout(self.path, is_kazoos)
            for folder in layout.folders:
                await self.client.ensure_path(folder)
            self._layout = layout
        return self._layout

    async def _make_entries(self, cluster_map: ClusterMap) -> bytes:
        """The data of `entries`."""
        path = entries_of(self.path)
        while True:
            with suppress(NodeExistsError):
                await self.client.create(path, first_data(cluster_map), makepath=True)
            with suppress(NoNodeError):
                return (await self.client.get(path))[0] or b""

    async def _hold(self) -> EntryHold:
        """An entry of its own. From the last answer to the end there is no suspension."""
        hold = EntryHold(self.client)

        async def attempt() -> None:
            nonlocal hold
            while True:
                if not hold.is_of_now:
                    self.client.own(hold.withdraw())
                    hold = EntryHold(self.client)
                try:
                    await self._take(hold)
                except NoNodeError:  # another program has deleted the entry, or the folder
                    self.client.own(hold.withdraw())
                    hold = EntryHold(self.client)
                    self._layout = None
                else:
                    if hold.is_of_now:
                        return

        try:
            await steadily(self.client, attempt)
        except BaseException:
            self.client.own(hold.withdraw())
            raise
        self.client.hear_others()
        return hold

    async def _take(self, hold: EntryHold) -> None:
        if hold.is_tried and await hold.has_locked():
            return
        layout = await self._choose()
        while True:
            with Sight(self.client) as sight:
                entry = await self._first_free(layout, sight)
                if entry is None:
                    await sight.change()
                elif await hold.lock(layout, entry):
                    return

    async def _first_free(self, layout: QueueLayout, sight: Sight) -> str | None:
        names: list[str] = await sight.read(self.client.get_children_async, layout.entries)
        locks = names
        if layout.is_kazoos:
            locks = await sight.read(self.client.get_children_async, layout.locks)
        return layout.first_free(names, locks)


class EntryInProcess:
    """See :meth:`AsyncLockingQueue.entry`."""

    def __init__(self, queue: AsyncLockingQueue) -> None:
        self._queue = queue
        self._hold: EntryHold | None = None
        self._body: Body | None = None

    async def __aenter__(self) -> bytes:
        if self._hold is not None:
            raise RuntimeError("this has an entry already: call entry() for each")
        self._hold = await self._queue._hold()
        self._body = Body(self._queue.client)
        return self._hold.value

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """
        :raises LockLostError: the session was lost; or, at a clean end, another program has deleted the lock.
        """
        hold, body, client = self._hold, self._body, self._queue.client
        assert hold is not None
        assert body is not None
        self._hold = None
        if body.is_lost:
            client.own(hold.withdraw())
        body.end(self._queue.path, kind, error)
        if not body.is_lost:
            was_held = await client.finish(self._end(hold, is_consumed=kind is None))
            if kind is None and not was_held:
                raise LockLostError(f"{self._queue.path}: the entry was not consumed, for its lock was lost")

    async def _end(self, hold: EntryHold, is_consumed: bool) -> bool:
        """If that is refused, the entry is released."""
        try:
            return await hold.end(is_consumed)
        except Exception:
            await hold.withdraw()
            raise
