"""Faults on a local cluster of three ensembles of three servers, and what the clients' journals say afterwards."""

from __future__ import annotations

import argparse
import os
import sys
import time

from rich.console import Console

from bench import ROOT
from parkazoo.cli import INTERRUPTED
from parkazoo.local import LocalClusterError
from tests.faults.run import all_loads, run
from tests.faults.schedule import FULL, KINDS, REPLACING, SHORT
from tests.faults.summary import print_outcome, write_summary

MINUTES, SHORT_MINUTES = 10.0, 0.5
WIDTH = 115  # where no terminal has one


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument(
        "loads", metavar="LOAD", nargs="*", help=f"of {', '.join(all_loads())}; all by default, and then stress"
    )
    parser.add_argument(
        "--minutes",
        type=float,
        help=f"how long there are faults; {MINUTES:g} by default, with --short {SHORT_MINUTES:g}",
    )
    parser.add_argument("--seed", type=int, help="of the schedule; by default a new one, which is printed")
    parser.add_argument("--short", action="store_true", help="each kind of fault about once; no time is judged")
    parser.add_argument(
        "--replace", action="store_true", help="replace all nine servers, one by one, and cause no faults"
    )
    parser.add_argument("--grow", action="store_true", help="one ensemble becomes five meanwhile")
    parser.add_argument("--move", action="store_true", help="directories of the loads move meanwhile")
    parser.add_argument("--kinds", metavar="KIND", nargs="+", default=KINDS, help=f"of {', '.join(KINDS)}")
    options = parser.parse_args()
    if unknown := [name for name in options.loads if name not in all_loads()]:
        parser.error(f"there is no load {', '.join(unknown)}; there are {', '.join(all_loads())}")
    if unknown := [kind for kind in options.kinds if kind not in KINDS]:
        parser.error(f"there is no kind {', '.join(unknown)}; there are {', '.join(KINDS)}")
    seed = int.from_bytes(os.urandom(4), "big") if options.seed is None else options.seed
    minutes = options.minutes or (SHORT_MINUTES if options.short else MINUTES)
    folder = ROOT / "build" / "faults" / f"{seed}-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    folder.mkdir(parents=True)
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    console.print(f"seed {seed}; journals in {folder.relative_to(ROOT)}", highlight=False, soft_wrap=True)

    def tell(text: str) -> None:
        console.print(f"  {time.strftime('%H:%M:%S')} {text}", markup=False, highlight=False, style="dim")

    try:
        outcome = run(
            options.loads or all_loads(),
            minutes,
            seed,
            REPLACING if options.replace else SHORT if options.short else FULL,
            folder,
            tell,
            is_timed=not options.short,
            has_stress=not options.loads and not (options.replace or options.grow or options.move),
            is_replacing=options.replace,
            is_growing=options.grow,
            has_moves=options.move,
            kinds=options.kinds,
        )
    except LocalClusterError as error:
        console.print(f"no run: {error}", markup=False, highlight=False)
        return 2
    except KeyboardInterrupt:
        console.print("interrupted")
        return INTERRUPTED
    write_summary(folder / "summary.json", seed, minutes, outcome)
    print_outcome(console, outcome)
    console.print(f"seed {seed}", highlight=False)
    print(f"{outcome.problem_count} problems" if outcome.problem_count else "clean")
    return int(outcome.problem_count > 0)


if __name__ == "__main__":
    sys.exit(main())
