"""Tables of a report's own figures beside ours: a line for each figure that has been measured."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from bench import statistics
from bench.dictionary import AS_THEIRS, Shape, as_ours
from bench.pages.raw import Raw
from bench.published import (
    THEIR_GET_S,
    THEIR_GETS,
    THEIR_PUT_S,
    THEIR_PUTS,
    THEIR_QUORUMS,
    THEIR_READS_MS,
    THEIR_TIMES,
    THEIR_WRITES_MS,
    ZATT_ELECTIONS,
    ZATT_MOST_CLIENTS,
    ZATT_MOST_S,
    ZATT_ONE_CLIENT_S,
    ZATT_ROWS,
)
from bench.report.section import Table
from bench.report.text import MARK, NOTHING, milliseconds, rate
from bench.scenarios import elections
from bench.scenarios.failing_followers import FOLLOWERS
from bench.scenarios.repetitions import fold
from bench.scenarios.summary import FULL, mean_latency_s
from bench.scenarios.writes_deferred import (
    BOTH,
    CLIENTS,
    DEFERRED,
    ENDS,
    GET_BESIDE,
    GETS,
    KAZOO_GET,
    KAZOO_SET,
    MODES,
    RECENT,
    SHARE,
    SYNC,
    all_s,
    called_s,
    committed_s,
    mean_all_s,
    read_s,
    requests_s,
)
from bench.statistics import quantiles, spread

Options = Mapping[str, str]
Run = Mapping[str, Any]

SAME, OTHER = "parkazoo {one}", "kazoo {one} → parkazoo {shape}"  # without it → with it
PUTS_BESIDE = {SAME: (SYNC, DEFERRED), OTHER: (KAZOO_SET, DEFERRED)}
GETS_BESIDE = {SAME: GETS, OTHER: (KAZOO_GET, GET_BESIDE)}
LIKE_THEIRS = "parkazoo 1x2"  # a dictionary on one ensemble of two servers
MOST_SIZE = 1000  # of a value in Zatt's table, in bytes
OTHERS = "no: other machines"
FULL_HERE = "our processors were full"
A_PLOT = "a plot"
LIKE = "with it and without it"  # other machines, but both sides of a ratio are on the same


class Line(NamedTuple):
    """
    :param alike: whether like stands beside like; if not, what differs.
    :param command: that has measured ours.
    """

    what: str
    theirs: str
    ours: str
    ratio: str
    alike: str
    command: str


def table_of(lines: Sequence[Line]) -> Table:
    """
    :raises ValueError: there are none.
    """
    if not lines:
        raise ValueError("these results have none of the report's figures")
    return Table("", ("", "theirs", "ours", "ratio", "like with like?", "command"), lines)


def command_of(document: Mapping[str, Any]) -> str:
    """Of a scenario's results."""
    about = document["about"]
    size = "" if about["size"] == "medium" else f" --{about['size']}"
    emulate = " --emulate" if about["lab"]["kind"] == "emulated" else ""
    part = f" --part {document['part']}" if document.get("part") else ""
    return f"`python -m bench.scenarios {document['scenario']}{emulate}{size}{part}`"


def times(ours: float | None, theirs: float) -> str:
    return NOTHING if ours is None else rate(statistics.ratio(ours, theirs))


def zatt(raws: Sequence[Raw], _: Options) -> Table:
    """Of results of scenario elections, whose trials are taken together, and of bench.dictionary."""
    of_elections = [raw.document for raw in raws if raw.document.get("scenario") == elections.NAME]
    others = [raw.document for raw in raws if "scenario" not in raw.document]
    return table_of([*_elections(of_elections), *(line for each in others for line in _clients(each))])


def _elections(documents: Sequence[Mapping[str, Any]]) -> Iterator[Line]:
    """Of five servers whose leader is killed."""
    group = str(elections.Group("1x5", elections.KILLED))
    trials = [each for document in documents for each in document["trials"] if each["group"] == group]
    if not trials:
        return
    elected = [each["elected_s"] for each in trials if each["elected_s"] is not None]
    count, command = f"of {len(elected):,} elections", " and ".join(map(command_of, documents))
    waits = "no: ZooKeeper waits 200 ms for better votes"
    for within_s, share in ZATT_ELECTIONS.items():
        ours = sum(each < within_s for each in elected) / len(elected)
        yield Line(
            f"{count}, less than {1000 * within_s:g} ms took",
            f"{share:.0%}",
            f"{ours:.0%}",
            rate(ours / share),
            waits,
            command,
        )
    for within_s, share in ZATT_ELECTIONS.items():
        (ours_s,) = quantiles(elected, (share,))
        yield Line(
            f"{count}, {share:.0%} took less than, ms",
            f"{1000 * within_s:g}",
            milliseconds(ours_s),
            times(ours_s, within_s),
            waits,
            command,
        )
    for within_s, share in ZATT_ELECTIONS.items():
        (ours_s,) = quantiles([each["took_s"] for each in trials], (share,))
        yield Line(
            f"of {len(trials):,} losses, a write was answered after {share:.0%} within, ms",
            NOTHING,
            milliseconds(ours_s),
            NOTHING,
            f"beside their {1000 * within_s:g} ms: with noticing, and the clients' new connections",
            command,
        )


