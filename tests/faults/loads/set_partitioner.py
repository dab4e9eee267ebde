"""SetPartitioner: no item is assigned twice.

The members come and go by themselves too. A partitioner that has failed is made again with a new client, as its
locks may have stayed behind with the session.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from kazoo.exceptions import ConnectionClosedError
from kazoo.recipe.partitioner import SetPartitioner

from tests.faults.load import InterruptedCallError, Worker
from tests.faults.retries import LOST, beating

ITEMS = 5
SETTLE_S = 0.3
PATIENCE_S = 1.0
POLL_S = 0.05
USE_S = (0.2, 1.5)
SHARE_LEAVING = 0.03


class Partitioner(SetPartitioner):
    """kazoo's, which may give up its locks in two threads at once: the slower finds them gone, and would raise."""

    def _release_locks(self) -> None:
        with suppress(ValueError):
            super()._release_locks()

    def _allocate_transition(self, result: Any) -> None:
        """In a thread of kazoo's, which does not end with the client of a partitioner that has failed."""
        with suppress(ConnectionClosedError):
            super()._allocate_transition(result)


def divide(identifier: str, members: Sequence[str], items: Sequence[str]) -> list[str]:
    """As kazoo does it, which raises, in a thread of its own, if its member has just left the party."""
    if identifier not in members:
        return []
    return sorted(items)[sorted(members).index(identifier) :: len(members)]


class SetPartitionerLoad:
    name = "set_partitioner"
    about = "A SetPartitioner never assigns an item twice"
    processes = 3

    def prepare(self, client: Any, root: str) -> None:
        client.ensure_path(f"{root}/parts")

    def work(self, worker: Worker) -> None:
        members = itertools.count()
        with beating(worker):
            while not worker.is_over():
                client = worker.connect()
                while not worker.is_over():
                    identifier = f"{worker.number}.{worker.life}.{next(members)}"
                    if not self._has_taken_part(worker, client, identifier):
                        break
                client.stop()

    def _has_taken_part(self, worker: Worker, client: Any, identifier: str) -> bool:
        """Whether this worker has left the party; False if its partitioner has failed."""
        worker.record("joining", member=identifier)
        try:
            parts = Partitioner(
                client,
                f"{worker.root}/parts",
                set=tuple(f"item-{number}" for number in range(ITEMS)),
                partition_func=divide,
                identifier=identifier,
                time_boundary=SETTLE_S,
                max_reaction_time=PATIENCE_S,
            )
        except LOST:
            return False
        try:
            return self._has_used(worker, parts, identifier)
        except InterruptedCallError:
            worker.record("failed", member=identifier)
            return False

    def _has_used(self, worker: Worker, parts: Any, identifier: str) -> bool:
        while not worker.is_over() and worker.dice.random() >= SHARE_LEAVING:
            if parts.failed:
                worker.record("failed", member=identifier)
                return False
            if parts.release:
                worker.record("releasing", member=identifier)
                with worker.limited():
                    parts.release_set()
            elif parts.acquired:
                self._use(worker, parts, identifier)
            else:
                with worker.limited():
                    parts.wait_for_acquire(PATIENCE_S)
        worker.record("releasing", member=identifier)
        with worker.limited():
            parts.finish()
        return True

    def _use(self, worker: Worker, parts: Any, identifier: str) -> None:
        began_s, state_id, items = time.monotonic(), parts.state_id, list(parts)
        if parts.acquired and parts.state_id == state_id:  # so these were the items at began_s
            worker.record("acquired", member=identifier, items=items, began=began_s)
        end_s = began_s + worker.dice.uniform(*USE_S)
        while parts.state_id == state_id and not worker.is_over() and time.monotonic() < end_s:
            worker.pause(POLL_S)

    def finish(self, client: Any, root: str, record: Any) -> None:
        pass


LOAD = SetPartitionerLoad()
