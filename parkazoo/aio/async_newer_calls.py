"""Calls that kazoo does not have, as coroutines: see :mod:`parkazoo.compat.newer_calls`."""

from __future__ import annotations

import asyncio

from parkazoo.aio.async_calls import AsyncCalls
from parkazoo.aio.future_reply import FutureReply
from parkazoo.protocol import asking
from parkazoo.protocol.newer_requests import WhoAmI
from parkazoo.recipe.count import TreeCount
from parkazoo.types import ACLs, Id


class AsyncNewerCalls(AsyncCalls):
    """Has calls of ZooKeeper that kazoo does not have. Servers that are too old raise UnimplementedError, and end
    the connection.
    """

    async def create_ttl(
        self,
        path: str,
        value: bytes | None = b"",
        *,
        ttl: float,
        acl: ACLs | None = None,
        sequence: bool = False,
        makepath: bool = False,
    ) -> str:
        """Creates a znode that the servers delete when nobody has set it for a time. See :meth:`create`.

        The servers need ``extendedTypesEnabled=true``. They delete it only while it has no child; so give it none:
        if its children are on another ensemble, a pin below it keeps it for ever. No stat tells of a TTL.

        :param ttl: seconds; the servers look once a minute.
        :raises UnimplementedError: the servers take no TTL.
        """
        return await self.create_ttl_async(path, value, ttl=ttl, acl=acl, sequence=sequence, makepath=makepath)

    def create_ttl_async(
        self,
        path: str,
        value: bytes | None = b"",
        *,
        ttl: float,
        acl: ACLs | None = None,
        sequence: bool = False,
        makepath: bool = False,
    ) -> asyncio.Future[str]:
        """See :meth:`create_ttl`."""
        request = asking.create_ttl(self.chroot, path, value, ttl, self._acl(acl), sequence, makepath)
        return self._begin_create(request, makepath)

    async def create_container(
        self, path: str, value: bytes | None = b"", acl: ACLs | None = None, makepath: bool = False
    ) -> str:
        """Creates a znode that the servers delete once its last child has gone. See :meth:`create`.

        Only for a directory whose children are on its own ensemble, as ``parkazoo where`` shows, while the map has
        not grown: elsewhere a pin would keep it for ever.

        :raises BadArgumentsError: it would be kept for ever; nothing was done.
        """
        return await self.create_container_async(path, value, acl, makepath)

    def create_container_async(
        self, path: str, value: bytes | None = b"", acl: ACLs | None = None, makepath: bool = False
    ) -> asyncio.Future[str]:
        """See :meth:`create_container`."""
        request = asking.create_container(self.chroot, path, value, self._acl(acl), makepath)
        return self._begin_create(request, makepath)

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
