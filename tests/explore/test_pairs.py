"""A sample of the families (see families.py), the same at each run; `make explore` visits all of them.

Every pair is walked at random, and some are explored whole. PARKAZOO_TEST_SEED takes another sample.
"""

from __future__ import annotations

import os
import random
import unittest

from tests.explore.explorer import Explorer
from tests.explore.families import Family, Mistaken, OwnPast, Pair, Remembered, Three
from tests.explore.given_up import Abandoned
from tests.explore.grown_levels import GROWN
from tests.explore.scenario import Bounds
from tests.explore.total import TOTAL

SEED = 1
WALKS = 1  # through each pair
WHOLE, MOST = 15, 1500  # pairs, and how many states of each
SCENARIOS, WHOLE_SCENARIOS = 100, 5  # of a client's own past, and of what it remembers: walked and explored
OF_GROWN, WHOLE_OF_GROWN = 40, 2  # of each family of grown clients: walked and explored
OF_TOTAL, WHOLE_OF_TOTAL = 70, 8  # of one order for all ensembles, on each kind of map: walked and explored
GIVEN_UP, WALKS_OF_GIVEN_UP, WHOLE_OF_GIVEN_UP = 250, 2, 12
THREES, WALKS_OF_THREE = 100, 3
WALKED = Bounds(longest=60)


class TestPairs(unittest.TestCase):
    def setUp(self) -> None:
        seed = int(os.environ.get("PARKAZOO_TEST_SEED", SEED))
        self.dice = random.Random(seed)
        self.states = 0
        print(f"{self._testMethodName}: PARKAZOO_TEST_SEED={seed}")

    def tearDown(self) -> None:
        print(f"{self._testMethodName}: {self.states} states")

    def walk(self, member: Family, times: int = 1) -> None:
        explorer = Explorer(member.scenario(), WALKED)
        for _ in range(times):
            explorer.walk(self.dice)
        self.assertEqual(explorer.ends, times)
        self.states += explorer.states

    def explore(self, member: Family, bounds: Bounds) -> None:
        explorer = Explorer(member.scenario(), bounds)
        explorer.explore()
        self.states += explorer.states

    def test_every_pair_is_walked(self) -> None:
        for pair in Pair.members():
            self.walk(pair, WALKS)

    def test_some_pairs_are_explored(self) -> None:
        for pair in self.dice.sample(list(Pair.members()), WHOLE):
            self.explore(pair, Bounds(20, MOST))

    def test_own_past(self) -> None:
        """What a client has created or deleted, its reads see, on servers that lag."""
        for member in self.dice.sample(list(OwnPast.members()), SCENARIOS):
            self.walk(member)
        for member in self.dice.sample(list(OwnPast.members()), WHOLE_SCENARIOS):
            self.explore(member, Bounds(20, MOST // 3))

    def test_what_is_remembered(self) -> None:
        """What a client remembers of a directory does not outlive it, in pipelines."""
        for member in self.dice.sample(list(Remembered.members()), SCENARIOS):
            self.walk(member)
        for member in self.dice.sample(list(Remembered.members()), WHOLE_SCENARIOS):
            self.explore(member, Bounds(WALKED.longest, MOST))

    def test_what_is_remembered_wrongly(self) -> None:
        """An operation does not take place after a later one of its client, though the client is mistaken."""
        for member in self.dice.sample(list(Mistaken.members()), SCENARIOS):
            self.walk(member)
        for member in self.dice.sample(list(Mistaken.members()), WHOLE_SCENARIOS):
            self.explore(member, Bounds(WALKED.longest, MOST))

    def test_grown(self) -> None:
        """Clients of several epochs, whatever they remember: pins decide."""
        for family in GROWN:
            with self.subTest(family.family):
                for _ in range(OF_GROWN):
                    self.walk(family.at_random(self.dice))
                for _ in range(WHOLE_OF_GROWN):
                    self.explore(family.at_random(self.dice), Bounds(WALKED.longest, MOST // 5))

    def test_one_order(self) -> None:
        """For all clients all ensembles have one order, on servers that lag."""
        for family in TOTAL:
            with self.subTest(family.family):
                for _ in range(OF_TOTAL):
                    self.walk(family.at_random(self.dice))
                for _ in range(WHOLE_OF_TOTAL):
                    self.explore(family.at_random(self.dice), Bounds(WALKED.longest, MOST))

    def test_given_up(self) -> None:
        """A caller that gives up: its operation is done wholly or not at all, and the others go on."""
        for _ in range(GIVEN_UP):
            self.walk(Abandoned.at_random(self.dice), WALKS_OF_GIVEN_UP)
        for _ in range(WHOLE_OF_GIVEN_UP):
            self.explore(Abandoned.at_random(self.dice), Bounds(WALKED.longest, MOST))

    def test_three_at_random(self) -> None:
        for _ in range(THREES):
            self.walk(Three.at_random(self.dice), WALKS_OF_THREE)
