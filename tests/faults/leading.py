"""Shows that a leader answers a sync before it has applied what it has committed: kazoo alone reads an old value.

    python -m tests.faults.leading

One client sets a znode on a follower, and has the answer. Then another one sends a sync and a get to another
server, while more clients keep all servers busy. Behind the sync of a follower the get is never old. Behind the
leader's it is, now and then: the follower that has answered was a moment ahead.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from contextlib import ExitStack

from kazoo.client import KazooClient
from rich.console import Console

from parkazoo.local import LocalCluster, LocalServer
from tests.faults.stress_state import connect

SECONDS = 60.0  # for each of the two servers at most
TRIES = 5_000
BUSY = 2  # clients of each server
AT_ONCE = 20  # their requests
PATH = "/value"


def count_stale(writer: KazooClient, reader: KazooClient, console: Console, where: str) -> int:
    """How often a get behind a sync was older than a set that had been answered before."""
    stale = tries = 0
    until_s = time.monotonic() + SECONDS
    while tries < TRIES and time.monotonic() < until_s:
        tries += 1
        version = writer.set(PATH, b"").version
        sync, get = reader.sync_async(PATH), reader.get_async(PATH)
        sync.get()
        stale += get.get()[1].version < version
    console.print(f"behind a sync {where}: {stale} of {tries} gets were old")
    return stale


def keep_busy(client: KazooClient, path: str, over: threading.Event) -> None:
    while not over.is_set():
        results = [client.set_async(path, b"") if each % 3 else client.get_async(PATH) for each in range(AT_ONCE)]
        for result in results:
            result.get()


def main() -> int:
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    console = Console(highlight=False)
    with ExitStack() as stack:
        cluster = stack.enter_context(LocalCluster(ensembles=1, servers=3, progress=console.print))
        (ensemble,) = cluster.ensembles
        leader, (one, other) = ensemble.leader(), ensemble.followers()
        writer = connect(one.address, stack)
        writer.create(PATH)
        over = threading.Event()
        stack.callback(over.set)
        busy: list[LocalServer] = [server for server in ensemble.servers for _ in range(BUSY)]
        for number, server in enumerate(busy):
            client = connect(server.address, stack)
            client.create(f"/busy{number}")
            thread = threading.Thread(target=keep_busy, args=(client, f"/busy{number}", over))
            thread.start()
            stack.callback(thread.join)
            stack.callback(over.set)  # before the thread is joined
        stale = count_stale(writer, connect(leader.address, stack), console, "of the leader")
        count_stale(writer, connect(other.address, stack), console, "of a follower")
    return 0 if stale else 1


if __name__ == "__main__":
    sys.exit(main())
