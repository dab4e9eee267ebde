"""Shows that ZooKeeper's sync does not ask a quorum: kazoo alone reads an old value behind a sync.

    python -m tests.faults.deposed

A leader is frozen until another is elected and a znode is set there. Then it goes on. For a moment it thinks that
it is still the leader, and answers a sync and the read behind it, which came in meanwhile.
"""

from __future__ import annotations

import logging
import sys

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss
from rich.console import Console

from parkazoo.local import LocalCluster

ATTEMPTS = 10
PATH = "/value"
ELECTION_TIMEOUT_S = 60.0
SESSION_TIMEOUT_S = 60.0  # so that the client of the frozen leader does not go elsewhere


def read_behind_sync(cluster: LocalCluster, value: bytes) -> bytes | None:
    """What a client of the deposed leader reads; None if it noticed in time."""
    (ensemble,) = cluster.ensembles
    leader = ensemble.leader()
    others = ",".join(server.address for server in ensemble.servers if server is not leader)
    reader = KazooClient(leader.address, timeout=SESSION_TIMEOUT_S)
    reader.start()
    writer = KazooClient(others, timeout=SESSION_TIMEOUT_S)
    leader.freeze()
    try:
        writer.start(ELECTION_TIMEOUT_S)
        writer.retry(writer.set, PATH, value)
        sync, get = reader.sync_async(PATH), reader.get_async(PATH)  # begun after the set was answered
    finally:
        leader.thaw()
    try:
        sync.get()
        return bytes(get.get()[0])
    except ConnectionLoss:
        return None
    finally:
        for client in (reader, writer):
            client.stop()
            client.close()
        ensemble.wait_quorum()
        leader.wait_serving()


def main() -> int:
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)  # connections are lost, as they should be
    console = Console(highlight=False)
    with LocalCluster(ensembles=1, servers=3, progress=console.print) as cluster:
        client = KazooClient(cluster.hosts)
        client.start()
        client.create(PATH, b"0")
        client.stop()
        client.close()
        for attempt in range(1, ATTEMPTS + 1):
            value = str(attempt).encode()
            read = read_behind_sync(cluster, value)
            console.print(f"{value!r} was set; then sync, and get answered {read!r}")
            if read not in (None, value):
                return 0
    console.print("not seen this time")
    return 1


if __name__ == "__main__":
    sys.exit(main())
