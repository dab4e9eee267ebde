"""The page of all committed results: what it chooses, what it concludes, and that it is fresh."""

from __future__ import annotations

import json
import re
import tempfile
import unittest
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

from bench import ROOT, RUNS
from bench.pages import beside, claims, committed, over_commits
from bench.pages.chosen import choose
from bench.pages.raw import Raw
from bench.report.section import Section
from bench.scenarios import conclusions, ensembles_added, scaling
from bench.scenarios.durations import estimate
from bench.scenarios.scaling_sizes import EVEN, HASHED, HOT
from bench.statistics import NO_FIGURE, encode, make_histogram
from tests.repository.test_pages import anchors

REFERENCE = re.compile(r'(?:src|href)="([^"#]*)(?:#([^"]+))?"')
DATED = "2026-11-2{}T12:00:00+0000"


@cache
def whole() -> committed.Whole:
    return committed.make()


def page() -> str:
    return whole().texts[committed.PAGE]


class TestCommitted(unittest.TestCase):
    def test_it_is_fresh(self) -> None:
        self.assertFalse(whole().is_stale(), "docs/evaluation is stale: python -m bench.pages makes it anew")

    def test_what_is_stale(self) -> None:
        with tempfile.TemporaryDirectory() as name, mock.patch.object(committed, "draw") as draw:
            folder, small = Path(name, "x"), committed.Whole({"a.txt": "a\n"}, [])
            draw.return_value = {}
            self.assertTrue(small.is_stale(folder))
            small.write(folder)
            self.assertFalse(small.is_stale(folder))
            (folder / "old.svg").touch()
            self.assertTrue(small.is_stale(folder))
            small.write(folder)
            self.assertFalse(small.is_stale(folder))
            (folder / "a.txt").write_text("b\n")
            self.assertTrue(small.is_stale(folder))

    def test_all_that_it_names_is_here(self) -> None:
        """Nothing is loaded from elsewhere, and each link leads to a file of the repository."""
        found = {(path, anchor) for path, anchor in REFERENCE.findall(page())}
        self.assertGreater(len(found), 40)
        for path, anchor in sorted(found):
            with self.subTest(path, anchor=anchor):
                target = (committed.FOLDER / path).resolve() if path else committed.FOLDER / committed.PAGE
                self.assertTrue(target.is_relative_to(ROOT) and target.exists())
                if anchor and target.suffix == ".md":
                    self.assertIn(anchor, anchors(target))
                elif anchor:
                    self.assertIn(f'id="{anchor}"', page())
        self.assertNotIn("<script", page())

    def test_the_first_screen(self) -> None:
        front = whole().parts[0]
        self.assertEqual([plot.name for plot in front.plots], [conclusions.PLOT])
        for asked in (conclusions.SCALES, conclusions.COSTS, conclusions.NO_HELP):
            self.assertLess(page().index(asked), page().index("<nav>"))


def raw(name: str, day: int, document: dict[str, Any]) -> Raw:
    return Raw(RUNS / name, {"about": {"date": DATED.format(day), "size": "medium"}, **document})


def run(window_s: float, **label: Any) -> dict[str, Any]:
    """A run whose latencies are a second."""
    return {
        "plan": {"measure_s": window_s},
        "latency": {"writes": encode(make_histogram([1_000_000_000]))},
        "rates": {"all": 100.0},
        **label,
    }


