"""Deferred writes of the asyncio client."""

from __future__ import annotations

import asyncio
from typing import Any
from unittest import mock

from kazoo.exceptions import (
    ConfigurationError,
    ConnectionClosedError,
    ConnectionLoss,
    NodeExistsError,
    NoNodeError,
    SessionExpiredError,
)

from parkazoo import CrossEnsembleError, DeferredError
from parkazoo.kazoo_private import SetData
from parkazoo.protocol.cluster_map import Form
from parkazoo.protocol.placement import DEFERRED
from tests.aio.aio_case import AioCase, until
from tests.aio.strikes import StrikeCase
from tests.explore.alone import must

COUNT = "/counts/a"
MADE = "/counts/made"
MANY = 1000


def place(zk: Any, path: str) -> int:
    """The ensemble of a znode."""
    return int(zk._session.driver.context.known(path).home.ensemble)


class TestStruck(StrikeCase):
    async def asyncSetUp(self) -> None:
        await super().asyncSetUp()
        await self.zk.create(COUNT, b"0", makepath=True)

    async def test_each_lands_once_and_those_before_it(self) -> None:
        tickets: list[Any] = []

        async def use() -> None:
            async with self.zk.deferred() as later:
                tickets.extend([await later.put(COUNT, b"%d" % number) for number in range(3)])
                await later.barrier()
                await tickets[-1]
                tickets.append(await later.add(MADE))
                self.assertIsNotNone(await self.zk.exists(MADE))
                tickets.append(await later.drop(MADE))

        def begin() -> Any:
            tickets.clear()
            must(self.cluster.model.execute(0, SetData(COUNT, b"before", -1)))
            self.version = self.cluster.model.nodes[0][COUNT].version
            if MADE in self.cluster.model.nodes[0]:
                self.drop(MADE)
            return use()

        async def then() -> None:
            await until(lambda: not (self.zk._deferred or self.below(DEFERRED)), "it is closed, without a marker")
            states = [each.state for each in tickets]
            self.assertEqual(states, sorted(states))  # committed, dropped, failed, unknown: a prefix
            landed = self.cluster.model.nodes[0][COUNT].version - self.version
            least = states[:3].count("committed")
            self.assertTrue(least <= landed <= least + states[:3].count("unknown"), (states, landed))
            if states == 5 * ["committed"]:
                self.assertNotIn(MADE, self.cluster.model.nodes[0])

        may_raise = DeferredError, ConnectionLoss, SessionExpiredError  # its own read, and what a ticket has
        await self.strike_each(begin, root=DEFERRED, may_raise=may_raise, then=then)


