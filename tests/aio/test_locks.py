"""Locks of the asyncio client."""

from __future__ import annotations

import asyncio
import sys
import unittest
from contextlib import suppress
from typing import Any
from unittest import mock

from kazoo.exceptions import ConnectionClosedError, NoChildrenForEphemeralsError, NotEmptyError

from tests.aio.aio_case import DEADLINE_S, AioCase, needs_aio, until
from tests.aio.strikes import StrikeCase

if sys.version_info >= (3, 11):
    from parkazoo.aio import LockLostError
    from parkazoo.aio.recipe.listing import SharedListings
    from parkazoo.aio.recipe.task_turns import TaskTurns

FOLDER = "/locks/a"
RIVAL = f"{FOLDER}/00__lock__0000000000"
READER = f"{FOLDER}/00__rlock__0000000000"


async def use(lock: Any) -> None:
    async with lock:
        await asyncio.sleep(0)


class TestStruck(StrikeCase):
    async def asyncSetUp(self) -> None:
        await super().asyncSetUp()
        await self.zk.ensure_path(FOLDER)

    async def strike(self, kind: str, rival: str = "") -> None:
        def begin() -> Any:
            if rival:
                self.put(rival)
            return use(getattr(self.zk, kind)(FOLDER))

        def go_on() -> None:
            if rival:
                self.drop(rival)

        await self.strike_each(begin, go_on, root=FOLDER, may_raise=(LockLostError,))

    async def test_free(self) -> None:
        await self.strike("Lock")

    async def test_held(self) -> None:
        await self.strike("Lock", RIVAL)

    async def test_read(self) -> None:
        await self.strike("WriteLock", READER)