def _clients(document: Mapping[str, Any]) -> Iterator[Line]:
    """One client, and the most that any number of them write alike, on ensembles of three servers."""
    rows: dict[str, dict[int, list[Mapping[str, Any]]]] = {}
    for row in document["rows"]:
        if row["servers"] == 3 and row["size"] <= MOST_SIZE and _shape(row) not in AS_THEIRS:
            rows.setdefault(_subject(row), {}).setdefault(row["clients"], []).append(row)
    for subject, some in rows.items():
        found = {clients: spread(row["entries_per_s"] for row in each) for clients, each in some.items()}
        most = max(found, key=lambda clients: found[clients])
        for what, theirs, clients in (
            ("requests/s of one client, ours entries", ZATT_ONE_CLIENT_S, 1),
            (
                f"most requests/s: theirs of {ZATT_MOST_CLIENTS} clients, ours entries of {most}",
                ZATT_MOST_S,
                most,
            ),
        ):
            yield Line(
                f"{what}, {subject}",
                rate(theirs),
                _marked(rate(found[clients]), some[clients]),
                times(found[clients], theirs),
                OTHERS,
                "`python -m bench.dictionary`",
            )


def _shape(row: Mapping[str, Any]) -> Shape:
    return Shape(row["entries"], row["size"], row["clients"], row["processes"])


def _subject(row: Mapping[str, Any]) -> str:
    """Of a row of bench.dictionary; old ones had one ensemble and no kazoo."""
    return f"{row.get('system', 'parkazoo')} {row.get('ensembles', 1)}x{row['servers']}"


def zatt_rows(raws: Sequence[Raw], options: Options) -> Table:
    """The rows of their table, and ours beside each.

    :param options: ``of``: ``seconds``, ``entries_per_s`` or ``kb_per_s``.
    :raises ValueError: none has been measured.
    """
    of = options["of"]
    found: dict[Shape, dict[str, list[Mapping[str, Any]]]] = {}
    for row in raws[-1].document["rows"]:
        found.setdefault(_shape(row), {}).setdefault(_subject(row), []).append(row)
    subjects = list(dict.fromkeys(each for some in found.values() for each in some))
    rows = []
    for theirs in ZATT_ROWS:
        if measured := found.get(as_ours(theirs)):
            printed = {"seconds": theirs.took_s, "entries_per_s": theirs.entries_s, "kb_per_s": theirs.kb_s}[of]
            about = f"{theirs.entries:,} of {theirs.size:,} B, {theirs.workers} on {theirs.clients}"
            ours = {each: spread(row[of] for row in some) for each, some in measured.items()}
            cells = [_marked(rate(ours[each]), measured[each]) if each in ours else NOTHING for each in subjects]
            rows.append([about, f"{printed:,g}", *cells, times(ours.get(LIKE_THEIRS), printed)])
    if not rows:
        raise ValueError("these results have none of the table's rows")
    return Table("", ("entries, workers on clients", "Zatt", *subjects, f"{LIKE_THEIRS} of Zatt"), rows)


