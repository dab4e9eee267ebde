"""Visits every family whole, then threes at random until the time is over; or replays one violation."""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import random
import sys
import time

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from tests.explore.replay import NoScenarioError, replay
from tests.explore.visits import Outcome, in_every_order, threes, visit


def explore(console: Console, options: argparse.Namespace) -> list[Outcome]:
    """Every scenario, and threes until the time is over."""
    until = time.monotonic() + 60 * options.minutes
    outcomes: list[Outcome] = []
    count = sum(1 for _ in in_every_order(0))
    context = multiprocessing.get_context("spawn")
    with context.Pool(options.processes) as pool, Progress(console=console, transient=True) as progress:
        bar = progress.add_task("scenarios", total=count)
        tasks = itertools.chain(in_every_order(options.most), threes(options.seed))
        # by hand, for a pool would take all of an endless iterator
        while not outcomes or time.monotonic() < until:
            some = list(itertools.islice(tasks, 16 * options.processes))
            for outcome in pool.imap_unordered(visit, some):
                outcomes.append(outcome)
                progress.advance(bar)
                if outcome.violation:
                    console.print(f"VIOLATION {outcome.violation}", markup=False, highlight=False, soft_wrap=True)
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


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.explore", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30, help="30 by default")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32), help="of the threes at random")
    parser.add_argument("--most", type=int, default=20_000, help="states of each scenario; 20000 by default")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--replay", nargs="+", metavar=("SCENARIO", "MOVES"), help="let happen again what a violation printed"
    )
    parser.add_argument("--mutant", default="", help="the mutation of the protocol to replay it with")
    options = parser.parse_args()
    if options.replay and len(options.replay) > 2:
        parser.error("--replay takes a scenario, and its moves if there are any")
    return options


def main() -> int:
    options = parsed()
    if options.replay:
        try:
            is_violated, said = replay(options.replay[0], "".join(options.replay[1:]), options.mutant)
        except NoScenarioError as error:
            print(error, file=sys.stderr)
            return 2
        print(said)
        return int(is_violated)
    console = Console()
    console.print(f"seed {options.seed}, {options.processes} processes, {options.minutes:g} minutes at most")
    began = time.monotonic()
    outcomes = explore(console, options)
    show(console, outcomes)
    violations = sum(bool(outcome.violation) for outcome in outcomes)
    done = sum(outcome.task.seed is None for outcome in outcomes)
    print(
        f"{sum(outcome.states for outcome in outcomes):,} states visited, {done} of "
        f"{sum(1 for _ in in_every_order(0))} scenarios in every order, {len(outcomes) - done} with three, "
        f"{violations} violations, {time.monotonic() - began:.0f} s, seed {options.seed}"
    )
    return int(violations > 0)


if __name__ == "__main__":
    sys.exit(main())
