"""Calls made one at a time."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager

log = logging.getLogger(__name__)


class Serial:
    """Makes calls one at a time, in order, on the thread that came first. It never blocks, nor recurses."""

    def __init__(self, lock: AbstractContextManager[object]) -> None:
        self._lock = lock
        self._calls: deque[Callable[[], None]] = deque()
        self._is_busy = False

    def __call__(self, *calls: Callable[[], None]) -> None:
        with self._lock:
            self._calls.extend(calls)
            if self._is_busy:
                return
            self._is_busy = True
        while True:
            with self._lock:
                if not self._calls:
                    self._is_busy = False
                    return
                call = self._calls.popleft()
            try:
                call()
            except Exception:  # a listener's, or ours: the calls after it must be made
                log.exception("Unhandled exception in %r", call)
