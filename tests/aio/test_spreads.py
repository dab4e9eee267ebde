"""Spread of the asyncio client."""

from __future__ import annotations

import asyncio
from typing import Any

from kazoo.exceptions import ConnectionLoss, NodeExistsError, NoNodeError, SessionExpiredError

from tests.aio.aio_case import AioCase, until
from tests.aio.strikes import StrikeCase

PATH = "/spread"


class TestStruck(StrikeCase):
    async def test_calls(self) -> None:
        """What is left is a child that may have been made, and no watch."""

        spreads: list[Any] = []

        async def use() -> None:
            spread = self.zk.Spread(PATH, 3)
            spreads[:] = [spread]
            await spread.create("a", b"1")
            await spread.get_children(lambda event: None)
            await spread.set("a", b"2")
            await spread.delete("a")

        async def then() -> None:
            for once in [*spreads[0]._left.values()]:  # the program's own watch
                spreads[0]._withdraw(once)
            await until(lambda: not self.left(), "nothing is left")
            for path in reversed(self.below(PATH)):
                self.drop(path)

        lost = ConnectionLoss, SessionExpiredError, NodeExistsError, NoNodeError
        await self.strike_each(use, root=PATH, may_raise=lost, then=then)


class TestSpread(AioCase):
    async def asyncSetUp(self) -> None:
        await super().asyncSetUp()
        self.zk = await self.started()
        self.other = await self.started()
        self.spread = self.zk.Spread(PATH, 10)

    async def test_children(self) -> None:
        spread, names = self.spread, [f"n{number}" for number in range(30)]
        self.assertEqual((await spread.get_children(), await spread.count()), ([], 0))
        paths = await asyncio.gather(*(spread.create(name, b"1") for name in names))
        self.assertEqual(paths, [spread.path_of(name) for name in names])
        self.assertEqual((sorted(await spread.get_children()), await spread.count()), (sorted(names), 30))
        self.assertEqual((await spread.set("n3", b"2", 0)).version, 1)
        self.assertEqual((await self.other.Spread(PATH, 10).get("n3"))[0], b"2")
        self.assertIs(await spread.delete("n3"), True)
        self.assertIsNone(await spread.exists("n3"))
        with self.assertRaises(NoNodeError):
            await spread.get("n3")
        with self.assertRaisesRegex(ValueError, "does not say 9 buckets"):
            await self.zk.Spread(PATH, 9).create("x")
        await self.zk.delete(PATH, recursive=True)
        await spread.create("x")
        self.assertEqual(await spread.get_children(), ["x"])

    async def test_a_slash_at_the_end(self) -> None:
        """It is the same directory."""
        spread = self.zk.Spread(f"{PATH}/", 10)
        self.assertEqual(await spread.create("a"), self.spread.path_of("a"))
        self.assertEqual((spread.path, await self.spread.get_children()), (PATH, ["a"]))

    async def test_one_watch_for_all(self) -> None:
        await self.spread.create("a")
        told: list[Any] = []
        for _ in range(2):
            self.assertEqual(await self.spread.get_children(told.append), ["a"])
        await self.other.Spread(PATH, 10).create("b")
        await until(lambda: told, "it is told")
        for name in "cdefgh":
            await self.other.Spread(PATH, 10).create(name)
        await self.zk.sync(PATH)
        self.assertEqual([(each.type, each.path) for each in told], [("CHILD", PATH)])

    async def test_wrong_arguments(self) -> None:
        calls: Any = self.zk
        for buckets in (0, 4097, True, "3"):
            with self.assertRaises(ValueError):
                calls.Spread(PATH, buckets)
        with self.assertRaises(TypeError):
            calls.Spread(7, 3)
        with self.assertRaises(TypeError):
            await self.spread.get_children(self.test_children)  # type: ignore[arg-type]
        with self.assertRaisesRegex(TypeError, "callable"):
            await self.spread.get_children(7)  # type: ignore[arg-type]
        for name in ("", "a/b", ".."):
            with self.assertRaises(ValueError):
                await self.spread.exists(name)
        with self.assertRaisesRegex(ValueError, "no sequence numbers"):
            await self.spread.create("a", sequence=True)
