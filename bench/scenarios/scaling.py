"""Scaling: how much more several ensembles do than one, at equal limits of each server, and how late."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

from bench import statistics
from bench.lab import Ensembles, Shape
from bench.report.charts import add_legend, draw_bars, make_panels
from bench.report.section import Answer, Plot, Section, Table, goal_is_met
from bench.report.text import MARK, NOTHING, milliseconds, plain, rate, rate_of, ratio, share
from bench.scenarios import scaling_sizes
from bench.scenarios.accounts import force_ms
from bench.scenarios.caveats import caveats_of
from bench.scenarios.evaluation import READ_SHARES, Evaluation, LoadError
from bench.scenarios.repetitions import times_of
from bench.scenarios.scaling_sizes import (
    EVEN,
    LOADS,
    LOW,
    NO_LIMIT,
    SKEWS,
    Size,
    name_rate,
)
from bench.scenarios.summary import is_too_short, latency_s
from bench.scenarios.thesis_figures import TIMES, UNLIKE
from bench.statistics import scaled

Runs = Sequence[Mapping[str, Any]]
Ratios = Mapping[str, Mapping[tuple[str, str], float]]  # of each load, times the base

NAME = "scaling"
TITLE = "Scaling: more ensembles, more requests"
SIZES = scaling_sizes.SIZES
GOALS = {("parkazoo", "3x3"): 2.85, ("parkazoo", "9x3"): 8.5, ("parkazoo", "20x3"): 18}
SCALING, SKEW, LATENCY = "scaling", "skew", "latency"  # what a run is for
THESIS = {("parkazoo", "3x3"): TIMES}  # it ran no other shape of several ensembles
BASE = ("kazoo", "1x3")
OF_AN_ENSEMBLE = 4  # directories
PERCENTILES_SHOWN = (50.0, 99.0)


def measure(evaluation: Evaluation) -> None:
    size = evaluation.chosen(SIZES)
    evaluation.tell(f"{size.limit.name}: about {size.estimate_s() / 60:.0f} minutes on two processors")
    for shape, systems in size.systems.items():
        with evaluation.ensembles(shape, disk_wait_s=size.limit.disk_wait_s) as ensembles:
            measure_shape(evaluation, ensembles, size, systems)


def measure_shape(evaluation: Evaluation, ensembles: Ensembles, size: Size, systems: Sequence[str]) -> None:
    settings = {system: _settings(evaluation, size, ensembles, system) for system in systems}
    for system in systems:
        evaluation.warm_up(evaluation.plan(ensembles, system, read_share=0.5, **settings[system]))
    limit, document = size.limit, evaluation.document
    limited: AbstractContextManager[float | None] = nullcontext()
    if limit.rate_bytes_s:
        limited = evaluation.limited(ensembles.servers, limit.rate_bytes_s)
    with limited as rate_bytes_s:
        document["rate_bytes_s"] = rate_bytes_s
        document["limit"] = limit.name if rate_bytes_s or limit.disk_wait_s else NO_LIMIT
        for _ in evaluation.rounds(size.repeat):
            for system in systems:
                _measure_loads(evaluation, ensembles, system, size, settings[system])
        if size.shares:
            for _ in evaluation.rounds():
                for system in systems:
                    _measure_latency(evaluation, ensembles, system, size, settings[system])
        if str(ensembles.shape) == size.skew_shape:
            for _ in evaluation.rounds():
                _measure_skews(evaluation, ensembles, size, settings["parkazoo"])
    if limit.disk_wait_s:
        document["disk_wait_s"] = limit.disk_wait_s
        document.setdefault("force_ms", []).extend(force_ms(evaluation.lab, ensembles))


def _settings(evaluation: Evaluation, size: Size, ensembles: Ensembles, system: str) -> dict[str, Any]:
    clients = size.clients * (1 if ensembles.shape.servers <= 3 else 2)
    sequences = size.limit.outstanding // clients * (ensembles.shape.ensembles if system == "parkazoo" else 1)
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
    evaluation: Evaluation,
    ensembles: Ensembles,
    system: str,
    size: Size,
    settings: Mapping[str, Any],
) -> None:
    for load in size.loads:
        plan = evaluation.plan(ensembles, system, read_share=LOADS[load], **settings)
        with suppress(LoadError):
            evaluation.run(ensembles, plan, {"part": SCALING, "load": load})


def _measure_latency(
    evaluation: Evaluation,
    ensembles: Ensembles,
    system: str,
    size: Size,
    settings: Mapping[str, Any],
) -> None:
    """In an open loop, at shares of the rate that the closed loop had."""
    settings = {**settings, "in_flight": 1, "is_pinned": False}
    for load in size.open_loads:
        closed = {"part": SCALING, "load": load, "shape": str(ensembles.shape), "system": system}
        runs = [run for run in evaluation.document["runs"] if closed.items() <= run.items()]
        rates = [run["rates"]["all"] for run in runs if not is_too_short(run)]
        if not rates or not min(rates):
            evaluation.not_measured(
                f"latency of {load}, {system} on {ensembles.shape}", "no rate of the closed loop"
            )
            continue
        for of_rate in size.shares:
            target = float(of_rate * statistics.spread(rates))
            plan = evaluation.plan(ensembles, system, read_share=LOADS[load], rate_s=target, **settings)
            label = {"part": LATENCY, "load": load, "share": of_rate, "target": target}
            with suppress(LoadError):
                evaluation.run(ensembles, plan, label)


def _measure_skews(
    evaluation: Evaluation,
    ensembles: Ensembles,
    size: Size,
    settings: Mapping[str, Any],
) -> None:
    for name in size.skews:
        entries = {**settings, "is_pinned": False, "directories": 12 * ensembles.shape.ensembles, **SKEWS[name]}
        plan = evaluation.plan(ensembles, "parkazoo", **entries)
        with suppress(LoadError):
            evaluation.run(ensembles, plan, {"part": SKEW, "load": name})


def show(document: Mapping[str, Any]) -> Section:
    runs, skews, late = (_of_part(document, each) for each in (SCALING, SKEW, LATENCY))
    base = next((each for each in map(_subject, runs) if each == BASE), _subject(runs[0]))
    ratios = _ratios(runs, base)
    limit = limit_of(document)
    return Section(
        NAME,
        TITLE,
        _about(document),
        [
            _table(runs, ratios, base),
            *([_latency_table(late, limit)] if late else []),
            *([_skew_table(skews)] if skews else []),
        ],
        [
            _plot(ratios, base),
            *([_latency_plot(late, limit)] if late else []),
            *([_skew_plot(skews)] if skews else []),
        ],
        [
            "Each client has as many requests outstanding on every ensemble. A program whose next request waits "
            "for the slowest ensemble gains less, as the skewed loads show.",
            *caveats_of(document),
        ],
        _answers(runs, ratios, base, limit),
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


def chosen(documents: Mapping[str, Mapping[str, Any]], part: str) -> Mapping[str, Any]:
    """The results with the most runs of a part, under the usual limit if there are any under it; else nothing.

    :param documents: by scenario, or part of one.
    """
    found = [each for name, each in documents.items() if name.partition("-")[0] == NAME and _of_part(each, part)]
    return max(found, key=lambda each: (limit_of(each) in LOW, len(_of_part(each, part))), default={"runs": []})


def limit_of(document: Mapping[str, Any]) -> str:
    """Results before 2026-11-26 do not name it."""
    rate_bytes_s = document.get("rate_bytes_s")
    return str(document.get("limit") or (name_rate(rate_bytes_s) if rate_bytes_s else NO_LIMIT))


def _answers(runs: Runs, ratios: Ratios, base: tuple[str, str], limit: str) -> list[Answer]:
    """A goal holds where a server's own limit was the limit: not without one, nor where processors were busy."""
    busy = {(_subject(run), run["load"]) for run in runs if run["limits"] and limit not in LOW}
    behind = "" if limit in LOW else f" ({limit})"
    answers = []
    for subject, goal in GOALS.items():
        times = {load: of[subject] for load, of in ratios.items() if subject in of}
        if base == BASE and times:
            measured = ", ".join(
                f"{load} {plain(each, '{:.2f}'.format)}{MARK if (subject, load) in busy else ''}"
                for load, each in times.items()
            )
            asked = f"How many times the requests of one ensemble of three does {subject[1]} answer?{behind}"
            judged = [each for load, each in times.items() if not busy & {(subject, load), (base, load)}]
            if limit == NO_LIMIT or not judged:
                answers.append(Answer(asked, "", measured))
            else:
                answers.append(Answer(asked, f"at least {goal:g}", measured, goal_is_met(judged, goal)))
    return answers