class TestLock(AioCase):
    async def asyncSetUp(self) -> None:
        await super().asyncSetUp()
        self.zk = await self.started(timeout=4)
        self.other = await self.started(timeout=4)

    def expire(self) -> None:
        assert self.zk._session is not None
        self.zk._session.expire("a test wants it")

    async def waits(self, task: asyncio.Task[Any], count: int = 2) -> None:
        """Until so many contend."""
        await until(lambda: self.contending() == count, f"{count} contenders")
        self.assertFalse(task.done())

    def contending(self) -> int:
        return sum(
            "__lock__" in path or "__rlock__" in path for nodes in self.cluster.model.nodes for path in nodes
        )

    async def test_one_after_the_other(self) -> None:
        lock = self.zk.Lock(FOLDER, "me")
        self.assertIs(await lock.acquire(), True)
        self.assertTrue(lock.is_acquired)
        self.assertRegex(lock.node or "", "^[0-9a-f]{32}__lock__[0-9]{10}$")
        other = self.other.Lock(FOLDER, "you")
        task = asyncio.create_task(other.acquire())
        await self.waits(task)
        self.assertEqual(await lock.contenders(), ["me", "you"])
        self.assertIs(await lock.release(), True)
        self.assertIs(await task, True)
        self.assertEqual((lock.is_acquired, lock.node, await lock.release()), (False, None, False))
        self.assertIs(await self.zk.Lock(FOLDER).acquire(blocking=False), False)
        self.assertEqual(self.contending(), 1)
        self.assertIs(await other.release(), True)
        self.assertIs(await self.zk.Lock(FOLDER).acquire(blocking=False), True)

    async def test_readers_and_writers(self) -> None:
        first, second = self.zk.ReadLock(FOLDER), self.other.ReadLock(FOLDER)
        await first.acquire()
        await second.acquire()
        writer = self.zk.WriteLock(FOLDER)
        task = asyncio.create_task(writer.acquire())
        await self.waits(task, 3)
        third = self.other.ReadLock(FOLDER)
        self.assertIs(await third.acquire(blocking=False), False)
        await first.release()
        await self.waits(task)
        await second.release()
        await task
        self.assertEqual(await third.contenders(), [""])

    async def test_patterns_of_others(self) -> None:
        """As of a contender that Curator has made."""
        await self.zk.create(f"{FOLDER}/_c_1-lock-0000000000", b"curator", makepath=True)
        lock = self.zk.Lock(FOLDER, extra_lock_patterns=["-lock-"])
        self.assertIs(await lock.acquire(blocking=False), False)
        self.assertEqual(await lock.contenders(), ["curator"])
        self.assertIs(await self.zk.Lock(FOLDER).acquire(blocking=False), True)

    async def test_no_folder(self) -> None:
        self.assertEqual(await self.zk.Lock(FOLDER).contenders(), [])

    async def test_tasks_share_an_object(self) -> None:
        lock, inside, most = self.zk.Lock(FOLDER), 0, 0

        async def work() -> None:
            nonlocal inside, most
            async with lock:
                inside += 1
                most = max(most, inside)
                await asyncio.sleep(0.001)
                inside -= 1

        await asyncio.gather(*(work() for _ in range(10)))
        self.assertEqual((most, self.contending()), (1, 0))
        async with lock:
            self.assertIs(await lock.acquire(blocking=False), False)

    async def test_a_task_that_releases_it_in_its_block(self) -> None:
        """Then it is another's, whose block goes on; a lost session is no matter of the first."""
        lock, is_taken, is_over = self.zk.Lock(FOLDER), asyncio.Event(), asyncio.Event()

        async def first() -> None:
            async with lock:
                await lock.release()
                await is_taken.wait()

        async def second() -> None:
            async with lock:
                is_taken.set()
                await is_over.wait()
                self.assertTrue(lock.is_acquired)

        task = asyncio.create_task(first())
        other = asyncio.create_task(second())
        await asyncio.wait_for(task, DEADLINE_S)
        async with self.zk.Lock("/beside"):
            self.assertEqual(len(self.zk.losses), 2)
            self.assertIs(await self.other.Lock(FOLDER).acquire(blocking=False), False)
        is_over.set()
        await asyncio.wait_for(other, DEADLINE_S)
        self.assertEqual((self.zk.losses, self.contending()), (set(), 0))
        async with lock:
            await lock.release()
            self.zk.lose()
            await asyncio.sleep(0)

    async def test_a_time_limit(self) -> None:
        async with self.other.Lock(FOLDER):
            with self.assertRaises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await self.zk.Lock(FOLDER).acquire()
            await until(lambda: self.contending() == 1, "it is withdrawn")

    async def test_a_lost_session_cancels_the_body(self) -> None:
        reached: list[str] = []
        with self.assertRaisesRegex(LockLostError, "/locks/a: the session was lost") as raised:
            async with self.zk.Lock(FOLDER) as lock:
                self.expire()
                try:
                    await asyncio.sleep(60)
                finally:
                    reached.append(f"{lock.is_acquired}")
        self.assertEqual(reached, ["False"])
        self.assertIsInstance(raised.exception.__cause__, asyncio.CancelledError)
        task = asyncio.current_task()
        assert task is not None
        self.assertEqual(task.cancelling(), 0)
        await asyncio.sleep(0)
        async with lock:
            pass

    async def test_a_body_that_awaits_an_answer(self) -> None:
        """It is cancelled before the answer's error comes."""
        with self.assertRaises(LockLostError):
            async with self.zk.Lock(FOLDER):
                self.cluster.mute = {0, 1, 2}
                asyncio.get_running_loop().call_soon(self.expire)
                try:
                    await self.zk.get("/")
                finally:
                    self.cluster.mute = set()

    async def test_a_body_that_ends_as_the_session_does(self) -> None:
        with self.assertRaises(LockLostError):
            async with self.zk.Lock(FOLDER):
                self.expire()
        await asyncio.sleep(0)

    async def test_a_body_that_suppresses_it(self) -> None:
        with self.assertRaises(LockLostError):
            async with self.zk.Lock(FOLDER):
                self.expire()
                with suppress(asyncio.CancelledError):
                    await asyncio.sleep(60)

    async def test_an_error_of_the_body(self) -> None:
        with self.assertRaises(ZeroDivisionError):
            async with self.zk.Lock(FOLDER):
                self.expire()
                raise ZeroDivisionError
        await asyncio.sleep(0)

    async def test_a_cancellation_from_elsewhere_wins(self) -> None:
        for is_first in (True, False):
            begun = asyncio.Event()

            async def work(begun: asyncio.Event = begun) -> None:
                async with self.zk.Lock(FOLDER):
                    begun.set()
                    await asyncio.sleep(60)

            task = asyncio.create_task(work())
            await begun.wait()
            if is_first:
                task.cancel()
            self.expire()
            if not is_first:
                await asyncio.sleep(0)
                task.cancel()
            await asyncio.wait([task])
            self.assertTrue(task.cancelled())

    async def test_a_time_limit_around_a_lost_lock(self) -> None:
        """It is not taken for the loss."""
        async with asyncio.timeout(60) as limit:
            with self.assertRaises(LockLostError):
                async with self.zk.Lock(FOLDER):
                    self.expire()
                    await asyncio.sleep(60)
        self.assertFalse(limit.expired())

    async def test_stopped(self) -> None:
        with self.assertRaises(LockLostError):
            async with self.zk.Lock(FOLDER):
                await self.zk.stop()
        with self.assertRaises(ConnectionClosedError):
            await self.zk.Lock(FOLDER).acquire()
        self.assertEqual(self.contending(), 0)

    async def test_stopped_while_it_is_held(self) -> None:
        lock = self.zk.Lock(FOLDER)
        await lock.acquire()
        await self.zk.stop()
        self.assertFalse(lock.is_acquired)

    async def test_stopped_between_the_last_answer_and_the_waking(self) -> None:
        """The block is not entered: nobody would cancel it."""
        listings = self.zk.listings

        async def read(path: str) -> Any:
            names = await SharedListings.read(listings, path)
            await self.zk.stop()
            return names

        with mock.patch.object(listings, "read", read), self.assertRaises(ConnectionClosedError):
            async with self.zk.Lock(FOLDER):
                self.fail("it holds nothing")

    async def test_stopped_while_it_waits(self) -> None:
        async with self.other.Lock(FOLDER):
            task = asyncio.create_task(self.zk.Lock(FOLDER).acquire())
            await self.waits(task)
            await self.zk.stop()
            with self.assertRaises(ConnectionClosedError):
                await task
            self.assertEqual(self.zk._cleanups, set())
            self.assertEqual(self.contending(), 1)

    async def test_a_release_that_is_cancelled_goes_on(self) -> None:
        lock = self.zk.Lock(FOLDER)
        await lock.acquire()
        task = asyncio.create_task(lock.release())
        await asyncio.sleep(0)
        task.cancel()
        await until(lambda: not self.contending(), "it is released")
        self.assertTrue(task.cancelled())

    async def test_its_folder_is_swept(self) -> None:
        lock = self.zk.Lock(FOLDER)
        await lock.acquire()
        await self.other.delete(FOLDER, recursive=True)
        self.assertIs(await lock.release(), False)
        async with self.other.Lock(FOLDER):
            task = asyncio.create_task(lock.acquire())
            await self.waits(task)
            with suppress(NotEmptyError):  # the next znode is there already
                await self.other.delete(FOLDER, recursive=True)
            await task

    async def test_it_can_have_no_contenders(self) -> None:
        await self.zk.create(FOLDER, ephemeral=True, makepath=True)
        with self.assertRaises(NoChildrenForEphemeralsError):
            await self.zk.Lock(FOLDER).acquire()
        self.assertEqual(await self.zk.Lock(FOLDER).contenders(), [])

    async def test_wrong_arguments(self) -> None:
        calls: Any = self.zk
        with self.assertRaises(TypeError):
            calls.Lock(7)


@needs_aio
class TestTurns(unittest.IsolatedAsyncioTestCase):
    async def test_cancelled(self) -> None:
        """While it waits, and when it has just been given the turn."""
        turns = TaskTurns()
        await turns.take()
        first, second = asyncio.create_task(turns.take()), asyncio.create_task(turns.take())
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait([first])
        turns.give()
        second.cancel()
        await asyncio.wait([second])
        self.assertTrue(second.cancelled())
        self.assertFalse(turns.is_taken)

    async def test_cancelled_just_before_its_turn(self) -> None:
        turns = TaskTurns()
        await turns.take()
        first = asyncio.create_task(turns.take())
        await asyncio.sleep(0)
        first.cancel()
        turns.give()
        await asyncio.wait([first])
        self.assertTrue(first.cancelled())
        self.assertFalse(turns.is_taken)
