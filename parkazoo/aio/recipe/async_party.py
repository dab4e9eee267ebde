"""kazoo's parties for asyncio."""

from __future__ import annotations

import uuid
from types import TracebackType
from typing import TypeVar

from kazoo.exceptions import NoNodeError

from parkazoo.aio.recipe.async_lock import identifiers
from parkazoo.aio.recipe.own_znode import OwnZnode
from parkazoo.aio.recipe.sight import steadily
from parkazoo.aio.recipe.task_turns import TaskTurns
from parkazoo.aio.tending import Tending
from parkazoo.kazoo_private import normpath
from parkazoo.protocol.asking import check_path
from parkazoo.protocol.placement import join

PartyT = TypeVar("PartyT", bound="AsyncParty")


class AsyncParty:
    """kazoo's Party: ``async with client.Party("/workers", "me")`` joins, and leaves at the end.

    An object is one member. A lost session ends the membership: :meth:`join` again. All calls wait while the
    connection is lost.
    """

    _MARK = "__party__"  # in the names of members

    def __init__(self, client: Tending, path: str, identifier: str | None = None) -> None:
        """:param identifier: what :meth:`members` gives for this member."""
        check_path(path)
        self.client = client
        self.path: str = normpath(path)
        self.data = str(identifier or "").encode()
        self._turns = TaskTurns()
        self._own: OwnZnode | None = None

    @property
    def participating(self) -> bool:
        """Whether this has joined, in the client's present session."""
        return self._own is not None and self._own.is_of_now

    @property
    def _znode_name(self) -> str | None:
        """The name of the znode with which this participates."""
        return self._own.name if self._own is not None and self._own.is_of_now else None

    def _name(self) -> str:
        return uuid.uuid4().hex + self._MARK

    async def join(self) -> None:
        """Joins, if this has not. Where it is cancelled, or fails, the client withdraws this member.

        :raises ConnectionClosedError: the client was stopped.
        """
        await self._turns.take()
        try:
            if not self.participating:
                await self._join()
        finally:
            self._turns.give()

    async def _join(self) -> None:
        own = self._own or self._new()

        async def attempt() -> None:
            nonlocal own
            while True:
                if not own.is_of_now:
                    self.client.own(own.withdraw())
                    own = self._new()
                await own.make()
                if own.is_of_now:
                    return

        try:
            await steadily(self.client, attempt)
        except BaseException:
            self.client.own(own.withdraw())
            raise
        self._own = own

    def _new(self) -> OwnZnode:
        return OwnZnode(self.client, join(self.path, self._name()), self.data)

    async def leave(self) -> bool:
        """Leaves, behind a :meth:`join` that is under way. If it is cancelled, it goes on by itself.

        :returns: whether this was a member until now.
        """
        self.client.verify_here()
        if self._turns.is_taken:
            return bool(await self.client.finish(self._leave_behind()))
        own, self._own = self._own, None
        return own is not None and bool(await self.client.finish(own.withdraw()))

    async def _leave_behind(self) -> bool:
        await self._turns.take()
        own, self._own = self._own, None
        self._turns.give()
        return own is not None and await own.withdraw()

    def _let_go(self) -> None:
        """Has it leave; nobody waits for that."""
        own, self._own = self._own, None
        if own is not None:
            self.client.own(own.withdraw())

    async def __aenter__(self: PartyT) -> PartyT:
        """Joins, as :meth:`join` does."""
        await self.join()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leaves, as :meth:`leave` does."""
        await self.leave()

    async def size(self) -> int:
        """Returns the number of members."""
        return len(await steadily(self.client, self._list))

    async def members(self) -> list[str]:
        """Returns the identifiers of the members, in no order."""

        async def attempt() -> list[str]:
            return await identifiers(self.client, [join(self.path, name) for name in await self._list()])

        return await steadily(self.client, attempt)

    async def _list(self) -> list[str]:
        """The names of the members."""
        try:
            return [name for name in await self.client.get_children(self.path) if self._is_member(name)]
        except NoNodeError:
            return []

    def _is_member(self, name: str) -> bool:
        return self._MARK in name


class AsyncShallowParty(AsyncParty):
    """kazoo's ShallowParty: the identifier is in the name of the znode. See :class:`AsyncParty`.

    As with kazoo, each znode in the folder is a member.
    """

    _MARK = "-"

    def __init__(self, client: Tending, path: str, identifier: str | None = None) -> None:
        """:param identifier: what :meth:`members` gives for this member.
        :raises ValueError: it has a slash, which no name of a znode has.
        """
        super().__init__(client, path, identifier)
        if b"/" in self.data:
            raise ValueError(f"an identifier is a part of a znode's name, and has no slash: {identifier!r}")

    def _name(self) -> str:
        return f"{uuid.uuid4().hex}{self._MARK}{self.data.decode()}"

    async def members(self) -> list[str]:
        """See :meth:`AsyncParty.members`; asks once."""
        return [name[name.find(self._MARK) + 1 :] for name in await steadily(self.client, self._list)]

    def _is_member(self, name: str) -> bool:
        return True
