"""Tables of two reports' figures beside ours: the one on Raft, and the slides on etcd.

Both print plots without points. So a figure of ours is a change, as their text has it: ``a → b: c`` goes from the
lowest of what is varied to the highest, and c = b / a.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from bench.pages.raw import Raw
from bench.pages.report_tables import A_PLOT, FULL_HERE, OTHERS, Line, change, command_of, table_of, times
from bench.published import ETCD_CDF_S, RAFT_MOST_CLIENTS
from bench.report.section import Table
from bench.report.text import NOTHING, milliseconds, rate, seconds, size
from bench.scenarios import catching_up, dropped_packets, elections, failures, networks, raft, topologies
from bench.scenarios.curves import highest_reached, make_answer, subject
from bench.scenarios.repetitions import fold
from bench.scenarios.summary import latency_s
from bench.statistics import quantiles

Options = Mapping[str, str]
Run = Mapping[str, Any]
Find = Callable[[Run], float | None]
Write = Callable[[float | None], str]
Document = Mapping[str, Any]

BUSY = f"{OTHERS}, and {FULL_HERE}"
FIGURE = re.compile(r"^figure (\d+)")
QUORUM = 3  # servers: fewer have none


def _rate(run: Run) -> float:
    found: float = run["rates"]["all"]
    return found


def _median(run: Run) -> float | None:
    return latency_s(run, run["load"], 50)


def _replicated(run: Run) -> float | None:
    found: float | None = run.get("replicated_s")
    return found


# Of each figure of the report on Raft: what it has, what is varied, the load, ours, and what its text says.
FIGURES: Sequence[tuple[str, str, str, Find, Write, str]] = (
    (
        "figure 3: replication of 1 KB, ms",
        "servers",
        "writes",
        _replicated,
        milliseconds,
        "sublinear, from 13 to 15 on",
    ),
    ("figure 4: registrations/s; ours sessions", "connects", "writes", _rate, rate, "slightly fewer"),
    ("figure 5: puts/s", "servers", "writes", _rate, rate, "slightly fewer"),
    ("figure 6: puts/s", "crashed", "writes", _rate, rate, "slightly fewer"),
    ("figure 7: gets/s", "size", "reads", _rate, rate, "inversely proportional"),
    ("figure 8: puts/s", "size", "writes", _rate, rate, "almost inversely proportional"),
    ("figure 10: registration, ms; ours a session", "connects", "writes", _median, milliseconds, "the same"),
    ("figure 11: put, ms", "servers", "writes", _median, milliseconds, "linear"),
    ("figure 12: put, ms", "size", "writes", _median, milliseconds, "linear"),
    ("figure 13: put, ms", "crashed", "writes", _median, milliseconds, "flat"),
    ("figure 14: get, ms", "size", "reads", _median, milliseconds, "flat to 10 kB, then linear"),
    ("figure 16: put, ms", "clients", "writes", _median, milliseconds, "linear"),
    ("figure 17: puts/s", "clients", "writes", _rate, rate, "linear below 100 clients"),
)
UNITS = {"servers": "servers", "connects": "servers", "crashed": "servers crashed", "clients": "clients"}


def raft_report(raws: Sequence[Raw], _: Options) -> Table:
    """Of results of scenarios elections, raft and chaos."""
    lines = {elections.NAME: _elections, raft.NAME: _loads, dropped_packets.NAME: _uploads}
    found = [line for raw in raws for line in lines[raw.document["scenario"]](raw.document)]
    return table_of(sorted(found, key=lambda line: int(FIGURE.search(line.what)[1])))  # type: ignore[index]


def _elections(document: Document) -> Iterator[Line]:
    of: dict[str, list[Run]] = {}
    for trial in document["trials"]:
        of.setdefault(trial["group"], []).append(trial)
    of_candidates = f"{OTHERS}; theirs is the time until a candidate leads or follows"
    for figure, name, measured, what, theirs in (
        (1, "servers", "elected_s", "the election, as the new leader says, ms", "slightly less"),
        (2, "timeout", "took_s", "from the loss of a leader to an answer, ms", "linear"),
    ):
        pattern, _ = elections.AGAINST[name]
        points = []
        for group, trials in of.items():
            found = [each[measured] for each in trials if each[measured] is not None]
            if (match := pattern.search(group)) and found:
                points.append((float(match[1]), quantiles(found, (0.5,))[0]))
        unit = {"servers": "servers", "timeout": "s until it is given up"}[name]
        yield from _line(f"figure {figure}: {what}", points, unit, milliseconds, theirs, of_candidates, document)


def _loads(document: Document) -> Iterator[Line]:
    runs = [run for run in fold(document["runs"]) if run["of"] in raft.TITLES]
    for what, of, load, find, write, theirs in FIGURES:
        some = [run for run in runs if (run["of"], run["load"]) == (of, load)]
        for system in dict.fromkeys(run["system"] for run in some):
            ours = [run for run in some if run["system"] == system]
            least = QUORUM if of in raft.COUNTED else 0
            points = [
                (run["value"], found)
                for run in ours
                if run["value"] >= least and (found := find(run)) is not None and not math.isnan(found)
            ]
            alike = BUSY if any(run["limits"] for run in ours) else OTHERS
            name = what if system == raft.KAZOO else f"{what}, ParKazooClient"
            yield from _line(name, points, UNITS.get(of, ""), write, theirs, alike, document)
    puts = [run for run in runs if (run["of"], run["load"]) == ("clients", "writes")]
    served = [run["value"] for run in puts if not math.isnan(_rate(run))]
    if served:
        most = max(served)
        yield Line(
            "figure 17: clients at once, at most; ours, of those with a figure",
            f"{RAFT_MOST_CLIENTS}",
            f"{most:,.0f}",
            times(most, RAFT_MOST_CLIENTS),
            OTHERS,
            command_of(document),
        )
    yield from _recovery(document)


def _recovery(document: Document) -> Iterator[Line]:
    groups: dict[tuple[int, bool], list[tuple[float, float]]] = {}
    for trial in catching_up.folded(document["trials"]):
        key = trial.get("followers", 1), trial.get("snapshots", 0) > 0
        groups.setdefault(key, []).append((trial["missed"], trial["took_s"]))
    for (followers, is_whole), points in sorted(groups.items()):
        how = "with a snapshot" if is_whole else "with entries"
        what = f"figure 18: recovery of {followers}, {how}, s"
        alike = f"{OTHERS}; ours has the start of a Java virtual machine in it"
        yield from _line(what, points, "entries missed", seconds, "linear", alike, document)


def _uploads(document: Document) -> Iterator[Line]:
    uploads = document.get("uploads", [])
    alike = f"{OTHERS}; a matrix of packets, not messages"
    took = [(each["hosts"], each["one_by_one_s"]) for each in uploads]
    rates = [(hosts, 1 / took_s) for hosts, took_s in took]
    for what, points, write, theirs in (
        ("figure 9: matrices/s, uploaded one by one", rates, rate, "almost inversely proportional"),
        ("figure 15: a matrix uploaded one by one, ms", took, milliseconds, "linear"),
    ):
        yield from _line(what, points, "hosts", write, theirs, alike, document)


def _line(
    what: str,
    points: Sequence[tuple[float, float]],
    unit: str,
    write: Write,
    theirs: str,
    alike: str,
    document: Document,
) -> Iterator[Line]:
    """None if there is one point alone."""
    found = sorted(points, key=lambda point: point[0])
    if len(found) < 2:
        return
    (low, first), (high, last) = found[0], found[-1]
    span = f"{low:,.4g} → {high:,.0f} {unit}" if unit else f"{size(int(low))} → {size(int(high))}"
    yield Line(f"{what}; {span}", theirs, change(first, last, write), NOTHING, alike, command_of(document))


def etcd_slides(raws: Sequence[Raw], _: Options) -> Table:
    """Of results of scenarios networks, failures and topologies."""
    lines = {networks.NAME: _networks, failures.NAME: _failures, topologies.NAME: _processors}
    return table_of([line for raw in raws for line in lines[raw.document["scenario"]](raw.document)])


def _networks(document: Document) -> Iterator[Line]:
    command, runs = command_of(document), fold(document["runs"])
    for loop in (networks.TEN, networks.POOL, networks.OPEN):
        some = [run for run in runs if run.get("loop") == loop]
        if not some:
            continue
        title = networks.TITLES[loop]
        keys = "" if loop == networks.TEN else f"values of {some[0]['plan']['size']} B, more keys, "
        limit = "limited bandwidth" if document.get("rate_bytes_s") else "two processors for all"
        alike = f"{'no' if keys or document.get('rate_bytes_s') else 'the load is'}: {keys}{limit}; not etcd"
        reached = make_answer("", some).measured
        yield Line(f"{title}: highest target/s that is achieved", A_PLOT, reached, NOTHING, alike, command)
        if not (common := highest_reached(some)):
            continue
        what = f"{title}: distribution of latency, at requests/s that all reach"
        yield Line(what, f"{ETCD_CDF_S:,}", rate(common), times(common, ETCD_CDF_S), alike, command)
        for percentile in (5.0, 50.0, 95.0):
            each = (f"{subject(run)} {_plain_ms(run, percentile)}" for run in some if run["target"] == common)
            yield Line(f"{title}: {percentile:g}% there, ms", A_PLOT, ", ".join(each), NOTHING, alike, command)
    chained = [run for run in runs if run.get("loop") == networks.CHAINED]
    for name in dict.fromkeys(map(subject, chained)):
        points = [
            (run["chain"], found)
            for run in chained
            if subject(run) == name and (found := latency_s(run, "writes", 50)) is not None
        ]
        what, theirs = f"chain of dependent requests, {name}, ms", "out of scope"
        yield from _line(what, points, "requests", milliseconds, theirs, "theirs has none", document)


def _plain_ms(run: Run, percentile: float) -> str:
    """Without its range."""
    return milliseconds(latency_s(run, "writes", percentile)).partition("\n")[0]


def _failures(document: Document) -> Iterator[Line]:
    for run in fold(document["runs"]):
        if run["fault"] == failures.KILLED and "noticed" in run:
            found = run["noticed"][0]
            for what, name in (("longest silence", "silence_s"), ("99% of latency meanwhile", "during_s")):
                yield Line(
                    f"leader killed, {subject(run)}: {what}, ms",
                    A_PLOT if run["shape"] == "1x3" else NOTHING,
                    milliseconds(found[name]),
                    NOTHING,
                    f"no: {run['plan']['rate_s']:,.0f} requests/s, and ZooKeeper",
                    command_of(document),
                )


def _processors(document: Document) -> Iterator[Line]:
    """Hosts with unequal processors, which the slides name as their next work."""
    runs = [run for run in fold(document["runs"]) if run["network"] in topologies.PROCESSORS]
    for network in dict.fromkeys(run["network"] for run in runs):
        some = [run for run in runs if run["network"] == network]
        what = f"unequal processors: {network}: highest target/s that is achieved"
        reached = make_answer("", some).measured
        yield Line(what, "upcoming work", reached, NOTHING, "theirs has none", command_of(document))
