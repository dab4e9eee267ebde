"""Events, struck at each instruction by a signal handler that raises: other threads go on."""

from __future__ import annotations

import threading
import time
import unittest
from collections.abc import Callable
from typing import Any

from parkazoo.wire import lockless_event
from parkazoo.wire.handler import ThreadingHandler
from parkazoo.wire.lockless_event import LocklessEvent
from tests.interruption import each_interruption

DEADLINE_S = 30.0
SOON_S = 0.3  # by then another event has shown that it is stuck
FILES = {lockless_event.__file__, threading.__file__}


class Struck:
    """Makes events, has a call of each struck, and looks whether it still is one.

    :param call: what is struck, with a thread that waits.
    """

    def __init__(self, kind: Callable[[], Any], call: Callable[[Any], object], limit_s: float) -> None:
        self._kind = kind
        self._call = call
        self._limit_s = limit_s

    def prepare(self) -> Callable[[], object]:
        self.event = event = self._kind()
        self.waiting = threading.Thread(target=event.wait, daemon=True)
        self.waiting.start()
        deadline_s = time.monotonic() + DEADLINE_S
        while not (getattr(event, "_waiters", None) or (getattr(event, "_cond", None) and event._cond._waiters)):
            assert time.monotonic() < deadline_s, "the thread waits"
            time.sleep(0)
        return lambda: self._call(event)

    def check(self) -> None:
        if not self.event.is_set():
            self.run(self.event.set)
        self.waiting.join(self._limit_s)
        if self.waiting.is_alive():
            raise AssertionError("a thread was not woken")
        self.event.clear()
        self.run(lambda: self.event.wait(0.001))
        self.run(self.event.set)
        self.run(self.event.wait)

    def run(self, call: Callable[[], object]) -> None:
        """On another thread."""
        thread = threading.Thread(target=call, daemon=True)
        thread.start()
        thread.join(self._limit_s)
        if thread.is_alive():
            raise AssertionError(f"{call} blocks")

    def strike_each(self) -> int:
        return each_interruption(self.prepare, self.check, FILES)


class TestStruck(unittest.TestCase):
    def test_set(self) -> None:
        self.assertGreater(Struck(LocklessEvent, LocklessEvent.set, DEADLINE_S).strike_each(), 30)

    def test_wait(self) -> None:
        for timeout in (0, 0.0005):
            struck = Struck(LocklessEvent, lambda event, timeout=timeout: event.wait(timeout), DEADLINE_S)
            self.assertGreater(struck.strike_each(), 30)

    def test_those_of_threading_would_be_noticed(self) -> None:
        for call in (threading.Event.set, lambda event: event.wait(0)):
            with self.assertRaises(AssertionError):
                Struck(threading.Event, call, SOON_S).strike_each()


class TestEvent(unittest.TestCase):
    def setUp(self) -> None:
        self.event = ThreadingHandler().event_object()

    def test_as_threading_has_it(self) -> None:
        event = self.event
        self.assertEqual((event.is_set(), event.wait(0), event.wait(-1)), (False, False, False))
        event.set()
        event.set()
        self.assertEqual((event.is_set(), event.isSet(), event.wait(), event.wait(0)), (True,) * 4)
        event.clear()
        self.assertEqual((event.is_set(), event.wait(0.001), event.wait(0)), (False,) * 3)
        self.assertEqual(repr(event), "<LocklessEvent unset>")

    def test_who_waits_is_woken_though_it_is_cleared_at_once(self) -> None:
        woken: list[bool] = []
        threads = [threading.Thread(target=lambda: woken.append(self.event.wait(DEADLINE_S))) for _ in range(5)]
        for each in threads:
            each.start()
        deadline_s = time.monotonic() + DEADLINE_S
        while len(self.event._waiters) < len(threads) and time.monotonic() < deadline_s:
            time.sleep(0)
        self.event.set()
        self.event.clear()
        for each in threads:
            each.join(DEADLINE_S)
        self.assertEqual(woken, [True] * len(threads))
        self.assertEqual(self.event._waiters, [])
