"""bench.gateway: all of it once, small. No time that it measures decides."""

from __future__ import annotations

import json
import tempfile
import unittest
from pathlib import Path

from bench.gateway.gateway_run import BARE, DIRECT, GATEWAY, QUICK_IDLE, QUICK_OPERATIONS, Load, Turn
from bench.gateway.socket_program import REQUESTS, Report
from tests.aio.aio_case import needs_aio
from tests.bench.command import run_module

RUN_TIMEOUT_S = 280


class TestFigures(unittest.TestCase):
    def test_a_load(self) -> None:
        reports = [Report(1000, wall_s, wall_s / 10, wall_s / 5, 0.0) for wall_s in (1.0, 2.0, 4.0)]
        load = Load("get", 200, {GATEWAY: [Turn(each, each.wall_s / 100) for each in reports]})
        self.assertEqual(load.rate(GATEWAY).median, 500)
        self.assertAlmostEqual(load.cpu_us(GATEWAY).median, 20)
        self.assertAlmostEqual(load.median_ms(GATEWAY).median, 200)
        self.assertAlmostEqual(load.p99_ms(GATEWAY).median, 400)


@needs_aio
class TestRun(unittest.TestCase):
    def test_all(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder, "results.json")
            ran = run_module("bench.gateway", "--quick", "--json", str(out), timeout_s=RUN_TIMEOUT_S)
            self.assertEqual((ran.returncode, ran.stderr), (0, ""), ran.stdout)
            text = out.read_text()
        found = json.loads(text)
        self.assertNotIn(folder, text)
        self.assertEqual(
            [(each["kind"], each["in_flight"]) for each in found["loads"]],
            [(kind, in_flight) for in_flight in QUICK_OPERATIONS for kind in REQUESTS],
        )
        for each in found["loads"]:
            with self.subTest(each["kind"], in_flight=each["in_flight"]):
                self.assertIn(f"{each['kind']}, {each['in_flight']} in flight", ran.stdout)
                self.assertEqual({*each["sides"]}, {GATEWAY, BARE, DIRECT})
                for side in each["sides"].values():
                    self.assertEqual(len(side["turns"]), 1)
                    self.assertEqual(side["turns"][0]["operations"], QUICK_OPERATIONS[each["in_flight"]])
                    self.assertGreaterEqual(side["p99_ms"]["median"], side["median_ms"]["median"])
        self.assertEqual([each["sessions"] for each in found["idle"]], [*QUICK_IDLE])
        self.assertTrue(all(each["rss_kib"] > 0 for each in found["idle"]))
