"""Finds a scenario by its name, and lets happen again what happened."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack

from tests.explore.chosen import Chosen, Rights
from tests.explore.explorer import Explorer
from tests.explore.families import Family, Mistaken, OwnPast, Pair, Remembered, Three
from tests.explore.mutants import MUTANTS, Mutated
from tests.explore.scenario import Scenario, Violation
from tests.explore.tell import events_of
from tests.explore.world import parse_moves

FAMILIES: Mapping[str, type[Family]] = {
    each.family: each for each in (Pair, Three, OwnPast, Remembered, Mistaken, Chosen, Rights, Mutated)
}


class NoScenarioError(ValueError):
    """No scenario, mutant or move is written like that."""


def find(name: str) -> Scenario:
    """:raises NoScenarioError: there is none of that name."""
    family, *words = name.split("/")
    try:
        return FAMILIES[family](*(word.replace("-", " ") for word in words)).scenario()
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise NoScenarioError(f"{name} is no scenario: {error!r}") from None


def replay(name: str, moves: str, mutant: str = "") -> tuple[bool, str]:
    """Whether something is violated, and what happened, a line each.

    :raises NoScenarioError: there is nothing of these names.
    """
    with ExitStack() as stack:
        if mutant:
            called = mutant.replace("-", " ")
            if called not in MUTANTS:
                raise NoScenarioError(f"{mutant} is no mutant")
            stack.enter_context(MUTANTS[called].applied(called))
        scenario = find(name)
        try:
            parsed = parse_moves(moves)
            Explorer(scenario).replay(parsed)
        except ValueError as error:
            raise NoScenarioError(str(error)) from None
        except Violation as violation:
            return True, str(violation)
        return False, "\n".join([*events_of(scenario, parsed), "nothing is violated"])
