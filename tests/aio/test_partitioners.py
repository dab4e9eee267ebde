"""SetPartitioner of the asyncio client."""

from __future__ import annotations

import asyncio
import sys
import threading
from typing import Any
from unittest import mock

from kazoo.exceptions import ConnectionClosedError
from kazoo.recipe.partitioner import PartitionState

from tests.aio.aio_case import DEADLINE_S, LONG_S, AioCase, until
from tests.aio.strikes import StrikeCase

if sys.version_info >= (3, 11):
    from parkazoo.aio import LockLostError

PATH = "/work"
SOON_S = 0.005
FOLDERS = {"/work", "/work/party", "/work/locks", "/work/locks/1", "/work/locks/2"}


class TestStruck(StrikeCase):
    def below(self, path: str) -> list[str]:
        return [each for each in super().below(path) if each not in FOLDERS]

    async def test_alone(self) -> None:
        async def use() -> None:
            async with self.zk.SetPartitioner(PATH, [1, 2], time_boundary=SOON_S) as partitioner:
                async for share in partitioner:
                    self.assertEqual(share, [1, 2])
                    break

        await self.strike_each(use, root=PATH, may_raise=(LockLostError,))

    async def test_a_lock_of_another_program(self) -> None:
        lock = "/work/locks/2/00__lock__0000000000"

        async def use() -> None:
            async with self.zk.SetPartitioner(PATH, [1, 2], time_boundary=SOON_S) as partitioner:
                await partitioner.wait_for_acquire()
                while partitioner.release:
                    await partitioner.release_set()
                    await partitioner.wait_for_acquire()
                self.assertIn([*partitioner], ([1, 2], []))

        def begin() -> Any:
            self.put(lock)
            return use()

        await self.zk.ensure_path("/work/locks/2")
        await self.strike_each(begin, lambda: self.drop(lock), root=PATH)


