"""The calls of the asyncio client, struck before and after each request that they need: what they leave behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any
from unittest import mock

from kazoo.exceptions import ConnectionLoss, SessionExpiredError
from kazoo.retry import KazooRetry

from parkazoo.protocol.placement import CLIENTS, DONE, FENCES
from tests.aio.aio_case import DEADLINE_S, LONG_S, AioCase, until

MANY = 100  # more strikes than any call has room for


async def _commit(zk: Any) -> None:
    async with zk.transaction() as transaction:
        transaction.set_data("/d/a", b"1")
        transaction.create("/d/b")


async def _follow(zk: Any) -> None:
    async with zk.watch_children("/d") as states:
        await anext(states)


CALLS: dict[str, Callable[[Any], Coroutine[Any, Any, Any]]] = {
    "a first child": lambda zk: zk.create("/d/a/x"),
    "missing levels": lambda zk: zk.create("/d/e/f", makepath=True),
    "an ephemeral": lambda zk: zk.create("/d/e", ephemeral=True),
    "a path": lambda zk: zk.ensure_path("/d/e/f"),
    "a set": lambda zk: zk.set("/d/a", b"1"),
    "a delete": lambda zk: zk.delete("/d/empty"),
    "a tree": lambda zk: zk.delete("/d", recursive=True),
    "a transaction": _commit,
    "a watch": lambda zk: zk.get("/d/a", lambda event: None),
    "states": _follow,
}


class Strike:
    """Hits a call when its servers have got so far.

    :ivar has_hit: it has.
    """

    def __init__(self, case: StruckCase, at: int) -> None:
        self._case = case
        self._left = at
        self.has_hit = False

    def __call__(self, session: int, ensemble: int) -> None:
        self._left -= 1
        if self._left == -1:
            self.has_hit = True
            self._case.hit(session, ensemble)


class StruckCase(AioCase):
    """Each of its calls is hit at each point, until it has none left."""

    task: asyncio.Task[Any]

    async def asyncSetUp(self) -> None:
        await super().asyncSetUp()
        asyncio.get_running_loop().set_debug(False)
        soon = partial(KazooRetry, delay=0.001, max_delay=0.01)
        patch = mock.patch("parkazoo.aio.async_client.KazooRetry", soon)
        patch.start()
        self.addCleanup(patch.stop)
        self.zk = await self.started(timeout=LONG_S)
        self.other = await self.started(timeout=LONG_S)

    def hit(self, session: int, ensemble: int) -> None:
        raise NotImplementedError

    async def strike_all(self) -> None:
        for name, call in CALLS.items():
            for at in range(MANY):
                with self.subTest(name, at=at):
                    if not await self.is_hit(call, at):
                        break
            else:
                raise AssertionError(f"{name}: is there no end?")

    async def is_hit(self, call: Callable[[Any], Coroutine[Any, Any, Any]], at: int) -> bool:
        """Whether the call has lasted until then."""
        zk, other = self.zk, self.other
        await asyncio.gather(*(zk.create(f"/{number}/x", makepath=True) for number in range(3)))  # all are joined
        await asyncio.gather(*(zk.delete(f"/{number}", recursive=True) for number in range(3)))
        before = self.znodes()
        await other.create("/d/a", makepath=True)
        await other.create("/d/empty/x", makepath=True)
        await other.delete("/d/empty/x")
        self.cluster.strike = strike = Strike(self, at)
        self.task = asyncio.create_task(call(zk))
        await asyncio.wait([self.task], timeout=DEADLINE_S)
        self.cluster.strike = lambda session, ensemble: None
        if not self.task.cancelled() and (error := self.task.exception()) is not None:
            self.assertIsInstance(error, (ConnectionLoss, SessionExpiredError))
        await until(self.is_idle, "no request is left")
        await other.delete("/d", recursive=True)
        self.assertEqual(self.znodes(), before)
        await until(lambda: not self.watches(), "no watch is left")
        coroutines: list[Any] = [each.get_coro() for each in asyncio.all_tasks()]
        self.assertFalse(any("/parkazoo/aio/" in each.cr_code.co_filename for each in coroutines))
        return strike.has_hit

    def znodes(self) -> list[set[str]]:
        """But for registrations, for fences, which the model makes when they are asked for, and for records of
        deletes that another client has finished.
        """
        passed = f"{CLIENTS}/", f"{FENCES}/", f"{DONE}/"
        return [{path for path in nodes if not path.startswith(passed)} for nodes in self.cluster.model.nodes]

    def is_idle(self) -> bool:
        session = self.zk._session
        if not self.zk.connected or session is None or session.driver is None:
            return False
        idle: list[None] = []
        session.when_idle(lambda: idle.append(None))
        return bool(idle) and not any(each.has_unanswered for each in session.roster.members)

    def watches(self) -> int:
        session = self.zk._session
        assert session is not None
        assert session.watching is not None
        tables = [
            table for each in session.roster.members for table in (each.data_watches(), each.child_watches())
        ]
        return len(session.watching) + sum(map(len, tables))


class TestCancel(StruckCase):
    def hit(self, session: int, ensemble: int) -> None:
        self.task.cancel()

    async def test_anywhere(self) -> None:
        await self.strike_all()


class TestCutAndCancel(StruckCase):
    """Before a request, it is lost; after it, its answer is."""

    def hit(self, session: int, ensemble: int) -> None:
        self.cluster.drop(session, ensemble)
        self.task.cancel()

    async def test_anywhere(self) -> None:
        await self.strike_all()


class TestExpire(StruckCase):
    def hit(self, session: int, ensemble: int) -> None:
        self.cluster.end(session, ensemble)

    async def test_anywhere(self) -> None:
        await self.strike_all()
