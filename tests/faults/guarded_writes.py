"""A znode beside a lock's contenders that is written only while one's own contender is there.

Each write is a transaction of a check of the contender and a set. So the ensemble itself proves that the lock was
held then, whatever clocks and states say. The versions of the znode put all holders in one order.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

from kazoo.exceptions import KazooException, LockTimeout

from tests.faults.load import InterruptedCallError, Worker
from tests.faults.retries import LOST

GUARDED = "guarded"
SEQUENCE_DIGITS = 10
CONTENDER = "__lock__"
WAIT_FOR_DEAD_S = 30.0
POLL_S = 0.2


def prepare(client: Any, path: str) -> None:
    client.create(f"{path}/{GUARDED}", b"", makepath=True)


def is_acquired(worker: Worker, lock: Any, patience_s: float) -> bool:
    """After one attempt, or after some time."""
    try:
        return bool(lock.acquire(**worker.dice.choice(({"blocking": False}, {"timeout": patience_s}))))
    except LockTimeout:
        return False


def hold(
    worker: Worker,
    client: Any,
    lock: Any,
    hold: int,
    has_to_end: Any,
    pause_s: tuple[float, float] = (0.01, 0.1),
) -> None:
    """Write under an acquired lock until `has_to_end()`, or it is refused. "asking" has been recorded.

    :param hold: a number for this holding, unique in this life.
    :param pause_s: between writes, from and to.
    """
    node = lock.node
    token = int(node[-SEQUENCE_DIGITS:])
    worker.record("acquired", lock=lock.path, hold=hold, token=token)
    while not has_to_end():
        began_s = time.monotonic()
        transaction = client.transaction()
        transaction.check(f"{lock.path}/{node}", -1)
        transaction.set_data(f"{lock.path}/{GUARDED}", b"%d" % token)
        try:
            with worker.limited():
                outcome = transaction.commit()
        except (InterruptedCallError, *LOST):
            outcome = []
        errors = [type(result).__name__ for result in outcome if isinstance(result, KazooException)]
        if errors:
            worker.record("refused", hold=hold, began=began_s, errors=errors)
            break
        if outcome:
            worker.record("guarded", hold=hold, began=began_s, version=outcome[1].version)
        worker.pause(worker.dice.uniform(*pause_s))
    worker.record("releasing", hold=hold)


def release(worker: Worker, lock: Any) -> None:
    """Again, if it is interrupted."""
    while lock.is_acquired:
        with suppress(InterruptedCallError), worker.limited():
            lock.release()


def record_contenders(client: Any, path: str, record: Any) -> None:
    """Those that are left when all workers have ended, and the dead had time to expire."""
    deadline_s = time.monotonic() + WAIT_FOR_DEAD_S
    while True:
        client.sync(path)
        left = [name for name in client.get_children(path) if CONTENDER in name]
        if not left or time.monotonic() > deadline_s:
            break
        time.sleep(POLL_S)
    record("contenders", lock=path, left=left)