class TestSetPartitioner(AioCase):
    async def asyncSetUp(self) -> None:
        await super().asyncSetUp()
        self.zk = await self.started(timeout=4)
        self.other = await self.started(timeout=4)

    def partitioner(self, zk: Any, identifier: str, **options: Any) -> Any:
        options = {"time_boundary": SOON_S, **options}
        return zk.SetPartitioner(PATH, ["a", "b", "c"], identifier=identifier, **options)

    async def until_children(self, path: str, count: int) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while await self.other.exists(path) is None or len(await self.other.get_children(path)) != count:
                await asyncio.sleep(0.001)

    async def test_members_come_and_go(self) -> None:
        shares: dict[str, list[str]] = {}

        async def work(zk: Any, identifier: str) -> None:
            async with self.partitioner(zk, identifier) as partitioner:
                async for share in partitioner:
                    self.assertFalse({*share} & {each for others in shares.values() for each in others})
                    shares[identifier] = share
                    try:
                        await partitioner.wait_for_release()
                    finally:
                        del shares[identifier]

        first = asyncio.create_task(work(self.zk, "1"))
        await until(lambda: shares == {"1": ["a", "b", "c"]}, "all are the first one's")
        second = asyncio.create_task(work(self.other, "2"))
        await until(lambda: shares == {"1": ["a", "c"], "2": ["b"]}, "each has its own")
        third = asyncio.create_task(work(self.zk, "3"))
        await until(lambda: shares == {"1": ["a"], "2": ["b"], "3": ["c"]}, "and the third")
        first.cancel()
        await until(lambda: shares == {"2": ["a", "c"], "3": ["b"]}, "the others have it")
        second.cancel()
        third.cancel()
        await asyncio.wait([first, second, third])
        self.assertEqual(await self.other.get_children("/work/party"), [])

    async def test_states(self) -> None:
        event = asyncio.Event()
        partitioner = self.partitioner(self.zk, "1", state_change_event=event)
        self.assertTrue(partitioner.allocating)
        await partitioner.wait_for_acquire()
        self.assertTrue(partitioner.acquired and event.is_set())
        await partitioner.wait_for_acquire()
        async with self.partitioner(self.other, "2") as other:
            task = asyncio.create_task(other.wait_for_acquire())
            await partitioner.wait_for_release()
            self.assertTrue(partitioner.release)
            self.assertEqual([*partitioner], ["a", "b", "c"])
            await partitioner.release_set()
            self.assertEqual((partitioner.state, [*partitioner]), (PartitionState.ALLOCATING, []))
            await task
            self.assertEqual([*other], ["b"])
        await partitioner.finish()
        self.assertTrue(partitioner.failed and other.failed)
        await partitioner.release_set()
        self.assertTrue(partitioner.failed)

    async def test_a_share_that_is_to_be_released(self) -> None:
        """It stays this member's until release_set: its program may be at work."""
        async with self.partitioner(self.zk, "1") as partitioner, self.partitioner(self.other, "2") as other:
            await partitioner.wait_for_acquire()
            waiting = asyncio.create_task(other.wait_for_acquire())
            await partitioner.wait_for_release()
            await partitioner.wait_for_acquire()
            self.assertEqual((partitioner.release, [*partitioner]), (True, ["a", "b", "c"]))
            self.assertTrue(all(each.is_acquired for each in partitioner._locks))
            self.assertFalse(other.acquired)
            await partitioner.release_set()
            await waiting
            self.assertEqual([*other], ["b"])

    async def test_a_release_while_it_waits(self) -> None:
        """There is nothing to release; and the locks that it has by then are not given away."""
        held = self.other.Lock("/work/locks/b")
        await held.acquire()
        async with self.partitioner(self.zk, "1") as partitioner:
            waiting = asyncio.create_task(partitioner.wait_for_acquire())
            await self.until_children("/work/locks/b", 2)
            await partitioner.release_set()
            await held.release()
            await waiting
            self.assertEqual([*partitioner], ["a", "b", "c"])
            for item in "abc":
                self.assertEqual(len(await self.other.get_children(f"/work/locks/{item}")), 1)

    async def test_a_lost_connection(self) -> None:
        async with self.partitioner(self.zk, "1") as partitioner:
            shares = aiter(partitioner)
            await anext(shares)
            for ensemble in range(3):
                self.cluster.cut(ensemble)
            await partitioner.wait_for_release()
            self.assertEqual(await anext(shares), ["a", "b", "c"])

    async def test_a_lost_session(self) -> None:
        async with self.partitioner(self.zk, "1") as partitioner:
            shares = aiter(partitioner)
            await anext(shares)
            assert self.zk._session is not None
            self.zk._session.expire("a test wants it")
            await partitioner.wait_for_release()
            self.assertTrue(partitioner.failed)
            with self.assertRaisesRegex(LockLostError, "/work: the session was lost"):
                await anext(shares)

    async def test_a_lost_session_while_it_waits(self) -> None:
        await self.other.create("/work/locks/b/00__lock__0000000000", makepath=True)
        async with self.partitioner(self.zk, "1") as partitioner:
            task = asyncio.create_task(partitioner.wait_for_acquire())
            await self.until_children("/work/locks/b", 2)
            assert self.zk._session is not None
            self.zk._session.expire("a test wants it")
            await task
            self.assertTrue(partitioner.failed)

    async def test_a_lost_session_while_it_joins(self) -> None:
        """It neither stays a member nor waits for the lock that another program has."""
        await self.other.create("/work/locks/b/00__lock__0000000000", makepath=True)
        partitioner = self.partitioner(self.zk, "1")
        task = asyncio.create_task(partitioner.wait_for_acquire())
        await asyncio.sleep(0)
        assert self.zk._session is not None
        self.zk._session.expire("a test wants it")
        await task
        self.assertTrue(partitioner.failed)
        await self.until_children("/work/party", 0)

    async def test_finished_while_it_joins(self) -> None:
        partitioner = self.partitioner(self.zk, "1", time_boundary=LONG_S)
        task = asyncio.create_task(partitioner.wait_for_acquire())
        await asyncio.sleep(0)
        await partitioner.finish()
        await task
        self.assertEqual(await self.other.get_children("/work/party"), [])

    async def test_finished_just_before_the_party_is_divided(self) -> None:
        await self.other.create("/work/locks/b/00__lock__0000000000", makepath=True)

        async def is_stable(sight: Any) -> list[str]:
            partitioner.state = PartitionState.FAILURE
            return ["0-1"]

        partitioner = self.partitioner(self.zk, "1")
        with mock.patch.object(partitioner, "_stable_members", is_stable):
            await partitioner.wait_for_acquire()
        self.assertEqual([*partitioner], [])

    async def test_finished_while_it_waits(self) -> None:
        partitioner = self.partitioner(self.zk, "1", time_boundary=60)
        task = asyncio.create_task(anext(partitioner))
        await self.until_children("/work/party", 1)
        await partitioner.finish()
        with self.assertRaises(StopAsyncIteration):
            await task
        self.assertEqual(await self.other.get_children("/work/party"), [])

    async def test_its_znode_is_deleted(self) -> None:
        """It joins again."""
        async with self.partitioner(self.zk, "1") as partitioner:
            await partitioner.wait_for_acquire()
            await self.other.delete("/work/party", recursive=True)
            await partitioner.wait_for_release()
            await partitioner.release_set()
            await partitioner.wait_for_acquire()
            self.assertEqual([*partitioner], ["a", "b", "c"])

    async def test_a_division_that_fails(self) -> None:
        def divide(identifier: str, members: list[str], items: list[str]) -> list[str]:
            raise ZeroDivisionError

        partitioner = self.partitioner(self.zk, "1", partition_func=divide)
        with self.assertRaises(ZeroDivisionError):
            await partitioner.wait_for_acquire()
        self.assertTrue(partitioner.failed)
        await until(lambda: not self.zk._cleanups, "it has left")
        self.assertEqual(await self.other.get_children("/work/party"), [])

    async def test_stopped(self) -> None:
        partitioner = self.partitioner(self.zk, "1")
        await partitioner.wait_for_acquire()
        await self.zk.stop()
        self.assertTrue(partitioner.failed)
        with self.assertRaises(ConnectionClosedError):
            await self.partitioner(self.zk, "1").wait_for_acquire()
        calls: Any = self.zk
        with self.assertRaises(TypeError):
            calls.SetPartitioner(7, [])

    async def test_wrong_arguments(self) -> None:
        calls: Any = self.zk
        for wrong in (
            {"time_boundary": None},
            {"time_boundary": "1"},
            {"state_change_event": threading.Event()},
            {"partition_func": 7},
            {"partition_func": self.test_wrong_arguments},
        ):
            with self.subTest(wrong), self.assertRaisesRegex(TypeError, next(iter(wrong))):
                calls.SetPartitioner(PATH, [], **wrong)
        for below in (-1, float("nan")):
            with self.assertRaises(ValueError):
                calls.SetPartitioner(PATH, [], time_boundary=below)
