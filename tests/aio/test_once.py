"""``once``, and what uses it: counters and queues of the asyncio client."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any
from unittest import mock

from kazoo.exceptions import (
    BadVersionError,
    ConnectionClosedError,
    NodeExistsError,
    NoNodeError,
    SessionExpiredError,
    WriterNotClosedException,
)

from parkazoo.protocol.once import may_be_done
from tests.aio import aio_case
from tests.aio.aio_case import AioCase, LoopsCase, until
from tests.aio.strikes import StrikeCase

MARKERS = "/parkazoo/"


class TestStruck(StrikeCase):
    async def asyncSetUp(self) -> None:
        await super().asyncSetUp()
        self.put("/o")
        self.put("/o/n", b"0")

    def below(self, path: str) -> list[str]:
        return [each for each in super().below(path) if each != "/o/n"]

    async def test_set(self) -> None:
        """It is done at most once: the version says so."""
        done: list[bool] = []

        async def write() -> None:
            zk, before = self.zk, self.cluster.model.nodes[0]["/o/n"].stat.version
            try:
                self.assertEqual((await zk.once(zk.set, "/o/n", b"1")).version, before + 1)
                done.append(True)
            except SessionExpiredError as error:
                self.assertEqual(may_be_done(error), "may have been done" in str(error))
                raise
            finally:
                await asyncio.sleep(0)
                self.assertLessEqual(self.cluster.model.nodes[0]["/o/n"].stat.version, before + 1)

        await self.strike_each(write, root="/o", may_raise=(SessionExpiredError,))
        self.assertTrue(done)


class TestOnce(AioCase):
    async def test_each_write(self) -> None:
        zk = await self.started()
        self.assertEqual(
            await zk.once(zk.create, "/a/b/c-", b"1", sequence=True, makepath=True), "/a/b/c-0000000000"
        )
        self.assertEqual((await zk.once(zk.set, "/a/b/c-0000000000", b"2", 0)).version, 1)
        with self.assertRaises(BadVersionError):
            await zk.once(zk.set, "/a/b/c-0000000000", b"2", 0)
        with self.assertRaises(NodeExistsError):
            await zk.once(zk.create, "/a/b")
        self.assertIs(await zk.once(zk.delete, "/a/b/c-0000000000"), True)
        with self.assertRaises(NoNodeError):
            await zk.once(zk.create, "/x/y")
        transaction = zk.transaction()
        transaction.create("/a/b/d")
        transaction.create("/a/b/e")
        self.assertEqual(await zk.once(transaction.commit), ["/a/b/d", "/a/b/e"])
        self.assertEqual((transaction.committed, transaction.results), (True, ["/a/b/d", "/a/b/e"]))
        with self.assertRaisesRegex(ValueError, "already committed"):
            await zk.once(transaction.commit)

    async def test_below_a_chroot(self) -> None:
        zk = await self.started()
        await zk.create("/root")
        zk = await self.started("/root")
        self.assertEqual(await zk.once(zk.create, "/a/b", makepath=True), "/a/b")
        self.assertEqual(await zk.get_children("/a"), ["b"])

    async def test_wrong_arguments(self) -> None:
        zk, other = await self.started(), await self.started()
        calls: Any = zk
        for call in (
            lambda: calls.once(zk.get, "/a"),
            lambda: calls.once(other.create, "/a"),
            lambda: calls.once(other.transaction().commit),
            lambda: calls.once(zk.create_async, "/a"),
            lambda: calls.once(zk.create, "/a", include_data=True),
            lambda: calls.once(zk.delete, "/a", recursive=True),
            lambda: calls.once(zk.create),
            lambda: calls.once(zk.transaction().commit, 7),
        ):
            with self.assertRaises(TypeError):
                await call()
        self.assertIsNone(await zk.exists("/a"))

    async def test_stopped(self) -> None:
        zk = await self.started()
        await zk.stop()
        with self.assertRaises(ConnectionClosedError) as raised:
            await zk.once(zk.create, "/a")
        self.assertFalse(may_be_done(raised.exception))

    async def test_many_at_once(self) -> None:
        zk = await self.started()
        await asyncio.gather(*(zk.once(zk.create, f"/{number}") for number in range(20)))
        self.assertEqual(len(await zk.get_children("/")), 20)


class TestCounter(AioCase):
    async def test_values(self) -> None:
        zk = await self.started()
        counter = zk.Counter("/n/jobs")
        self.assertEqual(await counter.value(), 0)
        self.assertEqual((await counter.add(2), await counter.add(-5)), (2, -3))
        self.assertEqual((counter.pre_value, counter.post_value, await counter.value()), (2, -3, -3))
        self.assertEqual((await zk.get("/n/jobs"))[0], b"-3")
        fractions = zk.Counter("/n/fractions", 1.5)
        self.assertEqual(await fractions.add(2.0), 3.5)
        curators = zk.Counter("/n/curators", 7, support_curator=True)
        self.assertEqual(await curators.add(-8), -1)
        self.assertEqual((await zk.get("/n/curators"))[0], b"\xff\xff\xff\xff")
        self.assertEqual(await curators.value(), -1)
        with self.assertRaises(OverflowError):
            await curators.add(1 << 40)
        await zk.delete("/n/jobs")
        self.assertEqual(await counter.add(1), 1)

    async def test_many_add(self) -> None:
        clients = [await self.started() for _ in range(3)]
        await asyncio.gather(*(zk.Counter("/n").add(1) for zk in clients for _ in range(5)))
        self.assertEqual(await clients[0].Counter("/n").value(), 15)

    async def test_wrong_arguments(self) -> None:
        calls: Any = await self.started()
        with self.assertRaises(TypeError):
            await calls.Counter("/n").add(1.5)
        with self.assertRaises(TypeError):
            calls.Counter("/n", 1.5, support_curator=True)
        with self.assertRaises(TypeError):
            calls.Counter(7)


class TestQueueStruck(StrikeCase):
    async def test_get(self) -> None:
        """What a get has taken that was cancelled, the next one returns."""
        number, got = 0, [b""]
        queue = self.zk.Queue("/q")
        self.put("/q")

        def begin() -> Any:
            nonlocal number
            number += 1
            self.put(f"/q/entry-100-{number:010d}", b"%d" % number)
            got.clear()
            return get()

        async def get() -> None:
            try:
                if (value := await queue.get()) is not None:
                    got.append(value)
            except SessionExpiredError as error:
                if may_be_done(error):
                    got.append(b"%d" % number)  # or it is not known
                else:
                    self.assertIsInstance(error, ConnectionClosedError)
                raise

        async def then() -> None:
            while (value := await queue.get()) is not None:
                got.append(value)
            self.assertEqual({*got}, {b"%d" % number})

        await self.strike_each(begin, root="/q", may_raise=(SessionExpiredError,), then=then)

    async def test_put(self) -> None:
        """At most once."""
        queue, got = self.zk.Queue("/q"), [b""]

        async def put() -> None:
            got.clear()
            await queue.put(b"1")

        async def then() -> None:
            while (value := await self.zk.Queue("/q").get()) is not None:
                got.append(value)
            self.assertLessEqual(len(got), 1)

        await self.strike_each(put, root="/q", may_raise=(SessionExpiredError,), then=then)


class TestQueue(AioCase):
    async def test_entries(self) -> None:
        zk, other = await self.started(), await self.started()
        queue = zk.Queue("/some/q")
        self.assertEqual((await queue.get(), await queue.qsize()), (None, 0))
        await queue.put(b"2")
        await queue.put(b"3", priority=101)
        await queue.put(b"1", priority=99)
        self.assertEqual(await other.get_children("/some"), ["q"])
        self.assertEqual(await queue.qsize(), 3)
        self.assertEqual(await queue.get(), b"1")
        self.assertEqual(await other.Queue("/some/q").get(), b"2")
        self.assertEqual([await queue.get(), await queue.get()], [b"3", None])

    async def test_tasks_share_an_object(self) -> None:
        zk = await self.started()
        queue = zk.Queue("/q")
        for number in range(5):
            await queue.put(b"%d" % number)
        found = await asyncio.gather(*(queue.get() for _ in range(7)))
        self.assertEqual(found, [b"0", b"1", b"2", b"3", b"4", None, None])

    async def test_wrong_arguments(self) -> None:
        calls: Any = (await self.started()).Queue("/q")
        for error, value, priority in ((TypeError, "1", 1), (TypeError, b"1", "1"), (ValueError, b"1", 1000)):
            with self.assertRaises(error):
                await calls.put(value, priority)

    async def test_stopped(self) -> None:
        zk = await self.started()
        await zk.stop()
        with self.assertRaises(ConnectionClosedError):
            await zk.Queue("/q").get()

    async def test_stopped_behind_a_get_that_was_cancelled(self) -> None:
        """The next one does not raise that one's error."""
        zk = await self.started(timeout=1)
        queue = zk.Queue("/q")
        await queue.put(b"1")
        self.cluster.away = {0, 1, 2}
        for each in range(3):
            self.cluster.cut(each)
        await until(lambda: not zk.connected, "it is suspended")
        await self.cancel(queue.get())
        await zk.stop()
        self.cluster.away = set()
        await zk.start()
        self.assertEqual(await queue.get(), b"1")

    async def test_stopped_when_a_get_that_was_cancelled_may_have_taken_one(self) -> None:
        """The next one says so."""
        zk = await self.started(timeout=1)
        queue = zk.Queue("/q")
        await queue.put(b"1")
        once = zk.once

        async def mute(*args: Any) -> Any:
            self.cluster.mute = {0, 1, 2}
            return await once(*args)

        with mock.patch.object(zk, "once", mute):
            task = asyncio.create_task(queue.get())
            await until(lambda: self.cluster.mute, "it takes one")
            task.cancel()
            await asyncio.wait([task])
        with suppress(WriterNotClosedException):
            await zk.stop()
        self.cluster.mute = set()
        await zk.start()
        with self.assertRaisesRegex(ConnectionClosedError, "may have been done"):
            await queue.get()
        self.assertIn(await queue.get(), (b"1", None))

    async def cancel(self, work: Any) -> None:
        task = asyncio.create_task(work)
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait([task])


