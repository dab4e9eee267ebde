"""DistributedDict: a fixed number of entries written by some clients, and what its goals ask for.

The seven rows of Zatt's table "Distributed testing", with its clients as processes and its workers as clients of
ours, spread over these; besides, what one client writes, and up to 128 at once. Each client has a thread and a
session of its own, and writes its share of the entries, one after the other. kazoo has no such dictionary: there a
client creates a znode for each entry. The policy is Always(): nobody reads meanwhile. All of the work is timed,
from the first write to the last answer. The goals are measured with Watch(), the default.

It takes some 20 minutes; what has been measured is in the file at any time.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from unittest import mock

import psutil
from kazoo.client import KazooClient
from rich.console import Console
from rich.table import Table

from bench import ROOT, WIDTH
from bench.documents import as_text, results_file
from bench.machine import describe_machine, describe_versions
from bench.published import ZATT_ON_A_LAPTOP, ZATT_ROWS, ZATT_SAYS, Entries
from parkazoo import ParKazooClient
from parkazoo.local import LocalCluster, LocalClusterError
from parkazoo.structures.policies import Always
from parkazoo.wire.member import Member

START_TIMEOUT_S, EVENT_TIMEOUT_S = 60.0, 60.0
SYNC, UPDATED, READS, CHANGES, ROUNDS = 2000, 10_000, 200_000, 300, 3
VALUE = b"0123456789"
HEAP = ("-Xmx1g",)  # all tables of a cluster are there at its end
KAZOO, PARKAZOO = "kazoo", "parkazoo"
FIRST = 10  # entries of each shard, before what is timed
SHARDS = 4  # on each of several ensembles
THEIRS = f"Zatt: {ZATT_SAYS}; {ZATT_ON_A_LAPTOP}"


class Shape(NamedTuple):
    """:param size: of a value, in bytes. :param clients: of all processes together."""

    entries: int
    size: int
    clients: int
    processes: int


class Row(NamedTuple):
    system: str
    ensembles: int
    servers: int
    entries: int
    size: int
    clients: int
    processes: int
    seconds: float
    entries_per_s: float
    kb_per_s: float
    busy_percent: float


class Goal(NamedTuple):
    """:param found: the median of all rounds. :param rounds: each. :param limit: above it, or below if it is an
    upper one."""

    name: str
    found: float
    rounds: list[float]
    limit: float
    is_upper: bool

    @property
    def is_met(self) -> bool:
        return self.found < self.limit if self.is_upper else self.found >= self.limit


def as_ours(theirs: Entries) -> Shape:
    """Its workers are clients here, its clients processes."""
    return Shape(theirs.entries, theirs.size, theirs.workers, theirs.clients)


AS_THEIRS = tuple(map(as_ours, ZATT_ROWS))
CROWDS = tuple(Shape(4000, 100, clients, min(clients, 2)) for clients in (1, 4, 16, 64, 128))


class Cluster(NamedTuple):
    """:param servers: of each ensemble. :param has_goals: they are measured there."""

    ensembles: int
    servers: int
    shapes: Sequence[Shape]
    has_goals: bool = False

    @property
    def shards(self) -> int:
        """Of a dictionary, so that all ensembles have some."""
        return 1 if self.ensembles == 1 else SHARDS * self.ensembles

    @property
    def systems(self) -> Sequence[str]:
        return (KAZOO, PARKAZOO) if self.ensembles == 1 else (PARKAZOO,)


CLUSTERS = (
    Cluster(1, 2, AS_THEIRS),
    Cluster(1, 3, (*AS_THEIRS, *CROWDS), has_goals=True),
    Cluster(3, 2, AS_THEIRS),
    Cluster(3, 3, (*AS_THEIRS, *CROWDS)),
)
SMALL = (
    Cluster(1, 2, (Shape(20, 10, 1, 1), Shape(40, 100, 4, 2)), has_goals=True),
    Cluster(2, 1, (Shape(40, 100, 4, 2),)),
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.dictionary", description=__doc__)
    parser.add_argument("--small", action="store_true", help="to see that it runs")
    parser.add_argument("--out", metavar="FILE", type=Path, help="for the results, as JSON")
    parser.add_argument("--work", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        kind, *arguments = options.work
        works: dict[str, Callable[..., None]] = {"write": write, "hear": hear}
        works[kind](*arguments)
        return 0
    options.out = results_file(parser, options.out, "dictionary")
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    try:
        return run(options, console)
    except LocalClusterError as error:
        console.print(f"no run: {error}", markup=False, highlight=False)
        return 2


def run(options: argparse.Namespace, console: Console) -> int:
    def tell(text: str) -> None:
        console.print(f"  {time.strftime('%H:%M:%S')} {text}", markup=False, highlight=False, style="dim")

    rows: list[Row] = []
    goals: list[Goal] = []
    about = {
        "date": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "machine": describe_machine(),
        "versions": describe_versions(),
    }

    def save() -> None:
        found = {"rows": [each._asdict() for each in rows], "goals": [each._asdict() for each in goals]}
        options.out.write_text(as_text({**about, "load_average": psutil.getloadavg(), **found}))

    for cluster in SMALL if options.small else CLUSTERS:
        with LocalCluster(cluster.ensembles, cluster.servers, jvm_flags=HEAP, progress=tell) as local:
            loads = product(range(1 if options.small else ROUNDS), cluster.shapes, cluster.systems)
            for number, (_, shape, system) in enumerate(loads):
                tell(f"{system} on {cluster.ensembles}x{cluster.servers}, {shape}")
                psutil.cpu_percent()
                seconds = fill(system, local.hosts, f"/table{number}", shape, cluster.shards)
                rows.append(row(system, cluster, shape, seconds, psutil.cpu_percent()))
                save()
            if cluster.has_goals:
                tell("the goals")
                goals += measure_goals(local.hosts, 50 if options.small else 1)
                save()
    console.print(table_of(rows), THEIRS, goals_of(goals), sep="\n")
    console.print(str(options.out), highlight=False, soft_wrap=True, style="dim")
    return 0


def row(system: str, cluster: Cluster, shape: Shape, seconds: float, busy_percent: float) -> Row:
    rate = shape.entries / seconds
    rates = rate, rate * shape.size / 1000
    return Row(system, cluster.ensembles, cluster.servers, *shape, seconds, *rates, busy_percent)


def table_of(rows: Sequence[Row]) -> Table:
    """The median of each shape's rounds."""
    found = Table("", "on", "entries", "bytes", "clients", "processes", "seconds", "entries/s", "KB/s")
    rounds: dict[tuple[Any, ...], list[Row]] = {}
    for each in rows:
        rounds.setdefault(each[: Row._fields.index("seconds")], []).append(each)
    for (system, ensembles, servers, *shape), some in rounds.items():
        middle = sorted(some, key=lambda each: each.seconds)[len(some) // 2]
        counts = (f"{value:,}" for value in shape)
        rates = f"{middle.entries_per_s:,.0f}", f"{middle.kb_per_s:,.0f}"
        found.add_row(system, f"{ensembles}x{servers}", *counts, f"{middle.seconds:.2f}", *rates)
    return found


def goals_of(goals: Sequence[Goal]) -> Table:
    found = Table("goal", "found", "rounds", "limit", "met")
    for each in goals:
        limit = f"{'below' if each.is_upper else 'at least'} {each.limit:,g}"
        rounds = ", ".join(f"{value:,.4g}" for value in each.rounds)
        found.add_row(each.name, f"{each.found:,.4g}", rounds, limit, "yes" if each.is_met else "NO")
    return found


# ---- a table -----------------------------------------------------------------------------------------


def fill(system: str, hosts: str, path: str, shape: Shape, shards: int) -> float:
    """Have the entries written; the seconds from the first write to the last answer."""
    with connected(hosts, system) as client:
        client.ensure_path(path if system == KAZOO else "/")
        put = setter(client, system, path, shards)
        for number in range(FIRST * shards):  # so that all shards' directories are there
            put(f"first{number}", b"")
    shares = [len(range(number, shape.entries, shape.processes)) for number in range(shape.processes)]
    clients = [len(range(number, shape.clients, shape.processes)) for number in range(shape.processes)]
    children = [
        Child("write", system, hosts, path, f"w{number}", count, shape.size, clients[number], shards)
        for number, count in enumerate(shares)
    ]
    for child in children:
        child.read()
    for child in children:
        child.tell()
    spans = [json.loads(child.read()) for child in children]
    for child in children:
        child.end()
    return float(max(ended for _, ended in spans) - min(began for began, _ in spans))


def setter(client: Any, system: str, path: str, shards: int) -> Callable[[str, bytes], Any]:
    """What writes an entry that is not there yet."""
    if system == KAZOO:
        return lambda key, value: client.create(f"{path}/{key}", value)
    found: Callable[[str, bytes], Any] = client.DistributedDict(
        path, Always(), serializer=None, shards=shards
    ).__setitem__
    return found


def write(
    system: str, hosts: str, path: str, name: str, entries: str, size: str, clients: str, shards: str
) -> None:
    """A process of clients; each writes once before, so that what is made with the first write is there."""
    value = b"x" * int(size)
    is_on = threading.Event()
    spans: list[tuple[float, float]] = []
    ready = threading.Barrier(int(clients) + 1)

    def work(number: int) -> None:
        with connected(hosts, system) as client:
            put = setter(client, system, path, int(shards))
            put(f"{name}-{number}", b"")
            ready.wait()
            is_on.wait()
            began_s = time.monotonic()
            for index in range(number, int(entries), int(clients)):
                put(f"{name}-{number}-{index}", value)
            spans.append((began_s, time.monotonic()))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(int(clients))]
    for thread in threads:
        thread.start()
    ready.wait()
    print("ready", flush=True)
    sys.stdin.readline()
    is_on.set()
    for thread in threads:
        thread.join()
    print(json.dumps([min(began for began, _ in spans), max(ended for _, ended in spans)]), flush=True)


