"""Threads that wait for deferred writes, and a signal that interrupts whoever tells them."""

from __future__ import annotations

import asyncio
import threading
import unittest
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from parkazoo import DeferredError, ParKazooClient
from parkazoo.structures import deferred
from parkazoo.structures.deferred import Deferred
from tests.fakes.zookeeper import Ensembles
from tests.interruption import each_interruption


class TestTelling(unittest.TestCase):
    def test_an_interruption_leaves_nobody_waiting(self) -> None:
        def prepare() -> Callable[[], None]:
            self.deferred = Deferred.__new__(Deferred)
            self.waiters = [threading.Event() for _ in range(3)]
            self.deferred._waiters = list(self.waiters)
            return self.deferred._tell

        def check() -> None:
            self.deferred._tell()
            self.assertTrue(all(each.is_set() for each in self.waiters))

        self.assertGreater(each_interruption(prepare, check, {deferred.__file__}), 10)


class TestBarriers(unittest.IsolatedAsyncioTestCase):
    """What another thread does when a barrier's writes have ended, before its own thread goes on."""

    async def asyncSetUp(self) -> None:
        cluster = Ensembles(1)
        await cluster.__aenter__()
        self.addAsyncCleanup(cluster.__aexit__, None, None, None)
        self.client: Any = ParKazooClient(cluster.hosts)
        self.addAsyncCleanup(asyncio.to_thread, self.client.stop)
        await asyncio.to_thread(self.client.start)

    def barrier(self, later: Any, then: Callable[[], object]) -> None:
        await_issued = later._await_issued

        def await_and_do(timeout: float | None) -> bool:
            later._await_issued = await_issued
            has_ended = await_issued(timeout)
            then()
            return bool(has_ended)

        later._await_issued = await_and_do
        later.barrier()

    async def test_another_barrier_names_the_writes(self) -> None:
        await asyncio.to_thread(self.name_twice)

    def name_twice(self) -> None:
        """Each is told: one thread's write is not done because another's was refused."""
        later = self.client.deferred()
        later.put("/none", b"")

        def name() -> None:
            with self.assertRaises(DeferredError):
                later.barrier()

        with ThreadPoolExecutor(1) as other, self.assertRaises(DeferredError):
            self.barrier(later, lambda: other.submit(name).result())
        later.close()

    async def test_a_barrier_that_was_given_up(self) -> None:
        await asyncio.to_thread(self.name_to_others)

    def name_to_others(self) -> None:
        """The next one names what it has not, but not to the thread that knows it."""
        later = self.client.deferred()
        later.put("/none", b"")
        with ThreadPoolExecutor(1) as other:

            def name() -> None:
                with self.assertRaises(DeferredError):
                    other.submit(later.barrier).result()
                raise ZeroDivisionError

            with self.assertRaises(ZeroDivisionError):
                self.barrier(later, name)
            other.submit(later.barrier).result()
        with self.assertRaises(DeferredError):
            later.barrier()
        later.close()

    async def test_the_client_gives_the_writes_up(self) -> None:
        await asyncio.to_thread(self.give_up)

    def give_up(self) -> None:
        later = self.client.deferred()
        later.put("/none", b"")
        with self.assertLogs("parkazoo", "ERROR"), self.assertRaises(DeferredError):
            self.barrier(later, self.client.stop)
        later.close()
