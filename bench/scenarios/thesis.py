"""The thesis: the best number of threads, then of processes, then of client hosts, for writes and for reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.lab import Ensembles
from bench.report.charts import add_legend, draw_lines, make_panels
from bench.report.section import Plot, Section, Table
from bench.report.text import NOTHING, rate, rate_of, ratio
from bench.scenarios.caveats import caveats_of
from bench.scenarios.evaluation import READ_SHARES, Evaluation

Runs = Sequence[Mapping[str, Any]]

NAME = "thesis"
TITLE = "The thesis: the best of threads, processes and client hosts"
BASE = "kazoo 1x3"
# The thesis' figures. It ran three ensembles of three servers and one, no other shapes.
THESIS_SUBJECT = "parkazoo 3x3"
THESIS_TIMES = {"writes": 1.98, "reads": 2.09}  # the best of three ensembles against the best of one
THESIS_PROCESS = {"writes": 0.62, "reads": 0.09}  # one process: its client on three ensembles, of kazoo on one
THESIS_MOST_THREADS = 110
STEPS = ("threads", "processes", "nodes")
STEP_TITLES = {"threads": "threads of a process", "processes": "processes of a host", "nodes": "client hosts"}


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
    """

    subjects: Sequence[Subject]
    threads: Sequence[int]
    processes: Sequence[int]
    nodes: Sequence[int]
    warm_up_s: float
    measure_s: float
    value_bytes: int = 1024


def _subjects(parkazoo: Sequence[str]) -> list[Subject]:
    found = [
        Subject("kazoo", "1x3"),
        Subject("parkazoo", "1x3"),
        Subject("kazoo", "1x3", "gevent"),
        Subject("parkazoo", "1x3", "gevent"),
        Subject("kazoo", "1x3", is_limited=True),
        Subject("kazoo", "1x9", is_limited=True),
    ]
    return found + [Subject("parkazoo", shape, is_limited=True) for shape in parkazoo]


