"""kazoo's Semaphore for asyncio."""

from __future__ import annotations

import uuid

from kazoo.exceptions import NodeExistsError, NoNodeError, SessionExpiredError

from parkazoo.aio.recipe.async_lock import AsyncLock, identifiers
from parkazoo.aio.recipe.own_znode import OwnZnode
from parkazoo.aio.recipe.possession import Possession
from parkazoo.aio.recipe.sight import Sight, steadily
from parkazoo.aio.tending import Tending
from parkazoo.protocol.placement import join


class AsyncSemaphore(Possession):
    """kazoo's Semaphore: ``async with client.Semaphore("/leases/a", max_leases=3)``. An object has one lease.

    As with a lock, a lost session cancels the body, and the block raises :class:`LockLostError`; where it is
    cancelled, or fails, the client withdraws the lease. Tasks that share an object take turns.
    """

    def __init__(self, client: Tending, path: str, identifier: str | None = None, max_leases: int = 1) -> None:
        """:param identifier: the data of its znode, for :meth:`lease_holders`.
        :param max_leases: how many leases there are. It stands in the data of the folder: who makes that decides.
        """
        super().__init__(client, path, identifier)
        if not isinstance(max_leases, int):
            raise TypeError("Invalid type for 'max_leases' (int expected)")
        self.max_leases = max_leases
        self._identifier = identifier
        self._is_agreed = False

    async def acquire(self, blocking: bool = True) -> bool:
        """See :meth:`Possession.acquire`.

        :raises ValueError: the folder has another number of leases.
        """
        return await super().acquire(blocking)

    def _new(self) -> OwnZnode:
        return OwnZnode(self.client, join(self.path, uuid.uuid4().hex), self.data)

    async def _try(self, own: OwnZnode, blocking: bool) -> bool:
        """Only who holds the guard takes a lease, or waits for one."""
        if not self._is_agreed:
            await self._agree()
        guard = AsyncLock(self.client, f"{self.path}-__lock__", self._identifier)
        if not await guard.acquire(blocking):
            return False
        try:
            while guard.is_acquired:
                with Sight(self.client) as sight:
                    if await self._is_free(own, sight):
                        if not guard.is_acquired:
                            break
                        await own.make()
                        return True
                    if not blocking:
                        return False
                    await sight.change()
            raise SessionExpiredError
        finally:
            guard._let_go()

    async def _is_free(self, own: OwnZnode, sight: Sight) -> bool:
        try:
            leases = await sight.read(self.client.get_children_async, self.path)
        except NoNodeError:
            self._is_agreed = False
            raise
        return len(leases) < self.max_leases or own.name in leases  # the answer to its create was lost

    async def _agree(self) -> None:
        """On the number of leases."""
        try:
            await self.client.create(self.path, str(self.max_leases).encode(), makepath=True)
        except NodeExistsError:
            data = (await self.client.get(self.path))[0] or b""
            if data.isdigit() and int(data) != self.max_leases:  # other data may be another program's
                raise ValueError(f"{self.path} has {int(data)} leases, not max_leases={self.max_leases}") from None
        self._is_agreed = True

    async def lease_holders(self) -> list[str]:
        """Returns the identifiers of those that hold a lease, in no order."""
        return await steadily(self.client, self._identifiers)

    async def _identifiers(self) -> list[str]:
        try:
            names = await self.client.get_children(self.path)
        except NoNodeError:
            return []
        return await identifiers(self.client, [join(self.path, name) for name in names])
