"""Operations that end between two of their requests, on directories that several clients make and delete at once.

    python -m tests.faults.stress --crashes 2000 --seed 7

The servers are three ensembles of three; followers are frozen in turns, and lag when they go on. A crash is what
the end of a client's process would be there: the request is sent or it is not, and no client waits for the answer.
Others are held up on the way, as if their process had been stopped. It checks all the time, and again at the end:

- a child whose create was acknowledged is there, and its directory too, until its delete is begun; and it is gone
  once that is acknowledged;
- no sequence number is given twice in the life of a directory (the czxid of its home);
- no mirror is without its directory when nothing is under way, fsck finds nothing once it has mended what crashes
  may leave, and nothing at all is left of what was deleted.

Directories are of three kinds. Some are set and deleted, others are deleted with a version and not set. Those of
the third kind are set *and* deleted with a version, of which docs/design/protocol.md says under "Known gaps" that
sequence numbers may start again: for these they are counted, no more. Transactions that delete a directory are
left out for the same reason.
"""

from __future__ import annotations

import argparse
import logging
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from rich.console import Console
from rich.table import Table

from parkazoo import ParKazooClient
from parkazoo.local import LocalCluster
from parkazoo.protocol.placement import MIRRORS, escape, unescape
from tests.faults.lagging import Lag
from tests.faults.load import Judgement
from tests.faults.remains import judge_tree
from tests.faults.stress_state import ROOT, Stress, connect, started
from tests.faults.stress_user import User

CLIENTS = 6
STALL_S = 120.0  # without a single crash


def run(cluster: LocalCluster, crashes: int, seed: int, tell: Callable[[str], None] = lambda _: None) -> Judgement:
    """That many crashes, on three ensembles of three servers of its own; then it deletes everything."""
    stress = Stress(crashes, tell)
    with ExitStack() as stack:
        users = [User(stress, number, cluster.hosts, seed, stack) for number in range(CLIENTS)]
        lag = Lag(stress, cluster, seed, stack)
        users[0].client.ensure_path(ROOT)
        began = time.monotonic()
        at_work: tuple[User | Lag, ...] = (*users, lag)
        threads = [threading.Thread(target=each.work, name=f"{each}", daemon=True) for each in at_work]
        for thread in threads:
            thread.start()
        _wait(stress)
        for thread in threads:
            thread.join(STALL_S)
            if thread.is_alive():
                stress.problem(f"{thread.name} hangs")
        stress.count["seconds"] = int(time.monotonic() - began)
    _check_end(stress, cluster, users)
    stress.count |= Counter(
        {"lives of directories": stress.numbers.lives, "sequence numbers": stress.numbers.seen}
    )
    return Judgement(stress.problems, dict(sorted(stress.count.items())))


def _wait(stress: Stress) -> None:
    """Until there were enough crashes, or none for a long time."""
    seen = -1
    while not stress.over.wait(STALL_S):
        if stress.count["crashes"] == seen:
            stress.problem(f"nothing has happened for {STALL_S:g} s")
            stress.over.set()
        seen = stress.count["crashes"]


def _check_end(stress: Stress, cluster: LocalCluster, users: Sequence[User]) -> None:
    with ExitStack() as stack:
        client = started(ParKazooClient(cluster.hosts), stack)
        ensembles = {each.name: connect(each.hosts, stack) for each in cluster.ensembles}
        listed: set[str] = set()
        for path in stress.kinds:
            client.sync(path)
            with suppress(NoNodeError):
                listed |= {f"{path}/{name}" for name in client.get_children(path)}
        for user in users:
            for child in sorted(user.there - listed):
                stress.problem(f"in the end {child} is not there, but its create was acknowledged")
            for child in sorted(user.gone & listed):
                stress.problem(f"in the end {child} is there, but its delete was acknowledged")
        for name, path in _mirrors(ensembles):
            client.sync(path)
            if client.exists(path) is None:
                stress.problem(f"in the end ensemble {name} has a mirror of {path}, which does not exist")
        stress.problems += [f"fsck: {problem}" for problem in judge_tree(cluster.hosts).problems]
        client.delete(ROOT, recursive=True)
        for name, path in _mirrors(ensembles):
            stress.problem(f"ensemble {name} has a mirror of {path}, which was deleted")


def _mirrors(ensembles: Mapping[str, KazooClient]) -> Iterator[tuple[str, str]]:
    """Ensemble and directory of each mirror of this stress."""
    for name, client in ensembles.items():
        client.sync(MIRRORS)
        yield from (
            (name, unescape(each)) for each in client.get_children(MIRRORS) if each.startswith(escape(ROOT))
        )


def print_judgement(judgement: Judgement) -> None:
    console = Console()
    table = Table(title="crash stress", title_justify="left", show_header=False)
    for name, figure in judgement.figures.items():
        table.add_row(name, str(figure))
    console.print(table)
    for problem in judgement.problems:
        console.print(f"PROBLEM {problem}", markup=False, highlight=False, soft_wrap=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.stress", description=__doc__.partition("\n")[0])
    parser.add_argument("--crashes", type=int, default=2000, help="%(default)s by default")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32))
    options = parser.parse_args()
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)  # it has much to say about servers that begin
    console = Console()
    console.print(f"seed {options.seed}", highlight=False)
    with LocalCluster(ensembles=3, servers=3, progress=console.print) as cluster:
        judgement = run(cluster, options.crashes, options.seed, console.print)
    print_judgement(judgement)
    return int(bool(judgement.problems))


if __name__ == "__main__":
    sys.exit(main())
