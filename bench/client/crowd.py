"""Many clients in one process: how long until all are connected, and what they hold."""

from __future__ import annotations

import gc
import resource
import time
from dataclasses import asdict, dataclass
from typing import Any

import psutil

from bench.client.paths import ENSEMBLES, make_leaves, spread_directories
from bench.client.side import BenchError, run_alone
from parkazoo import ParKazooClient

CLIENTS = 1000
POLL_S = 0.02
CONNECT_TIMEOUT_S = 120.0
SESSION_TIMEOUT_S = 30.0
FILES_BESIDE = 200  # those that are no connections
MOST_S, MOST_THREADS, MOST_KIB = 15.0, 50, 150.0


@dataclass(frozen=True)
class Crowd:
    """
    :param clients: with a session on each of three ensembles.
    :param connected_s: from before the first was made until all were connected.
    :param threads: the most that the process had at any time.
    :param kib: by which the resident memory had grown at the end, for each client.
    :param operations: that were answered; each client did one on each ensemble.
    """

    clients: int
    connected_s: float
    threads: int
    kib: float
    operations: int

    def results(self) -> list[tuple[str, str, str, bool]]:
        """What was measured, the figure, its goal, whether it is met."""
        wanted = self.clients * ENSEMBLES
        return [
            ("until all are connected", f"{self.connected_s:.1f} s", f"< {MOST_S:g} s", self.connected_s < MOST_S),
            ("threads in all, at most", f"{self.threads}", f"≤ {MOST_THREADS}", self.threads <= MOST_THREADS),
            ("memory for each client", f"{self.kib:.0f} KiB", f"≤ {MOST_KIB:g} KiB", self.kib <= MOST_KIB),
            ("operations answered", f"{self.operations}", f"{wanted}", self.operations == wanted),
        ]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def measure_crowd(hosts: str, clients: int) -> Crowd:
    """In a process of its own.

    :raises BenchError: they could not all be connected or asked.
    """
    return Crowd(**run_alone(_crowd, hosts, clients))


def _crowd(hosts: str, count: int) -> dict[str, Any]:
    allow_files(count * ENSEMBLES + FILES_BESIDE)
    first = ParKazooClient(hosts)
    first.start(CONNECT_TIMEOUT_S)
    paths = make_leaves(first, spread_directories("/bench-crowd", ENSEMBLES))[:ENSEMBLES]
    process = psutil.Process()
    gc.collect()
    before = process.memory_info().rss
    threads = 0
    began = time.monotonic()
    clients = [ParKazooClient(hosts, timeout=SESSION_TIMEOUT_S) for _ in range(count)]
    is_connected = [client.start_async() for client in clients]
    while not all(each.is_set() for each in is_connected):
        threads = max(threads, process.num_threads())
        if time.monotonic() - began > CONNECT_TIMEOUT_S:
            missing = sum(not each.is_set() for each in is_connected)
            raise BenchError(f"{missing} of {count} clients were not connected within {CONNECT_TIMEOUT_S:g} s")
        time.sleep(POLL_S)
    connected_s = time.monotonic() - began
    results = [client.get_async(path) for client in clients for path in paths]
    for result in results:
        result.get()
        threads = max(threads, process.num_threads())
    operations = len(results)
    del results, result
    gc.collect()
    kib = (process.memory_info().rss - before) / 1024 / count
    for client in clients:
        client.stop()
    first.stop()
    return {
        "clients": count,
        "connected_s": connected_s,
        "threads": threads,
        "kib": kib,
        "operations": operations,
    }


def allow_files(count: int) -> None:
    """Let this process have so many files and sockets open.

    :raises BenchError: it may not.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count:
        raise BenchError(f"a process may have {hard} files open here, and {count} are needed: raise `ulimit -Hn`")
    if soft != resource.RLIM_INFINITY and soft < count:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
