"""Some minutes of ``make fuzz``, always the same cases; and that it finds what is wrong."""

from __future__ import annotations

import sys
import unittest
import warnings
from contextlib import ExitStack
from typing import Any
from unittest import mock

from parkazoo import ParKazooClient
from parkazoo.kazoo_private import Create, Delete, GetChildren
from tests.fuzz.__main__ import describe, make_asyncio_arena, make_gateway_arena
from tests.fuzz.arena import Arena, Outcome
from tests.fuzz.cases import Case, generate
from tests.fuzz.shrink import shrink

CASES = 40  # of each seed
MOVED_CASES = 20
CASES_AT_GATEWAY = 12
MUTANT_CASES, MUTANT_CALLS = 100, 3
NAMES = ("create", "delete", "set", "get", "exists", "get_children", "ensure_path", "transaction")
ERRORS = ("NoNodeError", "NodeExistsError", "NotEmptyError", "BadVersionError", "CrossEnsembleError")


class _Test(unittest.TestCase):
    """Both sides, for all tests of a class."""

    arena: Arena
    form = "plain"

    @classmethod
    def make_arena(cls) -> Arena:
        return Arena(form=cls.form)

    @classmethod
    def setUpClass(cls) -> None:
        stack = ExitStack()
        cls.addClassCleanup(stack.close)
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")  # of chroots that are not there
        cls.arena = stack.enter_context(cls.make_arena().running())

    def run_cases(self, seed: int, cases: int, mode: str = "", *, has_moves: bool = False) -> None:
        """No case fails.

        :param mode: options of ``python -m tests.fuzz`` that repeat one.
        """
        for number in range(cases):
            case = generate(seed, number, has_moves=has_moves)
            outcome = self.arena.run(case)
            again = f"python -m tests.fuzz{mode} --repeat {seed}:{number}"
            self.assertIsNone(outcome.failure, f"{again}\n{describe(case, outcome)}")


class TestCalls(_Test):
    """A test for each seed: no test may take too long."""

    def check(self, seed: int) -> None:
        """No case fails, and calls are answered and refused in them."""
        self.arena.outcomes.clear()
        self.run_cases(seed, CASES)
        seen = self.arena.outcomes
        for name in NAMES:
            self.assertGreater(seen[f"{name}: an answer"] + seen[f"{name}: nothing"], 0, seen)
        for error in ERRORS:
            self.assertTrue(any(error in kind for kind in seen), (error, seen))

    def test_seed_1(self) -> None:
        self.check(1)

    def test_seed_2(self) -> None:
        self.check(2)


class TestGrown(_Test):
    """Where pins decide. Each class of errors is not to be expected in so few cases."""

    form = "grown"

    def test_seed_3(self) -> None:
        self.run_cases(3, CASES, " --grown")
        self.assertGreater(sum(self.arena.outcomes.values()), 10 * CASES)


class TestMoved(_Test):
    """Where directories move between calls."""

    form = "grown"

    def test_seed_4(self) -> None:
        self.run_cases(4, MOVED_CASES, " --moves", has_moves=True)
        self.assertGreater(self.arena.parkazoo.moves, MOVED_CASES // 4)


@unittest.skipIf(sys.version_info < (3, 11), "parkazoo.aio needs Python 3.11")
class TestAsyncio(_Test):
    """Where the asyncio client makes the calls."""

    @classmethod
    def make_arena(cls) -> Arena:
        return make_asyncio_arena(cls.form)

    def test_seed_45(self) -> None:
        self.run_cases(45, CASES, " --asyncio")
        seen = self.arena.outcomes
        for name in (*NAMES, "Lock.acquire", "Counter.add", "Party.join", "LockingQueue.get", "TreeCache"):
            self.assertGreater(seen[f"{name}: an answer"] + seen[f"{name}: nothing"], 0, seen)


@unittest.skipIf(sys.version_info < (3, 11), "parkazoo.aio needs Python 3.11")
class TestAsyncioMoved(_Test):
    """Where directories move between the asyncio client's calls."""

    form = "grown"

    @classmethod
    def make_arena(cls) -> Arena:
        return make_asyncio_arena(cls.form)

    def test_seed_6(self) -> None:
        self.run_cases(6, MOVED_CASES, " --asyncio --moves", has_moves=True)
        self.assertGreater(self.arena.parkazoo.moves, MOVED_CASES // 4)


class TestMutants(_Test):
    """A ParKazoo with something wrong differs, and few calls show it."""

    def find(self) -> tuple[Case, Outcome]:
        """The first case that fails, minimised."""
        for number in range(MUTANT_CASES):
            case = generate(0, number)
            failure = self.arena.run(case).failure
            if failure is not None:
                smallest = shrink(case, lambda each, kind=failure: self.arena.run(each).failure == kind)
                return smallest, self.arena.run(Case.from_json(smallest.to_json()))
        raise AssertionError(f"not found in {MUTANT_CASES} cases")

    def check(self, kind: Any, **changed: Any) -> None:
        """
        :param kind: the requests in which something is changed.
        """

        class Mutant(ParKazooClient):
            def _call(self, request: Any, async_object: Any) -> Any:
                wrong = request._replace(**changed) if isinstance(request, kind) else request
                return super()._call(wrong, async_object)

        with mock.patch.object(self.arena.parkazoo, "client_class", Mutant):
            case, outcome = self.find()
        told = describe(case, outcome)
        self.assertIsNotNone(outcome.failure, told)
        self.assertLessEqual(len(case.calls), MUTANT_CALLS, told)
        self.assertIn("  ParKazoo: ", told)
        self.assertIsNone(self.arena.run(case).failure, told)

    def test_a_delete_of_any_version(self) -> None:
        self.check(Delete, version=-1)

    def test_no_watch_on_children(self) -> None:
        self.check(GetChildren, watcher=None)

    def test_a_create_without_flags(self) -> None:
        self.check(Create, flags=0)


@unittest.skipIf(sys.version_info < (3, 11), "parkazoo.gateway needs Python 3.11")
class TestGateway(_Test):
    """Where kazoo's own clients make the calls, at a gateway."""

    @classmethod
    def make_arena(cls) -> Arena:
        return make_gateway_arena(cls.form)

    def test_seed_7(self) -> None:
        self.run_cases(7, CASES_AT_GATEWAY, " --gateway")
        self.assertGreater(sum(self.arena.outcomes.values()), 10 * CASES_AT_GATEWAY)
