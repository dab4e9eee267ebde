"""What a client has heard of which ensemble, if all ensembles have one order.

A server may lag. So a read must not be older than what the client has heard from other ensembles since it last
sent a write to this one. Such a read goes behind a write that cannot succeed: a server that has answered a write,
even one that failed, knows all earlier writes of its ensemble.

A count goes up with each answer and each event. Nothing here depends on how many ensembles there are.
"""

from __future__ import annotations

from contextlib import AbstractContextManager


class Guard:
    """A write that reads of the same ensemble are behind.

    :ivar count: when it was sent. :ivar is_good: it orders them, as far as that is known.
    :ivar error: it has not been done, so reads that were sent behind it fail with this.
    """

    __slots__ = ("count", "error", "is_good")

    def __init__(self, count: int) -> None:
        self.count = count
        self.is_good = True
        self.error: Exception | None = None


class Heard:
    """:param lock: is held while anything changes."""

    def __init__(self, lock: AbstractContextManager[object]) -> None:
        self._lock = lock
        self._guards: dict[int, Guard] = {}
        self._last = -1  # the ensemble that was heard last
        self._of_others = 0  # the count when another one was
        self.count = 0

    def hear(self, ensemble: int) -> None:
        """It has sent an answer or an event."""
        with self._lock:
            if ensemble != self._last:
                self._last, self._of_others = ensemble, self.count
            self.count += 1

    def guard(self, ensemble: int) -> Guard | None:
        """What reads there are behind by now; None if they need a new guard."""
        with self._lock:
            elsewhere = self._of_others if ensemble == self._last else self.count
            guard = self._guards.get(ensemble)
            if guard is None:
                guard = Guard(0)  # the session began with a write
            needed = guard if guard.is_good and guard.count >= elsewhere else None
        return needed  # noqa: RET504 - from within, a signal handler's exception could keep the lock

    def sent(self, ensemble: int, guard: Guard) -> None:
        """A guard is on its way: all later requests to that ensemble are behind it."""
        with self._lock:
            before = self._guards.get(ensemble)
            if before is None or not before.is_good or before.count < guard.count:
                self._guards[ensemble] = guard

    def forget(self) -> None:
        """It is not known any more which guards have been sent."""
        with self._lock:
            self._guards.clear()
