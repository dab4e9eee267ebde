"""The first screen of a report: does it scale, what does it cost, when does it not help."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bench.lab import Shape
from bench.report.charts import add_legend, draw_lines, make_panels
from bench.report.section import Front, Plot, goal_is_met
from bench.scenarios import ensembles_added, scaling
from bench.scenarios.evaluation import READ_SHARES
from bench.scenarios.repetitions import fold
from bench.scenarios.scaling_sizes import HASHED, HOT

Documents = Mapping[str, Mapping[str, Any]]  # by scenario, or part of one
Ratios = Mapping[str, float]  # by load of bench.client

SCALES, COSTS, NO_HELP = "Does it scale?", "What does it cost?", "When does it not help?"
VERDICTS = {True: "Yes: ", False: "Less than the goals: ", None: ""}
NOT_HERE = "not measured here"
SHORT = "too short a run to say"
PLOT = "times-of-one-ensemble"
PLOT_WIDTH, PLOT_HEIGHT = 4.4, 3.3  # inches: a phone shows it without scrolling


def make_front(documents: Documents, ratios: Ratios) -> Front:
    """
    :param documents: what was measured.
    :param ratios: of loads of bench.client, the median; empty if it did not run.
    """
    folded = {name: {**each, "runs": fold(each["runs"])} for name, each in documents.items()}
    return Front(answers_of(folded, ratios), _plots(folded))


def answers_of(documents: Documents, ratios: Ratios) -> dict[str, str]:
    """Of each of the three questions, a sentence. It says so where a result is missing or too short.

    :param documents: with folded runs.
    """
    return {
        SCALES: _sentence(_scales(documents)),
        COSTS: _sentence("; ".join(_costs(documents, ratios))),
        NO_HELP: _sentence("; ".join(_no_help(documents, ratios))),
    }


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _scales(documents: Documents) -> str:
    document = scaling.chosen(documents, scaling.SCALING)
    times = scaling.times_of_one(document)
    several = {
        load: {count: each for count, each in times.get(load, {}).items() if count > 1} for load in READ_SHARES
    }
    if not any(several.values()):
        return f"{NOT_HERE} (python -m bench.scenarios {scaling.NAME} --emulate)"
    counts = sorted({count for of in several.values() for count in of})
    writes, reads = (
        _listed([_figure(several[load].get(count)) for count in counts]) for load in ("writes", "reads")
    )
    limit = document.get("rate_bytes_s")
    where = f"each server's network card carries {limit * 8 / 1e6:g} Mbit/s" if limit else "unlimited bandwidth"
    return (
        f"{VERDICTS[_goals_are_met(several)]}{_listed([*map(str, counts)])} ensembles do {writes} times "
        f"the writes of one, and {reads} times the reads, if clients keep all busy ({where})"
    )


def _listed(words: Sequence[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def _goals_are_met(several: Mapping[str, Mapping[int, float]]) -> bool | None:
    goals = {Shape.parse(shape).ensembles: goal for (_, shape), goal in scaling.GOALS.items()}
    met = [
        goal_is_met([each], goals[count])
        for of in several.values()
        for count, each in of.items()
        if count in goals
    ]
    return None if not met or None in met else all(met)


def _costs(documents: Documents, ratios: Ratios) -> Iterable[str]:
    yield _said("the first child of a directory", " takes", ratios.get("first-child"), "as long as a further one")
    yield _said("NoNode on a cluster that has grown", " takes", ratios.get("grown-missing"), "as long")
    document = documents.get(ensembles_added.NAME)
    times = {run["part"]: ensembles_added.times_as_late(run) for run in document["runs"]} if document else {}
    for part, about, does in (
        (
            ensembles_added.LIMIT,
            "the slowest percent of requests while ensembles are added to full ones",
            " takes",
        ),
        (ensembles_added.LATENCY, "at a low rate", ", it takes"),
    ):
        worst = max(times[part].values()) if times.get(part) else None
        yield _said(about, does, worst, "as long")


def _no_help(documents: Documents, ratios: Ratios) -> Iterable[str]:
    yield _said(
        "a client that waits for each answer",
        " does on three ensembles",
        ratios.get("ensembles-sync"),
        "the operations/s that it does on one",
    )
    shares = scaling.share_of_even(scaling.chosen(documents, scaling.SKEW))
    of_even = "the writes of evenly spread ones"
    yield _said("if all writes go to one directory", ", three ensembles do", shares.get(HOT), of_even)
    yield _said("if the directory of each write is drawn anew", ", they do", shares.get(HASHED), of_even)


def _said(about: str, does: str, times: float | None, as_what: str) -> str:
    if times is None:
        return f"{about}: {NOT_HERE}"
    return f"{about}: {SHORT}" if math.isnan(times) else f"{about}{does} {_figure(times)} times {as_what}"


def _figure(value: float | None) -> str:
    if value is None or math.isnan(value):
        return f"({NOT_HERE if value is None else SHORT})"
    return f"{value:.3g}"


def _plots(documents: Documents) -> list[Plot]:
    times = scaling.times_of_one(scaling.chosen(documents, scaling.SCALING))
    lines = {
        load: [(count, each) for count, each in sorted(of.items()) if not math.isnan(each)]
        for load, of in times.items()
    }
    counts = [count for points in lines.values() for count, _ in points]
    if not counts or max(counts) == 1:
        return []
    figure, (panel,) = make_panels(1, PLOT_HEIGHT, width=PLOT_WIDTH)
    panel.plot([0, max(counts)], [0, max(counts)], color="0.6", linestyle=":", label="as many times")
    draw_lines(panel, lines, "", "ensembles of three servers", "times one ensemble's requests/s")
    panel.set_xlim(left=0)
    panel.set_ylim(bottom=0)
    panel.set_xticks(sorted({*counts}))
    add_legend(figure, panel)
    about = (
        f"Requests/s of several ensembles, as multiples of {' on '.join(scaling.BASE)}, if clients keep all busy"
    )
    return [Plot(PLOT, about, figure)]
