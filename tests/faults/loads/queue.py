"""Queue: each item is given once.

kazoo's Queue deletes an item and then returns it, so an item may be lost with the connection, or with the
process: "if an error occurs, the consumer has to re-queue the item or it will be lost". (kazoo's own retry hides
that loss, with KazooClient too: here a client's `command_retry` repeats conflicts alone.)

The judge checks: no item is given twice; none that was given is still there; none comes from nowhere; no more are
missing than gets were cut short.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.faults.holding import LOST, retry_of_conflicts
from tests.faults.load import Judgement, Run, Worker

FULL = 20


class QueueLoad:
    name = "queue"
    about = "A Queue gives each item once"
    processes = 4

    def prepare(self, client: Any, root: str) -> None:
        client.ensure_path(f"{root}/items")

    def work(self, worker: Worker) -> None:
        client = worker.connect(command_retry=retry_of_conflicts())
        queue = client.Queue(f"{worker.root}/items")
        number = 0
        while not worker.is_over():
            try:
                if worker.dice.random() < 0.5:
                    number += 1
                    item = f"{worker.number}.{worker.life}.{number}"
                    worker.record("putting", item=item)
                    queue.put(item.encode(), worker.dice.randrange(100, 103))
                    worker.record("put", item=item)
                else:
                    worker.record("getting")
                    item = queue.get()
                    worker.record("got", item=item and item.decode())
            except LOST:
                worker.record("lost")
            worker.pause(worker.dice.uniform(0.0, 0.1))
        client.stop()

    def finish(self, client: Any, root: str, record: Any) -> None:
        path = f"{root}/items"
        client.sync(path)
        record("left", items=[client.get(f"{path}/{name}")[0].decode() for name in client.get_children(path)])

    def judge(self, run: Run) -> Judgement:
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
        cut_short = what["getting"] - what["got"]
        if len(missing) > cut_short:
            problems.append(
                f"{len(missing)} items are missing, but only {cut_short} gets were cut short: {missing}"
            )
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


LOAD = QueueLoad()
