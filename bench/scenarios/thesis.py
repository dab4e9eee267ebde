"""The thesis: the best number of threads, then of processes, then of client hosts, for writes and for reads.

Its author and title, and the figures of its tables, are in bench/published.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench import statistics
from bench.lab import Ensembles
from bench.load.record import ANSWERED
from bench.load.result import Result, join
from bench.published import MOST_THREADS, PRINTED_TWICE, THESIS
from bench.report.section import Answer, Section, Table, goal_is_met
from bench.report.text import NOTHING, TOO_SHORT, milliseconds, plain, ranged, rate, rate_of, ratio, share
from bench.scenarios import accounts, thesis_plots
from bench.scenarios.caveats import caveats_of
from bench.scenarios.evaluation import READ_SHARES, Evaluation
from bench.scenarios.repetitions import times_of
from bench.scenarios.summary import is_too_short, latency_s, mean_latency_s
from bench.scenarios.thesis_figures import BEST, COMPARED, TIMES, TIMES_OF_A_PROCESS, UNLIKE
from bench.scenarios.thesis_runs import (
    AGAIN,
    BASE,
    SCENARIO,
    STEP_TITLES,
    STEPS,
    THESIS_SUBJECT,
    Runs,
    best_of,
    is_of_step,
    times_of_base,
)
from bench.statistics import count_by_time, percentile_by_time, scaled, spread

NAME = SCENARIO
TITLE = "The thesis: the best of threads, processes and client hosts"
TRACE_S = 0.25  # of what is shown over time


@dataclass(frozen=True)
class Subject:
    """A system, and what it is measured on.

    :param is_limited: with the servers' bandwidth limited, where the lab shares one machine.
    """

    system: str
    shape: str
    handler: str = "threading"
    is_limited: bool = False

    @property
    def name(self) -> str:
        return f"{self.system} {self.shape}" + (" gevent" if self.handler == "gevent" else "")


@dataclass(frozen=True)
class Size:
    """
    :param value_bytes: of what is written and read.
    :param repeat: how often the best of the sweep is run again; with gevent, once.
    """

    subjects: Sequence[Subject]
    threads: Sequence[int]
    processes: Sequence[int]
    nodes: Sequence[int]
    warm_up_s: float
    measure_s: float
    value_bytes: int = 1024
    repeat: int = 3


def _subjects(kazoo: Sequence[str], parkazoo: Sequence[str]) -> list[Subject]:
    """
    :param kazoo: the shapes that it is measured on with limited bandwidth; `parkazoo` likewise.
    """
    return [
        Subject("kazoo", "1x3"),
        Subject("parkazoo", "1x3"),
        Subject("kazoo", "1x3", "gevent"),
        Subject("parkazoo", "1x3", "gevent"),
        *(Subject("kazoo", shape, is_limited=True) for shape in kazoo),
        *(Subject("parkazoo", shape, is_limited=True) for shape in parkazoo),
    ]


SIZES = {
    "small": Size([Subject("parkazoo", "1x1")], (1, 2), (1,), (1,), 0.2, 0.5, repeat=2),
    "medium": Size(_subjects(("1x3",), ("3x3",)), (4, 32), (1, 2), (1, 2), 0.7, 2.5),
    "full": Size(
        [
            *_subjects(("1x3", "1x9"), ("3x3", "6x3", "9x3")),
            *(Subject("parkazoo", shape, "gevent", is_limited=True) for shape in ("3x3", "6x3", "9x3")),
        ],
        (1, 2, 4, 8, 16, 32, 64, 96, 110, 128, 256),
        (1, 2, 4, 8),
        (1, 2, 4, 8, 16),
        5,
        30,
    ),
}


def measure(evaluation: Evaluation) -> None:
    size = SIZES[evaluation.size]
    for shape in dict.fromkeys(subject.shape for subject in size.subjects):
        with evaluation.ensembles(shape) as ensembles:
            here = [subject for subject in size.subjects if subject.shape == shape]
            for system in dict.fromkeys(subject.system for subject in here):
                settings = _settings(size, read_share=0.5)
                evaluation.warm_up(evaluation.plan(ensembles, system, threads=8, in_flight=4, **settings))
            for subject in here:
                if not subject.is_limited:
                    _sweep(evaluation, size, ensembles, subject)
            limited = [subject for subject in here if subject.is_limited]
            if limited:
                with evaluation.limited(ensembles.servers) as rate_bytes_s:
                    evaluation.document["rate_bytes_s"] = rate_bytes_s
                    for subject in limited:
                        _sweep(evaluation, size, ensembles, subject)


def _settings(size: Size, read_share: float) -> dict[str, Any]:
    return {
        "read_share": read_share,
        "size": size.value_bytes,
        "warm_up_s": size.warm_up_s,
        "measure_s": size.measure_s,
    }


def _sweep(evaluation: Evaluation, size: Size, ensembles: Ensembles, subject: Subject) -> None:
    """First the best number of threads in one process on one host, then of processes, then of hosts.

    The best is run again, because what has won among several has had luck as well.
    """
    most_nodes = len(evaluation.lab.clients)
    for load, read_share in READ_SHARES.items():
        about = {"subject": subject.name, "is_limited": subject.is_limited, "load": load}
        settings = {**_settings(size, read_share), "handler": subject.handler}
        best = {"threads": 1, "processes": 1, "nodes": 1}
        most = 0.0
        for step in STEPS:
            values = getattr(size, step)
            if step == "nodes":
                values = [value for value in values if value <= most_nodes]
            for value in values:
                if step != "threads" and value == 1:
                    continue  # that is the best of the step before
                counts = {**best, step: value}
                rates = []
                for _ in evaluation.rounds():
                    plan = evaluation.plan(ensembles, subject.system, **settings, **counts)
                    run = evaluation.run(ensembles, plan, {**about, "step": step, "value": value})
                    if not is_too_short(run):
                        rates.append(run["rates"]["all"])
                if rates and spread(rates) > most:
                    most, best = spread(rates), counts
        for _ in evaluation.rounds(size.repeat if subject.handler == "threading" else 1):
            plan = evaluation.plan(ensembles, subject.system, **settings, **best)
            before = accounts.ask_all(evaluation.lab, ensembles)
            run = evaluation.run(ensembles, plan, {**about, "step": AGAIN})
            run["servers"] = accounts.between(before, accounts.ask_all(evaluation.lab, ensembles))
            run["trace"] = trace(evaluation.raw(run), run["begun_s"] + plan.warm_up_s)


def trace(results: Sequence[Result], first_s: float) -> dict[str, Any]:
    """Answers, and the median of their latencies, in each quarter of a second in which something was measured."""
    columns, plan = join(results), results[0].plan
    is_answered = columns["outcome"] == ANSWERED
    took = columns["took_ns"][is_answered] / 1e9
    ended = columns["begun_ns"][is_answered] / 1e9 + took
    window = first_s, first_s + plan.measure_s, TRACE_S
    medians = percentile_by_time(ended, took, *window, 50)
    return {
        "bucket_s": TRACE_S,
        "answered": count_by_time(ended, *window),
        "median_s": [None if each is None else round(each, 6) for each in medians],
    }


def show(document: Mapping[str, Any]) -> Section:
    runs = document["runs"]
    sweep = [run for run in runs if run["step"] in STEPS]
    plots = []
    for step in STEPS:
        for is_limited in (False, True):
            some = [run for run in sweep if run["is_limited"] == is_limited]
            if len({run["plan"][step] for run in some if is_of_step(run, step)}) > 1:
                plots.append(thesis_plots.make_step_plot(some, step, is_limited))
    times, traced = times_of_base(runs), [run for run in runs if "trace" in run]
    asked = [run for run in runs if run.get("servers")]
    return Section(
        NAME,
        TITLE,
        f"As in the thesis of {THESIS.name}. "
        "Each thread has a client of its own and makes one synchronous call after the other: creates and deletes, "
        "which both count as writes, or reads, of values of "
        f"{runs[0]['plan']['size']:,} bytes. The number of threads is raised in one process; with the best, the "
        "number of processes; with the best of those, the number of client hosts. "
        f"Steps of the sweep were run {times_of(sweep)}"
        + (f"; the best of each was run again, {times_of(traced)}." if traced else "."),
        [_best_table(runs, is_limited) for is_limited in (False, True) if best_of(runs, is_limited)]
        + [table for table in (_client_table(runs), _process_table(runs)) if table.rows]
        + [_their_table(runs)]
        + ([_server_table(asked)] if asked else [])
        + [_step_table(sweep, step) for step in STEPS if any(run["step"] == step for run in sweep)],
        [
            *([thesis_plots.make_times_plot(times)] if times else []),
            *(
                thesis_plots.make_trace_plot(traced, is_limited)
                for is_limited in (True, False)
                if best_of(traced, is_limited)
            ),
            *plots,
        ],
        [
            "The thesis had 50 machines (Xeon E5405 of 2.00 GHz, Gigabit Ethernet) and ZooKeeper 3.4. Its "
            "requests/s cannot be compared with those here; how many times one ensemble's they are can. It "
            "measured one ensemble of three servers and three of them, and no other shapes.",
            f"Its best are of unlike numbers of client hosts: {UNLIKE}. Its tables of reads end there, "
            "while requests/s still rise.",
            PRINTED_TWICE,
            "The thesis names values of 1 MB. Its cards carry 125 MB/s at most, and its table 6.5a has 25,659 "
            "reads/s of one client host: 4.9 kB each. So that cannot be repeated. Values here have the size named "
            "above.",
            "Files of a server are as long as it has reserved, 64 MB at a time. Bytes from and to clients, data "
            "and files are what ZooKeeper says; memory is what the system says of the Java process.",
            "Bytes from and to other servers are all that the server's network card has carried but the clients'. "
            "So they have the headers of all packets in them, and on real hosts what SSH carried meanwhile.",
            "A few threads of synchronous calls do not keep many ensembles busy: the best is that of those tried.",
            *caveats_of(document),
        ],
        [
            Answer(
                f"Is the best of a sweep on 3x3 as many times kazoo's on 1x3 as in the thesis: {load}?",
                f"at least {known:.2f}",
                plain(times[BEST][load], "{:.2f}".format),
                goal_is_met([times[BEST][load]], known),
            )
            for load, known in TIMES.items()
            if load in times.get(BEST, {})
        ],
    )


def _counts(run: Mapping[str, Any]) -> str:
    """Nodes, processes and threads."""
    return " x ".join(str(run["plan"][step]) for step in reversed(STEPS))


def _best_table(runs: Runs, is_limited: bool) -> Table:
    best = best_of(runs, is_limited)
    rows = []
    for subject in dict.fromkeys(subject for subject, _ in best):
        row = [subject]
        for load in READ_SHARES:
            run, base = best.get((subject, load)), best.get((BASE, load))
            row += [rate_of(run), _counts(run)] if run else [NOTHING, NOTHING]
            times = ratio(run["rates"]["all"], base["rates"]["all"]) if run and base else NOTHING
            row.append("1" if run and run is base and times != TOO_SHORT else times)
            row.append(rate(TIMES[load]) if is_limited and subject == THESIS_SUBJECT else NOTHING)
        rows.append(row)
    how = "bandwidth of the servers limited" if is_limited else "bandwidth not limited"
    columns = [name for load in READ_SHARES for name in (f"{load}/s", "clients", f"times {BASE}", "thesis")]
    title = f"The best of the sweep, {how}; clients are hosts x processes x threads"
    return Table(title, ("", *columns), rows)


def _client_table(runs: Runs) -> Table:
    """What the client itself costs: on one ensemble, unlimited, against kazoo."""
    best = best_of(runs, is_limited=False)
    rows = [
        [f"{load}{suffix}", *_beside(best.get((f"{BASE}{suffix}", load)), best[f"parkazoo 1x3{suffix}", load])]
        for suffix in ("", " gevent")
        for load in READ_SHARES
        if (f"parkazoo 1x3{suffix}", load) in best
    ]
    return Table(
        "ParKazooClient beside KazooClient, both on one ensemble; the thesis has no such figures",
        ("", "kazoo/s", "parkazoo/s", "of kazoo"),
        rows,
    )


def _process_table(runs: Runs) -> Table:
    """What the thesis compared: one process with the client on three ensembles, and one with kazoo on one."""
    best = best_of([run for run in runs if run["step"] == STEPS[0]], is_limited=True)
    rows = [
        [load, *_beside(best.get((BASE, load)), best[THESIS_SUBJECT, load]), f"{TIMES_OF_A_PROCESS[load]:.0%}"]
        for load in READ_SHARES
        if (THESIS_SUBJECT, load) in best
    ]
    return Table(
        "One process: ParKazooClient on three ensembles beside KazooClient on one, bandwidth of the servers "
        f"limited; the thesis' client crashed with more than {MOST_THREADS} threads",
        ("", "kazoo 1x3/s", "parkazoo 3x3/s", "of kazoo", "thesis"),
        rows,
    )


def _beside(base: Mapping[str, Any] | None, mine: Mapping[str, Any]) -> list[str]:
    """Both runs' rates, and what share of the first one's the second one's is."""
    of_base = NOTHING
    if base and base["rates"]["all"]:
        of_base = share(statistics.ratio(mine["rates"]["all"], base["rates"]["all"]))
    return [rate_of(base) if base else NOTHING, rate_of(mine), of_base]


