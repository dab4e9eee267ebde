"""Requests that wait for a connection wait for a limited time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sized

from parkazoo.engine.ports import Timer
from parkazoo.wire.running import RunningLoop

LOOKS = 4  # within the limit: a request waits for a quarter longer at most


class Patience:
    """For the loop's own thread, while there is no connection.

    :param backlog: what waits, oldest first. When all has been taken from it otherwise, another one begins.
    :param fail: called with the number of requests that have waited for `limit_s`.
    """

    def __init__(self, loop: RunningLoop, limit_s: float, backlog: Sized, fail: Callable[[int], None]) -> None:
        self._loop = loop
        self._pause_s = limit_s / LOOKS
        self._backlog = backlog
        self._fail = fail
        self._seen: deque[int] = deque()  # how many waited at the last looks
        self._timer: Timer = loop.call_later(self._pause_s, self._look)

    def end(self) -> None:
        self._timer.cancel()

    def _look(self) -> None:
        self._timer = self._loop.call_later(self._pause_s, self._look)
        waiting = len(self._backlog)
        if len(self._seen) == LOOKS and (late := min(self._seen.popleft(), waiting)):
            self._seen = deque(max(0, each - late) for each in self._seen)
            waiting -= late
            self._fail(late)
        self._seen.append(waiting)
