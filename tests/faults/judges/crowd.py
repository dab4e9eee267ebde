"""What the journals of loads/crowd.py must say.

The judge checks: the locks as in lock.py, each client for itself; no create was done twice; acknowledged znodes
are there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tests.faults.judges import guarded_writes
from tests.faults.judges.clients import by_client
from tests.faults.load import Judgement, Run
from tests.faults.loads.crowd import CLIENTS


def judge(run: Run) -> Judgement:
    judged = guarded_writes.judge(by_client(run, "crowd", CLIENTS))
    problems = [*judged.problems, *_done_twice(run)]
    made = sum(each.what == "made" for each in run.records)
    listed = sum(len(each.fields["names"]) for each in run.records if each.what == "listed")
    if not any(each.what == "seen" for each in run.records):
        problems.append("no state was seen")
    creates = {"creates acknowledged": made, "creates done": listed}
    no_thread = sum(each.what == "no thread" for each in run.records)
    return Judgement(problems, {**judged.figures, **creates, "no thread for a caller": no_thread})


def _done_twice(run: Run) -> Iterator[str]:
    """Creates of which there are two, and acknowledged ones of which there is none."""
    listed = [each.fields for each in run.records if each.what == "listed"]
    paths = {f"{fields['directory']}/{name}" for fields in listed for name in fields["names"]}
    for path, count in Counter(path.rpartition("-")[0] for path in paths).items():
        if count > 1:
            yield f"the create of {path} was done {count} times"
    for record in run.records:
        if record.what == "made" and record.fields["path"] not in paths:
            yield f"{record.fields['path']} was made at {record.at_s:.3f} s, and is not there"
