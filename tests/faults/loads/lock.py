"""Lock: never held by two.

The judge checks: holdings do not overlap while they are provable (tests/faults/holding.py), or where the ensemble
itself confirmed them by a write under the lock (tests/faults/guard.py); these writes are in the order of the
contenders' sequence numbers, which never repeat; no client whose session lives loses a lock; when all have ended,
no contender is left behind, not even by acquires that failed.
"""

from __future__ import annotations

from typing import Any

from kazoo.exceptions import LockTimeout

from tests.faults import guard
from tests.faults.holding import beating
from tests.faults.load import Judgement, Run, Worker

NAMES = ("one", "two")
PATIENCE_S = 2.0


class LockLoad:
    name = "lock"
    about = "A Lock is never held by two"
    processes = 4

    def prepare(self, client: Any, root: str) -> None:
        for name in NAMES:
            guard.prepare(client, f"{root}/{name}")

    def work(self, worker: Worker) -> None:
        client = worker.connect()
        locks = [client.Lock(f"{worker.root}/{name}") for name in NAMES]
        hold = 0
        with beating(worker):
            while not worker.is_over():
                hold += 1
                lock = worker.dice.choice(locks)
                worker.record("asking", lock=lock.path, hold=hold)
                if self._is_acquired(worker, lock):
                    writes = iter(range(worker.dice.randrange(1, 6)))
                    guard.hold(worker, client, lock, hold, lambda writes=writes: next(writes, None) is None)
                    lock.release()
                worker.pause(worker.dice.uniform(0.0, 0.1))
        client.stop()

    def _is_acquired(self, worker: Worker, lock: Any) -> bool:
        try:
            return bool(lock.acquire(**worker.dice.choice(({"blocking": False}, {"timeout": PATIENCE_S}))))
        except LockTimeout:
            return False

    def finish(self, client: Any, root: str, record: Any) -> None:
        for name in NAMES:
            guard.record_contenders(client, f"{root}/{name}", record)

    def judge(self, run: Run) -> Judgement:
        return guard.judge(run)


LOAD = LockLoad()
