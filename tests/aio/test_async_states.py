"""The states that the asyncio client tells one after the other: a znode's, its children's, its own."""

from __future__ import annotations

import asyncio
from typing import Any

from kazoo.exceptions import ConnectionClosedError
from kazoo.protocol.states import KazooState

from parkazoo.kazoo_private import GetData
from parkazoo.protocol.newer_requests import SetWatches
from tests.aio.aio_case import DEADLINE_S, AioCase, until

CONNECTED, SUSPENDED, LOST = KazooState.CONNECTED, KazooState.SUSPENDED, KazooState.LOST


async def following(states: Any) -> Any:
    """The next state."""
    async with asyncio.timeout(DEADLINE_S):
        return await anext(states)


class StatesCase(AioCase):
    async def asyncSetUp(self) -> None:
        await super().asyncSetUp()
        self.zk, self.other = await self.started(), await self.started()

    def cut_all(self) -> None:
        for at in range(3):
            self.cluster.cut(at)

    def watches(self) -> int:
        """How many the client has."""
        session = self.zk._session
        assert session is not None
        assert session.watching is not None
        members = session.roster.members
        return len(session.watching) + sum(
            len(each.data_watches()) + len(each.child_watches()) for each in members
        )


class TestData(StatesCase):
    async def test_from_its_making_to_its_end(self) -> None:
        async with self.zk.watch_data("/a") as states:
            self.assertIsNone(await following(states))
            await self.other.create("/a", b"1")
            value, stat = await following(states)
            self.assertEqual((value, stat.version), (b"1", 0))
            await self.other.set("/a", b"2")
            self.assertEqual((await following(states))[0], b"2")
            await self.other.delete("/a")
            self.assertIsNone(await following(states))

    async def test_the_newest_comes(self) -> None:
        """Whatever happened meanwhile."""
        await self.other.create("/a", b"0")
        async with self.zk.watch_data("/a") as states:
            self.assertEqual((await following(states))[0], b"0")
            for number in range(5):
                await self.other.set("/a", b"%d" % number)
            self.assertEqual((await following(states))[0], b"4")

    async def test_over_lost_connections(self) -> None:
        await self.other.create("/a", b"0")
        seen: list[str] = []
        self.zk.add_listener(seen.append)
        async with self.zk.watch_data("/a") as states:
            await following(states)
            for value in (b"1", b"2"):
                seen.clear()
                self.cut_all()
                await until(lambda: seen == [SUSPENDED, CONNECTED], "it is back")
                await self.other.set("/a", value)
                self.assertEqual((await following(states))[0], value)

    async def test_after_an_expired_session(self) -> None:
        await self.zk.create("/e", ephemeral=True)
        async with self.zk.watch_data("/e") as states:
            self.assertIsNotNone(await following(states))
            self.cluster.expire(self.ensemble_of("/e"))
            self.assertIsNone(await following(states))

    async def test_it_waits_for_the_connection(self) -> None:
        """It does not read in a loop meanwhile."""
        await self.other.create("/a", b"0")
        async with self.zk.watch_data("/a") as states:
            await following(states)
            self.cluster.away = {0, 1, 2}
            self.cut_all()
            task = asyncio.create_task(following(states))
            await asyncio.sleep(0.05)
            self.cluster.away = set()
            await until(lambda: self.other.connected, "it is back")
            await self.other.set("/a", b"1")
            self.assertEqual((await task)[0], b"1")

    async def test_nothing_new(self) -> None:
        """A reconnect alone is none, and nothing is read."""
        await self.other.create("/a", b"0")
        async with self.zk.watch_data("/a") as states:
            await following(states)
            self.cluster.requests.clear()
            self.cut_all()
            task = asyncio.create_task(following(states))
            await until(lambda: any(isinstance(each, SetWatches) for each in self.cluster.requests), "the watch")
            await until(lambda: self.zk.connected, "it is back")
            await self.zk.sync("/a")
            self.assertNotIn("/a", [each.path for each in self.cluster.requests if isinstance(each, GetData)])
            self.assertEqual((self.watches(), task.done()), (1, False))
            await self.other.set("/a", b"1")
            self.assertEqual((await task)[0], b"1")

    async def test_cancelled(self) -> None:
        """Nothing is lost, wherever it is struck."""
        await self.other.create("/a", b"0")
        async with self.zk.watch_data("/a") as states:
            await following(states)
            for turns in range(12):
                task = asyncio.create_task(anext(states))
                await self.other.set("/a", b"%d" % turns)
                for _ in range(turns):
                    await asyncio.sleep(0)
                is_taken = not task.cancel()
                if is_taken:
                    self.assertEqual(task.result()[0], b"%d" % turns)
                else:
                    await asyncio.wait([task])
                    self.assertTrue(task.cancelled())
                    self.assertEqual((await following(states))[0], b"%d" % turns)
            self.assertLessEqual(self.watches(), 1)

    async def test_the_end_of_the_block(self) -> None:
        """No watch is left: of a znode, of one that is missing, of a directory without children."""
        await self.other.create("/a")
        for make in (self.zk.watch_data, self.zk.watch_children):
            for path in ("/a", "/missing"):
                with self.subTest(make=make, path=path):
                    async with make(path) as states:
                        await following(states)
                        self.assertGreater(self.watches(), 0)
                    await until(lambda: not self.watches(), "its end")

    async def test_who_waits_at_the_end_of_the_block(self) -> None:
        """No state comes any more, now or later."""
        for make in (self.zk.watch_data, self.zk.watch_children, self.zk.watch_tree):
            with self.subTest(make=make):
                states: Any = make("/a")
                async with states:
                    await following(states)
                    waiting = asyncio.create_task(following(states))
                    await asyncio.sleep(0)
                await asyncio.wait([waiting])
                never_begun: Any = make("/a")
                async with never_begun:
                    pass
                for each in (states, never_begun):
                    self.assertEqual([state async for state in each], [])
                self.assertIsInstance(waiting.exception(), StopAsyncIteration)
        await until(lambda: not self.watches(), "no watch is left")
        self.assertEqual(self.zk._listeners, {})

    async def test_left_while_it_reads(self) -> None:
        """A read under way brings a watch that nobody wants any more, whether its task is cancelled or not."""
        await self.other.create("/a")
        for make in (self.zk.watch_data, self.zk.watch_children):
            for turns in range(30):
                with self.subTest(make=make, turns=turns):
                    async with make("/a" if turns % 2 else "/missing") as states:
                        waiting = asyncio.create_task(anext(states, None))
                        for _ in range(turns // 2):
                            await asyncio.sleep(0)
                        if turns % 3:
                            waiting.cancel()
                    await asyncio.wait([waiting])
        await self.zk.sync("/a")
        await until(lambda: not self.watches(), "no watch is left")

    async def test_the_client_stops(self) -> None:
        async with self.zk.watch_data("/") as states:
            await following(states)
            task = asyncio.create_task(following(states))
            await asyncio.sleep(0)
            await self.zk.stop()
            for waiting in (task, following(states)):
                with self.assertRaises(ConnectionClosedError):
                    await waiting

    async def test_wrong_arguments(self) -> None:
        wrong: Any = 7
        for make in (self.zk.watch_data, self.zk.watch_children):
            with self.assertRaises(TypeError):
                make(wrong)
            with self.assertRaises(ValueError):
                make("/a/../b")


class TestChildren(StatesCase):
    async def test_from_its_making_to_its_end(self) -> None:
        async with self.zk.watch_children("/a") as states:
            self.assertIsNone(await following(states))
            await self.other.create("/a")
            self.assertEqual(await following(states), [])
            await self.other.create("/a/x")
            self.assertEqual(await following(states), ["x"])
            await self.other.create("/a/y")
            self.assertEqual(sorted(await following(states)), ["x", "y"])
            await self.other.delete("/a", recursive=True)
            while (names := await following(states)) is not None:
                self.assertLess(len(names), 2)

    async def test_over_lost_connections(self) -> None:
        await self.other.create("/a/x", makepath=True)
        seen: list[str] = []
        self.zk.add_listener(seen.append)
        async with self.zk.watch_children("/a") as states:
            await following(states)
            for name in "yz":
                seen.clear()
                self.cut_all()
                await until(lambda: seen == [SUSPENDED, CONNECTED], "it is back")
                await self.other.create(f"/a/{name}")
                self.assertIn(name, await following(states))


class TestOwn(StatesCase):
    async def test_none_is_left_out(self) -> None:
        seen: list[str] = []

        async def follow() -> None:
            seen.extend([state async for state in self.zk.states()])

        task = asyncio.create_task(follow())
        await self.zk.create("/e", ephemeral=True)
        at = self.ensemble_of("/e")
        heard: list[str] = []
        self.zk.add_listener(heard.append)
        self.cluster.cut(at)
        await until(lambda: heard == [SUSPENDED, CONNECTED], "it is back")
        self.cluster.expire(at)
        await until(lambda: LOST in heard and heard[-1] == CONNECTED, "it begins anew")
        await self.zk.stop()
        await asyncio.wait_for(task, DEADLINE_S)
        self.assertEqual(seen, [CONNECTED, *heard])
        self.assertEqual((heard[-1], self.zk._listeners), (LOST, {heard.append: None}))

    async def test_a_stop_while_it_is_lost(self) -> None:
        """No further state comes, and none is waited for."""
        self.cluster.away = {0, 1, 2}
        states = self.zk.states()
        self.assertEqual(await following(states), CONNECTED)
        session = self.zk._session
        assert session is not None
        session.expire("a test wants it")
        self.cut_all()
        self.assertEqual(await following(states), LOST)
        rest = asyncio.create_task(anext(states, None))
        await asyncio.sleep(0.01)
        await self.zk.stop()
        async with asyncio.timeout(DEADLINE_S):
            self.assertIsNone(await rest)

    async def test_a_late_reader(self) -> None:
        """It gets all of them, though the client has stopped by then."""
        states, heard = self.zk.states(), list[str]()
        self.assertEqual(await following(states), CONNECTED)
        self.zk.add_listener(heard.append)
        session = self.zk._session
        assert session is not None
        session.expire("a test wants it")
        await until(lambda: heard == [LOST, CONNECTED], "it begins anew")
        await self.zk.stop()
        self.assertEqual([state async for state in states], [LOST, CONNECTED, LOST])
        self.assertEqual((heard, self.zk._ends), ([LOST, CONNECTED, LOST], {}))

    async def test_cancelled(self) -> None:
        """Nothing is lost, and it goes on."""
        states = self.zk.states()
        self.assertEqual(await following(states), CONNECTED)
        task = asyncio.create_task(anext(states))
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait([task])
        await self.zk.stop()
        self.assertEqual([state async for state in states], [LOST])

    async def test_closed_while_another_task_waits(self) -> None:
        states = self.zk.states()
        self.assertEqual(await following(states), CONNECTED)
        task = asyncio.create_task(anext(states, None))
        await asyncio.sleep(0.01)
        await states.aclose()
        self.assertIsNone(await asyncio.wait_for(task, DEADLINE_S))
        self.assertEqual((self.zk._listeners, self.zk._ends), ({}, {}))
        with self.assertRaises(StopAsyncIteration):
            await anext(states)

    async def test_one_that_is_left(self) -> None:
        async for state in self.zk.states():
            self.assertEqual(state, CONNECTED)
            break
        await until(lambda: not self.zk._listeners, "its end")

    async def test_without_a_session(self) -> None:
        with self.assertRaises(ConnectionClosedError):
            await anext(self.client().states())
