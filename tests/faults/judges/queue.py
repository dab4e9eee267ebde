"""What the journals of loads/queue.py must say.

The judge checks: no item is given twice; none that was given is still there; none comes from nowhere; no more
are missing than gets were cut short, by a KILL or by the end of their session.
"""

from __future__ import annotations

from collections import Counter

from tests.faults.load import Judgement, Run


def judge(run: Run) -> Judgement:
    what = Counter(record.what for record in run.records)
    begun = {record.fields["item"] for record in run.records if record.what == "putting"}
    there = {record.fields["item"] for record in run.records if record.what == "put"}
    got = Counter(record.fields["item"] for record in run.records if record.what == "got")
    empty = got.pop(None, 0)
    left = Counter(item for record in run.records if record.what == "left" for item in record.fields["items"])
    problems = [f"item {item} was given {count} times" for item, count in got.items() if count > 1]
    problems += [f"item {item} is there {count} times" for item, count in left.items() if count > 1]
    problems += [f"item {item} was given and is still there" for item in got.keys() & left.keys()]
    problems += [f"no worker has put item {item}" for item in (got.keys() | left.keys()) - begun]
    missing = there - got.keys() - left.keys()
    cut_short = what["getting"] - what["got"] - _gets_not_done(run)
    if len(missing) > cut_short:
        problems.append(f"{len(missing)} items are missing, but only {cut_short} gets were cut short: {missing}")
    if not got:
        problems.append("nothing was given")
    if not what["left"]:
        problems.append("no record says what is left at the end")
    figures = {
        "put": len(there),
        "given": len(got),
        "found empty": empty,
        "gets cut short": cut_short,
        "gone with them": len(missing),
    }
    return Judgement(problems, figures)


def _gets_not_done(run: Run) -> int:
    """How many were refused for certain."""
    count, last = 0, dict[int, str]()
    for record in run.records:
        if record.what == "not done" and last.get(record.worker) == "getting":
            count += 1
        last[record.worker] = record.what
    return count
