"""LockingQueue: loses no item.

The judge checks: an item that was put is consumed or still there; no item is consumed twice, nor still there after
that; from a get() to its consume() that returned True no other client got the item. A consume whose connection is
lost may or may not have removed its item.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import partial
from typing import Any

from tests.faults.holding import LOST, beating, lives, until_answered
from tests.faults.load import Judgement, Record, Run, Worker

PATIENCE_S = 1.0
SHARE_PUT = 0.4
SHARE_RELEASED = 0.2


class LockingQueueLoad:
    name = "locking_queue"
    about = "A LockingQueue loses no item"
    processes = 4

    def prepare(self, client: Any, root: str) -> None:
        client.ensure_path(f"{root}/items")

    def work(self, worker: Worker) -> None:
        client = worker.connect()
        queue = client.LockingQueue(f"{worker.root}/items")
        number = 0
        with beating(worker):
            while not worker.is_over():
                if worker.dice.random() < SHARE_PUT:
                    number += 1
                    self._put(worker, queue, f"{worker.number}.{worker.life}.{number}")
                elif not self._is_given_back(worker, queue):
                    queue = client.LockingQueue(f"{worker.root}/items")  # the old one still gives what it has lost
                worker.pause(worker.dice.uniform(0.0, 0.1))
        client.stop()

    def _put(self, worker: Worker, queue: Any, item: str) -> None:
        worker.record("putting", item=item)
        try:
            queue.put(item.encode(), worker.dice.randrange(100, 103))
        except LOST:
            worker.record("lost")
        else:
            worker.record("put", item=item)

    def _is_given_back(self, worker: Worker, queue: Any) -> bool:
        """Get an item and consume or release it; False if it turned out to be lost."""
        worker.record("getting")
        value = until_answered(partial(queue.get, PATIENCE_S))
        if value is None:
            return True
        item = value.decode()
        worker.record("got", item=item)
        worker.pause(worker.dice.uniform(0.0, 0.3))
        is_consumed = worker.dice.random() >= SHARE_RELEASED
        worker.record("consuming" if is_consumed else "releasing", item=item)
        losses = 0

        def give_back() -> bool:
            nonlocal losses
            losses += 1
            has_succeeded = bool(queue.consume() if is_consumed else queue.release())
            losses -= 1
            return has_succeeded

        has_succeeded = bool(until_answered(give_back))
        worker.record("consumed" if is_consumed else "released", item=item, ok=has_succeeded, losses=losses)
        return has_succeeded

    def finish(self, client: Any, root: str, record: Any) -> None:
        path = f"{root}/items/entries"
        client.sync(path)
        names = [name for name in client.get_children(path) if name.startswith("entry-")]
        record("left", items=[client.get(f"{path}/{name}")[0].decode() for name in names])

    def judge(self, run: Run) -> Judgement:
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


LOAD = LockingQueueLoad()
