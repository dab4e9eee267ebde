"""Scaling: how much more several ensembles do than one, at equal bandwidth of each server."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench import statistics
from bench.lab import Ensembles, Shape
from bench.report.charts import add_legend, draw_bars, make_panels
from bench.report.section import Answer, Plot, Section, Table, goal_is_met
from bench.report.text import NOTHING, plain, rate, rate_of, ratio, share
from bench.scenarios.caveats import caveats_of
from bench.scenarios.evaluation import LARGE, RATE_BYTES_S, READ_SHARES, Evaluation
from bench.scenarios.repetitions import times_of
from bench.scenarios.thesis_figures import TIMES, UNLIKE

Runs = Sequence[Mapping[str, Any]]

NAME = "scaling"
TITLE = "Scaling: more ensembles, more requests"
LOADS = {"writes": 0.0, "reads": 1.0, "90% reads": 0.9}
GOALS = {("parkazoo", "3x3"): 2.85, ("parkazoo", "9x3"): 8.5, ("parkazoo", "20x3"): 18}
SCALING, SKEW = "scaling", "skew"  # the parts
THESIS = {("parkazoo", "3x3"): TIMES}  # it ran no other shape of several ensembles
BASE = ("kazoo", "1x3")
# Requests of all clients together, for each ensemble: enough to keep it busy, and few enough for a leader of nine,
# whose network card has to carry each eight times, not to be so late that clients take it for dead.
OUTSTANDING = 48
OF_AN_ENSEMBLE = 4  # directories
# What is drawn, and how the directory of a request is chosen there.
EVEN, HASHED, HOT = "even, spread", "even, as hashed", "one directory"
SKEWS: dict[str, dict[str, Any]] = {
    EVEN: {},
    HASHED: {"is_hashed": True},
    "Zipf 0.5": {"zipf": 0.5},
    "Zipf 1": {"zipf": 1.0},
    "Zipf 2": {"zipf": 2.0},
    HOT: {"directories": 1},
}


@dataclass(frozen=True)
class Size:
    """
    :param systems: what is measured on each shape.
    :param clients: of all hosts together, on ensembles of up to three servers; twice as many on larger ones, so
        that each server has some.
    :param repeat: how often each load is run; skewed ones are run once.
    :param rate_bytes_s: of each server's network card, where all share one machine.
    """

    systems: Mapping[str, Sequence[str]]
    clients: int
    warm_up_s: float
    measure_s: float
    loads: Sequence[str] = tuple(LOADS)
    skews: Sequence[str] = tuple(SKEWS)
    skew_shape: str = "3x3"
    repeat: int = 3
    rate_bytes_s: float = RATE_BYTES_S


SIZES = {
    "small": Size({"1x1": ("kazoo",), "2x1": ("parkazoo",)}, 4, 0.2, 0.6, ("90% reads",), ("Zipf 1",), "2x1", 2),
    "medium": Size(
        {
            "1x3": ("kazoo", "parkazoo"),
            "1x9": ("kazoo",),
            "3x3": ("parkazoo",),
            "9x3": ("parkazoo",),
        },
        24,
        2,
        7,
        skews=(EVEN, HASHED, "Zipf 1", HOT),
    ),
    "full": Size(
        {
            "1x3": ("kazoo", "parkazoo"),
            "1x9": ("kazoo", "parkazoo"),
            "3x3": ("parkazoo",),
            "6x3": ("parkazoo",),
            "9x3": ("parkazoo",),
        },
        48,
        10,
        60,
    ),
    # Sixty servers share the processors too, so a quarter of the bandwidth is to be the limit, of writes alone.
    LARGE: Size(
        {"1x3": ("kazoo",), "20x3": ("parkazoo",)},
        24,
        5,
        30,
        loads=("writes",),
        skews=(),
        rate_bytes_s=RATE_BYTES_S / 4,
    ),
}


def measure(evaluation: Evaluation) -> None:
    size = SIZES[evaluation.size]
    for shape, systems in size.systems.items():
        with evaluation.ensembles(shape) as ensembles:
            settings = {system: _settings(evaluation, size, ensembles, system) for system in systems}
            for system in systems:
                evaluation.warm_up(evaluation.plan(ensembles, system, read_share=0.5, **settings[system]))
            with evaluation.limited(ensembles.servers, size.rate_bytes_s) as rate_bytes_s:
                evaluation.document["rate_bytes_s"] = rate_bytes_s
                for _ in evaluation.rounds(size.repeat):
                    for system in systems:
                        _measure_loads(evaluation, ensembles, system, size, settings[system])
                if shape == size.skew_shape:
                    for _ in evaluation.rounds():
                        _measure_skews(evaluation, ensembles, size, settings["parkazoo"])


def _settings(evaluation: Evaluation, size: Size, ensembles: Ensembles, system: str) -> dict[str, Any]:
    clients = size.clients * (1 if ensembles.shape.servers <= 3 else 2)
    sequences = OUTSTANDING // clients * (ensembles.shape.ensembles if system == "parkazoo" else 1)
    nodes = len(evaluation.lab.clients)
    return {
        "threads": max(clients // nodes, 1),
        "in_flight": max(sequences, ensembles.shape.ensembles),
        "directories": OF_AN_ENSEMBLE * ensembles.shape.ensembles,
        "is_pinned": True,
        "warm_up_s": size.warm_up_s,
        "measure_s": size.measure_s,
    }


def _measure_loads(
    evaluation: Evaluation, ensembles: Ensembles, system: str, size: Size, settings: Mapping[str, Any]
) -> None:
    for load in size.loads:
        plan = evaluation.plan(ensembles, system, read_share=LOADS[load], **settings)
        evaluation.run(ensembles, plan, {"part": SCALING, "load": load})


def _measure_skews(evaluation: Evaluation, ensembles: Ensembles, size: Size, settings: Mapping[str, Any]) -> None:
    for name in size.skews:
        entries = {**settings, "is_pinned": False, "directories": 12 * ensembles.shape.ensembles, **SKEWS[name]}
        evaluation.run(ensembles, evaluation.plan(ensembles, "parkazoo", **entries), {"part": SKEW, "load": name})


def show(document: Mapping[str, Any]) -> Section:
    runs, skews = _of_part(document, SCALING), _of_part(document, SKEW)
    base = next((each for each in map(_subject, runs) if each == BASE), _subject(runs[0]))
    ratios = _ratios(runs, base)
    return Section(
        NAME,
        TITLE,
        _about(document),
        [_table(runs, ratios, base), *([_skew_table(skews)] if skews else [])],
        [_plot(ratios, base), *([_skew_plot(skews)] if skews else [])],
        [
            "Each client has as many requests outstanding on every ensemble. A program whose next request waits "
            "for the slowest ensemble gains less, as the skewed loads show.",
            *caveats_of(document),
        ],
        _answers(ratios, base),
    )


def times_of_one(document: Mapping[str, Any]) -> dict[str, dict[int, float]]:
    """Of each load, the requests/s of ParKazoo on so many ensembles of three, as multiples of kazoo's on one.

    :param document: with folded runs.
    """
    found: dict[str, dict[int, float]] = {}
    for load, of in _ratios(_of_part(document, SCALING), BASE).items():
        for (system, name), times in of.items():
            shape = Shape.parse(name)
            if system != BASE[0] and shape.servers == Shape.parse(BASE[1]).servers:
                found.setdefault(load, {})[shape.ensembles] = times
    return found


def share_of_even(document: Mapping[str, Any]) -> dict[str, float]:
    """Of each skewed load, its writes/s as a share of those in evenly spread directories.

    :param document: with folded runs.
    """
    rates = {run["load"]: run["rates"]["all"] for run in _of_part(document, SKEW)}
    return {load: statistics.ratio(each, rates[EVEN]) for load, each in rates.items()} if EVEN in rates else {}


def _answers(ratios: Mapping[str, Mapping[tuple[str, str], float]], base: tuple[str, str]) -> list[Answer]:
    answers = []
    for subject, goal in GOALS.items():
        times = {load: of[subject] for load, of in ratios.items() if subject in of}
        if base == BASE and times:
            measured = ", ".join(f"{load} {plain(each, '{:.2f}'.format)}" for load, each in times.items())
            asked = f"How many times the requests of one ensemble of three does {subject[1]} answer?"
            answers.append(Answer(asked, f"at least {goal:g}", measured, goal_is_met([*times.values()], goal)))
    return answers


def _of_part(document: Mapping[str, Any], part: str) -> list[Mapping[str, Any]]:
    return [run for run in document["runs"] if run["part"] == part]


def _about(document: Mapping[str, Any]) -> str:
    limit = document.get("rate_bytes_s")
    bandwidth = (
        f"The network card of each server sends and receives {limit * 8 / 1e6:g} Mbit/s at most, from when the "
        "servers have warmed up. "
        if limit
        else "Bandwidth is not limited. "
    )
    return (
        f"{bandwidth}Values have 1 KiB; creates and deletes both count as writes. Clients keep {OUTSTANDING} "
        "requests outstanding for each ensemble, in directories that are spread evenly over the ensembles. The "
        "skewed loads are writes; there the directory of each create is drawn anew. "
        f"Loads were run {times_of(_of_part(document, SCALING))}, in turns, on the same servers; skewed ones, "
        f"{times_of(_of_part(document, SKEW))}."
    )


def _subject(run: Mapping[str, Any]) -> tuple[str, str]:
    return run["system"], run["shape"]


def _ratios(runs: Runs, base: tuple[str, str]) -> dict[str, dict[tuple[str, str], float]]:
    """Of each load, how many times the base's requests/s each system and shape had."""
    ratios = {}
    for load in LOADS:
        rates = {_subject(run): run["rates"]["all"] for run in runs if run["load"] == load}
        if rates.get(base):
            ratios[load] = {
                subject: each / each if subject == base else statistics.ratio(each, rates[base])
                for subject, each in rates.items()
            }
    return ratios


