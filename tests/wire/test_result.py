"""A result whose callbacks are called on two threads: that of the handler, and one that links or sets."""

from __future__ import annotations

import threading
import unittest
from collections.abc import Callable
from typing import Any

from kazoo.handlers.threading import KazooTimeoutError

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


class TestAbandoned(unittest.TestCase):
    """Nobody waits for the answer any more."""

    def setUp(self) -> None:
        self.result = Result(ThreadingHandler())

    def give_up(self) -> None:
        with self.assertRaises(KazooTimeoutError):
            self.result.get(timeout=0)

    def test_a_get_that_has_given_up(self) -> None:
        self.assertFalse(self.result.is_abandoned)
        self.give_up()
        self.assertTrue(self.result.is_abandoned)

    def test_a_look(self) -> None:
        """It has not waited at all."""
        with self.assertRaises(KazooTimeoutError):
            self.result.get(block=False)
        self.result.wait(0)
        self.assertFalse(self.result.is_abandoned)

    def test_a_callback(self) -> None:
        self.result.rawlink(lambda result: None)
        self.give_up()
        self.assertFalse(self.result.is_abandoned)

    def test_another_wait(self) -> None:
        self.give_up()
        waiter = threading.Thread(target=self.result.get)
        waiter.start()
        while not self.result._waiters:
            pass
        self.assertFalse(self.result.is_abandoned)
        self.result.set(1)
        waiter.join()
        self.assertFalse(self.result.is_abandoned)
