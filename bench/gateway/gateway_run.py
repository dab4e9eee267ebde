"""Measures programs at a gateway and, in turn, the same programs directly at one server of its cluster."""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil
from rich import box
from rich.console import Console
from rich.table import Table

from bench import ROOT, WIDTH
from bench.client.measure import Spread, spread
from bench.client.pairing import WARM_UP, Servers
from bench.client.paths import ENSEMBLES, LEAVES, MOST_IN_FLIGHT, spread_directories
from bench.client.side import BenchError, Child
from bench.command_line import positive
from bench.documents import as_text, results_file
from bench.gateway.rows import COLUMNS, GATEWAY, rows
from bench.gateway.socket_program import REQUESTS, Address, Order, Report, hold, work
from bench.machine import cpu_s, describe_machine, describe_versions
from parkazoo.cli import INTERRUPTED
from parkazoo.local import LocalClusterError

PAIRS, OPERATIONS = 5, {MOST_IN_FLIGHT: 30_000, 1: 5_000}
QUICK_PAIRS, QUICK_OPERATIONS = 1, {MOST_IN_FLIGHT: 1_000, 1: 100}
IDLE, QUICK_IDLE = (0, 500, 5_000), (0, 20)
BESIDE = 100  # connections, more than are idle
STOP_S = 60.0
SETTLE_S = 1.0  # of sessions that have just begun
BARE, DIRECT = "bare proxy", "one server"
TEXTS = 2  # columns
ROOT_PATH = "/bench-gateway"


@dataclass(frozen=True)
class Turn:
    """
    :param cpu_s: of the gateway's, the proxy's or the server's process.
    """

    report: Report
    cpu_s: float


@dataclass(frozen=True)
class Load:
    """
    :param turns: by side, in pairs.
    """

    kind: str
    in_flight: int
    turns: Mapping[str, list[Turn]]

    def rate(self, side: str) -> Spread:
        """Requests a second."""
        return spread(each.report.operations / each.report.wall_s for each in self.turns[side])

    def cpu_us(self, side: str) -> Spread:
        """Per request."""
        return spread(each.cpu_s / each.report.operations * 1e6 for each in self.turns[side])

    def median_ms(self, side: str) -> Spread:
        return spread(each.report.median_s * 1000 for each in self.turns[side])

    def p99_ms(self, side: str) -> Spread:
        return spread(each.report.p99_s * 1000 for each in self.turns[side])

    def as_json(self) -> dict[str, Any]:
        sides = {
            side: {
                "rate": asdict(self.rate(side)),
                "cpu_us": asdict(self.cpu_us(side)),
                "median_ms": asdict(self.median_ms(side)),
                "p99_ms": asdict(self.p99_ms(side)),
                "turns": [{**asdict(each.report), "process_cpu_s": each.cpu_s} for each in turns],
            }
            for side, turns in self.turns.items()
        }
        return {"kind": self.kind, "in_flight": self.in_flight, "sides": sides}


@dataclass(frozen=True)
class Idle:
    """
    :param rss_kib: of the gateway's process.
    """

    sessions: int
    rss_kib: float


