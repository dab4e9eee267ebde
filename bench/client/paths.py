"""The znodes that loads work on. Their names spread them evenly over three ensembles, wherever they are used."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any

from kazoo.exceptions import NodeExistsError

from parkazoo.protocol.placement import Placement

ENSEMBLES = 3
DIRECTORIES = 12
LEAVES = 20  # of each directory
VALUE = b"x" * 100
MOST_IN_FLIGHT = 200
PLACEMENT = Placement(ENSEMBLES)


def spread_directories(root: str, count: int = DIRECTORIES, ensembles: int = ENSEMBLES) -> list[str]:
    """Directories below `root` whose children live on the first ensemble, the second, ..., the first, ..."""
    placement = Placement(ensembles)
    names = (f"{root}/d{number}" for number in itertools.count())
    return [
        next(name for name in names if placement.of_children(name) == number % ensembles)
        for number in range(count)
    ]


def mirrored_directories(root: str) -> Iterator[str]:
    """Directories below `root` whose children live on another ensemble than they do: those that get a mirror."""
    names = (f"{root}/d{number}" for number in itertools.count())
    return (name for name in names if not PLACEMENT.is_native(name))


def pipeline(results: Iterable[Any]) -> None:
    """Draw results of asynchronous calls, always as many in flight as there may be, and wait for all."""
    waiting: deque[Any] = deque()
    for result in results:
        waiting.append(result)
        if len(waiting) == MOST_IN_FLIGHT:
            waiting.popleft().get()
    for result in waiting:
        result.get()


def make_leaves(client: Any, directories: Iterable[str]) -> list[str]:
    """Make leaves, unless they are there, and return their paths: one of each directory in turn."""
    paths = []
    for directory in directories:
        client.ensure_path(directory)
        paths.append([f"{directory}/n{number}" for number in range(LEAVES)])
        results = [client.create_async(path, VALUE) for path in paths[-1]]
        for result in results:
            with suppress(NodeExistsError):
                result.get()
    return [path for together in zip(*paths, strict=True) for path in together]
