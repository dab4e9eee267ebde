"""`parkazoo top` with a clock of its own, without servers."""

from __future__ import annotations

import io
import sys
import unittest
from contextlib import redirect_stderr, redirect_stdout
from types import SimpleNamespace
from typing import Any
from unittest import mock

import typer

from parkazoo.admin.hot_directories import Seen
from parkazoo.admin.rates import ClusterLook, ServerLook
from parkazoo.cli import main, top_command
from parkazoo.cli.options import _finite
from parkazoo.cli.top_looking import Pauses

INTERVAL_S = 2.0


class Clock:
    """:ivar paused_s: each pause."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.paused_s: list[float] = []

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.paused_s.append(seconds)
        self.now_s += seconds


class TestRates(unittest.TestCase):
    def rates(self, look_s: float, followers: Any = None) -> list[Any]:
        """Two rates, of looks that take so long."""
        self.clock = Clock()

        def look(own: object) -> ClusterLook:
            at_s = self.clock.now_s
            self.clock.now_s += look_s
            server = ServerLook("a", "a:1", at_s, role="standalone", zxid=round(10 * at_s))
            return ClusterLook(at_s, at_s, "zk", 1, [server], {}, {})

        looker = SimpleNamespace(look=look, map=None)
        clock = SimpleNamespace(monotonic=self.clock.monotonic)
        with mock.patch.object(top_command, "time", clock):
            found: Any = looker
            return [*top_command._rates(found, followers, INTERVAL_S, 2, Pauses(lambda: False, self.clock.sleep))]

    def test_pauses(self) -> None:
        """Looks begin every interval; those that take longer have a pause too, of half their time."""
        self.rates(0.5)
        self.assertEqual(self.clock.paused_s, [1.5, 1.5])
        self.rates(10.0)
        self.assertEqual(self.clock.paused_s, [5.0, 5.0])

    def test_directories(self) -> None:
        """Their changes are divided by the time in which they came, however slow a look is."""

        class Followers:
            taken_s = 0.0

            def take(followers) -> dict[str, Seen]:
                passed_s, followers.taken_s = self.clock.now_s - followers.taken_s, self.clock.now_s
                return {"a": Seen({"/x": round(10 * passed_s)}, round(10 * passed_s))}

            def follow(self, cluster_map: object) -> None:
                """Does nothing: the test plays the changes, ten a second."""

            def troubles(self) -> dict[str, str]:
                return {}

            def sessions(self) -> dict[str, str]:
                return {}

        first, second = self.rates(6.0, Followers())
        self.assertEqual([each.writes for each in (*first.directories, *second.directories)], [10.0, 10.0])
        self.assertEqual(first.directories_s, 6.0 + 3.0 + 6.0)


class TestSeconds(unittest.TestCase):
    def test_what_is_no_time(self) -> None:
        """Of whatever version typer is: some compare nan with the bounds, and find it within."""
        for command, option in (
            ("top", "--interval"),
            ("advise", "--seconds"),
            ("status", "--watch"),
            ("ready", "--timeout"),
            ("check", "--timeout"),
            ("clients", "--timeout"),
        ):
            for value in ("nan", "inf", "-inf"):
                arguments = ["parkazoo", command, "--hosts", "127.0.0.1:1", option, value]
                with (
                    self.subTest(arguments),
                    mock.patch.object(sys, "argv", arguments),
                    redirect_stdout(io.StringIO()),
                    redirect_stderr(io.StringIO()),
                    self.assertRaises(SystemExit) as end,
                ):
                    main()
                self.assertEqual(end.exception.code, 2)
        for seconds in (float("nan"), float("inf")):
            with self.assertRaises(typer.BadParameter):
                _finite(seconds)


if __name__ == "__main__":
    unittest.main()