def _of_part(document: Mapping[str, Any], part: str) -> list[Mapping[str, Any]]:
    return [run for run in document["runs"] if run["part"] == part]


def _about(document: Mapping[str, Any]) -> str:
    runs, late, limit = _of_part(document, SCALING), _of_part(document, LATENCY), document.get("rate_bytes_s")
    bandwidth = (
        f"The network card of each server sends and receives {name_rate(limit)} at most, from when the "
        "servers have warmed up. "
        if limit
        else "Bandwidth is not limited. "
    )
    disk = ""
    if wait_s := document.get("disk_wait_s"):
        said = document["force_ms"]
        counted = f"; as the servers count it, {min(said):.4g} to {max(said):.4g} ms in the mean" if said else ""
        disk = f"Each fsync of a server takes {wait_s * 1000:g} ms{counted}. "
    outstanding = " or ".join(map(str, sorted(set(map(_outstanding, runs)))))
    latency = (
        " Latency is that of an open loop: requests come at random times, at a share of the rate that the closed "
        f"loop had, and count from the time that they were meant for; these were run {times_of(late)}."
        if late
        else ""
    )
    return (
        f"{bandwidth}{disk}Values have 1 KiB; creates and deletes both count as writes. Clients keep "
        f"{outstanding} requests outstanding for each ensemble, in directories that are spread evenly over the "
        "ensembles. The skewed loads are writes; there the directory of each create is drawn anew. "
        f"Loads were run {times_of(runs)}, in turns, on the same servers; skewed ones, "
        f"{times_of(_of_part(document, SKEW))}.{latency}"
    )


