"""Recipes of the asyncio client beside a client for threads, over ZooKeeper in memory."""

from __future__ import annotations

import sys
import unittest
from typing import Any

from kazoo.client import KazooClient

from tests.aio import beside_case
from tests.aio.aio_case import until
from tests.fakes.zookeeper import Ensembles


class TestBesideParKazoo(beside_case.BesideCase):
    async def asyncSetUp(self) -> None:
        cluster = Ensembles(self.ensembles)
        cluster.checks_acls = True
        await cluster.__aenter__()
        self.addAsyncCleanup(cluster.__aexit__, None, None, None)
        self.hosts = cluster.hosts
        await super().asyncSetUp()

    @unittest.skipIf(sys.version_info < (3, 11), "parkazoo.aio needs Python 3.11")
    async def test_watch_tree(self) -> None:
        """Both see what either writes, and what comes after one has lost its connections."""
        if self.other_kind is KazooClient:
            self.skipTest("kazoo has none")
        told: list[dict[str, bytes]] = []

        def tell(state: Any) -> bool:
            told.append({path: value for path, (value, _) in state.items()})
            return "/t/end" not in state

        watcher = await self.in_thread(self.other.watch_tree, "/t", tell)
        async with self.zk.watch_tree("/t") as states:
            await self.in_thread(self.other.create, "/t/a/b", b"1", makepath=True)
            await self.zk.set("/t/a", b"2")
            self.other._session.drop_connections()
            self.zk._session.drop_connections()
            await self.zk.Queue("/t/c").put(b"3")  # which waits until the connection is back
            (entry,) = await self.zk.get_children("/t/c")
            expected = {"/t": b"", "/t/a": b"2", "/t/a/b": b"1", "/t/c": b"", f"/t/c/{entry}": b"3"}
            while {path: value for path, (value, _) in (await anext(states)).items()} != expected:
                pass
        await until(lambda: told[-1] == expected, f"{expected}, not {told[-1]}")
        await self.zk.create("/t/end")
        await until(lambda: "/t/end" in told[-1], "the last one")
        await self.zk.create("/t/later")
        await self.in_thread(self.other.sync, "/t")
        self.assertIn("/t/end", told[-1])
        self.assertFalse(watcher._reads.is_active)
        self.assertEqual(await self.in_thread(self.other._watched, False), [])


class TestBesideKazoo(TestBesideParKazoo):
    ensembles = 1
    other_kind = KazooClient
