"""Watches on directories without a mirror, and on missing znodes of a grown map, over lost connections."""

from __future__ import annotations

import asyncio
from typing import Any

from kazoo.protocol.states import KazooState

from parkazoo.engine.ports import OnAnswer
from parkazoo.kazoo_private import Exists, GetChildren, GetChildren2, GetData, Sync
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.placement import logical
from tests.aio.aio_case import AioCase, until
from tests.aio.test_async_states import following

COUNT = 6
ALL = (0, 1, 2)
READS = (Exists, GetChildren, GetChildren2, GetData)


class StandInsCase(AioCase):
    """One client loses connections; the other one, which keeps its own, changes the tree."""

    async def asyncSetUp(self) -> None:
        await super().asyncSetUp()
        self.zk, self.other = await self.started(), await self.started()
        self.seen: list[str] = []
        self.zk.add_listener(self.seen.append)

    @property
    def session(self) -> Any:
        return self.zk._session

    async def lose(self, ensembles: tuple[int, ...]) -> None:
        self.seen.clear()
        sessions = {member.session_id for member in self.session.roster.members}
        self.cluster.barred |= sessions
        for session in sessions:
            for ensemble in ensembles:
                self.cluster.drop(session, ensemble)
        await until(lambda: self.seen == [KazooState.SUSPENDED], "it is suspended")

    async def back(self) -> None:
        self.cluster.requests.clear()
        self.cluster.barred.clear()
        await until(lambda: self.zk.connected, "it is back")
        for member in self.session.roster.members:
            answered = asyncio.Event()
            member.submit(Sync("/"), OnAnswer(lambda _, answered=answered: answered.set()))
            await answered.wait()

    def read(self) -> set[str]:
        return {
            logical(each.path)
            for each in self.cluster.requests
            if isinstance(each, READS) and logical(each.path).startswith("/d")
        }

    async def watched(self, round_: int) -> tuple[list[str], list[Any], list[Any]]:
        """Directories without children, the states of their children, and those of missing znodes."""
        paths = [f"/d{number}/{round_}" for number in range(COUNT)]
        for path in paths:
            await self.other.create(path, makepath=True)
        names = [self.zk.watch_children(path) for path in paths]
        values = [self.zk.watch_data(f"{path}-missing") for path in paths]
        for each in (*names, *values):
            self.assertIn(await following(each), ([], None))
        return paths, names, values

    async def end(self, *states: Any) -> None:
        for each in states:
            await each.__aexit__(None, None, None)


class TestPlain(StandInsCase):
    async def test_nothing_has_changed(self) -> None:
        """Nothing is read; what comes then is told."""
        paths, names, values = await self.watched(0)
        self.assertGreater(len(self.session.watching), 0)
        for lost in (ALL, (0,), (1,), (2,)):
            await self.lose(lost)
            await self.back()
            self.assertEqual(self.read(), set())
        for path in paths:
            await self.other.create(f"{path}/x")
            await self.other.create(f"{path}-missing", b"1")
        for each in names:
            self.assertEqual(await following(each), ["x"])
        for each in values:
            self.assertEqual((await following(each))[0], b"1")
        await self.end(*names, *values)
        await until(lambda: not len(self.session.watching), "no watch is left")

    async def test_something_has(self) -> None:
        """Whichever ensembles were lost: the first child, the znode that was missing, the end of a directory."""
        for round_, lost in enumerate((ALL, (0,), (1,), (2,))):
            paths, names, values = await self.watched(round_)
            await self.lose(lost)
            for number, path in enumerate(paths):
                if number % 3 == 0:
                    await self.other.create(f"{path}/x")
                    await self.other.create(f"{path}-missing", b"1")
                elif number % 3 == 1:
                    await self.other.delete(path)
            await self.back()
            for number in range(0, COUNT, 3):
                self.assertEqual(await following(names[number]), ["x"])
                self.assertEqual((await following(values[number]))[0], b"1")
            for number in range(1, COUNT, 3):
                self.assertIsNone(await following(names[number]))
            for path in paths[2::3]:
                await self.other.create(f"{path}/y")
                await self.other.create(f"{path}-missing", b"2")
            for number in range(2, COUNT, 3):
                self.assertEqual(await following(names[number]), ["y"])
                self.assertEqual((await following(values[number]))[0], b"2")
            await self.end(*names, *values)

    async def test_the_session_ends(self) -> None:
        """On one of the ensembles: what is left elsewhere is of no use, and is left again."""
        for round_, at in enumerate(ALL):
            paths, names, values = await self.watched(round_)
            await self.lose((at,))
            for member in self.session.roster.members:
                if member.name == self.cluster.names[at]:
                    self.cluster._alive.discard(member.session_id)
            await self.back()
            for path in paths:
                await self.other.create(f"{path}/x")
            for each in names:
                self.assertEqual(await following(each), ["x"])
            await self.end(*names, *values)
        await until(lambda: not len(self.session.watching), "no watch is left")


class TestGrown(TestPlain):
    form = Form.GROWN
