"""bench.growth: its arithmetic by known answers, and all of it once, small."""

from __future__ import annotations

import json
import tempfile
import unittest
from pathlib import Path

from bench.growth import Call, phase
from tests.bench.command import run_module


class TestGrowth(unittest.TestCase):
    def test_phase(self) -> None:
        """A call that began earlier counts if it was under way."""
        calls = [Call(0.0, 0.5, ""), Call(0.9, 0.2, "ConnectionLoss"), Call(1.5, 0.1, ""), Call(2.5, 9.0, "")]
        found = phase("1 to 3", 1.0, 2.0, calls)
        self.assertEqual((found.seconds, found.calls, found.errors), (1.0, 2, {"ConnectionLoss": 1}))
        self.assertEqual((found.median, found.longest), (200.0, 200.0))

    def test_small(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder, "growth.json")
            arguments = ["--znodes", "300", "--clients", "6", "--servers", "1", "--seconds", "1"]
            ended = run_module("bench.growth", *arguments, "--out", str(out))
            self.assertEqual(ended.returncode, 0, ended)
            found = json.loads(out.read_text())
        self.assertEqual(found["problems"], [])
        names = ["before", "1 to 3", "after 1 to 3", "3 to 4", "after 3 to 4"]
        self.assertEqual([each["name"] for each in found["phases"]], names)
        self.assertTrue(all(each["calls"] for each in found["phases"]))