class TestDeferred(AioCase):
    async def test_after_the_barrier_all_is_there(self) -> None:
        zk, other = await self.started(), await self.started()
        paths = [await zk.create(f"/{each}/x", makepath=True) for each in range(6)]
        self.assertEqual(len({place(zk, each) for each in paths}), 3)
        async with zk.deferred() as later:
            tickets = [await later.put(path, b"%d" % number) for number in range(MANY) for path in paths]
            self.assertLess(later.pending, len(tickets))
        self.assertEqual({each.state for each in tickets}, {"committed"})
        for path in paths:
            value, stat = await other.get(path)
            self.assertEqual((value, stat.version), (b"%d" % (MANY - 1), MANY))
        await until(lambda: not self.markers(), "the markers are gone")
        with self.assertRaisesRegex(DeferredError, "closed"):
            await later.put(paths[0], b"")
        await later.close()

    def markers(self) -> list[str]:
        return [each for nodes in self.cluster.model.nodes for each in nodes if each.startswith(f"{DEFERRED}/")]

    async def test_own_operations_see_them(self) -> None:
        zk = await self.started()
        await zk.create("/x")
        async with zk.deferred(linger_s=60) as later:
            for number in range(100):
                await later.put("/x", b"%d" % number)
                if number % 10 == 0:
                    self.assertEqual((await zk.get("/x"))[0], b"%d" % number)
            await later.add("/x/y")
            self.assertEqual(await zk.get_children("/x"), ["y"])
            await later.drop("/x/y")
            self.assertIsNone(await zk.exists("/x/y"))

    async def test_tickets(self) -> None:
        zk = await self.started()
        await zk.create("/x")
        later = zk.deferred(on_error="skip", linger_s=60)
        good, bad, none = await later.put("/x", b"1"), await later.add("/x"), await later.drop("/y")
        self.assertIn("pending", repr(good))
        await good
        for each, kind in ((bad, NodeExistsError), (none, NoNodeError)):
            with self.assertRaises(kind):
                await each
        with self.assertRaises(DeferredError) as raised:
            await later.barrier()
        self.assertEqual([path for path, _ in raised.exception.failed], ["/x", "/y"])
        await later.close()

    async def test_a_refused_write_stops_the_lane(self) -> None:
        zk = await self.started()
        await zk.create("/d/x", makepath=True)
        later = zk.deferred()
        tickets = [await later.put("/d/x", b"1"), await later.put("/d/none", b"2"), await later.put("/d/x", b"3")]
        with self.assertRaises(DeferredError):
            await later.barrier()
        self.assertEqual([each.state for each in tickets], ["committed", "failed", "dropped"])
        with self.assertRaisesRegex(DeferredError, "no more deferred writes"):
            await later.put("/d/x", b"4")
        await later.close()

    async def test_calls_wait_at_max_pending(self) -> None:
        zk = await self.started()
        await zk.create("/x")
        async with zk.deferred(max_pending=10) as later:
            for number in range(100):
                await later.put("/x", b"%d" % number)
                self.assertLessEqual(later.pending, 10)

    async def test_a_guard(self) -> None:
        zk = await self.started()
        for path in ("/d/guard", "/d/x", *(f"/{each}/x" for each in range(6))):
            await zk.create(path, makepath=True)
        elsewhere = next(f"/{each}/x" for each in range(6) if place(zk, f"/{each}/x") != place(zk, "/d/x"))
        later = zk.deferred(guard="/d/guard")
        with self.assertRaises(CrossEnsembleError):
            await later.put(elsewhere, b"")
        await (await later.put("/d/x", b"1"))
        await zk.delete("/d/guard")
        ticket = await later.put("/d/x", b"2")
        with self.assertRaises(DeferredError):
            await later.close()
        self.assertEqual((ticket.state, type(ticket.error)), ("dropped", NoNodeError))

    async def test_stop_finishes_them(self) -> None:
        zk, other = await self.started(), await self.started()
        await zk.create("/x")
        later = zk.deferred(linger_s=60)
        ticket = await later.put("/x", b"new")
        await zk.stop()
        self.assertEqual(ticket.state, "committed")
        self.assertEqual((await other.get("/x"))[0], b"new")
        self.assertEqual(self.markers(), [])
        with self.assertRaises(DeferredError):
            await later.put("/x", b"newer")
        with self.assertRaises(ConnectionClosedError):
            zk.deferred()
        await zk.start()
        async with zk.deferred() as later:
            await later.put("/x", b"newest")
        self.assertEqual((await other.get("/x"))[0], b"newest")

    async def test_stop_gives_up_when_the_ensemble_is_away(self) -> None:
        zk = await self.started(timeout=1)
        await zk.create("/x")
        later = zk.deferred(linger_s=60)
        ticket = await later.put("/x", b"new")
        self.cluster.away = {0, 1, 2}
        for each in range(3):
            self.cluster.cut(each)
        await until(lambda: not zk.connected, "it is suspended")
        waiting = asyncio.create_task(later.barrier())
        with self.assertLogs("parkazoo", "ERROR") as logs:
            await zk.stop()
        self.assertIn("Not done, and no barrier has said so: deferred writes: 1 ", logs.output[0])
        with self.assertRaises(DeferredError):
            await waiting
        self.assertIn(ticket.state, ("dropped", "unknown"))

    async def test_the_end_of_a_block_whose_client_has_left(self) -> None:
        """The log has named the write, but not to this block."""
        zk = await self.started()
        await zk.create("/x")
        with self.assertLogs("parkazoo", "ERROR"), self.assertRaises(DeferredError):
            async with zk.deferred(linger_s=60) as later:
                await later.put("/x", b"new")
                await zk.leave()
        await later.close()

    async def test_barriers_of_several_tasks(self) -> None:
        """Each is told: one task's write is not done because another's was refused."""
        zk = await self.started()
        await zk.create("/x")
        later = zk.deferred()
        await later.put("/none", b"")
        await later.put("/x", b"1")
        outcomes = await asyncio.gather(later.barrier(), later.barrier(), return_exceptions=True)
        self.assertEqual([type(each) for each in outcomes], [DeferredError, DeferredError])
        await later.close()

    async def test_a_barrier_that_is_cancelled_when_another_one_has_raised(self) -> None:
        """The next one names what it has not, but not to the task that knows it."""
        zk = await self.started()
        await zk.create("/x")
        later = zk.deferred(on_error="skip")
        refused = await later.put("/none", b"")
        with self.assertRaises(NoNodeError):
            await refused
        self.cluster.mute = {0, 1, 2}
        await later.put("/x", b"1")
        waiting = asyncio.create_task(later.barrier())
        await asyncio.sleep(0)
        with mock.patch.object(later, "_until_issued", mock.AsyncMock()), self.assertRaises(DeferredError):
            await later.barrier()  # of an older write
        waiting.cancel()
        await asyncio.wait([waiting])
        self.assertTrue(waiting.cancelled())
        self.cluster.mute = set()
        for each in range(3):
            self.cluster.cut(each)
        await later.barrier()
        with self.assertRaises(DeferredError):
            await asyncio.create_task(later.barrier())
        await asyncio.create_task(later.close())

    async def test_a_cancelled_block(self) -> None:
        zk = await self.started()
        await zk.create("/x")
        has_put = asyncio.Event()

        async def use() -> None:
            async with zk.deferred(linger_s=60) as later:
                await later.put("/x", b"1")
                has_put.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(use())
        await has_put.wait()
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        await until(lambda: not zk._deferred and not self.markers(), "it goes on by itself")
        self.assertEqual((await zk.get("/x"))[0], b"1")

    async def test_a_block_that_raises(self) -> None:
        zk = await self.started()
        with self.assertLogs("parkazoo", "ERROR") as logs, self.assertRaises(ZeroDivisionError):
            async with zk.deferred() as later:
                await later.put("/none", b"")
                raise ZeroDivisionError
        self.assertIn("after another error: deferred writes: 1 failed: /none", logs.output[0])

    async def test_a_barrier_with_a_time_limit(self) -> None:
        zk = await self.started()
        await zk.create("/x")
        async with zk.deferred() as later:
            ticket = await later.put("/x", b"1")
            self.cluster.mute = {0, 1, 2}
            with self.assertRaises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await later.barrier()
            self.assertEqual(ticket.state, "pending")
            self.cluster.mute = set()
            for each in range(3):
                self.cluster.cut(each)
        self.assertEqual(((await zk.get("/x"))[1].version, ticket.state), (1, "committed"))

    async def test_wrong_use(self) -> None:
        zk: Any = await self.started()
        for options in ({"max_pending": 0}, {"linger_s": -1}, {"on_error": "go"}):
            with self.assertRaises(ValueError):
                zk.deferred(**options)
        with self.assertRaises(TypeError):
            zk.deferred(guard=7)
        async with zk.deferred() as later:
            with self.assertRaises(TypeError):
                await later.put("/x", "text")
            with self.assertRaises(ValueError):
                await later.put("/x", bytes(1 << 20))
        total = await self.started(consistency="total")
        with self.assertRaises(ConfigurationError):
            total.deferred()
        with self.assertRaises(ConnectionClosedError):
            self.client().deferred()


class TestWhereGrown(AioCase):
    form = Form.GROWN

    async def test_no_more_than_max_pending(self) -> None:
        """Tasks write in directories whose places the client has to find."""
        zk = await self.started()
        paths = [f"/{number}/x" for number in range(50)]
        for path in paths:
            await zk.create(path, makepath=True)
        writer = await self.started()
        most = 0
        async with writer.deferred(max_pending=10) as later:

            async def write(path: str) -> None:
                nonlocal most
                await later.put(path, b"1")
                most = max(most, later.pending)

            await asyncio.gather(*map(write, paths))
        self.assertLessEqual(most, 10)
        self.assertEqual({(await zk.get(path))[0] for path in paths}, {b"1"})
