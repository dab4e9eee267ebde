"""What the journals of loads/election.py must say."""

from __future__ import annotations

from tests.faults.judges import guarded_writes
from tests.faults.load import Judgement, Run


def judge(run: Run) -> Judgement:
    return guarded_writes.judge(run)
