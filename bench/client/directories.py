"""Loads on directories whose children live on another ensemble than they do."""

from __future__ import annotations

import uuid
from itertools import cycle, islice

from bench.client.paths import DIRECTORIES, VALUE, make_leaves, mirrored_directories, pipeline
from bench.client.workload import ClientLoad


class MirroredGet(ClientLoad):
    """Get of directories that have children, and so a mirror."""

    def set_up(self) -> None:
        self.directories = list(islice(mirrored_directories(self.root), DIRECTORIES))
        self.leaves = make_leaves(self.client, self.directories)
        self.paths = self.directories

    def run(self, operations: int) -> None:
        for path in self.some_paths(operations):
            self.client.get(path)


class LeafGet(MirroredGet):
    """Get of their children."""

    def set_up(self) -> None:
        super().set_up()
        self.paths = self.leaves


class FirstChild(ClientLoad):
    """Create of the first child of directories."""

    def set_up(self) -> None:
        self._root = f"{self.root}/{uuid.uuid4().hex}"  # no other process has made anything there
        self.client.ensure_path(self._root)
        self._directories = mirrored_directories(self._root)
        self.paths: list[str] = []

    def prepare(self, operations: int) -> None:
        directories = list(islice(self._directories, operations))
        pipeline(self.client.create_async(path) for path in directories)
        self.paths = [f"{path}/child" for path in directories]

    def run(self, operations: int) -> None:
        for path in self.paths:
            self.client.create(path, VALUE)


class NextChild(FirstChild):
    """Create of further children, of a few directories in turn."""

    def set_up(self) -> None:
        super().set_up()
        super().prepare(DIRECTORIES)
        super().run(DIRECTORIES)
        self._promoted = cycle([path.rpartition("/")[0] for path in self.paths])

    def prepare(self, operations: int) -> None:
        self.paths = [f"{path}/{uuid.uuid4().hex}" for path in islice(self._promoted, operations)]
