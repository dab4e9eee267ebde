"""Reads that show all that was answered before them.

A sync is not enough: a leader that has been deposed, and does not know it yet, answers it
(tests/faults/deposed.py shows that). A write asks a quorum, and a read behind it on the same ensemble is as new.
So each ensemble has a znode for such writes.
"""

from __future__ import annotations

import itertools
from typing import Any


def prepare(client: Any, root: str) -> None:
    for number in range(len(client.cluster_map.names)):
        client.create(_fence(client, root, number), makepath=True)


def refresh(client: Any, root: str, *directories: str) -> None:
    """Children of these directories that are read next are read as they are now, or later."""
    placement = client.cluster_map.make_placement()
    for number in {placement.of_children(directory) for directory in directories}:
        client.set(_fence(client, root, number), b"")


def _fence(client: Any, root: str, ensemble: int) -> str:
    placement = client.cluster_map.make_placement()
    directories = (f"{root}/fence-{number}" for number in itertools.count())
    return next(f"{each}/fence" for each in directories if placement.of_children(each) == ensemble)
