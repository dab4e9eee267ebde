"""A load: one kind of work, the same calls for KazooClient and ParKazooClient."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import cycle, islice
from typing import Any

from bench.client.paths import make_leaves, spread_directories

START_TIMEOUT_S = 60


class Load(ABC):
    """One kind of work, with clients of its own. It lives in a process of its own."""

    def prepare(self, operations: int) -> None:  # noqa: B027 - most loads need nothing
        """Make what the next run needs; this is not timed."""

    @abstractmethod
    def run(self, operations: int) -> None: ...

    @abstractmethod
    def close(self) -> None: ...


class ClientLoad(Load):
    """With a client, and znodes to read and write.

    :param client_class: KazooClient or ParKazooClient.
    :param hosts: of each ensemble; a client is given the first ones.
    """

    def __init__(self, client_class: type[Any], hosts: Sequence[str]) -> None:
        self._client_class = client_class
        self._hosts = hosts[0]
        self.root = f"/bench-{client_class.__name__.lower()}"  # each class its own, for they share servers
        self.client = self.start_client()
        self.set_up()

    def start_client(self) -> Any:
        client = self._client_class(self._hosts)
        client.start(START_TIMEOUT_S)
        return client

    def set_up(self) -> None:
        """Make what every run works on."""
        self.paths = make_leaves(self.client, spread_directories(self.root))

    def some_paths(self, count: int) -> list[str]:
        return list(islice(cycle(self.paths), count))

    def close(self) -> None:
        self.client.stop()
        self.client.close()
