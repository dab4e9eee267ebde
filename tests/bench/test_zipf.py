"""bench.zipf: its arithmetic by known answers, and all of it once, small."""

from __future__ import annotations

import json
import tempfile
import unittest
from pathlib import Path

from bench.zipf import SIDES, medians, turned
from tests.bench.command import run_module


class TestZipf(unittest.TestCase):
    def test_each_side_comes_first(self) -> None:
        self.assertEqual([turned("abc", number) for number in (0, 1, 5)], [[*"abc"], [*"bca"], [*"cab"]])

    def test_medians(self) -> None:
        turns = [{"side": side, "percent": {"a1": value}} for side in SIDES for value in (1.0, 9.0, 2.0)]
        self.assertEqual(medians(turns), {side: {"a1": 2.0} for side in SIDES})

    def test_small(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder, "zipf.json")
            arguments = ["--ensembles", "1", "--servers", "1", "--directories", "5", "--rate", "200"]
            ended = run_module("bench.zipf", *arguments, "--seconds", "0.5", "--rounds", "1", "--out", str(out))
            self.assertEqual(ended.returncode, 0, ended)
            found = json.loads(out.read_text())
        self.assertEqual([each["side"] for each in found["turns"]], [*SIDES])
        self.assertEqual(len(found["named"]["looks"][-1]["directories"]), 5)
