"""Writes go to many directories by Zipf's law: how soon `parkazoo top --follow` names the hottest, and its cost.

The cost is processor time of the servers: in turns without the command, with it, and with it and ``--follow``.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from statistics import median
from typing import Any

import psutil
from rich.console import Console

from bench import ROOT, WIDTH
from bench.documents import as_text, results_file
from bench.load.requests import zipf_weights
from bench.machine import describe_machine, describe_versions, total_and_busy
from parkazoo import ParKazooClient
from parkazoo.local import LocalCluster, LocalClusterError

EXPONENT = 1.0  # the second directory has half of the first's writes, the third a third
HOTTEST = 5
WITHIN_S = 15.0  # the follower's figures are of so many seconds
GIVE_UP_S = 4 * WITHIN_S
WRITERS = 2
TICK_S = 0.02
SETTLE_S = 3.0  # after a change of the sides, which is not measured; as long as a turn at most
AT_ONCE = 200
START_TIMEOUT_S = 60.0
INTERVAL_S = 2.0
SIDES: Mapping[str, Sequence[str] | None] = {"nothing": None, "top": [], "top --follow": ["--follow"]}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.zipf", description=__doc__)
    parser.add_argument("--ensembles", type=int, default=2)
    parser.add_argument("--servers", type=int, default=3, help="of each ensemble")
    parser.add_argument("--directories", type=int, default=2000)
    parser.add_argument("--rate", type=int, default=1000, help="writes a second, of all writers")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each turn")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each side")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", metavar="FILE", type=Path, help="for the results, as JSON")
    options = parser.parse_args()
    options.out = results_file(parser, options.out, "zipf")
    return options


def main() -> int:
    if sys.argv[1:2] == ["--write"]:
        return write(*sys.argv[2:])
    options = parse()
    console = Console(width=None if sys.stdout.isatty() else WIDTH)

    def tell(text: str) -> None:
        console.print(f"  {time.strftime('%H:%M:%S')} {text}", markup=False, highlight=False, style="dim")

    try:
        document = measure(options, tell)
    except LocalClusterError as error:
        console.print(f"no run: {error}", markup=False, highlight=False)
        return 1
    options.out.write_text(as_text(document))
    named = document["named"]
    found = "not named" if named["seconds"] is None else f"named after {named['seconds']:.1f} s"
    console.print(f"the {HOTTEST} hottest of {options.directories:,} directories: {found}", highlight=False)
    for side, percent in document["percent"].items():
        told = ", ".join(f"{server} {each:.1f}" for server, each in percent.items())
        console.print(f"{side}: percent of a processor: {told}", highlight=False)
    console.print(f"{options.out}", markup=False, highlight=False, soft_wrap=True, style="dim")
    return 0


def measure(options: argparse.Namespace, tell: Callable[[str], None]) -> dict[str, Any]:
    """:raises LocalClusterError: servers cannot be started."""
    about: dict[str, Any] = {
        "date": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "command": " ".join(sys.argv[1:]),
        "machine": describe_machine(),
        "versions": describe_versions(),
    }
    with LocalCluster(options.ensembles, options.servers, progress=tell) as cluster:
        pids = {server.name: server.pid for ensemble in cluster.ensembles for server in ensemble.servers}
        tell(f"making {options.directories:,} directories")
        make_directories(cluster.hosts, options.directories)
        with writers(cluster.hosts, options):
            settle_s = min(SETTLE_S, options.seconds)
            time.sleep(settle_s)
            tell("waiting for the hottest")
            named = wait_for_hottest(cluster.hosts)
            turns = []
            total_s, busy_s = total_and_busy()
            for number in range(options.rounds):
                for side in turned(list(SIDES), number):
                    tell(f"round {number + 1}: {side}")
                    with watched(cluster.hosts, side):
                        time.sleep(settle_s)
                        turns.append({"side": side, **used(pids, options.seconds)})
            now_s, now_busy_s = total_and_busy()
    about["busy_share"] = (now_busy_s - busy_s) / (now_s - total_s)
    return {"about": about, "named": named, "turns": turns, "percent": medians(turns)}


def turned(sides: Sequence[str], number: int) -> list[str]:
    """Each side comes first in turn: what changes with time meets all."""
    first = number % len(sides)
    return [*sides[first:], *sides[:first]]


def medians(turns: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Returns the percent of a processor by side and server."""
    return {
        side: {
            server: round(median(each["percent"][server] for each in turns if each["side"] == side), 2)
            for server in turns[0]["percent"]
        }
        for side in SIDES
    }


