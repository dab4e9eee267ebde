"""What the journals of loads/asyncio_lock.py must say: what those of lock.py must, each client for itself."""

from __future__ import annotations

from tests.faults.judges import guarded_writes
from tests.faults.judges.clients import by_client
from tests.faults.load import Judgement, Run
from tests.faults.loads.asyncio_lock import CLIENTS


def judge(run: Run) -> Judgement:
    judged = guarded_writes.judge(by_client(run, "asyncio_lock", CLIENTS))
    told = sum(each.what == "lost" for each in run.records)
    return Judgement(judged.problems, {**judged.figures, "told by LockLostError": told})
