"""kazoo's locks for asyncio: they can be cancelled at any await, and leave nothing behind."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from contextlib import suppress

from kazoo.exceptions import NoNodeError

from parkazoo.aio.recipe.own_znode import Contender, OwnZnode
from parkazoo.aio.recipe.possession import Possession
from parkazoo.aio.recipe.sight import Sight, steadily
from parkazoo.aio.tending import Tending
from parkazoo.protocol.placement import join, split


class AsyncLock(Possession):
    """kazoo's Lock: ``async with client.Lock("/locks/a")``, or :meth:`acquire` and :meth:`release`.

    If the session is lost, so is the lock: the body of ``async with`` is cancelled, and the block raises
    :class:`LockLostError`. A cancellation from elsewhere stays one.

    Where it is cancelled, or fails, the client withdraws the contender's znode, if there is one, as soon as there
    is a connection. Tasks that share an object take turns; it is not re-entrant.

    :ivar path: of the folder. :ivar data: of the contender's znode.
    """

    _MARK = "__lock__"  # in the name of its znode
    _RIVALS: tuple[str, ...] = ("__lock__",)  # the marks of those that it waits for

    def __init__(
        self, client: Tending, path: str, identifier: str | None = None, extra_lock_patterns: Iterable[str] = ()
    ) -> None:
        """:param identifier: the data of its znode, for :meth:`contenders`.
        :param extra_lock_patterns: regular expressions for the marks of other programs' contenders.
        """
        super().__init__(client, path, identifier)
        rivals = {*self._RIVALS, *extra_lock_patterns}
        self._own = _numbered({self._MARK})
        self._rival = _numbered(rivals)
        self._any = _numbered({*rivals, self._MARK})

    def _new(self) -> Contender:
        return Contender(self.client, self.path, self._MARK, self.data)

    @property
    def node(self) -> str | None:
        """The name of the znode with which it holds the lock."""
        return None if self._held is None or self._held.path is None else split(self._held.path)[1]

    async def _try(self, own: OwnZnode, blocking: bool) -> bool:
        path = await own.make()
        while (before := await self._before(path)) is not None:
            if not blocking:
                return False
            await self._wait_for_change(before)
        return True

    async def _before(self, path: str) -> str | None:
        """The name of the contender that it waits for.

        A coroutine that waits keeps its locals: so the listing is none of :meth:`_try`'s.

        :raises NoNodeError: its own znode is gone.
        """
        listing = await self.client.listings.read(self.path)
        name = split(path)[1]
        number = self._own.search(name)
        if name not in listing or number is None:
            raise NoNodeError
        return listing.last_before(number[1], self._rival)

    async def _wait_for_change(self, name: str) -> None:
        with Sight(self.client) as sight, suppress(NoNodeError):
            await sight.read(self.client.get_async, join(self.path, name))
            await sight.change()

    async def contenders(self) -> list[str]:
        """Returns the identifiers of the holder and of those that wait, in order."""
        return await steadily(self.client, self._identifiers)

    async def _identifiers(self) -> list[str]:
        try:
            names = await self.client.get_children(self.path)
        except NoNodeError:
            return []
        found = sorted((match[1], name) for name in names if (match := self._any.search(name)) is not None)
        return await identifiers(self.client, [join(self.path, name) for _, name in found])


class AsyncWriteLock(AsyncLock):
    """kazoo's WriteLock: it excludes all others with that path. See :class:`AsyncLock`."""

    _RIVALS = ("__lock__", "__rlock__")


class AsyncReadLock(AsyncLock):
    """kazoo's ReadLock: it excludes only each :class:`AsyncWriteLock` with that path. See :class:`AsyncLock`."""

    _MARK = "__rlock__"


def _numbered(marks: set[str]) -> re.Pattern[str]:
    return re.compile(rf"(?:{'|'.join(marks)})(-?[0-9]{{10}})$")


async def identifiers(client: Tending, paths: Iterable[str]) -> list[str]:
    """What stands in those of the znodes that still exist, in order."""
    values = await asyncio.gather(*(client.get_async(path) for path in paths), return_exceptions=True)
    found = []
    for value in values:
        if isinstance(value, BaseException):
            if not isinstance(value, NoNodeError):
                raise value
        elif value[0] is not None:
            found.append(value[0].decode(errors="replace"))
    return found
