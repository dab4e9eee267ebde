"""Chaos: what an ensemble does while packets are dropped at random, and how soon a matrix is everywhere."""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.chaos import crash, uniform
from bench.lab import Ensembles, Matrix, NotPossible
from bench.report.charts import add_legend, draw_lines, label, make_logarithmic, make_panels
from bench.report.section import Answer, Plot, Section, Table
from bench.report.text import milliseconds, plain, rate, rate_of, ratio
from bench.scenarios.caveats import caveats_of
from bench.scenarios.evaluation import VALUE_BYTES, Evaluation, LoadError, sets, sleep_until
from bench.scenarios.noticing import what_is_noticed
from bench.scenarios.repetitions import times_of
from bench.scenarios.roles import epoch, wait_all_serve, wait_leader
from bench.scenarios.summary import latency_s

NAME = "chaos"
TITLE = "Chaos: packets between servers are dropped at random"
ALL, LEADERS = "all pairs of servers", "the leader's alone"
UPLOADED_P = 0.1
PERCENT = "{:.0%}".format
TRIES = 5

Run = Mapping[str, Any]


@dataclass(frozen=True)
class Size:
    """
    :param probabilities: that a packet is dropped.
    :param in_flight: requests that each client has outstanding.
    :param uploads: of matrices for so many hosts, as far as there are as many.
    :param repeat: how often each load is run.
    """

    systems: Mapping[str, str]
    probabilities: Sequence[float]
    threads: int
    in_flight: int
    warm_up_s: float
    measure_s: float
    uploads: Sequence[int]
    repeat: int = 1


PROBABILITIES = (0, 0.01, 0.05, 0.1, 0.2, 0.5)
UPLOADS = (3, 5, 7, 9, 13, 17, 25)
SIZES: dict[str, Any] = {
    "small": Size({"1x3": "kazoo"}, (0, 0.1), 2, 2, 0.2, 1, (2, 3)),
    "medium": Size({"1x3": "kazoo", "1x5": "kazoo"}, PROBABILITIES, 2, 4, 0.5, 4, UPLOADS),
    "full": Size({"1x3": "kazoo", "1x9": "kazoo"}, PROBABILITIES, 2, 4, 0.5, 10, UPLOADS, 2),
}


def measure(evaluation: Evaluation) -> None:
    size = evaluation.chosen(SIZES)
    try:
        evaluation.document["uploads"] = _upload(evaluation, size.uploads)
    except NotPossible as error:
        evaluation.not_measured("how soon a matrix is everywhere", error)
    for shape, system in size.systems.items():
        with evaluation.ensembles(shape) as ensembles:
            settings = {**sets(size.threads, size.warm_up_s, size.measure_s), "in_flight": size.in_flight}
            evaluation.warm_up(evaluation.plan(ensembles, system, **settings))
            try:
                for _ in evaluation.rounds(size.repeat):
                    for where, p in itertools.product((ALL, LEADERS), size.probabilities):
                        _measure(evaluation, ensembles, system, settings, where, p)
            except NotPossible as error:
                evaluation.not_measured("packets that are dropped", error)


def _upload(evaluation: Evaluation, counts: Sequence[int]) -> list[dict[str, Any]]:
    """Matrices of all pairs, with as many hosts: seconds until all have it."""
    faults, found = evaluation.lab.faults, []
    for count in counts:
        hosts = faults.hosts[:count]
        if len(hosts) < count:
            break
        matrix = uniform(hosts, UPLOADED_P)
        took: dict[str, list[float]] = {"at_once_s": [], "one_by_one_s": [], "update_s": []}
        for _ in range(TRIES):
            for way, times in took.items():
                began_s = time.monotonic()
                if way == "update_s":
                    faults.drop_between(hosts[0], hosts[1], UPLOADED_P / 2)
                else:
                    faults.drop(matrix, one_by_one=way == "one_by_one_s")
                times.append(time.monotonic() - began_s)
        faults.drop({})
        medians = {way: statistics.median(times) for way, times in took.items()}
        found.append({"hosts": count, "entries": count * (count - 1), **medians})
        evaluation.tell(f"a matrix of {count} hosts is everywhere after {medians['at_once_s'] * 1000:.0f} ms")
    return found


def _measure(
    evaluation: Evaluation,
    ensembles: Ensembles,
    system: str,
    settings: Mapping[str, Any],
    where: str,
    p: float,
) -> None:
    lab = evaluation.lab
    leader = wait_leader(lab, ensembles)
    others = [server.host for server in ensembles.of(leader.ensemble) if server != leader]
    hosts = [leader.host, *others]
    matrix: Matrix = (uniform if where == ALL else crash)(hosts, p) if p else {}
    plan = evaluation.plan(ensembles, system, **settings)
    before = epoch(lab, ensembles)

    def drop(begun_s: float) -> None:
        if matrix:
            lab.faults.drop(matrix)
            sleep_until(begun_s + plan.total_s())
            lab.faults.drop({})  # else the last answers might not come

    try:
        run = evaluation.run(ensembles, plan, {"where": where, "p": p}, drop)
    except LoadError:
        return
    finally:
        wait_all_serve(lab, ensembles)
    first_s = run["begun_s"] + plan.warm_up_s
    (noticed,) = what_is_noticed(evaluation.raw(run), first_s, first_s + plan.measure_s)
    run |= {"silence_s": noticed["silence_s"], "new_leaders": epoch(lab, ensembles) - before}


