"""What the thesis compared: its client on three ensembles of three servers, and kazoo on one."""

from __future__ import annotations

from typing import NamedTuple

from bench.published import BEST_BY_TEXT, CLIENTS, Row, best, table


class Compared(NamedTuple):
    """Requests/s of both.

    :param of: the best of all; of as many client hosts; of one process.
    :param three_with: on how many client hosts or threads; empty if the thesis does not say. `one_with` likewise.
    :param source: its tables or section.
    """

    load: str
    of: str
    three: float
    three_with: str
    one: float
    one_with: str
    source: str

    @property
    def times(self) -> float:
        return self.three / self.one


class Names(NamedTuple):
    """Of its tables with the same load and the same unit: its client's, and kazoo's."""

    three: str
    one: str


BEST, ONE_PROCESS = "the best of all", "one process"
HOSTS_ALIKE, THREADS_ALIKE = "as many client hosts", "one process, as many threads"
BY_HOSTS = {"writes": Names("6.3b", "6.3a"), "reads": Names("6.6b", "6.6a")}
BY_THREADS = Names("6.1b", "6.1a")
OF_READS = Names("6.4b", "6.5a")  # the first row of 6.5a is one process; kazoo's reads by threads are not printed


# Of each load and step of the sweep, the number of its table; half a is kazoo's, half b its client's.
TABLE_OF = {
    ("writes", "threads"): "6.1",
    ("writes", "processes"): "6.2",
    ("writes", "nodes"): "6.3",
    ("reads", "threads"): "6.4",
    ("reads", "processes"): "6.5",
    ("reads", "nodes"): "6.6",
}
BASE = "kazoo 1x3"
THESIS_SUBJECT = "parkazoo 3x3"  # the thesis ran three ensembles of three servers, and one; no other shapes
HALF_OF = {BASE: "a", THESIS_SUBJECT: "b"}


def numbers_printed(load: str, step: str, subject: str) -> list[int]:
    """Of threads, processes or hosts: those of its half of a table, and the most of the other half."""
    of = {each: [row.number for row in table(f"{TABLE_OF[load, step]}{half}")] for each, half in HALF_OF.items()}
    return sorted({*of[subject], *(max(numbers) for numbers in of.values())})


def _compare(load: str, of: str, names: Names, three: Row, one: Row, unit: str, one_with: str = "") -> Compared:
    source = f"tables {names.three}, {names.one}"
    one_with = one_with or _with(one.number, unit)
    return Compared(load, of, three.requests_s, _with(three.number, unit), one.requests_s, one_with, source)


def _with(count: int, unit: str) -> str:
    return f"{count} {unit}{'s' * (count > 1)}"


def _compare_best(load: str, of: str, names: Names, unit: str) -> Compared:
    return _compare(load, of, names, best(names.three), best(names.one), unit)


def _compare_alike(load: str, of: str, names: Names, unit: str) -> list[Compared]:
    """The rows of both tables that have the same number."""
    threes, ones = ({row.number: row for row in table(name)} for name in names)
    return [_compare(load, of, names, threes[each], ones[each], unit) for each in ones if each in threes]


_ONE_PROCESS, _ITS_THREADS = table(OF_READS.one)[0], _with(CLIENTS[OF_READS.one], "thread")
BY_TABLES = {load: _compare_best(load, BEST, names, "host") for load, names in BY_HOSTS.items()}
OF_A_PROCESS = {
    "writes": _compare_best("writes", ONE_PROCESS, BY_THREADS, "thread"),
    "reads": _compare("reads", ONE_PROCESS, OF_READS, best(OF_READS.three), _ONE_PROCESS, "thread", _ITS_THREADS),
}
COMPARED = (
    BY_TABLES["writes"],
    Compared("writes", BEST, BEST_BY_TEXT[0], "", BEST_BY_TEXT[1], "5 hosts", "section 6.3"),
    BY_TABLES["reads"],
    *(each for load, names in BY_HOSTS.items() for each in _compare_alike(load, HOSTS_ALIKE, names, "host")),
    *OF_A_PROCESS.values(),
    *_compare_alike("writes", THREADS_ALIKE, BY_THREADS, "thread"),
)
TIMES = {load: each.times for load, each in BY_TABLES.items()}
TIMES_OF_A_PROCESS = {load: each.times for load, each in OF_A_PROCESS.items()}
UNLIKE = "; ".join(
    f"{load} with {each.three_with} on three ensembles and {each.one_with} on one"
    for load, each in BY_TABLES.items()
)
# Milliseconds that its text says of figures 6.2 (of one thread) and 6.4 (of the most requests/s). The points of
# its plots are not in the text.
ONE_THREAD, MOST_REQUESTS = "one thread", "most requests/s"
LATENCIES_BY_TEXT = {
    (ONE_THREAD, BASE): "100 to 600",
    (ONE_THREAD, THESIS_SUBJECT): "200 to 300",
    (MOST_REQUESTS, BASE): "1,500 to 1,750",
    (MOST_REQUESTS, THESIS_SUBJECT): "250 to 1,000",
}
