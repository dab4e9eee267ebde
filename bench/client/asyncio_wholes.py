"""What asyncio clients hold of memory, and for how long they hold their loop."""

from __future__ import annotations

import asyncio
import gc
import os
import selectors
import statistics
import threading
import time
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar

import psutil
from kazoo.client import KazooClient

from bench.client.asyncio_loads import ROOT
from bench.client.crowd import FILES_BESIDE, SESSION_TIMEOUT_S, allow_files
from bench.client.measured import Figure, Measured
from bench.client.paths import MOST_IN_FLIGHT, VALUE, make_leaves, spread_directories
from bench.client.side import BenchError, run_alone
from bench.client.threads import shares
from bench.client.workload import START_TIMEOUT_S
from parkazoo.aio import ParKazooClient

WAITERS, CLIENTS, OPERATIONS = 10_000, 1000, 12_000
MOST_KIB_A_WAITER, MOST_KIB_A_CLIENT, MOST_TURN_MS = 8.0, 50.0, 4.0
TIMEOUT_S = 240.0
POLL_S = 0.05
REPEATS = 3
T = TypeVar("T")


def measure_waiters(hosts: str, count: int) -> Measured:
    """
    :raises BenchError: they did not come to wait.
    """
    found: Mapping[str, float] = run_alone(_waiters, hosts, count)
    return Measured(
        f"{count:,} coroutines wait for one lock",
        [
            Figure("memory for each waiter", found["kib"], "KiB", MOST_KIB_A_WAITER),
            Figure("until all wait", found["queued_s"], "s"),
            Figure("until the first of them has it", found["next_s"], "s"),
            Figure("threads in all", found["threads"], ""),
        ],
    )


def measure_clients(hosts: str, count: int) -> Measured:
    """
    :raises BenchError: they were not all connected and answered.
    """
    found: Mapping[str, float] = run_alone(_clients, hosts, count)
    return Measured(
        f"{count:,} asyncio clients in one process, one ensemble",
        [
            Figure("memory for each client", found["kib"], "KiB", MOST_KIB_A_CLIENT),
            Figure("until all are answered", found["answered_s"], "s"),
            Figure("tasks of their own", found["tasks"], "", 0),
            Figure("threads in all", found["threads"], "", 1),
        ],
    )


def measure_turns(hosts: str, operations: int) -> Measured:
    longest_ms: list[float] = [run_alone(_longest_turn_ms, hosts, operations) for _ in range(REPEATS)]
    figures = [
        Figure("the longest turn, CPU, median of processes", statistics.median(longest_ms), "ms", MOST_TURN_MS)
    ]
    return Measured(f"turns of a loop with {operations:,} gets and sets, 200 in flight", figures)


class Growth:
    """By how much the resident memory of this process grows."""

    def __init__(self) -> None:
        gc.collect()
        self._process = psutil.Process(os.getpid())
        self._before = self._process.memory_info().rss

    def kib(self) -> float:
        gc.collect()
        return float(self._process.memory_info().rss - self._before) / 1024


def _run(work: Coroutine[Any, Any, T]) -> T:
    async def limited() -> T:
        return await asyncio.wait_for(work, TIMEOUT_S)

    try:
        return asyncio.run(limited())
    except TimeoutError:
        raise BenchError(f"no end within {TIMEOUT_S:g} s") from None


def _waiters(hosts: str, count: int) -> dict[str, float]:
    return _run(_wait_for_lock(hosts, count))


async def _wait_for_lock(hosts: str, count: int) -> dict[str, float]:
    path = f"{ROOT}-lock"
    async with ParKazooClient(hosts, timeout=SESSION_TIMEOUT_S) as client:
        async with client.Lock(path):
            async with client.Lock(f"{path}-before"):  # what is made once is made
                pass
            growth, began_s = Growth(), time.monotonic()
            waiting = [asyncio.create_task(client.Lock(path).acquire()) for _ in range(count)]
            while _watched(client) < count:
                await asyncio.sleep(POLL_S)
            queued_s, kib = time.monotonic() - began_s, growth.kib()
            began_s = time.monotonic()
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        next_s = time.monotonic() - began_s
        for task in waiting:
            task.cancel()
        await asyncio.wait(waiting)
    return {"kib": kib / count, "queued_s": queued_s, "next_s": next_s, "threads": threading.active_count()}


def _watched(client: ParKazooClient) -> int:
    """How many watches on data it has."""
    session = client._session
    assert session is not None
    return sum(len(member.data_watches()) for member in session.roster.members)


def _clients(hosts: str, count: int) -> dict[str, float]:
    allow_files(count + FILES_BESIDE)
    maker = KazooClient(hosts)
    maker.start(START_TIMEOUT_S)
    path = make_leaves(maker, spread_directories(ROOT, 1))[0]
    maker.stop()
    maker.close()
    return _run(_connect(hosts, path, count))


async def _connect(hosts: str, path: str, count: int) -> dict[str, float]:
    async with ParKazooClient(hosts) as first:
        await first.get(path)
    before = len(asyncio.all_tasks())
    growth, began_s = Growth(), time.monotonic()
    clients = [ParKazooClient(hosts, timeout=SESSION_TIMEOUT_S) for _ in range(count)]
    await asyncio.gather(*(client.start(START_TIMEOUT_S) for client in clients))
    await asyncio.gather(*(client.get_async(path) for client in clients))
    answered_s, kib = time.monotonic() - began_s, growth.kib()
    tasks, threads = len(asyncio.all_tasks()) - before, threading.active_count()
    await asyncio.gather(*(client.stop() for client in clients))
    return {"kib": kib / count, "answered_s": answered_s, "tasks": tasks, "threads": threads}


class _Timed(selectors.DefaultSelector):
    """It notes the CPU time that passes between two times that the loop waits: a turn."""

    def __init__(self) -> None:
        super().__init__()
        self.longest_s = 0.0
        self._began_s = time.thread_time()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.longest_s = max(self.longest_s, time.thread_time() - self._began_s)
        found = super().select(timeout)
        self._began_s = time.thread_time()
        return found


def _longest_turn_ms(hosts: str, operations: int) -> float:
    maker = KazooClient(hosts)
    maker.start(START_TIMEOUT_S)
    paths = make_leaves(maker, spread_directories(ROOT))
    maker.stop()
    maker.close()
    timed = _Timed()
    loop = asyncio.SelectorEventLoop(timed)
    longest_s: float = loop.run_until_complete(_work(hosts, paths, operations, timed))
    loop.close()
    return longest_s * 1000


async def _work(hosts: str, paths: Sequence[str], operations: int, timed: _Timed) -> float:
    """Coroutines that get and set, one call after the other. That all of them begin at once does not count."""
    done = 0

    async def use(client: ParKazooClient, some: Sequence[str]) -> None:
        nonlocal done
        for path in some:
            await client.get(path)
            await client.set(path, VALUE)
            done += 1
            if done == MOST_IN_FLIGHT:
                timed.longest_s = 0.0

    async with ParKazooClient(hosts) as client:
        some = [paths[number % len(paths)] for number in range(operations // 2)]
        await asyncio.gather(*(use(client, each) for each in shares(some, MOST_IN_FLIGHT)))
        return timed.longest_s
