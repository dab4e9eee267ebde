"""Curves: a target rate that is raised until it is no longer achieved, and how late the requests are."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.lab import Ensembles
from bench.report.charts import add_legend, draw_lines, make_logarithmic, make_panels
from bench.report.section import Answer, Plot, Table
from bench.report.text import MARK, NOTHING, milliseconds, rate, rate_of
from bench.scenarios.evaluation import Evaluation, LoadError
from bench.scenarios.summary import is_too_short, latency_s
from bench.statistics import PERCENTILES, cumulate, decode, scaled

Runs = Sequence[Mapping[str, Any]]

POINTS = 400  # of a distribution's line
ACHIEVED = 0.9  # of a target, at least: else the next one is not asked for
SIGMAS = 3  # of a Poisson process
DISTRIBUTION = (1.0, 5.0, 25.0, 50.0, 75.0, 95.0, 99.0)  # percentiles
HOW = (
    "come at random times, at a rate that is raised from run to run until less than 90% of it is achieved, "
    "whether earlier ones were answered or not. Latency counts from the time that a request was meant for, so "
    "that a system which is behind is seen to be; one without an answer counts with the time until the end."
)


@dataclass(frozen=True)
class Targets:
    """Requests/s of all clients together: the first, then `times` as many, and so on, but at most `most_s`.

    :param finer: so many more, between the highest that was achieved and the lowest that was not.
    :param requests: that a window has at least, however few come in a second.
    """

    first_s: float
    times: float
    most_s: float
    finer: int = 0
    requests: int = 0


def raise_target(
    evaluation: Evaluation,
    ensembles: Ensembles,
    system: str,
    targets: Targets,
    label: Mapping[str, Any],
    settings: Mapping[str, Any],
    again: Sequence[float] = (),
) -> Sequence[float]:
    """Until it is no longer achieved, or is so late that it has no figure; then nearer to where that begins.

    :param again: targets that an earlier repetition asked for; they are asked for once more, and no others.
    :returns: the targets.
    """
    asked: list[float] = []

    def ask(target: float) -> bool:
        asked.append(target)
        measure_s = max(settings["measure_s"], targets.requests / target)
        plan = evaluation.plan(ensembles, system, **{**settings, "rate_s": target, "measure_s": measure_s})
        try:
            run = evaluation.run(ensembles, plan, {**label, "target": target})
        except LoadError:
            return False
        return is_achieved(run) and not is_too_short(run)

    if again:
        for each in again:
            ask(each)
        return asked
    reached, target = 0.0, targets.first_s
    while target <= targets.most_s and ask(target):
        reached, target = target, target * targets.times
    if target > targets.most_s or not reached:
        return asked
    for _ in range(targets.finer):
        middle = float(round(math.sqrt(reached * target)))
        if middle in asked:
            break
        if ask(middle):
            reached = middle
        else:
            target = middle
    return asked


def is_achieved(run: Mapping[str, Any]) -> bool:
    """Whether nearly all that was asked for was answered.

    Requests come at random times, and so somewhat more or less often: what chance explains is not missing.
    """
    wanted = ACHIEVED * run["target"] * run["plan"]["measure_s"]
    return bool(run["rates"]["all"] * run["plan"]["measure_s"] >= wanted - SIGMAS * math.sqrt(wanted))


def highest_reached(runs: Runs) -> float | None:
    """The highest target that each subject has achieved; None if there is none."""
    subjects = {subject(run) for run in runs}
    reached = [{run["target"] for run in runs if subject(run) == each and is_achieved(run)} for each in subjects]
    return max(set.intersection(*reached), default=None) if reached else None


def subject(run: Mapping[str, Any]) -> str:
    return f"{run['system']} {run['shape']}"


def in_order(runs: Runs) -> Runs:
    """Each subject's by their targets."""
    names = list(dict.fromkeys(map(subject, runs)))
    return sorted(runs, key=lambda run: (names.index(subject(run)), run["target"]))


def make_table(title: str, runs: Runs) -> Table:
    return Table(
        f"{title}: achieved throughput, and percentiles of latency in ms",
        ("", "target/s", "achieved/s", *(f"{each:g}%" for each in PERCENTILES), "no answer"),
        [
            [
                subject(run),
                rate(run["target"]),
                rate_of(run),
                *(milliseconds(latency_s(run, "writes", each)) for each in PERCENTILES),
                f"{run['unanswered'] + run['failed']:,}",
            ]
            for run in in_order(runs)
        ],
    )


