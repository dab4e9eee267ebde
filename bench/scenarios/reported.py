"""The tables and figures of the reports behind this evaluation, and what stands beside them here."""

from __future__ import annotations

from typing import NamedTuple

from bench.report.section import Section, Table

NAME = "reported"
TITLE = "The reports' tables and figures, and what stands beside them"


class Item(NamedTuple):
    """
    :param theirs: its figures, as far as they are known here.
    :param ours: where ours are; or why there are none.
    """

    what: str
    theirs: str
    ours: str


UNKNOWN = "not known here"
REPORTS: dict[str, tuple[Item, ...]] = {
    "The thesis (TU Dresden, 2015)": (
        Item(
            "table 5.1: which calls of the client a recipe makes",
            UNKNOWN,
            "python -m bench.recipe_requests counts the requests of each recipe, of kazoo's and of "
            "ParKazooClient's (docs/design/evaluation.md has the table)",
        ),
        Item(
            "tables 6.1 to 6.6: rate, mean and median of each step: threads, processes, client hosts",
            "the best: writes/s 12,837.89 on 3x3, 6,477.30 on 1x3 (by its text 11,430.90 and 5,421.84); reads/s "
            "304,516, 2.09 times those on 1x3. Tables of reads have the same figures for threads and processes",
            'thesis: "Each step", and "The thesis\' own requests/s". Only ratios are compared: its machines were '
            "of 2015, and its values had 1 MB, which its own reads/s contradict; here they have 1 KiB",
        ),
        Item(
            "one process: its client on three ensembles, kazoo on one",
            "writes/s 228.93 and 367.17 (62%), reads/s 2,371 and 25,659 (9%); a crash at 110 threads",
            'thesis: "One process"',
        ),
        Item(
            "figures 6.1 and 6.3: requests over time",
            UNKNOWN,
            "thesis: requests/s over time, of the best of each sweep",
        ),
        Item(
            "figures 6.2 and 6.4: latency of requests",
            UNKNOWN,
            "thesis: their latency over time, of the same runs",
        ),
        Item(
            "bytes, memory and disk of each host",
            UNKNOWN,
            "thesis: what each server takes: bytes from and to clients and other servers, its data, its files, "
            "and the memory of its Java process",
        ),
    ),
    "Resolving Consensus": (
        Item(
            "achieved against target throughput",
            UNKNOWN,
            "networks: achieved against target throughput; topologies: the same over unequal links",
        ),
        Item(
            "latency over throughput; its distribution",
            UNKNOWN,
            "networks: four percentiles over throughput, and the cumulative distribution at the highest rate "
            "that all reach; besides, a pool of 1,000 clients, and chains of requests",
        ),
        Item(
            "failures of followers and leaders",
            UNKNOWN,
            "failures: the leader, a follower, and as many as can be spared, killed, frozen and cut off; cuts: "
            "some do not hear some others; chaos: packets are dropped at random",
        ),
    ),
    "Reports on Raft: entries, servers, elections": (
        Item(
            "seconds, entries/s and KB/s for some entries of 10 B to 64 KB, 2 and 3 servers, clients, workers",
            "two rows contradict their own columns: 5,000 entries in 15.22 s are 329/s, not 657; 10,000 in 8.53 s "
            "are 1,172, not 1,425. So these are no goals",
            "raft: entries/s against workers and size. A load here lasts as long as it lasts, whatever the number "
            "of entries; ensembles of two servers bear no fault and are not measured",
        ),
        Item(
            "the rate of one client; clients at once",
            "100 requests/s for one, 200 at most on one machine; the most at 64 clients",
            "raft: 1 to 1,000 clients at once",
        ),
        Item(
            "elections: 1,000 trials on five servers",
            "87% took less than 80 ms, 98% less than 100 ms",
            "elections: what the new leader says that the election took, on three to nine servers; and, with the "
            "clients' new connections in it, the time until a client's next write is answered",
        ),
        Item("throughput against the number of servers, sizes, crashed servers", UNKNOWN, "raft: the same"),
        Item(
            "how long a server takes to catch up",
            UNKNOWN,
            "raft: restarted servers catch up, with entries and with a snapshot",
        ),
    ),
    "Nil-externality: writes that are acknowledged before they are ordered": (
        Item(
            "latency and rate of puts, rate of gets, one client",
            "puts 0.171 and 0.04 s, 6.97 and 20.91/s; gets 66.3 and 63.4/s",
            'deferred: "Theirs and ours". Rates of other systems on other machines cannot be compared, and what '
            "is promised differs",
        ),
    ),
}


def section() -> Section:
    return Section(
        NAME,
        TITLE,
        "What a report measured is named here even where its figures are not known here. Where both are known and "
        "alike, the plots above have the report's own points.",
        [
            Table(report, ("what", "theirs", "ours"), [list(item) for item in items], is_prose=True)
            for report, items in REPORTS.items()
        ],
    )