def _table(runs: Runs, ratios: Mapping[str, Mapping[tuple[str, str], float]], base: tuple[str, str]) -> Table:
    rows = []
    for subject in dict.fromkeys(map(_subject, runs)):
        row = [*subject]
        for load in LOADS:
            run = next((each for each in runs if _subject(each) == subject and each["load"] == load), None)
            row.append(rate_of(run) if run else NOTHING)
            row.append(rate(ratios.get(load, {}).get(subject)))
        known = [rate(THESIS.get(subject, {}).get(load)) for load in READ_SHARES]
        rows.append([*row, rate(GOALS.get(subject)), *known])
    loads = [name for load in LOADS for name in (f"{load}/s", "times")]
    return Table(
        f"Requests/s, and how many times those of {base[0]} on {base[1]}",
        ("system", "shape", *loads, "goal", *(f"thesis, {load}" for load in READ_SHARES)),
        rows,
    )


def _plot(ratios: Mapping[str, Mapping[tuple[str, str], float]], base: tuple[str, str]) -> Plot:
    figure, panels = make_panels(1)
    bars = {load: {"\n".join(subject): each for subject, each in of.items()} for load, of in ratios.items()}
    goals = {"\n".join(subject): goal for subject, goal in GOALS.items()}
    theirs = {load: {"\n".join(subject): each[load] for subject, each in THESIS.items()} for load in READ_SHARES}
    draw_bars(panels[0], bars, "", f"times {base[0]} on {base[1]}", goals, theirs if base == BASE else {})
    add_legend(figure, panels[0])
    return Plot(
        NAME,
        f"Requests/s on each shape, as a multiple of those of {base[0]} on {base[1]}; "
        f"crosses are the thesis' own ({UNLIKE}), and lines the ranges of repetitions",
        figure,
    )


def _skew_table(skews: Runs) -> Table:
    best = float(max((rate for run in skews if not math.isnan(rate := run["rates"]["all"])), default=0.0))
    return Table(
        "Skewed load: writes, the directory of each create drawn anew",
        ("directories", "shape", "writes/s", "of the best", "share of the busiest ensemble"),
        [
            [run["load"], run["shape"], rate_of(run), ratio(run["rates"]["all"], best), share(_busiest(run))]
            for run in skews
        ],
    )


def _busiest(run: Mapping[str, Any]) -> float | None:
    """The share of the ensemble that answered most."""
    if run.get("is_too_short"):
        return None
    answered = [sum(each["answered"]) for each in run["over_time"]["ensembles"]]
    return float(max(answered) / (sum(answered) or 1))


def _skew_plot(skews: Runs) -> Plot:
    figure, panels = make_panels(1)
    bars = {"writes": {run["load"].replace(", ", ",\n"): run["rates"]["all"] for run in skews}}
    draw_bars(panels[0], bars, "", "writes/s")
    return Plot(f"{NAME}-skew", "Writes/s while some directories are hotter than others", figure)