def make_distribution_table(title: str, runs: Runs) -> list[Table]:
    """Of the latency at the highest target that all have reached; none if there is no such target."""
    reached = highest_reached(runs)
    if not reached:
        return []
    return [
        Table(
            f"{title}: distribution of latency at {rate(reached)} requests/s, the highest that all reach, in ms",
            ("", "achieved/s", *(f"{each:g}%" for each in DISTRIBUTION)),
            [
                [
                    subject(run),
                    rate_of(run),
                    *(milliseconds(latency_s(run, "writes", each)) for each in DISTRIBUTION),
                ]
                for run in in_order(runs)
                if run["target"] == reached
            ],
        )
    ]


def make_answer(asked: str, runs: Runs) -> Answer:
    """The highest target that each subject has achieved, that of its repetitions' median."""
    reached: dict[str, float] = {subject(run): 0 for run in runs}
    for run in runs:
        if is_achieved(run):
            reached[subject(run)] = max(reached[subject(run)], run["target"])
    found = (f"{name} {rate(target) if target else NOTHING}" for name, target in reached.items())
    return Answer(asked, "", ", ".join(found))


def make_plots(runs: Runs, scenario: str, about: str) -> list[Plot]:
    """
    :param scenario: its name. :param about: of these runs, for the plots' names and what is said of them.
    """
    runs = in_order(runs)
    plots = [_throughput_plot(runs, scenario, about), _latency_plot(runs, scenario, about)]
    if reached := highest_reached(runs):
        at_it = [run for run in runs if run["target"] == reached]
        plots.append(_distribution_plot(at_it, reached, scenario, about))
    return plots


def _throughput_plot(runs: Runs, scenario: str, about: str) -> Plot:
    figure, panels = make_panels(1)
    lines = {
        name: [(run["target"], run["rates"]["all"]) for run in runs if subject(run) == name]
        for name in dict.fromkeys(map(subject, runs))
    }
    targets = sorted({run["target"] for run in runs})
    panels[0].plot(targets, targets, color="0.7", linestyle=":", label="as asked")
    draw_lines(panels[0], lines, "", "target, requests/s", "achieved, requests/s")
    make_logarithmic(panels[0])
    add_legend(figure, panels[0])
    return Plot(f"{scenario}-throughput-{about}", f"Achieved against target throughput, {about}", figure)


def _latency_plot(runs: Runs, scenario: str, about: str) -> Plot:
    figure, panels = make_panels(2, 6.0, rows=2)
    for panel, percentile in zip(panels, PERCENTILES, strict=True):
        lines = {}
        for name in dict.fromkeys(map(subject, runs)):
            found = [
                (run["rates"]["all"], latency)
                for run in runs
                if subject(run) == name and (latency := latency_s(run, "writes", percentile))
            ]
            lines[name] = [(achieved, scaled(latency, 1000)) for achieved, latency in found]
        draw_lines(panel, lines, f"{percentile:g}th percentile", "achieved, requests/s", "latency, ms")
        make_logarithmic(panel)
    add_legend(figure, panels[0])
    return Plot(f"{scenario}-latency-{about}", f"Latency over achieved throughput, {about}", figure)


def _distribution_plot(runs: Runs, rate_s: float, scenario: str, about: str) -> Plot:
    figure, panels = make_panels(1)
    lines = {}
    for run in runs:
        if "writes" in run["latency"]:
            points = cumulate(decode(run["latency"]["writes"]))
            step = max(1, len(points) // POINTS)
            lines[subject(run) + (MARK if run["limits"] else "")] = [
                (latency * 1000, share) for latency, share in [*points[::step], points[-1]]
            ]
    draw_lines(panels[0], lines, "", "latency, ms", "share of the requests", marker="")
    make_logarithmic(panels[0], "x")
    add_legend(figure, panels[0])
    text = f"Cumulative distribution of latency at {rate_s:g} requests/s, which all reach, {about}"
    return Plot(f"{scenario}-distribution-{about}", text, figure)
