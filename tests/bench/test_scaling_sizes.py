"""Scaling under other limits: its parts, latency at shares of a rate, a disk for each server."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from bench import RUNS
from bench.disk_wait import compile_library, environment
from bench.lab import NotPossible, Shape
from bench.loopback import Loopback
from bench.report.section import Answer
from bench.scenarios import accounts, scaling
from bench.scenarios.evaluation import RATE_BYTES_S, Evaluation
from bench.scenarios.results import show
from bench.scenarios.scaling_sizes import NO_LIMIT, SHARES, SIZES, Limit, Size
from tests.bench.test_report import LONG_S, SAVED, with_windows
from tests.bench.test_too_short import run

MOST_S = 30 * 60
WAIT_S = 0.05
FORCE = """
import os, sys, time
with open(sys.argv[1], "w") as file:
    for force in (os.fsync, os.fdatasync):
        began_s = time.monotonic()
        force(file.fileno())
        print(time.monotonic() - began_s)
"""


class TestParts(unittest.TestCase):
    def test_each_takes_half_an_hour_at_most(self) -> None:
        for name, size in SIZES["full"].items():
            self.assertLess(size.estimate_s(), MOST_S, name)

    def test_the_estimate_is_that_of_a_run_that_was(self) -> None:
        """`make evaluate` of 2026-11-24 took 613 s, in 343 s of windows; they are longer now."""
        size, then = SIZES["medium"], json.loads((RUNS / "evaluation-2026-11-24" / "scaling.json").read_text())
        plans = [run["plan"] for run in then["runs"]]
        windows_s = sum(plan["warm_up_s"] + plan["measure_s"] for plan in plans)
        longer_s = len(plans) * (size.warm_up_s + size.measure_s) - windows_s
        self.assertAlmostEqual(size.estimate_s() - longer_s, then["about"]["took_s"], delta=90)

    def test_every_limit_has_its_own_base(self) -> None:
        for name, size in SIZES["full"].items():
            self.assertIn("kazoo", size.systems["1x3"], name)
        names = [size.limit.name for size in SIZES["full"].values()]
        self.assertEqual(names, ["1 Mbit/s", "4 Mbit/s", "16 Mbit/s", NO_LIMIT, "disk, 10 ms", "1 Mbit/s"])


class Answered(Evaluation):
    """Whose loads are not run: each answers as many requests/s."""

    def __init__(self, folder: Path, **entries: Any) -> None:
        super().__init__(Loopback(2), "scaling", folder, "small")
        self._entries = entries
        self.warmed: list[str] = []

    def warm_up(self, plan: Any) -> None:
        self.warmed.append(plan.system)

    def _summary(self, ensembles: Any, plan: Any, *_: Any) -> dict[str, Any]:
        made = run(0.01, plan.measure_s, raw=[], **self._entries)
        del made["shape"], made["system"]
        return {**made, "plan": plan.as_json()}


class TestMeasuring(unittest.TestCase):
    def measure(self, size: Size, **entries: Any) -> dict[str, Any]:
        lab = mock.Mock(shape=Shape.parse("1x3"))
        lab.hosts.return_value = "h:1"
        lab.servers = [mock.Mock(host="h")]
        with tempfile.TemporaryDirectory() as folder:
            evaluation = Answered(Path(folder), **entries)
            scaling.measure_shape(evaluation, lab, size, ("kazoo", "parkazoo"))
        self.assertEqual(evaluation.warmed, ["kazoo", "parkazoo"])
        return evaluation.document

    def test_latency_at_shares_of_the_rate(self) -> None:
        """Once, of all repetitions' median, in an open loop."""
        size = Size({}, 2, 0.1, 1.0, ("writes", "90% reads"), repeat=2, limit=Limit(), shares=SHARES)
        document = self.measure(size)
        late = [each for each in document["runs"] if each["part"] == scaling.LATENCY]
        self.assertEqual(len(late), 2 * len(SHARES))  # systems; writes alone
        self.assertEqual(len({each["repeats"] for each in late}), 2 * len(SHARES))
        rate_s = next(each["rates"]["all"] for each in document["runs"])
        self.assertEqual({each["plan"]["rate_s"] for each in late}, {of * rate_s for of in SHARES})
        self.assertEqual((document["limit"], document["not_measured"]), (NO_LIMIT, []))

    def test_no_rate(self) -> None:
        size = Size({}, 2, 0.1, 1.0, ("writes",), repeat=1, limit=Limit(), shares=SHARES)
        document = self.measure(size, latency={})
        self.assertEqual({each["part"] for each in document["runs"]}, {scaling.SCALING})
        self.assertEqual({each["why"] for each in document["not_measured"]}, {"no rate of the closed loop"})

    def test_what_cannot_be_limited_is_not_called_so(self) -> None:
        size = Size({}, 2, 0.1, 1.0, ("writes",), repeat=1, limit=Limit(4 * RATE_BYTES_S))
        document = self.measure(size)
        self.assertEqual(document["limit"], NO_LIMIT)
        self.assertIn("cannot limit bandwidth", document["not_measured"][0]["why"])


