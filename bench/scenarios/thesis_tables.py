"""The tables of the thesis' scenario."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench import statistics
from bench.published import CLIENTS, MISPRINTS, MOST_THREADS, PRINTED_AGAIN, Row, table
from bench.report.section import Table
from bench.report.text import MARK, NOTHING, TOO_SHORT, milliseconds, ranged, rate, rate_of, ratio, share
from bench.scenarios import accounts
from bench.scenarios.evaluation import READ_SHARES
from bench.scenarios.summary import latency_s, mean_latency_s
from bench.scenarios.thesis_figures import (
    BASE,
    COMPARED,
    HALF_OF,
    LATENCIES_BY_TEXT,
    MOST_REQUESTS,
    ONE_THREAD,
    TABLE_OF,
    THESIS_SUBJECT,
    TIMES,
    TIMES_OF_A_PROCESS,
)
from bench.scenarios.thesis_runs import (
    AGAIN,
    ONE,
    STEP_TITLES,
    STEPS,
    Runs,
    best_of,
    run_of,
    traced,
)
from bench.statistics import quantiles, scaled, spread

UNITS = {"threads": "threads", "processes": "processes", "nodes": "hosts"}
SHOWN = (0.05, 0.5, 0.95)  # of the seconds of a run


def clients_of(run: Mapping[str, Any]) -> str:
    """Hosts, processes and threads."""
    return " x ".join(str(run["plan"][step]) for step in reversed(STEPS))


def best_table(runs: Runs, is_limited: bool) -> Table:
    best = best_of(runs, is_limited)
    rows = []
    for subject in dict.fromkeys(subject for subject, _ in best):
        row = [subject]
        for load in READ_SHARES:
            run, base = best.get((subject, load)), best.get((BASE, load))
            row += [rate_of(run), clients_of(run)] if run else [NOTHING, NOTHING]
            times = ratio(run["rates"]["all"], base["rates"]["all"]) if run and base else NOTHING
            row.append("1" if run and run is base and times != TOO_SHORT else times)
            row.append(rate(TIMES[load]) if is_limited and subject == THESIS_SUBJECT else NOTHING)
        rows.append(row)
    how = "bandwidth of the servers limited" if is_limited else "bandwidth not limited"
    columns = [name for load in READ_SHARES for name in (f"{load}/s", "clients", f"times {BASE}", "thesis")]
    title = f"The best of the sweep, {how}; clients are hosts x processes x threads"
    return Table(title, ("", *columns), rows)


def client_table(runs: Runs) -> Table:
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


def process_table(runs: Runs) -> Table:
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


def their_table(times: Mapping[str, Mapping[str, float]]) -> Table:
    """
    :param times: ours, of BEST and of one process, by load.
    """
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


def server_table(runs: Runs) -> Table:
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


def step_table(runs: Runs, step: str) -> Table:
    """All runs of a step whose bandwidth was not limited: the others stand beside the thesis' own."""
    rows = [
        [
            run["subject"],
            run["load"],
            str(run["plan"][step]),
            rate_of(run),
            milliseconds(mean_latency_s(run, run["load"])),
            milliseconds(latency_s(run, run["load"], 50)),
        ]
        for run in runs
        if run["step"] == step and not run["is_limited"]
    ]
    return Table(
        f"Each step, bandwidth not limited: {STEP_TITLES[step]}",
        ("", "load", step, "requests/s", "mean, ms", "median, ms"),
        rows,
    )


def beside_table(runs: Runs, missing: Sequence[Mapping[str, Any]], load: str, step: str) -> Table:
    """A table of the thesis, 6.1 to 6.6: its rows as they are printed, and ours with the same numbers.

    :param missing: the document's entries of what was not measured.
    """
    rows = [
        _beside_row(runs, missing, subject, load, step, number)
        for subject in HALF_OF
        for number in _numbers(runs, missing, subject, load, step)
    ]
    columns = [
        *("", UNITS[step], "thesis/s", "mean, s", "median, s"),
        *("clients here", "here/s", "mean, s", "median, s", "times kazoo, thesis", "times kazoo, here", "note"),
    ]
    if not any(row[-1] for row in rows):
        del columns[-1]
        rows = [row[:-1] for row in rows]
    how = "the servers' bandwidth limited here"
    return Table(f"Table {TABLE_OF[load, step]}: {load}, {STEP_TITLES[step]}; {how}", columns, rows)