class Between:
    """A process on loopback between programs and servers, from the beginning of a `with` to its end.

    :param command: Python's arguments. :ivar address: where it listens. :ivar pid: of its process.
    """

    def __init__(self, *command: str) -> None:
        self._command = [sys.executable, *command]

    def __enter__(self) -> Between:
        self._process = subprocess.Popen(
            self._command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout is not None
        host, _, port = self._process.stdout.readline().rpartition(" ")[2].rpartition(":")
        if not port:
            raise BenchError(f"it does not start: {' '.join(self._command)}")
        self.address: Address = host, int(port)
        self.pid = self._process.pid
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._process:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self._process.kill()


def gateway_of(hosts: Sequence[str], connections: int) -> Between:
    options = (f"--hosts={','.join(hosts)}", "--listen=127.0.0.1:0", f"--connections={connections}")
    return Between("-m", "parkazoo", "gateway", *options)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.gateway", description=__doc__)
    parser.add_argument("--json", metavar="FILE", type=Path, help="for the results")
    parser.add_argument(
        "--quick", action="store_true", help="few requests and sessions: it only shows that all runs"
    )
    parser.add_argument("--pairs", type=positive, help=f"{PAIRS} by default")
    options = parser.parse_args()
    options.pairs = options.pairs or (QUICK_PAIRS if options.quick else PAIRS)
    options.json = results_file(parser, options.json, "gateway")
    return options


def main() -> int:
    options = parse()
    console = Console(width=None if sys.stdout.isatty() else WIDTH)

    def tell(line: str) -> None:
        console.print(f"  {time.strftime('%H:%M:%S')} {line}", markup=False, highlight=False, style="dim")

    about = {
        "date": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "pairs": options.pairs,
        "quick": options.quick,
        "machine": describe_machine(),
        "versions": describe_versions(),
        "load_average_before": psutil.getloadavg()[0],
    }
    try:
        with Servers(tell) as servers:
            hosts = servers.hosts(ENSEMBLES)
            loads = measure_loads(hosts, servers.pids()[0], options, tell)
            idle = measure_idle(hosts, QUICK_IDLE if options.quick else IDLE, tell)
    except (LocalClusterError, BenchError) as error:
        console.print(f"NOT MEASURED: {error}", markup=False, highlight=False)
        return 2
    except KeyboardInterrupt:
        console.print("interrupted")
        return INTERRUPTED
    about["load_average_after"] = psutil.getloadavg()[0]
    document = {
        "about": about,
        "loads": [each.as_json() for each in loads],
        "idle": [asdict(each) for each in idle],
    }
    options.json.write_text(as_text(document))
    print_results(console, loads, idle)
    console.print(
        f"load average {about['load_average_before']:.1f}, {about['load_average_after']:.1f}; {options.json.name}",
        highlight=False,
        style="dim",
    )
    return 0


def measure_loads(hosts: Sequence[str], server: int, options: argparse.Namespace, tell: Any) -> list[Load]:
    """Each load at the gateway, at a bare proxy and at the first server, in turn. A turn that is not counted comes
    first.

    :param server: its process. :raises BenchError: a program fails.
    """
    directories = spread_directories(ROOT_PATH)
    paths = [f"{each}/n{number}" for number in range(LEAVES) for each in directories]
    alone = [f"{ROOT_PATH}-direct/n{number}" for number in range(len(paths))]
    host, _, port = hosts[0].rpartition(":")
    operations = QUICK_OPERATIONS if options.quick else OPERATIONS
    loads = []
    with ExitStack() as stack:
        gateway = stack.enter_context(gateway_of(hosts, BESIDE))
        proxy = stack.enter_context(Between("-m", "bench.gateway.bare_proxy", hosts[0]))
        sides = {
            GATEWAY: (gateway.pid, Child(GATEWAY, work, gateway.address, [ROOT_PATH, *directories], paths)),
            BARE: (proxy.pid, Child(BARE, work, proxy.address, [f"{ROOT_PATH}-direct"], alone)),
            DIRECT: (server, Child(DIRECT, work, (host, int(port)), [f"{ROOT_PATH}-direct"], alone)),
        }
        for _, child in sides.values():
            stack.callback(child.end)
        for _, child in sides.values():
            child.hear()
        for in_flight, count in operations.items():
            for kind in REQUESTS:
                tell(f"{kind}, {in_flight} in flight")
                loads.append(_measure(Order(kind, in_flight, count), sides, options.pairs))
    return loads


def _measure(order: Order, sides: Mapping[str, tuple[int, Child]], pairs: int) -> Load:
    turns: dict[str, list[Turn]] = {side: [] for side in sides}
    for pair in range(pairs + 1):
        named = [*sides.items()]
        for side, (pid, child) in named[:: -1 if pair % 2 else 1]:
            before_s = cpu_s(pid)
            child.tell(Order(order.kind, order.in_flight, order.operations // (1 if pair else WARM_UP)))
            report: Report = child.hear()
            if pair:
                turns[side].append(Turn(report, cpu_s(pid) - before_s))
    return Load(order.kind, order.in_flight, turns)


def measure_idle(hosts: Sequence[str], counts: Sequence[int], tell: Any) -> list[Idle]:
    """The memory of a new gateway that has so many sessions.

    :raises BenchError: they cannot be had.
    """
    found = []
    with gateway_of(hosts, counts[-1] + BESIDE) as gateway:
        child = Child("idle sessions", hold, gateway.address)
        try:
            for count in counts:
                tell(f"{count:,} idle sessions")
                child.tell(count)
                child.hear()
                time.sleep(SETTLE_S)
                found.append(Idle(count, psutil.Process(gateway.pid).memory_info().rss / 1024))
        finally:
            child.end()
    return found


def print_results(console: Console, loads: Sequence[Load], idle: Sequence[Idle]) -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, each in enumerate(COLUMNS):
        table.add_column(each, no_wrap=number < TEXTS, justify="left" if number < TEXTS else "right")
    for row in rows([each.as_json() for each in loads]):
        table.add_row(*row)
    console.print(table)
    console.print("Medians of the pairs. CPU is a process's, for each request.", style="dim", highlight=False)
    for held in idle:
        more = f", {(held.rss_kib - idle[0].rss_kib) / held.sessions:.0f} KiB each" if held.sessions else ""
        console.print(f"{held.sessions:,} idle sessions: {held.rss_kib / 1024:.1f} MiB{more}", highlight=False)
