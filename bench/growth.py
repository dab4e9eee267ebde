"""One ZooKeeper full of data becomes three and then four ensembles, while clients are at work: what they feel.

Each client makes directories and children, sets and reads what is there, at a steady pace, and notes when each
call began and how long it took. The operator's commands run meanwhile. Afterwards the old znodes are compared with
what they were.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from rich.console import Console
from rich.table import Table

from bench import ROOT, WIDTH
from bench.documents import as_text, results_file
from bench.machine import describe_machine, describe_versions
from parkazoo import ParKazooClient
from parkazoo.admin import init_map, list_clients
from parkazoo.fsck import check
from parkazoo.local import LocalCluster, LocalClusterError

ENSEMBLES, PROCESSES = 4, 5
OF_A_DIRECTORY = 100
MOST_IN_PIPELINE = 1000
START_TIMEOUT_S = 120.0
POLL_S = 0.2
PACE_S = 0.05  # between two calls of a client


class Call(NamedTuple):
    """:param began_s: by the clock that all processes share. :param error: its name; empty if there was none."""

    began_s: float
    took_s: float
    error: str


class Phase(NamedTuple):
    """What all clients felt from one moment to another; times in ms."""

    name: str
    seconds: float
    calls: int
    errors: dict[str, int]
    median: float
    percentile_99: float
    longest: float


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.growth", description=__doc__)
    parser.add_argument("--znodes", type=int, default=100_000, help="%(default)d by default")
    parser.add_argument("--clients", type=int, default=50, help="%(default)d by default")
    parser.add_argument("--servers", type=int, default=3, help="of each ensemble; %(default)d by default")
    parser.add_argument("--seconds", type=float, default=20.0, help="between the commands; %(default)g by default")
    parser.add_argument("--out", metavar="FILE", type=Path, help="for the results, as JSON")
    parser.add_argument("--work", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        hosts, name, clients = options.work
        work(hosts, name, int(clients))
        return 0
    options.out = results_file(parser, options.out, "growth")
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    try:
        return run(options, console)
    except LocalClusterError as error:
        console.print(f"no run: {error}", markup=False, highlight=False)
        return 2


def run(options: argparse.Namespace, console: Console) -> int:
    def tell(text: str) -> None:
        console.print(f"  {time.strftime('%H:%M:%S')} {text}", markup=False, highlight=False, style="dim")

    with (
        LocalCluster(ENSEMBLES, options.servers, make_map=False, progress=tell) as cluster,
        tempfile.TemporaryDirectory() as folder,
    ):
        hosts = {each.name: each.hosts for each in cluster.ensembles}
        tell(f"{options.znodes:,} znodes")
        before = fill(hosts["a"], options.znodes)
        init_map(hosts["a"], {"a": hosts["a"]})
        tell(f"{options.clients} clients")
        workers = [Worker(hosts["a"], f"w{number}", count, folder) for number, count in enumerate(shares(options))]
        while len(list_clients(hosts["a"]).clients) < options.clients:
            time.sleep(POLL_S)
        marks = list(grow(hosts, options.seconds, tell))
        calls = sorted(call for worker in workers for call in worker.end())
        states = [state for worker in workers for state in worker.states]
        phases = [phase(*each, calls) for each in marks]
        tell("looking at what is there")
        problems = find_problems(hosts["a"], before, states)
    about = {
        "date": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "znodes": options.znodes,
        "clients": options.clients,
        "servers": options.servers,
        "machine": describe_machine(),
        "versions": describe_versions(),
    }
    options.out.write_text(as_text({**about, "phases": [each._asdict() for each in phases], "problems": problems}))
    console.print(table(phases))
    for problem in problems:
        console.print(f"PROBLEM {problem}", markup=False)
    console.print(f"{options.out}", highlight=False, soft_wrap=True, style="dim")
    return int(bool(problems))


def shares(options: argparse.Namespace) -> list[int]:
    """How many clients each process has."""
    return [len(range(number, options.clients, PROCESSES)) for number in range(min(PROCESSES, options.clients))]


# ---- the old znodes --------------------------------------------------------------------------------


def fill(hosts: str, znodes: int) -> dict[str, Any]:
    """Make so many znodes by plain kazoo; their stats."""
    paths = [f"/old/d{number // OF_A_DIRECTORY}/n{number}" for number in range(znodes)]
    with connected(KazooClient(hosts)) as client:
        for directory in dict.fromkeys(path.rpartition("/")[0] for path in paths):
            client.ensure_path(directory)
        in_pipeline(paths, lambda path: client.create_async(path, b"old"))
        return dict(zip(paths, in_pipeline(paths, client.exists_async), strict=True))


def find_problems(hosts: str, before: dict[str, Any], states: Sequence[str]) -> list[str]:
    """Whether all is as it was, and nothing is wrong."""
    with connected(ParKazooClient(hosts)) as client:
        after = in_pipeline(list(before), client.exists_async)
    changed = [path for path, stat in zip(before, after, strict=True) if stat != before[path]]
    problems = [f"{len(changed):,} old znodes are not as they were, {changed[0]} is the first"] if changed else []
    if states:
        problems.append(f"clients heard {', '.join(states)}")
    report = check(hosts)
    if not report.is_clean:
        problems.append("`parkazoo fsck` finds something")
    return problems


def in_pipeline(paths: Sequence[str], ask: Callable[[str], Any]) -> list[Any]:
    answers = []
    for start in range(0, len(paths), MOST_IN_PIPELINE):
        answers += [each.get() for each in [ask(path) for path in paths[start : start + MOST_IN_PIPELINE]]]
    return answers


@contextmanager
def connected(client: Any) -> Iterator[Any]:
    client.start(START_TIMEOUT_S)
    try:
        yield client
    finally:
        client.stop()
        client.close()


# ---- the commands ----------------------------------------------------------------------------------


def grow(hosts: dict[str, str], rest_s: float, tell: Callable[[str], None]) -> Iterator[tuple[str, float, float]]:
    """Each phase: what it is, from when to when."""
    steps: list[tuple[str, tuple[str, ...]]] = [("1 to 3", ("b", "c")), ("3 to 4", ("d",))]
    yield "before", *rest(rest_s)
    for name, new in steps:
        tell(f"{name} ensembles")
        began_s = time.monotonic()
        command = [sys.executable, "-m", "parkazoo", "map", "grow", "--hosts", hosts["a"]]
        for each in new:
            command += ["--ensemble", f"{each}={hosts[each]}"]
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        yield name, began_s, time.monotonic()
        yield f"after {name}", *rest(rest_s)


def rest(seconds: float) -> tuple[float, float]:
    began_s = time.monotonic()
    time.sleep(seconds)
    return began_s, time.monotonic()


def phase(name: str, began_s: float, ended_s: float, calls: Sequence[Call]) -> Phase:
    """Of the calls that were under way at any moment of it."""
    own = [call for call in calls if call.began_s < ended_s and call.began_s + call.took_s > began_s]
    took_ms = sorted(1000 * call.took_s for call in own)
    errors = Counter(call.error for call in own if call.error)
    at = [took_ms[min(len(took_ms) - 1, int(share * len(took_ms)))] for share in (0.5, 0.99, 1)]
    return Phase(name, ended_s - began_s, len(own), dict(errors), *at)


def table(phases: Sequence[Phase]) -> Table:
    found = Table("phase", "seconds", "calls/s", "errors", "median, ms", "99th percentile, ms", "longest, ms")
    for each in phases:
        errors = ", ".join(f"{count} {name}" for name, count in each.errors.items())
        times = (f"{value:.1f}" for value in (each.median, each.percentile_99, each.longest))
        found.add_row(each.name, f"{each.seconds:.1f}", f"{each.calls / each.seconds:,.0f}", errors, *times)
    return found


# ---- the clients -----------------------------------------------------------------------------------


class Worker:
    """A process with some clients. It works until its stdin ends."""

    def __init__(self, hosts: str, name: str, clients: int, folder: str) -> None:
        self.states: list[str] = []
        command = [sys.executable, "-m", "bench.growth", "--work", hosts, name, str(clients)]
        self._said = Path(folder, name)
        with self._said.open("w") as said:
            self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=said)

    def end(self) -> list[Call]:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(START_TIMEOUT_S)
        said = json.loads(self._said.read_text())
        self.states = said["states"]
        return [Call(*each) for each in said["calls"]]


def work(hosts: str, name: str, clients: int) -> None:
    """A process of clients: see :class:`Worker`."""
    is_over = threading.Event()
    calls: list[Call] = []
    states: list[str] = []
    threads = [
        threading.Thread(target=go_round, args=(hosts, f"/{name}-{number}", is_over, calls, states))
        for number in range(clients)
    ]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    is_over.set()
    for thread in threads:
        thread.join()
    print(json.dumps({"states": states, "calls": calls}))


def go_round(hosts: str, root: str, is_over: threading.Event, calls: list[Call], states: list[str]) -> None:
    with connected(ParKazooClient(hosts)) as client:

        def hear(state: str) -> None:
            if not is_over.is_set():
                states.append(state)

        client.add_listener(hear)
        client.ensure_path(root)
        number = 0
        while not is_over.is_set():
            directory = f"{root}/d{number}"
            number += 1
            for call in (
                partial(client.create, directory),
                partial(client.create, f"{directory}/x", b"new"),
                partial(client.set, f"{directory}/x", b"newer"),
                partial(client.get_children, directory),
                partial(client.get, "/old/d0/n0"),
            ):
                began_s, error = time.monotonic(), ""
                try:
                    call()
                except KazooException as wrong:
                    error = type(wrong).__name__
                calls.append(Call(began_s, time.monotonic() - began_s, error))
                is_over.wait(PACE_S)


if __name__ == "__main__":
    sys.exit(main())
