"""Waiting for a condition."""

from __future__ import annotations

import time
from collections.abc import Callable

POLL_S = 0.05


def wait_until(condition: Callable[[], bool], timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True
