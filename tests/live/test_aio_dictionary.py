"""DistributedDict of the asyncio client on real ensembles, beside the client for threads."""

from __future__ import annotations

import asyncio
import unittest
import uuid
from functools import partial
from typing import Any

from kazoo.exceptions import NoAuthError
from kazoo.security import make_acl, make_digest_acl

from parkazoo import ParKazooClient
from tests.aio import aio_case
from tests.aio.aio_case import needs_aio, until
from tests.live.world import DEADLINE_S, shared_cluster

SHARDS = 5


@needs_aio
class TestDictionary(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        self.cluster = shared_cluster()
        self.path = f"/{uuid.uuid4().hex}"
        self.zk, self.other = await self.started(), await self.started()

    async def started(self) -> Any:
        zk = aio_case.ParKazooClient(self.cluster.hosts)
        self.addAsyncCleanup(zk.stop)
        await zk.start(DEADLINE_S)
        return zk

    async def test_beside_threads(self) -> None:
        """Both see what either writes, in shards too."""
        threads = ParKazooClient(self.cluster.hosts)
        self.addAsyncCleanup(asyncio.to_thread, threads.stop)
        await asyncio.to_thread(threads.start, DEADLINE_S)
        for shards in (1, SHARDS):
            path = f"{self.path}-{shards}"
            theirs = await asyncio.to_thread(threads.DistributedDict, path, shards=shards)
            async with self.zk.DistributedDict(path, shards=shards) as d:
                items = {str(number): number for number in range(20)}
                await asyncio.to_thread(theirs.update, items)
                await until(partial(lambda d, items: d.copy() == items, d, items), "it sees them")
                await d.update(dict.fromkeys(items, 0), x=1)
                self.assertEqual(await asyncio.to_thread(theirs.snapshot), {**dict.fromkeys(items, 0), "x": 1})
                self.assertEqual(await d.pop("x"), 1)
                await d.clear()
                await until(partial(lambda theirs: not theirs, theirs), "they see that")
                self.assertEqual(await d.snapshot(), {})
            await asyncio.to_thread(theirs.close)

    async def test_an_entry_that_may_not_be_read(self) -> None:
        """It is left out, and can be written all the same."""
        hidden = [make_digest_acl("u", "p", all=True), make_acl("world", "anyone", write=True)]
        async with self.zk.DistributedDict(self.path) as d:
            await d.set("x", 1)
            with self.assertLogs("parkazoo", "WARNING") as logs:
                await self.other.create(f"{self.path}/y", b"1", hidden)
                await until(lambda: logs.output and not d.is_stale, "it is left out")
            with self.assertRaises(NoAuthError):
                d["y"]
            self.assertEqual((d.copy(), "y" in d, await d.snapshot()), ({"x": 1}, False, {"x": 1}))
            await d.update(x=2)
            await d.set("y", 4)
            self.assertEqual(d["x"], 2)
            await d.delete("y")
            with self.assertRaises(KeyError):
                d["y"]
            self.assertEqual(await d.snapshot(), {"x": 2})
