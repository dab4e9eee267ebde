"""bench.dictionary: its arithmetic by known answers, and all of it once, small."""

from __future__ import annotations

import json
import tempfile
import unittest
from pathlib import Path

from bench.dictionary import AS_THEIRS, CLUSTERS, Cluster, Goal, Shape, row, table_of
from tests.bench.command import run_module


class TestDictionary(unittest.TestCase):
    def test_row(self) -> None:
        found = row("kazoo", Cluster(1, 3, ()), Shape(10_000, 500, 64, 2), 8.0, 50.0)
        self.assertEqual((found.entries_per_s, found.kb_per_s), (1250.0, 625.0))
        self.assertEqual((found.system, found.servers, found.processes), ("kazoo", 3, 2))

    def test_as_theirs(self) -> None:
        """All seven rows, on kazoo's one ensemble and on three of ours, of two and of three servers each."""
        self.assertEqual([Shape(1000, 1000, 256, 4), Shape(10_000, 100, 100, 2)], [AS_THEIRS[0], AS_THEIRS[-1]])
        found = {(*each[:2], *each.systems) for each in CLUSTERS if {*AS_THEIRS} <= {*each.shapes}}
        both, ours = ("kazoo", "parkazoo"), ("parkazoo",)
        self.assertEqual(found, {(1, 2, *both), (1, 3, *both), (3, 2, *ours), (3, 3, *ours)})

    def test_table(self) -> None:
        """The middle of three rounds."""
        shape = Shape(1000, 100, 4, 2)
        rows = [row("kazoo", Cluster(1, 3, ()), shape, seconds, 50.0) for seconds in (4.0, 1.0, 2.0)]
        table = table_of(rows)
        self.assertEqual([[*column.cells] for column in table.columns][-3:], [["2.00"], ["500"], ["50"]])

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
        shapes = [(each["system"], each["ensembles"], each["entries"]) for each in found["rows"]]
        both = [(system, 1, entries) for entries in (20, 40) for system in ("kazoo", "parkazoo")]
        self.assertEqual(shapes, [*both, ("parkazoo", 2, 40)])
        requests = next(each for each in found["goals"] if each["name"].startswith("requests"))
        self.assertEqual(requests["rounds"], [0.0] * 3)
        self.assertTrue(all(each["found"] > 0 for each in found["goals"] if each is not requests))
