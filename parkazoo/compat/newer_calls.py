"""Calls that kazoo does not have: the session's identities and ephemerals, the number of znodes."""

from __future__ import annotations

from functools import partial
from typing import Any

from parkazoo.compat.calls import KazooCalls
from parkazoo.engine.ports import OnAnswer, Reply, give
from parkazoo.protocol import asking
from parkazoo.protocol.newer_requests import WhoAmI
from parkazoo.recipe.count import TreeCount
from parkazoo.types import AsyncResult, Id


class NewerCalls(KazooCalls):
    """Has calls of ZooKeeper that kazoo does not have. Servers that are too old raise UnimplementedError, and end
    the connection.
    """

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
