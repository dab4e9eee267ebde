"""The asyncio client's states, and those of znodes, while its map grows and a directory moves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from kazoo.protocol.states import KazooState

from tests.aio import aio_case
from tests.aio.aio_case import needs_aio, until
from tests.live.grow_case import GrowCase
from tests.live.test_map_move import PATH, MoveCase
from tests.live.test_map_raise import RaiseCase
from tests.live.world import DEADLINE_S

CONNECTED, SUSPENDED, LOST = KazooState.CONNECTED, KazooState.SUSPENDED, KazooState.LOST
LONG_S = 60.0  # commands on a busy machine


class StatesMixin:
    async def follow(self: Any, change: Callable[[], Any], path: str) -> None:
        """A client works and follows a directory while a command changes its map. Then it loses its connections,
        and its session.

        :param change: the command.
        """
        seen, heard, work_ends = list[str](), list[str](), asyncio.Event()

        async def states() -> None:
            seen.extend([state async for state in zk.states()])

        async def work() -> int:
            number = 0
            while not work_ends.is_set():
                number += 1
                await zk.set(f"{path}/own", b"%d" % number)
                self.assertEqual((await zk.get(f"{path}/own"))[0], b"%d" % number)
            return number

        async with aio_case.ParKazooClient(self.a, timeout=LONG_S) as zk, aio_case.ParKazooClient(self.a) as other:
            following = asyncio.create_task(states())
            zk.add_listener(heard.append)
            await zk.create(f"{path}/own", makepath=True)
            await zk.create(f"{path}/e", ephemeral=True)
            async with zk.watch_data(f"{path}/e") as values, zk.watch_children(path) as names:
                working = asyncio.create_task(work())
                self.assertEqual((await anext(values))[0], b"")
                before = {*await anext(names)}
                await asyncio.to_thread(change)
                work_ends.set()
                self.assertGreater(await working, 0)
                self.assertEqual(heard, [])
                for number in range(3):
                    await other.set(f"{path}/e", b"%d" % number)
                    await other.create(f"{path}/new-{number}")
                    while (await anext(values))[0] != b"%d" % number:
                        pass
                    while f"new-{number}" not in (found := await anext(names)):
                        self.assertLessEqual(before, {*found})
            zk._session.drop_connections()
            await until(lambda: heard == [SUSPENDED, CONNECTED], "it is back")
            self.assertIsNotNone(await other.exists(f"{path}/e"))
            zk._session.expire("a test wants it")
            await until(lambda: heard[2:] == [LOST, CONNECTED], "it begins anew")
            self.assertIsNone(await other.exists(f"{path}/e"))
        await asyncio.wait_for(following, DEADLINE_S)
        self.assertEqual(seen, [CONNECTED, *heard])
        self.assertEqual(seen[-1], LOST)


@needs_aio
class TestGrowth(StatesMixin, GrowCase):
    def test_states(self) -> None:
        asyncio.run(self.follow(self.grow, "/d"))


@needs_aio
class TestRise(StatesMixin, RaiseCase):
    """A map of one ensemble becomes one of three."""

    def test_states(self) -> None:
        asyncio.run(self.follow(partial(self.rise, "b", "c"), "/old/d"))


@needs_aio
class TestMoves(StatesMixin, MoveCase):
    def test_states(self) -> None:
        asyncio.run(self.follow(self.move, PATH))
