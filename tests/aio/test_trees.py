"""watch_tree and TreeCache of the asyncio client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from kazoo.exceptions import ConnectionClosedError, KazooException
from kazoo.recipe.cache import TreeEvent

from tests.aio.aio_case import AioCase, until
from tests.aio.strikes import StrikeCase

TREE = "/t"
NAMES = {getattr(TreeEvent, name): name for name in dir(TreeEvent) if name.isupper()}


def values(state: Any) -> dict[str, bytes]:
    return {path: value for path, (value, _) in state.items()}


async def until_seen(states: Any, wanted: dict[str, bytes] | Callable[[Any], bool]) -> Any:
    """The first state that has these values, or is as wanted."""
    async with asyncio.timeout(60):
        async for state in states:
            if wanted(state) if callable(wanted) else values(state) == wanted:
                return state
    raise AssertionError("the states have ended")


class TestStruck(StrikeCase):
    """Each is struck until a change that comes late was seen."""

    def begin(self) -> None:
        for path in ("/t", "/t/a", "/t/a/b", "/t/c"):
            self.put(path, b"1")

    def clear(self) -> None:
        for path in reversed(self.below("/")):
            if path.startswith(TREE):
                self.drop(path)

    def below(self, path: str) -> list[str]:
        return sorted(each for each in self.cluster.model.nodes[0] if each.startswith(path))

    def change(self) -> None:
        if "/t/a/b" in self.cluster.model.nodes[0]:
            self.drop("/t/a/b")
            self.put("/t/d", b"2")

    async def test_watch_tree(self) -> None:
        async def follow() -> None:
            async with self.zk.watch_tree(TREE) as states:
                await until_seen(states, {"/t": b"1", "/t/a": b"1", "/t/c": b"1", "/t/d": b"2"})

        def begin() -> Any:
            self.begin()
            return follow()

        async def then() -> None:
            self.clear()

        await self.strike_each(begin, self.change, root=TREE, then=then)

    async def test_tree_cache(self) -> None:
        async def follow() -> None:
            async with self.zk.TreeCache(TREE) as cache:
                seen = asyncio.Event()
                cache.listen(lambda event: seen.set())
                while cache.get_children(TREE) != {"a", "c", "d"} or cache.get_data("/t/d") is None:
                    seen.clear()
                    await seen.wait()

        def begin() -> Any:
            self.begin()
            return follow()

        async def then() -> None:
            self.clear()

        await self.strike_each(begin, self.change, root=TREE, then=then)


class TreeCase(AioCase):
    async def asyncSetUp(self) -> None:
        await super().asyncSetUp()
        self.zk = await self.started()
        self.other = await self.started()

    def watches(self) -> int:
        session = self.zk._session
        assert session is not None
        assert session.watching is not None
        tables = [
            each for member in session.roster.members for each in (member.data_watches(), member.child_watches())
        ]
        return len(session.watching) + sum(map(len, tables))

    def cut(self) -> None:
        for ensemble in range(3):
            self.cluster.cut(ensemble)


class TestWatchTree(TreeCase):
    async def test_states(self) -> None:
        async with self.zk.watch_tree(TREE) as states:
            self.assertEqual(await anext(states), {})
            await self.other.create("/t/a/b", b"1", makepath=True)
            await until_seen(states, {"/t": b"", "/t/a": b"", "/t/a/b": b"1"})
            await self.other.set("/t/a/b", b"2")
            state = await until_seen(states, {"/t": b"", "/t/a": b"", "/t/a/b": b"2"})
            self.assertEqual(state["/t/a/b"][1].version, 1)
            await self.other.delete("/t/a", recursive=True)
            await until_seen(states, {"/t": b""})
            await self.other.delete("/t")
            await until_seen(states, {})
            await self.other.create("/t/c", makepath=True)
            await until_seen(states, {"/t": b"", "/t/c": b""})
        await until(lambda: not self.watches(), "no watch is left")

    async def test_many_changes(self) -> None:
        """Of several clients, with znodes that are deleted and come again."""
        expected = {"/t": b""} | {f"/t/{a}": b"" for a in range(9)}
        expected |= {f"/t/{a}/{b}": b"%d" % b for a in range(9) for b in range(20)}

        async def write(a: int, zk: Any) -> None:
            await zk.create(f"/t/{a}/x", makepath=True)
            await zk.delete(f"/t/{a}", recursive=True)
            for b in range(20):
                await zk.create(f"/t/{a}/{b}", b"?", makepath=True)
                if b % 3 == 0:
                    await zk.delete(f"/t/{a}/{b}")
                    await zk.create(f"/t/{a}/{b}", b"!")
                await zk.set(f"/t/{a}/{b}", b"%d" % b)

        async with self.zk.watch_tree(TREE) as states:
            writing = [asyncio.create_task(write(a, (self.zk, self.other)[a % 2])) for a in range(9)]
            await until_seen(states, expected)
            await asyncio.gather(*writing)

    async def test_lost_connections_and_sessions(self) -> None:
        async with self.zk.watch_tree(TREE) as states:
            await self.other.create("/t/a/b", makepath=True)
            await until_seen(states, lambda state: len(state) == 3)
            for number in range(6):
                if number % 2:
                    self.cut()
                else:
                    assert self.zk._session is not None
                    self.zk._session.expire("a test wants it")
                while True:
                    try:
                        await self.other.create(f"/t/a/b/{number}")
                        break
                    except KazooException:
                        await until(lambda: self.other.connected, "the other client")
                await until_seen(states, lambda state, number=number: f"/t/a/b/{number}" in state)

    async def test_a_cancelled_wait_loses_nothing(self) -> None:
        await self.other.create(TREE)
        async with self.zk.watch_tree(TREE) as states:
            await anext(states)
            with self.assertRaises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await anext(states)
            await self.other.set(TREE, b"1")
            self.assertEqual(values(await anext(states)), {TREE: b"1"})

    async def test_left_while_it_reads(self) -> None:
        """A read under way brings a watch that nobody wants any more."""
        await self.other.create(TREE)
        for turns in range(20):
            async with self.zk.watch_tree(TREE) as states:
                waiting = asyncio.ensure_future(anext(states, None))
                for _ in range(turns):
                    await asyncio.sleep(0)
            await waiting
            cache = self.zk.TreeCache(TREE)
            await cache.start()
            for _ in range(turns):
                await asyncio.sleep(0)
            await cache.close()
        await self.zk.sync(TREE)
        await until(lambda: not self.watches(), "no watch is left")

    async def test_below_a_chroot(self) -> None:
        await self.other.create("/root/t/a", makepath=True)
        zk = await self.started("/root")
        async with zk.watch_tree("/") as states:
            self.assertEqual(sorted(await anext(states)), ["/", "/t", "/t/a"])
        async with zk.watch_tree("/t/") as states:
            self.assertEqual(sorted(await anext(states)), ["/t", "/t/a"])

    async def test_all_znodes(self) -> None:
        """What belongs to ParKazoo is left out."""
        await self.other.create("/t/a", makepath=True)
        async with self.zk.watch_tree("/") as states:
            self.assertEqual(
                sorted(path for path in await anext(states) if "zookeeper" not in path), ["/", "/t", "/t/a"]
            )

    async def test_stopped(self) -> None:
        async with self.zk.watch_tree(TREE) as states:
            await anext(states)
            waiting = asyncio.ensure_future(anext(states))
            await asyncio.sleep(0)
            await self.zk.stop()
            with self.assertRaises(ConnectionClosedError):
                await waiting
        with self.assertRaises(ConnectionClosedError):
            await anext(self.client().watch_tree(TREE))

    async def test_wrong_arguments(self) -> None:
        calls: Any = self.zk
        with self.assertRaises(TypeError):
            calls.watch_tree(7)
        with self.assertRaises(ValueError):
            calls.watch_tree("/a/../b")


class TestTreeCache(TreeCase):
    async def asyncSetUp(self) -> None:
        await super().asyncSetUp()
        self.events: list[tuple[str, str]] = []

    def hear(self, event: Any) -> None:
        self.events.append((NAMES[event.event_type], "" if event.event_data is None else event.event_data.path))

    async def told(self, count: int) -> list[tuple[str, str]]:
        await until(lambda: len(self.events) >= count, f"{count} events")
        events, self.events = self.events, []
        return events

    async def test_events(self) -> None:
        cache = self.zk.TreeCache(TREE)
        cache.listen(self.hear)
        await cache.start()
        self.assertEqual(await self.told(2), [("NODE_ADDED", "/t"), ("INITIALIZED", "")])
        await self.other.create("/t/a", b"1")
        self.assertEqual(await self.told(1), [("NODE_ADDED", "/t/a")])
        data = cache.get_data("/t/a")
        self.assertEqual((data.path, data.data, data.stat.version), ("/t/a", b"1", 0))
        self.assertEqual((cache.get_children(TREE), cache.get_children("/t/a")), ({"a"}, frozenset()))
        await self.other.set("/t/a", b"2")
        self.assertEqual(await self.told(1), [("NODE_UPDATED", "/t/a")])
        self.assertEqual((cache.get_data("/t/b", 7), cache.get_children("/t/b/c", 7)), (7, 7))
        await self.other.delete("/t/a")
        self.assertEqual(await self.told(1), [("NODE_REMOVED", "/t/a")])
        for call in (cache.get_data, cache.get_children):
            for path in ("/", "/tt", "/u/t"):
                with self.assertRaises(ValueError):
                    call(path)
        await cache.close()
        await cache.close()
        self.assertEqual((cache.get_data(TREE), cache.get_children(TREE)), (None, frozenset()))
        with self.assertRaisesRegex(KazooException, "already closed"):
            await cache.start()
        await until(lambda: not self.watches(), "no watch is left")

    async def test_states_of_the_session(self) -> None:
        async with self.zk.TreeCache(TREE) as cache:
            cache.listen(self.hear)
            await self.told(2)
            self.cut()
            told = await self.told(2)
            self.assertEqual([name for name, _ in told], ["CONNECTION_SUSPENDED", "CONNECTION_RECONNECTED"])
            assert self.zk._session is not None
            self.zk._session.expire("a test wants it")
            await until(lambda: ("INITIALIZED", "") in self.events, "all was read again")
            told = [name for name, _ in await self.told(3) if name != "CONNECTION_SUSPENDED"]
            self.assertEqual(told, ["CONNECTION_LOST", "CONNECTION_RECONNECTED", "INITIALIZED"])
            with self.assertRaisesRegex(KazooException, "already started"):
                await cache.start()

    async def test_over_a_stop(self) -> None:
        async with self.zk.TreeCache(TREE) as cache:
            cache.listen(self.hear)
            await self.told(2)
            await self.zk.stop()
            await self.other.create("/t/a")
            await self.zk.start()
            await until(lambda: ("NODE_ADDED", "/t/a") in self.events, "it goes on")

    async def test_a_big_tree_over_a_stop(self) -> None:
        """A client that is stopped refuses a read at once: then the next one is not made inside of that."""
        await self.other.create(TREE)
        names = {f"{number}" for number in range(400)}
        await asyncio.gather(*(self.other.create(f"{TREE}/{name}") for name in names))
        async with self.zk.TreeCache(TREE) as cache:
            cache.listen(self.hear)
            await until(lambda: ("INITIALIZED", "") in self.events, "all was read")
            with self.assertNoLogs("parkazoo", "ERROR"):
                await self.zk.stop()
            self.assertLessEqual(len(cache._reads.subtree._lost), 2 * len(names) + 2)
            self.events.clear()
            await self.other.delete(f"{TREE}/7")
            await self.zk.start()
            await until(lambda: ("NODE_REMOVED", "/t/7") in self.events, "it goes on")
            await until(lambda: ("INITIALIZED", "") in self.events, "all was read again")
            self.assertEqual(cache.get_children(TREE), names - {"7"})

    async def test_faults(self) -> None:
        faults: list[BaseException] = []
        cache = self.zk.TreeCache(TREE)

        @cache.listen
        def fail(event: Any) -> None:
            raise (ZeroDivisionError, asyncio.CancelledError)[len(faults)]

        heard = list[Any]()
        cache.listen(heard.append)
        cache.listen_fault(faults.append)
        await cache.start()
        await until(lambda: len(faults) == 2, "two faults")
        self.assertEqual([*map(type, faults)], [ZeroDivisionError, asyncio.CancelledError])
        self.assertEqual(len(heard), 2)
        await cache.close()
        calls: Any = cache
        for wrong in (self.test_events, 7):
            for listen in (calls.listen, calls.listen_fault):
                with self.assertRaises(TypeError):
                    listen(wrong)
