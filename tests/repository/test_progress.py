"""How far a run of the tests is, and how long it may still take."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from typing import Any

from rich.console import Console

from bench import ROOT
from tests.__main__ import count_tests
from tests.progress import PartProgress, left_s, shown

WAIT_S = 60.0


class TestLeft(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, name: str, *records: dict[str, Any]) -> Path:
        file = self.folder / f"{name}.jsonl"
        file.write_text("".join(json.dumps(record) + "\n" for record in records))
        return file

    def begin(self, name: str, tests: int, *records: dict[str, Any]) -> PartProgress:
        return PartProgress.begin(self.write(name, *records), tests)

    def goes_on(self, part: PartProgress, *records: dict[str, Any]) -> None:
        self.write(part.results.stem, {"began": part.since + 1}, *records)
        part.look()

    def test_by_the_last_run(self) -> None:
        last = ({"began": 1}, {"test": "a", "seconds": 30}, {"test": "b", "seconds": 10}, {"end": 60})
        part = self.begin("x", 2, *last)
        part.look()  # the file of the last run is still there
        self.assertEqual((part.done, left_s([part], 1)), ({}, 60))
        self.goes_on(part, {"test": "a", "seconds": 99})
        self.assertEqual(left_s([part], 1), 15)
        self.goes_on(part, {"test": "a", "seconds": 99}, {"test": "b", "seconds": 1}, {"end": 100})
        self.assertEqual(left_s([part], 1), 0)

    def test_by_the_pace(self) -> None:
        """Nothing is known before the first test has ended."""
        first, second = self.begin("x", 10), self.begin("y", 5)
        self.assertIsNone(left_s([first, second], 2))
        self.goes_on(first, {"running": "b"}, {"test": "a", "seconds": 2})
        self.assertEqual(left_s([first, second], 2), 18)  # of the longer part
        self.assertEqual(left_s([first, second], 1), 28)

    def test_a_line_that_is_half_written(self) -> None:
        part = self.begin("x", 2)
        self.goes_on(part, {"test": "a", "seconds": 2})
        with part.results.open("a") as file:
            file.write('{"test": "b", "sec')
        part.look()
        self.assertEqual(part.done, {"a": 2})

    def test_shown_on_a_terminal(self) -> None:
        part = self.begin("x", 1234)
        self.write("x", {"began": part.since + 1}, {"test": "a", "seconds": 1})
        out = io.StringIO()
        with shown(Console(file=out, force_terminal=True, width=100), [part], 1):
            deadline = time.monotonic() + WAIT_S
            while "about 21 min left" not in out.getvalue() and time.monotonic() < deadline:
                time.sleep(0.01)
        self.assertIn("about 21 min left", out.getvalue())
        self.assertIn("1/1234 tests", out.getvalue())
        out = io.StringIO()
        with shown(Console(file=out), [part], 1):
            pass
        self.assertEqual(out.getvalue(), "")


class TestCount(unittest.TestCase):
    def test_chosen_ones(self) -> None:
        self.assertEqual(count_tests(["pure"], ["test_progress."]), {"pure": 6})

    def test_none_is_chosen(self) -> None:
        """A part fails then: a name may have been mistyped."""
        module = "tests.repository.test_order_of_parts"
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-m", "tests.part", "--results", f"{folder}/x", "-k", "mistyped", module]
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (1, "no test matches\n"), done.stderr)