def _marked(text: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """With a star if the processors had nothing left in one of the rounds."""
    head, line, rest = text.partition("\n")
    return head + (MARK if max(row["busy_percent"] for row in rows) > 100 * FULL else "") + line + rest


def nil_external(raws: Sequence[Raw], _: Options) -> Table:
    """Of results of scenario deferred."""
    lines: list[Line] = []
    for raw in raws:
        runs = fold(raw.document["runs"])
        command = command_of(raw.document)
        found = [*_one_client(runs, command), *_shares(runs, command), *_crowds(runs, command)]
        found += [*_recent(runs, command), *_availability(runs, command)]
        if any(run["limits"] for run in runs):
            found = [line._replace(alike=f"{line.alike}, and {FULL_HERE}") for line in found]
        lines += found
    return table_of(lines)


def _one_client(runs: Sequence[Run], command: str) -> Iterator[Line]:
    """Table 1: without it, with it, and how many times that is."""
    of = {(run["mode"], run["shape"]): run for run in runs if run["part"] == MODES}
    one = runs[0]["shape"]
    for what, theirs, find, modes, alike in (
        ("put, ms until the call returns", THEIR_PUT_S, called_s, PUTS_BESIDE, "no: theirs is durable then"),
        (
            "put, ms; ours until it is committed",
            THEIR_PUT_S,
            committed_s,
            PUTS_BESIDE,
            "no: theirs is not executed then",
        ),
        ("puts/s", THEIR_PUTS, requests_s, PUTS_BESIDE, "no: ours are many at once, and count when committed"),
        ("get, ms", THEIR_GET_S, read_s, GETS_BESIDE, LIKE),
        ("gets/s", THEIR_GETS, requests_s, GETS_BESIDE, LIKE),
    ):
        write = rate if find is requests_s else milliseconds
        for about, (before, after) in modes.items():
            several = [shape for mode, shape in of if mode == after and not shape.startswith("1x")]
            shape = one if about == SAME else (several or [""])[-1]
            if (before, one) not in of or (after, shape) not in of:
                continue
            without, with_it = find(of[before, one]), find(of[after, shape])
            yield Line(
                f"table 1: {what}, {about.format(one=one, shape=shape)}",
                change(*theirs, write),
                change(without, with_it, write),
                times(statistics.ratio(with_it, without), theirs[1] / theirs[0])
                if without and with_it is not None
                else NOTHING,
                alike,
                command,
            )


def change(before: float | None, after: float | None, write: Callable[[float | None], str]) -> str:
    """Without it, with it, and how many times that is, of medians."""
    first, second = (write(each).partition("\n")[0] for each in (before, after))
    found = NOTHING if not before or after is None else rate(float(after) / float(before))
    return f"{first} → {second}: {found}"


def _shares(runs: Sequence[Run], command: str) -> Iterator[Line]:
    """Figure 1: its text has ranges of writes and of reads."""
    some = sorted((run for run in runs if run["part"] == SHARE), key=lambda run: run["value"])
    for mode in BOTH:
        for what, theirs, find in (("writes", THEIR_WRITES_MS, called_s), ("reads", THEIR_READS_MS, read_s)):
            found = [each for run in some if run["mode"] == mode and (each := find(run)) is not None]
            if found:
                yield Line(
                    f"figure 1: {what}, {mode}, median ms, shares of writes: {len(found)}",
                    f"{theirs[0]} to {theirs[1]}",
                    milliseconds(spread(map(float, found))).rpartition("\n")[2],
                    NOTHING,
                    f"{OTHERS}; its text does not name the mode",
                    command,
                )
    yield from _together(some, command)


def _together(runs: Sequence[Run], command: str) -> Iterator[Line]:
    """Figure 1: writes and reads, with few writes and with many."""
    finds = ("median", "from reads' to writes', abruptly", all_s), ("mean", A_PLOT, mean_all_s)
    for mode, (what, theirs, find) in itertools.product(BOTH, finds):
        some = [run for run in runs if run["mode"] == mode]
        if len(some) > 1:
            first, last = some[0], some[-1]
            yield Line(
                f"figure 1: both together, {mode}, {what} ms; {first['value']:.0%} → {last['value']:.0%} writes",
                theirs,
                change(find(first), find(last), milliseconds),
                NOTHING,
                f"{OTHERS}; its text does not name the mode",
                command,
            )


def _crowds(runs: Sequence[Run], command: str) -> Iterator[Line]:
    """Figure 2: how many times as long a put without it takes as one with it, where that is most."""
    some = [run for run in runs if run["part"] == CLIENTS]
    finds = (called_s, "until the call returns"), (committed_s, "until it is committed")
    for (find, until), (percentile, what) in itertools.product(
        finds, zip(ENDS, ("median", "longest"), strict=True)
    ):
        took = {(run["mode"], run["value"]): find(run, percentile) for run in some}
        found = {
            clients: statistics.ratio(before, after)
            for (mode, clients), before in took.items()
            if mode == SYNC and before and (after := took.get((DEFERRED, clients)))
        }
        if len(found) > 1:
            most = max(found, key=lambda clients: found[clients])
            yield Line(
                f"figure 2: times a put's {what} without it, {until}; ours most with {most:g} clients",
                f"up to {THEIR_TIMES}",
                rate(found[most]),
                times(found[most], THEIR_TIMES),
                LIKE,
                command,
            )


def _availability(runs: Sequence[Run], command: str) -> Iterator[Line]:
    """Figure 4: with how many of five servers writes are committed."""
    for run in runs:
        if run["part"] != FOLLOWERS or run["shape"] != "1x5" or "left" not in run:
            continue
        quorum, asked = THEIR_QUORUMS[run["mode"] == DEFERRED], rate(run["value"])
        for each in run["left"]:
            yield Line(
                f"figure 4: of {asked} puts/s, committed with {each['servers']:g} servers, {run['mode']}",
                "available" if each["servers"] >= quorum else "not available",
                rate(each["committed"]),
                NOTHING,
                f"theirs takes {quorum} servers" + (", ours 3" if quorum > THEIR_QUORUMS[0] else ""),
                command,
            )


def _recent(runs: Sequence[Run], command: str) -> Iterator[Line]:
    """Figure 3: reads, from none to all of what was just written. Its text has nothing of reads without it."""
    some = sorted((run for run in runs if run["part"] == RECENT), key=lambda run: run["value"])
    for mode in BOTH:
        found = [
            each for run in some if run["mode"] == mode and (each := mean_latency_s(run, "reads")) is not None
        ]
        if len(found) > 1:
            is_batch = some[0]["plan"].get("batch")  # older results have none
            yield Line(
                f"figure 3: reads, {mode}, mean ms; none and all are recent",
                "longer" if mode == DEFERRED else NOTHING,
                change(found[0], found[-1], milliseconds),
                NOTHING,
                OTHERS if is_batch else "no: our reads came at random times",
                command,
            )