def show(document: Mapping[str, Any]) -> Section:
    runs, uploads = document["runs"], document.get("uploads", [])
    lines = {
        f"{shape}, {where}": [run for run in runs if (run["shape"], run["where"]) == (shape, where)]
        for shape in dict.fromkeys(run["shape"] for run in runs)
        for where in (ALL, LEADERS)
    }
    lines = {name: found for name, found in lines.items() if found}
    return Section(
        NAME,
        TITLE,
        f"Clients set values of {VALUE_BYTES} bytes; each sends the next request when one was answered. Meanwhile "
        "each packet from a server to another of its ensemble is dropped with the same probability; or only if it "
        "is from the leader or to it. No packet of a client is dropped. "
        f"Loads were run {times_of(runs)}.",
        [*map(_table, lines, lines.values()), *([_uploads_table(uploads)] if uploads else [])],
        [*([_plot(lines)] if lines else []), *([_uploads_plot(uploads)] if uploads else [])],
        [
            "Packets are dropped, not messages: TCP sends them again, so a message comes late, and none is lost. "
            "Often it does so when a timer ends, after 0.2 s or more, each time twice as long; so the silences.",
            "Leaders count until all servers serve again, after packets are dropped no more.",
            *caveats_of(document),
        ],
        [
            Answer(
                f"What share of the writes/s is left while packets are dropped: {name}?",
                "",
                ", ".join(
                    f"{run['p']:.0%}: {plain(run['rates']['writes'] / found[0]['rates']['writes'], PERCENT)}"
                    for run in found
                ),
            )
            for name, found in lines.items()
            if found[0]["rates"]["writes"]
        ],
    )


def _table(name: str, runs: Sequence[Run]) -> Table:
    first = runs[0]["rates"]["writes"]
    return Table(
        f"{name}: packets dropped",
        ("dropped", "writes/s", "times", "median, ms", "99%, ms", "longest silence, ms", "new leaders"),
        [
            [
                f"{run['p']:.0%}",
                rate_of(run, "writes"),
                "1" if run is runs[0] and not math.isnan(first) else ratio(run["rates"]["writes"], first),
                milliseconds(latency_s(run, "writes", 50)),
                milliseconds(latency_s(run, "writes", 99)),
                milliseconds(run["silence_s"]),
                rate(run["new_leaders"]),
            ]
            for run in runs
        ],
    )


def _plot(lines: Mapping[str, Sequence[Run]]) -> Plot:
    figure, panels = make_panels(2, 6.0, rows=2)

    def draw(panel: Any, what: str, value: Any) -> None:
        points = {
            name: [(100 * run["p"], found) for run in runs if (found := value(run)) is not None]
            for name, runs in lines.items()
        }
        draw_lines(panel, points, what, "% of the packets dropped", "")

    draw(panels[0], "writes/s", lambda run: max(run["rates"]["writes"], 1))
    draw(panels[1], "99th percentile, s", lambda run: latency_s(run, "writes", 99))
    draw(panels[2], "longest silence, s", lambda run: run["silence_s"])
    draw(panels[3], "new leaders", lambda run: run["new_leaders"])
    for panel in panels[:3]:
        make_logarithmic(panel, "y")
    add_legend(figure, panels[0], 2)
    return Plot(f"{NAME}-dropped", "What is left while packets between servers are dropped", figure)


def _uploads_table(uploads: Sequence[Run]) -> Table:
    return Table(
        f"A matrix of all pairs of hosts comes into force: medians of {TRIES}",
        (
            "hosts",
            "entries",
            "all at once, ms",
            "entries/s",
            "one by one, ms",
            "entries/s",
            "one entry changed, ms",
        ),
        [
            [
                str(each["hosts"]),
                rate(each["entries"]),
                milliseconds(each["at_once_s"]),
                rate(each["entries"] / each["at_once_s"]),
                milliseconds(each["one_by_one_s"]),
                rate(each["entries"] / each["one_by_one_s"]),
                milliseconds(each["update_s"]),
            ]
            for each in uploads
        ],
    )


def _uploads_plot(uploads: Sequence[Run]) -> Plot:
    figure, panels = make_panels(1)
    lines = {
        name: [(each["hosts"], 1000 * each[way]) for each in uploads]
        for name, way in (("all at once", "at_once_s"), ("one by one", "one_by_one_s"))
    }
    draw_lines(panels[0], lines, "", "", "")
    label(panels[0], "", "hosts", "ms until all drop packets by the new matrix")
    panels[0].set_ylim(bottom=0)
    add_legend(figure, panels[0])
    return Plot(f"{NAME}-upload", "How soon a chaos matrix is in force on all hosts", figure)