class TestChosen(unittest.TestCase):
    def test_the_newest_that_was_measured_well(self) -> None:
        old = raw("a.json", 1, {"scenario": "scaling", "runs": [run(20)] * 4})
        new = raw("b.json", 2, {"scenario": "scaling", "runs": [run(20), run(20), run(20), run(5)]})
        self.assertEqual(choose([old, new]), {"scaling": new})
        self.assertEqual(choose([new, old]), {"scaling": new})
        short = raw("c.json", 3, {"scenario": "scaling", "runs": [run(20), run(5)]})
        self.assertEqual(choose([old, new, short]), {"scaling": new})

    def test_if_none_was_measured_well_those_with_most_figures(self) -> None:
        shorter = raw("a.json", 2, {"scenario": "raft", "runs": [run(5)]})
        short = raw("b.json", 1, {"scenario": "raft", "runs": [run(20), run(5)]})
        self.assertEqual(choose([short, shorter]), {"raft": short})

    def test_parts_are_chosen_each_alone(self) -> None:
        whole = raw("a.json", 2, {"scenario": "chaos", "runs": [run(20)]})
        upload = raw("b.json", 1, {"scenario": "chaos", "part": "upload", "runs": [], "uploads": [{}]})
        self.assertEqual(choose([upload, whole]), {"chaos": whole, "chaos-upload": upload})

    def test_a_scenario_whose_parts_were_all_measured_later(self) -> None:
        def topologies(day: int, **part: str) -> Raw:
            return raw(f"{day}.json", day, {"scenario": "topologies", "runs": [run(20)], **part})

        whole, links, processors = topologies(2), topologies(3, part="links"), topologies(3, part="processors")
        early = topologies(1, part="processors")
        self.assertEqual({*choose([whole, links])}, {"topologies", "topologies-links"})
        self.assertEqual(
            {*choose([whole, links, early])}, {"topologies", "topologies-links", "topologies-processors"}
        )
        self.assertEqual([*choose([whole, processors, links])], ["topologies-links", "topologies-processors"])

    def test_what_shows_something_else(self) -> None:
        others: list[dict[str, Any]] = [
            {"scenario": "scaling", "runs": [run(20)], "about": {"date": DATED.format(1), "size": "large"}},
            {"scenario": "scaling", "runs": [run(20)], "about": {"date": DATED.format(1), "size": "small"}},
            {"scenario": "scaling", "runs": []},
            {"comparisons": []},
        ]
        self.assertEqual(choose([raw("a.json", 1, each) for each in others]), {})


class TestConclusions(unittest.TestCase):
    def answers(self, ratios: dict[str, float] | None = None, **documents: Any) -> dict[str, str]:
        named = {
            scaling.NAME if name == "scaling" else ensembles_added.NAME: each for name, each in documents.items()
        }
        return conclusions.answers_of(named, ratios or {})

    def scaling(self, *rates: tuple[str, str, float], limit: float | None = 125_000.0) -> dict[str, Any]:
        runs = [
            run(20, part=scaling.SCALING, load="writes", system=system, shape=shape, rates={"all": rate})
            for system, shape, rate in rates
        ]
        return {"runs": runs, "rate_bytes_s": limit}

    def test_nothing_was_measured(self) -> None:
        said = self.answers()
        self.assertTrue(all(conclusions.NOT_HERE in each.lower() for each in said.values()))
        self.assertIn("python -m bench.scenarios scaling", said[conclusions.SCALES])

    def test_does_it_scale(self) -> None:
        base, three = ("kazoo", "1x3", 100.0), ("parkazoo", "3x3", 290.0)
        said = self.answers(scaling=self.scaling(base, three))[conclusions.SCALES]
        self.assertTrue(said.startswith("Yes: "), said)
        self.assertIn("3 ensembles do 2.9 times the writes of one, and (not measured here) times the reads", said)
        self.assertIn("1 Mbit/s", said)
        missed = self.scaling(base, ("parkazoo", "3x3", 200.0), limit=None)
        self.assertRegex(self.answers(scaling=missed)[conclusions.SCALES], "^Less than the goals: .*unlimited")
        short = self.scaling(base, ("parkazoo", "3x3", NO_FIGURE))
        said = self.answers(scaling=short)[conclusions.SCALES]
        self.assertNotIn("Yes", said)
        self.assertIn(f"do ({conclusions.SHORT}) times the writes", said)
        said = self.answers(scaling=self.scaling(base))[conclusions.SCALES]
        self.assertIn(conclusions.NOT_HERE, said.lower())

    def test_of_parts_the_one_that_shows_most(self) -> None:
        base, three, six = ("kazoo", "1x3", 100.0), ("parkazoo", "3x3", 290.0), ("parkazoo", "6x3", 500.0)
        parts = {"scaling-1mbit": self.scaling(base, three, six), "scaling-others": self.scaling(base, three)}
        parts["scaling-unlimited"] = self.scaling(base, three, six, six, limit=None)
        said = conclusions.answers_of(parts, {})[conclusions.SCALES]
        self.assertIn("3 and 6 ensembles do 2.9 and 5 times the writes of one", said)
        self.assertIn("1 Mbit/s", said)

    def test_what_does_it_cost(self) -> None:
        felt = [{"writes": {"p99_s": each}} for each in (1.0, 1.5, 2.0)]
        growth = {"runs": [{"part": ensembles_added.LIMIT, "felt": felt}]}
        said = self.answers({"first-child": 4.19, "grown-missing": NO_FIGURE}, growth=growth)[conclusions.COSTS]
        self.assertIn("The first child of a directory takes 4.19 times", said)
        self.assertIn(f"NoNode on a cluster that has grown: {conclusions.SHORT}", said)
        self.assertIn("takes 1.5 times as long; at a low rate: not measured here.", said)

    def test_when_does_it_not_help(self) -> None:
        runs = [
            run(20, part=scaling.SKEW, load=load, rates={"all": rate})
            for load, rate in ((EVEN, 200.0), (HOT, 70.0), (HASHED, NO_FIGURE))
        ]
        said = self.answers({"ensembles-sync": 0.95}, scaling={"runs": runs})[conclusions.NO_HELP]
        self.assertIn("does on three ensembles 0.95 times", said)
        self.assertIn("three ensembles do 0.35 times the writes", said)
        self.assertIn(f"drawn anew: {conclusions.SHORT}", said)