def _their_table(runs: Runs) -> Table:
    times = times_of_base(runs)
    rows = [
        [
            each.load,
            each.of,
            f"{each.three:,.2f}",
            each.three_with,
            f"{each.one:,.2f}",
            each.one_with,
            f"{each.times:.2f}",
            each.source,
            rate(times.get(each.of, {}).get(each.load)),
        ]
        for each in COMPARED
    ]
    return Table(
        "The thesis' own requests/s, and how many times kazoo's its client's are; ours with the servers' "
        "bandwidth limited",
        ("load", "", "its client, 3x3", "with", "kazoo, 1x3", "with", "times", "its", "times, here"),
        rows,
    )


def _server_table(runs: Runs) -> Table:
    rows = [
        [
            run["subject"],
            "limited" if run["is_limited"] else "",
            run["load"],
            *(
                _of_servers(run["servers"], name)
                for name in (*accounts.COUNTED, *accounts.AMONG, *accounts.FOUND, accounts.MEMORY)
            ),
        ]
        for run in runs
    ]
    return Table(
        "What each server takes, in MB, the median of all servers and their range: bytes from and to clients and "
        "other servers in a whole load; its data, its files, and the memory of its process after it",
        (
            *("", "bandwidth", "load", "from clients", "to clients", "from servers", "to servers"),
            *("data", "files", "memory"),
        ),
        rows,
    )


def _of_servers(servers: Runs, name: str) -> str:
    found = [scaled(float(each[name]), 1e-6) for each in servers if name in each]
    return ranged(spread(found), "{:.3g}".format) if found else NOTHING


def _step_table(runs: Runs, step: str) -> Table:
    """All runs of a step, as in the thesis' tables 6.1 to 6.6."""
    rows = [
        [
            run["subject"],
            "limited" if run["is_limited"] else "",
            run["load"],
            str(run["plan"][step]),
            rate_of(run),
            milliseconds(mean_latency_s(run, run["load"])),
            milliseconds(latency_s(run, run["load"], 50)),
        ]
        for run in runs
        if run["step"] == step
    ]
    return Table(
        f"Each step: {STEP_TITLES[step]}",
        ("", "bandwidth", "load", step, "requests/s", "mean, ms", "median, ms"),
        rows,
    )
