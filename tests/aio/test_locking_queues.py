"""LockingQueue of the asyncio client."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from contextlib import suppress
from typing import Any
from unittest import mock

from kazoo.exceptions import (
    ConnectionClosedError,
    NoAuthError,
    NotEmptyError,
    SessionExpiredError,
    WriterNotClosedException,
)

from parkazoo.kazoo_private import SetData
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.placement import MAP
from tests.aio.aio_case import AioCase, until
from tests.aio.strikes import StrikeCase
from tests.explore.alone import must

if sys.version_info >= (3, 11):
    from parkazoo.aio import LockLostError

QUEUE = "/q"
FOLDERS = "/q/entries", "/q/taken"
ENTRY = "/q/entries/entry-100-0000000000"


class TestStruck(StrikeCase):
    """In the layout of kazoo."""

    lock = "/q/taken/entry-100-0000000000"
    first = b""

    async def asyncSetUp(self) -> None:
        await super().asyncSetUp()
        self.put(QUEUE)
        self.put(FOLDERS[0], self.first)
        self.put(FOLDERS[1])
        self.queue = self.zk.LockingQueue(QUEUE)

    def below(self, path: str) -> list[str]:
        return [each for each in super().below(path) if each not in FOLDERS]

    def begin(self) -> None:
        if ENTRY not in self.cluster.model.nodes[0]:
            self.put(ENTRY, b"1")

    async def take_all(self) -> None:
        """Nobody has it, so that another one can have it."""
        await until(lambda: not self.left(), "what was cancelled has ended")
        self.assertIn(self.below(QUEUE), ([], [ENTRY]))
        if self.below(QUEUE):
            self.drop(ENTRY)

    async def test_entry(self) -> None:
        async def use() -> None:
            async with self.queue.entry() as value:
                self.assertEqual(value, b"1")
                await asyncio.sleep(0)
            self.assertEqual(self.below(QUEUE), [])

        def begin() -> Any:
            self.begin()
            return use()

        await self.strike_each(begin, root=QUEUE, may_raise=(LockLostError,), then=self.take_all)

    async def test_get_and_release(self) -> None:
        async def use() -> None:
            self.assertEqual(await self.queue.get(), b"1")
            await self.queue.release()

        def begin() -> Any:
            self.begin()
            return use()

        async def then() -> None:
            await self.queue.release()  # what it got before it was cancelled
            await self.take_all()

        await self.strike_each(begin, root=QUEUE, then=then)

    async def test_get_and_consume(self) -> None:
        async def use() -> None:
            self.assertEqual(await self.queue.get(), b"1")
            if await self.queue.consume():
                self.assertEqual(self.below(QUEUE), [])

        def begin() -> Any:
            self.begin()
            return use()

        async def then() -> None:
            await self.queue.release()
            await self.take_all()

        await self.strike_each(begin, root=QUEUE, then=then)

    async def test_waiting(self) -> None:
        """Another client has the only entry, and gives it back."""

        async def use() -> None:
            async with self.queue.entry() as value:
                self.assertEqual(value, b"1")

        def begin() -> Any:
            self.begin()
            self.put(self.lock)
            return use()

        await self.strike_each(
            begin, lambda: self.drop(self.lock), root=QUEUE, may_raise=(LockLostError,), then=self.take_all
        )

    async def test_put_all(self) -> None:
        """Both or none, at most once."""

        async def then() -> None:
            await until(lambda: not self.left(), "what was cancelled has ended")
            left = self.below(QUEUE)
            self.assertIn(len(left), (0, 2))
            for path in left:
                self.drop(path)

        await self.strike_each(
            lambda: self.queue.put_all([b"1", b"2"]), root=QUEUE, may_raise=(SessionExpiredError,), then=then
        )


class TestStruckBeside(TestStruck):
    """With the locks beside the entries."""

    lock = "/q/entries/taken-entry-100-0000000000"
    first = b"locks beside entries"


class TestLockingQueue(AioCase):
    async def asyncSetUp(self) -> None:
        await super().asyncSetUp()
        self.zk = await self.started(timeout=4)
        self.other = await self.started(timeout=4)
        self.queue = self.zk.LockingQueue(QUEUE)

    def expire(self) -> None:
        assert self.zk._session is not None
        self.zk._session.expire("a test wants it")

    def is_watched(self) -> bool:
        return any("entries" in each.path for each in self.cluster.model.watches)

    async def entries(self) -> list[str]:
        return sorted(await self.other.get_children(FOLDERS[0]))

    async def test_one_after_the_other(self) -> None:
        await self.queue.put(b"2")
        await self.queue.put_all([b"3", b"4"], priority=101)
        await self.queue.put_all([])
        await self.queue.put(b"1", priority=99)
        self.assertEqual(await self.queue.qsize(), 4)
        found = []
        for _ in range(4):
            self.assertIs(await self.queue.holds_lock(), False)
            found += [await self.queue.get(), await self.queue.get()]
            self.assertIs(await self.queue.holds_lock(), True)
            self.assertIs(await self.queue.consume(), True)
        self.assertEqual(found, [b"1", b"1", b"2", b"2", b"3", b"3", b"4", b"4"])
        self.assertEqual((await self.queue.consume(), await self.queue.release()), (False, False))
        self.assertEqual((await self.entries(), await self.queue.qsize()), ([], 0))

    async def test_each_layout(self) -> None:
        """Locks are beside the entries, but where the cluster began with one ensemble."""
        await self.queue.put(b"1")
        await self.queue.get()
        self.assertEqual([each[:6] for each in await self.entries()], ["entry-", "taken-"])
        self.assertEqual(await self.queue.qsize(), 1)

    async def test_several_entries_at_once(self) -> None:
        await self.queue.put_all([b"%d" % number for number in range(10)])
        inside, found = 0, []

        async def work() -> None:
            nonlocal inside
            async with self.queue.entry() as value:
                inside += 1
                found.append(value)
                await until(lambda: inside == 10, "all have one")

        await asyncio.gather(*(work() for _ in range(10)))
        self.assertEqual(sorted(found), [b"%d" % number for number in range(10)])
        self.assertEqual(await self.entries(), [])

    async def test_an_error_of_the_block_releases(self) -> None:
        await self.queue.put(b"1")
        with self.assertRaises(ZeroDivisionError):
            async with self.queue.entry():
                raise ZeroDivisionError
        self.assertEqual(await self.entries(), ["entry-100-0000000000"])
        entry = self.queue.entry()
        async with entry:
            with self.assertRaisesRegex(RuntimeError, "an entry already"):
                await entry.__aenter__()

    async def test_a_lost_session(self) -> None:
        """The entry is another one's; the object takes the next."""
        await self.queue.put_all([b"1", b"2"])
        with self.assertRaisesRegex(LockLostError, "/q: the session was lost"):
            async with self.queue.entry():
                self.expire()
                await asyncio.sleep(60)
        self.assertEqual(await self.queue.get(), b"1")
        self.expire()
        await until(lambda: self.zk.connected, "the next session")
        theirs = self.other.LockingQueue(QUEUE)
        self.assertEqual(await theirs.get(), b"1")
        self.assertIs(await self.queue.holds_lock(), False)
        self.assertEqual(await self.queue.get(), b"2")
        self.assertIs(await theirs.consume(), True)
        self.expire()
        await until(lambda: self.zk.connected, "the next session")
        self.assertIs(await self.queue.consume(), False)

    async def test_a_lock_that_was_deleted(self) -> None:
        await self.queue.put(b"1")
        with self.assertRaisesRegex(LockLostError, "/q: the entry was not consumed"):
            async with self.queue.entry():
                await self.other.delete(f"{FOLDERS[0]}/{(await self.entries())[1]}")
        self.assertEqual(await self.entries(), ["entry-100-0000000000"])

    async def test_a_folder_that_is_swept(self) -> None:
        await self.queue.put(b"1")
        await self.queue.get()
        with suppress(NotEmptyError):
            await self.other.delete(QUEUE, recursive=True)
        self.assertIs(await self.queue.consume(), False)
        await self.queue.put(b"2")
        self.assertEqual(await self.queue.get(), b"2")
        waiting = asyncio.create_task(self.other.LockingQueue(QUEUE).get())
        await until(self.is_watched, "it waits")
        with suppress(NotEmptyError):
            await self.zk.delete(QUEUE, recursive=True)
        await self.queue.put(b"3")
        self.assertEqual(await waiting, b"3")

    async def test_stopped(self) -> None:
        task = asyncio.create_task(self.queue.get())
        await until(self.is_watched, "it waits")
        await self.zk.stop()
        with self.assertRaises(ConnectionClosedError):
            await task

    async def test_a_consume_that_is_refused(self) -> None:
        """The entry is still this one's, and can be released."""
        await self.queue.put(b"1")
        await self.queue.get()
        with self.refused(), self.assertRaises(NoAuthError):
            await self.queue.consume()
        self.assertIs(await self.queue.holds_lock(), True)
        self.assertIs(await self.queue.release(), True)
        self.assertEqual(await self.other.LockingQueue(QUEUE).get(), b"1")

    async def test_a_consume_that_is_refused_while_the_next_get_waits(self) -> None:
        """Then the entry is another client's."""
        await self.queue.put_all([b"1", b"2"])
        await self.queue.get()
        getting: list[asyncio.Task[bytes]] = []

        async def end(hold: Any, is_consumed: bool) -> bool:
            getting.append(asyncio.create_task(self.queue.get()))
            await asyncio.sleep(0)
            raise NoAuthError

        with mock.patch("parkazoo.aio.recipe.entry_hold.EntryHold.end", end), self.assertRaises(NoAuthError):
            await self.queue.consume()
        self.assertEqual(await getting[0], b"2")
        self.assertEqual(await self.other.LockingQueue(QUEUE).get(), b"1")

    async def test_a_block_whose_end_is_refused(self) -> None:
        """It releases the entry."""
        await self.queue.put(b"1")
        with self.refused(), self.assertRaises(NoAuthError):
            async with self.queue.entry():
                pass
        self.assertEqual(await self.other.LockingQueue(QUEUE).get(), b"1")

    def refused(self) -> Any:
        """Whoever may not delete an entry."""
        return mock.patch("parkazoo.aio.recipe.entry_hold.EntryHold.end", side_effect=NoAuthError)

    async def test_stopped_behind_a_consume_that_was_cancelled(self) -> None:
        """Nobody waits for its error, and the loop does not complain of that."""
        queue = (await self.started(timeout=1)).LockingQueue(QUEUE)
        await queue.put(b"1")
        await queue.get()
        self.cluster.mute = {0, 1, 2}
        task = asyncio.create_task(queue.consume())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        del task
        with suppress(WriterNotClosedException):
            await queue.client.stop()
        gc.collect()
        self.assertEqual(self.mistakes, [])

    async def test_wrong_arguments(self) -> None:
        calls: Any = self.queue
        for error, call in (
            (TypeError, lambda: calls.put("1")),
            (ValueError, lambda: calls.put(b"1", 1000)),
            (TypeError, lambda: calls.put_all(b"1")),
            (TypeError, lambda: calls.put_all([b"1", "2"])),
            (TypeError, lambda: calls.put_all([], "1")),
        ):
            with self.assertRaises(error):
                await call()
        with self.assertRaises(TypeError):
            calls.client.LockingQueue(7)


class TestGrownFromOne(AioCase):
    """A cluster that began with one ensemble."""

    ensembles = 1

    async def test_kazoos_layout(self) -> None:
        zk = await self.started()
        queue = zk.LockingQueue(QUEUE)
        await queue.put(b"1")
        await queue.get()
        self.assertEqual(await zk.get_children("/q/taken"), ["entry-100-0000000000"])
        self.assertIs(await queue.consume(), True)
        self.assertEqual(sorted(await zk.get_children(QUEUE)), ["entries", "taken"])

    async def test_a_queue_made_since(self) -> None:
        data = json.loads(self.cluster.model.nodes[0][MAP].data or b"")
        data |= {"form": Form.GROWN.name.lower(), "epoch": data["epoch"] + 1}
        must(self.cluster.model.execute(0, SetData(MAP, json.dumps(data).encode(), -1)))
        zk = await self.started()
        queue = zk.LockingQueue(QUEUE)
        await queue.put(b"1")
        self.assertEqual((await zk.get(FOLDERS[0]))[0], b"locks beside entries")
        await queue.get()
        self.assertEqual(len(await zk.get_children(FOLDERS[0])), 2)
        self.assertEqual(await zk.get_children(QUEUE), ["entries"])
