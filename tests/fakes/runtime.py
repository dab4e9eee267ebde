"""The runtime of a session by hand: the test turns its clock."""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

from kazoo.protocol.states import WatchedEvent


class Timer:
    """A call that is to be made."""

    def __init__(self, call: Callable[[], None]) -> None:
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        self.call = None


class Runtime:
    """Makes the calls of a session when the test lets time pass.

    :ivar dispatched: calls of watches, which the test makes.
    """

    client_numbers = itertools.count(1 << 40)  # no session has one of these

    def __init__(self) -> None:
        self.now_s = 0.0
        self.users = 0
        self.dispatched: deque[Callable[[], None]] = deque()
        self._timers: list[tuple[float, int, Timer]] = []
        self._numbers = itertools.count()

    def begin(self) -> None:
        self.users += 1

    def end(self) -> None:
        self.users -= 1

    def call(self, call: Callable[[], None]) -> None:
        self.call_later(0, call)

    def call_later(self, delay_s: float, call: Callable[[], None]) -> Timer:
        timer = Timer(call)
        heapq.heappush(self._timers, (self.now_s + delay_s, next(self._numbers), timer))
        return timer

    def deliver(self, watch: Callable[[WatchedEvent], Any], event: WatchedEvent) -> None:
        self.dispatched.append(partial(watch, event))

    def make_lock(self) -> nullcontext[None]:
        return nullcontext()

    def new_mark(self) -> str:
        return f"mark{next(self._numbers)}"

    def new_number(self) -> int:
        return next(self.client_numbers)

    def turn(self, seconds: float = 0) -> None:
        """Let time pass, and make the calls that are due on the way, each in its time."""
        end_s = self.now_s + seconds
        while self._timers and self._timers[0][0] <= end_s:
            self.now_s, _, timer = heapq.heappop(self._timers)
            if timer.call is not None:
                timer.call()
        self.now_s = end_s
