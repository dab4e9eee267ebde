"""What the asyncio client reads of what it watches when a lost connection is back, on real servers."""

from __future__ import annotations

import asyncio
import unittest
import uuid
from contextlib import AsyncExitStack
from typing import Any

from kazoo.protocol.states import KazooState, KeeperState, WatchedEvent

from tests.aio import aio_case
from tests.aio.aio_case import needs_aio, until
from tests.live.world import DEADLINE_S, shared_cluster

MANY = 300  # their paths need more than one request
FEW = 40
CHANGED = 15
TIMES = 3
IS_SET_AGAIN = ("NONE", KeeperState.CONNECTED)
READS = ("get", "exists", "get_children")


@needs_aio
class TestRewatching(unittest.IsolatedAsyncioTestCase):
    """The client's session goes on. Another client, which keeps its connection, changes something meanwhile."""

    async def asyncSetUp(self) -> None:
        self.cluster = shared_cluster(1)
        self.root = f"/{uuid.uuid4().hex}"
        self.zk, self.other = await self.started(counters=True), await self.started()
        self.states: list[str] = []
        self.zk.add_listener(self.states.append)
        self.addCleanup(lambda: self.assertNotIn(KazooState.LOST, self.states))
        await self.other.create(self.root)
        await self.zk.create(f"{self.root}-e", ephemeral=True)  # so that it misses the connection

    async def started(self, **options: Any) -> Any:
        zk = aio_case.ParKazooClient(self.cluster.hosts, timeout=30.0, **options)
        self.addAsyncCleanup(zk.stop)
        await zk.start(DEADLINE_S)
        return zk

    def reads(self) -> int:
        requests = self.zk.counters().requests
        return sum(count for (_, operation, _), count in requests.items() if operation in READS)

    async def test_states_and_trees(self) -> None:
        """They read what has changed, and little else."""
        paths = [f"{self.root}/{number:0250}" for number in range(MANY)]
        await asyncio.gather(*(self.other.create(path, b"0") for path in paths))
        parents = paths[-2 * CHANGED :]
        async with AsyncExitStack() as stack:
            enter = stack.enter_async_context
            values: dict[str, Any] = {path: await enter(self.zk.watch_data(path)) for path in paths}
            names: dict[str, Any] = {path: await enter(self.zk.watch_children(path)) for path in parents}
            cache = await enter(self.zk.TreeCache(self.root))
            await asyncio.gather(*map(anext, (*values.values(), *names.values())))
            await until(lambda: all(cache.get_data(path) for path in paths), "the tree is read")
            await self.zk.sync(self.root)
            before = self.reads()
            self.zk._session.drop_connections()
            is_set, is_gone, are_parents = paths[:CHANGED], paths[CHANGED : 2 * CHANGED], paths[-CHANGED:]
            changes = [self.other.set_async(path, b"1") for path in is_set]
            changes += [self.other.delete_async(path) for path in is_gone]
            changes += [self.other.create_async(f"{path}/x") for path in are_parents]
            await asyncio.gather(*changes)
            self.assertEqual([(await anext(values[path]))[0] for path in is_set], [b"1"] * CHANGED)
            self.assertEqual([await anext(values[path]) for path in is_gone], [None] * CHANGED)
            self.assertEqual([await anext(names[path]) for path in are_parents], [["x"]] * CHANGED)
            await until(lambda: all(cache.get_data(path).data == b"1" for path in is_set), "it has what is set")
            await until(lambda: not any(map(cache.get_data, is_gone)), "it has not what is gone")
            await until(lambda: all(cache.get_data(f"{path}/x") for path in are_parents), "it has what is made")
            self.assertLess(self.reads() - before, 15 * CHANGED)
            rest = paths[2 * CHANGED :]
            await asyncio.gather(*(self.other.set_async(path, b"3") for path in rest))
            self.assertEqual([(await anext(values[path]))[0] for path in rest], [b"3"] * len(rest))
            await until(lambda: all(cache.get_data(path).data == b"3" for path in rest), "it has the rest")

    async def test_a_dictionary(self) -> None:
        """It has what was set, made and deleted, and tells of it."""
        path = f"{self.root}/d"
        async with self.zk.DistributedDict(path) as d:
            expected: dict[str, Any] = dict.fromkeys(map(str, range(FEW)), 0)
            await d.update(expected)
            told, seen = d.copy(), d.changes()
            for number in range(TIMES):
                self.zk._session.drop_connections()
                await self.other.set(f"{path}/{number}", b"7")
                await self.other.delete(f"{path}/{FEW - 1 - number}")
                await self.other.create(f"{path}/new-{number}", b"8")
                expected.update({str(number): 7, f"new-{number}": 8})
                del expected[str(FEW - 1 - number)]
                await until(lambda: d.copy() == expected and not d.is_stale, "it has all")
                while told != expected:
                    key, _, new, version = await anext(seen)
                    told |= {key: new}
                    if version is None:
                        del told[key]
            await self.other.set(f"{path}/{FEW // 2}", b"9")
            await until(lambda: d[str(FEW // 2)] == 9, "it goes on")

    async def test_a_lasting_watch(self) -> None:
        """It says when the program has to read again, and goes on."""
        told: list[WatchedEvent] = []
        await self.zk.add_watch(self.root, told.append)
        for number in range(TIMES):
            told.clear()
            self.zk._session.drop_connections()
            await self.other.set(self.root, b"%d" % number)
            await until(lambda: IS_SET_AGAIN in [(each.type, each.state) for each in told], "it is set again")
            await self.zk.sync(self.root)
            self.assertEqual((await self.zk.get(self.root))[0], b"%d" % number)
            told.clear()
            await self.other.create(f"{self.root}/{number}")
            await until(lambda: told, "it goes on")
            self.assertEqual([(each.type, each.path) for each in told], [("CHILD", self.root)])
