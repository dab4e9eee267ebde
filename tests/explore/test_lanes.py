"""Deferred writes: what lands is a prefix, once, and tickets say so; wrong implementations are found."""

from __future__ import annotations

import unittest

from parkazoo.engine.deferred.writes import Write
from parkazoo.kazoo_private import SetData
from tests.explore.grown import D
from tests.explore.lane_mutants import LANE_MUTANTS
from tests.explore.lane_programs import PROGRAMS
from tests.explore.lanes import LaneExplorer, Violation, World, first_model

LEAST_STATES = 20
COUNT = 24
TURNS = 3


class TestLanes(unittest.TestCase):
    def check_in_every_order(self, turn: int) -> None:
        """Each third of the programs: so that no test takes long."""
        for name in [*PROGRAMS][turn::TURNS]:
            with self.subTest(name):
                explorer = LaneExplorer(PROGRAMS[name])
                explorer.explore()
                self.assertGreater(explorer.states, LEAST_STATES)
                self.assertGreater(explorer.ends, 0)

    def test_in_every_order_1(self) -> None:
        self.check_in_every_order(0)

    def test_in_every_order_2(self) -> None:
        self.check_in_every_order(1)

    def test_in_every_order_3(self) -> None:
        self.check_in_every_order(2)

    def test_a_thread_that_has_looked_before_a_directory_moves(self) -> None:
        """Its write goes where those behind it go."""
        program = PROGRAMS["a wrong hint"]
        world = World(program, first_model(program))
        old = world.lanes.of[D]
        while world.lanes.of[D] is old:
            next(move for name, move in world.moves().items() if name.startswith(("serve", "answer")))()
        new, pending = world.lanes.of[D], old.pending
        before = new.pending
        old.put(D, Write(SetData(f"{D}/x", b"late", -1), 1))
        self.assertEqual((old.pending, new.pending), (pending, before + 1))

    def test_each_mutant_is_found(self) -> None:
        self.assertEqual(len(LANE_MUTANTS), COUNT)
        for name, mutant in LANE_MUTANTS.items():
            with self.subTest(name), mutant.applied(name), self.assertRaisesRegex(Violation, mutant.violation):
                LaneExplorer(PROGRAMS[mutant.program]).explore()
