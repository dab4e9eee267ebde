"""Many clients in one process: how long until all are connected, and what they hold."""

from __future__ import annotations

import gc
import resource
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import psutil

from bench.client.paths import make_leaves, spread_directories
from bench.client.side import BenchError, run_alone
from parkazoo import ParKazooClient
from parkazoo.local import four_letter_word

CLIENTS = 1000
POLL_S = 0.02
CONNECT_TIMEOUT_S = 120.0
SESSION_TIMEOUT_S = 30.0
FILES_BESIDE = 200  # those that are no connections
MOST_S, MOST_THREADS, MOST_KIB = 15.0, 50, 150.0
ALIVE = "zk_num_alive_connections"


@dataclass(frozen=True)
class Gathering:
    """
    :param ensembles: of the map.
    :param used: of them, by each client.
    """

    ensembles: int
    used: int


GATHERINGS = {"crowd": Gathering(3, 3), "crowd-of-few": Gathering(30, 2)}


@dataclass(frozen=True)
class Crowd:
    """
    :param clients: that use so many of the map's ensembles each.
    :param connected_s: from before the first was made until all were connected.
    :param answered_s: until each had been answered by every ensemble that it uses.
    :param sessions: on all ensembles together, at the end.
    :param sockets: that the process had opened by then.
    :param threads: the most that the process had at any time.
    :param kib: by which the resident memory had grown at the end, for each client.
    :param operations: that were answered; each client did one on each ensemble that it uses.
    """

    clients: int
    ensembles: int
    used: int
    connected_s: float
    answered_s: float
    sessions: int
    sockets: int
    threads: int
    kib: float
    operations: int

    def results(self) -> list[tuple[str, str, str, bool]]:
        """What was measured, the figure, its goal, whether it is met."""
        wanted = self.clients * self.used
        most = self.clients * most_sessions(self.ensembles, self.used)
        return [
            ("until all are connected", f"{self.connected_s:.1f} s", f"< {MOST_S:g} s", self.connected_s < MOST_S),
            ("until all are answered", f"{self.answered_s:.1f} s", f"< {MOST_S:g} s", self.answered_s < MOST_S),
            ("sessions", f"{self.sessions:,}", f"≤ {most:,}", self.sessions <= most),
            ("sockets", f"{self.sockets:,}", f"≤ {most:,}", self.sockets <= most),
            ("threads in all, at most", f"{self.threads}", f"≤ {MOST_THREADS}", self.threads <= MOST_THREADS),
            ("memory for each client", f"{self.kib:.0f} KiB", f"≤ {MOST_KIB:g} KiB", self.kib <= MOST_KIB),
            ("operations answered", f"{self.operations:,}", f"{wanted:,}", self.operations == wanted),
        ]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def measure_crowd(hosts: Sequence[str], clients: int, used: int) -> Crowd:
    """In a process of its own.

    :param hosts: of each ensemble, all on one map.
    :raises BenchError: they could not all be connected or asked.
    """
    return Crowd(**run_alone(_crowd, hosts, clients, used))


def _crowd(hosts: Sequence[str], count: int, used: int) -> dict[str, Any]:
    ensembles = len(hosts)
    allow_files(count * most_sessions(ensembles, used) + FILES_BESIDE)
    first = ParKazooClient(hosts[0])
    first.start(CONNECT_TIMEOUT_S)
    paths = make_leaves(first, spread_directories("/bench-crowd", ensembles, ensembles))[:ensembles]
    process = psutil.Process()
    gc.collect()
    before, sessions, files = process.memory_info().rss, count_sessions(hosts), process.num_fds()
    threads = 0

    def wait_all(are_done: Callable[[], bool]) -> float:
        nonlocal threads
        while not are_done():
            threads = max(threads, process.num_threads())
            if time.monotonic() - began > CONNECT_TIMEOUT_S:
                raise BenchError(f"{count} clients were not connected and answered within {CONNECT_TIMEOUT_S:g} s")
            time.sleep(POLL_S)
        return time.monotonic() - began

    began = time.monotonic()
    clients = [ParKazooClient(hosts[number % ensembles], timeout=SESSION_TIMEOUT_S) for number in range(count)]
    is_connected = [client.start_async() for client in clients]
    connected_s = wait_all(lambda: all(each.is_set() for each in is_connected))
    asked = [
        client.get_async(paths[(number * used + turn) % ensembles])
        for number, client in enumerate(clients)
        for turn in range(used)
    ]
    answered_s = wait_all(lambda: all(each.ready() for each in asked))
    operations = sum(bool(each.get()) for each in asked)
    asked.clear()
    gc.collect()
    figures = {
        "clients": count,
        "ensembles": ensembles,
        "used": used,
        "connected_s": connected_s,
        "answered_s": answered_s,
        "sessions": count_sessions(hosts) - sessions,
        "sockets": process.num_fds() - files,
        "threads": threads,
        "kib": (process.memory_info().rss - before) / 1024 / count,
        "operations": operations,
    }
    for client in clients:
        client.stop()
    first.stop()
    return figures


def most_sessions(ensembles: int, used: int) -> int:
    """Of a client: on the ensemble that it begins with, and on those that it uses."""
    return min(used + 1, ensembles)


def count_sessions(hosts: Sequence[str]) -> int:
    """Of all ensembles together, which have one server each."""
    return sum(_alive(four_letter_word(each, "mntr")) for each in hosts)


def _alive(told: str) -> int:
    entries: Mapping[str, str] = dict(line.split("\t", 1) for line in told.splitlines() if "\t" in line)
    return int(entries[ALIVE])


def allow_files(count: int) -> None:
    """Let this process have so many files and sockets open.

    :raises BenchError: it may not.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count:
        raise BenchError(f"a process may have {hard} files open here, and {count} are needed: raise `ulimit -Hn`")
    if soft != resource.RLIM_INFINITY and soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