class TestBeside(unittest.TestCase):
    def test_each_report_with_figures_has_its_table(self) -> None:
        (section,) = (each for each in whole().parts if getattr(each, "name", "") == beside.NAME)
        assert isinstance(section, Section)
        titles = [table.title for table in section.tables]
        self.assertTrue(titles[0].startswith("Arjun Naik"))
        self.assertIn("Zatt", titles)
        self.assertIn("Nil-externality", titles)
        for table in section.tables:
            self.assertIn("command", table.columns)
            self.assertFalse([cell for row in table.rows for cell in row if "`" in cell or "\n" in cell])


class TestOverCommits(unittest.TestCase):
    def point(self, value: float, low: float, high: float, *, is_more_better: bool = True) -> over_commits.Point:
        return over_commits.Point(
            over_commits.SCALES, "f", is_more_better, DATED.format(1), "abc", value, low, high, "x.json"
        )

    def test_what_has_fallen(self) -> None:
        before = self.point(1.0, 0.9, 1.1)
        for value, low, high, expected in (
            (0.95, 0.85, 1.0, False),
            (0.8, 0.7, 0.89, True),
            (1.5, 1.4, 1.6, False),
            (0.82, 0.82, 0.82, False),  # measured once
            (0.8, 0.8, 0.8, True),
        ):
            with self.subTest(value):
                self.assertEqual(self.point(value, low, high).has_fallen_since(before), expected)
        late = self.point(1.0, 0.9, 1.1, is_more_better=False)
        self.assertTrue(self.point(1.3, 1.2, 1.4, is_more_better=False).has_fallen_since(late))
        self.assertFalse(self.point(0.5, 0.4, 0.6, is_more_better=False).has_fallen_since(late))
        self.assertFalse(self.point(9.01, 9.0, 9.01).has_fallen_since(self.point(9.04, 9.03, 9.11)))

    def client(self, day: int, low: float, old: str | None = None) -> Raw:
        ratio = {"low": low, "median": low + 0.1, "high": low + 0.2}
        results = [{"measure": measure, "ratio": ratio} for measure in ("operations/s", "CPU")]
        document = {
            "about": {"date": DATED.format(day), "old": old, "versions": {"commit": f"{day}234567890+changes"}},
            "comparisons": [{"name": "get", "error": "", "results": results}],
        }
        return Raw(RUNS / f"client-{day}.json", document)

    def test_files_of_the_client(self) -> None:
        points = over_commits.find_points(
            [self.client(1, 2.0), self.client(2, 1.0), self.client(2, 1.0, "9876543210")]
        )
        self.assertEqual(
            [(each.group, each.figure, each.commit) for each in points],
            [
                (over_commits.OLDER, "get : 9876543", "2234567 with changes"),
                (over_commits.OLDER_CPU, "get : 9876543", "2234567 with changes"),
                *[(over_commits.KAZOO, "get", f"{day}234567 with changes") for day in (1, 2)],
                *[(over_commits.KAZOO_CPU, "get", f"{day}234567 with changes") for day in (1, 2)],
            ],
        )
        lines = over_commits.as_csv(points).splitlines()
        self.assertEqual(len(lines), 1 + len(points))
        self.assertTrue(lines[-1].endswith(",2234567 with changes,1.1,1,1.2,client-2.json"), lines[-1])
        section = over_commits.section(points)
        (fallen,) = section.tables
        self.assertEqual([row[:3] for row in fallen.rows], [[over_commits.KAZOO, "get", "2.1 (2 to 2.2)"]])
        self.assertEqual(len(section.plots), 2)

    def test_no_figure_has_fallen(self) -> None:
        section = over_commits.section(over_commits.find_points([self.client(1, 2.0), self.client(2, 2.1)]))
        self.assertIn("none has fallen", section.about)
        self.assertFalse(section.tables)


