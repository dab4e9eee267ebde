"""kazoo's Queue for asyncio."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from kazoo.exceptions import ConnectionClosedError, NoNodeError

from parkazoo.aio.recipe.sight import steadily
from parkazoo.aio.recipe.task_turns import TaskTurns
from parkazoo.aio.tending import look
from parkazoo.errors import AnswerLostError
from parkazoo.kazoo_private import normpath
from parkazoo.protocol.asking import check_path
from parkazoo.protocol.once import in_doubt, may_be_done
from parkazoo.protocol.placement import join

if TYPE_CHECKING:
    from parkazoo.aio.async_recipes import AsyncRecipes

MOST_PRIORITY = 999


class AsyncQueue:
    """kazoo's Queue: ``await client.Queue("/q").get()``, on the same entries.

    An entry is deleted before :meth:`get` returns it. If that is cancelled meanwhile, the object keeps the entry
    for its next :meth:`get`. Tasks that share an object take turns.
    """

    def __init__(self, client: AsyncRecipes, path: str) -> None:
        check_path(path)
        self.client = client
        self.path: str = normpath(path)
        self._turns = TaskTurns()
        self._names: list[str] = []  # as they were listed last, but for those that were taken
        self._taking: asyncio.Task[bytes | None] | None = None  # of the get that waits, or was cancelled
        self._deleting = ""  # the path of the entry that it is taking

    async def put(self, value: bytes, priority: int = 100) -> None:
        """Puts an entry exactly once, also over a lost connection. If it is cancelled, it may have been put.

        :param priority: 0 to 999; lower ones are taken first.
        :raises TypeError: `value` is not bytes, or `priority` no int. ValueError: it is out of that range.
        :raises SessionExpiredError, ConnectionClosedError: the session has ended before an answer. The message
            says so if the entry may have been put; otherwise it was not.
        """
        check_entry(value, priority)
        path = join(self.path, f"entry-{priority:03d}-")
        with suppress(AnswerLostError):  # it was put, and another client has taken it
            await self.client.once(self.client.create, path, value, sequence=True, makepath=True)

    async def get(self) -> bytes | None:
        """Takes the first entry; waits while the connection is lost.

        :returns: its value; None if there is no entry.
        :raises SessionExpiredError, ConnectionClosedError: the session has ended before an answer. The message
            says so if an entry may have been taken.
        """
        await self._turns.take()
        try:
            value = await self._left()
            if value is not None:
                return value
            taking = self.client.own(self._take())
            if taking is None:
                return await self._take()
            self._taking = taking
            taking.add_done_callback(look)
            await asyncio.wait([taking])
            self._taking = None
            return taking.result()
        finally:
            self._turns.give()

    async def _left(self) -> bytes | None:
        """What it has taken for a get that was cancelled.

        :raises: why that one has no value, if it may have taken an entry.
        """
        left = self._taking
        if left is None:
            return None
        if not (left.done() or left.get_loop().is_closed()):
            await asyncio.wait([left])
        self._taking = None
        if not left.done() or left.cancelled():  # its loop was closed
            if self._deleting:
                raise in_doubt(ConnectionClosedError, self._deleting)
            return None
        error = left.exception()
        if error is None:
            return left.result()
        if isinstance(error, Exception) and may_be_done(error):
            raise error
        return None

    async def _take(self) -> bytes | None:
        while True:
            self._deleting = ""
            if (first := await steadily(self.client, self._first)) is None:
                return None
            self._deleting, value = first
            self.client.hear_others()  # who has put it
            try:
                await self.client.once(self.client.delete, self._deleting)
            except NoNodeError:  # another client has taken it
                self._names = []
            else:
                self._names.pop(0)
                return value

    async def _first(self) -> tuple[str, bytes] | None:
        """The path of the first entry, and its value."""
        while True:
            self._names = self._names or sorted(await self._list())
            if not self._names:
                return None
            path = join(self.path, self._names[0])
            with suppress(NoNodeError):
                return path, (await self.client.get(path))[0]
            self._names = []  # another client has taken it

    async def qsize(self) -> int:
        """Returns the number of entries; waits while the connection is lost."""
        return len(await steadily(self.client, self._list))

    async def _list(self) -> list[str]:
        try:
            return await self.client.get_children(self.path)
        except NoNodeError:
            return []


def check_entry(value: object, priority: object) -> None:
    if not isinstance(value, bytes):
        raise TypeError("value must be a byte string")
    if not isinstance(priority, int):
        raise TypeError("priority must be an int")
    if not 0 <= priority <= MOST_PRIORITY:
        raise ValueError(f"priority must be between 0 and {MOST_PRIORITY}")
