"""What `make explore` visits, and in which order; its processes take it from here: they cannot from __main__."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterator
from typing import NamedTuple

from tests.explore.chosen import ACLS, CASES, Chosen, Rights
from tests.explore.explorer import Explorer
from tests.explore.families import TROUBLES, Family, Mistaken, OwnPast, Pair, Remembered, Three
from tests.explore.scenario import Bounds, Violation

LONGEST = 40
WALKS = 200  # for each three
THREE = "three at random"


class Task(NamedTuple):
    """A scenario, and its row in the table. `seed` is None for every order, else for some at random."""

    row: str
    member: Family
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
    longest = task.member.case.bounds.longest if isinstance(task.member, Chosen) else LONGEST
    explorer = Explorer(task.member.scenario(), Bounds(longest, task.most))
    violation = ""
    try:
        if task.seed is None:
            explorer.explore()
        else:
            dice = random.Random(task.seed)
            for _ in range(WALKS):
                explorer.walk(dice)
    except Violation as error:
        violation = str(error)
    seconds = time.process_time() - began
    is_whole = task.seed is None and explorer.states < task.most and not explorer.is_cut
    return Outcome(task, explorer.states, explorer.moves, seconds, is_whole, violation)


def in_every_order(most: int) -> Iterator[Task]:
    """The other families come between the pairs, not behind them."""
    others = itertools.chain(
        (Task("chosen", member, most) for about in CASES for member in Chosen.members(about)),
        (Task("rights", Rights(acls), most) for acls in ACLS),
        (Task("own past", member, most) for member in OwnPast.members()),
        (Task("what is remembered", member, most) for member in Remembered.members()),
        (Task("what is remembered wrongly", member, most) for member in Mistaken.members()),
    )
    for pair in Pair.members([*TROUBLES]):
        yield Task(f"{pair.one} / {pair.other}", pair, most)
        yield from itertools.islice(others, 1)


def threes(seed: int) -> Iterator[Task]:
    dice = random.Random(seed)
    while True:
        yield Task(THREE, Three.at_random(dice), 0, dice.randrange(1 << 32))
