"""``python -m bench.scenarios NAME``: measure scenarios, on this machine."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

from rich.console import Console

from bench import ROOT, WIDTH
from bench.lab import Lab, LabError
from bench.loopback import Loopback
from bench.report.terminal import print_section
from bench.scenarios import scaling
from bench.scenarios.catalogue import (
    PROGRAMS,
    SCENARIOS,
    USUAL,
    most_clients,
    most_servers,
    pieces,
    run_scenario,
    title_of,
    verify_topology,
)
from bench.scenarios.durations import estimate
from bench.scenarios.emulated import SERVERS, emulated, see_that_it_can
from bench.scenarios.evaluation import LARGE, stem
from bench.scenarios.results import ReportError, make_report, read_documents, show
from parkazoo.cli import INTERRUPTED


def parse() -> argparse.Namespace:
    names = ", ".join(SCENARIOS)
    parser = argparse.ArgumentParser(prog="python -m bench.scenarios", description=__doc__)
    parser.add_argument(
        "names", metavar="NAME", nargs="+", help=f"of {names}; or all, but for {', '.join(PROGRAMS)}"
    )
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument("--small", action="store_true", help="it only shows that all runs; figures say nothing")
    sizes.add_argument(
        "--full", action="store_true", help="6 hours 15 minutes in all; parts of it take half an hour at most"
    )
    sizes.add_argument(
        "--large", action="store_true", help="of scaling alone: 1x3 and 20x3, with a quarter of the bandwidth"
    )
    parser.add_argument("--part", metavar="PART", default="", help="of a scenario whose full size has parts")
    parser.add_argument(
        "--emulate",
        action="store_true",
        help="on emulated hosts, with limited bandwidth; takes Linux and root. Else on loopback, unlimited",
    )
    parser.add_argument(
        "--install", action="store_true", help="first install packages that are missing; on Debian, as root"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--repeat", metavar="N", type=int, help="run each load so often; by default as often as its scenario says"
    )
    parser.add_argument(
        "--topology",
        metavar="FILE",
        type=Path,
        help="unequal links, for the scenario topologies on emulated hosts",
    )
    parser.add_argument("--out", metavar="FOLDER", type=Path, help="for results, plots and the report")
    options = parser.parse_args()
    if options.names == ["all"]:
        options.names = list(USUAL)
    if unknown := [name for name in options.names if name not in SCENARIOS]:
        parser.error(f"there is no scenario {', '.join(unknown)}; there are {names}")
    if options.repeat is not None and options.repeat < 1:
        parser.error(f"--repeat is {options.repeat}; it must be at least 1")
    if options.large and options.names != [scaling.NAME]:
        parser.error(f"--large is a size of {scaling.NAME} alone")
    options.size = next((size for size in ("small", "full", LARGE) if getattr(options, size)), "medium")
    try:
        options.pieces = pieces(options.names, options.size, options.part)
    except LabError as error:
        parser.error(str(error))
    if options.out is None:
        options.out = ROOT / "build" / "evaluation" / time.strftime("%Y%m%d-%H%M%S")
    if options.topology:
        try:
            verify_topology(options.topology, options.names, options.size, can_limit=options.emulate)
        except LabError as error:
            parser.error(str(error))
    return options


def main() -> int:
    options = parse()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so hosts that were emulated are removed
    console = Console(width=None if sys.stdout.isatty() else WIDTH)

    def tell(text: str) -> None:
        console.print(f"  {time.strftime('%H:%M:%S')} {text}", markup=False, highlight=False, style="dim")

    try:
        how = {"emulates": options.emulate, "installs": options.install}
        see_that_it_can(options.names, options.size, options.out, console, **how)
        options.out.mkdir(parents=True, exist_ok=True)
        tell(estimate(options.pieces, options.size))
        servers = max(SERVERS, most_servers(options.names, options.size))
        clients = most_clients(options.pieces, options.size)
        hosts = emulated(options.out, console, tell, servers, clients) if options.emulate else None
        with hosts or nullcontext(Loopback(tell=tell)) as lab:
            failed = [piece for piece in options.pieces if not has_run(piece, lab, options, tell)]
        report = make_report(options.out)
        for document in read_documents(options.out):
            if (document["scenario"], document.get("part", "")) in options.pieces:
                print_section(console, show(document))
    except (LabError, ReportError, OSError) as error:
        console.print(str(error), markup=False, highlight=False, style="bold")
        return 1
    except KeyboardInterrupt:
        console.print("interrupted")
        return INTERRUPTED
    console.print(f"{report}", markup=False, highlight=False, soft_wrap=True)
    return int(bool(failed))


def has_run(piece: tuple[str, str], lab: Lab, options: argparse.Namespace, tell: Callable[[str], None]) -> bool:
    """Whether a scenario, or its part, could be measured to its end. If not, it prints the reason."""
    name, part = piece
    tell(title_of(name, part))
    how = options.size, options.seed, tell, options.topology, options.repeat, part
    try:
        run_scenario(name, lab, options.out, *how)
    except LabError as error:
        tell(f"{stem(name, part)} ends here: {error}")
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
