"""Calls that kazoo does not have: creates with an end, the session's identities and ephemerals, a count."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from parkazoo.compat.calls import KazooCalls
from parkazoo.engine.ports import OnAnswer, Reply, give
from parkazoo.protocol import asking
from parkazoo.protocol.newer_requests import WhoAmI
from parkazoo.recipe.count import TreeCount
from parkazoo.recipe.tree_watcher import TreeWatcher
from parkazoo.types import ACLs, AsyncResult, Id, ZnodeStat


class NewerCalls(KazooCalls):
    """Has calls of ZooKeeper that kazoo does not have. Servers that are too old raise UnimplementedError, and end
    the connection.
    """

    def create_ttl(
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
        return self.create_ttl_async(path, value, ttl=ttl, acl=acl, sequence=sequence, makepath=makepath).get()

    def create_ttl_async(
        self,
        path: str,
        value: bytes | None = b"",
        *,
        ttl: float,
        acl: ACLs | None = None,
        sequence: bool = False,
        makepath: bool = False,
    ) -> AsyncResult[str]:
        """See :meth:`create_ttl`."""
        acl = self.default_acl or None if acl is None else acl
        request = asking.create_ttl(self.chroot, path, value, ttl, acl, sequence, makepath)
        result: AsyncResult[str] = self.handler.async_result()
        self._begin_create(request, result, makepath)
        return result

    def create_container(
        self, path: str, value: bytes | None = b"", acl: ACLs | None = None, makepath: bool = False
    ) -> str:
        """Creates a znode that the servers delete once its last child has gone. See :meth:`create`.

        Only for a directory whose children are on its own ensemble, as ``parkazoo where`` shows, while the map has
        not grown: elsewhere a pin would keep it for ever.

        :raises BadArgumentsError: it would be kept for ever; nothing was done.
        """
        return self.create_container_async(path, value, acl, makepath).get()

    def create_container_async(
        self, path: str, value: bytes | None = b"", acl: ACLs | None = None, makepath: bool = False
    ) -> AsyncResult[str]:
        """See :meth:`create_container`."""
        acl = self.default_acl or None if acl is None else acl
        request = asking.create_container(self.chroot, path, value, acl, makepath)
        result: AsyncResult[str] = self.handler.async_result()
        self._begin_create(request, result, makepath)
        return result

    def whoami(self) -> list[Id]:
        """Returns the identities of this client, as one ensemble knows them; ZooKeeper 3.7.

        Of each scheme `ip` has the address that the server of that ensemble sees.
        """
        return self.whoami_async().get()

    def whoami_async(self) -> AsyncResult[list[Id]]:
        """See :meth:`whoami`."""
        result: AsyncResult[list[Id]] = self.handler.async_result()
        self._call(WhoAmI(), result)
        return result

    def get_ephemerals(self, path: str = "/") -> list[str]:
        """Returns the paths of this session's ephemerals on all ensembles, sorted; ZooKeeper 3.6.

        The ensembles are asked at once, but their answers are not of one moment. An ephemeral whose create has no
        answer yet may be missing.

        :param path: only those at or below it.
        """
        return self.get_ephemerals_async(path).get()

    def get_ephemerals_async(self, path: str = "/") -> AsyncResult[list[str]]:
        """See :meth:`get_ephemerals`."""
        request = asking.get_ephemerals(self.chroot, path)
        result: AsyncResult[list[str]] = self.handler.async_result()
        self._call(request, OnAnswer(partial(self._unchroot_all, result), result))
        return result

    def _unchroot_all(self, reply: Reply, answer: Any) -> None:
        give(reply, answer if isinstance(answer, Exception) else [*map(self.unchroot, answer)])

    def count_all_children(self, path: str) -> int:
        """Returns the number of znodes below one, on all ensembles.

        It lists each of them, up to a hundred at a time; so the number is exact only if nobody makes or deletes
        any meanwhile.

        :raises NoNodeError: the znode does not exist.
        """
        count: int = TreeCount(self, path).run()
        return count

    def watch_tree(
        self, path: str, func: Callable[[Mapping[str, tuple[bytes, ZnodeStat]]], object] | None = None
    ) -> TreeWatcher:
        """Calls a function with the states of a znode and of all below it, on all ensembles.

        ``client.watch_tree("/config", func)``, or as a decorator, ``@client.watch_tree("/config")``. See
        :class:`parkazoo.recipe.tree_watcher.TreeWatcher`.
        """
        return TreeWatcher(self, path, func)
