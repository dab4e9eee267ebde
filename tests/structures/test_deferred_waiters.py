"""Threads that wait for deferred writes, and a signal that interrupts whoever tells them."""

from __future__ import annotations

import threading
import unittest
from collections.abc import Callable

from parkazoo.structures import deferred
from parkazoo.structures.deferred import Deferred
from tests.interruption import each_interruption


class TestTelling(unittest.TestCase):
    def test_an_interruption_leaves_nobody_waiting(self) -> None:
        def prepare() -> Callable[[], None]:
            self.deferred = Deferred.__new__(Deferred)
            self.waiters = [threading.Event() for _ in range(3)]
            self.deferred._waiters = list(self.waiters)
            return self.deferred._tell

        def check() -> None:
            self.deferred._tell()
            self.assertTrue(all(each.is_set() for each in self.waiters))

        self.assertGreater(each_interruption(prepare, check, {deferred.__file__}), 10)
