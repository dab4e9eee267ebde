"""bench.dictionary: its arithmetic by known answers, and all of it once, small."""

from __future__ import annotations

import json
import tempfile
import unittest
from pathlib import Path

from bench.dictionary import Goal, Shape, row
from tests.bench.command import run_module


class TestDictionary(unittest.TestCase):
    def test_row(self) -> None:
        found = row(3, Shape(10_000, 500, 64, 2), 8.0)
        self.assertEqual((found.entries_per_s, found.kb_per_s), (1250.0, 625.0))

    def test_goal(self) -> None:
        for found, is_upper, is_met in (
            (9.0, True, True),
            (10.0, True, False),
            (10.0, False, True),
            (9.9, False, False),
        ):
            self.assertEqual(Goal("", found, [], 10.0, is_upper).is_met, is_met)

    def test_small(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder, "dictionary.json")
            ended = run_module("bench.dictionary", "--small", "--out", str(out))
            self.assertEqual(ended.returncode, 0, ended)
            found = json.loads(out.read_text())
        shapes = [(each["servers"], each["entries"]) for each in found["rows"]]
        self.assertEqual(shapes, [(2, 20), (2, 40), (3, 20), (3, 40)])
        requests = next(each for each in found["goals"] if each["name"].startswith("requests"))
        self.assertEqual(requests["rounds"], [0.0] * 3)
        self.assertTrue(all(each["found"] > 0 for each in found["goals"] if each is not requests))