SIZES = {
    "small": Size([Subject("parkazoo", "1x1")], (1, 2), (1,), (1,), 0.2, 0.5),
    "medium": Size(_subjects(("3x3", "9x3")), (4, 32), (1, 2), (1, 2), 0.7, 2),
    "full": Size(
        [
            *_subjects(("3x3", "6x3", "9x3")),
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
    """First the best number of threads in one process on one host, then of processes, then of hosts."""
    most_nodes = len(evaluation.lab.clients)
    for load, read_share in READ_SHARES.items():
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
                settings = {**_settings(size, read_share), **counts, "handler": subject.handler}
                label = {"subject": subject.name, "is_limited": subject.is_limited, "load": load, "step": step}
                run = evaluation.run(ensembles, evaluation.plan(ensembles, subject.system, **settings), label)
                if run["rates"]["all"] > most:
                    most, best = run["rates"]["all"], counts


def show(document: Mapping[str, Any]) -> Section:
    runs = document["runs"]
    plots = []
    for step in STEPS:
        for is_limited in (False, True):
            some = [run for run in runs if run["is_limited"] == is_limited]
            if len({run["plan"][step] for run in some if _is_of_step(run, step)}) > 1:
                plots.append(_step_plot(some, step, is_limited))
    return Section(
        NAME,
        TITLE,
        "Each thread has a client of its own and makes one synchronous call after the other: creates and deletes, "
        "which both count as writes, or reads, of values of "
        f"{runs[0]['plan']['size']:,} bytes. The number of threads is raised in one process; with the best, the "
        "number of processes; with the best of those, the number of client hosts.",
        [_best_table(runs, is_limited) for is_limited in (False, True) if _best(runs, is_limited)]
        + [table for table in (_client_table(runs), _process_table(runs)) if table.rows]
        + [_step_table(runs, step) for step in STEPS if any(run["step"] == step for run in runs)],
        plots,
        [
            "The thesis' figures were taken on machines of 2015, with other versions of everything. It measured "
            "one ensemble and three, and no other shapes. Its tables of reads give the same figures for threads "
            "and for processes.",
            "The thesis names values of 1 MB. Its 304,516 reads/s of those would be 34 GB/s from each server, so "
            "that cannot be repeated. Values here have the size that the table says.",
            "With one synchronous call after the other, a few threads do not keep many ensembles busy: the best "
            "number here is the best of those tried.",
            *caveats_of(document),
        ],
    )


def _is_of_step(run: Mapping[str, Any], step: str) -> bool:
    """Whether the run says something of that step: it is one of it, or the step's beginning."""
    return run["step"] == step or STEPS.index(run["step"]) < STEPS.index(step)


def _best(runs: Runs, is_limited: bool) -> dict[tuple[str, str], Mapping[str, Any]]:
    """Of each subject and load, the run with most requests/s."""
    found: dict[tuple[str, str], Mapping[str, Any]] = {}
    for run in runs:
        key = run["subject"], run["load"]
        if run["is_limited"] == is_limited and (
            key not in found or run["rates"]["all"] > found[key]["rates"]["all"]
        ):
            found[key] = run
    return found


def _counts(run: Mapping[str, Any]) -> str:
    """Nodes, processes and threads."""
    return " x ".join(str(run["plan"][step]) for step in reversed(STEPS))


def _best_table(runs: Runs, is_limited: bool) -> Table:
    best = _best(runs, is_limited)
    rows = []
    for subject in dict.fromkeys(subject for subject, _ in best):
        row = [subject]
        for load in READ_SHARES:
            run, base = best.get((subject, load)), best.get((BASE, load))
            row += [rate_of(run), _counts(run)] if run else [NOTHING, NOTHING]
            row.append(ratio(run["rates"]["all"], base["rates"]["all"]) if run and base else NOTHING)
            row.append(rate(THESIS_TIMES[load]) if is_limited and subject == THESIS_SUBJECT else NOTHING)
        rows.append(row)
    how = "bandwidth of the servers limited" if is_limited else "bandwidth not limited"
    columns = [name for load in READ_SHARES for name in (f"{load}/s", "clients", f"times {BASE}", "thesis")]
    title = f"The best of the sweep, {how}; clients are hosts x processes x threads"
    return Table(title, ("", *columns), rows)


def _client_table(runs: Runs) -> Table:
    """What the client itself costs: on one ensemble, unlimited, against kazoo."""
    best = _best(runs, is_limited=False)
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
    best = _best([run for run in runs if run["step"] == STEPS[0]], is_limited=True)
    rows = [
        [load, *_beside(best.get((BASE, load)), best[THESIS_SUBJECT, load]), f"{THESIS_PROCESS[load]:.0%}"]
        for load in READ_SHARES
        if (THESIS_SUBJECT, load) in best
    ]
    return Table(
        "One process: ParKazooClient on three ensembles beside KazooClient on one, bandwidth of the servers "
        f"limited; the thesis' client also crashed at {THESIS_MOST_THREADS} threads",
        ("", "kazoo 1x3/s", "parkazoo 3x3/s", "of kazoo", "thesis"),
        rows,
    )


def _beside(base: Mapping[str, Any] | None, mine: Mapping[str, Any]) -> list[str]:
    """Both runs' rates, and what share of the first one's the second one's is."""
    share = NOTHING
    if base and base["rates"]["all"]:
        share = f"{mine['rates']['all'] / base['rates']['all']:.0%}"
    return [rate_of(base) if base else NOTHING, rate_of(mine), share]


def _step_table(runs: Runs, step: str) -> Table:
    """All runs of a step."""
    some = [run for run in runs if run["step"] == step]
    values = sorted({run["plan"][step] for run in some})
    rows = []
    for key in dict.fromkeys((run["subject"], run["is_limited"], run["load"]) for run in some):
        subject, is_limited, load = key
        found = {run["plan"][step]: run for run in some if (run["subject"], run["is_limited"], run["load"]) == key}
        cells = [rate_of(found[value]) if value in found else NOTHING for value in values]
        rows.append([subject, "limited" if is_limited else "", load, *cells])
    return Table(f"Requests/s against {STEP_TITLES[step]}", ("", "bandwidth", "load", *map(str, values)), rows)


def _step_plot(runs: Runs, step: str, is_limited: bool) -> Plot:
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
        f"{NAME}-{step}-{how}",
        f"Requests/s against {STEP_TITLES[step]}, bandwidth of the servers {'' if is_limited else 'not '}limited",
        figure,
    )


def _points(runs: Runs, step: str) -> list[tuple[float, float]]:
    """Those of a step, beginning with the best of the steps before."""
    before = [run["rates"]["all"] for run in runs if STEPS.index(run["step"]) < STEPS.index(step)]
    found = [(run["plan"][step], run["rates"]["all"]) for run in runs if run["step"] == step]
    return ([(1, max(before))] if before and found else []) + found
