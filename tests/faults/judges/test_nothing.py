"""A run in which nothing happened."""

from __future__ import annotations

import unittest

from tests.faults import judges
from tests.faults.judges.journal import TIMEOUT_S
from tests.faults.load import Run
from tests.faults.run import all_loads

LOADS = {*all_loads()} - {"one_down", "registers"}  # which have tests of their own


class TestNothing(unittest.TestCase):
    def test_a_run_in_which_nothing_happened_is_refused(self) -> None:
        for name in sorted(LOADS):
            with self.subTest(name):
                self.assertTrue(judges.judge(name, Run([], [], TIMEOUT_S)).problems)