def _numbers(runs: Runs, missing: Sequence[Mapping[str, Any]], subject: str, load: str, step: str) -> list[int]:
    printed = {row.number for row in table(_printed_in(subject, load, step))}
    label = {"subject": subject, "is_limited": True, "load": load, "step": step}
    of_step = [run for run in runs if all(run[name] == value for name, value in label.items())]
    absent = [each for each in missing if all(each.get(name) == value for name, value in label.items())]
    return sorted(printed | {run["plan"][step] for run in of_step} | {each["value"] for each in absent})


def _printed_in(subject: str, load: str, step: str) -> str:
    return f"{TABLE_OF[load, step]}{HALF_OF[subject]}"


def _beside_row(
    runs: Runs, missing: Sequence[Mapping[str, Any]], subject: str, load: str, step: str, number: int
) -> list[str]:
    printed = {name: _printed(name, load, step, number) for name in HALF_OF}
    ran = {name: run_of(runs, name, load, step, number) for name in HALF_OF}
    theirs, ours, base = printed[subject], ran[subject], ran[BASE]
    base_row = None if _printed_in(BASE, load, step) == PRINTED_AGAIN else printed[BASE]
    is_base = subject == BASE
    return [
        subject,
        f"{number}",
        *(
            [f"{theirs.requests_s:,.2f}", f"{theirs.mean_s:.6f}", f"{theirs.median_s:.6f}"]
            if theirs
            else [NOTHING] * 3
        ),
        clients_of(ours) if ours else NOTHING,
        rate_of(ours) if ours else NOTHING,
        _seconds(mean_latency_s(ours, load) if ours else None),
        _seconds(latency_s(ours, load, 50) if ours else None),
        f"{theirs.requests_s / base_row.requests_s:.2f}" if theirs and base_row and not is_base else NOTHING,
        ratio(ours["rates"]["all"], base["rates"]["all"]) if ours and base and not is_base else NOTHING,
        _note(missing, subject, load, step, number),
    ]


def _printed(subject: str, load: str, step: str, number: int) -> Row | None:
    return next((row for row in table(_printed_in(subject, load, step)) if row.number == number), None)


def _seconds(value: float | None) -> str:
    return ranged(value, "{:.3g}".format)


def _note(missing: Sequence[Mapping[str, Any]], subject: str, load: str, step: str, number: int) -> str:
    label = {"subject": subject, "is_limited": True, "load": load, "step": step, "value": number}
    notes = [
        f"not measured: {each['why']}"
        for each in missing
        if all(each.get(name) == value for name, value in label.items())
    ]
    name = _printed_in(subject, load, step)
    if name == PRINTED_AGAIN and _printed(subject, load, step, number):
        notes.insert(0, f"table 6.5a again: {number} process{'es' * (number > 1)} of {CLIENTS[name]} threads")
    if why := MISPRINTS.get((name, number)):
        notes.insert(0, why)
    return ". ".join(notes)


def time_table(runs: Runs) -> Table:
    """What figures 6.1 to 6.4 show, in figures."""
    rows = []
    for step, what in ((ONE, ONE_THREAD), (AGAIN, MOST_REQUESTS)):
        for run in traced(runs, step, is_limited=True):
            times = run["trace"]
            counts = [count / times["bucket_s"] for count in times["answered"]]
            rows.append(
                [
                    what,
                    run["subject"],
                    run["load"],
                    clients_of(run),
                    f"{len(counts) * times['bucket_s']:g}",
                    *(rate(each) + MARK * bool(run["limits"]) for each in quantiles(counts, SHOWN)),
                    *(milliseconds(latency_s(run, run["load"], 100 * each)) for each in SHOWN),
                    LATENCIES_BY_TEXT.get((what, run["subject"]), NOTHING) if run["load"] == "writes" else NOTHING,
                ]
            )
    return Table(
        "Over time, bandwidth of the servers limited: requests/s of the seconds of a run, and latencies",
        (
            *("", "", "load", "clients", "seconds", "5% of seconds have at most", "median", "95% at most"),
            *("5% of latencies, ms", "50%, ms", "95%, ms", "thesis, ms"),
        ),
        rows,
    )
