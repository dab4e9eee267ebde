"""Counter: sums are exact.

Each worker adds to digits of its own in one shared number, so the sum shows how often each has added. An add is
retried until it is done; if its session ends meanwhile, the error says whether it may have been done, and its
worker reads the counter and knows. (kazoo's own Counter would add twice when an answer is lost.)
"""

from __future__ import annotations

from typing import Any

from kazoo.exceptions import SessionExpiredError

from parkazoo.protocol.once import may_be_done
from tests.faults import catching_up
from tests.faults.load import InterruptedCallError, Worker
from tests.faults.retries import retry_to_the_end, until_answered

DIGITS = 12


class CounterLoad:
    name = "counter"
    about = "Counter sums are exact"
    processes = 3

    def prepare(self, client: Any, root: str) -> None:
        client.Counter(f"{root}/sum").__add__(0)

    def work(self, worker: Worker) -> None:
        client = worker.connect(command_retry=retry_to_the_end())
        counter = client.Counter(f"{worker.root}/sum")

        def read() -> int:
            catching_up.refresh(client, worker.root)
            return int(counter.value)

        while not worker.is_over():
            worker.record("adding")
            try:
                with worker.limited():
                    counter += 10 ** (DIGITS * worker.number)
            except InterruptedCallError:
                pass  # nobody knows whether it was added, or will be
            except SessionExpiredError as error:
                worker.record("lost" if may_be_done(error) else "not added")
                worker.record("read", after=until_answered(read))
            else:
                worker.record("added", before=counter.pre_value, after=counter.post_value)
            worker.pause(worker.dice.uniform(0.0, 0.1))
        client.stop()

    def finish(self, client: Any, root: str, record: Any) -> None:
        client.sync(f"{root}/sum")
        record("sum", after=client.Counter(f"{root}/sum").value)


LOAD = CounterLoad()
