"""Watches that a program removes: neither the client nor a server keeps them."""

from __future__ import annotations

from functools import partial
from typing import Any

from kazoo.exceptions import ConnectionClosedError
from kazoo.protocol.states import WatchedEvent

from parkazoo.protocol.newer_requests import RemoveWatches
from parkazoo.protocol.placement import ROOT, logical
from tests.aio.aio_case import AioCase, until


class TestRemovedWatches(AioCase):
    async def asyncSetUp(self) -> None:
        await super().asyncSetUp()
        self.zk = await self.started()
        self.other = await self.started()
        self.told: list[tuple[str, WatchedEvent]] = []
        self.first, self.second = partial(self.tell, "first"), partial(self.tell, "second")

    def tell(self, name: str, event: WatchedEvent) -> None:
        self.told.append((name, event))

    def names(self) -> list[tuple[str, str]]:
        return [(name, event.type) for name, event in self.told]

    def kept(self) -> set[str]:
        """What servers watch for programs, by the user's names; and what is beside that for their sake."""
        watched = {logical(each.path) for each in self.cluster.model.watches}
        return {each for each in watched if not each.startswith((ROOT, "/zookeeper"))}

    def removals(self) -> int:
        return sum(isinstance(each, RemoveWatches) for each in self.cluster.requests)

    async def test_of_one_function(self) -> None:
        """The server keeps its watch for the other one."""
        await self.zk.create("/a")
        for watch in (self.first, self.second):
            await self.zk.get("/a", watch)
        self.assertIs(await self.zk.remove_watches("/a", self.first), True)
        self.assertIs(await self.zk.remove_watches("/a", self.first), False)
        self.assertEqual((self.removals(), self.kept()), (0, {"/a"}))
        await self.other.set("/a", b"1")
        await until(lambda: self.told, "the event")
        self.assertEqual(self.names(), [("second", "CHANGED")])

    async def test_of_all(self) -> None:
        """On data and children, which may be on two ensembles; a watch that is set next is kept."""
        for path in ("/a", "/b", "/c", "/d"):
            await self.zk.create(f"{path}/x", makepath=True)
            await self.zk.get(path, self.first)
            await self.zk.get_children(path, self.second)
            self.assertIs(await self.zk.remove_watches(path), True)
            self.assertIs(await self.zk.remove_watches(path), False)
        self.assertEqual(self.kept(), set())
        removal, _ = self.zk.remove_watches_async("/a"), await self.zk.get("/a", self.second)
        self.assertFalse(await removal)
        await self.other.set("/a", b"1")
        await until(lambda: self.told, "the event")
        self.assertEqual(self.names(), [("second", "CHANGED")])

    async def test_on_what_is_not_there(self) -> None:
        """A directory without a child, and a missing znode, are watched at several places."""
        for path in ("/a", "/b", "/c", "/d"):
            await self.zk.create(path)
            await self.zk.get_children(path, self.first)
            await self.zk.exists(f"{path}/x", self.first)
            self.assertIs(await self.zk.remove_watches(path, self.first), True)
            self.assertIs(await self.zk.remove_watches(f"{path}/x"), True)
        self.assertEqual(self.kept(), set())
        await self.other.create("/a/x")
        await self.zk.sync("/a")
        self.assertEqual(self.told, [])

    async def test_one_that_is_being_set(self) -> None:
        """The server forgets it, too: it is told NONE, and so can be set again."""
        await self.zk.create("/a")
        await self.zk.get("/a", self.first)
        setting = self.zk.get_async("/a", self.second)
        self.assertIs(await self.zk.remove_watches("/a", self.first), True)
        await setting
        self.assertEqual((self.names(), self.kept()), ([("second", "NONE")], set()))

    async def test_while_the_connection_is_lost(self) -> None:
        await self.zk.create("/a")
        await self.zk.get("/a", self.first)
        self.cluster.away.update(range(3))
        for ensemble in range(3):
            self.cluster.cut(ensemble)
        await until(lambda: self.told, "the event")
        self.assertIs(await self.zk.remove_watches("/a", self.first), False)
        self.cluster.away.clear()

    async def test_wrong_calls(self) -> None:
        calls: Any = self.zk
        with self.assertRaises(TypeError):
            calls.remove_watches_async(7)
        with self.assertRaises(TypeError):
            calls.remove_watches_async("/a", 7)
        self.assertIs(await self.zk.remove_watches("/parkazoo/map"), False)
        with self.assertRaises(ConnectionClosedError):
            await self.client().remove_watches("/a")
        await self.zk.stop()
        with self.assertRaises(ConnectionClosedError):
            await self.zk.remove_watches("/a")
