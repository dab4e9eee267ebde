"""The asyncio client on real ensembles, beside the client for threads."""

from __future__ import annotations

import asyncio
import unittest
import uuid
from typing import Any

from kazoo.exceptions import NoAuthError, NodeExistsError, NoNodeError
from kazoo.protocol.states import KazooState
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE

from tests.aio import aio_case
from tests.aio.aio_case import needs_aio, until
from tests.live.world import DEADLINE_S, shared_cluster

DIRECTORIES = 12  # on all ensembles, nearly certainly


@needs_aio
class TestAio(unittest.IsolatedAsyncioTestCase):
    form = "plain"

    @classmethod
    def setUpClass(cls) -> None:
        cls.cluster = shared_cluster(form=cls.form)

    async def asyncSetUp(self) -> None:
        self.root = f"/{uuid.uuid4().hex}"
        async with aio_case.ParKazooClient(self.cluster.hosts) as zk:
            await zk.create(self.root)
        self.zk = await self.started()

    async def started(self, **options: Any) -> Any:
        zk = aio_case.ParKazooClient(self.cluster.hosts + self.root, **options)
        self.addAsyncCleanup(zk.stop)
        await zk.start(DEADLINE_S)
        return zk

    async def test_calls(self) -> None:
        zk = self.zk
        paths = [f"/{number}/x" for number in range(DIRECTORIES)]
        self.assertEqual(await asyncio.gather(*(zk.create(path, b"1", makepath=True) for path in paths)), paths)
        with self.assertRaises(NodeExistsError):
            await zk.create("/0/x")
        set_all = [zk.set_async(path, b"2", 0) for path in paths]
        self.assertEqual([value for value, _ in await asyncio.gather(*map(zk.get, paths))], [b"2"] * DIRECTORIES)
        self.assertEqual([each.result().version for each in set_all], [1] * DIRECTORIES)
        self.assertEqual(sorted(await zk.get_children("/")), sorted(str(each) for each in range(DIRECTORIES)))
        self.assertEqual((await zk.get_acls("/0"))[0], OPEN_ACL_UNSAFE)
        self.assertEqual((await zk.set_acls("/0", OPEN_ACL_UNSAFE)).aversion, 1)
        self.assertEqual(await zk.sync("/0"), "/0")
        self.assertRegex(await zk.create("/0/s-", sequence=True), "^/0/s-[0-9]{10}$")
        self.assertIs(await zk.ensure_path("/0"), True)
        self.assertIsNone(await zk.delete("/0", recursive=True))
        self.assertIsNone(await zk.exists("/0"))
        with self.assertRaises(NoNodeError):
            await zk.get("/0")

    async def test_watches(self) -> None:
        told: list[Any] = []
        await self.zk.create("/a")
        await self.zk.get("/a", told.append)
        await (await self.started()).set("/a", b"1")
        await until(lambda: told, "the event")
        self.assertEqual([(each.type, each.path) for each in told], [("CHANGED", "/a")])

    async def test_states(self) -> None:
        """Each is made by another client, before or after the connections were lost."""
        other = await self.started()
        await self.zk.create("/e", ephemeral=True)  # so that it misses the connection
        seen: list[str] = []
        self.zk.add_listener(seen.append)

        def is_back() -> bool:
            return seen == [KazooState.SUSPENDED, KazooState.CONNECTED]

        async with self.zk.watch_data("/a") as values, self.zk.watch_children("/a") as children:
            self.assertEqual((await anext(values), await anext(children)), (None, None))
            await other.create("/a", b"0")
            self.assertEqual(((await anext(values))[0], await anext(children)), (b"0", []))
            for number in range(1, 4):
                seen.clear()
                self.zk._session.drop_connections()
                if number == 2:
                    await until(is_back, "it is back")
                await other.set("/a", b"%d" % number)
                await other.create(f"/a/{number}")
                names = await anext(children)
                value, _ = await anext(values)
                self.assertEqual((value, len(names)), (b"%d" % number, number))
                await until(is_back, "all ensembles are back")
            await other.delete("/a", recursive=True)
            while await anext(children) is not None:
                pass
            self.assertIsNone(await anext(values))

    async def test_credentials(self) -> None:
        other = await self.started()
        await self.zk.add_auth("digest", "user:password")
        await self.zk.create("/own", acl=CREATOR_ALL_ACL)
        with self.assertRaises(NoAuthError):
            await other.get("/own")
        await other.add_auth("digest", "user:password")
        self.assertEqual((await other.get("/own"))[0], b"")

    async def test_transactions(self) -> None:
        await self.zk.create("/a")
        await self.zk.create("/a/b")
        async with self.zk.transaction() as t:
            t.set_data("/a/b", b"1")
            t.create("/a/c")
        self.assertEqual((t.results[1], await self.zk.get_children("/a")), ("/a/c", ["b", "c"]))
        with self.assertRaises(NoNodeError):
            async with self.zk.transaction() as t:
                t.set_data("/a/b", b"2")
                t.delete("/a/d")
        self.assertEqual((await self.zk.get("/a/b"))[0], b"1")

    async def test_ephemerals(self) -> None:
        other = await self.started()
        await other.create("/e", ephemeral=True)
        self.assertIsNotNone(await self.zk.exists("/e"))
        await other.stop()
        self.assertIsNone(await self.zk.exists("/e"))

    async def test_lost_connections(self) -> None:
        seen: list[str] = []
        self.zk.add_listener(seen.append)
        await self.zk.create("/e", ephemeral=True)
        self.zk._session.drop_connections()
        await until(lambda: seen == [KazooState.SUSPENDED, KazooState.CONNECTED], "it is back")
        self.assertIsNotNone(await self.zk.exists("/e"))

    async def test_cancelled_calls(self) -> None:
        """Each of them is done as a whole, or not at all."""
        paths = [f"/{number}/x" for number in range(DIRECTORIES)]
        await asyncio.gather(*(self.zk.create(f"/{number}") for number in range(DIRECTORIES)))
        tasks = [asyncio.create_task(self.zk.create(path)) for path in paths]
        for number, task in enumerate(tasks):
            await asyncio.sleep(0)
            if number % 2:
                task.cancel()
        await asyncio.wait(tasks)
        for path, task in zip(paths, tasks, strict=True):
            if not task.cancelled():
                self.assertEqual(task.result(), path)
            is_there = await self.zk.exists(path) is not None
            self.assertEqual(await self.zk.get_children(path[:-2]), ["x"] if is_there else [])


class TestAioGrown(TestAio):
    """Where a map has grown, pins decide."""

    form = "grown"
