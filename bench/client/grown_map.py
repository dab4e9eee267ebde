"""Loads of a client of a map that has grown from one ensemble, and of one whose map has not."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from itertools import cycle, islice

from bench.client.paths import DIRECTORIES, VALUE, make_leaves, pipeline
from bench.client.workload import START_TIMEOUT_S, ClientLoad
from parkazoo import ParKazooClient
from parkazoo.admin import grow_map, init_map

ADOPTED = [f"/adopted/d{number}" for number in range(DIRECTORIES)]


def make_grown(hosts: Mapping[str, str]) -> None:
    """One ensemble gets a map and directories with children, and then the others.

    :param hosts: of each ensemble.
    """
    (name, first), *others = hosts.items()
    init_map(first, {name: first})
    client = ParKazooClient(first)
    client.start(START_TIMEOUT_S)
    make_leaves(client, ADOPTED)
    client.stop()
    client.close()
    grow_map(first, dict(others), strangers_gone=True)


class MissingExists(ClientLoad):
    """Exists of znodes that are not there, in directories that the client knows."""

    def set_up(self) -> None:
        super().set_up()
        for path in self.paths:
            self.client.get(path)
        self.paths = [f"{path}-missing" for path in self.paths]

    def run(self, operations: int) -> None:
        for path in self.some_paths(operations):
            self.client.exists(path)


class ColdGet(ClientLoad):
    """Get of children in directories of which the client knows nothing."""

    def set_up(self) -> None:
        self._root = f"{self.root}/{uuid.uuid4().hex}"
        self.client.ensure_path(self._root)
        self._other = self.start_client()
        self._count = 0

    def prepare(self, operations: int) -> None:
        directories = [f"{self._root}/d{self._count + number}" for number in range(operations)]
        self._count += operations
        self.paths = [f"{path}/child" for path in directories]
        for paths in (directories, self.paths):
            pipeline(self._other.create_async(path, VALUE) for path in paths)

    def run(self, operations: int) -> None:
        for path in self.paths:
            self.client.get(path)

    def close(self) -> None:
        self._other.stop()
        self._other.close()
        super().close()


class AdoptedCreate(ClientLoad):
    """Create in directories that had children before the map had more than one ensemble."""

    def set_up(self) -> None:
        for path in ADOPTED:
            self.client.ensure_path(path)
        self._directories = cycle(ADOPTED)

    def prepare(self, operations: int) -> None:
        self.paths = [f"{path}/{uuid.uuid4().hex}" for path in islice(self._directories, operations)]

    def run(self, operations: int) -> None:
        for path in self.paths:
            self.client.create(path, VALUE)
