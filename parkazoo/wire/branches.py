"""Attempts beside each other, within one: a server that is silent holds up the others for a moment."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Generic

from kazoo.exceptions import ConnectionDropped

from parkazoo.engine.ports import Timer
from parkazoo.wire.attempt import ConnectAttempt, Steps, T, Until

STAGGER_S = 0.25  # a server that has not answered within this: the next one is tried too


def first_of(
    attempt: ConnectAttempt, several: Iterable[Callable[[ConnectAttempt], Steps[T | None]]]
) -> Steps[T | None]:
    """Runs steps beside each other, each with a socket of its own, until some have found something.

    The next begin as soon as those before have failed or found nothing, or are slow. The others are cancelled.

    :returns: None if none of them has found anything.
    """
    beside = _Beside(attempt, several)
    try:
        found: T | None = yield Until(beside.begin)
        return found
    finally:
        beside.cancel()


class _Beside(Generic[T]):
    def __init__(
        self, attempt: ConnectAttempt, several: Iterable[Callable[[ConnectAttempt], Steps[T | None]]]
    ) -> None:
        self._attempt = attempt
        self._waiting = deque(several)
        self._running = 0
        self._timer: Timer | None = None

    def begin(self, tell: Callable[[Any], None]) -> None:
        self._tell = tell
        self._go_on()

    def cancel(self) -> None:
        self._waiting.clear()
        self._set_timer()
        self._attempt.cut(ConnectionDropped("not wanted any more"))

    def _go_on(self) -> None:
        if self._waiting:
            steps = self._waiting.popleft()
            self._running += 1
            self._set_timer()
            self._attempt.branch(steps, self._note)
        elif not self._running:
            self._tell(None)

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        loop = self._attempt.loop
        self._timer = loop.call_later(STAGGER_S, self._go_on) if self._waiting else None

    def _note(self, outcome: T | Exception | None) -> None:
        """Perhaps before the branch is known."""
        self._attempt.loop.call(partial(self._end, outcome))

    def _end(self, outcome: T | Exception | None) -> None:
        self._running -= 1
        if outcome is None or isinstance(outcome, Exception):
            self._go_on()
        else:
            self._tell(outcome)
