"""Watches that stay until they are removed."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from kazoo.exceptions import ConnectionClosedError, ConnectionLoss, NoNodeError, UnimplementedError
from kazoo.protocol.states import WatchedEvent

from parkazoo.kazoo_private import SetData
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.newer_requests import AddWatch, RemoveWatches, SetWatches2
from parkazoo.protocol.placement import MAP
from parkazoo.types import AddWatchMode
from tests.aio.aio_case import AioCase, until
from tests.explore.alone import must

RECURSIVE = AddWatchMode.PERSISTENT_RECURSIVE


class LastingCase(AioCase):
    async def asyncSetUp(self) -> None:
        await super().asyncSetUp()
        self.zk = await self.started()
        self.other = await self.started()
        self.told: list[WatchedEvent] = []

    async def all_told(self, count: int) -> list[tuple[str, str | None]]:
        """So many events, and then none."""
        await until(lambda: len(self.told) >= count, f"{count} events")
        for path in ("/", "/a", "/b", "/c"):
            await self.zk.sync(path)
        told = [(event.type, event.path) for event in self.told]
        self.told.clear()
        return told

    def kept(self) -> list[str]:
        return sorted(each.path for each in self.cluster.model.watches if each.kind in ("persistent", "recursive"))


class TestPersistent(LastingCase):
    async def test_each_change_is_told(self) -> None:
        """Of directories with their children on their own ensemble, and elsewhere."""
        for path in ("/a", "/b", "/c"):
            await self.zk.add_watch(path, self.told.append)
            await self.other.create(path)
            await self.other.set(path, b"1")
            await self.other.set(path, b"2")
            names = [("CREATED", path), ("CHANGED", path), ("CHANGED", path)]
            self.assertEqual(await self.all_told(3), names)
            await self.other.create(f"{path}/x")
            await self.other.create(f"{path}/y")
            await self.other.set(f"{path}/y", b"1")
            self.assertEqual(await self.all_told(2), [("CHILD", path)] * 2)
            await self.other.delete(path, recursive=True)
            self.assertEqual(await self.all_told(3), [("CHILD", path)] * 2 + [("DELETED", path)])
            await self.other.create(path)
            self.assertEqual(await self.all_told(1), [("CREATED", path)])

    async def test_beside_another_watch_of_the_same_function(self) -> None:
        """It is called once for an event."""
        await self.zk.create("/a")
        watch = self.told.append
        await self.zk.add_watch("/a", watch)
        await self.zk.get("/a", watch)
        await self.other.set("/a", b"1")
        self.assertEqual(await self.all_told(1), [("CHANGED", "/a")])
        await self.other.set("/a", b"2")
        self.assertEqual(await self.all_told(1), [("CHANGED", "/a")])

    async def test_with_a_chroot(self) -> None:
        await self.zk.create("/root")
        below = await self.started("/root")
        await below.add_watch("/a", self.told.append)
        await self.other.create("/root/a")
        self.assertEqual(await self.all_told(1), [("CREATED", "/a")])

    async def test_it_is_removed(self) -> None:
        first, second = [], []  # type: ignore[var-annotated]
        watches = partial(list.append, first), partial(list.append, second)
        for path in ("/a", "/b", "/c"):
            for watch in watches:
                await self.zk.add_watch(path, watch)
            self.assertIs(await self.zk.remove_watches(path, watches[0]), True)
            await self.other.create(f"{path}/x", makepath=True)
            await until(lambda: len(second) == 2, "two events")
            self.assertIs(await self.zk.remove_watches(path), True)
            self.assertIs(await self.zk.remove_watches(path), False)
            second.clear()
        self.assertEqual((first, self.kept()), ([], []))

    async def test_a_lost_connection(self) -> None:
        """The same server, or another one, keeps it again, and no znode is read for that."""
        paths = ["/a", "/b", "/c"]
        for path in paths:
            await self.zk.create(f"{path}/x", makepath=True)
            await self.zk.add_watch(path, self.told.append)
        kept = self.kept()
        self.cluster.requests.clear()
        for ensemble in range(3):
            self.cluster.cut(ensemble)
        await until(lambda: self.kept() == kept, "the watches again")
        await until(lambda: [each.state for each in self.told].count("CONNECTED") == len(kept), "their events")
        self.assertEqual({(each.type, each.path) for each in self.told}, {("NONE", None)})
        self.assertLessEqual(sum(isinstance(each, SetWatches2) for each in self.cluster.requests), 3)
        self.assertFalse(any(isinstance(each, AddWatch) for each in self.cluster.requests))
        await until(lambda: self.other.connected, "the other client")
        await self.zk.sync("/a")
        self.told.clear()
        await self.other.set("/a", b"1")
        self.assertEqual(await self.all_told(1), [("CHANGED", "/a")])

    async def test_the_session_ends(self) -> None:
        await self.zk.create("/a", ephemeral=True)
        await self.zk.add_watch("/a", self.told.append)
        ensemble = self.ensemble_of("/a")
        self.cluster.expire(ensemble)
        await until(lambda: [each.state for each in self.told].count("EXPIRED_SESSION"), "the end")
        await until(lambda: self.zk.connected, "the next session")
        self.assertIs(await self.zk.remove_watches("/a"), False)

    async def test_the_client_stops(self) -> None:
        await self.zk.add_watch("/a", self.told.append)
        await self.zk.stop()
        self.assertEqual([(each.type, each.state) for each in self.told], [("NONE", "CLOSED")])

    async def test_the_map_grows(self) -> None:
        """It ends: what it watches may come elsewhere from then on."""
        for path in ("/a", "/b", "/c"):
            await self.zk.add_watch(path, self.told.append)
        data = json.loads(self.cluster.model.nodes[0][MAP].data or b"")
        data |= {"form": Form.TOLERANT.name.lower(), "epoch": data["epoch"] + 1}
        for ensemble in range(3):
            must(self.cluster.model.execute(ensemble, SetData(MAP, json.dumps(data).encode(), -1)))
        await until(lambda: len(self.told) == 3, "the end of each")
        self.assertEqual({(each.type, each.state) for each in self.told}, {("NONE", "CLOSED")})
        await until(lambda: not self.kept(), "the servers to forget them")
        with self.assertRaisesRegex(UnimplementedError, "^/a: a watch here cannot last: the map has .* DataWatch"):
            await self.zk.add_watch("/a", self.told.append)

    async def test_refusals(self) -> None:
        calls: Any = self.zk
        with self.assertRaisesRegex(UnimplementedError, "^/a: .* are on several ensembles. Read with watch="):
            await self.zk.add_watch("/a", self.told.append, RECURSIVE)
        with self.assertRaises(NoNodeError):
            await self.zk.add_watch("/parkazoo/map", self.told.append)
        for call in (
            lambda: calls.add_watch_async("/a", None),
            lambda: calls.add_watch_async("/a", print, 2),
            lambda: calls.add_watch_async("/a", print, "recursive"),
            lambda: calls.add_watch_async("/a", self.test_refusals),
            lambda: calls.add_watch_async(7, print),
        ):
            with self.assertRaises(TypeError):
                call()
        with self.assertRaises(ConnectionClosedError):
            await self.client().add_watch("/a", print)

    async def test_one_of_two_ensembles_is_away(self) -> None:
        """Nothing is left on the other one."""
        path = next(path for number in range(99) if (path := f"/d{number}") and self.zk_places(path, 2))
        self.cluster.away.add(2)
        self.cluster.cut(2)
        await until(lambda: not self.zk.connected or not self.cluster.is_connected(2), "the loss")
        short = await self.started(timeout=0.5)
        with self.assertRaises(ConnectionLoss):
            await short.add_watch(path, self.told.append)
        self.assertTrue(any(isinstance(each, AddWatch) for each in self.cluster.requests))
        await until(lambda: any(isinstance(each, RemoveWatches) for each in self.cluster.requests), "the removal")
        self.assertEqual(self.kept(), [])
        self.cluster.away.clear()

    def zk_places(self, path: str, children: int) -> bool:
        """Whether the children of a znode are on that ensemble, and it is not."""
        session = self.zk._session
        assert session is not None and session.driver is not None
        d = session.driver.context.known(path)
        return d.mirror.ensemble == children != d.home.ensemble


class TestRecursive(LastingCase):
    ensembles = 1

    async def test_each_znode_below_is_told(self) -> None:
        await self.zk.add_watch("/a", self.told.append, RECURSIVE)
        for path in ("/a", "/a/b", "/a/b/c", "/ab"):
            await self.other.create(path)
        await self.other.set("/a/b", b"1")
        await self.other.delete("/a/b/c")
        created = [("CREATED", path) for path in ("/a", "/a/b", "/a/b/c")]
        self.assertEqual(await self.all_told(5), [*created, ("CHANGED", "/a/b"), ("DELETED", "/a/b/c")])
        self.assertIs(await self.zk.remove_watches("/a"), True)
        self.assertEqual(self.kept(), [])

    async def test_of_the_root(self) -> None:
        """What belongs to ParKazoo is not told: another client begins and ends."""
        await self.zk.add_watch("/", self.told.append, RECURSIVE)
        await (await self.started()).stop()
        await self.other.create("/a")
        self.assertEqual(await self.all_told(1), [("CREATED", "/a")])