class TestQueueOfTwoLoops(LoopsCase):
    ensembles = 1

    def test_what_a_get_has_taken_that_was_cancelled(self) -> None:
        zk = aio_case.ParKazooClient(self.hosts)
        queue = zk.Queue("/q")

        async def cancel() -> None:
            async with zk:
                await queue.put(b"1")
                task = asyncio.create_task(queue.get())
                await asyncio.sleep(0)
                task.cancel()
                while await zk.get_children("/q"):
                    pass

        async def get() -> list[bytes | None]:
            async with zk:
                return [await queue.get(), await queue.get()]

        asyncio.run(cancel())
        self.assertEqual(asyncio.run(get()), [b"1", None])

    def test_a_get_that_ended_with_its_loop(self) -> None:
        zk = aio_case.ParKazooClient(self.hosts)
        queue = zk.Queue("/q")

        async def begin() -> None:
            await zk.start()
            await queue.put(b"1")
            task = asyncio.create_task(queue.get())
            await asyncio.sleep(0)
            task.cancel()

        async def get() -> bytes | None:
            async with zk:
                return await queue.get()

        asyncio.run(begin())
        self.assertEqual(asyncio.run(get()), b"1")  # it had not begun to take it

    def test_a_get_that_ended_with_its_loop_and_may_have_taken_an_entry(self) -> None:
        """The next one says so."""
        zk = aio_case.ParKazooClient(self.hosts)
        queue, once = zk.Queue("/q"), zk.once

        async def begin() -> None:
            await zk.start()
            await queue.put(b"1")
            task = asyncio.create_task(queue.get())
            with mock.patch.object(zk, "once", mute):
                await until(lambda: self.cluster.mute, "it takes one")
            task.cancel()
            await asyncio.wait([task])

        async def mute(*args: Any) -> Any:
            self.cluster.mute = {0}
            return await once(*args)

        async def get() -> None:
            async with zk:
                with self.assertRaisesRegex(
                    ConnectionClosedError, "/q/entry-100-0000000000: .* may have been done"
                ):
                    await queue.get()
                self.assertIn(await queue.get(), (b"1", None))

        asyncio.run(begin())
        self.cluster.mute = set()
        asyncio.run(get())
