"""The thesis' sweep on a lab that is only worked out: its steps, its parts, its tables beside the thesis' own."""

from __future__ import annotations

import math
import tempfile
import unittest
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

from bench.lab import LabError
from bench.load.plan import Plan
from bench.published import MISPRINTS, best, table
from bench.report.section import Section, Table
from bench.scenarios import thesis, thesis_sweep
from bench.scenarios.catalogue import most_clients
from bench.scenarios.evaluation import Evaluation, LoadError
from bench.scenarios.results import show
from bench.scenarios.thesis_figures import HALF_OF, TABLE_OF, numbers_printed
from bench.scenarios.thesis_sizes import SIZES
from bench.statistics import encode, make_histogram
from tests.bench.test_summary import result

MOST_PART_S = 30 * 60
SWEEP = ("threads", "processes", "hosts")
PARTS = ("client", *SWEEP, "time", "crowd")
CLIENTS_OF_THE_THESIS = {"kazoo 1x3": 6000, "parkazoo 3x3": 11_200}
GIB = 1 << 30
MANY = 3200  # clients, of which some lose their connection
# Requests/s of this lab, by system, load and whether the bandwidth is limited; nearly those of 2026-11-24.
RATES = {
    ("kazoo", "writes", True): 82.0,
    ("kazoo", "reads", True): 316.0,
    ("parkazoo", "writes", True): 220.0,
    ("parkazoo", "reads", True): 945.0,
    ("kazoo", "writes", False): 2000.0,
    ("kazoo", "reads", False): 4000.0,
    ("parkazoo", "writes", False): 3000.0,
    ("parkazoo", "reads", False): 9000.0,
}
ALONE_S = 0.02  # what a request takes if there is no other


@cache
def histogram_of(took_s: float) -> str:
    return encode(make_histogram([int(took_s * 1e9)] * 3))


class WorkedOut(Evaluation):
    """Whose requests are answered at the rates above.

    :ivar took_s: what its loads would have taken.
    :ivar fails_at: so many clients cannot be had.
    """

    def __init__(
        self, folder: Path, part: str = "", hosts: int = 16, size: str = "full", fails_at: float = math.inf
    ) -> None:
        lab = mock.Mock(clients=[f"h{number}" for number in range(hosts)], is_one_machine=True)
        lab.describe.return_value = {"kind": "emulated"}
        lab.ask.return_value = ""
        self.said: list[str] = []
        self.took_s = 0.0
        self.fails_at = fails_at
        self.is_done = False
        super().__init__(lab, thesis.NAME, folder, size, tell=self.said.append, part=part)

    @contextmanager
    def ensembles(self, shape: str, *_: Any, **__: Any) -> Iterator[Any]:
        ensembles = mock.Mock(servers=[])
        ensembles.hosts.return_value = "h:1"
        ensembles.shape.__str__ = lambda _: shape
        ensembles.shape.ensembles = int(shape[0])
        yield ensembles

    @contextmanager
    def limited(self, *_: Any) -> Iterator[float]:
        yield 125_000.0

    def save(self) -> Path:
        """At the end alone: after each run it takes its time."""
        return super().save() if self.is_done else Path()

    def warm_up(self, plan: Plan) -> None:
        self.took_s += 5

    def raw(self, run: dict[str, Any]) -> list[Any]:
        requests = [(101 + second, 0.1, 1, 0) for second in range(int(run["plan"]["measure_s"]))]
        return [result(*requests, warm_up_s=0, measure_s=run["plan"]["measure_s"])]

    def _summary(self, ensembles: Any, plan: Plan, label: Mapping[str, Any], *_: Any) -> dict[str, Any]:
        if plan.clients >= self.fails_at:
            why = "h1: the load failed: MeetingError: 7 of 9 processes are ready after 350 s"
            self.not_measured("a crowd", why, **label)
            raise LoadError(why)
        rate_s = RATES[plan.system, label["load"], label["is_limited"]]
        took_s = max(ALONE_S, plan.clients / rate_s)
        self.took_s += plan.total_s() + 3 + plan.nodes * plan.processes / 2 + plan.clients / 50
        rates = {"all": plan.clients / took_s, "writes": 0.0, "reads": 0.0}
        latency = {label["load"]: histogram_of(took_s)}
        return {
            "plan": plan.as_json(),
            "begun_s": 101.0,
            "rates": {**rates, label["load"]: rates["all"]},
            "latency": latency,
            "failed": 0,
            "unanswered": 0,
            "errors": Counter({"ConnectionLoss": 1200} if plan.clients == MANY else {}),
            "busy": {"m": 0.5},
            "limits": ["load generator"] if plan.clients == MANY else [],
            "raw": [],
        }


