"""A result whose callbacks are called on two threads: that of the handler, and one that links or sets."""

from __future__ import annotations

import unittest
from collections.abc import Callable
from typing import Any

from parkazoo.wire.handler import Result, ThreadingHandler


class Callbacks(list[Any]):
    """Another thread takes one just before this one does."""

    other: Callable[[], None] | None = None

    def pop(self, index: Any = -1) -> Any:
        other, self.other = self.other, None
        if other is not None:
            other()
        return super().pop(index)


class TestResult(unittest.TestCase):
    def test_another_thread_calls_the_last_callback(self) -> None:
        """It was linked as the result was set, so that both threads call one: it is called once."""
        result = Result(ThreadingHandler())
        result._callbacks = callbacks = Callbacks()
        called: list[Result] = []
        result.rawlink(called.append)
        callbacks.other = result._call_next
        result.set(1)
        self.assertEqual(called, [result])
