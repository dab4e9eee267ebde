"""What people read at the end of a run, and what programs do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from bench.client.crowd import Crowd
from bench.client.far_start import FarStart
from bench.client.measure import Measure, Spread
from bench.client.measured import Measured
from bench.client.pairing import Outcome
from bench.documents import as_text

Whole = Crowd | FarStart | Measured  # what is not compared in pairs
QUIET_SHARE = 0.05  # of the processors; what others may use in a run whose figures count


def print_outcomes(console: Console, outcomes: Sequence[Outcome], wholes: Mapping[str, Whole]) -> None:
    console.print()
    if outcomes:
        console.print(_table(outcomes))
        console.print(
            "base: its median. ratio: the median over the pairs. limit: the ratio that bare "
            "sockets in Python reach.",
            style="dim",
            highlight=False,
        )
    for each in wholes.values():
        console.print()
        console.print(_whole_table(each))
    for outcome in outcomes:
        if outcome.error:
            console.print(f"NOT MEASURED {outcome.comparison.name}: {outcome.error}", markup=False)
    print_noise(console, outcomes)


def print_noise(console: Console, outcomes: Sequence[Outcome]) -> None:
    """Whether the machine was quiet enough for the figures to be believed."""
    if not outcomes:
        return
    others = max(outcome.others_share for outcome in outcomes)
    busy = sum(outcome.busy_share for outcome in outcomes) / len(outcomes)
    console.print(
        f"\nThe processors were busy {busy:.0%} of the time; other programs used up to {others:.0%} of them"
        + (", so THIS WAS NO QUIET RUN." if others > QUIET_SHARE else "."),
        highlight=False,
    )


def _table(outcomes: Sequence[Outcome]) -> Table:
    base = "old" if any(outcome.comparison.base.checkout for outcome in outcomes) else "kazoo"
    table = Table(title=f"ParKazoo : {base}", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("load", min_width=20)
    table.add_column("measure", no_wrap=True)
    for each in ("base", "ratio", "quartiles", "goal", "limit"):
        table.add_column(each, justify="right", no_wrap=True)
    table.add_column("", min_width=6)
    for outcome in outcomes:
        if outcome.error:
            table.add_row(outcome.comparison.about, "", "", "", "", "", "", "not measured")
            continue
        name = outcome.comparison.about
        for measure in outcome.comparison.goals:
            table.add_row(name, measure.name, *_cells(outcome, measure))
            name = ""  # once
    return table


def _cells(outcome: Outcome, measure: Measure) -> tuple[str, ...]:
    """Base, ratio, quartiles, goal, limit, verdict."""
    ratio = outcome.ratio(measure)
    limit = outcome.comparison.limit
    goal = outcome.comparison.goals[measure]
    base = outcome.value(measure, outcome.comparison.base).median
    return (
        f"{base:,.0f} {measure.unit}",
        f"{ratio.median:.3g}",
        f"{ratio.low:.3g} to {ratio.high:.3g}",
        "" if goal is None else f"{'≥' if measure.is_more_better else '≤'} {goal:g}",
        f"{outcome.ratio(measure, limit).median:.3g}" if limit else "",
        verdict(outcome, measure),
    )


def verdict(outcome: Outcome, measure: Measure) -> str:
    """Whether the median reaches the goal; if not, whether the bare socket does."""
    goal = outcome.comparison.goals[measure]
    if goal is None:
        return ""
    if measure.is_met(outcome.ratio(measure).median, goal):
        return "met"
    limit = outcome.comparison.limit
    if limit is not None and not measure.is_met(outcome.ratio(measure, limit).median, goal):
        return "MISSED, beyond the limit"
    return "MISSED"


def _whole_table(whole: Whole) -> Table:
    if isinstance(whole, Crowd):
        return _crowd_table(whole)
    return _start_table(whole) if isinstance(whole, FarStart) else _measured_table(whole)


def _measured_table(measured: Measured) -> Table:
    table = _plain_table(measured.about, "", "goal")
    table.add_column("")
    for figure in measured.figures:
        table.add_row(*figure.row())
    return table


def _crowd_table(crowd: Crowd) -> Table:
    title = f"{crowd.clients:,} ParKazooClients in one process, {crowd.ensembles} ensembles, using {crowd.used}"
    table = _plain_table(title, "", "goal")
    table.add_column("")
    for what, figure, goal, is_met in crowd.results():
        table.add_row(what, figure, goal, "met" if is_met else "MISSED")
    return table


def _start_table(start: FarStart) -> Table:
    title = f"A ParKazooClient starts; the third of three ensembles is {start.away_s * 1000:g} ms away"
    table = _plain_table(title, "all near", "one far")
    for row in start.rows():
        table.add_row(*row)
    return table


def _plain_table(title: str, *figures: str) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("", no_wrap=True)
    for each in figures:
        table.add_column(each, justify="right")
    return table


def write_results(
    path: Path, about: dict[str, Any], outcomes: Sequence[Outcome], wholes: Mapping[str, Whole]
) -> None:
    """Everything as JSON, each turn with it."""
    document = {
        "about": about,
        "comparisons": [
            outcome.as_json() | {"results": [] if outcome.error else _results(outcome)} for outcome in outcomes
        ],
        "wholes": {name: each.as_json() for name, each in wholes.items()},
    }
    path.write_text(as_text(document))


def _results(outcome: Outcome) -> list[dict[str, Any]]:
    return [
        {
            "measure": measure.name,
            "ratio": _numbers(outcome.ratio(measure)),
            "goal": goal,
            "verdict": verdict(outcome, measure),
            "limit": _numbers(outcome.ratio(measure, limit)) if (limit := outcome.comparison.limit) else None,
            "values": {
                "unit": measure.unit,
                **{side.name: _numbers(outcome.value(measure, side)) for side in outcome.comparison.sides},
            },
        }
        for measure, goal in outcome.comparison.goals.items()
    ]


def _numbers(spread: Spread) -> dict[str, float]:
    return {"low": spread.low, "median": spread.median, "high": spread.high}
