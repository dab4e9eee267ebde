"""LockingQueue: loses no item."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.faults.load import InterruptedCallError, Worker
from tests.faults.retries import LOST, beating, until_answered

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
                else:
                    try:
                        is_given_back = self._is_given_back(worker, queue)
                    except InterruptedCallError:
                        is_given_back = False  # or the old one may say so again
                    if not is_given_back:  # the old one still gives what it has lost
                        queue = client.LockingQueue(f"{worker.root}/items")
                worker.pause(worker.dice.uniform(0.0, 0.1))
        client.stop()

    def _put(self, worker: Worker, queue: Any, item: str) -> None:
        worker.record("putting", item=item)
        try:
            with worker.limited():
                queue.put(item.encode(), worker.dice.randrange(100, 103))
        except (InterruptedCallError, *LOST):
            worker.record("lost")
        else:
            worker.record("put", item=item)

    def _is_given_back(self, worker: Worker, queue: Any) -> bool:
        """Get an item and consume or release it; False if it turned out to be lost."""
        worker.record("getting")
        with worker.limited():
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

        with worker.limited():
            has_succeeded = bool(until_answered(give_back))
        worker.record("consumed" if is_consumed else "released", item=item, ok=has_succeeded, losses=losses)
        return has_succeeded

    def finish(self, client: Any, root: str, record: Any) -> None:
        path = f"{root}/items/entries"
        client.sync(path)
        names = [name for name in client.get_children(path) if name.startswith("entry-")]
        record("left", items=[client.get(f"{path}/{name}")[0].decode() for name in names])


LOAD = LockingQueueLoad()
