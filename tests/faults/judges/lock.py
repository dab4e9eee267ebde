"""What the journals of loads/lock.py must say.

The judge checks: holdings do not overlap while they are provable (tests/faults/judges/holding.py), or where the
ensemble itself confirmed them by a write under the lock (tests/faults/guarded_writes.py); these writes are in
the order of the contenders' sequence numbers, which never repeat; no client whose session lives loses a lock;
when all have ended, no contender is left behind, not even by acquires that failed.
"""

from __future__ import annotations

from tests.faults.judges import guarded_writes
from tests.faults.load import Judgement, Run


def judge(run: Run) -> Judgement:
    return guarded_writes.judge(run)
