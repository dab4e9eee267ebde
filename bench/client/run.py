"""Compares ParKazooClient with KazooClient on local servers, and prints a table of ratios beside their goals."""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from pathlib import Path

import psutil
from rich.console import Console

from bench import WIDTH
from bench.client.comparison import COMPARISONS, with_old
from bench.client.crowd import CLIENTS, GATHERINGS, measure_crowd
from bench.client.far_start import FAR_START, STARTS, measure_far_start
from bench.client.outcomes import Whole, print_outcomes, write_results
from bench.client.pairing import Outcome, Servers, measure
from bench.client.paths import ENSEMBLES
from bench.client.plot import draw
from bench.client.reads_again import CLIENTS as WATCHING
from bench.client.reads_again import ZNODES, measure_rewatching
from bench.client.side import BenchError
from bench.command_line import positive
from bench.documents import results_file
from bench.machine import commit_of, describe_machine, describe_versions
from parkazoo.admin import init_map
from parkazoo.cli import INTERRUPTED
from parkazoo.local import LocalClusterError

if sys.version_info >= (3, 11):  # for parkazoo.aio
    from bench.client import asyncio_wholes as aio

PAIRS, SMALL_PAIRS = 15, 1
SMALL = 10  # so many times fewer operations and clients
SMALL_ENSEMBLES = 4  # at most
REWATCHING = "rewatching"
OF_ASYNCIO = ("aio-waiters", "aio-clients", "aio-turns") if sys.version_info >= (3, 11) else ()
WHOLES = (*GATHERINGS, FAR_START, REWATCHING, *OF_ASYNCIO)
NAMES = (*(each.name for each in COMPARISONS), *WHOLES)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.client", description=__doc__)
    parser.add_argument("--load", metavar="NAME", nargs="+", help=f"of {', '.join(NAMES)}; all by default")
    parser.add_argument("--pairs", type=positive, help=f"{PAIRS} by default")
    parser.add_argument("--seed", type=int, help="of the order of turns; by default a new one, which is printed")
    parser.add_argument(
        "--small", action="store_true", help="few operations and one pair: it only shows that all runs"
    )
    parser.add_argument(
        "--old", metavar="DIR", type=Path, help="a checkout of another version, to compare with in kazoo's place"
    )
    parser.add_argument(
        "--out", metavar="FILE", type=Path, help="for the results, as JSON; the plot goes beside it"
    )
    options = parser.parse_args()
    if options.old and not (options.old / "parkazoo" / "__init__.py").is_file():
        parser.error(f"there is no checkout of ParKazoo in {options.old}")
    options.comparisons = with_old(str(options.old.resolve())) if options.old else COMPARISONS
    options.load = options.load or NAMES
    if unknown := [name for name in options.load if name not in NAMES]:
        parser.error(f"there is no load {', '.join(unknown)}; there are {', '.join(NAMES)}")
    options.pairs = options.pairs or (SMALL_PAIRS if options.small else PAIRS)
    if options.seed is None:
        options.seed = int.from_bytes(os.urandom(4), "big")
    options.out = results_file(parser, options.out, "client")
    return options


def main() -> int:
    options = parse()
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    about = {
        "date": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "seed": options.seed,
        "pairs": options.pairs,
        "small": options.small,
        "old": commit_of(options.old) if options.old else None,
        "machine": describe_machine(),
        "versions": describe_versions(),
        "load_average_before": psutil.getloadavg()[0],
    }
    try:
        outcomes, wholes, failures = run(options, console)
    except LocalClusterError as error:
        console.print(f"no run: {error}", markup=False, highlight=False)
        return 2
    except KeyboardInterrupt:
        console.print("interrupted")
        return INTERRUPTED
    about["load_average_after"] = psutil.getloadavg()[0]
    write_results(options.out, about, outcomes, wholes)
    plot = options.out.with_suffix(".svg")
    draw(plot, outcomes)
    print_outcomes(console, outcomes, wholes)
    for name, failure in failures.items():
        console.print(f"NOT MEASURED {name}: {failure}", markup=False)
    console.print(
        f"seed {options.seed}; {options.out} and {plot.name}", highlight=False, soft_wrap=True, style="dim"
    )
    return int(bool(failures) or any(outcome.error for outcome in outcomes))


def run(options: argparse.Namespace, console: Console) -> tuple[list[Outcome], dict[str, Whole], dict[str, str]]:
    """Measure everything that is asked for; the last is why something is missing.

    :raises LocalClusterError: servers cannot be started.
    """

    def tell(text: str) -> None:
        console.print(f"  {time.strftime('%H:%M:%S')} {text}", markup=False, highlight=False, style="dim")

    chance = random.Random(options.seed)
    outcomes: list[Outcome] = []
    wholes: dict[str, Whole] = {}
    failures: dict[str, str] = {}
    shrunk = SMALL if options.small else 1
    with Servers(tell) as servers:
        for comparison in options.comparisons:
            if comparison.name in options.load:
                tell(comparison.about)
                operations = comparison.operations // shrunk
                outcomes.append(measure(comparison, operations, options.pairs, servers, chance))
        for name in WHOLES:
            if name in options.load and not options.old:
                tell(name)
                try:
                    wholes[name] = measure_whole(name, servers, options.small)
                except BenchError as error:
                    failures[name] = str(error)
    return outcomes, wholes, failures


def measure_whole(name: str, servers: Servers, is_small: bool) -> Whole:
    """What is not compared in pairs.

    :raises BenchError: it cannot be measured.
    :raises LocalClusterError: servers cannot be started.
    """
    shrunk = SMALL if is_small else 1
    if name == FAR_START:
        return measure_far_start(servers.new_hosts(ENSEMBLES), STARTS // shrunk)
    if name == REWATCHING:
        return measure_rewatching(servers.hosts(1)[0], max(1, WATCHING // shrunk), ZNODES // shrunk)
    if name in OF_ASYNCIO:
        return measure_asyncio(name, servers.hosts(1)[0], shrunk)
    gathering = GATHERINGS[name]
    ensembles = min(gathering.ensembles, SMALL_ENSEMBLES) if is_small else gathering.ensembles
    if ensembles == ENSEMBLES:
        hosts = servers.hosts(ensembles)
    else:
        hosts = servers.new_hosts(ensembles)
        init_map(hosts[0], {f"e{number}": each for number, each in enumerate(hosts, 1)})
    return measure_crowd(hosts, CLIENTS // shrunk, gathering.used)


def measure_asyncio(name: str, hosts: str, shrunk: int) -> Whole:
    """:param shrunk: so many times smaller."""
    if name == "aio-waiters":
        return aio.measure_waiters(hosts, aio.WAITERS // shrunk)
    if name == "aio-clients":
        return aio.measure_clients(hosts, aio.CLIENTS // shrunk)
    return aio.measure_turns(hosts, aio.OPERATIONS // shrunk)
