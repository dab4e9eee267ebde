"""Counter: sums are exact.

Each worker adds to digits of its own in one shared number, so the sum shows how often each has added. An add
whose connection is lost may or may not have happened; its worker reads the counter and knows. (kazoo's own retry
would add again, and so twice, with KazooClient too: here a client's `command_retry` repeats conflicts alone.)
"""

from __future__ import annotations

from typing import Any

from tests.faults import catching_up
from tests.faults.load import Worker
from tests.faults.retries import LOST, retry_of_conflicts, until_answered

DIGITS = 12


class CounterLoad:
    name = "counter"
    about = "Counter sums are exact"
    processes = 3

    def prepare(self, client: Any, root: str) -> None:
        catching_up.prepare(client, root)
        client.Counter(f"{root}/sum").__add__(0)

    def work(self, worker: Worker) -> None:
        client = worker.connect(command_retry=retry_of_conflicts())
        counter = client.Counter(f"{worker.root}/sum")

        def read() -> int:
            catching_up.refresh(client, worker.root, worker.root)
            return int(counter.value)

        while not worker.is_over():
            worker.record("adding")
            try:
                counter += 10 ** (DIGITS * worker.number)
            except LOST:
                worker.record("lost")
                worker.record("read", after=until_answered(read))
            else:
                worker.record("added", before=counter.pre_value, after=counter.post_value)
            worker.pause(worker.dice.uniform(0.0, 0.1))
        client.stop()

    def finish(self, client: Any, root: str, record: Any) -> None:
        client.sync(f"{root}/sum")
        record("sum", after=client.Counter(f"{root}/sum").value)


LOAD = CounterLoad()
