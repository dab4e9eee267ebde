"""What many clients cost many ensembles: measures real servers, then counts and simulates 100,000 clients."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console

from bench import WIDTH
from bench.bare_requests import BareError
from bench.documents import as_text, results_file
from bench.machine import describe_machine, describe_versions, total_and_busy
from bench.scale.costs import ALONE, LAYOUTS, Cost, measure_costs
from bench.scale.outages import Assumed, simulate_year
from bench.scale.paper import CLIENTS, ENSEMBLES, ONE, SERVERS, TIME_OUT_S, USED, USES, WATCHES, Measured, load
from bench.scale.policy import Policy
from bench.scale.reconnect import Comeback, Outage, Rates, simulate
from bench.scale.server import ScaleError
from bench.scale.storm import Storm, measure_storm
from bench.scale.tables import print_all
from parkazoo.cli import INTERRUPTED
from parkazoo.local import LocalClusterError

SESSIONS, SMALL_SESSIONS = 4000, 50
ROUNDS, WARM_UP = 3, 3
STORMS = ((2000, 1), (9000, 1), (2000, 3))  # sessions, servers
SMALL_STORMS = ((50, 1),)
SMALL = 100  # so many times fewer clients are simulated
STORM_AWAY_S = 2.0
RESTART = Outage(10.0)
CUT = Outage(3 * TIME_OUT_S, is_silent=True)
FOLLOWED = 10_000  # clients


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    parser.add_argument("--small", action="store_true", help="few sessions: it only shows that all runs")
    parser.add_argument("--seed", type=int, default=1, help="of the simulations and of the clients' pauses")
    parser.add_argument(
        "--measured",
        metavar="FILE",
        type=Path,
        help="results of another run, for their costs; no server starts",
    )
    parser.add_argument("--out", metavar="FILE", type=Path, help="for the results, as JSON")
    options = parser.parse_args()
    options.out = results_file(parser, options.out, "scale")
    if options.measured is not None:
        try:
            options.measured = json.loads(options.measured.read_text())
            read_measured(options.measured)
        except (OSError, ValueError, KeyError, TypeError) as error:
            parser.error(f"these are no results of bench.scale: {error}")
    return options


def main() -> int:
    options = parse()
    console = Console(width=None if sys.stdout.isatty() else WIDTH)

    def tell(text: str) -> None:
        console.print(f"  {time.strftime('%H:%M:%S')} {text}", markup=False, highlight=False, style="dim")

    try:
        document = options.measured or measure(options.small, options.seed, tell)
    except (BareError, LocalClusterError, ScaleError) as error:
        console.print(f"no run: {error}", markup=False, highlight=False)
        return 1
    except KeyboardInterrupt:
        console.print("interrupted")
        return INTERRUPTED
    document |= extrapolate(*read_measured(document), options.seed, document["about"]["small"])
    options.out.write_text(as_text(document))
    print_all(console, document)
    console.print(f"{options.out}", markup=False, highlight=False, soft_wrap=True, style="dim")
    return 0


def read_measured(document: dict[str, Any]) -> tuple[list[Cost], list[Storm]]:
    return [Cost(**each) for each in document["costs"]], [Storm(**each) for each in document["storms"]]


def measure(is_small: bool, seed: int, tell: Callable[[str], None]) -> dict[str, Any]:
    """With real servers.

    :raises BareError: sessions cannot be had, or do not come back.
    :raises LocalClusterError: servers cannot be started.
    :raises ScaleError: a server does not tell what it uses.
    """
    about = {
        "date": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "small": is_small,
        "machine": describe_machine(),
        "versions": describe_versions(),
        "load_average_before": psutil.getloadavg()[0],
    }
    total_s, busy_s = total_and_busy()
    if is_small:
        costs = measure_costs(SMALL_SESSIONS, 1, 0, [ALONE], tell)
    else:
        costs = measure_costs(SESSIONS, ROUNDS, WARM_UP, LAYOUTS, tell)
    storms = [
        measure_storm(*each, STORM_AWAY_S, Policy(TIME_OUT_S), seed, tell)
        for each in (SMALL_STORMS if is_small else STORMS)
    ]
    now_s, now_busy_s = total_and_busy()
    about["load_average_after"] = psutil.getloadavg()[0]
    about["busy_share"] = (now_busy_s - busy_s) / (now_s - total_s)
    return {"about": about, "costs": [asdict(each) for each in costs], "storms": [asdict(each) for each in storms]}


def extrapolate(costs: Sequence[Cost], storms: Sequence[Storm], seed: int, is_small: bool) -> dict[str, Any]:
    """On paper and by simulation: the same costs and the same seed give the same."""
    shrunk = SMALL if is_small else 1
    measured = Measured(costs)
    assumed = Assumed()
    return {
        "assumed": {
            "clients": CLIENTS,
            "ensembles": ENSEMBLES,
            "time_out_s": TIME_OUT_S,
            "watches": WATCHES,
            "outages": asdict(assumed),
            "seed": seed,
        },
        "loads": [asdict(load(use, servers, measured)) for use in USES for servers in SERVERS],
        "storms_simulated": [asdict(simulate_storm(each, costs, seed)) for each in storms],
        "comebacks": [
            {"use": use.name, "hosts": use.hosts, "servers": SERVERS[0], **asdict(outage)}
            | asdict(comeback(round(use.of_ensemble) // shrunk, measured.rates(), outage, seed))
            for use in USES
            if use.hosts != ONE  # as many as where all use all
            for outage in (RESTART, CUT)
        ],
        "fates": [
            asdict(simulate_year(held, ENSEMBLES, FOLLOWED // shrunk, assumed, seed))
            for held in (*USED, ENSEMBLES)
        ],
    }


def comeback(sessions: int, rates: Rates, outage: Outage, seed: int) -> Comeback:
    return simulate(sessions, SERVERS[0], WATCHES, rates, outage, Policy(TIME_OUT_S), seed)


def simulate_storm(storm: Storm, costs: Sequence[Cost], seed: int) -> Comeback:
    """The simulation of what was measured: it is to tell the same."""
    rates = Measured([cost for cost in costs if (cost.layout == ALONE) == (storm.servers == 1)]).rates()
    outage = Outage(storm.away_s)
    return simulate(storm.sessions, storm.servers, 0, rates, outage, Policy(TIME_OUT_S), seed)
