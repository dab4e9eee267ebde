"""The bounded slice of the matrix (see matrix.py); `make explore` visits all of it.

Every cell is walked at random, and some are explored whole. The seed is printed.
"""

from __future__ import annotations

import os
import random
import unittest
from collections.abc import Callable

from tests.explore.explorer import Explorer, Violation
from tests.explore.families import TROUBLES, cell, cells, own_pasts, random_triple, remembereds

WALKS = 2  # through each cell
WHOLE, MOST = 60, 1500  # cells, and how many states of each
SCENES, WHOLE_SCENES = 300, 10  # of a client's own past, walked and explored
TRIPLES, WALKS_OF_THREE = 150, 6
LONGEST = 60


class TestPairs(unittest.TestCase):
    def setUp(self) -> None:
        self.seed = int(os.environ.get("PARKAZOO_TEST_SEED") or int.from_bytes(os.urandom(4), "big"))
        self.dice = random.Random(self.seed)
        self.states = 0
        print(f"{self._testMethodName}: PARKAZOO_TEST_SEED={self.seed}")

    def tearDown(self) -> None:
        print(f"{self._testMethodName}: {self.states} states")

    def check(self, about: object, explorer: Explorer, go: Callable[[], None]) -> None:
        try:
            go()
        except Violation as violation:
            raise Violation(f"seed {self.seed}, {about}: {violation}") from None
        self.states += explorer.states

    def test_every_cell_is_walked(self) -> None:
        for state, pair, trouble in cells():
            explorer = cell(state, pair, TROUBLES[trouble], longest=LONGEST)
            for _ in range(WALKS):
                self.check((state, pair, trouble), explorer, lambda explorer=explorer: explorer.walk(self.dice))
            self.assertEqual(explorer.ends, WALKS)

    def test_some_cells_are_explored(self) -> None:
        for state, pair, trouble in self.dice.sample(list(cells()), WHOLE):
            explorer = cell(state, pair, TROUBLES[trouble], longest=20, most=MOST)
            self.check((state, pair, trouble), explorer, explorer.explore)

    def test_own_past(self) -> None:
        """What a client has created or deleted, its reads see, on servers that lag."""
        for scene in self.dice.sample(list(own_pasts()), SCENES):
            explorer = scene.explorer(longest=LONGEST)
            self.check(scene, explorer, lambda explorer=explorer: explorer.walk(self.dice))
        for scene in self.dice.sample(list(own_pasts()), WHOLE_SCENES):
            explorer = scene.explorer(longest=20, most=MOST // 3)
            self.check(scene, explorer, explorer.explore)

    def test_what_is_remembered(self) -> None:
        """What a client remembers of a directory does not outlive it, in pipelines."""
        for scene in self.dice.sample(list(remembereds()), SCENES):
            explorer = scene.explorer(longest=LONGEST)
            self.check(scene, explorer, lambda explorer=explorer: explorer.walk(self.dice))
        for scene in self.dice.sample(list(remembereds()), WHOLE_SCENES):
            explorer = scene.explorer(longest=LONGEST, most=MOST)
            self.check(scene, explorer, explorer.explore)

    def test_three_at_random(self) -> None:
        for _ in range(TRIPLES):
            state, names, trouble = random_triple(self.dice)
            explorer = cell(state, names, trouble, longest=LONGEST)
            for _ in range(WALKS_OF_THREE):
                self.check((state, names, trouble), explorer, lambda explorer=explorer: explorer.walk(self.dice))
