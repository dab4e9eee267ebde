"""The watches of a DistributedDict while other programs write, or it loads again: one for each, none left."""

from __future__ import annotations

import asyncio
import threading
import unittest
from collections.abc import Callable
from typing import Any
from unittest import mock

from kazoo.exceptions import ConnectionLoss
from kazoo.security import OPEN_ACL_UNSAFE

from parkazoo import ParKazooClient
from parkazoo.kazoo_private import Create, Delete, GetChildren, SetData
from tests.aio.aio_case import DEADLINE_S, until
from tests.fakes.zookeeper import Ensembles

PATH, KEY = "/settings", "/settings/a"


class TestWatches(unittest.IsolatedAsyncioTestCase):
    """The servers are on the loop of the test, and the client on threads."""

    async def asyncSetUp(self) -> None:
        self.cluster = Ensembles(1)
        await self.cluster.__aenter__()
        self.addAsyncCleanup(self.cluster.__aexit__, None, None, None)
        self.client: Any = ParKazooClient(self.cluster.hosts, timeout=60)
        self.addAsyncCleanup(asyncio.to_thread, self.client.stop)
        await asyncio.to_thread(self.client.start)

    def watches(self) -> list[str]:
        members = self.client._session.roster.members
        return sorted(path for each in members for path, _ in (*each.data_watches(), *each.child_watches()))

    def make(self) -> None:
        for path in (PATH, KEY):
            self.execute(Create(path, b"0", OPEN_ACL_UNSAFE, 0))

    def execute(self, request: Any) -> None:
        self.cluster.model.execute(0, request)

    def strike_at(self, number: int, act: Callable[[], object]) -> None:
        """Acts before that request, from 0."""
        left = 2 * number

        def strike(session: int, ensemble: int) -> None:
            nonlocal left
            left -= 1
            if left == -1:
                act()

        self.cluster.strike = strike

    async def open(self, **options: Any) -> Any:
        return await asyncio.to_thread(self.client.DistributedDict, PATH, **options)

    async def close(self, d: Any, *others: str) -> None:
        await until(lambda: not d.is_stale and self.watches() == [PATH, KEY, *others], "it watches each once")
        await asyncio.to_thread(d.close)
        await until(lambda: not self.watches(), "nothing is left")

    async def test_the_directory_is_made_while_it_opens(self) -> None:
        for number in range(8):
            with self.subTest(number):
                self.strike_at(number, self.make)
                d = await self.open()
                self.make()
                await self.close(d)
                for path in (KEY, PATH):
                    self.execute(Delete(path, -1))

    async def test_an_earlier_load_is_answered_late(self) -> None:
        """Another directory has lost its watches meanwhile."""
        self.make()
        d = await self.open()
        keeper, has_begun = d._keeper, threading.Event()
        take_out_all = keeper._take_out_all

        def begin(armed: Any) -> None:
            take_out_all(armed)
            has_begun.set()

        def lose(request: Any) -> None:
            if isinstance(request, GetChildren) and request.path == PATH:
                self.cluster.hear = lambda request: None
                keeper._lose(keeper._generation, ConnectionLoss())
                has_begun.wait(DEADLINE_S)

        self.cluster.hear = lose
        with mock.patch.object(keeper, "_take_out_all", begin):
            self.execute(Create(f"{KEY}b", b"0", OPEN_ACL_UNSAFE, 0))
            await until(has_begun.is_set, "it loads again")
        await self.close(d, f"{KEY}b")

    async def test_a_doubt_while_an_entry_changes(self) -> None:
        self.make()
        d = await self.open()
        for number in range(1, 4):
            self.execute(SetData(KEY, b"%d" % number, -1))
            d._keeper._ask(d._keeper._generation, "a", is_again=True)  # the event comes before its answer
            await until(lambda: d["a"] == number and not d.is_stale, "it is read")  # noqa: B023
            self.assertEqual(self.watches(), [PATH, KEY])
        await self.close(d)

    async def test_an_own_entry_is_set_while_the_client_is_suspended(self) -> None:
        """It is the same znode afterwards."""
        d = await self.open(ephemeral=True)
        await asyncio.to_thread(d.update, a=1)
        before = self.cluster.model.nodes[0][KEY].stat
        self.cluster.away = {0}
        self.cluster.cut(0)
        await until(lambda: not self.client.connected, "it is suspended")
        task = asyncio.create_task(asyncio.to_thread(d.update, a=2))
        await until(self.client._session.roster.first.backlog.requests, "it is waiting")
        self.cluster.away = set()
        await task
        now = self.cluster.model.nodes[0][KEY].stat
        self.assertEqual((now.version, now.czxid), (1, before.czxid))
        await self.close(d)
