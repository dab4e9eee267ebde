"""kazoo's calls that read: the same arguments, checks and answers, with types and on a shorter way."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal, overload

from parkazoo.engine.ports import OnAnswer, Reply, give
from parkazoo.protocol import asking
from parkazoo.protocol.asking import get_data
from parkazoo.types import ACL, AsyncResult, KazooClient, ZnodeStat
from parkazoo.types.znodes import Watch


class Reads(KazooClient):
    """Has the calls of a client that read; :class:`~parkazoo.compat.calls.KazooCalls` has their errors."""

    def exists(self, path: str, watch: Watch | None = None) -> ZnodeStat | None:
        """Returns the stat of a znode; None if it does not exist.

        :param watch: called once, when the znode is created, deleted or set, or the connection is lost.
        """
        return self.exists_async(path, watch=watch).get()

    def exists_async(self, path: str, watch: Watch | None = None) -> AsyncResult[ZnodeStat | None]:
        """See :meth:`exists`."""
        request = asking.exists(self.chroot, path, watch)
        result: AsyncResult[ZnodeStat | None] = self.handler.async_result()
        self._call(request, result)
        return result

    def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, ZnodeStat]:
        """Returns the value and the stat of a znode. The value is None if the znode was made with None.

        :param watch: called once, when the znode is set or deleted, or the connection is lost.
        :raises NoNodeError: the znode does not exist.
        """
        return self.get_async(path, watch=watch).get()

    def get_async(self, path: str, watch: Watch | None = None) -> AsyncResult[tuple[bytes, ZnodeStat]]:
        """See :meth:`get`."""
        request = get_data(self.chroot, path, watch)
        result: AsyncResult[tuple[bytes, ZnodeStat]] = self.handler.async_result()
        self._call(request, result)
        return result

    @overload
    def get_children(
        self, path: str, watch: Watch | None = None, include_data: Literal[False] = False
    ) -> list[str]: ...
    @overload
    def get_children(
        self, path: str, watch: Watch | None = None, *, include_data: Literal[True]
    ) -> tuple[list[str], ZnodeStat]: ...
    @overload
    def get_children(
        self, path: str, watch: Watch | None = None, include_data: bool = False
    ) -> list[str] | tuple[list[str], ZnodeStat]: ...
    def get_children(self, path: str, watch: Watch | None = None, include_data: bool = False) -> Any:
        """Returns the names of a znode's children, in no order.

        :param watch: called once, when a child is created or deleted, the znode is deleted, or the connection is
            lost.
        :param include_data: also return the znode's stat.
        :raises NoNodeError: the znode does not exist.
        """
        return self.get_children_async(path, watch=watch, include_data=include_data).get()

    @overload
    def get_children_async(
        self, path: str, watch: Watch | None = None, include_data: Literal[False] = False
    ) -> AsyncResult[list[str]]: ...
    @overload
    def get_children_async(
        self, path: str, watch: Watch | None = None, *, include_data: Literal[True]
    ) -> AsyncResult[tuple[list[str], ZnodeStat]]: ...
    @overload
    def get_children_async(
        self, path: str, watch: Watch | None = None, include_data: bool = False
    ) -> AsyncResult[list[str] | tuple[list[str], ZnodeStat]]: ...
    def get_children_async(self, path: str, watch: Watch | None = None, include_data: bool = False) -> Any:
        """See :meth:`get_children`."""
        request = asking.get_children(self.chroot, path, watch, include_data)
        result = self.handler.async_result()
        self._call(request, result)
        return result

    def get_acls(self, path: str) -> tuple[list[ACL], ZnodeStat]:
        """Returns the ACLs and the stat of a znode.

        :raises NoNodeError: the znode does not exist.
        """
        return self.get_acls_async(path).get()

    def get_acls_async(self, path: str) -> AsyncResult[tuple[list[ACL], ZnodeStat]]:
        """See :meth:`get_acls`."""
        request = asking.get_acls(self.chroot, path)
        result: AsyncResult[tuple[list[ACL], ZnodeStat]] = self.handler.async_result()
        self._call(request, result)
        return result

    def sync(self, path: str) -> str:
        """Waits until the server of this client has caught up with its leader: for `path`, and for the children of
        `path`.

        :returns: the path.
        """
        return self.sync_async(path).get()

    def sync_async(self, path: str) -> AsyncResult[str]:
        """See :meth:`sync`."""
        result: AsyncResult[str] = self.handler.async_result()
        request = asking.sync(self.chroot, path)
        self._call(request, OnAnswer(partial(_synced, super().unchroot(request.path), result)))
        return result


def _synced(path: str, reply: Reply, answer: Any) -> None:
    """Gives the user's path to the reply to a sync, whatever path was synced."""
    give(reply, answer if isinstance(answer, Exception) else path)
