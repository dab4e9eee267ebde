"""bench.client: its statistics by known answers, and all of it once, small. No time that it measures decides."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import tempfile
import unittest
from itertools import islice
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import parkazoo
from bench.bare_requests import REPLY, BareError
from bench.client.bare_socket import take_answers
from bench.client.comparison import COMPARISONS, Comparison
from bench.client.crowd import GATHERINGS, Crowd
from bench.client.far_start import FAR_START
from bench.client.measure import CPU, LATENCY, RATE, Measure, Spread, ratios, spread
from bench.client.measured import Figure
from bench.client.outcomes import verdict
from bench.client.pairing import Outcome, orders, parts
from bench.client.paths import ENSEMBLES, PLACEMENT, mirrored_directories, pipeline, spread_directories
from bench.client.run import OF_ASYNCIO, REWATCHING
from bench.client.side import BenchError, Side, SideProcess, Turn
from bench.machine import Processors
from tests.bench.command import run_module

RUN_TIMEOUT_S = 280


def turns(*seconds: float) -> list[Turn]:
    return [Turn(1000, wall_s=each, cpu_s=each / 2) for each in seconds]


def no_load(hosts: Any) -> Any:
    raise AssertionError("nothing is to be run")


def fails(hosts: Any) -> Any:
    raise ValueError("no such thing")


def outcome(goals: dict[Measure, float | None], **sides: list[Turn]) -> Outcome:
    names = {name: Side(name, no_load) for name in sides}
    comparison = Comparison("x", "x", names["subject"], names["base"], names.get("limit"), 1000, goals)
    return Outcome(comparison, sides)


def of_one(comparison: Comparison) -> bool:
    return {side.ensembles for side in comparison.sides} == {1}


def of_asyncio(comparison: Comparison) -> bool:
    return comparison.name.startswith("aio-")


class TestStatistics(unittest.TestCase):
    def test_spread(self) -> None:
        self.assertEqual(spread([4, 1, 3, 2, 5]), Spread(2, 3, 4))
        self.assertEqual(spread([1, 2, 3, 4]), Spread(1.75, 2.5, 3.25))
        self.assertEqual(spread([7]), Spread(7, 7, 7))
        self.assertRaises(ValueError, spread, [])

    def test_values_of_a_turn(self) -> None:
        turn = Turn(operations=2000, wall_s=0.5, cpu_s=0.25)
        self.assertEqual([each.of(turn) for each in (RATE, LATENCY, CPU)], [4000, 250, 125])

    def test_ratios_are_those_of_pairs(self) -> None:
        """In the second pair the machine was ten times slower; that is no side's merit."""
        subjects, bases = turns(1, 10, 1), turns(4, 40, 4)
        self.assertEqual(ratios(RATE, subjects, bases), Spread(4, 4, 4))
        self.assertEqual(ratios(LATENCY, subjects, bases), Spread(0.25, 0.25, 0.25))
        self.assertEqual(ratios(CPU, subjects, bases), Spread(0.25, 0.25, 0.25))
        self.assertRaises(ValueError, ratios, CPU, subjects, bases[:2])

    def test_verdicts(self) -> None:
        base, four, three = turns(4, 4), turns(1, 1), turns(4 / 3, 4 / 3)
        self.assertEqual(verdict(outcome({RATE: 4.0}, subject=four, base=base), RATE), "met")
        self.assertEqual(verdict(outcome({RATE: 4.0}, subject=three, base=base), RATE), "MISSED")
        self.assertEqual(
            verdict(outcome({RATE: 4.0}, subject=three, base=base, limit=three), RATE), "MISSED, beyond the limit"
        )
        self.assertEqual(verdict(outcome({RATE: 4.0}, subject=three, base=base, limit=four), RATE), "MISSED")
        self.assertEqual(verdict(outcome({CPU: 0.25}, subject=four, base=base), CPU), "met")
        self.assertEqual(verdict(outcome({LATENCY: 0.3}, subject=three, base=base), LATENCY), "MISSED")
        self.assertEqual(verdict(outcome({CPU: None}, subject=three, base=base), CPU), "")

    def test_crowd(self) -> None:
        good = Crowd(1000, 30, 2, 14.9, 14.9, sessions=3000, sockets=3000, threads=50, kib=150, operations=2000)
        bad = Crowd(1000, 3, 3, 15.0, 15.0, sessions=3001, sockets=3001, threads=51, kib=150.1, operations=2999)
        self.assertEqual([each[3] for each in good.results()], [True] * 7)
        self.assertEqual([each[3] for each in bad.results()], [False] * 7)

    def test_figures(self) -> None:
        self.assertEqual(Figure("memory", 8.0, "KiB", 8).row(), ("memory", "8 KiB", "≤ 8 KiB", "met"))
        self.assertEqual(Figure("memory", 8.1, "KiB", 8).row(), ("memory", "8.1 KiB", "≤ 8 KiB", "MISSED"))
        self.assertEqual(Figure("requests", 1234, "").row(), ("requests", "1,234", "", ""))

    def test_parts(self) -> None:
        self.assertEqual([parts(each, 15) for each in (1, 15, 16, 30)], [[1], [15], [8, 8], [15, 15]])
        self.assertEqual(parts(31, 15), [10, 10, 11])

    def test_others_share(self) -> None:
        processors = Processors([], total_s=10, busy_s=8, own_s=6)
        self.assertAlmostEqual(processors.busy_share, 0.8)
        self.assertAlmostEqual(processors.others_share, 0.2)
        self.assertEqual(Processors([]).others_share, 0)

    def test_an_order_is_followed_by_its_reverse(self) -> None:
        sides = [Side(name, no_load) for name in "abc"]
        draw = orders(sides, random.Random(1))
        drawn = [draw() for _ in range(20)]
        self.assertTrue(all(drawn[n] == drawn[n + 1][::-1] for n in range(0, 20, 2)))
        self.assertGreater(len({tuple(side.name for side in each) for each in drawn}), 2)


