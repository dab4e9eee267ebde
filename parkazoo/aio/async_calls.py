"""kazoo's calls as coroutines, each with a twin that issues at once and returns a future."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Hashable
from contextlib import suppress
from functools import partial
from typing import Any, Literal, TypeVar, overload

from kazoo.exceptions import NoNodeError

from parkazoo.aio.async_transaction import AsyncTransaction
from parkazoo.aio.future_reply import FutureReply
from parkazoo.aio.znode_states import Wait, ZnodeStates
from parkazoo.compat.creation import Creation, Unfinished, ensure_path
from parkazoo.engine.ports import Reply
from parkazoo.protocol import asking
from parkazoo.protocol.asking import check_bool, check_path, prefixed
from parkazoo.protocol.ops.creates import Creation as AnyCreate
from parkazoo.protocol.steps import Request
from parkazoo.recipe.delete import TreeDelete
from parkazoo.recipe.tree_walk import TreeWalk
from parkazoo.types import ACL, ACLs, ZnodeStat
from parkazoo.types.znodes import Watch

T = TypeVar("T")


class AsyncCalls:
    """Has the calls of a client: kazoo's names, arguments, results and exceptions.

    ``get_async`` issues its request at once and returns a future; ``get`` does so when it is first awaited. A
    wrong argument is an error of the call itself. A client sends in the order in which its calls are issued.

    A call that is cancelled before it was sent is not done. Later it is finished without its caller: as after a
    ConnectionLoss, it may have been done or not.

    A watch is a plain function. The loop calls it, before any later answer wakes its task.
    """

    chroot: str
    default_acl: ACLs | None
    auth_data: set[tuple[str, str]]

    def __init__(self) -> None:
        self._unfinished = Unfinished()

    def _call(self, request: Request, reply: Reply) -> None:
        raise NotImplementedError

    def _new_future(self) -> asyncio.Future[Any]:
        raise NotImplementedError

    def unchroot(self, path: str) -> str:
        """Converts a path as a server names it into the user's: out of the mirror, below the chroot."""
        return asking.unchrooted(self.chroot, path)

    def _ask(self, request: Request) -> asyncio.Future[Any]:
        future = self._new_future()
        self._call(request, FutureReply(future))
        return future

    # ---- reads -----------------------------------------------------------------------------------

    async def exists(self, path: str, watch: Watch | None = None) -> ZnodeStat | None:
        """Returns the stat of a znode; None if it does not exist.

        :param watch: called once, when the znode is created, deleted or set, or the connection is lost.
        """
        return await self.exists_async(path, watch)

    def exists_async(self, path: str, watch: Watch | None = None) -> asyncio.Future[ZnodeStat | None]:
        """See :meth:`exists`."""
        return self._ask(asking.exists(self.chroot, path, plain(watch)))

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, ZnodeStat]:
        """Returns the value and the stat of a znode. The value is None if the znode was made with None.

        :param watch: called once, when the znode is set or deleted, or the connection is lost.
        :raises NoNodeError: the znode does not exist.
        """
        return await self.get_async(path, watch)

    def get_async(self, path: str, watch: Watch | None = None) -> asyncio.Future[tuple[bytes, ZnodeStat]]:
        """See :meth:`get`."""
        return self._ask(asking.get_data(self.chroot, path, plain(watch)))

    @overload
    async def get_children(
        self, path: str, watch: Watch | None = None, include_data: Literal[False] = False
    ) -> list[str]: ...
    @overload
    async def get_children(
        self, path: str, watch: Watch | None = None, *, include_data: Literal[True]
    ) -> tuple[list[str], ZnodeStat]: ...
    @overload
    async def get_children(
        self, path: str, watch: Watch | None = None, include_data: bool = False
    ) -> list[str] | tuple[list[str], ZnodeStat]: ...
    async def get_children(self, path: str, watch: Watch | None = None, include_data: bool = False) -> Any:
        """Returns the names of a znode's children, in no order.

        :param watch: called once, when a child is created or deleted, the znode is deleted, or the connection is
            lost.
        :param include_data: also return the znode's stat.
        :raises NoNodeError: the znode does not exist.
        """
        return await self.get_children_async(path, watch, include_data)

    @overload
    def get_children_async(
        self, path: str, watch: Watch | None = None, include_data: Literal[False] = False
    ) -> asyncio.Future[list[str]]: ...
    @overload
    def get_children_async(
        self, path: str, watch: Watch | None = None, *, include_data: Literal[True]
    ) -> asyncio.Future[tuple[list[str], ZnodeStat]]: ...
    @overload
    def get_children_async(
        self, path: str, watch: Watch | None = None, include_data: bool = False
    ) -> asyncio.Future[list[str] | tuple[list[str], ZnodeStat]]: ...
    def get_children_async(self, path: str, watch: Watch | None = None, include_data: bool = False) -> Any:
        """See :meth:`get_children`."""
        return self._ask(asking.get_children(self.chroot, path, plain(watch), include_data))

    async def get_acls(self, path: str) -> tuple[list[ACL], ZnodeStat]:
        """Returns the ACLs and the stat of a znode.

        :raises NoNodeError: the znode does not exist.
        """
        return await self.get_acls_async(path)

    def get_acls_async(self, path: str) -> asyncio.Future[tuple[list[ACL], ZnodeStat]]:
        """See :meth:`get_acls`."""
        return self._ask(asking.get_acls(self.chroot, path))

    async def sync(self, path: str) -> str:
        """Waits until the server of this client has caught up with its leader: for `path`, and for the children of
        `path`.

        :returns: the path.
        """
        return await self.sync_async(path)

    def sync_async(self, path: str) -> asyncio.Future[str]:
        """See :meth:`sync`."""
        request = asking.sync(self.chroot, path)
        own = request.path[len(self.chroot) :] or "/"  # the user's, whatever path was synced
        future: asyncio.Future[str] = self._new_future()
        self._call(request, FutureReply(future, lambda _: own))
        return future

    # ---- states ----------------------------------------------------------------------------------

    def watch_data(self, path: str) -> ZnodeStates[tuple[bytes, ZnodeStat] | None]:
        """Returns the states of a znode: value and stat, or None while it does not exist.

        ``async with zk.watch_data(path) as states: async for state in states``. See :class:`ZnodeStates`.
        """
        return self._states(
            path, self.get_async, lambda state: state and (state[1].czxid, state[1].mzxid, state[0])
        )

    def watch_children(self, path: str) -> ZnodeStates[list[str] | None]:
        """Returns the states of a znode's children: their names, in no order, or None while it does not exist.

        See :meth:`watch_data`.
        """
        return self._states(
            path, self.get_children_async, lambda names: None if names is None else frozenset(names)
        )

    def _states(
        self, path: str, read: Callable[[str, Watch], asyncio.Future[T]], key: Callable[[T | None], Hashable]
    ) -> ZnodeStates[T | None]:
        check_path(path)
        prefixed(self.chroot, path)  # raises for a path that cannot be

        async def read_or_miss(watch: Watch, wait: Wait) -> T | None:
            while True:
                with suppress(NoNodeError):
                    state: T = await wait(read(path, watch))
                    return state
                if await wait(self.exists_async(path, watch)) is None:
                    return None

        return ZnodeStates(read_or_miss, key, partial(self.forget_watch, path))

    def forget_watch(self, path: str, watch: Watch) -> None:
        """Forgets a watch on the data and on the children of a path. An event that has come may still call it."""
        raise NotImplementedError

    # ---- writes ----------------------------------------------------------------------------------

    async def add_auth(self, scheme: str, credential: str) -> bool:
        """Sends credentials to every ensemble, now and on each new connection.

        :param scheme: ``"digest"``, or another one that the servers know.
        :param credential: for digest, ``"user:password"``.
        :returns: True.
        :raises AuthFailedError: an ensemble refuses them; the client is closed then.
        """
        return await self.add_auth_async(scheme, credential)

    def add_auth_async(self, scheme: str, credential: str) -> asyncio.Future[bool]:
        """See :meth:`add_auth`."""
        request = asking.add_auth(scheme, credential)
        future: asyncio.Future[bool] = self._new_future()
        self.auth_data.add((scheme, credential))
        self._call(request, FutureReply(future))
        return future

    @overload
    async def create(
        self,
        path: str,
        value: bytes | None = b"",
        acl: ACLs | None = None,
        ephemeral: bool = False,
        sequence: bool = False,
        makepath: bool = False,
        include_data: Literal[False] = False,
    ) -> str: ...
    @overload
    async def create(
        self,
        path: str,
        value: bytes | None = b"",
        acl: ACLs | None = None,
        ephemeral: bool = False,
        sequence: bool = False,
        makepath: bool = False,
        *,
        include_data: Literal[True],
    ) -> tuple[str, ZnodeStat]: ...
    @overload
    async def create(
        self,
        path: str,
        value: bytes | None = b"",
        acl: ACLs | None = None,
        ephemeral: bool = False,
        sequence: bool = False,
        makepath: bool = False,
        include_data: bool = False,
    ) -> str | tuple[str, ZnodeStat]: ...
    async def create(
        self,
        path: str,
        value: bytes | None = b"",
        acl: ACLs | None = None,
        ephemeral: bool = False,
        sequence: bool = False,
        makepath: bool = False,
        include_data: bool = False,
    ) -> Any:
        """Creates a znode. After a ConnectionLoss it may exist; an ephemeral one then ends with the session.

        :param acl: by default the client's `default_acl`; without that, anyone may do anything.
        :param ephemeral: delete the znode when this session ends. It can have no children.
        :param sequence: append a number of ten digits, which grows with each child of the parent.
        :param makepath: create all missing levels above it.
        :param include_data: also return the znode's stat.
        :returns: the path, with the sequence number.
        :raises NodeExistsError: the znode exists.
        :raises NoNodeError: the parent does not exist.
        :raises NoChildrenForEphemeralsError: the parent is ephemeral.
        """
        acl = acl or None  # kazoo's: an empty one is the default, but to the twin
        return await self.create_async(path, value, acl, ephemeral, sequence, makepath, include_data)

    @overload
    def create_async(
        self,
        path: str,
        value: bytes | None = b"",
        acl: ACLs | None = None,
        ephemeral: bool = False,
        sequence: bool = False,
        makepath: bool = False,
        include_data: Literal[False] = False,
    ) -> asyncio.Future[str]: ...
    @overload
    def create_async(
        self,
        path: str,
        value: bytes | None = b"",
        acl: ACLs | None = None,
        ephemeral: bool = False,
        sequence: bool = False,
        makepath: bool = False,
        *,
        include_data: Literal[True],
    ) -> asyncio.Future[tuple[str, ZnodeStat]]: ...
    @overload
    def create_async(
        self,
        path: str,
        value: bytes | None = b"",
        acl: ACLs | None = None,
        ephemeral: bool = False,
        sequence: bool = False,
        makepath: bool = False,
        include_data: bool = False,
    ) -> asyncio.Future[str | tuple[str, ZnodeStat]]: ...
    def create_async(
        self,
        path: str,
        value: bytes | None = b"",
        acl: ACLs | None = None,
        ephemeral: bool = False,
        sequence: bool = False,
        makepath: bool = False,
        include_data: bool = False,
    ) -> Any:
        """See :meth:`create`."""
        acl = self._acl(acl)
        request = asking.create(self.chroot, path, value, acl, ephemeral, sequence, makepath, include_data)
        return self._begin_create(request, makepath)

    def _acl(self, acl: ACLs | None) -> ACLs | None:
        """Of a new znode."""
        return self.default_acl or None if acl is None else acl

    def _begin_create(self, request: AnyCreate, makepath: bool) -> asyncio.Future[Any]:
        """:param makepath: it may take several requests, and `stop` waits for all of them."""
        future = self._new_future()
        reply: Reply = FutureReply(future)
        if makepath:
            reply = self._unfinished.reply(reply)
        Creation(self, request, reply, makes_above=makepath).begin()
        return future

    async def ensure_path(self, path: str, acl: ACLs | None = None) -> str | bool:
        """Creates a znode without a value, and all missing levels above it.

        :param acl: of each znode that it creates; see :meth:`create`.
        :returns: the path if the znode was created, True if it existed.
        """
        return await self.ensure_path_async(path, acl)

    def ensure_path_async(self, path: str, acl: ACLs | None = None) -> asyncio.Future[str | bool]:
        """See :meth:`ensure_path`."""
        check_path(path)
        whole = prefixed(self.chroot, path)
        future: asyncio.Future[str | bool] = self._new_future()
        reply = FutureReply(future)
        ensure_path(self, whole, acl, reply).pass_on(self._unfinished.reply(reply))
        return future

    async def set(self, path: str, value: bytes | None, version: int = -1) -> ZnodeStat:
        """Sets the value of a znode. After a ConnectionLoss it may have been set.

        :param version: the version that the znode must have; -1 for any.
        :raises NoNodeError: the znode does not exist.
        :raises BadVersionError: it has another version.
        """
        return await self.set_async(path, value, version)

    def set_async(self, path: str, value: bytes | None, version: int = -1) -> asyncio.Future[ZnodeStat]:
        """See :meth:`set`."""
        return self._ask(asking.set_data(self.chroot, path, value, version))

    async def set_acls(self, path: str, acls: ACLs, version: int = -1) -> ZnodeStat:
        """Sets the ACLs of a znode. After a ConnectionLoss they may have been set.

        :param version: the version that the ACLs must have (`aversion` of the stat); -1 for any.
        :raises NoNodeError: the znode does not exist.
        :raises BadVersionError: the ACLs have another version.
        :raises InvalidACLError: the server does not accept these ACLs.
        """
        return await self.set_acls_async(path, acls, version)

    def set_acls_async(self, path: str, acls: ACLs, version: int = -1) -> asyncio.Future[ZnodeStat]:
        """See :meth:`set_acls`."""
        return self._ask(asking.set_acls(self.chroot, path, acls, version))

    async def delete(self, path: str, version: int = -1, recursive: bool = False) -> bool | None:
        """Deletes a znode. After a ConnectionLoss it may be deleted; after a recursive delete, so may any znode
        below it.

        :param version: the version that the znode must have; -1 for any. A recursive delete ignores it.
        :param recursive: delete all znodes below it first; then a missing znode is no error.
        :returns: True; None after a recursive delete that found the znode.
        :raises NoNodeError: the znode does not exist.
        :raises BadVersionError: it has another version.
        :raises NotEmptyError: it has children.
        """
        check_bool("recursive", recursive)
        if recursive:
            nothing: bool | None = await self._walk(TreeDelete(self, path))
            return nothing
        return await self.delete_async(path, version)

    async def _walk(self, tree: TreeWalk) -> Any:
        try:
            answer: object = None
            while True:
                issued = tree.next(answer)
                if issued is None:
                    return tree.result
                try:
                    answer = await issued
                except Exception as error:
                    answer = error
        finally:
            for issued in tree.issued():  # nobody waits for them
                issued.cancel()

    def delete_async(self, path: str, version: int = -1) -> asyncio.Future[bool]:
        """See :meth:`delete`; not recursive."""
        return self._ask(asking.delete(self.chroot, path, version))

    def transaction(self) -> AsyncTransaction:
        """Returns a transaction of one ensemble; ``async with`` commits it."""
        return AsyncTransaction(self)


def plain(watch: Watch | None) -> Watch | None:
    if watch is not None and inspect.iscoroutinefunction(watch):
        raise TypeError("Invalid type for 'watch' (a plain function, not a coroutine function)")
    return watch
