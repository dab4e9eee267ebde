"""The crash stress in short."""

from __future__ import annotations

import unittest

from parkazoo.local import LocalCluster
from tests.faults.stress import print_judgement, run
from tests.faults.stress_state import Numbers
from tests.live.world import seed

CRASHES = 200


class StressTest(unittest.TestCase):
    def test_crashes_between_steps(self) -> None:
        number = seed()
        print(f"seed {number}")
        with LocalCluster(ensembles=3, servers=3) as cluster:
            judgement = run(cluster, CRASHES, number)
        print_judgement(judgement)
        self.assertEqual(judgement.problems, [])
        self.assertGreaterEqual(judgement.figures["crashes"], CRASHES)
        for seen in ("directories deleted", "children created", "sequence numbers", "followers frozen"):
            self.assertGreater(judgement.figures[seen], 0, seen)


class NumbersTest(unittest.TestCase):
    def test_number_that_is_given_twice_in_a_life(self) -> None:
        numbers = Numbers()
        self.assertIsNone(numbers.add("/d", 7, "/d/a-0000000001"))
        self.assertIsNone(numbers.add("/d", 7, "/d/a-0000000001"))
        self.assertIsNone(numbers.add("/d", 8, "/d/b-0000000001"))
        self.assertEqual(numbers.add("/d", 7, "/d/b-0000000001"), "/d/a-0000000001")
