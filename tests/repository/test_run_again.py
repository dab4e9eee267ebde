"""``python -m tests`` runs again what failed on a machine without its CPU."""

from __future__ import annotations

import io
import unittest
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

from rich.console import Console

from tests.__main__ import STOLEN, Result, Runner, name_within

WELL, ILL = "live.test_x.X.test_well", "live.test_x.X.test_ill"
CLASS = "setUpClass (tests.live.test_x.Y)"


class TestRunAgain(unittest.TestCase):
    def run_parts(self, *results: Result) -> tuple[Result, list[Sequence[str]]]:
        """What one part comes to, and what was chosen in each of its runs."""
        chosen: list[Sequence[str]] = []
        left = iter(results)

        def run(name: str, texts: Sequence[str], is_verbose: bool, output: Path | None, file: str) -> Result:
            chosen.append(texts)
            return next(left)

        with mock.patch("tests.__main__.run", run):
            found = Runner(Console(file=io.StringIO()), [], False, 1).run(["live"])["live"]
        return found, chosen

    def test_it_counts(self) -> None:
        first = Result({WELL: "passed", ILL: "failed", CLASS: "failed"}, {ILL: STOLEN, CLASS: 0.9})
        second = {ILL: "passed", "live.test_x.Y.test_y": "passed"}
        found, chosen = self.run_parts(first, Result(second))
        self.assertEqual(found.outcomes, {WELL: "passed", **second})
        self.assertEqual(chosen, [[], [ILL, "live.test_x.Y"]])

    def test_it_fails_again(self) -> None:
        found, _ = self.run_parts(Result({ILL: "failed"}, {ILL: STOLEN}), Result({ILL: "failed"}, {ILL: STOLEN}))
        self.assertEqual(found.failed, [ILL])

    def test_it_does_not_run(self) -> None:
        found, _ = self.run_parts(Result({ILL: "failed"}, {ILL: STOLEN}), Result(trouble="it died"))
        self.assertEqual((found.failed, found.trouble), ([ILL], "it died"))

    def test_a_failure_on_a_machine_with_its_cpu(self) -> None:
        failures = {WELL: 0.0, ILL: 0.9}
        found, chosen = self.run_parts(Result(dict.fromkeys(failures, "failed"), failures))
        self.assertEqual((found.failed, len(chosen)), ([*failures], 1))

    def test_names(self) -> None:
        for test, within in {
            ILL: ILL,
            CLASS: "live.test_x.Y",
            "setUpClass (kazoo.tests.test_lock.Y)": "test_lock.Y",
            "test_lock.Y.test_y": "test_lock.Y.test_y",
        }.items():
            self.assertEqual(name_within(test), within)
