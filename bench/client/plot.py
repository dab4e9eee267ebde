"""The ratios as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator, StrMethodFormatter

from bench.client.measure import Measure
from bench.client.pairing import Outcome

TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 3, 5, 10, 20)
MET, MISSED, NO_GOAL = "tab:green", "tab:red", "tab:gray"
WIDTH, ROW = 13.0, 0.42  # inches
BESIDE = 1.8  # what titles and axes take


def draw(path: Path, outcomes: Sequence[Outcome]) -> None:
    """Two panels: where more is better, and where less is. The name's end says which kind of picture."""
    rows = [
        (outcome, measure) for outcome in outcomes if not outcome.error for measure in outcome.comparison.goals
    ]
    sorts = [[row for row in rows if row[1].is_more_better is is_more_better] for is_more_better in (True, False)]
    figure = Figure(figsize=(WIDTH, ROW * max(map(len, sorts)) + BESIDE), layout="constrained")
    panels = figure.subplots(1, 2)
    for panel, some, title in zip(panels, sorts, ("more is better", "less is better"), strict=True):
        _draw_panel(panel, some, title)
    figure.legend(*panels[1].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def _draw_panel(panel: Any, rows: Sequence[tuple[Outcome, Measure]], title: str) -> None:
    panel.axvline(1, color="black", linewidth=0.8)
    for place, (outcome, measure) in enumerate(rows):
        comparison = outcome.comparison
        ratio, goal = outcome.ratio(measure), comparison.goals[measure]
        colour = NO_GOAL if goal is None else MET if measure.is_met(ratio.median, goal) else MISSED
        error = [[ratio.median - ratio.low], [ratio.high - ratio.median]]
        panel.errorbar(ratio.median, place, xerr=error, fmt="o", color=colour, capsize=3)
        panel.annotate(
            f"{ratio.median:.3g}",
            (ratio.median, place),
            (0, 6),
            textcoords="offset points",
            fontsize=8,
            ha="center",
        )
        if comparison.limit:
            panel.plot(
                outcome.ratio(measure, comparison.limit).median, place, "D", color="tab:blue", fillstyle="none"
            )
        if goal is not None:
            panel.plot(goal, place, "|", color="black", markersize=16)
    panel.set_xscale("log")
    panel.xaxis.set_major_locator(FixedLocator(TICKS))
    panel.xaxis.set_minor_locator(NullLocator())
    panel.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    panel.set_yticks(
        range(len(rows)), [f"{outcome.comparison.about}\n{measure.name}" for outcome, measure in rows]
    )
    panel.tick_params(axis="y", labelsize=7)
    panel.invert_yaxis()
    panel.grid(axis="x", linewidth=0.3)
    panel.set_title(f"ratio: {title}", fontsize=10)
    panel.plot([], [], "o", color=MET, label="median and quartiles; goal met")
    panel.plot([], [], "o", color=MISSED, label="goal missed")
    panel.plot([], [], "o", color=NO_GOAL, label="no goal")
    panel.plot([], [], "|", color="black", markersize=16, label="goal")
    panel.plot([], [], "D", color="tab:blue", fillstyle="none", label="bare socket")
