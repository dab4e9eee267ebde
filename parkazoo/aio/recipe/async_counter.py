"""kazoo's Counter for asyncio."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Generic, TypeVar

from kazoo.exceptions import BadVersionError, NoNodeError

from parkazoo.aio.recipe.sight import steadily
from parkazoo.kazoo_private import normpath
from parkazoo.protocol.asking import check_path

if TYPE_CHECKING:
    from parkazoo.aio.async_recipes import AsyncRecipes

NumberT = TypeVar("NumberT", int, float)
CURATORS_BYTES = 4


class AsyncCounter(Generic[NumberT]):
    """kazoo's Counter: ``await client.Counter("/jobs-done").add(2)``, on the same data.

    :ivar pre_value: before the last addition of this object. :ivar post_value: behind it.
    """

    def __init__(self, client: AsyncRecipes, path: str, default: NumberT, support_curator: bool = False) -> None:
        """:param default: the value of a new counter; its type is that of all values.
        :param support_curator: store it as Curator's SharedCount does, which knows only int.
        """
        check_path(path)
        if support_curator and not isinstance(default, int):
            raise TypeError("when support_curator is enabled the default type must be an int")
        self.client = client
        self.path: str = normpath(path)
        self.default: NumberT = default
        self.support_curator = support_curator
        self.pre_value: NumberT | None = None
        self.post_value: NumberT | None = None

    async def value(self) -> NumberT:
        """Returns the value; waits while the connection is lost.

        :raises ConnectionClosedError: the client was stopped.
        """
        return (await steadily(self.client, self._read))[0]

    async def add(self, value: NumberT) -> NumberT:
        """Adds a value, below 0 too, exactly once, also over a lost connection. If it is cancelled, the addition
        may have been done, or not.

        :returns: the value behind it.
        :raises TypeError: the value is of another type than the default.
        :raises OverflowError: Curator has no such number.
        :raises SessionExpiredError, ConnectionClosedError: the session has ended before an answer. The message
            says so if the addition may have been done; otherwise it was not.
        """
        if not isinstance(value, type(self.default)):
            raise TypeError("invalid type for value change")
        while True:
            before, version = await steadily(self.client, self._read)
            after = before + value
            if await self._set(self._data(after), version):
                self.pre_value, self.post_value = before, after
                return after

    async def _set(self, data: bytes, version: int) -> bool:
        """Whether nobody else was first."""
        try:
            await self.client.once(self.client.set, self.path, data, version)
        except (BadVersionError, NoNodeError):
            return False
        return True

    async def _read(self) -> tuple[NumberT, int]:
        """The value, and the version of the znode, which is made if it is missing."""
        while True:
            with suppress(NoNodeError):
                data, stat = await self.client.get(self.path)
                return self._number(data), stat.version
            await self.client.ensure_path(self.path)

    def _number(self, data: bytes) -> NumberT:
        if not data:
            return self.default
        text = int.from_bytes(data, "big", signed=True) if self.support_curator else data.decode("ascii")
        return type(self.default)(text)

    def _data(self, number: NumberT) -> bytes:
        if self.support_curator:
            return int(number).to_bytes(CURATORS_BYTES, "big", signed=True)
        return repr(number).encode("ascii")
