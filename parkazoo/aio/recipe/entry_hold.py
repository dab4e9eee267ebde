"""The lock of one entry of a LockingQueue, for one attempt, withdrawn however that ends."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import suppress

from kazoo.exceptions import BadVersionError, KazooException, NodeExistsError, NoNodeError

from parkazoo.aio.recipe.own_znode import catch_up
from parkazoo.aio.recipe.sight import steadily
from parkazoo.aio.tending import Tending, answer
from parkazoo.recipe.queue_layout import QueueLayout, errors_of
from parkazoo.types.client import TransactionResult

OTHERS_FIRST = BadVersionError, NodeExistsError, NoNodeError


class EntryHold:
    """Locks an entry by an ephemeral whose data nobody else has.

    :ivar value: of the entry, once it is locked. :ivar session: the number of its session.
    """

    def __init__(self, client: Tending) -> None:
        self.session = client.session_number
        self.value = b""
        self._id = uuid.uuid4().hex.encode()
        self._client = client
        self._layout: QueueLayout
        self._entry = ""
        self._version = -1  # of the entry since it is locked
        self._locking: asyncio.Future[list[TransactionResult]] | None = None  # None: it has no lock

    @property
    def is_of_now(self) -> bool:
        """Whether its session still is the client's."""
        return self.session == self._client.session_number

    @property
    def is_tried(self) -> bool:
        """Whether it has a lock, or may have one."""
        return self._locking is not None

    async def lock(self, layout: QueueLayout, entry: str) -> bool:
        """Locks an entry. After a lost answer, :meth:`has_locked` says whether it did.

        :returns: False if somebody else was first.
        :raises NoNodeError: another program has deleted the entry meanwhile.
        :raises CrossEnsembleError: entries and locks are on two ensembles.
        """
        path = layout.path_of(entry)
        transaction = self._client.transaction()
        if layout.is_kazoos:
            transaction.check(path, -1)
        else:
            try:
                value, stat = await self._client.get(path)
            except NoNodeError:
                return False
            self.value, self._version = value or b"", stat.version + 1
            transaction.set_data(path, self.value, stat.version)
        transaction.create(layout.lock_of(entry), self._id, ephemeral=True)
        self._layout, self._entry = layout, entry
        self._locking = transaction.commit_async()
        results: list[TransactionResult] = await answer(self._locking)
        if errors := errors_of(results):
            self._locking = None
            if all(isinstance(error, OTHERS_FIRST) for error in errors):
                return False
            raise errors[0]
        if layout.is_kazoos:
            await self._read()
        return True

    async def has_locked(self) -> bool:
        """Whether a lock was made whose answer is lost.

        :raises NoNodeError: another program has deleted the entry.
        """
        await catch_up(self._client, self._layout.lock_of(self._entry))
        await self._read()
        if not await self._is_ours():
            self._locking = None
        return self.is_tried

    async def is_held(self) -> bool:
        """Whether the lock is there."""
        await catch_up(self._client, self._layout.lock_of(self._entry))
        return await self._is_ours()

    async def _read(self) -> None:
        value, stat = await self._client.get(self._layout.path_of(self._entry))
        self.value, self._version = value or b"", stat.version

    async def _is_ours(self) -> bool:
        with suppress(NoNodeError):
            return (await self._client.get(self._layout.lock_of(self._entry)))[0] == self._id
        return False

    async def end(self, is_consumed: bool) -> bool:
        """Deletes the lock, and the entry if it is consumed; waits for that while the connection is lost.

        :returns: whether the lock was held until now.
        """
        attempts = 0

        async def attempt() -> bool:
            nonlocal attempts
            attempts += 1
            return await self._end(is_consumed) or (attempts > 1 and self.is_of_now)  # an answer was lost

        return await steadily(self._client, attempt)

    async def _end(self, is_consumed: bool) -> bool:
        if self._layout.is_kazoos and not await self._is_ours():  # another holder has not changed the version
            return False
        transaction = self._client.transaction()
        self._layout.add_end(transaction, self._entry, self._version, is_consumed)
        errors = errors_of(await transaction.commit())
        for error in errors:
            if not isinstance(error, OTHERS_FIRST):
                raise error
        return not errors

    async def withdraw(self) -> None:
        """Releases the entry, if there is a lock; waits for that while the connection is lost."""
        if self._locking is None:
            return
        if not self._locking.done():
            await asyncio.wait([self._locking])
        with suppress(KazooException):  # the client was stopped; or it lost the right to do so
            await steadily(self._client, self._unlock)

    async def _unlock(self) -> None:
        with suppress(NoNodeError):
            try:
                if await self.has_locked():
                    await self._end(is_consumed=False)
            except NoNodeError:  # another program has deleted the entry
                if await self._is_ours():
                    await self._client.delete(self._layout.lock_of(self._entry))
