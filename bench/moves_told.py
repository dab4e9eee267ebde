"""A command that moves directories: what it tells, and when."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from parkazoo.admin import move_directory
from parkazoo.admin import rebalance as rebalance_directories
from parkazoo.errors import ClusterMapError

# For JSON: ``began_s`` and ``ended_s``, since the epoch; ``steps``, each with its time; of a move ``copied``, how
# many znodes its copy had first and last, each with its time; ``why`` it failed, else empty.
Told = dict[str, Any]


def move(hosts: str, path: str, to: str, per_second: float | None = None) -> Told:
    """
    :param per_second: as for `move_directory`; None: no limit.
    """
    copied: list[tuple[float, int]] = []

    def progress(done: int, total: int) -> None:
        if not copied or done > copied[-1][1]:
            copied[1:] = []  # the first one stays
            copied.append((time.time(), done))

    def run(tell: Callable[[str], None]) -> None:
        move_directory(hosts, path, to, per_second=per_second or math.inf, tell=tell, progress=progress)

    return {**_told(run), "copied": copied}


def rebalance(hosts: str, seconds: float) -> Told:
    """
    :param seconds: as for `parkazoo.admin.rebalance`.
    """
    return _told(lambda tell: rebalance_directories(hosts, seconds=seconds, tell=tell))


def _told(run: Callable[[Callable[[str], None]], object]) -> Told:
    steps: list[tuple[float, str]] = []
    began_s, why = time.time(), ""
    try:
        run(lambda step: steps.append((time.time(), step)))
    except ClusterMapError as error:
        why = str(error)
    return {"began_s": began_s, "ended_s": time.time(), "steps": steps, "why": why}
