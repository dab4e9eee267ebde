"""A short run in which directories move."""

from __future__ import annotations

import unittest

from tests.faults.moving import NOT_OF_MOVES
from tests.faults.run import all_loads
from tests.faults.short_run import ShortRun

LOADS = ("counter", "lock", "registers", "watches")


class TestShortRun(ShortRun):
    arguments = ("--move", *LOADS, "--minutes", "0.3", "--kinds", "freeze client")

    def test_clean(self) -> None:
        self.assert_clean()

    def test_moves(self) -> None:
        self.assertGreater(self.summary["promises"]["moves"]["figures"]["have happened"], 0, self.said)


class TestLoads(unittest.TestCase):
    def test_names(self) -> None:
        self.assertLess({*NOT_OF_MOVES, *LOADS}, {*all_loads()})