class TestParts(unittest.TestCase):
    def test_directories(self) -> None:
        directories = spread_directories("/x", 9)
        self.assertEqual(len(set(directories)), 9)
        self.assertEqual([PLACEMENT.of_children(each) for each in directories], [*range(ENSEMBLES)] * 3)
        self.assertFalse(any(map(PLACEMENT.is_native, islice(mirrored_directories("/x"), 9))))

    def test_pipeline(self) -> None:
        """Never more in flight than may be, and all are waited for."""
        in_flight, most, done = 0, 0, 0

        class Result:
            def __init__(self) -> None:
                nonlocal in_flight, most
                in_flight += 1
                most = max(most, in_flight)

            def get(self) -> None:
                nonlocal in_flight, done
                in_flight -= 1
                done += 1

        pipeline(Result() for _ in range(1000))
        self.assertEqual((in_flight, most, done), (0, 200, 1000))

    def test_take_answers(self) -> None:
        answer = REPLY.pack(16 + 3, 7, 99, 0) + b"abc"
        self.assertEqual(take_answers(answer * 2 + answer[:5]), (answer[:5], 2))
        self.assertEqual(take_answers(answer[:-1]), (answer[:-1], 0))
        with self.assertRaisesRegex(BareError, "-101"):
            take_answers(REPLY.pack(16, 7, 99, -101))

    def test_a_side_that_fails_says_why(self) -> None:
        process = SideProcess(Side("it", fails), [])
        self.addCleanup(process.end)
        with self.assertRaisesRegex(BenchError, "it: ValueError: no such thing"):
            process.wait_ready()


