"""Random calls on kazoo with one server and on ParKazoo with three ensembles, and the differences."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
import warnings
from pathlib import Path

from kazoo.client import KazooClient

from bench import ROOT
from parkazoo import ParKazooClient
from parkazoo.cli import INTERRUPTED
from parkazoo.local import LocalClusterError
from tests.fuzz.arena import Arena, Outcome
from tests.fuzz.cases import Case, generate
from tests.fuzz.gateway_side import GatewaySide
from tests.fuzz.shrink import shrink

if sys.version_info >= (3, 11):
    from tests.fuzz.asyncio_side import AsyncioClient

FOLDER = ROOT / "build" / "fuzz"
MINUTE_S = 60.0


def make_asyncio_arena(form: str) -> Arena:
    """The same with the asyncio client, which needs Python 3.11."""
    return Arena(AsyncioClient, form)


def make_gateway_arena(form: str) -> Arena:
    """The same with kazoo's clients at a gateway, which needs Python 3.11."""
    return Arena(form=form, parkazoo=GatewaySide(form))


def describe(case: Case, outcome: Outcome) -> str:
    """One line for each client and call, and one more for each answer if the two differ."""
    lines = [f"below {case.root}: {' '.join(case.made) or 'nothing'}"]
    for number, client in enumerate(case.clients):
        about = [f"chroot {client.chroot or '/'}"] if client.chroot is not None else []
        about += [client.identity] if client.identity else []
        about += [f"default_acl {client.acl}"] if client.acl else []
        lines.append(f"    client {number}: {', '.join(about) or 'plain'}")
    return "\n".join([*lines, *map(str, outcome.answers)])


def fuzz(arena: Arena, seed: int, minutes: float, *, has_moves: bool) -> int:
    """Case after case until the time is over. Of failures that are alike, the first is minimised and told.

    :returns: how many kinds of failures there were.
    """
    FOLDER.mkdir(parents=True, exist_ok=True)
    found: set[tuple[str, ...]] = set()
    ended = number = 0
    now_s = time.monotonic()
    end_s, told_s = now_s + minutes * MINUTE_S, now_s
    while (now_s := time.monotonic()) < end_s:
        if now_s > told_s + MINUTE_S:
            told_s = now_s
            print(f"{time.strftime('%H:%M:%S')} {number} cases", flush=True)
        case = generate(seed, number, has_moves=has_moves)
        outcome = arena.run(case)
        ended += bool(outcome.ended_by)
        if outcome.failure is not None and outcome.failure not in found:
            found.add(outcome.failure)
            tell_failure(arena, case, outcome.failure, f"{seed}:{number}")
        number += 1
    print(f"{number} cases, {sum(arena.outcomes.values())} calls; seed {seed}")
    if has_moves:
        print(f"{arena.parkazoo.moves} directories have moved")
    print(f"{ended} cases were ended by a difference that docs/reference/differences.md names:")
    for sentence, count in arena.allowed.most_common():
        print(f"  {count:5} {sentence}")
    print(f"{len(found)} kinds of failures" if found else "clean")
    return len(found)


def tell_failure(arena: Arena, case: Case, failure: tuple[str, ...], name: str) -> None:
    print(f"\ncase {name} fails: {', '.join(failure)}; minimising", flush=True)
    mode = " --moves" if case.has_moves else " --grown" if arena.parkazoo.form == "grown" else ""
    flag = {ParKazooClient: "", KazooClient: " --gateway"}.get(arena.parkazoo.client_class, " --asyncio")
    command = f"python -m tests.fuzz{mode}{flag}"
    case = shrink(case, lambda smaller: arena.run(smaller).failure == failure)
    file = FOLDER / f"{name.replace(':', '-')}.json"
    file.write_text(case.to_json())
    outcome = arena.run(case)
    print(describe(case, outcome))
    if outcome.failure is None:
        print("This time it did not fail.")
    print(f"again: {command} --repeat {file.relative_to(ROOT)}")
    print(f"whole: {command} --repeat {name}\n", flush=True)


def repeat(arena: Arena, what: str, *, has_moves: bool) -> int:
    """:returns: whether the case fails."""
    if Path(what).exists():
        case = Case.from_json(Path(what).read_text())
    else:
        seed, _, number = what.partition(":")
        case = generate(int(seed), int(number), has_moves=has_moves)
    outcome = arena.run(case)
    print(describe(case, outcome))
    if outcome.ended_by:
        print(f"ended: {outcome.ended_by}")
    print(f"fails: {', '.join(outcome.failure)}" if outcome.failure else "clean")
    return int(outcome.failure is not None)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long, %(default)g by default")
    parser.add_argument("--seed", type=int, help="by default a new one, which is printed")
    parser.add_argument("--grown", action="store_true", help="the three ensembles' map is one that has grown")
    parser.add_argument("--moves", action="store_true", help="and its directories move between calls")
    sides = parser.add_mutually_exclusive_group()
    sides.add_argument("--asyncio", action="store_true", help="with the asyncio client")
    sides.add_argument("--gateway", action="store_true", help="with kazoo's clients at a gateway")
    parser.add_argument("--repeat", metavar="CASE", help="a file of build/fuzz/, or SEED:NUMBER: that case alone")
    options = parser.parse_args()
    logging.disable()  # of connections that are meant to break
    warnings.simplefilter("ignore")  # of chroots that are not there
    seed = int.from_bytes(os.urandom(4), "big") if options.seed is None else options.seed
    try:
        form = "grown" if options.grown or options.moves else "plain"
        make = make_asyncio_arena if options.asyncio else make_gateway_arena if options.gateway else Arena
        with make(form=form).running() as arena:
            if options.repeat:
                return repeat(arena, options.repeat, has_moves=options.moves)
            return int(fuzz(arena, seed, options.minutes, has_moves=options.moves) > 0)
    except LocalClusterError as error:
        print(f"no run: {error}")
        return 2
    except KeyboardInterrupt:
        print("interrupted")
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
