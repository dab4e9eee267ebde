"""Time limits of the loads' calls."""

from __future__ import annotations

import random
import signal
import tempfile
import threading
import unittest
from pathlib import Path
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler

from tests.faults.load import InterruptedCallError, Worker


class Now(random.Random):
    """Each call has a limit, which is far away."""

    def random(self) -> float:
        return 0.0

    def uniform(self, a: float, b: float) -> float:
        return 60.0


class Interrupted(threading.Condition):
    """An interruption hits it when it has waited, before it has its lock again."""

    def wait(self, timeout: float | None = None) -> bool:
        self.release()
        signal.raise_signal(signal.SIGALRM)
        raise AssertionError


class TestLimited(unittest.TestCase):
    def setUp(self) -> None:
        folder = self.enterContext(tempfile.TemporaryDirectory())
        self.worker = Worker(0, 0, "/", "127.0.0.1:1", 10.0, Path(folder) / "journal", Now())

    def test_kazoo_waits(self) -> None:
        """The interruption comes out, not the error of the lock that has been lost in it."""
        result: Any = SequentialThreadingHandler().async_result()
        result._condition = Interrupted()
        with self.assertRaises(InterruptedCallError) as raised, self.worker.limited():
            result.get(timeout=1.0)
        self.assertRegex(str(raised.exception.__cause__), "release")

    def test_others(self) -> None:
        """What waits elsewhere has to survive interruptions; and other errors are errors."""
        condition = Interrupted()
        with self.assertRaisesRegex(RuntimeError, "release"), self.worker.limited(), condition:
            condition.wait()
        with self.assertRaisesRegex(RuntimeError, "^mine$"), self.worker.limited():
            raise RuntimeError("mine")
