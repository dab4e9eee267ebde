"""The thesis: the best number of threads, then of processes, then of client hosts, for writes and for reads.

Its author and title, and the figures of its tables, are in bench/published.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.lab import LabError
from bench.published import PRINTED_TWICE, THESIS
from bench.report.section import Answer, Section, goal_is_met
from bench.report.text import plain
from bench.scenarios import thesis_plots, thesis_sizes
from bench.scenarios.caveats import caveats_of
from bench.scenarios.evaluation import READ_SHARES, Evaluation
from bench.scenarios.repetitions import times_of
from bench.scenarios.thesis_crowd import crowd_table, gather
from bench.scenarios.thesis_figures import BEST, HALF_OF, TABLE_OF, TIMES, UNLIKE
from bench.scenarios.thesis_runs import (
    AGAIN,
    ONE,
    SCENARIO,
    STEPS,
    Runs,
    best_of,
    is_of_step,
    times_of_base,
    traced,
)
from bench.scenarios.thesis_sweep import NEARLY, SESSION_TIMEOUT_S, Sweep, settings_of
from bench.scenarios.thesis_tables import (
    beside_table,
    best_table,
    client_table,
    process_table,
    server_table,
    step_table,
    their_table,
    time_table,
)

# ZooKeeper's own sample, zoo_sample.cfg. Where many clients fill a server's card, pings wait as well.
PATIENT = {"tickTime": "2000", "syncLimit": "5"}
PATIENCE = "Where many clients fill a card, pings wait as well: servers give each other up after ten seconds"
NAME = SCENARIO
SIZES = thesis_sizes.SIZES
TITLE = "The thesis: the best of threads, processes and client hosts"


def measure(evaluation: Evaluation) -> None:
    """
    :raises LabError: the folder has nothing of a part from which this one takes its numbers.
    """
    size = evaluation.chosen(SIZES)
    earlier = {part: evaluation.runs_of(part) for part in size.before}
    if missing := [part for part, runs in earlier.items() if not runs]:
        raise LabError(f"this begins with the best of part {missing[0]}: measure that first, into the same folder")
    evaluation.document["servers"] = PATIENT
    sweep = Sweep(evaluation, size, [run for runs in earlier.values() for run in runs])
    shapes = [*(each.shape for each in size.subjects), *(each.shape for each in size.gatherings)]
    for shape in dict.fromkeys(shapes):
        here = [subject for subject in size.subjects if subject.shape == shape]
        meeting = [each for each in size.gatherings if each.shape == shape]
        with evaluation.ensembles(shape, settings=PATIENT) as ensembles:
            for system in dict.fromkeys([*(each.system for each in here), *(each.system for each in meeting)]):
                settings = settings_of(size, next(iter(READ_SHARES))) | {"read_share": 0.5}
                evaluation.warm_up(evaluation.plan(ensembles, system, threads=8, in_flight=4, **settings))
            for subject in here:
                if not subject.is_limited:
                    sweep.run(ensembles, subject)
            limited = [subject for subject in here if subject.is_limited]
            if limited:
                with evaluation.limited(ensembles.servers) as rate_bytes_s:
                    evaluation.document["rate_bytes_s"] = rate_bytes_s
                    for subject in limited:
                        sweep.run(ensembles, subject)
            for system in dict.fromkeys(each.system for each in meeting):
                gather(evaluation, size, ensembles, [each for each in meeting if each.system == system])


def show(document: Mapping[str, Any]) -> Section:
    every, missing = document["runs"], document["not_measured"]
    steps = [run for run in every if run["step"] in STEPS]
    again = [run for run in every if run["step"] == AGAIN]
    runs = [*steps, *again]
    plots = []
    for step in STEPS:
        for is_limited in (False, True):
            some = [run for run in steps if run["is_limited"] == is_limited]
            if len({run["plan"][step] for run in some if is_of_step(run, step)}) > 1:
                plots.append(thesis_plots.make_step_plot(some, step, is_limited))
    has_best = any(run["step"] in (STEPS[-1], AGAIN) for run in runs)
    times = {of: found for of, found in times_of_base(runs).items() if has_best or of != BEST}
    asked = [run for run in every if run.get("servers")]
    tables = [
        *(best_table(runs, is_limited) for is_limited in (False, True) if has_best and best_of(runs, is_limited)),
        client_table(runs),
        process_table(runs),
        *(beside_table(runs, missing, load, step) for load, step in TABLE_OF if _has(runs, load, step)),
        *([their_table(times)] if times else []),
        time_table(every),
        crowd_table(every, missing),
        server_table(asked),
        *(step_table(steps, step) for step in STEPS),
    ]
    return Section(
        NAME,
        TITLE,
        f"As in the thesis of {THESIS.name}. "
        "Each thread has a client of its own and makes one synchronous call after the other: creates and deletes, "
        "which both count as writes, or reads, of values of "
        f"{every[0]['plan']['size']:,} bytes. The number of threads is raised in one process; with the "
        f"fewest that do {NEARLY:.0%} of the most requests/s, the number of processes; with the fewest of those, "
        "the number of client hosts."
        + (f" Steps of the sweep were run {times_of(steps)}." if steps else "")
        + (f" The best of each was run again, {times_of(again)}." if again else ""),
        [table for table in tables if table.rows],
        [
            *([thesis_plots.make_times_plot(times)] if times else []),
            *(
                thesis_plots.make_trace_plot(every, step, is_limited)
                for step, is_limited in ((ONE, True), (AGAIN, True), (AGAIN, False))
                if traced(every, step, is_limited)
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
            "Its tables name no unit of latency; requests/s times the mean is the number of clients if it is the "
            "second. If the steps are measured together, a row of ours with one process or one host is a run of "
            "the step before it.",
            *([f"{PATIENCE}, and sessions end after {SESSION_TIMEOUT_S:g}."] if "servers" in document else []),
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


def _has(runs: Runs, load: str, step: str) -> bool:
    """Whether there is anything of ours beside one of the thesis' tables."""
    return any(
        run["step"] == step and run["load"] == load and run["is_limited"] and run["subject"] in HALF_OF
        for run in runs
    )
