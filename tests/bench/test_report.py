"""A report from saved results, compared with the one that they are known to make.

PARKAZOO_TEST_RENEW=1 writes the known one anew; look at the difference before it is committed.
"""

from __future__ import annotations

import io
import json
import os
import re
import struct
import tempfile
import unittest
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.report import text
from bench.report.charts import draw_bars, draw_lines, make_panels
from bench.report.page import SVG, embed, make_page, make_picture
from bench.report.section import Answer, Front, Plot, Section, Table
from bench.report.terminal import print_section
from bench.scenarios import elections, reported
from bench.scenarios.catalogue import SCENARIOS
from bench.scenarios.conclusions import make_front
from bench.scenarios.repetitions import FOLDED
from bench.scenarios.results import ReportError, describe_setting, draw, make_report, read_documents, show
from bench.statistics import spread
from tests.bench.command import run_module

SAVED = Path(__file__).with_name("saved")
KNOWN = SAVED / "report.html"
LONG_S = 1000.0  # long enough for all latencies that are saved
RANGE = re.compile(r"\n\S+ to \S+$")
# Tables of what is no run, and so is not repeated as one.
OF_TRIALS = ("Seconds from the loss", "Milliseconds that the election", "Restarted", "A matrix", "The thesis' own")
IMAGE = re.compile(r'<img alt="([^"]*)" src="([^"]*)"')
OUTSIDE = re.compile(r'(?:src|href)="(?!data:image/png;base64,|#)')


class Elements(HTMLParser):
    """Whether elements are closed as they were opened."""

    VOID = ("meta", "img")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.seen.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


@cache
def sections() -> list[Section]:
    return [show(document) for document in read_documents(SAVED)]


def whole() -> list[Section]:
    return [*sections(), reported.section()]


@cache
def front() -> Front:
    return make_front({each["scenario"]: each for each in read_documents(SAVED)}, {"first-child": 4.0})


def plots() -> list[str]:
    """The names of all."""
    return [plot.name for part in (front(), *whole()) for plot in part.plots]


def page() -> str:
    """With the plots' names in place of the pictures: these depend on matplotlib."""
    pictures = {name: embed(name.encode()) for name in plots()}
    return make_page("A report", describe_setting(read_documents(SAVED)), whole(), pictures, front())


class TestReport(unittest.TestCase):
    def test_the_page_is_the_known_one(self) -> None:
        if os.environ.get("PARKAZOO_TEST_RENEW"):
            KNOWN.write_text(page())
        self.assertEqual(page().splitlines(), KNOWN.read_text().splitlines())

    def test_every_scenario_is_in_it(self) -> None:
        self.assertEqual([section.name for section in sections()], list(SCENARIOS))
        for section in sections():
            with self.subTest(section.name):
                self.assertTrue(section.about and section.tables and section.plots and section.caveats)
                for table in section.tables:
                    self.assertEqual(
                        {len(row) for row in table.rows} or {len(table.columns)}, {len(table.columns)}
                    )

    def test_plots_have_names_of_their_own(self) -> None:
        self.assertEqual(len(plots()), len(set(plots())))
        for name in plots():
            self.assertRegex(name, r"^[a-z0-9-]+$")

    def test_files(self) -> None:
        """One page that needs no other file, and a PNG file of each plot."""
        with tempfile.TemporaryDirectory() as folder:
            for path in SAVED.glob("*.json"):
                Path(folder, path.name).write_text(path.read_text())
            made = make_report(Path(folder)).read_text()
            pictures = {path.stem: path.read_bytes() for path in Path(folder).glob("*.png")}
        self.assertEqual(set(pictures), set(plots()))
        for name, picture in pictures.items():
            with self.subTest(name):
                self.assertEqual(picture[:8], b"\x89PNG\r\n\x1a\n")
                width, height = struct.unpack(">II", picture[16:24])
                self.assertGreater(width, height)
        self.assertEqual(len(IMAGE.findall(made)), len(pictures))
        self.assertTrue(all(alt for alt, _ in IMAGE.findall(made)))
        self.assertIsNone(OUTSIDE.search(made))
        self.assertIn('<meta name="viewport"', made)
        elements = Elements()
        elements.feed(made)
        self.assertEqual((elements.wrong, elements.open), ([], []))
        self.assertNotIn("script", elements.seen)

    def test_on_a_terminal(self) -> None:
        console = Console(width=100, file=io.StringIO())
        for section in sections():
            print_section(console, section)
        said = console.file.getvalue()  # type: ignore[attr-defined]
        for section in sections():
            self.assertIn(section.title, said)

    def test_markup_in_results_is_only_text(self) -> None:
        section = Section("x", "<b>", "&", [Table("<i>", ("a",), [["<script>"]])], [], ["<u>"])
        made = make_page("<h1>", {"<td>": "<"}, [section], {})
        for each in ("<b>&", "<i>", "<script>", "<u>", "<h1><h1>"):
            self.assertNotIn(each, made)

    def test_columns_of_figures(self) -> None:
        table = Table("", ("a", "b", "c"), [["1x3", "1,234 *", "-"], ["3x3", "12%", "0.5"]])
        self.assertEqual(table.kinds(), ["text", "figure", "figure"])
        self.assertEqual(Table("", ("a",), [["1,234 *\n1,200 to 1,300"], ["-"]]).kinds(), ["figure"])


