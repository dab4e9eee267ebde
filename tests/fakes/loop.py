"""A loop that a test drives by hand, and its clock."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

from parkazoo.wire.loop import LoopTimer
from parkazoo.wire.workers import BLOCKING


class Clock:
    """Stands where a module has `time`."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s


class HandLoop:
    """A loop whose calls the test makes."""

    kind = "by hand"
    read_sock = write_sock = None

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock or Clock()
        self.watched: dict[Any, Callable[[int], None]] = {}
        self.timers: list[LoopTimer] = []
        self._calls: list[Callable[[], None]] = []

    def is_here(self) -> bool:
        return True

    def call(self, call: Callable[[], None]) -> None:
        self._calls.append(call)

    call_at_end = call

    def call_later(self, delay_s: float, call: Callable[[], None]) -> LoopTimer:
        timer = LoopTimer([self.clock.now_s + delay_s, len(self.timers), call])
        heapq.heappush(self.timers, timer)
        return timer

    def run_blocking(self, call: Callable[[], None]) -> None:
        BLOCKING.run(call)

    def watch(self, sock: Any, call: Callable[[int], None]) -> None:
        if sock.fileno() < 0:
            raise ValueError("as a selector does")
        self.watched[sock] = call

    def set_events(self, sock: Any, events: int) -> None:
        """Nothing: the test says when a socket is ready."""

    def forget(self, sock: Any) -> None:
        del self.watched[sock]

    def make_calls(self) -> None:
        while self._calls:
            self._calls.pop(0)()

    def go_to(self, now_s: float) -> None:
        """Let time pass, and make the calls that are due on the way, each in its time."""
        while self.timers and self.timers[0][0] <= now_s:
            at_s, _, call = heapq.heappop(self.timers)
            self.clock.now_s = max(self.clock.now_s, at_s)
            if call is not None:
                call()
            self.make_calls()
        self.clock.now_s = now_s

    def stall_until(self, now_s: float) -> None:
        """Let time pass in which nothing runs; then make the calls that are due."""
        self.clock.now_s = now_s
        self.go_to(now_s)
