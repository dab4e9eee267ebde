"""Queue: each item is given once.

A Queue deletes an item and then returns it, so an item may be lost with the process, or with a session that ends
before the answer comes: then the error says so. So may one that an interrupted call has taken. (kazoo's own Queue
loses an item when an answer is lost.)
"""

from __future__ import annotations

from typing import Any

from kazoo.exceptions import SessionExpiredError

from parkazoo.protocol.once import may_be_done
from tests.faults.load import InterruptedCallError, Worker
from tests.faults.retries import retry_to_the_end

FULL = 20


class QueueLoad:
    name = "queue"
    about = "A Queue gives each item once"
    processes = 4

    def prepare(self, client: Any, root: str) -> None:
        client.ensure_path(f"{root}/items")

    def work(self, worker: Worker) -> None:
        client = worker.connect(command_retry=retry_to_the_end())
        queue = client.Queue(f"{worker.root}/items")
        number = 0
        while not worker.is_over():
            try:
                if worker.dice.random() < 0.5:
                    number += 1
                    item = f"{worker.number}.{worker.life}.{number}"
                    worker.record("putting", item=item)
                    with worker.limited():
                        queue.put(item.encode(), worker.dice.randrange(100, 103))
                    worker.record("put", item=item)
                else:
                    worker.record("getting")
                    with worker.limited():
                        item = queue.get()
                    worker.record("got", item=item and item.decode())
            except InterruptedCallError:
                pass  # nobody knows whether it was put or taken, or will be
            except SessionExpiredError as error:
                worker.record("lost" if may_be_done(error) else "not done")
            worker.pause(worker.dice.uniform(0.0, 0.1))
        client.stop()

    def finish(self, client: Any, root: str, record: Any) -> None:
        path = f"{root}/items"
        client.sync(path)
        record("left", items=[client.get(f"{path}/{name}")[0].decode() for name in client.get_children(path)])


LOAD = QueueLoad()
