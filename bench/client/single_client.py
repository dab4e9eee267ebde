"""Loads of one thread with one client: synchronous calls one after the other, or asynchronous ones in flight."""

from __future__ import annotations

from bench.client.paths import VALUE, pipeline
from bench.client.workload import ClientLoad


class SyncGet(ClientLoad):
    def run(self, operations: int) -> None:
        get = self.client.get
        for path in self.some_paths(operations):
            get(path)


class SyncSet(ClientLoad):
    def run(self, operations: int) -> None:
        set_data = self.client.set
        for path in self.some_paths(operations):
            set_data(path, VALUE)


class SyncGetSet(ClientLoad):
    """A get and a set are two operations."""

    def run(self, operations: int) -> None:
        for path in self.some_paths(operations // 2):
            self.client.get(path)
            self.client.set(path, VALUE)


class SyncCreateDelete(ClientLoad):
    """A create and the delete of what it made are two operations."""

    def run(self, operations: int) -> None:
        for path in self.some_paths(operations // 2):
            new = path + "-new"
            self.client.create(new, VALUE)
            self.client.delete(new)


class AsyncGet(ClientLoad):
    def run(self, operations: int) -> None:
        get_async = self.client.get_async
        pipeline(get_async(path) for path in self.some_paths(operations))


class AsyncSet(ClientLoad):
    def run(self, operations: int) -> None:
        set_async = self.client.set_async
        pipeline(set_async(path, VALUE) for path in self.some_paths(operations))


class AsyncGetSet(ClientLoad):
    """A get and a set are two operations."""

    def run(self, operations: int) -> None:
        get_async, set_async = self.client.get_async, self.client.set_async
        pipeline(
            result
            for path in self.some_paths(operations // 2)
            for result in (get_async(path), set_async(path, VALUE))
        )
