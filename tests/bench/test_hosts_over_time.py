"""What hosts do each second: how it is counted, kept and drawn."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from bench.lab import LabError
from bench.loopback import Loopback
from bench.sampler import COLUMNS, Below, whole_machine
from bench.scenarios import scaling
from bench.scenarios.catalogue import run_scenario
from bench.scenarios.host_plots import ANY, make_host_plots, rates_of, roles_of
from bench.scenarios.host_record import LINES, HostRecord, read_hosts
from bench.scenarios.results import draw
from tests.bench.emulated import wait
from tests.bench.test_report import SAVED

BUSY = "import sys, time\nwhile time.process_time() < 0.3: pass\nprint('done', flush=True)\nsys.stdin.read()"
CARD = socket.if_nameindex()[0][1]
EMULATED = {"kind": "emulated", "hosts": {"h1": ["server"], "h2": ["server"], "h3": ["client", "orchestrator"]}}


def line(time_s: float, cost_s: float, **hosts: list[float]) -> dict[str, Any]:
    return {"time_s": time_s, "cost_s": cost_s, "hosts": hosts}


class TestSampler(unittest.TestCase):
    def test_what_has_ended_counts_on(self) -> None:
        """Processors are counted since the beginning, memory is that of what runs."""
        below = Below(os.getpid(), CARD)
        with subprocess.Popen(
            [sys.executable, "-c", BUSY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as child:
            assert child.stdout is not None
            child.stdout.readline()
            (during,) = below.rows().values()
        (after,) = below.rows().values()
        cpu_s, memory = (COLUMNS.index(each) for each in ("cpu_s", "memory_bytes"))
        self.assertGreaterEqual(during[cpu_s], 0.2)
        self.assertGreater(during[memory], 1_000_000)
        self.assertGreaterEqual(after[cpu_s], during[cpu_s])
        self.assertLess(after[memory], during[memory])

    def test_a_machine_of_its_own(self) -> None:
        before, after = (whole_machine("s1", CARD)["s1"] for _ in range(2))
        self.assertEqual(len(before), len(COLUMNS))
        for column in ("cpu_s", "received_bytes", "sent_bytes", "disk_bytes"):
            self.assertGreaterEqual(after[COLUMNS.index(column)], before[COLUMNS.index(column)])
        self.assertGreater(after[COLUMNS.index("memory_bytes")], 0)


class TestRecord(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name, "x-hosts.npz")

    def write(self) -> HostRecord:
        record = HostRecord(self.path)
        record.add(line(10.0, 1.0, h1=[1, 2, 3, 4, 5], h2=[0, 0, 0, 0, 0]))
        record.add(line(12.0, 1.01, h1=[1.5, 2, 13, 4, 5], h2=[0, 7, 0, 0, 0]))
        return record

    def check(self) -> None:
        found = read_hosts(self.path)
        self.assertEqual([*found], ["h1", "h2"])
        self.assertEqual(found["h1"].time_s.tolist(), [10, 12])
        self.assertEqual(found["h1"].counted["received_bytes"].tolist(), [3, 13])
        self.assertEqual(found["h2"].counted["memory_bytes"].tolist(), [0, 7])
        self.assertAlmostEqual(found["h1"].cost_share, 0.0025)  # 10 ms in 2 s, for two hosts

    def test_closed(self) -> None:
        self.assertEqual(self.write().close(), {"seen": 2, "period_s": 1.0, "cost_share": 0.0025})
        self.assertFalse(self.path.with_suffix(LINES).exists())
        self.check()

    def test_of_a_program_that_was_killed(self) -> None:
        self.addCleanup(self.write()._lines.close)
        with self.path.with_suffix(LINES).open("a") as lines:
            lines.write('{"time_s": 13, "cost')
        self.check()

    def test_nothing(self) -> None:
        self.assertEqual(read_hosts(self.path), {})
        self.assertEqual(HostRecord(self.path).close()["seen"], 0)
        self.assertEqual(read_hosts(self.path), {})


class Seen(Loopback):
    """Of which only one thing is seen, and that is lost."""

    @contextmanager
    def watch(self, hear: Callable[[Mapping[str, Any]], None], lost: Callable[[str], None]) -> Iterator[None]:
        hear(line(time.time(), 0.0, h1=[0.0] * len(COLUMNS)))
        try:
            yield
        finally:
            lost("h1: no answer")


class TestScenario(unittest.TestCase):
    def test_a_run_that_dies_has_its_samples(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            dies = mock.patch.object(scaling, "measure", side_effect=LabError("a host is gone"))
            with dies, self.assertRaisesRegex(LabError, "a host is gone"):
                run_scenario("scaling", Seen(1), folder, "small")
            document = json.loads((folder / "scaling.json").read_text())
            self.assertEqual([*read_hosts(folder / document["hosts"]["raw"])], ["h1"])
        said = [each["why"] for each in document["not_measured"]]
        self.assertEqual(said, ["h1: no answer", "a host is gone"])

    def test_loopback(self) -> None:
        """One host."""
        heard: list[Mapping[str, Any]] = []
        with Loopback(1).watch(heard.append, self.fail):
            wait(lambda: len(heard) > 1)
        self.assertEqual([*heard[-1]["hosts"]], [Below.HOST])
        self.assertGreater(heard[-1]["time_s"], heard[0]["time_s"])


class TestPlots(unittest.TestCase):
    def document(self, folder: Path, lab: Mapping[str, Any]) -> dict[str, Any]:
        document: dict[str, Any] = json.loads((SAVED / "scaling.json").read_text())
        document["about"]["lab"] = lab
        record = HostRecord(folder / "hosts.npz")
        run = max(document["runs"], key=lambda run: float(run["rates"]["all"]))
        for second in range(-5, 30):
            counted = [second * 0.5, 1e8, second * 1e3, second * 3e3, 0.0]
            record.add(line(run["begun_s"] + second, 0.001 * second, h1=counted, h2=counted, h3=counted))
        document["hosts"] = {"raw": "hosts.npz", **record.close()}
        return document

    def test_under_the_requests(self) -> None:
        """Each shape has one, in whose panels all hosts are drawn in the time of the run."""
        with tempfile.TemporaryDirectory() as name:
            document = self.document(Path(name), EMULATED)
            plots = make_host_plots(document, Path(name), "scaling")
            shapes = [*dict.fromkeys(run["shape"] for run in document["runs"])]
            self.assertEqual([each.name for each in plots], [f"scaling-hosts-{shape}" for shape in shapes])
            best = max(document["runs"], key=lambda run: float(run["rates"]["all"]))["shape"]
            (plot,) = (each for each in plots if each.name.endswith(best))
            requests, processors, network, *_ = plot.figure.axes
            self.assertEqual(len(requests.lines), 1)
            self.assertEqual(len(processors.lines), 3)
            self.assertTrue(np.allclose(processors.lines[0].get_ydata(), 0.5))
            self.assertTrue(np.allclose(network.lines[0].get_ydata(), 4.0))  # kB/s, both ways
            self.assertEqual(len({panel.get_xlim() for panel in plot.figure.axes}), 1)
            self.assertIn("0.03% of a processor for a host", plot.about)
            draw([mock.Mock(plots=plots)])

    def test_who_is_drawn(self) -> None:
        """Servers that a shape does not use are not; where all are on one machine, that is one host."""
        document = {"about": {"lab": EMULATED}}
        self.assertEqual(roles_of(document, "1x1"), {"server": ["h1"], "client": ["h3"]})
        self.assertEqual(roles_of({"about": {"lab": {"kind": "loopback"}}}, "1x1"), {ANY: [Below.HOST]})

    def test_no_record(self) -> None:
        """Old results have none, and those in docs/runs have no raw ones."""
        document = json.loads((SAVED / "scaling.json").read_text())
        self.assertEqual(make_host_plots(document, SAVED, "scaling"), [])
        self.assertEqual(make_host_plots({**document, "hosts": {"raw": "gone.npz"}}, SAVED, "scaling"), [])

    def test_rates(self) -> None:
        self.assertEqual(rates_of(np.array([0, 1, 3]), np.array([5, 7, 1])).tolist(), [2, 0])


if __name__ == "__main__":
    unittest.main()
