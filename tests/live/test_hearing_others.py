"""Who goes on because another client has let it sees what that one has written, on each ensemble.

One ZooKeeper promises that: the answer that says so comes behind the writes. Here the next read on each other
ensemble goes behind a write that cannot succeed.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from unittest import mock

from parkazoo import ParKazooClient
from parkazoo.aio import ParKazooClient as AsyncClient
from tests.aio.aio_case import needs_aio
from tests.live.world import DEADLINE_S, LiveTest


def behind(client: Any) -> int:
    """On how many ensembles the next read goes behind a write."""
    session = client._session
    past = session.driver.context.past
    return sum(past.is_behind(each, "/elsewhere") for each in range(len(session.roster.members)))


def in_threads(*calls: Callable[[], object]) -> None:
    threads = [threading.Thread(target=each) for each in calls]
    for each in threads:
        each.start()
    for each in threads:
        each.join(DEADLINE_S)


@contextmanager
def noting_locks(test: LiveTest, first: ParKazooClient, second: Any) -> Iterator[list[bool]]:
    """Whether an entry is locked when the second client begins to hear the others."""
    hear, seen = second.hear_others, list[bool]()

    def note() -> None:
        seen.append(any(name.startswith("taken") for name in first.get_children(f"{test.root}/queue/entries")))
        hear()

    with mock.patch.object(second, "hear_others", note):
        yield seen


class TestThreads(LiveTest):
    def check(self, act: Callable[[ParKazooClient, ParKazooClient], object]) -> None:
        """
        :param act: the first client lets the second go on.
        """
        first, second = self.joined(), self.joined()
        self.root = self.new_root(first)
        paths = self.on_each(first)
        for each in paths:
            second.get(each)
        self.assertEqual(behind(second), 0)
        act(first, second)
        self.assertGreaterEqual(behind(second), self.ensembles - 1)
        for each in paths:
            second.get(each)
        self.assertEqual(behind(second), 0)

    def test_locks(self) -> None:
        for name in ("Lock", "WriteLock", "ReadLock", "Semaphore"):
            with self.subTest(name):
                self.check(lambda first, second, name=name: self.hand_over(first, second, name))

    def hand_over(self, first: ParKazooClient, second: ParKazooClient, name: str) -> None:
        path = f"{self.root}/lock"
        of_first, of_second = getattr(first, name)(path), getattr(second, name)(path)
        of_first.acquire()
        in_threads(of_second.acquire, of_first.release)
        assert of_second.is_acquired

    def test_election(self) -> None:
        self.check(lambda _, second: second.Election(f"{self.root}/election").run(lambda: None))

    def test_lease(self) -> None:
        self.check(lambda _, second: second.NonBlockingLease(f"{self.root}/lease", timedelta(seconds=1)))

    def test_barrier(self) -> None:
        def act(first: ParKazooClient, second: ParKazooClient) -> None:
            first.Barrier(f"{self.root}/barrier").create()
            in_threads(second.Barrier(f"{self.root}/barrier").wait, first.Barrier(f"{self.root}/barrier").remove)

        self.check(act)

    def test_double_barrier(self) -> None:
        def act(first: ParKazooClient, second: ParKazooClient) -> None:
            both = [each.DoubleBarrier(f"{self.root}/double", 2) for each in (first, second)]
            in_threads(*(each.enter for each in both))
            self.assertGreaterEqual(behind(second), self.ensembles - 1)
            in_threads(*(each.leave for each in both))

        self.check(act)

    def test_queues(self) -> None:
        for name in ("Queue", "LockingQueue"):
            with self.subTest(name):

                def act(first: ParKazooClient, second: ParKazooClient, name: str = name) -> None:
                    getattr(first, name)(f"{self.root}/queue").put(b"1")
                    self.assertEqual(getattr(second, name)(f"{self.root}/queue").get(), b"1")

                self.check(act)

    def test_an_entry_is_locked_before(self) -> None:
        """Until then another client may lock it, write and release it."""

        def act(first: ParKazooClient, second: ParKazooClient) -> None:
            first.LockingQueue(f"{self.root}/queue").put(b"1")
            with noting_locks(self, first, second) as seen:
                second.LockingQueue(f"{self.root}/queue").get()
            self.assertEqual(seen, [True])

        self.check(act)


@needs_aio
class TestAsyncio(LiveTest):
    def check(self, act: Callable[[ParKazooClient, AsyncClient], Awaitable[object]]) -> None:
        first = self.joined()
        self.root = self.new_root(first)
        paths = self.on_each(first)

        async def run() -> None:
            async with AsyncClient(self.cluster.hosts) as second:
                for each in paths:
                    await second.get(each)
                self.assertEqual(behind(second), 0)
                await act(first, second)
                self.assertGreaterEqual(behind(second), self.ensembles - 1)
                for each in paths:
                    await second.get(each)
                self.assertEqual(behind(second), 0)

        asyncio.run(run())

    def test_locks(self) -> None:
        for name in ("Lock", "WriteLock", "ReadLock", "Semaphore"):
            with self.subTest(name):

                async def act(first: ParKazooClient, second: AsyncClient, name: str = name) -> None:
                    held = getattr(first, name)(f"{self.root}/lock")
                    await asyncio.to_thread(held.acquire)
                    acquiring = asyncio.ensure_future(getattr(second, name)(f"{self.root}/lock").acquire())
                    await asyncio.to_thread(held.release)
                    self.assertTrue(await acquiring)

                self.check(act)

    def test_lease(self) -> None:
        async def act(_: ParKazooClient, second: AsyncClient) -> None:
            self.assertTrue(await second.NonBlockingLease(f"{self.root}/lease", timedelta(seconds=1)).obtain())

        self.check(act)

    def test_barrier(self) -> None:
        async def act(first: ParKazooClient, second: AsyncClient) -> None:
            first.Barrier(f"{self.root}/barrier").create()
            waiting = asyncio.ensure_future(second.Barrier(f"{self.root}/barrier").wait())
            await asyncio.to_thread(first.Barrier(f"{self.root}/barrier").remove)
            await waiting

        self.check(act)

    def test_double_barrier(self) -> None:
        async def act(first: ParKazooClient, second: AsyncClient) -> None:
            of_first, of_second = (
                first.DoubleBarrier(f"{self.root}/double", 2),
                second.DoubleBarrier(f"{self.root}/double", 2),
            )
            await asyncio.gather(asyncio.to_thread(of_first.enter), of_second.enter())
            self.assertGreaterEqual(behind(second), self.ensembles - 1)
            await asyncio.gather(asyncio.to_thread(of_first.leave), of_second.leave())

        self.check(act)

    def test_queues(self) -> None:
        for name in ("Queue", "LockingQueue"):
            with self.subTest(name):

                async def act(first: ParKazooClient, second: AsyncClient, name: str = name) -> None:
                    await asyncio.to_thread(getattr(first, name)(f"{self.root}/queue").put, b"1")
                    self.assertEqual(await getattr(second, name)(f"{self.root}/queue").get(), b"1")

                self.check(act)

    def test_an_entry_is_locked_before(self) -> None:
        async def act(first: ParKazooClient, second: AsyncClient) -> None:
            first.LockingQueue(f"{self.root}/queue").put(b"1")
            with noting_locks(self, first, second) as seen:
                await second.LockingQueue(f"{self.root}/queue").get()
            self.assertEqual(seen, [True])

        self.check(act)