class TestFront(unittest.TestCase):
    def test_first_of_all(self) -> None:
        figure, _ = make_panels(1)
        front = Front({"a & b?": "Yes."}, [Plot("p", "about", figure)], [Section("x", "X", "first")])
        made = make_page("t", {}, [Section("y", "Y", "then")], {"p": "p.svg"}, front)
        self.assertIn("<h2>a &amp; b?</h2><p>Yes.</p>", made)
        self.assertIn('<img alt="about" src="p.svg" width="800" height="360"', made)
        order = [made.index(each) for each in ("Yes.", "p.svg", "<nav>", 'id="x"', "Setting", 'id="y"')]
        self.assertEqual(order, sorted(order))

    def test_links_in_prose(self) -> None:
        prose = Table("", ("a", "b"), [["[x & y](z.md#w)", "[<b>](c)"]], is_prose=True)
        made = make_page("t", {}, [Section("x", "X", "", [prose])], {})
        self.assertIn('<a href="z.md#w">x &amp; y</a>', made)
        self.assertIn('<a href="c">&lt;b&gt;</a>', made)

    def test_an_svg_file_of_the_same_figure_is_the_same(self) -> None:
        pictures = []
        for _ in range(2):
            figure, (panel,) = make_panels(1)
            draw_lines(panel, {"a": [(1, 5.0), (2, 6.0)]}, "words", "", "")
            pictures.append(make_picture(figure, SVG))
        self.assertEqual(*pictures)
        self.assertIn(b">words</text>", pictures[0])


class TestPlots(unittest.TestCase):
    def test_what_was_repeated_has_its_range(self) -> None:
        _, (panel,) = make_panels(1)
        draw_lines(panel, {"a": [(1, 5.0), (2, spread([2, 9, 3]))]}, "", "", "")
        (segment,) = panel.containers[0].lines[2][0].get_segments()
        self.assertEqual(segment.tolist(), [[2, 2], [2, 9]])

    def test_bars_with_ranges_goals_and_a_reports_own_figures(self) -> None:
        _, (panel,) = make_panels(1)
        bars = {"x": {"a": spread([2, 9, 3]), "b": 5.0}, "y": {"a": 1.0}}
        draw_bars(panel, bars, "", "", {"b": 7.0}, {"x": {"b": 4.0, "c": 8.0}, "z": {"a": 1.0}})
        ranges = panel.containers[0].lines[2][0].get_segments()
        self.assertEqual(
            [each.round(3).tolist() for each in ranges], [[[-0.2, 2], [-0.2, 9]], [[0.8, 5], [0.8, 5]]]
        )
        crosses, goal = panel.lines[-2:]
        self.assertEqual(crosses.get_xydata().round(3).tolist(), [[0.8, 4]])
        self.assertEqual((crosses.get_label(), goal.get_label()), ("the report's own", "goal"))
        self.assertEqual(set(goal.get_ydata()), {7.0})


class TestOverview(unittest.TestCase):
    def test_first_of_all(self) -> None:
        answers = [Answer("a & b?", "at least 2", "1", False), Answer("c?", "", "3"), Answer("d?", "", "4", True)]
        made = make_page("t", {}, [Section("x", "X", "", answers=answers)], {})
        self.assertIn('<a href="#x">a &amp; b?</a></td><td data-name="goal">at least 2</td>', made)
        self.assertIn('<td class="missed">not met</td>', made)
        self.assertIn('<td data-name="measured">3</td><td></td>', made)
        self.assertIn('<td class="met">met</td>', made)
        self.assertLess(made.index("not met"), made.index('<section id="x">'))

    def test_no_answers_no_overview(self) -> None:
        self.assertNotIn("Overview", make_page("t", {}, [Section("x", "X", "")], {}))

    def test_every_scenario_answers(self) -> None:
        """Those whose saved results have what they ask for."""
        self.assertEqual(
            [section.name for section in sections() if section.answers],
            [*SCENARIOS][1:],
            "thesis: no 3x3 is saved",
        )


def with_windows(document: Mapping[str, Any], measure_s: float) -> dict[str, Any]:
    """As if all its loads had been measured so long."""
    runs = [{**each, "plan": {**each["plan"], "measure_s": measure_s}} for each in document["runs"]]
    return {**document, "runs": runs}


def repeated(document: dict[str, Any]) -> dict[str, Any]:
    """Each run of it was run again, and did twice as much."""
    runs = []
    for number, run in enumerate(document["runs"]):
        rates = {sort: 2 * each for sort, each in run["rates"].items()}
        figures = {name: run[name] for name in FOLDED if name in run and name != "rates"}
        again = {name: 2 * each if type(each) is int else doubled(each) for name, each in figures.items()}
        runs += [{**run, "repeats": 2 * number}, {**run, "repeats": 2 * number, "rates": rates, **again}]
    return {**document, "runs": runs}


