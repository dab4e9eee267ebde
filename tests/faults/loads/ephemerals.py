"""Ephemerals: gone from every ensemble within twice the session timeout after their session, and never before.

Workers make ephemerals in directories of every ensemble, and start processes that make some and are killed. The
first worker lists them, as they are at that time (tests/faults/catching_up.py).
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from kazoo.exceptions import NoNodeError

from parkazoo.protocol.epochs import Form
from tests.faults import catching_up
from tests.faults.load import Worker
from tests.faults.retries import LOST, beating

DIRECTORIES_OF_AN_ENSEMBLE = 2
KEPT = 3  # of a worker in a directory
SHARE_CLOSED = 0.01
SHARE_MORTAL = 0.005
POLL_S = 0.3
WAIT_FOR_DEAD_S = 30.0


class EphemeralsLoad:
    name = "ephemerals"
    about = "Ephemerals are gone within twice the session timeout after the session, and never before"
    processes = 4

    def prepare(self, client: Any, root: str) -> None:
        for directory in _directories(client, root):
            client.create(directory)

    def work(self, worker: Worker) -> None:
        with beating(worker):
            if worker.number == 0:
                self._observe(worker)
            else:
                while not worker.is_over():
                    self._make(worker)

    def _observe(self, worker: Worker) -> None:
        client = worker.connect()
        directories = _directories(client, worker.root)
        while not worker.is_over():
            for each in directories.items():
                with suppress(*LOST):
                    _look(client, *each, worker.record)
            worker.pause(POLL_S)
        client.stop()

    def _make(self, worker: Worker) -> None:
        """In one client's life."""
        client = worker.connect()
        directories = [*_directories(client, worker.root)]
        kept: dict[str, list[str]] = defaultdict(list)
        while not worker.is_over() and worker.dice.random() >= SHARE_CLOSED:
            directory = worker.dice.choice(directories)
            mine = kept[directory]
            if worker.dice.random() < SHARE_MORTAL:
                self._let_die(worker, directories)
            try:
                if len(mine) < KEPT:
                    name = f"{worker.number}.{time.monotonic():.6f}"
                    worker.record("creating", directory=directory, name=name)
                    mine.append(name)
                    _, stat = client.create(f"{directory}/{name}", ephemeral=True, include_data=True)
                    worker.record("created", directory=directory, name=name, owner=stat.ephemeralOwner)
                else:
                    name = mine.pop(0)
                    worker.record("deleting", directory=directory, name=name)
                    if client.exists(f"{directory}/{name}"):
                        with suppress(NoNodeError):  # of an earlier session, which has just ended there
                            client.delete(f"{directory}/{name}")
                        worker.record("deleted", directory=directory, name=name)
            except LOST:
                worker.record("lost")
            worker.pause(worker.dice.uniform(0.0, 0.2))
        client.stop()
        worker.record("closed")

    def _let_die(self, worker: Worker, directories: Sequence[str]) -> None:
        """Have another process make ephemerals, and be killed."""
        name = f"{worker.number}.{time.monotonic():.6f}"
        worker.record("bearing", name=name, directories=directories)
        paths = [f"{directory}/{name}" for directory in directories]
        argv = [sys.executable, "-m", "tests.faults.killed", worker.hosts, str(worker.session_timeout_s), *paths]
        subprocess.run(argv, stderr=subprocess.DEVNULL, check=False)  # it fails if the servers do not answer
        worker.record("died", name=name, directories=directories)

    def finish(self, client: Any, root: str, record: Any) -> None:
        deadline_s = time.monotonic() + WAIT_FOR_DEAD_S
        directories = _directories(client, root)
        while sum(len(_look(client, *each, record)) for each in directories.items()):
            if time.monotonic() > deadline_s:
                break
            time.sleep(POLL_S)


def _directories(client: Any, root: str) -> dict[str, str]:
    """By path: the ensemble of their children, as many of each; no name if directories may move."""
    placement = client.cluster_map.make_placement()
    found: dict[str, list[str]] = {name: [] for name in client.cluster_map.names}
    for number in itertools.count():
        if all(len(paths) == DIRECTORIES_OF_AN_ENSEMBLE for paths in found.values()):
            can_move = client.cluster_map.form is Form.GROWN
            return {path: "" if can_move else name for name, paths in found.items() for path in paths}
        path = f"{root}/{number}"
        paths = found[client.cluster_map.names[placement.of_children(path)]]
        if len(paths) < DIRECTORIES_OF_AN_ENSEMBLE:
            paths.append(path)
    raise AssertionError


def _look(client: Any, directory: str, ensemble: str, record: Any) -> list[str]:
    began_s = time.monotonic()
    catching_up.refresh(client, directory)
    names: list[str] = client.get_children(directory)
    record("listed", directory=directory, ensemble=ensemble, began=began_s, names=names)
    return names


LOAD = EphemeralsLoad()
