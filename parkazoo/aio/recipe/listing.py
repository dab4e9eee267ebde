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
    """Folders are listed at the end of a turn of the loop, once for all who have asked by then.

    Each so gets a list that is no older than its question.
    """

    def __init__(self, client: Tending) -> None:
        self._client = client
        self._wanted: dict[str, asyncio.Future[Contenders]] = {}

    async def read(self, path: str) -> Contenders:
        """Lists a folder. A cancellation does not reach the others who have asked."""
        wanted = self._wanted.get(path)
        if wanted is None:
            loop = asyncio.get_running_loop()
            wanted = self._wanted[path] = loop.create_future()
            wanted.add_done_callback(look)
            loop.call_soon(self._ask, path)
        return await answer(wanted)

    def _ask(self, path: str) -> None:
        wanted = self._wanted.pop(path)
        try:
            self._client.get_children_async(path).add_done_callback(partial(_pass_on, wanted))
        except Exception as error:
            wanted.set_exception(error)


def _pass_on(wanted: asyncio.Future[Contenders], listed: asyncio.Future[list[str]]) -> None:
    error = listed.exception()
    if error is None:
        wanted.set_result(Contenders(listed.result()))
    else:
        wanted.set_exception(error)