def doubled(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: doubled(each) for key, each in value.items()}
    if isinstance(value, list):
        return [doubled(each) for each in value]
    return 2 * value if isinstance(value, float) else value


class TestFailed(unittest.TestCase):
    def test_every_scenario_shows_the_others(self) -> None:
        """If one of its loads has failed: the first, the last or one between."""
        for document in read_documents(SAVED):
            runs = document["runs"]
            for number in sorted({0, len(runs) // 2, len(runs) - 1}):
                missing = {"what": "kazoo on 1x3", "why": "h1: it died"}
                left = {**document, "runs": runs[:number] + runs[number + 1 :], "not_measured": [missing]}
                with self.subTest(document["scenario"], number=number):
                    self.assertIn("Not measured: kazoo on 1x3: h1: it died.", show(left).caveats)


class TestRepeated(unittest.TestCase):
    def test_every_scenario_shows_ranges(self) -> None:
        for document in (with_windows(each, LONG_S) for each in read_documents(SAVED)):
            before = show(document)
            with self.subTest(before.name):
                section = show(repeated(document))
                for table, alone in zip(section.tables, before.tables, strict=True):
                    self.assertEqual(len(table.rows), len(alone.rows), table.title)
                    if not table.title.startswith(OF_TRIALS):
                        cells = [cell for row in table.rows for cell in row]
                        self.assertTrue([cell for cell in cells if RANGE.search(cell)], table.title)
                self.assertEqual([plot.name for plot in section.plots], [plot.name for plot in before.plots])
                draw([replace(section, plots=section.plots[:1])])  # all are drawn in test_files
                if before.name != elections.NAME:  # whose trials are repetitions of each other
                    self.assertIn("2 times each", section.about)
                self.assertNotIn("2 times each", before.about)


class TestReported(unittest.TestCase):
    def test_ours_are_named_as_they_are_called(self) -> None:
        """Each item says where ours are, or that there are none."""
        known = (*(f"{name}:" for name in SCENARIOS), "python -m ", "docs/", "not measured")
        for items in reported.REPORTS.values():
            for item in items:
                self.assertTrue(item.ours.startswith(known), item.ours)

    def test_what_a_report_says_of_itself(self) -> None:
        """Each has authors and a title, and no item is without a word of theirs."""
        self.assertEqual(len(reported.REPORTS), 5)
        for items in reported.REPORTS.values():
            for item in items:
                self.assertTrue(item.what and item.theirs, item)


class TestMistakes(unittest.TestCase):
    def folder(self, **files: str) -> Path:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for name, content in files.items():
            Path(folder.name, f"{name}.json").write_text(content)
        return Path(folder.name)

    def test_nothing_there(self) -> None:
        with self.assertRaisesRegex(ReportError, "has no results: there is none of thesis.json, scaling.json"):
            make_report(self.folder())

    def test_damaged(self) -> None:
        with self.assertRaisesRegex(ReportError, "scaling.json cannot be read"):
            make_report(self.folder(scaling="{"))
        document = json.loads((SAVED / "scaling.json").read_text())
        del document["runs"][0]["rates"]
        with self.assertRaisesRegex(ReportError, "the results of scaling are damaged: KeyError 'rates'"):
            make_report(self.folder(scaling=json.dumps(document)))

    def test_a_scenario_that_measured_nothing(self) -> None:
        """It says why."""
        document = json.loads((SAVED / "scaling.json").read_text())
        document["runs"] = []
        document["not_measured"] = [{"what": "all of it", "why": "no machine"}]
        made = make_report(self.folder(scaling=json.dumps(document))).read_text()
        self.assertIn("all of it: no machine", made)

    def test_by_command(self) -> None:
        ran = run_module("bench.report", str(self.folder()))
        self.assertEqual((ran.returncode, ran.stdout), (1, ""))
        self.assertIn("has no results", ran.stderr)


class TestText(unittest.TestCase):
    def test_figures(self) -> None:
        self.assertEqual(
            [text.rate(each) for each in (None, 0.0, 1.2345, 99.96, 1234.5)], ["-", "0", "1.23", "100", "1,234"]
        )
        self.assertEqual(
            [text.milliseconds(each) for each in (None, 0.0012345, 0.5, 12)], ["-", "1.23", "500", "12,000"]
        )
        self.assertEqual(
            [text.size(each) for each in (10, 1024, 1000, 10_000, 1_000_000)],
            ["10 B", "1 KiB", "1 kB", "10 kB", "1 MB"],
        )
        self.assertEqual(text.ratio(3, 2), "1.50")
        self.assertEqual(text.ratio(3, 0), "-")
        self.assertEqual(text.rate(spread([100.0, 300.0, 200.0])), "200\n100 to 300")
        self.assertEqual(text.rate(spread([67.11, 67.12])), "67.1")  # no range that could be read
        self.assertEqual(text.rate_of({"rates": {"all": 7.0}, "limits": ["x"]}), "7 *")
