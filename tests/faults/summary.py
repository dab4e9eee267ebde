"""What people read at the end of a run, and what programs do."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench import ROOT
from bench.machine import commit_of
from tests.faults.run import Outcome
from tests.faults.schedule import ENSEMBLE_KINDS, KINDS

SHOWN = 10  # of a load's problems


def print_outcome(console: Console, outcome: Outcome) -> None:
    console.print()
    console.print(_faults_table(outcome))
    if outcome.no_network:
        console.print(f"Frozen instead of cut off: {outcome.no_network}.", markup=False)
    if outcome.no_loss:
        console.print(f"Cut instead of lossy: {outcome.no_loss}.", markup=False)
    console.print(f"The processors were busy {outcome.busy_share:.0%} of the time.\n", highlight=False)
    console.print(_loads_table(outcome))
    for name, (_, judgement) in outcome.judged.items():
        _print_problems(console, name, judgement.problems)
    _print_problems(console, "run", outcome.problems)


def write_summary(path: Path, seed: int, minutes: float, outcome: Outcome) -> None:
    """The outcome as JSON, with all problems."""
    summary = {
        "seed": seed,
        "minutes": minutes,
        "commit": commit_of(ROOT),
        "problems": outcome.problem_count,
        "busy_share": outcome.busy_share,
        "no_network": outcome.no_network,
        "no_loss": outcome.no_loss,
        "faults": _counts(outcome),
        "promises": {
            name: {"problems": [*judgement.problems], "figures": {**judgement.figures}}
            for name, (_, judgement) in outcome.judged.items()
        },
        "run": [*outcome.problems],
    }
    path.write_text(json.dumps(summary, indent=2) + "\n")


def _counts(outcome: Outcome) -> dict[str, dict[str, int]]:
    """How often there was a fault, by kind and then by manner and whether it was the bootstrap ensemble's."""
    counts: dict[str, dict[str, int]] = {}
    for kind in dict.fromkeys((*KINDS, *(each.kind for each in outcome.faults))):
        manners = Counter(each.manner for each in outcome.faults if each.kind == kind)
        if kind in ENSEMBLE_KINDS:
            manners["the bootstrap ensemble"] = sum(
                each.kind == kind and each.target == "a" for each in outcome.faults
            )
        counts[kind] = dict(sorted(manners.items()))
    return counts


def _faults_table(outcome: Outcome) -> Table:
    table = Table(title="faults", title_justify="left")
    table.add_column("kind", no_wrap=True)
    table.add_column("times", justify="right")
    table.add_column("seconds", justify="right")
    table.add_column("of them")
    for kind, manners in _counts(outcome).items():
        found = [each for each in outcome.faults if each.kind == kind]
        seconds = sum(each.until_s - each.since_s for each in found)
        detail = ", ".join(f"{count} {manner}" for manner, count in manners.items() if manner)
        table.add_row(kind, str(len(found)), f"{seconds:.0f}", detail)
    return table


def _loads_table(outcome: Outcome) -> Table:
    table = Table(title="promises", title_justify="left", show_lines=True)
    table.add_column("load", no_wrap=True)
    table.add_column("promise")
    table.add_column("figures")
    table.add_column("problems", justify="right")
    for name, (about, judgement) in outcome.judged.items():
        figures = "\n".join(f"{what}: {value}" for what, value in judgement.figures.items())
        table.add_row(name, about, figures, str(len(judgement.problems)))
    return table


def _print_problems(console: Console, name: str, problems: Sequence[str]) -> None:
    for problem in problems[:SHOWN]:
        console.print(f"PROBLEM {name}: {problem}", markup=False, highlight=False, soft_wrap=True)
    if len(problems) > SHOWN:
        console.print(f"PROBLEM {name}: and {len(problems) - SHOWN} more", highlight=False)
