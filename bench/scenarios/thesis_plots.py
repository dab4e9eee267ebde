"""The plots of the thesis' scenario."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from bench.report.charts import add_legend, draw_bars, draw_lines, make_panels
from bench.report.section import Plot
from bench.scenarios.evaluation import READ_SHARES
from bench.scenarios.thesis_figures import (
    BASE,
    BEST,
    ONE_PROCESS,
    ONE_THREAD,
    THESIS_SUBJECT,
    TIMES,
    TIMES_OF_A_PROCESS,
)
from bench.scenarios.thesis_runs import AGAIN, ONE, SCENARIO, STEP_TITLES, STEPS, Runs, traced

OVER_TIME = {ONE: (ONE_THREAD, "6.1 and 6.2"), AGAIN: ("the best", "6.3 and 6.4")}


def make_times_plot(times: Mapping[str, Mapping[str, float]]) -> Plot:
    figure, panels = make_panels(1)
    theirs = {BEST: TIMES, ONE_PROCESS: TIMES_OF_A_PROCESS}
    draw_bars(panels[0], times, "", f"{THESIS_SUBJECT}, times {BASE}", theirs=theirs)
    add_legend(figure, panels[0])
    return Plot(
        f"{SCENARIO}-times",
        "Requests/s of ParKazooClient on three ensembles as a multiple of kazoo's on one, bandwidth of the "
        "servers limited; crosses are the thesis' own, of its best with unlike numbers of client hosts",
        figure,
    )


def make_trace_plot(runs: Runs, step: str, is_limited: bool) -> Plot:
    """The counterpart of the thesis' figures 6.1 and 6.2, of one thread, or 6.3 and 6.4, of the best."""
    figure, panels = make_panels(2, 6.4, rows=2)
    for row, load in enumerate(READ_SHARES):
        answered, medians = {}, {}
        for run in (run for run in traced(runs, step, is_limited) if run["load"] == load):
            times = run["trace"]
            places = [(place + 0.5) * times["bucket_s"] for place in range(len(times["answered"]))]
            counts = [count / times["bucket_s"] for count in times["answered"]]
            answered[run["subject"]] = list(zip(places, counts, strict=True))
            latencies = [np.nan if each is None else each * 1000 for each in times["median_s"]]
            medians[run["subject"]] = list(zip(places, latencies, strict=True))
        draw_lines(panels[2 * row], answered, load, "seconds", "requests/s", markersize=2.5)
        draw_lines(panels[2 * row + 1], medians, load, "seconds", "median latency, ms", markersize=2.5)
    for panel in panels:
        panel.set_ylim(bottom=0)
    add_legend(figure, next((panel for panel in panels if panel.lines), panels[0]))
    what, theirs = OVER_TIME[step]
    how = "limited" if is_limited else "not limited"
    return Plot(
        f"{SCENARIO}-over-time-{step}-{'limited' if is_limited else 'unlimited'}",
        f"Requests/s and their latency in each second, {what}, bandwidth of the servers {how} (as the thesis' "
        f"figures {theirs}, whose points its text does not give)",
        figure,
    )


def make_step_plot(runs: Runs, step: str, is_limited: bool) -> Plot:
    figure, panels = make_panels(2)
    for panel, load in zip(panels, READ_SHARES, strict=True):
        lines = {}
        for subject in dict.fromkeys(run["subject"] for run in runs):
            some = [run for run in runs if run["subject"] == subject and run["load"] == load]
            lines[subject] = _points(some, step)
        draw_lines(panel, lines, load, STEP_TITLES[step], "requests/s")
        panel.set_xticks(sorted({place for points in lines.values() for place, _ in points}))
        panel.set_ylim(bottom=0)
    add_legend(figure, panels[0])
    how = "limited" if is_limited else "unlimited"
    return Plot(
        f"{SCENARIO}-{step}-{how}",
        f"Requests/s against {STEP_TITLES[step]}, bandwidth of the servers {'' if is_limited else 'not '}limited",
        figure,
    )


def _points(runs: Runs, step: str) -> list[tuple[float, float]]:
    """Those of a step, beginning with the best of the steps before."""
    earlier = [run["rates"]["all"] for run in runs if STEPS.index(run["step"]) < STEPS.index(step)]
    before = [rate for rate in earlier if not math.isnan(rate)]
    found = [(run["plan"][step], run["rates"]["all"]) for run in runs if run["step"] == step]
    return ([(1, max(before))] if before and found else []) + found
