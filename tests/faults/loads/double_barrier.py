"""DoubleBarrier: all enter together and all leave together.

All workers enter and leave the barrier of one round after the other. A worker that dies, or whose watch ends with
the connection, holds the others up (kazoo's enter() and leave() then wait for ever, with KazooClient too). A
worker that has waited long enough begins the next round with a new client.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from kazoo.exceptions import BadVersionError, KazooException

from tests.faults.load import Worker
from tests.faults.retries import beating, until_answered

CLIENTS = 3
PATIENCE_S = 5.0
POLL_S = 0.05


class DoubleBarrierLoad:
    name = "double_barrier"
    about = "A DoubleBarrier releases all together"
    processes = CLIENTS

    def prepare(self, client: Any, root: str) -> None:
        client.create(f"{root}/round", b"0")

    def work(self, worker: Worker) -> None:
        client = worker.connect()
        last = -1
        with beating(worker):
            while not worker.is_over():
                number, version = until_answered(partial(self._round, worker, client))
                if number > last:
                    last = number
                    if not self._take_part(worker, client, number):
                        client.stop()
                        client = worker.connect()
                    self._end_round(worker, client, number, version)
                worker.pause(worker.dice.uniform(0.0, POLL_S))
        client.stop()

    def _round(self, worker: Worker, client: Any) -> tuple[int, int]:
        value, stat = client.get(f"{worker.root}/round")
        return int(value), stat.version

    def _end_round(self, worker: Worker, client: Any, number: int, version: int) -> None:
        def end() -> None:
            with suppress(BadVersionError):  # another worker was first
                client.set(f"{worker.root}/round", b"%d" % (number + 1), version)

        until_answered(end)

    def _take_part(self, worker: Worker, client: Any, number: int) -> bool:
        """Whether this worker has entered and left."""
        barrier = client.DoubleBarrier(f"{worker.root}/{number}", CLIENTS)
        worker.record("entering", round=number)
        if not self._has_returned(worker, barrier.enter) or not barrier.participating:
            worker.record("given up", round=number)
            return False
        worker.record("entered", round=number)
        worker.pause(worker.dice.uniform(0.0, 0.2))
        worker.record("leaving", round=number)
        if not self._has_returned(worker, barrier.leave):
            worker.record("given up", round=number)
            return False
        worker.record("left", round=number)
        return True

    def _has_returned(self, worker: Worker, call: Callable[[], Any]) -> bool:
        has_returned = threading.Event()

        def run() -> None:
            try:
                call()
            except KazooException as error:
                worker.record("failed", error=repr(error))
            else:
                has_returned.set()

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(PATIENCE_S)
        return has_returned.is_set()

    def finish(self, client: Any, root: str, record: Any) -> None:
        pass


LOAD = DoubleBarrierLoad()