class ThesisCase(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        memory = mock.patch.object(thesis_sweep.psutil, "virtual_memory", lambda: mock.Mock(available=16 * GIB))
        memory.start()
        self.addCleanup(memory.stop)

    def measure(self, *parts: str, **how: Any) -> dict[str, WorkedOut]:
        """One after the other, into the folder."""
        found = {}
        for part in parts:
            found[part] = WorkedOut(self.folder, part, **how)
            thesis.measure(found[part])
            found[part].is_done = True
            found[part].save()
        return found


def all_runs(found: Mapping[str, WorkedOut]) -> list[dict[str, Any]]:
    return [run for each in found.values() for run in each.document["runs"]]


def all_missing(found: Mapping[str, WorkedOut]) -> list[dict[str, Any]]:
    return [entry for each in found.values() for entry in each.document["not_measured"]]


class TestSweep(ThesisCase):
    def test_its_steps_are_those_of_the_thesis(self) -> None:
        """Of its half of each table, for each system; and for both as many as the other one has."""
        found = self.measure(*SWEEP)
        self.assertEqual(numbers_printed("writes", "nodes", "kazoo 1x3"), [1, 2, 3, 4, 5, 14])
        self.assertEqual(numbers_printed("writes", "threads", "parkazoo 3x3"), [1, 5, 10, 20, 50, 100, 110, 240])
        for (load, step), name in TABLE_OF.items():
            for subject, half in HALF_OF.items():
                with self.subTest(name, half=half):
                    label = {"subject": subject, "load": load, "step": step}
                    some = [
                        run for run in all_runs(found) if all(run[key] == value for key, value in label.items())
                    ]
                    numbers = [run["value"] for run in some]
                    self.assertEqual(numbers, numbers_printed(load, step, subject))
                    self.assertLessEqual({row.number for row in table(name + half)}, {*numbers})
        self.assertEqual(all_missing(found), [])

    def test_each_part_takes_half_an_hour_at_most(self) -> None:
        """In windows that are long enough at the first attempt."""
        found = self.measure(*PARTS)
        self.assertEqual({*PARTS}, {*SIZES["full"]})
        for part, evaluation in found.items():
            with self.subTest(part):
                self.assertTrue(0 < evaluation.took_s < MOST_PART_S, evaluation.took_s)
                self.assertFalse([each for each in evaluation.said if "too short" in each])

    def test_the_fewest_clients_that_do_nearly_the_most(self) -> None:
        threads = [run for run in self.measure("threads")["threads"].document["runs"] if run["load"] == "reads"]
        runs = [
            {**run, "rates": {"all": rate}}
            for run, rate in zip(threads, (50.0, 89.0, 90.0, 99.0, 100.0), strict=False)
        ]
        self.assertEqual(thesis_sweep.tipping_point(runs)["threads"], runs[2]["plan"]["threads"])
        self.assertEqual(thesis_sweep.tipping_point([]), {"threads": 1, "processes": 1, "nodes": 1})

    def test_what_cannot_be_had_says_why(self) -> None:
        missing = all_missing(self.measure(*SWEEP, hosts=4))
        mine = [each["value"] for each in missing if (each["subject"], each["load"]) == ("parkazoo 3x3", "writes")]
        self.assertEqual(mine, [5, 6, 7, 10, 12, 14])
        self.assertEqual({each["why"] for each in missing}, {"there are 4 client hosts"})

    def test_obstacles(self) -> None:
        evaluation = WorkedOut(self.folder, "hosts")
        crowd = {"nodes": 14, "processes": 8, "threads": 100}
        self.assertEqual(
            thesis_sweep.find_obstacle(evaluation, crowd, 612.0),
            "each of 11,200 clients waits 51 s for an answer: a window of measuring has to last 612 s",
        )
        many = {"nodes": 16, "processes": 25, "threads": 10}
        why = thesis_sweep.find_obstacle(evaluation, many, 6)
        self.assertEqual(why, "they need some 20.7 GiB of memory, and 15.0 GiB is free")
        evaluation.lab.is_one_machine = False  # type: ignore[misc]
        self.assertEqual(thesis_sweep.find_obstacle(evaluation, many, 6), "")

    def test_a_part_needs_the_ones_before(self) -> None:
        with self.assertRaisesRegex(LabError, "^this begins with the best of part threads: measure that first"):
            self.measure("hosts")
        self.measure("threads")
        with self.assertRaisesRegex(LabError, "of part processes"):
            self.measure("hosts")

    def test_hosts_for_each_part(self) -> None:
        found = {part: most_clients([("thesis", part)], "full") for part in PARTS}
        self.assertEqual(found, {"client": 2, "threads": 2, "processes": 2, "hosts": 16, "time": 16, "crowd": 14})
        self.assertEqual(most_clients([("thesis", ""), ("scaling", "")], "medium"), 2)


class TestCrowd(ThesisCase):
    def test_as_many_as_the_thesis_had(self) -> None:
        """On as many hosts, with as many processes, as the last rows of its tables."""
        runs = all_runs(self.measure("crowd"))
        most = {run["subject"]: run["clients"] for run in runs}
        self.assertEqual({each: math.prod(counts) for each, counts in most.items()}, CLIENTS_OF_THE_THESIS)
        for subject, half in HALF_OF.items():
            self.assertEqual(most[subject][:2], [table(f"6.3{half}")[-1].number, best(f"6.2{half}").number])
        self.assertIn([1, 1, 1000], [run["clients"] for run in runs])


def sections_of(found: Mapping[str, WorkedOut]) -> list[Section]:
    return [
        show({**each.document, "about": {**each.document["about"], "is_one_machine": True}})
        for each in found.values()
    ]


def one(sections: Sequence[Section], title: str) -> Table:
    (found,) = [table for each in sections for table in each.tables if table.title.startswith(title)]
    return found


class TestTables(ThesisCase):
    def rows(self, found: Table, subject: str) -> dict[str, Sequence[str]]:
        return {row[1]: row for row in found.rows if row[0] == subject}

    def test_beside_the_thesis(self) -> None:
        """Each row of each table as it is printed, and ours with the same number. Misprints are marked."""
        sections = sections_of(self.measure(*SWEEP))
        marked = set()
        for (load, step), name in TABLE_OF.items():
            found = one(sections, f"Table {name}:")
            for subject, half in HALF_OF.items():
                rows = self.rows(found, subject)
                self.assertEqual([*rows], [str(each) for each in numbers_printed(load, step, subject)])
                for row in table(f"{name}{half}"):
                    with self.subTest(name, half=half, number=row.number):
                        mine = rows[str(row.number)]
                        printed = [f"{row.requests_s:,.2f}", f"{row.mean_s:.6f}", f"{row.median_s:.6f}"]
                        self.assertEqual(mine[2:5], printed)
                        self.assertNotIn("-", mine[5:9])
                        if mine[-1].startswith("misprint"):
                            marked.add((f"{name}{half}", row.number))
        self.assertEqual(marked, {*MISPRINTS})
        writes, reads = one(sections, "Table 6.1:"), one(sections, "Table 6.4:")
        self.assertEqual(self.rows(writes, "parkazoo 3x3")["5"][9:11], ["1.45", "2.68"])
        self.assertEqual(self.rows(writes, "kazoo 1x3")["5"][9:11], ["-", "-"])
        self.assertEqual({row[9] for row in reads.rows}, {"-"})  # kazoo's rows are processes, which are no threads
        self.assertEqual(self.rows(reads, "kazoo 1x3")["8"][-1], "table 6.5a again: 8 processes of 6 threads")

    def test_missing_over_time_and_at_once(self) -> None:
        """Why something could not be had; one thread and the best in each second; what stops a crowd."""
        sections = sections_of(self.measure(*SWEEP, "time", "crowd", hosts=5, fails_at=3600))
        row = self.rows(one(sections, "Table 6.3:"), "parkazoo 3x3")["14"]
        self.assertEqual((row[6], row[-1]), ("-", "not measured: there are 5 client hosts"))
        over_time = one(sections, "Over time").rows
        self.assertEqual({(row[2], row[4]) for row in over_time}, {("writes", "100"), ("reads", "20")})
        self.assertEqual(
            [row[0] for row in over_time if row[2] == "writes"], ["one thread"] * 2 + ["most requests/s"] * 2
        )
        names = [plot.name for each in sections for plot in each.plots]
        self.assertLessEqual({"thesis-time-over-time-one-limited", "thesis-time-over-time-best-limited"}, {*names})
        crowd = one(sections, "Clients at once").rows
        self.assertEqual([row[1] for row in crowd], ["1,200", "1,000", "800", "3,200", "6,000", "11,200"])
        self.assertIn("not reached: h1: the load failed: MeetingError: 7 of 9", crowd[-2][-1])
        self.assertEqual(crowd[-1][-1], "not reached: there are 5 client hosts")
        self.assertEqual(crowd[3][-1], "limit: load generator; 1,200 times ConnectionLoss")
        self.assertEqual(crowd[2][-2], f"{table('6.3b')[0].requests_s:,.2f}")
        self.assertEqual(crowd[1][-2], "-")  # the thesis had no such process


if __name__ == "__main__":
    unittest.main()