class TestRun(unittest.TestCase):
    def run_bench(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return run_module("bench.client", *arguments, timeout_s=RUN_TIMEOUT_S)

    def test_one_ensemble(self) -> None:
        self.check([each for each in COMPARISONS if of_one(each) and not of_asyncio(each)], [])

    def test_three_ensembles(self) -> None:
        self.check([each for each in COMPARISONS if not of_one(each)], [*GATHERINGS, FAR_START])

    @unittest.skipIf(sys.version_info < (3, 11), "parkazoo.aio needs Python 3.11")
    def test_asyncio(self) -> None:
        self.check([each for each in COMPARISONS if of_asyncio(each)], [])

    def test_wholes(self) -> None:
        wholes = self.check([], [REWATCHING, *OF_ASYNCIO])
        for name, whole in wholes.items():
            for figure in whole["figures"]:
                with self.subTest(name, figure=figure["what"]):
                    self.assertGreaterEqual(figure["value"], 0)

    def check(self, comparisons: list[Comparison], wholes: list[str]) -> dict[str, Any]:
        """:returns: the wholes."""
        names = [each.name for each in comparisons]
        self.assertTrue(names or wholes)
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder, "new", "results.json")
            ran = self.run_bench("--small", "--seed", "1", "--out", str(out), "--load", *names, *wholes)
            self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)
            self.assertEqual(ran.stderr, "")
            results = json.loads(out.read_text())
            ElementTree.parse(out.with_suffix(".svg"))
        self.assertEqual([each["name"] for each in results["comparisons"]], names)
        for each, comparison in zip(results["comparisons"], comparisons, strict=True):
            with self.subTest(each["name"]):
                self.assertIn(comparison.about, ran.stdout)
                self.assertEqual([len(some) for some in each["turns"].values()], [1] * len(comparison.sides))
                self.assertEqual(len(each["results"]), len(comparison.goals))
        self.assertEqual(results["about"]["seed"], 1)
        self.assertEqual([*results["wholes"]], wholes)
        for name in {*GATHERINGS} & {*wholes}:
            crowd, gathering = results["wholes"][name], GATHERINGS[name]
            self.assertEqual(crowd["operations"], crowd["clients"] * gathering.used)
            self.assertGreaterEqual(crowd["sessions"], crowd["clients"] * gathering.used)
        found: dict[str, Any] = results["wholes"]
        return found

    def test_beside_another_version(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            old, mark, out = Path(folder, "old"), Path(folder, "imported"), Path(folder, "results.json")
            shutil.copytree(Path(parkazoo.__file__).parent, old / "parkazoo")
            with (old / "parkazoo" / "__init__.py").open("a") as init:
                init.write(f"open({str(mark)!r}, 'a').write('+')\n")
            ran = self.run_bench("--small", "--old", str(old), "--load", "sync-get", "--out", str(out))
            self.assertEqual((ran.returncode, ran.stderr), (0, ""), ran.stdout)
            self.assertIn("ParKazoo : old", ran.stdout)
            self.assertEqual(mark.read_text(), "+")
            (comparison,) = json.loads(out.read_text())["comparisons"]
        self.assertEqual(set(comparison["turns"]), {"old", "ParKazoo", "bare socket"})

    def test_no_other_version(self) -> None:
        ran = run_module("bench.client", "--small", "--old", "/nowhere")
        self.assertEqual((ran.returncode, ran.stdout), (2, ""))
        self.assertIn("there is no checkout of ParKazoo in /nowhere", ran.stderr)

    def test_a_place_where_no_file_can_be(self) -> None:
        for place in (__file__ + "/results.json", str(Path(__file__).parent)):
            ran = run_module("bench.client", "--small", "--out", place)
            self.assertEqual((ran.returncode, ran.stdout), (2, ""))
            self.assertIn("results cannot be written to", ran.stderr)

    def test_a_mistyped_load(self) -> None:
        ran = self.run_bench("--load", "async-gte")
        self.assertEqual(ran.returncode, 2)
        self.assertIn("there is no load async-gte; there are async-get,", ran.stderr)