def used(pids: Mapping[str, int], seconds: float) -> dict[str, Any]:
    """Returns which part of a processor each server takes, in percent, over that time."""
    processes = {name: psutil.Process(pid) for name, pid in pids.items()}

    def now() -> dict[str, float]:
        times = {name: each.cpu_times() for name, each in processes.items()}
        return {name: each.user + each.system for name, each in times.items()}

    before, began_s = now(), time.monotonic()
    time.sleep(seconds)
    after, passed_s = now(), time.monotonic() - began_s
    return {
        "seconds": round(passed_s, 3),
        "percent": {name: round(100 * (after[name] - before[name]) / passed_s, 2) for name in pids},
    }


# ---- the command ---------------------------------------------------------------------------------


@contextmanager
def top(hosts: str, *options: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "parkazoo", "top", "--hosts", hosts, "--json", *options]
    process = subprocess.Popen(
        [*command, "--interval", str(INTERVAL_S)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.terminate()
        process.communicate()


@contextmanager
def watched(hosts: str, side: str) -> Iterator[None]:
    """The command of this side runs, and somebody reads what it says."""
    options = SIDES[side]
    if options is None:
        yield
        return
    with top(hosts, *options) as process:
        assert process.stdout is not None
        reader = threading.Thread(target=process.stdout.read, daemon=True)
        reader.start()
        yield
        process.terminate()
        reader.join()


def wait_for_hottest(hosts: str) -> dict[str, Any]:
    """Returns after how many seconds since the command's start it names the hottest before all others.

    None if it does not; and all that it named.
    """
    wanted = {directory(number) for number in range(HOTTEST)}
    began_s = time.monotonic()
    looks = []
    with top(hosts, "--follow") as process:
        assert process.stdout is not None
        for line in process.stdout:
            passed_s = time.monotonic() - began_s
            rows = [each["directory"] for each in json.loads(line)["directories"][:HOTTEST]]
            looks.append({"seconds": round(passed_s, 2), "directories": rows})
            if {*rows} == wanted:
                return {"seconds": round(passed_s, 2), "looks": looks}
            if passed_s > GIVE_UP_S:
                break
    return {"seconds": None, "looks": looks}


# ---- the load ------------------------------------------------------------------------------------


def directory(number: int) -> str:
    """The hottest is number 0."""
    return f"/zipf/d{number}"


def make_directories(hosts: str, directories: int) -> None:
    with ParKazooClient(hosts, timeout=START_TIMEOUT_S) as zk:
        for first in range(0, directories, AT_ONCE):
            some = range(first, min(directories, first + AT_ONCE))
            for done in [zk.create_async(f"{directory(number)}/x", makepath=True) for number in some]:
                done.get(timeout=START_TIMEOUT_S)


@contextmanager
def writers(hosts: str, options: argparse.Namespace) -> Iterator[None]:
    """Processes that write at a steady rate."""
    command = [sys.executable, "-m", "bench.zipf", "--write", hosts, str(options.directories)]
    command.append(str(options.rate / WRITERS))
    started = [
        subprocess.Popen([*command, str(options.seed + number)], cwd=ROOT, stdin=subprocess.PIPE)
        for number in range(WRITERS)
    ]
    try:
        yield
    finally:
        for each in started:
            each.kill()
            each.wait()


def write(hosts: str, directories: str, rate: str, seed: str) -> int:
    """Writes until its input ends."""
    chosen = random.Random(int(seed))
    paths = [f"{directory(number)}/x" for number in range(int(directories))]
    weights = [*accumulate(zipf_weights(len(paths), EXPONENT))]
    is_over = threading.Event()

    def wait_for_end() -> None:
        sys.stdin.read()
        is_over.set()

    threading.Thread(target=wait_for_end, daemon=True).start()
    with ParKazooClient(hosts, timeout=START_TIMEOUT_S) as zk:
        began_s, sent = time.monotonic(), 0
        while not is_over.wait(TICK_S):
            due = int((time.monotonic() - began_s) * float(rate)) - sent
            for path in chosen.choices(paths, cum_weights=weights, k=max(0, due)):
                zk.set_async(path, b"x")
            sent += max(0, due)
    return 0


if __name__ == "__main__":
    sys.exit(main())
