"""Threads for what blocks, made when they are needed; they end when they have had nothing to do for a while."""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

log = logging.getLogger(__name__)

IDLE_S = 2.0
GREEN = ("sequential_gevent_handler", "sequential_eventlet_handler")  # kazoo's handlers that spawn no threads

_all: WeakSet[Workers] = WeakSet()


class Workers:
    """A pool of daemon threads.

    :param most: how many threads there may be; None for as many as there are calls.
    """

    def __init__(self, name: str, most: int | None = None) -> None:
        self._name = name
        self._most = most
        self.reset()
        _all.add(self)

    def reset(self) -> None:
        """As new; for a child process, which has none of the threads."""
        self._calls: deque[Callable[[], None]] = deque()
        self._changed = threading.Condition()
        self._threads = 0
        self._idle = 0

    def run(self, call: Callable[[], None]) -> None:
        with self._changed:
            self._calls.append(call)
            if self._idle >= len(self._calls):
                self._changed.notify()
            elif self._most is None or self._threads < self._most:
                self._threads += 1
                threading.Thread(target=self._work, name=self._name, daemon=True).start()

    def _work(self) -> None:
        while True:
            with self._changed:
                if not self._calls:
                    self._idle += 1
                    self._changed.wait_for(lambda: bool(self._calls), IDLE_S)
                    self._idle -= 1
                if not self._calls:
                    self._threads -= 1
                    return
                call = self._calls.popleft()
            try:
                call()
            except Exception:
                log.exception("Unhandled exception in %r", call)
            del call  # release before it is idle


CALLBACKS = Workers("parkazoo-callbacks")
STATES = Workers("parkazoo-states", 8)  # a slow listener holds one up for a third of its session timeout at most


def run_on(workers: Workers, handler: Any, call: Callable[[], None]) -> None:
    """Make a call that may block: on one of the threads, or as what the handler spawns if that is no thread."""
    if handler.name in GREEN:
        handler.spawn(call)
    else:
        workers.run(call)


class Strand:
    """Makes calls one at a time, in order, where they may block. Stands where kazoo's handlers have a queue."""

    def __init__(self, handler: Any) -> None:
        self._handler = handler
        self._calls: deque[Callable[[], None]] = deque()
        self._is_busy = False
        self._changed = threading.Condition()
        self._thread: int | None = None

    def put(self, call: Callable[[], None]) -> None:
        with self._changed:
            self._calls.append(call)
            if self._is_busy:
                return
            self._is_busy = True
        run_on(CALLBACKS, self._handler, self._work)

    def is_current(self) -> bool:
        """Whether the caller is called by it."""
        return self._thread == threading.get_ident()

    def join(self) -> None:
        """Wait until all calls are made; on one of them, do not wait."""
        if self.is_current():
            return
        with self._changed:
            self._changed.wait_for(lambda: not self._is_busy)

    def _work(self) -> None:
        self._thread = threading.get_ident()
        while True:
            with self._changed:
                if not self._calls:
                    self._is_busy = False
                    self._thread = None
                    self._changed.notify_all()
                    return
                call = self._calls.popleft()
            try:
                call()
            except Exception:
                log.exception("Exception in worker queue thread")
            del call


def _after_fork() -> None:
    for workers in list(_all):
        workers.reset()


os.register_at_fork(after_in_child=_after_fork)
