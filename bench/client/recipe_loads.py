"""Loads of kazoo's recipes."""

from __future__ import annotations

import itertools
import threading
from typing import Any

from bench.client.paths import VALUE, pipeline
from bench.client.workload import ClientLoad

EVENT_TIMEOUT_S = 60


class DataWatches(ClientLoad):
    """Znodes are set, and each has a DataWatch: an operation is a set, its event, and the get of the new value."""

    def set_up(self) -> None:
        self._values = itertools.count(1)
        self._value = b""  # the one that is being set
        self._awaited = 0
        self._seen = itertools.count(1)
        self._is_done = threading.Event()
        self.paths: list[str] = []

    def prepare(self, operations: int) -> None:
        directory = self.root + "/watched"
        self.client.ensure_path(directory)
        for number in range(len(self.paths), operations):
            path = f"{directory}/n{number}"
            self.client.ensure_path(path)
            self.client.DataWatch(path, self._changed)
            self.paths.append(path)

    def _changed(self, value: bytes | None, stat: Any) -> None:
        if value == self._value and next(self._seen) == self._awaited:
            self._is_done.set()

    def run(self, operations: int) -> None:
        self._value = b"%d" % next(self._values)
        self._awaited, self._seen = operations, itertools.count(1)
        self._is_done.clear()
        pipeline(self.client.set_async(path, self._value) for path in self.paths[:operations])
        if not self._is_done.wait(EVENT_TIMEOUT_S):
            raise TimeoutError(f"{next(self._seen) - 1} of {operations} DataWatches have been called")


class LockingQueue(ClientLoad):
    """An operation is a put, the get of it and its consume."""

    def set_up(self) -> None:
        self._queue = self.client.LockingQueue(self.root + "/queue")

    def run(self, operations: int) -> None:
        for _ in range(operations):
            self._queue.put(VALUE)
            self._queue.get()
            if not self._queue.consume():
                raise RuntimeError("the LockingQueue has lost its lock")
