"""Barrier: its removal releases all that wait, and none before.

One worker puts up barrier n + 1 and then removes barrier n, again and again; the others wait at each in turn.
kazoo's wait() "does not handle connection loss": its watch ends with the connection. So the load calls it with a
timeout, and again.
"""

from __future__ import annotations

from typing import Any

from tests.faults.load import InterruptedCallError, Worker
from tests.faults.retries import LOST, beating, until_answered

PATIENCE_S = 10.0
RETRY_S = 0.1


class BarrierLoad:
    name = "barrier"
    about = "A Barrier releases all together"
    processes = 3

    def prepare(self, client: Any, root: str) -> None:
        client.create(f"{root}/gates/0", makepath=True)

    def work(self, worker: Worker) -> None:
        client = worker.connect()
        with beating(worker):
            if worker.number == 0:
                self._keep(worker, client)
            else:
                self._pass(worker, client)
        client.stop()

    def _first(self, worker: Worker, client: Any) -> int:
        """The first barrier that stands: there always is one."""
        path = f"{worker.root}/gates"

        def standing() -> int:
            client.sync(path)
            return min(int(name) for name in client.get_children(path))

        return int(until_answered(standing))

    def _keep(self, worker: Worker, client: Any) -> None:
        number = self._first(worker, client)
        while not worker.is_over():
            client.Barrier(f"{worker.root}/gates/{number + 1}").create()
            worker.pause(worker.dice.uniform(0.0, 0.4))
            worker.record("removing", gate=number)
            client.Barrier(f"{worker.root}/gates/{number}").remove()
            worker.record("removed", gate=number)
            number += 1

    def _pass(self, worker: Worker, client: Any) -> None:
        number = self._first(worker, client)
        while not worker.is_over():
            worker.record("waiting", gate=number)
            try:
                with worker.limited():
                    has_passed = client.Barrier(f"{worker.root}/gates/{number}").wait(PATIENCE_S)
            except (InterruptedCallError, *LOST):
                worker.record("lost", gate=number)
                worker.pause(RETRY_S)
            else:
                worker.record("passed" if has_passed else "not passed", gate=number)
                number += has_passed

    def finish(self, client: Any, root: str, record: Any) -> None:
        path = f"{root}/gates"
        client.sync(path)
        record("standing", gates=sorted(int(name) for name in client.get_children(path)))


LOAD = BarrierLoad()