class TestClaims(unittest.TestCase):
    def test_tests_and_commands_that_there_are(self) -> None:
        makefile = (ROOT / "Makefile").read_text()
        for claim in claims.CLAIMS:
            with self.subTest(claim.claim):
                self.assertTrue(claim.tests)
                self.assertEqual([each for each in claim.tests if not (ROOT / each).exists()], [])
                program, *words = claim.command.split()
                if program == "make":
                    self.assertIn(f"\n{words[0]}:", makefile)
                else:
                    module = ROOT.joinpath(*words[1].split("."))
                    self.assertTrue((module / "__main__.py").exists() or module.with_suffix(".py").exists())

    def test_every_promise_is_one_that_runs_judge(self) -> None:
        """A renamed figure would count nothing."""
        (section,) = (each for each in whole().parts if getattr(each, "name", "") == claims.NAME)
        assert isinstance(section, Section)
        for row in section.tables[0].rows:
            self.assertNotRegex(row[2], r": 0 (?!of them failed)|not measured")

    def test_runs_with_problems_are_named(self) -> None:
        def faults(seed: int, problems: list[str]) -> Raw:
            promises = {"lock": {"problems": problems, "figures": {"held": 1000}}}
            return raw(f"faults-{seed}.json", seed, {"seed": seed, "promises": promises})

        say = claims._judged(("lock", "held"))
        results = claims.Results([faults(1, []), faults(2, [])], {}, {})
        self.assertEqual(say(results), "2 runs, the last of 2026-11-22: 2,000 held; no problem")
        results = claims.Results([faults(1, []), faults(2, ["two holders"])], {}, {})
        self.assertRegex(say(results), r"problems in \[2\]\(../../docs/runs/faults-2.json\)$")


class TestDurations(unittest.TestCase):
    def test_the_newest_of_the_same_size(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            for number, (scenario, day, size, took_s) in enumerate(
                (("scaling", 1, "medium", 60), ("scaling", 2, "medium", 120), ("scaling", 3, "full", 6000))
            ):
                about = {"date": DATED.format(day), "size": size, "took_s": took_s}
                folder = Path(name, str(number))
                folder.mkdir()
                (folder / f"{scenario}.json").write_text(json.dumps({"scenario": scenario, "about": about}))
            said = estimate([("scaling", ""), ("raft", ""), ("scaling", "x")], "medium", Path(name))
            self.assertEqual(
                said,
                "about 2 minutes, by the newest results in docs/runs: scaling 2, not known of raft, scaling-x",
            )
            self.assertIn("does not say", estimate([("scaling", "")], "small", Path(name)))
