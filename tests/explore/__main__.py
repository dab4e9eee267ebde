"""Explores the matrix of pairs and a client's own past whole, then threes at random until the time is over."""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import random
import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from tests.explore.explorer import Explorer, Violation
from tests.explore.families import (
    ALL_TROUBLES,
    PAIRS,
    STATES,
    TROUBLES,
    OwnPast,
    Remembered,
    Trouble,
    cell,
    own_pasts,
    random_triple,
    remembereds,
)

ONE_BY_ONE = {**TROUBLES, "all of it": ALL_TROUBLES}
LONGEST = 40
WALKS = 200  # for each three
THREE = "three at random"


class Cell(NamedTuple):
    """Operations on a directory in a state."""

    state: str
    names: tuple[str, ...]
    trouble: Trouble

    def explorer(self, **others: Any) -> Explorer:
        return cell(self.state, self.names, self.trouble, **others)


class Task(NamedTuple):
    """A scene, and its row in the table. `seed` is None for every order, else for some at random."""

    row: str
    scene: Cell | OwnPast | Remembered
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
    explorer = task.scene.explorer(longest=LONGEST, most=task.most)
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
    is_whole = task.seed is None and explorer.states < task.most and not explorer.cut
    return Outcome(task, explorer.states, explorer.moves, seconds, is_whole, violation)


def scenes(most: int) -> Iterator[Task]:
    """Those that are visited in every order; a client's own past between the pairs, not behind them."""
    of_one = itertools.chain(
        (Task("own past", scene, most) for scene in own_pasts()),
        (Task("what is remembered", scene, most) for scene in remembereds()),
    )
    for trouble, pair, state in itertools.product(ONE_BY_ONE.values(), PAIRS, STATES):
        yield Task(" / ".join(pair), Cell(state, pair, trouble), most)
        yield from itertools.islice(of_one, 1)


def triples(seed: int) -> Iterator[Task]:
    dice = random.Random(seed)
    while True:
        state, names, trouble = random_triple(dice)
        yield Task(THREE, Cell(state, tuple(names), trouble), 0, dice.randrange(1 << 32))


def explore(console: Console, options: argparse.Namespace) -> list[Outcome]:
    """Every scene, and threes until the time is over."""
    until = time.monotonic() + 60 * options.minutes
    outcomes: list[Outcome] = []
    count = sum(1 for _ in scenes(0))
    context = multiprocessing.get_context("spawn")
    with context.Pool(options.processes) as pool, Progress(console=console, transient=True) as progress:
        bar = progress.add_task("scenes", total=count)
        tasks = itertools.chain(scenes(options.most), triples(options.seed))
        # by hand, for a pool would take all of an endless iterator
        while time.monotonic() < until and (some := list(itertools.islice(tasks, 16 * options.processes))):
            for outcome in pool.imap_unordered(visit, some):
                outcomes.append(outcome)
                progress.advance(bar)
                if outcome.violation:
                    console.print(f"VIOLATION {outcome.task}: {outcome.violation}", markup=False, soft_wrap=True)
    return outcomes


def show(console: Console, outcomes: list[Outcome]) -> None:
    rows: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        rows.setdefault(outcome.task.row, []).append(outcome)
    table = Table(title="explored", title_justify="left")
    table.add_column("operations")
    for each in ("scenarios", "whole", "states", "moves", "CPU s", "violations"):
        table.add_column(each, justify="right")
    for row, some in rows.items():
        table.add_row(
            row,
            str(len(some)),
            str(sum(each.is_whole for each in some)),
            f"{sum(each.states for each in some):,}",
            f"{sum(each.moves for each in some):,}",
            f"{sum(each.seconds for each in some):.1f}",
            str(sum(bool(each.violation) for each in some)),
        )
    console.print(table)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.explore", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30, help="30 by default")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32), help="of the threes at random")
    parser.add_argument("--most", type=int, default=20_000, help="states of each scene; 20000 by default")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    console = Console()
    console.print(f"seed {options.seed}, {options.processes} processes, {options.minutes:g} minutes at most")
    began = time.monotonic()
    outcomes = explore(console, options)
    show(console, outcomes)
    violations = sum(bool(outcome.violation) for outcome in outcomes)
    done = sum(outcome.task.seed is None for outcome in outcomes)
    print(
        f"{sum(outcome.states for outcome in outcomes):,} states visited, {done} of "
        f"{sum(1 for _ in scenes(0))} scenes in every order, {len(outcomes) - done} with three, "
        f"{violations} violations, {time.monotonic() - began:.0f} s, seed {options.seed}"
    )
    return int(violations > 0)


if __name__ == "__main__":
    sys.exit(main())