class TestShown(unittest.TestCase):
    def setUp(self) -> None:
        self.document = with_windows(json.loads((SAVED / "scaling.json").read_text()), LONG_S)

    def test_latency(self) -> None:
        section = show(self.document)
        (late,) = (each for each in section.tables if each.title.startswith("Latency"))
        self.assertTrue(late.title.endswith("; 1 Mbit/s"))
        self.assertEqual(late.columns[-2:], ("50%, ms", "99%, ms"))
        self.assertEqual({row[3] for row in late.rows}, {"50%", "80%"})
        self.assertIn("Latency is that of an open loop", section.about)
        self.assertIn("scaling-latency", [each.name for each in section.plots])

    def answer(self, limit: str, limits: Sequence[str]) -> Answer:
        """To how much 3x3 does, if all runs had been limited so."""
        runs = [{**each, "limits": limits} for each in self.document["runs"]]
        (answer,) = show({**self.document, "runs": runs, "limit": limit}).answers
        return answer

    def test_goals_where_the_network_or_the_disk_is_the_limit(self) -> None:
        busy = ["processors of the machine"]
        for limit, limits, is_met in (
            ("1 Mbit/s", [], True),
            ("1 Mbit/s", busy, True),  # so low that they are judged all the same
            ("4 Mbit/s", [], True),
            ("4 Mbit/s", busy, None),
            ("disk, 10 ms", [], True),
            (NO_LIMIT, [], None),
        ):
            with self.subTest(limit, limits=limits):
                answer = self.answer(limit, limits)
                self.assertEqual((answer.is_met, bool(answer.goal)), (is_met, is_met is not None))
                self.assertEqual(" *" in answer.measured, bool(limits) and limit != "1 Mbit/s")
                self.assertEqual(limit in answer.asked, limit != "1 Mbit/s")

    def test_a_disk(self) -> None:
        section = show({**self.document, "rate_bytes_s": None, "disk_wait_s": 0.01, "force_ms": [10.1, 10.4]})
        said = "Each fsync of a server takes 10 ms; as the servers count it, 10.1 to 10.4 ms in the mean."
        self.assertIn(said, section.about)
        self.assertEqual(len([each for each in section.caveats if "waits for one of its own" in each]), 1)


@unittest.skipIf(shutil.which("cc") is None, "there is no C compiler")
class TestDiskWait(unittest.TestCase):
    def test_a_program_waits(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            library = compile_library(Path(name))
            ran = subprocess.run(
                [sys.executable, "-c", FORCE, f"{name}/file"],
                env={**os.environ, **environment(str(library), WAIT_S)},
                capture_output=True,
                text=True,
                check=True,
            )
        took_s = [float(line) for line in ran.stdout.split()]
        self.assertEqual(len(took_s), 2)
        self.assertGreaterEqual(min(took_s), WAIT_S)

    def test_a_server_waits(self) -> None:
        """By its own count of what it forces."""
        lab = Loopback(1)
        with lab.ensembles(Shape.parse("1x1"), disk_wait_s=WAIT_S) as ensembles:
            (took_ms,) = accounts.force_ms(lab, ensembles)
        self.assertGreaterEqual(took_ms, WAIT_S * 1000)


class TestNoCompiler(unittest.TestCase):
    def test_it_is_said(self) -> None:
        with (
            mock.patch("shutil.which", return_value=None),
            tempfile.TemporaryDirectory() as folder,
            self.assertRaisesRegex(NotPossible, "no C compiler: apt-get install gcc libc6-dev"),
        ):
            compile_library(Path(folder))


if __name__ == "__main__":
    unittest.main()
