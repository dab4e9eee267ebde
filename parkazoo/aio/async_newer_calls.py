"""Calls that kazoo does not have, as coroutines: the session's identities and ephemerals, the number of znodes."""

from __future__ import annotations

import asyncio

from parkazoo.aio.async_calls import AsyncCalls
from parkazoo.aio.future_reply import FutureReply
from parkazoo.protocol import asking
from parkazoo.protocol.newer_requests import WhoAmI
from parkazoo.recipe.count import TreeCount
from parkazoo.types import Id


class AsyncNewerCalls(AsyncCalls):
    """Has calls of ZooKeeper that kazoo does not have. Servers that are too old raise UnimplementedError, and end
    the connection.
    """

    async def whoami(self) -> list[Id]:
        """Returns the identities of this client, as one ensemble knows them; ZooKeeper 3.7.

        Of each scheme `ip` has the address that the server of that ensemble sees.
        """
        return await self.whoami_async()

    def whoami_async(self) -> asyncio.Future[list[Id]]:
        """See :meth:`whoami`."""
        return self._ask(WhoAmI())

    async def get_ephemerals(self, path: str = "/") -> list[str]:
        """Returns the paths of this session's ephemerals on all ensembles, sorted; ZooKeeper 3.6.

        The ensembles are asked at once, but their answers are not of one moment. An ephemeral whose create has no
        answer yet may be missing.

        :param path: only those at or below it.
        """
        return await self.get_ephemerals_async(path)

    def get_ephemerals_async(self, path: str = "/") -> asyncio.Future[list[str]]:
        """See :meth:`get_ephemerals`."""
        request = asking.get_ephemerals(self.chroot, path)
        future: asyncio.Future[list[str]] = self._new_future()
        self._call(request, FutureReply(future, lambda paths: [*map(self.unchroot, paths)]))
        return future

    async def count_all_children(self, path: str) -> int:
        """Returns the number of znodes below one, on all ensembles.

        It lists each of them, up to a hundred at a time; so the number is exact only if nobody makes or deletes
        any meanwhile.

        :raises NoNodeError: the znode does not exist.
        """
        count: int = await self._walk(TreeCount(self, path))
        return count
