"""Plots with matplotlib, all of one look. A legend stands below the panels, so that it hides nothing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from bench.statistics import Spread, range_of

WIDTH, HEIGHT = 8.0, 3.6  # inches, for one row of panels
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999999", "#8c564b")
MARKERS = "os^Dv<>pX"
RANGE: dict[str, Any] = {"elinewidth": 0.9, "capsize": 2, "capthick": 0.9}  # of repetitions
CROSS: dict[str, Any] = {"marker": "x", "color": "black", "markersize": 7, "markeredgewidth": 1.8, "linestyle": ""}
MANY_TICKS = 200  # times the lowest: from there on there would be too many

Points = Sequence[tuple[float, float]]


def make_panels(
    count: int, height: float = HEIGHT, rows: int = 1, width: float = WIDTH
) -> tuple[Figure, list[Any]]:
    """A figure with so many panels beside each other, in each of the rows."""
    figure = Figure(figsize=(width, height), layout="constrained")
    panels = figure.subplots(rows, count, squeeze=False).ravel().tolist()
    for panel in panels:
        panel.grid(linewidth=0.3)
        panel.spines[["top", "right"]].set_visible(False)
    return figure, panels


def add_legend(figure: Figure, panel: Any, columns: int = 4) -> None:
    handles, names = panel.get_legend_handles_labels()
    if handles:
        figure.legend(handles, names, loc="outside lower center", ncols=columns, frameon=False, fontsize=8)


def draw_lines(panel: Any, lines: Mapping[str, Points], title: str, x: str, y: str, **line: Any) -> None:
    """Lines with their points, in the order in which they are given. What was repeated has a bar for its range.

    A line has a gap where a value is no number.
    """
    for number, (name, points) in enumerate(lines.items()):
        if points:
            style = {"marker": MARKERS[number % len(MARKERS)], "markersize": 4, "linewidth": 1.2, **line}
            panel.plot(*zip(*points, strict=True), label=name, color=COLOURS[number % len(COLOURS)], **style)
            _draw_ranges(panel, points, COLOURS[number % len(COLOURS)])
    label(panel, title, x, y)


def _draw_ranges(panel: Any, points: Points, colour: str) -> None:
    repeated = [point for point in points if isinstance(point[1], Spread) and not math.isnan(point[1])]
    if repeated:
        places, values = zip(*repeated, strict=True)
        panel.errorbar(places, values, _errors(values), fmt="none", ecolor=colour, **RANGE)


def _errors(values: Iterable[float]) -> list[list[float]] | None:
    """How far the range goes down, and how far up; None if nothing was repeated."""
    ranges = [(each - low, high - each) for each in values for low, high in [range_of(each)]]
    return [list(each) for each in zip(*ranges, strict=True)] if any(map(any, ranges)) else None


def draw_bars(
    panel: Any,
    bars: Mapping[str, Mapping[str, float]],
    title: str,
    y: str,
    goals: Mapping[str, float] | None = None,
    theirs: Mapping[str, Mapping[str, float]] | None = None,
) -> None:
    """Groups of bars. What was repeated has a line for its range; what is no number has no bar.

    :param bars: of each series, of each group its value.
    :param goals: of a group, a line across it.
    :param theirs: a report's own figures, as `bars`; each is a cross on the bar of the same series and group.
    """
    groups = list(dict.fromkeys(group for series in bars.values() for group in series))
    bars = {
        name: {group: each for group, each in series.items() if not math.isnan(each)}
        for name, series in bars.items()
    }
    width = 0.8 / max(len(bars), 1)
    crosses: list[tuple[float, float]] = []
    for number, (name, series) in enumerate(bars.items()):
        places = [groups.index(group) + (number - (len(bars) - 1) / 2) * width for group in series]
        drawn = panel.bar(
            places,
            list(series.values()),
            width * 0.92,
            label=name,
            color=COLOURS[number % len(COLOURS)],
            yerr=_errors(series.values()),
            error_kw=RANGE,
        )
        panel.bar_label(drawn, [f"{each:.3g}" for each in series.values()], fontsize=6, padding=1)
        known = (theirs or {}).get(name, {})
        crosses += [(at, known[group]) for at, group in zip(places, series, strict=True) if group in known]
    if crosses:
        panel.plot(*zip(*crosses, strict=True), **CROSS, label="the report's own")
    for number, (group, goal) in enumerate((goals or {}).items()):
        if group in groups:
            place = groups.index(group)
            panel.plot(
                [place - 0.45, place + 0.45],
                [goal, goal],
                color="black",
                linewidth=1.2,
                linestyle=":",
                label=None if number else "goal",
            )
    panel.set_xticks(range(len(groups)), groups)
    panel.grid(visible=False, axis="x")
    panel.set_axisbelow(True)
    label(panel, title, "", y)


def make_logarithmic(panel: Any, axes: str = "xy") -> None:
    """With ticks at 1, 2, 5, 10, ... or 1, 10, ... To be called when all is drawn."""
    for each in axes:
        axis = getattr(panel, f"{each}axis")
        low, high = axis.get_data_interval()
        if low > high:
            continue  # nothing is drawn
        getattr(panel, f"set_{each}scale")("log")
        axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < MANY_TICKS * low else (1,)))
        axis.set_major_formatter(StrMethodFormatter("{x:,.10g}"))
        axis.set_minor_formatter(NullFormatter())


def label(panel: Any, title: str, x: str, y: str) -> None:
    panel.set_title(title, fontsize=10)
    panel.set_xlabel(x, fontsize=9)
    panel.set_ylabel(y, fontsize=9)
    panel.tick_params(labelsize=8)
