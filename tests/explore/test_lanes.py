"""Deferred writes: what lands is a prefix, once, and tickets say so; wrong implementations are found."""

from __future__ import annotations

import unittest

from tests.explore.lane_mutants import LANE_MUTANTS
from tests.explore.lanes import PROGRAMS, LaneExplorer, Violation

LEAST_STATES = 100
COUNT = 11


class TestLanes(unittest.TestCase):
    def test_in_every_order(self) -> None:
        for name, program in PROGRAMS.items():
            with self.subTest(name):
                explorer = LaneExplorer(program)
                explorer.explore()
                self.assertGreater(explorer.states, LEAST_STATES)
                self.assertGreater(explorer.ends, 0)

    def test_each_mutant_is_found(self) -> None:
        self.assertEqual(len(LANE_MUTANTS), COUNT)
        for name, mutant in LANE_MUTANTS.items():
            with self.subTest(name), mutant.applied(name), self.assertRaisesRegex(Violation, mutant.violation):
                LaneExplorer(PROGRAMS[mutant.program]).explore()
