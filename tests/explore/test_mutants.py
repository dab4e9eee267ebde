"""The explorer finds what it is there to find, and what it prints lets it happen again."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import unittest
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.explore.explorer import Explorer
from tests.explore.given_up_mutants import GIVEN_UP_MUTANTS, GivenUpMutated
from tests.explore.grown_mutants import GROWN_MUTANTS, GrownMutated
from tests.explore.mutants import MUTANTS, Mutated
from tests.explore.mutation import SeenMutation
from tests.explore.replay import NoScenarioError, replay
from tests.explore.scenario import Bounds, Scenario, Violation
from tests.explore.tell import command
from tests.explore.total import AT_ONCE, AWAITED
from tests.explore.total_mutants import TOTAL_MUTANTS, TotalMutant, TotalMutated, grown
from tests.explore.visitor import ANYTHING
from tests.explore.world import parse_moves

ROOT = Path(__file__).resolve().parent.parent.parent
COUNT, GROWN_COUNT, TOTAL_COUNT, GIVEN_UP_COUNT = 29, 27, 15, 11
GROWN_BOUNDS = Bounds(60, 3000)
RUN_TIMEOUT_S = 120.0
# What a client is answered if not the protocol is wrong, but the mutant does not fit it any more.
MISTAKES = r"\b(Assertion|Attribute|Index|Key|Lookup|Name|Runtime|Type)Error\b"
Mutable = GrownMutated | TotalMutated | GivenUpMutated
PRINTED = re.compile(r"to replay it: (python -m tests.explore .*)")


def explored(scenario: Scenario, bounds: Bounds) -> Explorer:
    explorer = Explorer(scenario, bounds)
    explorer.explore()
    return explorer


def explore(name: str) -> Explorer:
    return explored(Mutated(name).scenario(), MUTANTS[name].case.bounds)


def found(name: str) -> str:
    """The violation that a mutant leads to."""
    Mutated(name).scenario()  # its beginning comes about without the mutant
    with MUTANTS[name].applied(name):
        try:
            explore(name)
        except Violation as violation:
            return str(violation)
    raise AssertionError(f"{name} is not found")


class MutantsCase(unittest.TestCase):
    def check_each(
        self, mutants: Mapping[str, SeenMutation | TotalMutant], mutated: type[Mutable], bounds: Bounds = ANYTHING
    ) -> None:
        """Each is found and found again."""
        for name, mutant in mutants.items():
            with self.subTest(name):
                mutated(name).scenario()  # its beginning comes about without the mutant
                with mutant.applied(name), self.assertRaises(Violation) as caught:
                    explored(mutated(name).scenario(), bounds)
                self.assert_found_again(str(caught.exception), mutant.violation)

    def check_without(self, mutants: Iterable[str], mutated: type[Mutable], bounds: Bounds = ANYTHING) -> None:
        """Without them all is well."""
        for name in mutants:
            with self.subTest(name):
                self.assertTrue(explored(mutated(name).scenario(), bounds).ends)

    def assert_found_again(self, violation: str, pattern: str) -> None:
        """The violation of a mutant is the one expected, and what it prints lets it happen again."""
        self.assertRegex(violation.splitlines()[0], pattern)
        self.assertNotRegex(violation, MISTAKES)
        _, _, _, _, scenario, *rest = shlex.split(PRINTED.findall(violation)[0])
        *moves, _, called = rest
        self.assertEqual(replay(scenario, ",".join(moves), called), (True, violation))


class TestMutants(MutantsCase):
    def test_each_is_found_and_found_again(self) -> None:
        self.assertEqual(len(MUTANTS), COUNT)
        for name, mutant in MUTANTS.items():
            with self.subTest(name):
                self.assert_found_again(found(name), mutant.violation)

    def test_without_them_all_is_well(self) -> None:
        for name in MUTANTS:
            with self.subTest(name):
                self.assertTrue(explore(name).ends)


class TestGrownMutants(MutantsCase):
    def test_each_is_found_and_found_again(self) -> None:
        self.assertEqual(len(GROWN_MUTANTS), GROWN_COUNT)
        self.check_each(GROWN_MUTANTS, GrownMutated, GROWN_BOUNDS)

    def test_without_them_all_is_well(self) -> None:
        self.check_without(GROWN_MUTANTS, GrownMutated, GROWN_BOUNDS)


class TestTotalMutants(MutantsCase):
    def test_each_is_found_and_found_again(self) -> None:
        self.assertEqual(len(TOTAL_MUTANTS), TOTAL_COUNT)
        self.check_each(TOTAL_MUTANTS, TotalMutated)

    def test_without_them_all_is_well(self) -> None:
        self.check_without(TOTAL_MUTANTS, TotalMutated)

    def test_the_gap_of_what_is_remembered_wrongly(self) -> None:
        """It is documented; the explorer sees it."""
        does, sees = "creates beside and sets", "gets and looks beside"
        gap = grown(does, AWAITED, sees, AT_ONCE, "mirrored", "to home", "b", "native")
        with self.assertRaisesRegex(Violation, "not linearizable"):
            Explorer(gap.scenario()).explore()


class TestGivenUpMutants(MutantsCase):
    def test_each_is_found_and_found_again(self) -> None:
        self.assertEqual(len(GIVEN_UP_MUTANTS), GIVEN_UP_COUNT)
        self.check_each(GIVEN_UP_MUTANTS, GivenUpMutated, GROWN_BOUNDS)

    def test_without_them_all_is_well(self) -> None:
        self.check_without(GIVEN_UP_MUTANTS, GivenUpMutated, GROWN_BOUNDS)


class TestCommands(unittest.TestCase):
    NAME = "a delete does not bump the fence"

    def run_command(self, line: str) -> tuple[int, str]:
        _, *words = shlex.split(line)
        done = subprocess.run(
            [sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=False, timeout=RUN_TIMEOUT_S
        )
        return done.returncode, done.stdout + done.stderr

    def test_the_printed_command(self) -> None:
        violation = found(self.NAME)
        status, said = self.run_command(PRINTED.findall(violation)[0])
        self.assertEqual((status, said.strip()), (1, violation))

    def test_without_the_mutant_the_same_moves_are_clean(self) -> None:
        line, _, _ = PRINTED.findall(found(self.NAME))[0].partition(" --mutant")
        _, _, _, _, scenario, moves = shlex.split(line)
        is_violated, said = replay(scenario, moves)
        self.assertFalse(is_violated)
        self.assertEqual(said.splitlines()[-1], "nothing is violated")

    def test_a_line_tells_client_request_ensemble_and_answer(self) -> None:
        self.assertRegex(found(self.NAME), r"\n  client 1    ensemble \d: Delete /d\d+ -> NotEmptyError\n")

    def test_a_short_run_of_everything(self) -> None:
        line = "python -m tests.explore --minutes 0 --seed 1 --most 20 --processes 1"
        status, said = self.run_command(line)
        self.assertEqual(status, 0, said)
        self.assertRegex(said, r"states visited, 16 of \d+ scenarios in every order, .* 0 violations")

    def test_words_that_are_none(self) -> None:
        for scenario, moves, mutant in (
            ("nothing", "", ""),
            ("pair/leaf/create", "", ""),
            ("pair/leaf/create/delete/sunshine", "", ""),
            ("pair/leaf/create/delete/lag", "0q1", ""),
            ("pair/leaf/create/delete/lag", "0s0,0s0,1x", ""),
            ("pair/leaf/create/delete/lag", "", "sunshine"),
        ):
            with self.subTest(scenario, moves=moves, mutant=mutant), self.assertRaises(NoScenarioError):
                replay(scenario, moves, mutant)

    def test_moves_are_read_as_they_are_written(self) -> None:
        text = "0s1,1s0@3,0d1,1w,0x,1a0,1r1,0g2,0t1"
        self.assertEqual(",".join(map(str, parse_moves(text))), text)
        self.assertEqual(command("pair/x", parse_moves("0s1")), "python -m tests.explore --replay pair/x 0s1")
