"""The tables and figures of the reports behind this evaluation, and what stands beside them here."""

from __future__ import annotations

from typing import NamedTuple

from bench.published import (
    ETCD,
    ETCD_CDF_S,
    MISPRINTS,
    MOST_THREADS,
    NIL_EXTERNAL,
    PRINTED_TWICE,
    RAFT,
    RAFT_MOST_CLIENTS,
    RECIPE_CALLS,
    THEIR_READS_MS,
    THEIR_TIMES,
    THEIR_WRITES_MS,
    THESIS,
    ZATT,
    ZATT_ELECTIONS,
    ZATT_ON_A_LAPTOP,
    ZATT_ROWS,
    ZATT_SAYS,
    Row,
    best,
    table,
)
from bench.report.section import Section, Table

NAME = "reported"
TITLE = "The reports' tables and figures, and what stands beside them"


class Item(NamedTuple):
    """
    :param theirs: its figures; of a plot, what its text says.
    :param ours: where ours are; or why there are none.
    """

    what: str
    theirs: str
    ours: str


ROUNDED = 0.01  # by which a printed figure may differ from the others of its row


def _best(name: str, unit: str) -> str:
    row: Row = best(name)
    return f"{row.requests_s:,.2f} with {row.number} {unit}"


def _both(number: str, unit: str) -> str:
    """The best of a table's two halves."""
    names = [f"{number}{half}" for half in "ab"]
    ones, threes = (f"{table(name)[0].number} to {table(name)[-1].number}" for name in names)
    found = f"kazoo, {ones} {unit}: {_best(names[0], unit)} at best; its client, {threes}: {_best(names[1], unit)}"
    wrong = [f". Row {count} of table {name}: {why}" for (name, count), why in MISPRINTS.items() if name in names]
    return found + "".join(wrong)


def _contradictions() -> str:
    """Rows of Zatt's table whose figures do not follow from each other."""
    found = []
    for each in ZATT_ROWS:
        rate, kb_s = each.entries / each.took_s, each.entries_s * each.size / 1000
        wrong = []
        if abs(rate / each.entries_s - 1) > ROUNDED:
            wrong.append(f"{each.entries:,} in {each.took_s} s are {rate:,.0f}/s, not {each.entries_s:,}")
        if abs(kb_s / each.kb_s - 1) > ROUNDED:
            wrong.append(f"{each.entries_s:,}/s of {each.size:,} B are {kb_s:g} KB/s, not {each.kb_s:g}")
        if wrong:
            found.append(", and ".join(wrong))
    return f"{len(found)} of its {len(ZATT_ROWS)} rows contradict themselves: {'; '.join(found)}"


