"""Members without servers: their owner, and a loop that a test drives by hand."""

from __future__ import annotations

import heapq
import logging
from collections.abc import Callable
from typing import Any

from parkazoo.protocol.placement import logical
from parkazoo.wire.handler import Handler
from parkazoo.wire.loop import Timer
from parkazoo.wire.member import Member
from tests.handlers import make_handler

LONG_S = 600.0  # a session time-out that no test waits for


class Clock:
    """Stands where a module has `time`."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s


class HandLoop:
    """A loop whose calls the test makes."""

    read_sock = write_sock = None

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock = clock or Clock()
        self.watched: dict[Any, Callable[[int], None]] = {}
        self.timers: list[Timer] = []
        self._calls: list[Callable[[], None]] = []

    def is_here(self) -> bool:
        return True

    def call(self, call: Callable[[], None]) -> None:
        self._calls.append(call)

    call_at_end = call

    def call_later(self, delay_s: float, call: Callable[[], None]) -> Timer:
        timer = Timer([self.clock.now_s + delay_s, len(self.timers), call])
        heapq.heappush(self.timers, timer)
        return timer

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


class Gate:
    is_closed = False


class Owner:
    """What a member needs of a session, a runtime and a client."""

    is_leaving = False

    def __init__(self, loop: Any) -> None:
        self.loop = loop
        self.gate: Any = Gate()
        self.states: list[str] = []
        self.ended: list[Any] = []
        self.log = logging.getLogger("parkazoo.test")

    def member_changed(self, member: Any, state: str) -> None:
        self.states.append(state)

    def member_ended(self, member: Any) -> None:
        self.ended.append(member)

    def may_begin(self, member: Any) -> bool:
        return True

    def recover(self) -> None:
        """No thread is interrupted here."""

    def unchroot(self, path: str) -> str:
        return logical(path)


def make_member(
    owner: Any,
    hosts: str = "127.0.0.1:1",
    *,
    hook: Any = None,
    verify: Any = None,
    sasl: Any = None,
    **options: Any,
) -> Member:
    """A member called b.

    :param hook: see :class:`Member`.
    """
    auth_data = {*options.pop("auth_data", ())}
    handler: Handler = options.pop("handler", None) or make_handler()
    options = {"timeout": LONG_S, "logger": owner.log} | options
    return Member(
        owner,
        owner,
        "b",
        owner.unchroot,
        lambda name: owner.log,
        hook or (lambda original: None),
        sasl,
        auth_data,
        verify,
        hosts=hosts,
        handler=handler,
        **options,
    )
