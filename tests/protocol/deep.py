"""Explores the matrix of pairs whole, then three operations at random for as long as there is time."""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import random
import sys
import time
from collections.abc import Iterator
from typing import NamedTuple

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from tests.protocol.explore import Violation
from tests.protocol.matrix import ALL_TROUBLES, PAIRS, STATES, TROUBLES, Trouble, cell, random_triple

ONE_BY_ONE = {**TROUBLES, "all of it": ALL_TROUBLES}
LONGEST = 40
WALKS = 200  # for each three


class Task(NamedTuple):
    """Operations on a directory in a state. `seed` is None for every order, else for some at random."""

    state: str
    names: tuple[str, ...]
    trouble: Trouble
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
    explorer = cell(task.state, task.names, task.trouble, longest=LONGEST, most=task.most)
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


def pairs(most: int) -> Iterator[Task]:
    for trouble, pair, state in itertools.product(ONE_BY_ONE.values(), PAIRS, STATES):
        yield Task(state, pair, trouble, most)


def triples(seed: int) -> Iterator[Task]:
    dice = random.Random(seed)
    while True:
        state, names, trouble = random_triple(dice)
        yield Task(state, tuple(names), trouble, 0, dice.randrange(1 << 32))


def explore(console: Console, options: argparse.Namespace) -> list[Outcome]:
    """Every pair, and threes until the time is over."""
    until = time.monotonic() + 60 * options.minutes
    outcomes: list[Outcome] = []
    count = len(ONE_BY_ONE) * len(PAIRS) * len(STATES)
    context = multiprocessing.get_context("spawn")
    with context.Pool(options.processes) as pool, Progress(console=console, transient=True) as progress:
        bar = progress.add_task("pairs", total=count)
        tasks = itertools.chain(pairs(options.most), triples(options.seed))
        # by hand, for a pool would take all of an endless iterator
        while time.monotonic() < until and (some := list(itertools.islice(tasks, 16 * options.processes))):
            for outcome in pool.imap_unordered(visit, some):
                outcomes.append(outcome)
                progress.advance(bar)
                if outcome.violation:
                    console.print(f"VIOLATION {outcome.task}: {outcome.violation}", markup=False, soft_wrap=True)
    return outcomes


def show(console: Console, outcomes: list[Outcome]) -> None:
    rows: dict[tuple[str, ...], list[Outcome]] = {pair: [] for pair in PAIRS}
    rows["three at random",] = []
    for outcome in outcomes:
        rows[outcome.task.names if outcome.task.seed is None else ("three at random",)].append(outcome)
    table = Table(title="explored", title_justify="left")
    table.add_column("operations")
    for each in ("scenarios", "whole", "states", "moves", "CPU s", "violations"):
        table.add_column(each, justify="right")
    for names, some in rows.items():
        table.add_row(
            " / ".join(names),
            str(len(some)),
            str(sum(each.is_whole for each in some)),
            f"{sum(each.states for each in some):,}",
            f"{sum(each.moves for each in some):,}",
            f"{sum(each.seconds for each in some):.1f}",
            str(sum(bool(each.violation) for each in some)),
        )
    console.print(table)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.protocol.deep", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30, help="30 by default")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32), help="of the threes at random")
    parser.add_argument("--most", type=int, default=20_000, help="states of each pair; 20000 by default")
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
        f"{len(ONE_BY_ONE) * len(PAIRS) * len(STATES)} scenarios of pairs, {len(outcomes) - done} of three, "
        f"{violations} violations, {time.monotonic() - began:.0f} s, seed {options.seed}"
    )
    return int(violations > 0)


if __name__ == "__main__":
    sys.exit(main())
