"""Clients that hold something on one ensemble, and have only read once on the others.

Each of six workers holds on one ensemble a lock that another worker wants too, an ephemeral and a watch, and reads
and writes there. All of that is in one native directory, so nothing else is asked of another ensemble. Their
states are recorded at the moment at which they change, with the ensembles that were not connected then. The last
worker starts clients, reads once and stops them, for each ensemble at once.
"""

from __future__ import annotations

import itertools
import threading
import time
from contextlib import suppress
from functools import partial
from typing import Any

from kazoo.exceptions import WriterNotClosedException
from kazoo.protocol.states import KeeperState

from parkazoo import ParKazooClient
from tests.faults import guarded_writes
from tests.faults.load import Worker
from tests.faults.loads.one_down import NAMES, leaves
from tests.faults.noted_client import NotedClient
from tests.faults.retries import LOST, beating

HOLDERS = 2 * len(NAMES)
PATIENCE_S = 2.0
HELD_S = (0.5, 4.0)
HELD_PAUSE_S = (0.1, 0.5)
PAUSE_S = (0.05, 0.2)
START_TIMEOUT_S = 5.0


class ElsewhereLoad:
    name = "elsewhere"
    about = "An ensemble on which a client holds nothing may go and come back: the client does not notice"
    processes = HOLDERS + 1

    def prepare(self, client: Any, root: str) -> None:
        for leaf in leaves(root):
            client.create(leaf, makepath=True)
            guarded_writes.prepare(client, _directory(leaf))

    def work(self, worker: Worker) -> None:
        with beating(worker):
            if worker.number < HOLDERS:
                self._hold(worker)
            else:
                self._visit_all(worker)

    def _hold(self, worker: Worker) -> None:
        client = worker.connect(partial(NotedClient, note=partial(_note, worker)))
        mine = leaves(worker.root)[worker.number % len(NAMES)]
        for leaf in leaves(worker.root):
            with suppress(*LOST):
                client.get(leaf)
        worker.record("settled", ensemble=NAMES[worker.number % len(NAMES)])
        user = threading.Thread(target=_use, args=(worker, client, mine))
        user.start()
        lock = client.Lock(_directory(mine))
        for hold in itertools.count():
            if worker.is_over():
                break
            worker.record("asking", lock=lock.path, hold=hold)
            if guarded_writes.is_acquired(worker, lock, PATIENCE_S):
                end_s = time.monotonic() + worker.dice.uniform(*HELD_S)
                guarded_writes.hold(
                    worker,
                    client,
                    lock,
                    hold,
                    lambda end_s=end_s: worker.is_over() or time.monotonic() > end_s,
                    HELD_PAUSE_S,
                )
                lock.release()
            worker.pause(worker.dice.uniform(*PAUSE_S))
        user.join()
        worker.record("stopping")
        client.stop()

    def _visit_all(self, worker: Worker) -> None:
        threads = [
            threading.Thread(target=_visit, args=(worker.part(number), NAMES[number], leaf))
            for number, leaf in enumerate(leaves(worker.root))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def finish(self, client: Any, root: str, record: Any) -> None:
        for leaf in leaves(root):
            guarded_writes.record_contenders(client, _directory(leaf), record)


def _directory(leaf: str) -> str:
    return leaf.rpartition("/")[0]


def _note(worker: Worker, client: Any, state: str) -> None:
    members = client.members.items()
    worker.record(
        "seen",
        state=state,
        id=client.client_id[0] if client.connected else None,
        away=[name for name, member in members if not member.connected],
        expired=[name for name, member in members if member.client_state == KeeperState.EXPIRED_SESSION],
    )


def _use(worker: Worker, client: Any, leaf: str) -> None:
    """Make an ephemeral, watch and write a leaf beside it, and look whether it is still there."""
    is_watched = threading.Event()
    ephemeral = ""
    for number in itertools.count():
        if worker.is_over():
            return
        began_s, error = time.monotonic(), ""
        try:
            if not ephemeral:
                path = f"{_directory(leaf)}/{worker.number}.{worker.life}.{number}"
                client.create(path, ephemeral=True)
                worker.record("made", path=path, began=began_s)
                ephemeral = path
            elif number % 3 == 0:
                client.set(leaf, b"%d" % number)
            elif number % 3 == 1:
                is_set = is_watched.is_set()
                is_watched.set()
                client.get(leaf, None if is_set else lambda _: is_watched.clear())
            elif client.exists(ephemeral) is None:
                worker.record("missed", path=ephemeral)
                ephemeral = ""
        except Exception as raised:
            error = type(raised).__name__
            is_watched.clear()
        worker.record("done", began=began_s, error=error)
        worker.pause(worker.dice.uniform(*PAUSE_S))


def _visit(worker: Worker, ensemble: str, leaf: str) -> None:
    while not worker.is_over():
        began_s, error = time.monotonic(), ""
        client = ParKazooClient(worker.hosts, timeout=worker.session_timeout_s)
        try:
            client.start(START_TIMEOUT_S)
            client.get(leaf)
        except Exception as raised:
            error = type(raised).__name__
        worker.record("visited", ensemble=ensemble, began=began_s, error=error)
        began_s = time.monotonic()
        try:
            client.stop()
            client.close()
        except WriterNotClosedException:
            worker.record("unclosed", ensemble=ensemble, began=began_s)
        worker.pause(worker.dice.uniform(*PAUSE_S))


LOAD = ElsewhereLoad()
