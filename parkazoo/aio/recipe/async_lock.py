"""kazoo's locks for asyncio: they can be cancelled at any await, and leave nothing behind."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from contextlib import suppress

from kazoo.exceptions import NoNodeError

from parkazoo.aio.recipe.own_znode import Contender
from parkazoo.aio.recipe.possession import Possession
from parkazoo.aio.recipe.sight import Sight, steadily
from parkazoo.aio.recipe.task_turns import TaskTurns
from parkazoo.aio.tending import Tending
from parkazoo.kazoo_private import normpath
from parkazoo.protocol.asking import check_path
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
        check_path(path)
        self.client = client
        self.path: str = normpath(path)
        self.data = str(identifier or "").encode()
        rivals = {*self._RIVALS, *extra_lock_patterns}
        self._rival = _numbered(rivals)
        self._any = _numbered({*rivals, self._MARK})
        self._turns = TaskTurns()
        self._held: Contender | None = None

    @property
    def is_acquired(self) -> bool:
        """Whether this holds the lock, in the client's present session."""
        return self._held is not None and self._held.is_of_now

    @property
    def node(self) -> str | None:
        """The name of the znode with which it holds the lock."""
        return None if self._held is None or self._held.path is None else split(self._held.path)[1]

    async def acquire(self, blocking: bool = True) -> bool:
        """Acquires the lock; waits also while the connection is lost. :func:`asyncio.timeout` limits that.

        :param blocking: whether to wait for another holder.
        :returns: whether it was acquired.
        :raises ConnectionClosedError: the client was stopped.
        """
        if self._turns.is_taken and not blocking:
            return False
        await self._turns.take()
        try:
            self._held = await self._contend(blocking)
        finally:
            if self._held is None:
                self._turns.give()
        return self._held is not None

    async def _contend(self, blocking: bool) -> Contender | None:
        contender = self._contender()

        async def attempt() -> bool:
            nonlocal contender
            while True:
                if not contender.is_of_now:
                    self.client.own(contender.withdraw())
                    contender = self._contender()
                await contender.make()
                try:
                    before = await self._before(contender)
                except NoNodeError:  # another program has deleted its znode
                    contender = self._contender()
                    continue
                if before is None and contender.is_of_now:
                    return True
                if before is not None:
                    if not blocking:
                        return False
                    await self._wait_for_change(before)

        try:
            if await steadily(self.client, attempt):
                return contender
        except BaseException:
            self.client.own(contender.withdraw())
            raise
        await self.client.finish(contender.withdraw())
        return None

    def _contender(self) -> Contender:
        return Contender(self.client, self.path, self._MARK, self.data)

    async def _before(self, contender: Contender) -> str | None:
        """The name of the contender that it waits for.

        A coroutine that waits keeps its locals: so the listing is none of :meth:`_contend`'s.

        :raises NoNodeError: its own znode is gone.
        """
        names = await self.client.get_children(self.path)
        assert contender.path is not None
        name = split(contender.path)[1]
        if name not in names:
            raise NoNodeError
        number = name.removeprefix(contender.prefix)
        found = [match for match in map(self._rival.search, names) if match is not None and match[1] < number]
        return max(found, key=lambda match: match[1]).string if found else None

    async def _wait_for_change(self, name: str) -> None:
        with Sight(self.client) as sight, suppress(NoNodeError):
            await sight.read(self.client.get_async, join(self.path, name))
            await sight.change()

    async def release(self) -> bool:
        """Releases the lock. If it is cancelled, it goes on by itself, also while the connection is lost.

        :returns: whether it was held until now: its znode was there, and its session.
        """
        held = self._give_up()
        return held is not None and bool(await self.client.finish(held.withdraw()))

    def _let_go(self) -> None:
        """See :meth:`Possession._let_go`."""
        if (held := self._give_up()) is not None:
            self.client.own(held.withdraw())

    def _give_up(self) -> Contender | None:
        """The next task's contender comes behind."""
        held, self._held = self._held, None
        if held is not None:
            self._turns.give()
        return held

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