# ---- the goals ---------------------------------------------------------------------------------------


def measure_goals(hosts: str, share: int) -> list[Goal]:
    """:param share: only that part of the work."""
    plain, synchronous, updated, read, requests, heard = [], [], [], [], [], []
    with connected(hosts) as client:
        client.ensure_path("/plain/x")
        for number in range(ROUNDS):
            plain.append(SYNC // share / seconds_of(partial(_set_plain, client, SYNC // share)))
            with client.DistributedDict(f"/sync{number}", serializer=None) as shared:
                shared["first"] = b""
                count = SYNC // share
                synchronous.append(count / seconds_of(partial(_set_each, shared, count)))
            with client.DistributedDict(f"/update{number}", serializer=None) as shared:
                shared["first"] = b""
                values = {f"k{index}": VALUE for index in range(UPDATED // share)}
                updated.append(len(values) / seconds_of(partial(shared.update, values)))
            with client.DistributedDict(f"/read{number}") as shared:
                shared["hello"] = "world"
                time.sleep(1)  # what its own watch asks for has come
                with mock.patch.object(Member, "submit", autospec=True, side_effect=Member.submit) as submit:
                    seconds = seconds_of(partial(_read_each, shared, READS // share))
                read.append(seconds / (READS // share) * 1e6)
                requests.append(float(submit.call_count))
            bare, ours = latencies(client, hosts, f"/heard{number}", CHANGES // share)
            heard.append(median(ours) / median(bare))
    return [
        Goal("beside: client.set, calls/s", median(plain), plain, 0, False),
        Goal("synchronous entries/s of one client", median(synchronous), synchronous, 1000, False),
        Goal("entries/s of one client by update", median(updated), updated, 8000, False),
        Goal("microseconds of a read", median(read), read, 2, True),
        Goal("requests of all reads", max(requests), requests, 1, True),
        Goal("a change is heard of elsewhere: times a bare watch and get", median(heard), heard, 1.5, True),
    ]


def seconds_of(call: Any) -> float:
    began_s = time.perf_counter()
    call()
    return time.perf_counter() - began_s


def _set_each(shared: Any, count: int) -> None:
    for index in range(count):
        shared[f"k{index}"] = VALUE


def _set_plain(client: Any, count: int) -> None:
    for _ in range(count):
        client.set("/plain/x", VALUE)


def _read_each(shared: Any, count: int) -> None:
    for _ in range(count):
        shared["hello"]


def latencies(client: Any, hosts: str, path: str, changes: int) -> tuple[list[float], list[float]]:
    """In turns: how long it takes until another process has the new value, by a bare watch and get, and by
    on_change."""
    client.ensure_path(f"{path}/bare/x")
    client.ensure_path(f"{path}/ours/x")
    child = Child("hear", hosts, path)
    child.read()
    found: tuple[list[float], list[float]] = [], []
    for _ in range(changes):
        for seconds, kind in zip(found, ("bare", "ours"), strict=True):
            client.set(f"{path}/{kind}/x", repr(time.monotonic()).encode())
            seconds.append(float(child.read()))
    child.end()
    return found


def hear(hosts: str, path: str) -> None:
    """A process that prints how old each change is when it has heard of it."""

    def say(value: bytes) -> None:
        if value:
            print(time.monotonic() - float(value), flush=True)

    with connected(hosts) as client:

        def look(event: Any = None) -> None:
            say(client.get(f"{path}/bare/x", watch=look)[0])

        shared = client.DistributedDict(f"{path}/ours", serializer=None)
        shared.on_change(lambda key, old, new, version: say(new))
        look()
        print("ready", flush=True)
        sys.stdin.readline()
        shared.close()


# ---- processes ---------------------------------------------------------------------------------------


class Child:
    """Another process of this module; it reads and prints lines."""

    def __init__(self, *work: Any) -> None:
        command = [sys.executable, "-m", "bench.dictionary", "--work", *map(str, work)]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def read(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("a process has ended too early")
        return line

    def tell(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")

    def end(self) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.wait(EVENT_TIMEOUT_S)
        self._process.stdout.close()


@contextmanager
def connected(hosts: str, system: str = PARKAZOO) -> Iterator[Any]:
    client: Any = KazooClient(hosts) if system == KAZOO else ParKazooClient(hosts)
    client.start(START_TIMEOUT_S)
    try:
        yield client
    finally:
        client.stop()
        client.close()


if __name__ == "__main__":
    sys.exit(main())
