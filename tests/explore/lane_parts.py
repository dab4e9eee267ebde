"""What lanes of deferred writes stand on in the explorer, in place of connections, a session and a loop."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from parkazoo.engine.deferred.marker import PAUSE_S
from parkazoo.engine.driver import Driver
from parkazoo.kazoo_private import SetData, Transaction
from parkazoo.protocol.steps import Request
from tests.explore.alone import Marks
from tests.explore.znodes import Answer


class Port:
    """A connection to one ensemble.

    :ivar is_lost: what it has sent gets no answer, and has not been told so.
    """

    session_id = 7

    def __init__(self) -> None:
        self.is_lost = False
        self.unserved: deque[tuple[Request, Any]] = deque()
        self.queued: deque[tuple[Request, Any]] = deque()  # since it is lost: for the next connection
        self.unanswered: deque[tuple[Answer, Any]] = deque()
        self.late: deque[Request] = deque()
        self.submitted = 0
        self.has_expired = self.is_wrong = False

    def submit(self, request: Request, reply: Any) -> None:
        self.submitted += 1
        is_batch = isinstance(request, Transaction) and any(
            isinstance(each, SetData) for each in request.operations
        )
        self.is_wrong = self.is_wrong or (is_batch and self.has_expired)
        (self.queued if self.is_lost else self.unserved).append((request, reply))

    def forget_watch(self, path: str, watch: Any, of_children: bool | None = None) -> bool:
        return False

    def watches_on(self, path: str) -> list[Any]:
        return []

    def data_watches(self) -> list[tuple[str, Any]]:
        return []

    def child_watches(self) -> list[tuple[str, Any]]:
        return []

    def break_off(self, error: type[Exception]) -> None:
        replies = [reply for _, reply in (*self.unanswered, *self.unserved)]
        self.late += [request for request, _ in self.unserved]
        self.unserved, self.queued = self.queued, deque()
        self.unanswered.clear()
        self.is_lost = False
        for reply in replies:
            reply.set_exception(error())


class Session:
    """What a lane needs of a session."""

    is_stopping = False

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.number = 1
        self.call = driver.call


class Runtime:
    def __init__(self) -> None:
        self.calls: deque[Callable[[], None]] = deque()
        self.timers: deque[Callable[[], None]] = deque()
        self.new_mark = Marks()

    def call(self, call: Callable[[], None]) -> None:
        self.calls.append(call)

    def make_calls(self) -> None:
        while self.calls:
            self.calls.popleft()()

    def call_later(self, delay_s: float, call: Callable[[], None]) -> None:
        if delay_s == PAUSE_S:
            self.timers.append(call)

    def make_lock(self) -> Any:
        return nullcontext()
