"""A folder's names, listed once for all the contenders that look into it."""

from __future__ import annotations

import asyncio
import re
from bisect import bisect_left
from functools import partial
from typing import TYPE_CHECKING

from parkazoo.aio.tending import answer, look

if TYPE_CHECKING:
    from parkazoo.aio.tending import Tending


class Contenders:
    """The names that one answer had. It is shared: nobody changes it."""

    def __init__(self, names: list[str]) -> None:
        self._names = frozenset(names)
        self._orders: dict[re.Pattern[str], list[tuple[str, str]]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def last_before(self, number: str, rivals: re.Pattern[str]) -> str | None:
        """The name of the nearest contender before a number; None if there is none.

        :param rivals: finds the number of a contender in its name, as its first group.
        """
        order = self._orders.get(rivals)
        if order is None:
            found = ((rivals.search(name), name) for name in self._names)
            order = self._orders[rivals] = sorted((match[1], name) for match, name in found if match is not None)
        at = bisect_left(order, (number, ""))
        return order[at - 1][1] if at else None


class SharedListings:
    """A folder is listed at the end of a turn of the loop, once for all who have asked by then.

    Each so gets a list that is no older than its question. One listing of a folder is under way at a time, and who
    asks meanwhile shares the next one: lists for a thousand contenders at once would fill a server's memory.
    """

    def __init__(self, client: Tending) -> None:
        self._client = client
        self._wanted: dict[str, asyncio.Future[Contenders]] = {}
        self._under_way: set[str] = set()

    async def read(self, path: str) -> Contenders:
        """Lists a folder. A cancellation does not reach the others who have asked."""
        wanted = self._wanted.get(path)
        if wanted is None:
            loop = asyncio.get_running_loop()
            wanted = self._wanted[path] = loop.create_future()
            wanted.add_done_callback(look)
            if path not in self._under_way:
                self._under_way.add(path)
                loop.call_soon(self._ask, path)
        return await answer(wanted)

    def forget(self) -> None:
        """Nobody waits for a list any more: the loop is closed."""
        self._wanted.clear()
        self._under_way.clear()

    def _ask(self, path: str) -> None:
        wanted = self._wanted.pop(path)
        try:
            self._client.get_children_async(path).add_done_callback(partial(self._pass_on, path, wanted))
        except Exception as error:
            wanted.set_exception(error)
            self._go_on(path)

    def _pass_on(self, path: str, wanted: asyncio.Future[Contenders], listed: asyncio.Future[list[str]]) -> None:
        self._go_on(path)
        error = listed.exception()
        if error is None:
            wanted.set_result(Contenders(listed.result()))
        else:
            wanted.set_exception(error)

    def _go_on(self, path: str) -> None:
        """Ask again, if anybody has asked meanwhile."""
        if path in self._wanted:
            asyncio.get_running_loop().call_soon(self._ask, path)
        else:
            self._under_way.discard(path)
