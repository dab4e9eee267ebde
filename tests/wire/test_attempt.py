"""An attempt to connect fails of what networks and servers do. Anything else is a mistake, and is told as one."""

from __future__ import annotations

import unittest
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from unittest import mock

from kazoo.exceptions import AuthFailedError, ConnectionDropped

from parkazoo.engine.ports import OtherSession
from parkazoo.wire import attempt as module
from parkazoo.wire.attempt import NEXT_TURN, ConnectAttempt, Limit, Steps, connect
from parkazoo.wire.loop import READ


class Turns:
    """A loop that makes calls when it is asked to."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []
        self.call = self.calls.append


class TimedTurns(Turns):
    """With timers, which a test lets run out."""

    def __init__(self) -> None:
        super().__init__()
        self.timers: list[Callable[[], None]] = []
        self.blocking: list[Callable[[], None]] = []
        self.run_blocking = self.blocking.append
        self.watch, self.forget = mock.Mock(), mock.Mock()

    def call_later(self, seconds: float, call: Callable[[], None]) -> Any:
        self.timers.append(call)
        return mock.Mock()


class Closed:
    is_closed = False

    def close(self) -> None:
        self.is_closed = True


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
        ConnectAttempt(loop, steps, on_end, self.mistakes.append)
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


class TestCalls(unittest.TestCase):
    """Functions that may block, and are called on another thread."""

    def test_a_result_that_comes_too_late(self) -> None:
        """The generator has gone on: it is not the answer to what it waits for now."""
        loop: Any = TimedTurns()
        late, outcomes = [Closed(), Closed()], []  # a socket of a call that was given up, and one after the end

        def steps(attempt: ConnectAttempt) -> Steps[Any]:
            for each in late:
                yield Limit(1, "too slow")
                with suppress(ConnectionDropped):
                    yield lambda each=each: each
            return "done"

        ConnectAttempt(loop, steps, outcomes.append, outcomes.append)
        loop.timers.pop()()
        loop.blocking[0]()
        loop.calls.pop()()
        self.assertEqual(([each.is_closed for each in late], outcomes), ([True, False], []))
        loop.timers.pop()()
        loop.blocking[1]()
        loop.calls.pop()()
        self.assertEqual(([each.is_closed for each in late], outcomes), ([True, True], ["done"]))

    def test_no_thread(self) -> None:
        """The attempt fails, as one that a network has ended: another one follows."""
        loop: Any = TimedTurns()
        loop.run_blocking = mock.Mock(side_effect=RuntimeError("can't start new thread"))

        def steps(attempt: ConnectAttempt) -> Steps[Any]:
            yield lambda: None

        outcomes: list[Any] = []
        ConnectAttempt(loop, steps, outcomes.append, self.fail)
        loop.calls.pop()()
        (outcome,) = outcomes
        self.assertEqual((type(outcome), str(outcome)), (ConnectionDropped, "can't start new thread"))

    def test_a_turn_that_comes_too_late(self) -> None:
        """The generator waits for a socket now, which would be watched twice, or closed while it is watched."""
        loop: Any = TimedTurns()
        outcomes: list[Any] = []

        def steps(attempt: ConnectAttempt) -> Steps[Any]:
            yield Limit(1, "too slow")
            with suppress(ConnectionDropped):
                yield NEXT_TURN
            yield READ
            return "done"

        ConnectAttempt(loop, steps, outcomes.append, outcomes.append)
        loop.timers.pop()()
        loop.calls.pop()()
        self.assertEqual((loop.watch.call_count, outcomes), (1, []))
        _, on_ready = loop.watch.call_args.args
        on_ready(READ)
        self.assertEqual(outcomes, ["done"])
