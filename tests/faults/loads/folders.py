"""Clients that lock in folders whose home is on another ensemble than the contenders.

There is a folder for each two ensembles, with a client of its own that has nothing anywhere else. It looks for the
folder, locks there, and deletes what is not there; a client that has just started does the same.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from kazoo.exceptions import NoNodeError

from parkazoo import ParKazooClient
from parkazoo.protocol.placement import Placement
from tests.faults.load import Worker
from tests.faults.loads.one_down import NAMES
from tests.faults.retries import beating
from tests.where_is import where_is

PAIRS = [*itertools.permutations(NAMES, 2)]  # home and children, by the client's number
START_TIMEOUT_S = 5.0
PAUSE_S = (0.05, 0.2)


class FoldersLoad:
    name = "folders"
    about = "The home of a folder may go and come back: clients lock there, on the contenders' ensemble"
    processes = 1

    def prepare(self, client: Any, root: str) -> None:
        for folder in folders(root):
            client.create(f"{folder}/first", makepath=True)

    def work(self, worker: Worker) -> None:
        with beating(worker):
            threads = [
                threading.Thread(target=_use, args=(worker.part(number), folder))
                for number, folder in enumerate(folders(worker.root))
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

    def finish(self, client: Any, root: str, record: Any) -> None:
        pass


def folders(root: str) -> list[str]:
    """By the client's number."""
    placement = Placement(len(NAMES))
    paths = [f"{root}/{above}/{name}" for above in range(30) for name in range(30)]
    return [
        next(
            path
            for path in paths
            if (NAMES[where_is(placement, path).home.ensemble], NAMES[placement.of_children(path)]) == pair
        )
        for pair in PAIRS
    ]


def _use(worker: Worker, folder: str) -> None:
    client = worker.connect()
    does: dict[str, Callable[[], None]] = {
        "ensure_path": partial(client.ensure_path, folder),
        "lock": partial(_lock, client, folder, worker.session_timeout_s),
        "delete": partial(_delete_nothing, client, folder),
        "start": partial(_start, worker, folder),
    }
    for what in itertools.cycle(does):
        if worker.is_over():
            break
        began_s, error = time.monotonic(), ""
        try:
            does[what]()
        except Exception as raised:
            error = type(raised).__name__
        worker.record("done", does=what, began=began_s, error=error)
        worker.pause(worker.dice.uniform(*PAUSE_S))
    client.stop()
    client.close()


def _lock(client: Any, folder: str, timeout_s: float) -> None:
    lock = client.Lock(folder)
    if not lock.acquire(timeout=timeout_s):
        raise TimeoutError
    lock.release()


def _delete_nothing(client: Any, folder: str) -> None:
    with suppress(NoNodeError):
        client.delete(f"{folder}/nothing")


def _start(worker: Worker, folder: str) -> None:
    client = ParKazooClient(worker.hosts, timeout=worker.session_timeout_s)
    try:
        client.start(START_TIMEOUT_S)
        client.ensure_path(folder)
        _lock(client, folder, worker.session_timeout_s)
        _delete_nothing(client, folder)
    finally:
        client.stop()
        client.close()


LOAD = FoldersLoad()
