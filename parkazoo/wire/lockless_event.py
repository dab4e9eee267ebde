"""An event that an exception of a signal handler leaves in order."""

from __future__ import annotations

import threading
from contextlib import suppress


class LocklessEvent:
    """Has the methods of threading.Event, and no Condition: each waiting thread brings a lock of its own.

    A signal handler may raise at any point of any method. Then no later call of any thread blocks for it; a
    :meth:`set` that has begun to wake threads wakes all. There is no lock for all: a thread that waits appends its
    own first, and then looks whether the event is set; a thread that sets it writes that first, and then looks at
    what was appended.
    """

    __slots__ = ("__weakref__", "_is_set", "_waiters")

    def __init__(self) -> None:
        self._is_set = False
        self._waiters: list[threading.Lock] = []

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {'set' if self._is_set else 'unset'}>"

    def is_set(self) -> bool:
        return self._is_set

    isSet = is_set

    def set(self) -> None:
        """Sets it, and wakes all that wait. It never blocks."""
        try:
            self._is_set = True
            if self._waiters:
                self._wake_all()
        except BaseException:  # a signal handler's
            if self._is_set:
                self._wake_all()
            raise

    def clear(self) -> None:
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until it is set.

        :param timeout: seconds; None: as long as it takes.
        :returns: whether it was set, be it cleared since.
        """
        if self._is_set:
            return True
        waiter = threading.Lock()
        waiter.acquire()
        try:
            self._waiters.append(waiter)
            if self._is_set:  # who has set it may not have seen the waiter
                return True
            if timeout is None:
                return waiter.acquire()
            return waiter.acquire(timeout=min(max(timeout, 0.0), threading.TIMEOUT_MAX)) or self._is_set
        finally:
            with suppress(ValueError):
                self._waiters.remove(waiter)

    def _wake_all(self) -> None:
        """Done again, it does no harm."""
        for waiter in self._waiters.copy():
            with suppress(RuntimeError):  # it has been woken
                waiter.release()
