"""The states of a subtree while a directory of it moves, and while the map grows; seen by both clients."""

from __future__ import annotations

import asyncio
import sys
import threading
import unittest
import uuid
from collections.abc import Callable
from typing import Any

from parkazoo.admin import move_directory
from tests.aio import aio_case
from tests.handlers import make_handler
from tests.live.grow_case import GrowCase
from tests.live.world import DEADLINE_S, LiveTest, Seen, drop_connections, wait_until

PATH = "/d"


def values(state: Any) -> dict[str, bytes]:
    return {path: value for path, (value, _) in state.items()}


class TestMovesAndGrowth(GrowCase):
    def follow_by_asyncio(self, states: Seen, cached: Callable[[Any], None]) -> None:
        """A client for asyncio in a thread; the last thing that `cached` gets is its TreeCache."""
        end: list[Any] = []
        begun = threading.Event()

        async def follow() -> None:
            has_ended = asyncio.Event()
            end[:] = [asyncio.get_running_loop(), has_ended]
            async with aio_case.ParKazooClient(self.a) as zk, zk.TreeCache(PATH) as cache:
                cached(cache)

                async def see() -> None:
                    async with zk.watch_tree(PATH) as found:
                        begun.set()
                        async for state in found:
                            states(values(state))

                seeing = asyncio.create_task(see())
                await has_ended.wait()
                seeing.cancel()
                await asyncio.wait([seeing])
                self.assertTrue(seeing.cancelled())

        thread = threading.Thread(target=lambda: asyncio.run(follow()))
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(lambda: end[0].call_soon_threadsafe(end[1].set))
        self.assertTrue(begun.wait(DEADLINE_S))

    @unittest.skipIf(sys.version_info < (3, 11), "parkazoo.aio needs Python 3.11")
    def test_both_clients(self) -> None:
        writer, client = self.client()[0], self.client()[0]
        writer.create(f"{PATH}/x/y", b"1", makepath=True)
        seen, states, caches = Seen(), Seen(), Seen()
        watcher = client.watch_tree(PATH, lambda state: seen(values(state)))
        self.follow_by_asyncio(states, caches)
        expected = {PATH: b"", f"{PATH}/x": b"", f"{PATH}/x/y": b"1"}

        def write(number: int) -> None:
            for path in (f"{PATH}/x/{number}", f"{PATH}/{number}"):
                expected[path] = b"%d" % number
                writer.create(path, expected[path])
            expected[f"{PATH}/x/y"] = b"y%d" % number
            writer.set(f"{PATH}/x/y", expected[f"{PATH}/x/y"])
            if number > 1:
                writer.delete(f"{PATH}/{number - 1}")
                del expected[f"{PATH}/{number - 1}"]
            self.all_see(expected, seen, states, caches)

        self.all_see(expected, seen, states, caches)
        write(1)
        for number, path in enumerate((PATH, f"{PATH}/x", PATH), 2):
            to = "b" if self.place(path) == "a" else "a"
            move_directory(self.a, path, to, strangers_gone=True)
            self.assertEqual(self.place(path), to)
            write(number)
        self.assert_grown_to_c()
        write(5)
        move_directory(self.a, PATH, "c", strangers_gone=True)
        write(6)
        watcher.close()
        writer.create(f"{PATH}/7")
        wait_until(lambda: f"{PATH}/7" in states[-1], "one of the two")
        self.assertNotIn(f"{PATH}/7", seen[-1])

    def assert_grown_to_c(self) -> None:
        self.grow(strangers_gone=True)
        self.assert_grown("abc")

    def all_see(self, expected: dict[str, bytes], seen: Seen, states: Seen, caches: Seen) -> None:
        wait_until(lambda: seen[-1] == expected, f"the client for threads sees {expected}")
        wait_until(lambda: states[-1] == expected, f"the client for asyncio sees {expected}")
        for path, value in expected.items():
            wait_until(
                lambda path=path, value=value: caches[0].get_data(path).data == value, f"the cache has {path}"
            )
        wait_until(
            lambda: len(caches[0].get_children(PATH)) == len([p for p in expected if p.count("/") == 2]), "names"
        )


class TestWatchTree(LiveTest):
    def setUp(self) -> None:
        super().setUp()
        self.client, self.other = self.parkazoo(), self.parkazoo()
        self.root = f"/{uuid.uuid4().hex}"
        self.states = Seen()

    def until(self, **expected: bytes) -> None:
        wanted = {f"{self.root}/{name}".rstrip("/"): value for name, value in {"": b"", **expected}.items()}
        wait_until(lambda: values(self.states[-1]) == wanted, f"{wanted}, the last is {self.states[-1:]}")

    def test_states(self) -> None:
        self.client.watch_tree(self.root)(self.states)
        self.assertEqual(self.states.wait(), [{}])
        self.other.create(f"{self.root}/a", b"1", makepath=True)
        self.until(a=b"1")
        drop_connections(self.client)
        self.other.set(f"{self.root}/a", b"2")
        self.other.create(f"{self.root}/b")
        self.until(a=b"2", b=b"")
        self.client.stop()
        self.other.delete(f"{self.root}/a")
        self.client.start()
        self.until(b=b"")
        self.other.delete(self.root, recursive=True)
        wait_until(lambda: self.states[-1] == {}, "it is gone")

    def test_its_end(self) -> None:
        """By the function, by close, and with the first error."""
        self.other.create(self.root)
        calls, errors = Seen(), Seen()

        @self.client.watch_tree(self.root)
        def once(state: Any) -> bool:
            calls(state)
            return False

        @self.client.watch_tree(self.root)
        def fail(state: Any) -> None:
            errors(state)
            raise ZeroDivisionError

        watcher = self.client.watch_tree(self.root, self.states)
        with self.assertRaises(RuntimeError):
            watcher(print)
        for seen in (calls, errors, self.states):
            seen.wait()
        self.other.create(f"{self.root}/a")
        for seen in (errors, self.states):
            seen.wait(2)
        watcher.close()
        self.other.create(f"{self.root}/b")
        errors.wait(3)
        self.assertEqual((len(calls), len(self.states)), (1, 2))

    def test_a_stopped_client(self) -> None:
        client = self.parkazoo(start=False, handler=make_handler())
        client.watch_tree("/", self.states)
        client.start()
        self.assertIn("/", self.states.wait()[-1])
