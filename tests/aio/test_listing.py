"""Folders that are listed once for many contenders."""

from __future__ import annotations

import asyncio
import re
import sys
import unittest
from typing import Any
from unittest import mock

from kazoo.exceptions import ConnectionLoss, NoNodeError

from tests.aio.aio_case import AioCase, needs_aio, until

if sys.version_info >= (3, 11):
    from parkazoo.aio.recipe.listing import Contenders

MANY = 50
LOCKS, READERS = re.compile("__lock__(-?[0-9]{10})$"), re.compile("__rlock__(-?[0-9]{10})$")
NAMES = ["b__lock__0000000003", "a__lock__0000000007", "c__rlock__0000000005", "x", "y__lock__", "__lock__12"]


@needs_aio
class TestContenders(unittest.TestCase):
    def test_the_nearest_before(self) -> None:
        listing = Contenders(NAMES)
        for rivals, number, found in (
            (LOCKS, "0000000003", None),
            (LOCKS, "0000000004", "b__lock__0000000003"),
            (LOCKS, "0000000007", "b__lock__0000000003"),
            (LOCKS, "0000000008", "a__lock__0000000007"),
            (READERS, "0000000005", None),
            (READERS, "0000000006", "c__rlock__0000000005"),
        ):
            with self.subTest(number=number, rivals=rivals.pattern):
                self.assertEqual(listing.last_before(number, rivals), found)
        self.assertIsNone(Contenders([]).last_before("0000000003", LOCKS))
        self.assertTrue("x" in listing and "z" not in listing)


class TestSharedListings(AioCase):
    ensembles = 1

    async def asyncSetUp(self) -> None:
        await super().asyncSetUp()
        self.zk: Any = await self.started()
        await self.zk.create("/f")
        issue = mock.patch.object(self.zk, "get_children_async", wraps=self.zk.get_children_async)
        self.asked = issue.start()
        self.addCleanup(issue.stop)

    async def test_one_for_a_turn(self) -> None:
        """Each asker's answer has what was issued before it asked."""
        tasks = []
        for number in range(MANY):
            self.zk.create_async(f"/f/{number}")
            tasks.append(asyncio.create_task(self.zk.listings.read("/f")))
        found = await asyncio.gather(*tasks)
        self.assertEqual(self.asked.call_count, 1)
        self.assertTrue(all(str(MANY - 1) in each for each in found))
        await self.zk.listings.read("/f")
        self.assertEqual(self.asked.call_count, 2)

    async def test_one_that_is_cancelled(self) -> None:
        tasks = [asyncio.create_task(self.zk.listings.read("/f")) for _ in range(3)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        self.assertEqual([isinstance(each, Contenders) for each in await asyncio.gather(*tasks[1:])], [True, True])

    async def test_an_error_is_each_ones(self) -> None:
        found = await asyncio.gather(*(self.zk.listings.read("/no") for _ in range(3)), return_exceptions=True)
        self.assertEqual([type(each) for each in found], [NoNodeError] * 3)
        self.assertEqual(self.asked.call_count, 1)

    async def test_one_at_a_time(self) -> None:
        """Who asks meanwhile shares the next one, also if the first fails; then all begins anew."""
        self.asked.side_effect = lambda path: (
            answers.append(asyncio.get_running_loop().create_future()) or answers[-1]
        )
        for first in (["a"], ConnectionLoss()):
            answers: list[asyncio.Future[list[str]]] = []
            tasks = []
            for _ in range(4):
                tasks.append(asyncio.create_task(self.zk.listings.read("/f")))
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            self.assertEqual(len(answers), 1)
            if isinstance(first, list):
                answers[0].set_result(first)
            else:
                answers[0].set_exception(first)
            await until(lambda answers=answers: len(answers) == 2, "the next one")
            answers[1].set_result(["b"])
            found = await asyncio.gather(*tasks, return_exceptions=True)
            self.assertTrue(found[0] is first if isinstance(first, Exception) else "a" in found[0])
            self.assertTrue(all("b" in each for each in found[1:]))
