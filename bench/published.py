"""The reports behind this evaluation, and the figures of theirs that stand beside ours, as they are printed.

`published.csv` has tables 6.1 to 6.6 of the thesis: requests/s, mean and median latency of each number of
threads, processes or client hosts. The tables print no unit of a latency; it is the second, because requests/s
times the mean latency is the number of clients in nearly every row. Tables a are kazoo's on one ensemble of three
servers, tables b its client's on three such ensembles.
"""

from __future__ import annotations

import csv
from functools import cache
from typing import NamedTuple

from bench import ROOT


class Source(NamedTuple):
    authors: str
    title: str
    where: str

    @property
    def name(self) -> str:
        return f"{self.authors}: {self.title} ({self.where})"


THESIS = Source("Arjun Naik", "ParKazoo: A partitioned scheme for scaling ZooKeeper", "TU Dresden, January 2015")
ETCD = Source(
    "Chris Jensen, Daniel Sääw, Heidi Howard, Richard Mortier",
    "Resolving Consensus: Benchmarking distributed key value stores on arbitrary network configurations",
    "slides, University of Cambridge",
)
ZATT = Source("Zatt", "A Python implementation of the Raft algorithm for distributed consensus", "slides")
RAFT = Source(
    "Chih-hung Cheng, Xi Pu",
    "RAFT Consensus Protocol Implementation and Measurement",
    "University of California, San Diego",
)
NIL_EXTERNAL = Source(
    "Rahul Chunduru, Sweksha Sinha, FNU Tabish",
    "Nil-Externalized RAFT Protocol",
    "University of Wisconsin-Madison",
)


class Row(NamedTuple):
    """A row of a table of the thesis.

    :param number: of threads, processes or client hosts.
    """

    number: int
    requests_s: float
    mean_s: float
    median_s: float


# Of each table, the clients that one more thread, process or host adds: requests/s times mean latency, over the
# number of the row. A row of table 6.4a is called a thread and has six clients.
CLIENTS = {
    "6.1a": 1,
    "6.2a": 200,
    "6.3a": 1200,
    "6.4a": 6,
    "6.5a": 6,
    "6.6a": 108,
    "6.1b": 1,
    "6.2b": 100,
    "6.3b": 800,
    "6.4b": 1,
    "6.5b": 10,
    "6.6b": 200,
}
# Rows that contradict themselves, and why. They are taken as they are printed. Lost clients explain only a
# product that is too small.
MISPRINTS = {
    ("6.1b", 20): "misprint: 20 clients at 141.98 requests/s have a mean latency of 0.141 s; it prints 0.160644",
    ("6.2b", 2): (
        "misprint, or clients were lost: 200 clients with a mean latency of 0.527642 s make 379 requests/s; "
        "it prints 337.60"
    ),
    ("6.3a", 5): (
        "misprint, or clients were lost: 6,000 clients with a mean latency of 0.941874 s make 6,370 requests/s; "
        "it prints 5,864.40"
    ),
    ("6.6b", 11): (
        "misprint, or clients were lost: 2,200 clients with a mean latency of 0.010753 s make 204,594 requests/s; "
        "it prints 105,863.90"
    ),
}
PRINTED_AGAIN = "6.4a"
PRINTED_TWICE = (
    "Its table 6.4a (kazoo's reads by threads) is its table 6.5a (by processes) printed again, but for three "
    "digits. In each row requests/s times mean latency is six times the row's number, so a row is that many "
    "processes of six threads. What kazoo reads with more threads is not in the thesis."
)


@cache
def table(name: str) -> tuple[Row, ...]:
    """A table of the thesis, by its number and letter."""
    with (ROOT / "bench" / "published.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["table"] == name]
    return tuple(
        Row(int(row["number"]), float(row["requests_s"]), float(row["mean_s"]), float(row["median_s"]))
        for row in rows
    )


def best(name: str) -> Row:
    """The row of a table with most requests/s."""
    return max(table(name), key=lambda row: row.requests_s)


# Section 6.3 names these as the best writes, of its client and of kazoo; no table has them. 6.5 has others.
BEST_BY_TEXT = 11_430.90, 5_421.84
MOST_THREADS = 110  # in one process; with more its client crashed


# Its table 5.1: of each recipe, the client's calls that its unit test checks.
RECIPE_CALLS = {
    "Barrier": "create, delete, ensure_path",
    "Counter": "ensure_path, set, get, retry",
    "Lock": "get_children, delete, create, exists",
    "Semaphore": "exists, ensure_path, get_children, delete",
    "Partitioner": "watch",
    "Party": "get_children, create",
    "Queue": "sync, ensure_path, retry, delete",
    "Watcher": "get, get_children, retry",
}

RAFT_MOST_CLIENTS = 160  # at once, that the system of the report on Raft supports
ETCD_CDF_S = 5000  # requests/s, of the slides' distribution of latency


class Entries(NamedTuple):
    """A row of Zatt's table "Distributed testing"; where `entries_s` is req/s, `kb_s` the leader's throughput."""

    servers: int
    clients: int
    workers: int
    entries: int
    size: int
    took_s: float
    entries_s: float
    kb_s: float


ZATT_ROWS = (
    Entries(2, 4, 256, 1000, 1000, 10.94, 91, 91.4),
    Entries(2, 4, 256, 5000, 1000, 15.22, 657, 656.9),
    Entries(2, 4, 256, 10_000, 1000, 32.01, 312, 312.4),
    Entries(2, 4, 100, 5000, 1000, 11.85, 422, 421.8),
    Entries(2, 4, 100, 5000, 100, 4.17, 1200, 120.0),
    Entries(2, 2, 100, 5000, 100, 3.13, 1597, 159.75),
    Entries(2, 2, 100, 10_000, 100, 8.53, 1425, 424.95),
)
ZATT_SAYS = (
    "91 to 1,597 requests/s with two servers, 2 or 4 clients, 100 or 256 workers and 1,000 to 10,000 entries of "
    "100 or 1,000 B"
)
# Local tests on a laptop: requests/s of one client at most; of all, with three servers, and of how many clients.
ZATT_ONE_CLIENT_S, ZATT_MOST_S, ZATT_MOST_CLIENTS = 100, 200, 64
ZATT_ON_A_LAPTOP = (
    f"on a laptop {ZATT_ONE_CLIENT_S} requests/s at most by one client; {ZATT_MOST_S} by all, with three servers, "
    f"most with {ZATT_MOST_CLIENTS} clients"
)
ZATT_ELECTIONS = {0.08: 0.87, 0.1: 0.98}  # seconds, and the share of 1,000 elections that took less

# Table 1 of the nil-externality report: one client, three servers; without it, and with it.
THEIR_PUT_S, THEIR_GET_S = (0.171, 0.04), (0.02, 0.03)
THEIR_PUTS, THEIR_GETS = (6.97, 20.91), (66.3, 63.4)
# Its text: milliseconds of writes and of reads, at any share of writes (it does not say whether without it or with
# it); how many times as long a put takes without it, at most.
THEIR_WRITES_MS, THEIR_READS_MS, THEIR_TIMES = (100, 200), (10, 20), 4
THEIR_QUORUMS = 3, 4  # of five servers, that a write takes without it and with it
