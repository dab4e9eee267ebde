"""kazoo's barriers for asyncio."""

from __future__ import annotations

import os
import socket
import uuid
from contextlib import suppress
from types import TracebackType

from kazoo.exceptions import BadVersionError, NoAuthError, NodeExistsError, NoNodeError
from kazoo.protocol.states import EventType

from parkazoo.aio.recipe.own_znode import OwnZnode
from parkazoo.aio.recipe.sight import Sight, steadily
from parkazoo.aio.tending import Tending
from parkazoo.kazoo_private import normpath
from parkazoo.protocol.asking import check_path
from parkazoo.protocol.placement import join
from parkazoo.recipe.barrier_rounds import READY, Ready, joined, read_ready
from parkazoo.types import ZnodeStat


class AsyncBarrier:
    """kazoo's Barrier: it is in place while its znode exists. All calls wait while the connection is lost."""

    def __init__(self, client: Tending, path: str) -> None:
        check_path(path)
        self.client = client
        self.path: str = normpath(path)

    async def create(self) -> None:
        """Puts the barrier in place, if it is not."""
        await steadily(self.client, lambda: self.client.ensure_path(self.path))

    async def remove(self) -> bool:
        """Removes the barrier.

        :returns: whether it was in place; if an answer was lost, perhaps for another client's removal.
        """
        attempts = 0

        async def attempt() -> bool:
            nonlocal attempts
            attempts += 1
            try:
                await self.client.delete(self.path)
            except NoNodeError:
                return attempts > 1
            return True

        return await steadily(self.client, attempt)

    async def wait(self) -> None:
        """Waits until the barrier is removed. :func:`asyncio.timeout` limits that.

        :raises ConnectionClosedError: the client was stopped.
        """
        await steadily(self.client, self._wait)
        self.client.hear_others()

    async def _wait(self) -> None:
        while True:
            with Sight(self.client) as sight:
                if await sight.read(self.client.exists_async, self.path) is None:
                    return
                await sight.change()


