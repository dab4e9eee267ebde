"""Loads of many threads in one process."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from bench.client.paths import VALUE
from bench.client.workload import ClientLoad

SHARING = 16
CLIENTS = 64


def shares(paths: Sequence[str], count: int) -> list[Sequence[str]]:
    return [paths[first::count] for first in range(count)]


class SharedGet(ClientLoad):
    """Threads that share a client."""

    def set_up(self) -> None:
        super().set_up()
        self._pool = ThreadPoolExecutor(SHARING)

    def run(self, operations: int) -> None:
        list(self._pool.map(self._get, shares(self.some_paths(operations), SHARING)))

    def _get(self, paths: Sequence[str]) -> None:
        for path in paths:
            self.client.get(path)

    def close(self) -> None:
        self._pool.shutdown()
        super().close()


class ClientsGet(ClientLoad):
    """Threads with a client each."""

    def set_up(self) -> None:
        super().set_up()
        self._clients = [self.start_client() for _ in range(CLIENTS)]
        self._pool = ThreadPoolExecutor(CLIENTS)

    def run(self, operations: int) -> None:
        list(self._pool.map(self.work, self._clients, shares(self.some_paths(operations), CLIENTS)))

    def work(self, client: Any, paths: Sequence[str]) -> None:
        for path in paths:
            client.get(path)

    def close(self) -> None:
        list(self._pool.map(lambda client: client.stop(), self._clients))
        self._pool.shutdown()
        for each in self._clients:
            each.close()
        super().close()


class ClientsSet(ClientsGet):
    def work(self, client: Any, paths: Sequence[str]) -> None:
        for path in paths:
            client.set(path, VALUE)
