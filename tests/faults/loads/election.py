"""Election: never two leaders that both think themselves CONNECTED.

A leader leads until its client is no longer CONNECTED, or for a while. The judge is that of a Lock, because an
Election of kazoo is a Lock: tests/faults/judges/guarded_writes.py.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from functools import partial
from typing import Any

from tests.faults import guarded_writes
from tests.faults.load import InterruptedCallError, Worker
from tests.faults.retries import BEAT_S, beating

PATIENCE_S = 8.0
TERM_S = (0.2, 1.5)


class ElectionLoad:
    name = "election"
    about = "An Election never has two leaders that both think themselves CONNECTED"
    processes = 3

    def prepare(self, client: Any, root: str) -> None:
        guarded_writes.prepare(client, f"{root}/leader")

    def work(self, worker: Worker) -> None:
        client = worker.connect()
        election = client.Election(f"{worker.root}/leader", worker.number)
        hold = 0
        with beating(worker):
            while not worker.is_over():
                hold += 1
                worker.record("asking", lock=election.lock.path, hold=hold)
                is_answered = threading.Event()
                candidate = threading.Thread(
                    target=self._give_up, args=(worker, election, is_answered), daemon=True
                )
                candidate.start()
                with suppress(InterruptedCallError), worker.limited():
                    election.run(self._lead, worker, client, election, hold, is_answered)
                is_answered.set()
                candidate.join()
                worker.pause(worker.dice.uniform(0.0, 0.1))
        client.stop()

    def _give_up(self, worker: Worker, election: Any, is_answered: threading.Event) -> None:
        """Cancel a candidacy that takes long: kazoo's pauses between its attempts grow to a minute."""
        deadline_s = time.monotonic() + PATIENCE_S
        while not is_answered.wait(BEAT_S):
            if worker.is_over() or time.monotonic() > deadline_s:
                election.cancel()

    def _lead(self, worker: Worker, client: Any, election: Any, hold: int, is_answered: threading.Event) -> None:
        worker.lift_limit()
        is_answered.set()
        has_broken = threading.Event()
        listener = partial(self._watch, has_broken)
        client.add_listener(listener)
        end_s = time.monotonic() + worker.dice.uniform(*TERM_S)

        def has_to_end() -> bool:
            return has_broken.is_set() or worker.is_over() or time.monotonic() > end_s

        guarded_writes.hold(worker, client, election.lock, hold, has_to_end)
        client.remove_listener(listener)

    def _watch(self, has_broken: threading.Event, state: str) -> None:
        if state != "CONNECTED":
            has_broken.set()

    def finish(self, client: Any, root: str, record: Any) -> None:
        guarded_writes.record_contenders(client, f"{root}/leader", record)


LOAD = ElectionLoad()
