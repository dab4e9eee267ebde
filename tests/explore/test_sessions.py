"""Sessions that begin, are lost, expire and begin anew in every order: a sample of the families, and all mutants.

`make explore` visits all. PARKAZOO_TEST_SEED takes another sample.
"""

from __future__ import annotations

import os
import random
import unittest

from tests.explore.scenario import Bounds, Violation
from tests.explore.sessions.explorer import Late, SessionExplorer
from tests.explore.sessions.families import Sessions
from tests.explore.sessions.move_mutants import MUTANTS as OF_MOVES
from tests.explore.sessions.mutants import MUTANTS as OF_SESSIONS
from tests.explore.sessions.mutants import SessionMutant
from tests.explore.sessions.scheduler import Scheduler
from tests.explore.sessions.world import parse_moves
from tests.explore.test_mutants import MutantsCase

SEED = 1
MUTANTS = {**OF_SESSIONS, **OF_MOVES}
WALKED, WHOLE, MOST = 400, 8, 600  # scenarios, and how many states of each
WALKS = 4  # of each mutant's scenario
WALKS_TO_MOVE = 10  # of a directory's scenario
WALKS_TO_FIND, FOUND_WITHIN = 400, 2500  # ways, and then states


def dice_of(mutant: SessionMutant) -> random.Random | Late:
    dice = random.Random(SEED)
    return Late(dice, mutant.late) if mutant.late else dice


def found(name: str) -> str:
    """The violation that a mutant leads to."""
    mutant = MUTANTS[name]
    with mutant.applied(name):
        try:
            dice = dice_of(mutant)
            explorer = SessionExplorer(mutant.seen_in.scenario(), Bounds(most=FOUND_WITHIN))
            for _ in range(WALKS_TO_FIND):
                explorer.walk(dice)
            SessionExplorer(explorer.scenario, explorer.bounds).explore()
        except Violation as violation:
            return str(violation)
    raise AssertionError(f"{name} is not found")


class TestSessions(unittest.TestCase):
    def setUp(self) -> None:
        seed = int(os.environ.get("PARKAZOO_TEST_SEED", SEED))
        self.dice = random.Random(seed)
        print(f"{self._testMethodName}: PARKAZOO_TEST_SEED={seed}")

    def test_some_are_walked(self) -> None:
        states = 0
        for member in self.dice.sample(list(Sessions.members()), WALKED):
            explorer = SessionExplorer(member.scenario())
            explorer.walk(self.dice)
            states += explorer.states
        print(f"{states} states")

    def test_some_are_explored(self) -> None:
        for member in self.dice.sample(list(Sessions.members()), WHOLE):
            explorer = SessionExplorer(member.scenario(), Bounds(most=MOST))
            explorer.explore()
            self.assertGreater(explorer.states, 0)


class TestMoves(unittest.TestCase):
    def test_directories_do_move(self) -> None:
        """Also with ephemerals, whose owners have to help."""
        dice = random.Random(SEED)
        for program in ("mirrored moves, set, get", "native moves, set, get", "mirrored moves, hold"):
            scheduler = Scheduler(Sessions(program, "nothing", "", "ab", "apart").scenario())
            command, moved = scheduler._command, 0
            assert command is not None
            for _ in range(WALKS_TO_MOVE):
                world = scheduler.begin()
                while moves := scheduler.moves(world, Bounds()):
                    world = scheduler.make(dice.choice(moves), world)
                moved += command.place(world.model) == command.copy
            with self.subTest(program):
                self.assertGreater(moved, 0)


class TestMutants(MutantsCase):
    def test_each_is_found_and_found_again(self) -> None:
        for name, mutant in MUTANTS.items():
            with self.subTest(name):
                self.assert_found_again(found(name), mutant.violation)

    def test_without_them_all_is_well(self) -> None:
        for mutant in MUTANTS.values():
            dice, explorer = dice_of(mutant), SessionExplorer(mutant.seen_in.scenario())
            for _ in range(WALKS):
                explorer.walk(dice)

    def test_moves_are_read_as_they_are_written(self) -> None:
        text = "0c1,1b0,0s1,0d1,0a1,0r0,0e0,0p1,0g0,1w0,0m1,0k1,0f0,0n0"
        self.assertEqual(",".join(map(str, parse_moves(text))), text)
        for wrong in ("0c", "0q1", "c1"):
            with self.assertRaises(ValueError):
                parse_moves(wrong)