class AsyncDoubleBarrier:
    """kazoo's DoubleBarrier: ``async with client.DoubleBarrier("/tasks/a", 3)`` enters, and leaves at the end.

    Members of both kinds of client share a barrier: :class:`parkazoo.recipe.barrier.DoubleBarrier` has its rounds.
    A lost session takes this member out; :meth:`leave` waits for the others all the same.

    :ivar participating: this has entered, and not left.
    """

    def __init__(self, client: Tending, path: str, num_clients: int, identifier: str | None = None) -> None:
        """:param num_clients: how many members are to enter.
        :param identifier: the data of its znode. By default the host's name and the process's id.
        """
        check_path(path)
        if not isinstance(num_clients, int):
            raise TypeError("Invalid type for 'num_clients' (int expected)")
        self.client = client
        self.path: str = normpath(path)
        self.num_clients = num_clients
        self.participating = False
        self._data = str(identifier or f"{socket.gethostname()}-{os.getpid()}").encode()
        self._entry: _Entry | None = None

    async def __aenter__(self) -> AsyncDoubleBarrier:
        """Enters, as :meth:`enter` does."""
        await self.enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leaves, as :meth:`leave` does."""
        await self.leave()

    async def enter(self) -> None:
        """Waits until `num_clients` members have entered, also over a lost connection. Where it is cancelled, or
        fails, the client withdraws this member.

        :raises ConnectionClosedError: the client was stopped.
        :raises RuntimeError: this has entered already.
        """
        if self._entry is not None:
            raise RuntimeError(f"{self.path}: this member has entered, or is about to")
        entry = _Entry(self.client, self.path, self.num_clients, self._data)
        self._entry = entry
        try:
            await steadily(self.client, entry.enter)
        except BaseException:
            self._entry = None
            self.client.own(entry.own.withdraw())
            raise
        self.participating = True
        self.client.hear_others()

    async def leave(self) -> None:
        """Waits until all members have left, also over a lost connection. If it is cancelled, it goes on by
        itself.

        :raises ConnectionClosedError: the client was stopped.
        """
        self.client.verify_here()
        if not self.participating or self._entry is None:
            return
        entry, self._entry = self._entry, None
        self.participating = False
        await self.client.finish(_Exit(self.client, self.path, entry.own, entry.names).leave())
        self.client.hear_others()


class _Folder:
    """The folder of a barrier."""

    def __init__(self, client: Tending, path: str) -> None:
        self.path = path
        self.ready = join(path, READY)
        self._client = client

    async def read_ready(self, sight: Sight | None = None) -> Ready | None:
        """None if there is none. :param sight: watches it."""
        asked = (
            self._client.exists(self.ready) if sight is None else sight.read(self._client.exists_async, self.ready)
        )
        stat: ZnodeStat | None = await asked
        if stat is None:
            return None
        try:
            data, stat = await self._client.get(self.ready)
        except NoNodeError:
            return None
        except NoAuthError:
            data = b""
        return read_ready(data, stat.version)

    async def name_in_ready(self, ready: Ready | None, names: frozenset[str]) -> bool:
        """Has ``ready`` name these, and makes it if there is none.

        :returns: False if it has changed since it was read.
        """
        data = joined(names)
        try:
            if ready is None:
                await self._client.create(self.ready, data)
            else:
                await self._set_ready(data, ready.version)
        except (NodeExistsError, BadVersionError):
            return False
        except NoNodeError:
            if ready is None:  # the folder is gone
                raise
            return False
        return True

    async def _set_ready(self, data: bytes, version: int) -> None:
        try:
            await self._client.set(self.ready, data, version)
        except NoAuthError:  # of a member with another identity; but who may make and delete here may replace it
            async with self._client.transaction() as replacement:
                replacement.delete(self.ready, version)
                replacement.create(self.ready, data)

    async def delete(self, name: str, version: int = -1) -> None:
        with suppress(NoNodeError):
            await self._client.delete(join(self.path, name), version)


class _Entry:
    """The way of one member into a barrier. Its name stays, whatever session it has.

    :ivar own: its znode. :ivar names: the members of its round; none if kazoo has made that.
    """

    def __init__(self, client: Tending, path: str, num_clients: int, data: bytes) -> None:
        self.names: frozenset[str] = frozenset()
        self._client = client
        self._folder = _Folder(client, path)
        self._num_clients = num_clients
        self._data = data
        self._name = uuid.uuid4().hex
        self._has_seen_none = False  # there was no `ready` when it was there
        self._has_come = False  # a `ready` has, since then
        self._renew()

    def _renew(self) -> None:
        self.own = OwnZnode(self._client, join(self._folder.path, self._name), self._data)

    async def enter(self) -> None:
        while True:
            if not self.own.is_of_now:  # what is left of an earlier session would be counted
                await self.own.withdraw()
                self._renew()
            with Sight(self._client) as sight:
                try:
                    has_entered = await self._has_entered(sight)
                except NoNodeError:  # another program has deleted the folder, or its znode
                    self._renew()
                    continue
                if has_entered and self.own.is_of_now:
                    return
                if has_entered is False:
                    await sight.change()
                    self._has_come |= EventType.CREATED in sight.told

    async def _has_entered(self, sight: Sight) -> bool | None:
        """Whether this member is in a round; None if ``ready`` has changed meanwhile. See
        :meth:`parkazoo.recipe.barrier.DoubleBarrier._has_entered`.
        """
        await self.own.make()
        ready = await self._folder.read_ready(sight)
        if ready is not None and self._name in ready.names:
            self.names = ready.names
            return True
        was_there = self._has_come or (ready is not None and self._has_seen_none)
        self._has_seen_none |= ready is None
        if was_there and ready is None:
            return True  # kazoo's members have begun to leave
        members = frozenset(await self._client.get_children(self._folder.path)) - {READY}
        if self._name not in members:
            raise NoNodeError
        if len(members) < self._num_clients:
            if not was_there:
                return False
            if ready is not None and ready.names:  # others may wait for the next round
                members = frozenset({self._name})
        names = members if ready is None else ready.names | members
        if not await self._folder.name_in_ready(ready, names):
            return None
        self.names = names
        return True


class _Exit:
    """The way of one member out of a barrier.

    :param names: the members of its round; none if kazoo has made that.
    """

    def __init__(self, client: Tending, path: str, own: OwnZnode, names: frozenset[str]) -> None:
        self._client = client
        self._folder = _Folder(client, path)
        self._own = own
        self._names = names
        self._left: Ready | None = None  # as it was when it began to leave
        self._round: frozenset[str] | None = None  # the members that leave with it, when it has looked

    async def leave(self) -> None:
        try:
            await steadily(self._client, self._leave)
        finally:
            self._client.own(self._own.withdraw())

    async def _leave(self) -> None:
        while True:
            with Sight(self._client) as sight:
                if await self._have_all_left(sight):
                    return
                await sight.change()

    async def _have_all_left(self, sight: Sight) -> bool:
        """The first member waits for the others, and they wait for it."""
        try:
            names = await self._client.get_children(self._folder.path)
        except NoNodeError:
            return True
        members, own = sorted({*names} - {READY}), self._own.name
        if self._round is None:
            # Others wait for the next round: if we waited for one, and it for us, nobody would go on.
            self._left = ready = await self._folder.read_ready() if READY in names else None
            is_ours = ready is not None and own in ready.names
            self._round = ready.names if ready is not None and is_ours else self._names or frozenset(members)
        is_first = members[:1] == [own]
        if not is_first and own in members:
            await self._folder.delete(own)
        others = [name for name in members if name != own and name in self._round]
        for name in reversed(others) if is_first else others:
            if await sight.read(self._client.exists_async, join(self._folder.path, name)) is not None:
                return False
        await self._delete_ready()
        if is_first:
            await self._folder.delete(own)
        return True

    async def _delete_ready(self) -> None:
        """Unless it is of the next round too: who is named there has yet to see it."""
        if self._left is not None and await self._folder.read_ready() == self._left:
            with suppress(BadVersionError):
                await self._folder.delete(READY, self._left.version)
