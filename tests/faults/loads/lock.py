"""Lock: never held by two. An acquire that is interrupted leaves no contender behind."""

from __future__ import annotations

from typing import Any

from tests.faults import guarded_writes
from tests.faults.load import InterruptedCallError, Worker
from tests.faults.retries import beating

NAMES = ("one", "two")
PATIENCE_S = 2.0


class LockLoad:
    name = "lock"
    about = "A Lock is never held by two"
    processes = 4

    def prepare(self, client: Any, root: str) -> None:
        for name in NAMES:
            guarded_writes.prepare(client, f"{root}/{name}")

    def work(self, worker: Worker) -> None:
        client = worker.connect()
        locks = [client.Lock(f"{worker.root}/{name}") for name in NAMES]
        hold = 0
        with beating(worker):
            while not worker.is_over():
                hold += 1
                lock = worker.dice.choice(locks)
                worker.record("asking", lock=lock.path, hold=hold)
                try:
                    with worker.limited():
                        is_acquired = guarded_writes.is_acquired(worker, lock, PATIENCE_S)
                except InterruptedCallError:
                    continue
                if is_acquired:
                    writes = iter(range(worker.dice.randrange(1, 6)))
                    guarded_writes.hold(
                        worker, client, lock, hold, lambda writes=writes: next(writes, None) is None
                    )
                    guarded_writes.release(worker, lock)
                worker.pause(worker.dice.uniform(0.0, 0.1))
        client.stop()

    def finish(self, client: Any, root: str, record: Any) -> None:
        for name in NAMES:
            guarded_writes.record_contenders(client, f"{root}/{name}", record)


LOAD = LockLoad()
