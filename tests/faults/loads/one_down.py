"""While one ensemble is down, operations on the others go on as fast as ever."""

from __future__ import annotations

import itertools
import threading
import time
from typing import Any

from parkazoo import ParKazooClient
from parkazoo.protocol.placement import Placement
from tests.faults.load import Worker
from tests.faults.processors import Busy

NAMES = "abc"
PAUSE_S = 0.04
BUSY_EVERY_S = 1.0
# What kazoo raises when a connection or a session ends under an operation.
# A median of fewer says little; on a machine that is busier than this, processes wait for a processor and not for
# an ensemble. The few milliseconds are the scheduler's, whose time slices are about as long as an operation takes.


class OneDown:
    name = "one_down"
    about = "one ensemble is down: operations on the others go on, within twice their usual time"
    processes = 1

    def prepare(self, client: ParKazooClient, root: str) -> None:
        for leaf in leaves(root):
            client.create(leaf, makepath=True)

    def work(self, worker: Worker) -> None:
        client = worker.connect()
        threads = [
            threading.Thread(target=_measure, args=(worker, client, ensemble, leaf))
            for ensemble, leaf in zip(NAMES, leaves(worker.root), strict=True)
        ]
        for thread in threads:
            thread.start()
        busy = Busy()
        while not worker.is_over():
            worker.pause(BUSY_EVERY_S)
            worker.record("busy", share=busy.share())
        for thread in threads:
            thread.join()
        client.stop()
        client.close()

    def finish(self, client: ParKazooClient, root: str, record: Any) -> None:
        pass


def _measure(worker: Worker, client: ParKazooClient, ensemble: str, leaf: str) -> None:
    for number in itertools.count():
        if worker.is_over():
            return
        error, began_s = "", time.monotonic()
        try:
            if number % 2:
                client.get(leaf)
            else:
                client.set(leaf, b"%d" % number)
        except Exception as raised:
            error = type(raised).__name__
        worker.record("done", began_s=began_s, ended_s=time.monotonic(), ensemble=ensemble, error=error)
        worker.pause(PAUSE_S)


def leaves(root: str) -> list[str]:
    """For each ensemble a znode for which it is asked with one request: a leaf in a native directory."""
    placement = Placement(len(NAMES))
    found = []
    for ensemble in range(len(NAMES)):
        paths = (f"{root}/{above}/{name}" for above in range(100) for name in range(100))
        found.append(
            next(
                f"{path}/leaf"
                for path in paths
                if placement.is_native(path) and placement.of_children(path) == ensemble
            )
        )
    return found


LOAD = OneDown()