def _outstanding(run: Mapping[str, Any]) -> int:
    """Requests of all clients together, for each ensemble."""
    plan = run["plan"]
    return int(plan["nodes"] * plan["processes"] * plan["threads"] * plan["in_flight"] // plan["ensembles"])


def _latency_table(runs: Runs, limit: str) -> Table:
    rows = [
        [
            *_subject(run),
            run["load"],
            share(run["share"]),
            rate(run["target"]),
            rate_of(run),
            *(milliseconds(latency_s(run, run["load"], each)) for each in PERCENTILES_SHOWN),
        ]
        for run in runs
    ]
    shown = (f"{each:g}%, ms" for each in PERCENTILES_SHOWN)
    return Table(
        f"Latency at a share of the closed loop's rate; {limit}",
        ("system", "shape", "load", "share", "target/s", "achieved/s", *shown),
        rows,
    )


def _latency_plot(runs: Runs, limit: str) -> Plot:
    loads = [load for load in READ_SHARES if any(run["load"] == load for run in runs)]
    figure, panels = make_panels(len(loads))
    for panel, load in zip(panels, loads, strict=True):
        bars: dict[str, dict[str, float]] = {}
        for run in (run for run in runs if run["load"] == load):
            for percentile in PERCENTILES_SHOWN:
                late_s = latency_s(run, load, percentile)
                if late_s is not None:
                    series = bars.setdefault(f"{percentile:g}% at {run['share']:.0%} of the rate", {})
                    series["\n".join(_subject(run))] = scaled(late_s, 1000)
        draw_bars(panel, bars, load, "latency, ms")
    add_legend(figure, panels[0])
    about = f"Median and 99th percentile of latency at shares of the closed loop's rate; {limit}"
    return Plot(f"{NAME}-latency", about, figure)


def _subject(run: Mapping[str, Any]) -> tuple[str, str]:
    return run["system"], run["shape"]


def _ratios(runs: Runs, base: tuple[str, str]) -> Ratios:
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


def _table(runs: Runs, ratios: Ratios, base: tuple[str, str]) -> Table:
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


def _plot(ratios: Ratios, base: tuple[str, str]) -> Plot:
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
