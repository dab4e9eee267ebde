"""Shows that kazoo's client may believe in a session that has expired: its server has lost the leader.

    python -m tests.faults.expired [--timeout 20]

Servers have the syncLimit and the tickTime of ZooKeeper's sample configuration, clients kazoo's timeout, or
another. A follower is cut off from its leader, and goes on answering its clients' pings. The leader hears
nothing of their sessions and lets them expire: others get their locks. The clients are told when the follower
gives up its leader.
"""

from __future__ import annotations

import argparse
import logging
import random
import sys
import time
from contextlib import ExitStack
from queue import SimpleQueue

from kazoo.client import KazooClient, KazooState
from rich.console import Console

from parkazoo.local import LocalCluster, find_java, find_zookeeper
from tests.faults.network import Network, NetworkError, both_ways
from tests.faults.stress_state import started

ZOO_CFG = {"tickTime": "2000", "syncLimit": "5"}
TIMEOUT_S, OTHERS_TIMEOUT_S = 10.0, 30.0  # of the sessions
CUTS = 9
IDLE_SHARES = (0.3, 0.7)  # of the timeout: kazoo pings after about a third
PATH = "/lock"
POLL_S = 0.02


def believe(cluster: LocalCluster, network: Network, timeout_s: float, way: str) -> float:
    """For how many seconds a client stayed CONNECTED whose ephemeral was gone; negative if it knew before.

    :param way: who does not hear whom: ``follower mute``, ``follower deaf`` or ``both``.
    """
    (ensemble,) = cluster.ensembles
    leader, follower = ensemble.leader(), ensemble.followers()[0]
    ways = {
        "follower mute": [(follower.name, leader.name)],
        "follower deaf": [(leader.name, follower.name)],
        "both": both_ways(leader.name, [follower.name]),
    }
    told_s: SimpleQueue[float] = SimpleQueue()

    def listen(state: str) -> None:
        if state != KazooState.CONNECTED:
            told_s.put(time.monotonic())

    with ExitStack() as stack:
        stack.callback(follower.wait_serving)
        stack.callback(ensemble.wait_quorum)
        other = started(KazooClient(leader.address, timeout=OTHERS_TIMEOUT_S), stack)
        client = started(KazooClient(follower.address, timeout=timeout_s), stack)
        client.create(PATH, ephemeral=True)
        client.add_listener(listen)
        time.sleep(timeout_s * random.uniform(*IDLE_SHARES))
        with network.hushed(ways[way]):
            while other.exists(PATH):
                time.sleep(POLL_S)
            gone_s = time.monotonic()
            return told_s.get() - gone_s


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.expired", description=__doc__)
    parser.add_argument("--timeout", type=float, default=TIMEOUT_S, help="of the session, s")
    options = parser.parse_args()
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)  # connections are lost, as they should be
    console = Console(highlight=False)
    find_java()
    find_zookeeper(console.print)  # while there is a network that leads out
    believed: list[float] = []
    try:
        with (
            Network() as network,
            LocalCluster(
                ensembles=1, servers=3, zoo_cfg=ZOO_CFG, machine_of=network.machine_of, progress=console.print
            ) as cluster,
        ):
            for number in range(CUTS):
                way = ("follower mute", "follower deaf", "both")[number % 3]
                believed.append(believe(cluster, network, options.timeout, way))
                word = "after" if believed[-1] > 0 else "before"
                console.print(
                    f"{way}: the client was told {abs(believed[-1]):.1f} s {word} its ephemeral was gone"
                )
    except NetworkError as error:
        console.print(f"not possible here: {error}")
        return 2
    late = [each for each in believed if each > 0]
    console.print(
        f"{len(late)} of {CUTS} clients were told too late" + (f", by up to {max(late):.1f} s" if late else "")
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
