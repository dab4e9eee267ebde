"""The znodes that a recipe makes for one attempt, and withdraws however that ends."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import suppress

from kazoo.exceptions import (
    BadVersionError,
    KazooException,
    NoAuthError,
    NoNodeError,
    SessionExpiredError,
)

from parkazoo.aio.recipe.sight import steadily
from parkazoo.aio.tending import Tending, answer
from parkazoo.protocol.placement import join, split
from parkazoo.protocol.steps import IMPOSSIBLE


class OwnZnode:
    """An ephemeral with a name that nobody else has.

    :param path: of the znode; of a numbered one, without the number.
    :ivar path: of the znode, if it was made; None if that is not known.
    :ivar session: the number of its session.
    """

    is_numbered = False

    def __init__(self, client: Tending, path: str, data: bytes) -> None:
        self.session = client.session_number
        self.path: str | None = None
        self._client = client
        self._asked = path
        self._data = data
        self._made: asyncio.Future[str] | None = None
        self._deletes = 0

    @property
    def name(self) -> str:
        """Its name; without the number, of a numbered one."""
        return split(self._asked)[1]

    @property
    def is_of_now(self) -> bool:
        """Whether its session still is the client's."""
        return self.session == self._client.session_number

    async def make(self) -> str:
        """Makes it, and the levels above it. After a lost answer, call it again: it is made once.

        :returns: its path.
        :raises SessionExpiredError: its session has ended.
        """
        if self.path is None and self._made is not None:
            self.path = await self._find()
        if self.path is None:
            if not self.is_of_now:
                raise SessionExpiredError
            create = self._client.create_async
            self._made = create(self._asked, self._data, ephemeral=True, sequence=self.is_numbered, makepath=True)
            self.path, self._made = await answer(self._made), None
        return self.path

    async def _find(self) -> str | None:
        """Its path, if it exists, and if this server lags behind the one that has made it."""
        await catch_up(self._client, self._asked)
        return await self._look()

    async def _look(self) -> str | None:
        return None if await self._client.exists(self._asked) is None else self._asked

    async def withdraw(self) -> bool:
        """Deletes it, and waits for that while the connection is lost.

        :returns: whether it was there until now, in its session.
        """
        if self._made is None and self.path is None:
            return False
        if self._made is not None:
            if not self._made.done():
                await asyncio.wait([self._made])
            if self._made.exception() is None:
                self.path = self._made.result()
        with suppress(KazooException):  # the client was stopped; or it lost the right to do so
            return await steadily(self._client, self._delete)
        return False

    async def _delete(self) -> bool:
        path = self.path or await self._find()
        if path is None:
            return False
        self._deletes += 1
        try:
            await self._client.delete(path)
        except NoNodeError:  # perhaps the answer to an earlier delete was lost
            return self._deletes > 1 and self.is_of_now
        return self.is_of_now


class Contender(OwnZnode):
    """The znode of a contender, with a sequence number."""

    is_numbered = True

    def __init__(self, client: Tending, folder: str, mark: str, data: bytes) -> None:
        super().__init__(client, join(folder, uuid.uuid4().hex + mark), data)

    async def _look(self) -> str | None:
        folder, prefix = split(self._asked)
        with suppress(NoNodeError):
            for name in await self._client.get_children(folder):
                if name.startswith(prefix):
                    return join(folder, name)
        return None


async def catch_up(client: Tending, path: str) -> None:
    """Has this server show every earlier write to a znode, by a write that cannot succeed."""
    with suppress(BadVersionError, NoAuthError, NoNodeError):
        await client.delete(path, IMPOSSIBLE)
