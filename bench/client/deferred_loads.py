"""Loads of deferred writes, and of what they are compared with. The final barrier is inside the time."""

from __future__ import annotations

from collections import deque
from typing import Any

from bench.client.paths import VALUE
from bench.client.single_client import SyncGet, SyncSet
from bench.client.workload import ClientLoad

GETS_FOR_A_PUT = 10


class DeferredSet(ClientLoad):
    def run(self, operations: int) -> None:
        with self.client.deferred() as later:
            put = later.put
            for path in self.some_paths(operations):
                put(path, VALUE)


class DeferredCall(SyncSet):
    """Until the call returns: the barrier comes before the next turn."""

    later: Any = None

    def prepare(self, operations: int) -> None:
        if self.later is not None:
            self.later.close()
        self.later = self.client.deferred(max_pending=operations + 1)

    def run(self, operations: int) -> None:
        put = self.later.put
        for path in self.some_paths(operations):
            put(path, VALUE)


class GetBesideDeferred(SyncGet):
    """Every tenth get has a deferred put in front of it. The puts are not counted."""

    def run(self, operations: int) -> None:
        with self.client.deferred() as later:
            for number, path in enumerate(self.some_paths(operations)):
                if number % GETS_FOR_A_PUT == 0:
                    later.put(path, VALUE)
                self.client.get(path)


class AsyncSetOf1(ClientLoad):
    in_flight = 1

    def run(self, operations: int) -> None:
        waiting: deque[Any] = deque()
        for path in self.some_paths(operations):
            waiting.append(self.client.set_async(path, VALUE))
            if len(waiting) == self.in_flight:
                waiting.popleft().get()
        for result in waiting:
            result.get()


class AsyncSetOf16(AsyncSetOf1):
    in_flight = 16
