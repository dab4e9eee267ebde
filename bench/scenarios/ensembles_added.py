"""Growth: ensembles are added to the cluster map while clients make new directories."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from bench.lab import Ensembles, LabError
from bench.load.record import ANSWERED
from bench.load.requests import OF_A_NEW_DIRECTORY
from bench.load.result import Result, join
from bench.report.charts import add_legend, draw_lines, make_panels
from bench.report.section import Answer, Plot, Section, Table
from bench.report.text import NOTHING, milliseconds, ranged, rate, rate_of, ratio
from bench.scenarios.caveats import caveats_of
from bench.scenarios.evaluation import VALUE_BYTES, Evaluation, LoadError, sleep_until
from bench.scenarios.repetitions import times_of
from bench.scenarios.summary import SORTS
from bench.statistics import count_by_time, percentile_99, percentile_by_time

NAME = "growth"
TITLE = "Growth: ensembles are added while clients work"
LIMIT, LATENCY = "limit", "latency"  # the parts: one request after the other; at a fixed rate
ABOUT = {LIMIT: "each is sent when one was answered", LATENCY: "requests come at a fixed rate"}
BUCKET_S = 1.0
WINDOW = 3  # buckets in which a rate must be reached
REACHED = 0.9  # of a stage's rate
MOST_P99 = 1.2  # times that before, while a command runs


@dataclass(frozen=True)
class Size:
    """
    :param stages: how many ensembles are in the map, one after the other; the last is all of the shape.
    :param in_flight: requests that each client has outstanding, in the part without a fixed rate.
    :param rate_s: requests/s of all clients together, far less than what one ensemble can do.
    :param repeat: how often the ensembles are added, each time to new ones.
    :param limit_s: from one command to the next, in the part without a fixed rate; `latency_s`, at the fixed one.
    """

    shape: str
    stages: Sequence[int]
    clients: int
    in_flight: int
    rate_s: float
    warm_up_s: float
    limit_s: float
    latency_s: float
    repeat: int = 1


SIZES = {
    "small": Size("2x1", (1, 2), 4, 2, 60, 0.2, 2, 2),
    "medium": Size("6x3", (1, 3, 6), 24, 1, 300, 3, 80, 16),
    "full": Size("6x3", (1, 3, 6), 24, 1, 300, 10, 120, 30),
}


def measure(evaluation: Evaluation) -> None:
    size = SIZES[evaluation.size]
    loads: dict[str, dict[str, Any]] = {
        LIMIT: {"in_flight": size.in_flight, "measure_s": size.limit_s * len(size.stages)},
        LATENCY: {
            "rate_s": size.rate_s,
            "read_share": 0.5,
            "size": VALUE_BYTES,
            "measure_s": size.latency_s * len(size.stages),
        },
    }
    for part, load in loads.items():
        for _ in evaluation.rounds(size.repeat):
            with suppress(LoadError):
                _measure_part(evaluation, size, part, load)


def _measure_part(evaluation: Evaluation, size: Size, part: str, load: Mapping[str, Any]) -> None:
    with evaluation.ensembles(size.shape, mapped=size.stages[0]) as ensembles:
        settings = {**_settings(evaluation, size), **load}
        evaluation.warm_up(evaluation.plan(ensembles, "parkazoo", **settings))
        with evaluation.limited(ensembles.servers) if part == LIMIT else nullcontext() as rate_bytes_s:
            if rate_bytes_s:
                evaluation.document["rate_bytes_s"] = rate_bytes_s
            _measure_growth(evaluation, size, ensembles, settings, part)


def _settings(evaluation: Evaluation, size: Size) -> dict[str, Any]:
    return {
        "ensembles": size.stages[0],
        "write": "new-directories",
        "threads": max(size.clients // len(evaluation.lab.clients), 1),
        "directories": size.clients,
        "warm_up_s": size.warm_up_s,
    }


def _measure_growth(
    evaluation: Evaluation, size: Size, ensembles: Ensembles, settings: Mapping[str, Any], part: str
) -> None:
    plan = evaluation.plan(ensembles, "parkazoo", **settings)
    names, commands = ensembles.shape.names, []
    stage_s = plan.measure_s / len(size.stages)

    def grow(begun_s: float) -> None:
        for number, (before, after) in enumerate(pairwise(size.stages), 1):
            planned_s = begun_s + plan.warm_up_s + number * stage_s
            sleep_until(planned_s)
            began_s = time.time()
            if began_s > planned_s + stage_s / 2:
                raise LabError(f"the command that made it {before} ensembles took too long: it left no time")
            evaluation.lab.grow(ensembles, names[before:after])
            commands.append({"ensembles": after, "began_s": began_s, "ended_s": time.time()})
            evaluation.tell(f"  {after} ensembles, by a command of {time.time() - began_s:.1f} s")

    run = evaluation.run(ensembles, plan, {"part": part}, grow, BUCKET_S)
    results, first_s = evaluation.raw(run), run["begun_s"] + plan.warm_up_s
    run["commands"] = commands
    run["stages"] = find_rates(results, size.stages, commands, first_s)
    for stage, command in zip(run["stages"][1:], commands, strict=True):
        stage["command_s"] = command["ended_s"] - command["began_s"]
    run["felt"] = find_latencies(results, commands, first_s)
    run["slowest_s"] = _slowest(results, first_s)


def find_rates(
    results: Sequence[Result], stages: Sequence[int], commands: Sequence[Mapping[str, Any]], first_s: float
) -> list[dict[str, Any]]:
    """Of each stage: how many answers a second has, and when so many were reached, from the command on."""
    columns, plan = join(results), results[0].plan
    ended = (columns["begun_ns"] + columns["took_ns"])[columns["outcome"] == ANSWERED] / 1e9
    began = [first_s, *(each["began_s"] for each in commands), first_s + plan.measure_s]
    settled = [first_s, *(each["ended_s"] for each in commands)]
    found = []
    for number, (began_s, next_s), settled_s in zip(stages, pairwise(began), settled, strict=True):
        counts = count_by_time(ended, began_s, next_s, BUCKET_S)
        second_half = int(((settled_s + next_s) / 2 - began_s) / BUCKET_S)
        steady = float(np.median(counts[second_half:]))
        reached = (
            (place + WINDOW) * BUCKET_S
            for place in range(len(counts) - WINDOW + 1)
            if sum(counts[place : place + WINDOW]) >= REACHED * steady * WINDOW
        )
        found.append({"ensembles": number, "rate": steady / BUCKET_S, "reached_s": next(reached, None)})
    return found


def find_latencies(
    results: Sequence[Result], commands: Sequence[Mapping[str, Any]], first_s: float
) -> list[dict[str, Any]]:
    """Of the requests that were meant for the time before all commands, of each of them, and after all."""
    columns, plan = join(results), results[0].plan
    meant, took = columns["begun_ns"] / 1e9, columns["took_ns"] / 1e9
    moments = [(plan.ensembles, first_s, commands[0]["began_s"])]
    moments += [(each["ensembles"], each["began_s"], each["ended_s"]) for each in commands]
    moments += [(commands[-1]["ensembles"], commands[-1]["ended_s"], first_s + plan.measure_s)]
    return [
        {"ensembles": number, **_felt(columns["kind"], took, (meant >= began_s) & (meant < ended_s))}
        for number, began_s, ended_s in moments
    ]


def _felt(kinds: Any, took: Any, is_meant: Any) -> dict[str, Any]:
    """Of each sort of requests, how many there are and how long they take."""
    of_sort = {sort: took[is_meant & np.isin(kinds, each)] for sort, each in SORTS.items()}
    return {
        sort: {"requests": found.size, "p99_s": percentile_99(found), "longest_s": float(found.max())}
        for sort, found in of_sort.items()
        if found.size
    }


def _slowest(results: Sequence[Result], first_s: float) -> list[float | None]:
    """The 99th percentile of the latencies in each second."""
    columns, plan = join(results), results[0].plan
    took = columns["took_ns"] / 1e9
    ended = columns["begun_ns"] / 1e9 + took
    return percentile_by_time(ended, took, first_s, first_s + plan.measure_s, BUCKET_S, 99)


def show(document: Mapping[str, Any]) -> Section:
    runs = document["runs"]
    return Section(
        NAME,
        TITLE,
        _about(document),
        [*(_limit_table(run) for run in runs if run["part"] == LIMIT), *map(_latency_table, runs)],
        [_plot(run) for run in runs],
        [
            "What is there stays where it is: old directories go on loading the ensemble that has them. How soon "
            f"the others are busy depends on how fast a program makes new ones. Here a client goes on to the next "
            f"after {OF_A_NEW_DIRECTORY} znodes.",
            "The new servers have just been started, and are slower at first than those that have warmed up.",
            *caveats_of(document),
        ],
        [answer for run in runs if (answer := _answer(run))],
    )


def times_as_late(run: Mapping[str, Any]) -> dict[str, float]:
    """Of each sort of requests, the worst 99th percentile while a command runs, as a multiple of the one before.

    Empty if there was nothing before that could be compared.
    """
    before, *commands, _ = run["felt"]
    return {
        sort: max(each[sort]["p99_s"] / before[sort]["p99_s"] for each in commands if sort in each)
        for sort in SORTS
        if sort in before and any(sort in each for each in commands)
    }


def _answer(run: Mapping[str, Any]) -> Answer | None:
    times = times_as_late(run)
    if not times:
        return None
    return Answer(
        f"How many times as late is the 99th percentile while ensembles are added? ({ABOUT[run['part']]})",
        f"at most {MOST_P99:g}",
        ", ".join(f"{sort} {each:.2f}" for sort, each in times.items()),
        max(times.values()) <= MOST_P99,
    )


def _about(document: Mapping[str, Any]) -> str:
    limit = document.get("rate_bytes_s")
    bandwidth = f" Each server's network card carries {limit * 8 / 1e6:g} Mbit/s then." if limit else ""
    return (
        "Clients make directories and znodes in them, and go on to new ones. `parkazoo map grow` adds ensembles "
        f"meanwhile. First a client sends each request when one was answered.{bandwidth} Then "
        "requests come at random times at a fixed rate, half of them reads. Both were run "
        f"{times_of(document['runs'])}."
    )


def _limit_table(run: Mapping[str, Any]) -> Table:
    first = run["stages"][0]["rate"]
    alone = (each["ended_s"] - each["began_s"] for each in run["commands"])  # old results have no command_s
    took = [each.get("command_s", before) for each, before in zip(run["stages"][1:], alone, strict=True)]
    reached = [NOTHING, *(rate(each["reached_s"]) for each in run["stages"][1:])]
    rows = [
        [str(each["ensembles"]), rate_of({**run, "rates": {"all": each["rate"]}}), ratio(each["rate"], first)]
        for each in run["stages"]
    ]
    commands = [NOTHING, *(ranged(each, "{:.1f}".format) for each in took)]
    return Table(
        f"Writes while {ABOUT[LIMIT]}",
        ("ensembles", "writes/s", "times", "the command, s", f"{REACHED:.0%} reached after, s"),
        [[*row, *times] for row, *times in zip(rows, commands, reached, strict=True)],
    )


def _latency_table(run: Mapping[str, Any]) -> Table:
    before, *commands, after = run["felt"]
    moments = {"before": before, **{f"{each['ensembles']} come": each for each in commands}, "after": after}
    return Table(
        f"Latency in ms while {ABOUT[run['part']]}; {run['failed']} failed",
        ("", "", "requests", "99%", "of before", "goal", "longest"),
        [
            [
                sort,
                name,
                rate(each[sort]["requests"]),
                milliseconds(each[sort]["p99_s"]),
                ratio(each[sort]["p99_s"], before[sort]["p99_s"]),
                f"{MOST_P99:g}" if each in commands else NOTHING,
                milliseconds(each[sort]["longest_s"]),
            ]
            for sort in before
            if sort in SORTS
            for name, each in moments.items()
            if sort in each
        ],
    )


def _plot(run: Mapping[str, Any]) -> Plot:
    figure, panels = make_panels(1)
    panel, plan = panels[0], run["plan"]
    first_s = run["begun_s"] + plan["warm_up_s"]
    if run["part"] == LIMIT:
        answered = run["over_time"]["ensembles"][0]["answered"]
        times = ((place + 0.5) * BUCKET_S - plan["warm_up_s"] for place in range(len(answered)))
        points = [(at, count / BUCKET_S) for at, count in zip(times, answered, strict=True) if at > 0]
        draw_lines(panel, {"writes": points}, "", "seconds", "writes/s", marker="")
        about = "Writes/s while ensembles are added"
    else:
        points = [
            ((place + 0.5) * BUCKET_S, each * 1000)
            for place, each in enumerate(run["slowest_s"])
            if each is not None
        ]
        draw_lines(panel, {"99th percentile": points}, "", "seconds", "latency, ms", marker="")
        about = "Latency, the 99th percentile of each second, while ensembles are added"
    panel.set_ylim(bottom=0)
    for number, command in enumerate(run["commands"]):
        span = command["began_s"] - first_s, command["ended_s"] - first_s
        panel.axvspan(*span, color="0.85", label=None if number else "parkazoo map grow")
    add_legend(figure, panel)
    return Plot(f"{NAME}-{run['part']}", about, figure)
