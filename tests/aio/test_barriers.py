"""Barriers of the asyncio client."""

from __future__ import annotations

import asyncio
from typing import Any

from kazoo.exceptions import ConnectionClosedError

from parkazoo.kazoo_private import Delete
from tests.aio.aio_case import AioCase, until
from tests.aio.strikes import STRIKES, StrikeCase

BARRIER = "/barriers/a"
TASK = "/tasks/a"
READY = f"{TASK}/ready"
MOVED_ZXID = 10_000


class TestStruck(StrikeCase):
    async def asyncSetUp(self) -> None:
        await super().asyncSetUp()
        await self.zk.ensure_path("/barriers")
        await self.zk.ensure_path(TASK)

    def below(self, path: str) -> list[str]:
        return [each for each in super().below(path) if each != READY]

    async def test_wait(self) -> None:
        def begin() -> Any:
            self.put(BARRIER)
            return self.zk.Barrier(BARRIER).wait()

        await self.strike_each(begin, lambda: self.drop(BARRIER), root="/barriers")

    async def test_create_and_remove(self) -> None:
        async def use() -> None:
            await self.zk.Barrier(BARRIER).create()
            await self.zk.Barrier(BARRIER).remove()

        async def then() -> None:
            await until(lambda: not self.left(), "a create that was cancelled has ended")
            await self.zk.Barrier(BARRIER).remove()

        await self.strike_each(use, root="/barriers", then=then)

    async def test_alone(self) -> None:
        """A cancelled member may leave the `ready` of its round, which lets nobody enter the next."""

        async def use() -> None:
            async with self.zk.DoubleBarrier(TASK, 1) as barrier:
                self.assertTrue(barrier.participating)

        await self.strike_each(use, root=TASK)

    async def test_with_another(self) -> None:
        """Its connection and its session are struck, too; only one of the two is cancelled. The other one gets in
        and out, unless that has not entered. A client that is started again may come when the round is over.
        """
        other = await self.started(timeout=4)
        ours, others = {"in": False}, {"in": False}
        task: asyncio.Task[None]

        async def enter_and_leave(zk: Any, does: dict[str, bool]) -> None:
            async with zk.DoubleBarrier(TASK, 2):
                does["in"] = True
            does["out"] = True

        async def accompany() -> None:
            await enter_and_leave(other, others)
            while not ours["in"]:  # its round ended with its session, and it waits for another one
                await enter_and_leave(other, {})

        def begin() -> Any:
            nonlocal task
            for each in (ours, others):
                each.update({"in": False, "out": False})
            self.cluster.model.execute(0, Delete(READY, -1))
            task = asyncio.create_task(accompany())
            return enter_and_leave(self.zk, ours)

        async def then() -> None:
            if ours["in"] or others["in"]:
                await until(lambda: others["out"], "the other one is out")
            task.cancel()  # it may wait for another member
            await until(task.done, "its task has ended")
            self.assertTrue(task.cancelled() or task.exception() is None)
            await until(lambda: not self.below(TASK) and not other._cleanups, "both have left")

        strikes = tuple(each for each in STRIKES if "stopped" not in each.name)
        await self.strike_each(begin, root=TASK, strikes=strikes, then=then)


class TestBarrier(AioCase):
    async def test_barrier(self) -> None:
        zk, other = await self.started(), await self.started()
        barrier = zk.Barrier(BARRIER)
        await barrier.wait()
        await barrier.create()
        await barrier.create()
        task = asyncio.create_task(other.Barrier(BARRIER).wait())
        with self.assertRaises(TimeoutError):
            async with asyncio.timeout(0.02):
                await barrier.wait()
        self.assertFalse(task.done())
        self.assertIs(await barrier.remove(), True)
        await task
        self.assertIs(await barrier.remove(), False)

    async def test_stopped(self) -> None:
        zk = await self.started()
        await zk.Barrier(BARRIER).create()
        task = asyncio.create_task(zk.Barrier(BARRIER).wait())
        await asyncio.sleep(0.01)
        await zk.stop()
        with self.assertRaises(ConnectionClosedError):
            await task


