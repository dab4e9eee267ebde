"""What `make explore` visits, and in which order; its processes take it from here: they cannot from __main__."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tests.explore.chosen import ACLS, CASES, Chosen, Rights
from tests.explore.explorer import Explorer
from tests.explore.families import TROUBLES, Family, Mistaken, OwnPast, Pair, Remembered, Three
from tests.explore.given_up import Abandoned
from tests.explore.grown_levels import GROWN, AtRandom
from tests.explore.scenario import Bounds, Violation
from tests.explore.sessions.explorer import SessionExplorer
from tests.explore.sessions.families import Sessions
from tests.explore.total import TOTAL

LONGEST = 40
WALKS = 200  # for each three
THREE = "three at random"
SESSIONS, SESSIONS_AT_RANDOM = "sessions", "sessions at random"
AT_RANDOM: Sequence[type[AtRandom]] = (*GROWN, *TOTAL, Abandoned)
OF_EACH = 400  # scenarios of each of these families, always the same: they have too many
FEWER = 20  # states and walks of a scenario of sessions: each state takes as much longer


class Task(NamedTuple):
    """A scenario, and its row in the table. `seed` is None for every order, else for some at random."""

    row: str
    member: Family | Sessions
    most: int
    seed: int | None = None


class Outcome(NamedTuple):
    task: Task
    states: int
    moves: int
    seconds: float
    is_whole: bool
    violation: str


def visit(task: Task) -> Outcome:
    began = time.process_time()
    explorer = _explorer(task)
    violation = ""
    try:
        if task.seed is None:
            explorer.explore()
        else:
            dice = random.Random(task.seed)
            for _ in range(WALKS // FEWER if isinstance(task.member, Sessions) else WALKS):
                explorer.walk(dice)
    except Violation as error:
        violation = str(error)
    seconds = time.process_time() - began
    is_whole = task.seed is None and explorer.states < task.most and not explorer.is_cut
    return Outcome(task, explorer.states, explorer.moves, seconds, is_whole, violation)


def _explorer(task: Task) -> Explorer | SessionExplorer:
    if isinstance(task.member, Sessions):
        return SessionExplorer(task.member.scenario(), Bounds(most=task.most))
    longest = task.member.case.bounds.longest if isinstance(task.member, Chosen) else LONGEST
    return Explorer(task.member.scenario(), Bounds(longest, task.most))


def in_every_order(most: int) -> Iterator[Task]:
    """The other families come between the pairs, and what is left of them behind."""
    others = itertools.chain(
        (Task("chosen", member, most) for about in CASES for member in Chosen.members(about)),
        (Task("rights", Rights(acls), most) for acls in ACLS),
        (Task("own past", member, most) for member in OwnPast.members()),
        (Task("what is remembered", member, most) for member in Remembered.members()),
        (Task("what is remembered wrongly", member, most) for member in Mistaken.members()),
        (Task(SESSIONS, member, most // FEWER) for member in Sessions.members()),
        (Task(f"some of {member.family}", member, most) for member in some_at_random()),
    )
    for pair in Pair.members([*TROUBLES]):
        yield Task(f"{pair.one} / {pair.other}", pair, most)
        yield from itertools.islice(others, 1)
    yield from others


def some_at_random() -> Iterator[Family]:
    """Of the families that have too many, in turns."""
    dice = random.Random(1)
    for _ in range(OF_EACH):
        for family in AT_RANDOM:
            yield family.at_random(dice)


def threes(seed: int) -> Iterator[Task]:
    """And as many scenarios of sessions, and of the families that have too many."""
    dice = random.Random(seed)
    sessions = list(Sessions.members())
    while True:
        yield Task(THREE, Three.at_random(dice), 0, dice.randrange(1 << 32))
        some = dice.choice(AT_RANDOM).at_random(dice)
        yield Task(f"{some.family} at random", some, 0, dice.randrange(1 << 32))
        yield Task(SESSIONS_AT_RANDOM, dice.choice(sessions), 0, dice.randrange(1 << 32))
