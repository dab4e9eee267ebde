"""What the journals of loads/locking_queue.py must say.

The judge checks: an item that was put is consumed or still there; no item is consumed twice, nor still there
after that; from a get() to its consume() that returned True no other client got the item. A consume whose
connection is lost, or which is interrupted, may or may not have removed its item.
"""

from __future__ import annotations

from collections import Counter, defaultdict

from tests.faults.judges.holding import lives
from tests.faults.load import Judgement, Record, Run


def judge(run: Run) -> Judgement:
    what = Counter(record.what for record in run.records)
    begun = {record.fields["item"] for record in run.records if record.what == "putting"}
    there = {record.fields["item"] for record in run.records if record.what == "put"}
    given = Counter(record.fields["item"] for record in run.records if record.what == "got")
    left = Counter(item for record in run.records if record.what == "left" for item in record.fields["items"])
    sure, doubtful = _consumptions(run)
    problems = [f"item {item} was consumed {count} times" for item, count in sure.items() if count > 1]
    problems += [f"item {item} is there {count} times" for item, count in left.items() if count > 1]
    problems += [f"item {item} was consumed and is still there" for item in sure.keys() & left.keys()]
    problems += [f"no worker has put item {item}" for item in (given.keys() | left.keys()) - begun]
    problems += [f"item {item} is lost" for item in there - sure.keys() - doubtful - left.keys()]
    problems += _given_to_two(run)
    if not sure:
        problems.append("nothing was consumed")
    if not what["left"]:
        problems.append("no record says what is left at the end")
    figures = {
        "put": len(there),
        "consumed": len(sure),
        "released": what["released"],
        "given again": sum(count - 1 for count in given.values()),
        "in doubt": len(doubtful - sure.keys()),
        "left": len(left),
    }
    return Judgement(problems, figures)


def _consumptions(run: Run) -> tuple[Counter[str], set[str]]:
    """The items that were consumed for sure, and how often; those whose consumption has an unknown end."""
    sure: Counter[str] = Counter()
    doubtful: set[str] = set()
    begun: dict[tuple[int, int], str] = {}
    for record in run.records:
        who = record.worker, record.life
        if record.what == "consuming":
            if who in begun:  # that one was interrupted
                doubtful.add(begun[who])
            begun[who] = record.fields["item"]
        elif record.what == "consumed":
            item = begun.pop(who)
            if record.fields["ok"]:
                sure[item] += 1
            elif record.fields["losses"]:
                doubtful.add(item)
    return sure, doubtful | set(begun.values())


def _given_to_two(run: Run) -> list[str]:
    """Items that a client got between another's get and its acknowledged consume."""
    by_life = lives(run)
    problems = []
    given: dict[str, list[Record]] = defaultdict(list)
    last: dict[tuple[int, int, str], float] = {}
    for record in run.records:
        who = record.worker, record.life
        if record.what == "got" and not by_life[who].is_broken(last[(*who, "getting")], record.at_s):
            given[record.fields["item"]].append(record)
        if record.what in ("getting", "got", "consuming"):
            last[(*who, record.what)] = record.at_s
        elif record.what == "consumed" and record.fields["ok"]:
            item = record.fields["item"]
            since_s, until_s = last[(*who, "got")], last[(*who, "consuming")]
            problems += [
                f"item {item} was given to {by_life[other.worker, other.life].name} at {other.at_s:.3f} s, while "
                f"{by_life[who].name} held it from {since_s:.3f} to {until_s:.3f} s"
                for other in given[item]
                if since_s < other.at_s < until_s and (other.worker, other.life) != who
            ]
    return problems