NO_POINTS = "a plot, whose points the text does not give"
REPORTS: dict[str, tuple[Item, ...]] = {
    THESIS.name: (
        Item(
            "figures 3.1, 3.2, 4.1 to 4.4 and 7.1: drawings",
            "ZooKeeper's servers and tree; its client's clusters and operations; a recursive delete that crashed. "
            "Nothing in them is measured",
            "docs/design/thesis.md: what each operation does there and here, and the crash (limitation 7.1)",
        ),
        Item(
            "table 5.1: which calls of the client the tests of each recipe check",
            ". ".join(f"{recipe}: {calls}" for recipe, calls in RECIPE_CALLS.items()),
            "python -m bench.recipe_requests counts the requests of each recipe, of kazoo's and of "
            "ParKazooClient's (docs/design/thesis.md has both)",
        ),
        Item(
            "table 6.1: writes, threads of one process",
            f"with more than {MOST_THREADS} threads its client crashed; {_both('6.1', 'threads')}",
            'thesis: "Table 6.1", row by row; of the best, "One process"; "Clients at once" has more threads',
        ),
        Item(
            "table 6.2: writes, processes of one host",
            f"{_both('6.2', 'processes')}. Its text names 11 processes for kazoo, which the table does not have. "
            "Of table 6.1 it names 210 and 110 threads as best; this one goes on with 200 and 100",
            'thesis: "Table 6.2", row by row',
        ),
        Item(
            "table 6.3: writes, client hosts",
            f"{_both('6.3', 'hosts')}. Its text names other figures, 5,421.84 with 5 and 11,430.90; "
            "its conclusion, around 6,300 and 11,000, and with fewer clients 100 to 120% more than kazoo",
            'thesis: "Table 6.3", row by row; of the best, "The thesis\' own requests/s"; "Clients at once" '
            "has as many clients",
        ),
        Item(
            "table 6.4: reads, threads of one process",
            f"its client: {_best('6.4b', 'threads')}, where its text names 20. {PRINTED_TWICE}",
            'thesis: "Table 6.4", row by row',
        ),
        Item(
            "table 6.5: reads, processes of one host",
            f"{_both('6.5', 'processes')}, where its text names 20",
            'thesis: "Table 6.5", row by row',
        ),
        Item(
            "table 6.6: reads, client hosts",
            _both("6.6", "hosts"),
            'thesis: "Table 6.6", row by row; of the best, "The thesis\' own requests/s"',
        ),
        Item(
            "figures 6.1 and 6.2: requests/s and latency over 100 s, of one host, process and thread",
            f"{NO_POINTS}: more requests/s for its client; latencies of 200 to 300 ms, and of 100 to 600 ms for "
            "kazoo. Its table 6.1 has 35 and 37 ms for one thread",
            'thesis: "Over time", one thread for 100 s, in its full size',
        ),
        Item(
            "figures 6.3 and 6.4: requests/s and latency, with most requests/s",
            f"{NO_POINTS}: 250 ms to 1 s for its client, 1.5 to 1.75 s for kazoo. Its table 6.3 has means of "
            "0.66 to 0.94 s",
            'thesis: "Over time", the best of each sweep again for 100 s, in its full size',
        ),
        Item(
            "Ganglia",
            "watches its machines; no figure of that is in the text",
            "thesis: what each server takes: bytes from and to clients and other servers, its data, its files, "
            "and the memory of its Java process; in each scenario, what each host does each second",
        ),
    ),
    ETCD.name: (
        Item(
            "achieved against target throughput, of 1, 3, 5, 7 and 9 nodes",
            f"{NO_POINTS}; etcd 3.5.2, writes of 10 B, a pool of 1,000 clients",
            "networks: the same, with a pool of 1,000 clients and ten keys of 10 B (part theirs of the long "
            "form); with each server's bandwidth limited, so that the curves bend before the load generator does "
            "(keys, open); topologies: over unequal links, and with unequal processors",
        ),
        Item(
            f"latency at the achieved throughput; its distribution at {ETCD_CDF_S:,} requests/s",
            f"{NO_POINTS}: 5th, 50th and 95th percentile",
            "networks: four percentiles over throughput, and the distribution at the highest rate that all reach, "
            "which two processors do not bring to 5,000; besides, any number of requests outstanding, and chains "
            "of 1, 2, 5 and 10 of them, which the slides name as out of scope",
        ),
        Item(
            "a leader of three nodes is killed",
            NO_POINTS,
            "failures: answers and latency over time, on each shape (part killed of the long form), and with "
            "their pool (pool); a follower, and as many as can be spared, killed, frozen and cut off too; cuts: "
            "some do not hear some others; chaos: packets are dropped at random",
        ),
        Item(
            "latency of ocamlpaxos and of etcd, on an SSD, at 8,000 requests/s",
            NO_POINTS,
            "not measured: ocamlpaxos is another system. second-system has etcd beside ZooKeeper",
        ),
    ),
    ZATT.name: (
        Item(
            'table "Distributed testing": seconds, requests/s and KB/s',
            f"{ZATT_SAYS}. {_contradictions()}. So these are no goals",
            "python -m bench.dictionary: the seven rows, an entry for each request, of kazoo on one ensemble and "
            "of DistributedDict on one and on three, of two and of three servers each",
        ),
        Item(
            "the requests/s of one client; of several at once",
            ZATT_ON_A_LAPTOP,
            "python -m bench.dictionary: 1 to 128 clients of 4,000 entries; up to 256 in the rows above",
        ),
        Item(
            "1,000 elections on five servers",
            ", ".join(f"{share:.0%} took less than {1000 * s:g} ms" for s, share in ZATT_ELECTIONS.items()),
            "elections: how long the new leader says that the election took, on five servers (parts many and more "
            "of the long form) and on 3 to 25 (servers); and the time until a client's next write is answered, "
            "with its new connection in it",
        ),
        Item(
            "drawings: elections, replication of the log, a partition",
            "what Raft does; no figures",
            "not measured: the servers are ZooKeeper's. A leader that is cut off is in failures, and in cuts",
        ),
        Item(
            "refresh policies of its client: Always, Lock, Count, Time",
            "no figures",
            "docs/guide/distributed-dict.md: the same four; besides, Watch, the default, and Linearizable",
        ),
        Item(
            "table of five kinds of serialization",
            "text or binary, with a schema or not, and so on; no figures",
            "not measured: a dictionary takes any serializer (JSON by default); ZooKeeper's own cannot be chosen",
        ),
        Item(
            "UDP between its servers, and gRPC in place of it",
            "UDP is called fast; acknowledgement and retransmission are named beside it. gRPC is future work, for "
            "the limit of a datagram",
            "not measured: ZooKeeper's servers speak TCP alone, and are not changed here",
        ),
    ),
    RAFT.name: (
        Item(
            "figures 1 and 2: elections, against servers and against the election timeout",
            f"{NO_POINTS}: slightly less with more servers (5 to 31); linear in the timeout",
            "elections: 3 to 25 servers whose leader is killed (part servers of the long form), and six times "
            "after which a silent leader is given up (timeouts). ZooKeeper has no election timeout: a silent "
            "leader is given up after syncLimit x tickTime",
        ),
        Item(
            "figure 3: replication of 1 KB, against servers",
            f"{NO_POINTS}: it rises from 13 to 15 servers on, because the leader sends 7 MB/s at most",
            'raft: "replicated after", on 3 to 25 servers (part servers)',
        ),
        Item(
            "figures 4 and 10: registering of clients, against servers",
            f"{NO_POINTS}: nearly flat from 5 to 31",
            "raft: sessions that are begun and ended, on 3 to 25 servers (part servers)",
        ),
        Item(
            "figures 5 to 8 and 11 to 14: puts and gets, against servers, crashed servers and sizes",
            f"{NO_POINTS}: puts/s nearly flat and their latency linear in the servers; both flat in the crashed "
            "ones; latency linear in the size, of gets from 10 kB on, and requests/s inversely "
            "proportional",
            "raft: the same, by one client: on 3 to 25 servers (part servers), and on 25 servers, as one ensemble "
            "and as five of five (sizes, crashes). Values end at 1 MB, ZooKeeper's limit; above 10 kB, which "
            "needs new servers each time, they are on one ensemble alone",
        ),
        Item(
            "figures 9 and 15: a matrix of dropped messages comes to all servers",
            f"{NO_POINTS}: its time is linear in the servers, its rate almost inversely proportional",
            'chaos: "A matrix of all pairs of hosts comes into force". It drops packets, not messages',
        ),
        Item(
            "figures 16 and 17: clients at once",
            f"{NO_POINTS}: latency is linear; throughput is, below 100 clients, and {RAFT_MOST_CLIENTS} are the "
            "most that it supports",
            "raft: 1 to 200 clients at once, on 25 servers as one ensemble and as five of five (part clients)",
        ),
        Item(
            "figure 18: recovery, against the length of the log",
            f"{NO_POINTS}: it is linear in that",
            "raft: one and two of 25 servers catch up, with entries and with a snapshot (part recovery)",
        ),
    ),
    NIL_EXTERNAL.name: (
        Item(
            "table 1: latency and rate of puts and gets, one client on three servers",
            "puts 0.171 and 0.04 s, 6.97 and 20.91/s; gets 0.02 and 0.03 s, 66.3 and 63.4/s, "
            "of which its text says: no noticeable difference",
            "deferred: theirs and ours, of one client. Rates of other systems on other machines cannot be "
            "compared, and what is promised differs",
        ),
        Item(
            "figure 1: latency against the share of writes",
            f"{NO_POINTS}: writes take {THEIR_WRITES_MS[0]} to {THEIR_WRITES_MS[1]} ms, reads {THEIR_READS_MS[0]} "
            f"to {THEIR_READS_MS[1]}, and the median of both together shifts abruptly from one to the other; it "
            "does not say whether with deferred writes or without",
            "deferred: median latency of writes, of reads and of both together, and the mean of both, against the "
            "share of writes",
        ),
        Item(
            "figure 2: puts and gets, against clients at once",
            f"{NO_POINTS}: the median and longest latency of puts differ by up to {THEIR_TIMES} times",
            "deferred: puts/s and gets/s, and the median and longest latency, of 1 to 100 clients",
        ),
        Item(
            "figure 3: reads, against the share that is of recent writes",
            f"{NO_POINTS}: they take longer, because each has to run an entry of the log at least, if all "
            "are recent",
            "deferred: the same, of 1,000 reads and 1,000 writes, again and again",
        ),
        Item(
            "figure 4: availability of writes on five servers",
            f"{NO_POINTS}: less, because a write needs four servers of five, not three; and recovery from "
            "failures takes longer",
            "deferred: followers of five servers die, one after the other. A deferred write waits for a quorum, "
            "not for more",
        ),
    ),
}


def section() -> Section:
    return Section(
        NAME,
        TITLE,
        "Each table and figure that a report has, with the best of its figures; of a plot, what the text says. "
        "Crosses in the plots above are the thesis' own.",
        [
            Table(report, ("what", "theirs", "ours"), [list(item) for item in items], is_prose=True)
            for report, items in REPORTS.items()
        ],
    )
