"""kazoo's barriers for asyncio."""

from __future__ import annotations

import asyncio
import os
import socket
import uuid
from contextlib import suppress
from types import TracebackType

from kazoo.exceptions import NodeExistsError, NoNodeError, RolledBackError, RuntimeInconsistency
from kazoo.protocol.states import EventType

from parkazoo.aio.recipe.own_znode import OwnZnode
from parkazoo.aio.recipe.sight import Sight, steadily
from parkazoo.aio.tending import Tending
from parkazoo.kazoo_private import normpath
from parkazoo.protocol.asking import check_path
from parkazoo.protocol.placement import join
from parkazoo.types import ZnodeStat

READY_NAME = "ready"


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
        self._data = (identifier or f"{socket.gethostname()}-{os.getpid()}").encode()
        self._own: OwnZnode | None = None

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
        if self._own is not None:
            raise RuntimeError(f"{self.path}: this member has entered, or is about to")
        entry = _Entry(self.client, self.path, self.num_clients, self._data)
        self._own = entry.own
        try:
            await steadily(self.client, entry.enter)
        except BaseException:
            self._own = None
            self.client.own(entry.own.withdraw())
            raise
        self._own = entry.own
        self.participating = True

    async def leave(self) -> None:
        """Waits until all members have left, also over a lost connection. If it is cancelled, it goes on by
        itself.

        :raises ConnectionClosedError: the client was stopped.
        """
        if not self.participating or self._own is None:
            return
        own, self._own = self._own, None
        self.participating = False
        await self.client.finish(_Exit(self.client, self.path, own).leave())


class _Entry:
    """The way of one member into a barrier.

    :ivar own: its znode.
    """

    def __init__(self, client: Tending, path: str, num_clients: int, data: bytes) -> None:
        self.own = OwnZnode(client, join(path, uuid.uuid4().hex), data)
        self._client = client
        self._path = path
        self._num_clients = num_clients
        self._data = data
        self._before: int | None = None  # the zxid of the `ready` that was there at the beginning; 0: none was

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
                if not has_entered:
                    await sight.change()
                    if EventType.CREATED in sight.told:  # a `ready` that was not there when this was
                        return

    def _renew(self) -> None:
        self.own = OwnZnode(self._client, join(self._path, uuid.uuid4().hex), self._data)

    async def _has_entered(self, sight: Sight) -> bool:
        """Whether this member is in a round. Then `ready` is younger than this member."""
        own = await self.own.make()
        ready = await sight.read(self._client.exists_async, join(self._path, READY_NAME))
        stat = await self._client.exists(own)
        if stat is None:
            raise NoNodeError
        if ready is not None and stat.czxid < ready.czxid:
            return True
        zxid = 0 if ready is None else ready.czxid
        if self._before is None:
            self._before = zxid
        # Who has lost its session since it began to enter was counted with the znode that it had then.
        if zxid <= self._before:
            names = {*await self._client.get_children(self._path)}
            if len(names - {READY_NAME}) < self._num_clients:
                return False
        return await self._make_ready(is_there=ready is not None)

    async def _make_ready(self, is_there: bool) -> bool:
        """Make `ready`, anew if it exists, in one transaction: others would see none, and wait for one.

        :returns: False if another member has just deleted it.
        """
        path = join(self._path, READY_NAME)
        if not is_there:
            with suppress(NodeExistsError):
                await self._client.create(path)
            return True
        renewal = self._client.transaction()
        renewal.delete(path)
        renewal.create(path)
        for result in await renewal.commit():
            if isinstance(result, NoNodeError):
                return False
            if isinstance(result, Exception) and not isinstance(result, (RolledBackError, RuntimeInconsistency)):
                raise result
        return True


class _Exit:
    """The way of one member out of a barrier."""

    def __init__(self, client: Tending, path: str, own: OwnZnode) -> None:
        self._client = client
        self._path = path
        self._own = own
        self._round: dict[str, int] | None = None  # names, and zxids of their creates

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
            names = await self._client.get_children(self._path)
        except NoNodeError:
            return True
        if self._round is None:
            self._round = await self._find_round(names)
        members, own = sorted({*names} - {READY_NAME}), self._own.name
        is_first = members[:1] == [own]
        if not is_first and own in members:
            await self._delete(own)
        others = [name for name in members if name != own]
        for name in reversed(others) if is_first else others:
            if self._is_of_round(name, await sight.read(self._client.exists_async, join(self._path, name))):
                return False
        if self._is_of_round(READY_NAME, await self._client.exists(join(self._path, READY_NAME))):
            await self._delete(READY_NAME)
        if is_first:
            await self._delete(own)
        return True

    async def _find_round(self, names: list[str]) -> dict[str, int]:
        """A younger member waits for the next round: if we waited for it, and it for us, nobody would go on."""
        stats = await asyncio.gather(*(self._client.exists_async(join(self._path, name)) for name in names))
        zxids = {name: stat.czxid for name, stat in zip(names, stats, strict=True) if stat is not None}
        return {name: zxid for name, zxid in zxids.items() if zxid <= zxids.get(READY_NAME, zxid)}

    def _is_of_round(self, name: str, stat: ZnodeStat | None) -> bool:
        return stat is not None and stat.czxid == (self._round or {}).get(name)

    async def _delete(self, name: str) -> None:
        with suppress(NoNodeError):
            await self._client.delete(join(self._path, name))
