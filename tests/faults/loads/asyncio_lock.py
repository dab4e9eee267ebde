"""Locks of asyncio clients, which are cancelled at any await: never held by two, and nothing is left behind."""

from __future__ import annotations

import sys
from typing import Any

from tests.faults import guarded_writes
from tests.faults.load import Worker

if sys.version_info >= (3, 11):
    from tests.faults.asyncio_worker import lock_in_turn

NAMES = ("one", "two", "four")  # on all ensembles
CLIENTS = 5  # of a process


class AsyncioLockLoad:
    name = "asyncio_lock"
    about = "A Lock of asyncio clients is never held by two, wherever they are cancelled"
    processes = 3

    def prepare(self, client: Any, root: str) -> None:
        for name in NAMES:
            guarded_writes.prepare(client, f"{root}/{name}")

    def work(self, worker: Worker) -> None:
        lock_in_turn(worker, CLIENTS, NAMES)

    def finish(self, client: Any, root: str, record: Any) -> None:
        for name in NAMES:
            guarded_writes.record_contenders(client, f"{root}/{name}", record)


LOAD = AsyncioLockLoad()
