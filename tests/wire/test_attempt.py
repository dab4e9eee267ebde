"""An attempt to connect fails of what networks and servers do. Anything else is a mistake, and is told as one."""

from __future__ import annotations

import unittest
from collections.abc import Callable
from typing import Any

from kazoo.exceptions import AuthFailedError, ConnectionDropped

from parkazoo.engine.ports import OtherSession
from parkazoo.wire import attempt as module
from parkazoo.wire.attempt import NEXT_TURN, ConnectAttempt, Steps, connect
from parkazoo.wire.handler import ThreadingHandler


class Turns:
    """A loop that makes calls when it is asked to."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []
        self.call = self.calls.append


class TestMistakes(unittest.TestCase):
    def setUp(self) -> None:
        self.loop = Turns()
        self.outcomes: list[Any] = []
        self.mistakes: list[Exception] = []

    def run_steps(self, outcome: Any, on_end: Callable[[Any], None]) -> None:
        """Run steps that return the outcome, or raise it."""

        def steps(attempt: ConnectAttempt) -> Steps[Any]:
            yield NEXT_TURN
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        loop: Any = self.loop
        ConnectAttempt(loop, ThreadingHandler(), steps, on_end, self.mistakes.append)
        self.loop.calls.pop()()

    def test_what_networks_and_servers_do(self) -> None:
        errors = OSError(), ConnectionDropped(), AuthFailedError(), OtherSession()
        with self.assertNoLogs(module.log):
            for outcome in (1, *errors):
                self.run_steps(outcome, self.outcomes.append)
        self.assertEqual((self.outcomes, self.mistakes), ([1, *errors], []))

    def test_a_port_that_is_none(self) -> None:
        """Other servers are tried."""
        loop: Any = self.loop
        with self.assertNoLogs(module.log):
            ConnectAttempt(
                loop,
                ThreadingHandler(),
                lambda attempt: connect(attempt, "127.0.0.1", 1 << 16),
                self.outcomes.append,
                self.mistakes.append,
            )
        self.assertEqual(([type(each) for each in self.outcomes], self.mistakes), ([OSError], []))

    def test_a_mistake_in_the_steps(self) -> None:
        """The attempt ends all the same."""
        error = KeyError("x")
        with self.assertLogs(module.log, "ERROR") as logs:
            self.run_steps(error, self.outcomes.append)
        self.assertEqual((self.outcomes, self.mistakes), ([error], [error]))
        self.assertIn("Traceback", logs.output[0])

    def test_a_mistake_behind_them(self) -> None:
        error = KeyError("x")

        def end(outcome: object) -> None:
            raise error

        with self.assertRaises(KeyError):  # which the loop logs
            self.run_steps(1, end)
        self.assertEqual(self.mistakes, [error])
