"""Finds a scenario by its name, and lets happen again what happened."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack

from tests.explore.chosen import Chosen, Rights
from tests.explore.explorer import Explorer
from tests.explore.families import Family, Mistaken, OwnPast, Pair, Remembered, Three
from tests.explore.given_up import Abandoned
from tests.explore.given_up_mutants import GIVEN_UP_MUTANTS, GivenUpMutated
from tests.explore.grown_levels import GROWN
from tests.explore.grown_mutants import GROWN_MUTANTS, GrownMutated
from tests.explore.mutants import MUTANTS, Mutated
from tests.explore.mutation import Mutation
from tests.explore.scenario import Scenario, Violation
from tests.explore.sessions import move_mutants as of_moves
from tests.explore.sessions import mutants as of_sessions
from tests.explore.sessions import tell, world
from tests.explore.sessions.explorer import SessionExplorer
from tests.explore.sessions.families import Sessions
from tests.explore.sessions.scenario import SessionScenario
from tests.explore.tell import events_of
from tests.explore.total import TOTAL
from tests.explore.total_mutants import TOTAL_MUTANTS, TotalMutated
from tests.explore.world import parse_moves

ALL = (Pair, Three, OwnPast, Remembered, Mistaken, Chosen, Rights, Abandoned, Mutated, Sessions)
FAMILIES: Mapping[str, type[Family | Sessions]] = {
    **{each.family: each for each in ALL},
    **{each.family: each for each in (*GROWN, *TOTAL)},
    GrownMutated.family: GrownMutated,
    TotalMutated.family: TotalMutated,
    GivenUpMutated.family: GivenUpMutated,
}
MUTATIONS: Mapping[str, Mutation] = {
    **MUTANTS,
    **GROWN_MUTANTS,
    **TOTAL_MUTANTS,
    **GIVEN_UP_MUTANTS,
    **of_sessions.MUTANTS,
    **of_moves.MUTANTS,
}


class NoScenarioError(ValueError):
    """No scenario, mutant or move is written like that."""


def find(name: str) -> Scenario | SessionScenario:
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
    scenario = find(name)  # its beginning came about without the mutant
    with ExitStack() as stack:
        if mutant:
            called = mutant.replace("-", " ")
            if called not in MUTATIONS:
                raise NoScenarioError(f"{mutant} is no mutant")
            stack.enter_context(MUTATIONS[called].applied(called))
        try:
            events = _let_happen(scenario, moves)
        except ValueError as error:
            raise NoScenarioError(str(error)) from None
        except Violation as violation:
            return True, str(violation)
        return False, "\n".join([*events, "nothing is violated"])


def _let_happen(scenario: Scenario | SessionScenario, moves: str) -> Iterator[str]:
    """What has happened, a line each.

    :raises Violation: something does not hold.
    :raises ValueError: a move is none, or cannot happen there.
    """
    if isinstance(scenario, SessionScenario):
        of_session = world.parse_moves(moves)
        SessionExplorer(scenario).replay(of_session)
        return tell.events_of(scenario, of_session)
    parsed = parse_moves(moves)
    Explorer(scenario).replay(parsed)
    return events_of(scenario, parsed)