class TestMoved(AioCase):
    """Znodes of a barrier that has moved have other zxids, in any order."""

    ensembles = 1

    async def test_it_moves(self) -> None:
        clients = [await self.started() for _ in range(3)]
        await clients[0].create(READY, b"gone", makepath=True)  # of members that were killed
        members = [each.DoubleBarrier(TASK, 3) for each in clients]
        entering = [await self.begin(clients[0], members[0].enter())]
        await asyncio.gather(*entering, *(each.enter() for each in members[1:]))
        leaving = [await self.begin(clients[0], members[0].leave())]
        await asyncio.gather(*leaving, *(each.leave() for each in members[1:]))
        self.assertEqual(await clients[0].get_children(TASK), [])

    async def begin(self, zk: Any, work: Any) -> asyncio.Task[None]:
        """Returns when it waits, and has looked again behind a move and a lost connection."""
        task = asyncio.create_task(work)
        await until(lambda: task.done() or is_watching(zk), "it waits")
        nodes = self.cluster.model.nodes[0]
        for path in [each for each in nodes if each.startswith(f"{TASK}/")]:
            nodes[path] = nodes[path]._replace(czxid=MOVED_ZXID - nodes[path].czxid)
        states: list[str] = []
        zk.add_listener(states.append)
        self.cluster.cut(0)
        await until(lambda: states == ["SUSPENDED", "CONNECTED"], "it is back")
        await until(lambda: task.done() or is_watching(zk), "it waits again")
        self.assertFalse(task.done())
        return task


def is_watching(zk: Any) -> bool:
    return any(path.startswith(TASK) for member in zk._session.roster.members for path, _ in member.data_watches())


class TestDoubleBarrier(AioCase):
    async def test_rounds(self) -> None:
        """All are in before one is through, and out before one is through; so in each round."""
        clients = [await self.started() for _ in range(3)]
        inside, most = 0, [0]

        async def work(zk: Any) -> None:
            nonlocal inside
            for _ in range(3):
                inside += 1
                async with zk.DoubleBarrier(TASK, 3):
                    most.append(inside)
                    inside -= 1
                self.assertLessEqual(inside, 3)

        await asyncio.gather(*map(work, clients))
        self.assertEqual(await clients[0].get_children(TASK), [])
        self.assertEqual(max(most), 3)

    async def test_a_cancelled_member(self) -> None:
        zk, other = await self.started(), await self.started()
        first = asyncio.create_task(zk.DoubleBarrier(TASK, 2, "me").enter())
        while TASK not in str(await other.exists(TASK)) and not await other.exists(TASK):
            await asyncio.sleep(0)
        while not (names := await other.get_children(TASK)):
            await asyncio.sleep(0)
        self.assertEqual((await other.get(f"{TASK}/{names[0]}"))[0], b"me")
        first.cancel()
        while await other.get_children(TASK):
            await asyncio.sleep(0)
        barrier = zk.DoubleBarrier(TASK, 2)
        await asyncio.gather(barrier.enter(), other.DoubleBarrier(TASK, 2).enter())
        with self.assertRaisesRegex(RuntimeError, "has entered"):
            await barrier.enter()

    async def test_a_round_that_has_ended(self) -> None:
        """Who has lost its session, and leaves late, waits for no member of the next round."""
        zk, other = await self.started(timeout=4), await self.started(timeout=4)
        late, second = zk.DoubleBarrier(TASK, 2), other.DoubleBarrier(TASK, 2)
        await asyncio.gather(late.enter(), second.enter())
        assert zk._session is not None
        zk._session.expire("a test wants it")
        await second.leave()
        waiting = asyncio.create_task(other.DoubleBarrier(TASK, 2).enter())
        while not await other.get_children(TASK):
            await asyncio.sleep(0)
        await late.leave()
        await asyncio.gather(waiting, zk.DoubleBarrier(TASK, 2).enter())

    async def test_leaving_without_having_entered(self) -> None:
        zk = await self.started()
        await zk.DoubleBarrier(TASK, 2).leave()
        self.assertIsNone(await zk.exists(TASK))

    async def test_wrong_arguments(self) -> None:
        calls: Any = await self.started()
        with self.assertRaises(TypeError):
            calls.DoubleBarrier(TASK, "2")
        with self.assertRaises(TypeError):
            calls.Barrier(7)
        async with calls.DoubleBarrier(TASK, 1, 7) as barrier:  # as a lock takes it
            self.assertEqual((await calls.get(f"{TASK}/{barrier._entry.own.name}"))[0], b"7")
