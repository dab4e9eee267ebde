"""As many clients at once as the thesis had, and more in one process than its client survived."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from bench.lab import Ensembles
from bench.published import MOST_THREADS, best, table
from bench.report.section import Table
from bench.report.text import NOTHING, milliseconds, rate_of
from bench.scenarios.evaluation import Evaluation, LoadError
from bench.scenarios.summary import latency_s, mean_latency_s
from bench.scenarios.thesis_figures import HALF_OF, TABLE_OF
from bench.scenarios.thesis_runs import Runs
from bench.scenarios.thesis_sizes import CROWD, Gathering, Size
from bench.scenarios.thesis_sweep import MORE_MEDIANS, WARM_UP_WAITS, find_obstacle, settings_of
from bench.statistics import WINDOW_MEDIANS

LOAD = "writes"
WAITING = {"connect_timeout_s": 300.0, "begin_timeout_s": 350.0}  # all clients are on one machine
LEAST_WINDOW_S, MOST_CROWD_S = 20.0, 150.0
SLOWER = 2  # times: past the best, more clients do fewer requests/s


def gather(evaluation: Evaluation, size: Size, ensembles: Ensembles, gatherings: Sequence[Gathering]) -> None:
    """Those of one system, until one of them cannot be had."""
    most = 0.0
    for each in gatherings:
        counts = {"nodes": each.nodes, "processes": each.processes, "threads": each.threads}
        wait_s = each.clients / most if most else 0.0
        least_s = min(LEAST_WINDOW_S, 10 * size.measure_s)
        needs_s = math.ceil(MORE_MEDIANS * WINDOW_MEDIANS * wait_s)
        point = {"subject": f"{each.system} {each.shape}", "is_limited": False, "load": LOAD, "step": CROWD}
        point["clients"] = list(counts.values())
        if why := find_obstacle(evaluation, counts, max(least_s, needs_s), MOST_CROWD_S):
            evaluation.not_measured(f"{each.clients:,} clients of {point['subject']}", why, **point)
            return
        settings = {**settings_of(size, LOAD), **WAITING, **counts}
        settings["warm_up_s"] = max(size.warm_up_s, WARM_UP_WAITS * wait_s)
        settings["measure_s"] = max(least_s, min(SLOWER * needs_s, MOST_CROWD_S))
        try:
            run = evaluation.run(ensembles, evaluation.plan(ensembles, each.system, **settings), point)
        except LoadError:
            return
        most = max(most, run["rates"]["all"])


def crowd_table(runs: Runs, missing: Sequence[Mapping[str, Any]]) -> Table:
    """
    :param missing: the document's entries of what was not measured.
    """
    rows = [
        [
            run["subject"],
            *_clients(run["clients"]),
            rate_of(run),
            f"{run['failed'] + run['unanswered']:,}",
            milliseconds(mean_latency_s(run, LOAD)),
            *(milliseconds(latency_s(run, LOAD, each)) for each in (50, 99)),
            _theirs(run["subject"], run["clients"]),
            _note(run),
        ]
        for run in runs
        if run["step"] == CROWD
    ]
    rows += [
        [
            each["subject"],
            *_clients(each["clients"]),
            *([NOTHING] * 5),
            _theirs(each["subject"], each["clients"]),
            f"not reached: {each['why']}",
        ]
        for each in missing
        if each.get("step") == CROWD
    ]
    return Table(
        "Clients at once, bandwidth not limited; the thesis' client crashed with more than "
        f"{MOST_THREADS} threads in a process",
        (
            *("", "clients", "hosts x processes x threads", "requests/s", "no answer"),
            *("mean, ms", "median, ms", "99%, ms", "thesis/s", "what ended it"),
        ),
        rows,
    )


def _note(run: Mapping[str, Any]) -> str:
    """What it could not do more for, and how its requests failed."""
    limits = [f"limit: {', '.join(run['limits'])}"] if run["limits"] else []
    return "; ".join([*limits, *(f"{count:,} times {name}" for name, count in run["errors"].items())])


def _clients(counts: Sequence[int]) -> list[str]:
    return [f"{math.prod(counts):,}", " x ".join(map(str, counts))]


def _theirs(subject: str, counts: Sequence[int]) -> str:
    """Requests/s of as many clients in table 6.3, whose hosts have as many processes as the best of table 6.2."""
    nodes, processes, _ = counts
    half = HALF_OF.get(subject, "")
    name = f"{TABLE_OF[LOAD, 'nodes']}{half}"
    found = [row for row in table(name) if row.number == nodes]
    is_alike = half and processes == best(f"{TABLE_OF[LOAD, 'processes']}{half}").number
    return f"{found[0].requests_s:,.2f}" if is_alike and found else NOTHING
