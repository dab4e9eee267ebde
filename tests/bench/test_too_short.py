"""A window of measuring is at least ten times the median latency, or there is "too short" instead of a figure."""

from __future__ import annotations

import tempfile
import unittest
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

from bench.load.record import ANSWERED
from bench.load.requests import GET
from bench.loopback import Loopback
from bench.report.charts import draw_bars, draw_lines, make_panels
from bench.report.section import Section, goal_is_met
from bench.report.text import TOO_SHORT, rate, rate_of, ratio, share
from bench.scenarios.catalogue import SCENARIOS
from bench.scenarios.evaluation import MOST_WINDOW_S, Evaluation
from bench.scenarios.repetitions import TRACED, fold
from bench.scenarios.results import draw, read_documents, show
from bench.scenarios.summary import is_too_short, latency_s, longer_window_s, mean_latency_s, summarise
from bench.statistics import NO_FIGURE, encode, is_long_enough, make_histogram, spread
from tests.bench.test_report import LONG_S, SAVED, with_windows
from tests.bench.test_summary import result

MS = 1_000_000  # in ns


def latencies(*medians_ms: int) -> list[str]:
    return [encode(make_histogram([median * MS] * 3)) for median in medians_ms]


def run(took_s: float, measure_s: float = 2.0, **entries: Any) -> dict[str, Any]:
    """With answers all the time, each of which took so long."""
    requests = [(101 + number / 20, took_s, GET, ANSWERED) for number in range(int(20 * measure_s))]
    one = result(*requests, measure_s=measure_s)
    return {"shape": "1x3", "system": "kazoo", **summarise([one], {"m": 0.99}, 1.0), **entries}


class TestRule(unittest.TestCase):
    def test_ten_times_the_median(self) -> None:
        self.assertTrue(is_long_enough(5.0, latencies(499)))
        self.assertFalse(is_long_enough(5.0, latencies(501)))

    def test_of_several_sorts_the_slowest_counts(self) -> None:
        self.assertFalse(is_long_enough(5.0, latencies(3, 1900)))
        self.assertTrue(is_long_enough(19.1, latencies(3, 1900)))

    def test_where_nothing_was_answered(self) -> None:
        """Its latency is more than the window, however long that was."""
        self.assertFalse(is_long_enough(1000.0, []))

    def test_a_run(self) -> None:
        self.assertFalse(is_too_short(run(0.1)))
        self.assertTrue(is_too_short(run(0.24)))
        self.assertIsNone(longer_window_s(run(0.1)))
        self.assertEqual(longer_window_s(run(0.24)), 3)  # 1.2 times ten medians, and whole seconds
        self.assertIsNone(longer_window_s({"plan": {"measure_s": 1.0}, "latency": {}}))


class TestInsteadOfFigures(unittest.TestCase):
    def test_words(self) -> None:
        (short,), (long,) = fold([run(0.25)]), fold([run(0.1)])
        self.assertEqual(rate_of(short), TOO_SHORT)
        self.assertRegex(rate_of(long), r"^\d+ \*$")
        self.assertEqual((latency_s(short, "reads", 50), mean_latency_s(short, "reads")), (None, None))
        self.assertIsNotNone(latency_s(long, "reads", 50))

    def test_one_of_several_repetitions(self) -> None:
        """To leave out the slow one would choose the fast ones."""
        (folded,) = fold([run(0.1, repeats=0), run(0.25, repeats=0), run(0.1, repeats=0)])
        self.assertEqual(rate_of(folded), TOO_SHORT)

    def test_what_is_worked_out_from_it(self) -> None:
        for figure in (
            rate(NO_FIGURE),
            ratio(NO_FIGURE, 3),
            ratio(3, NO_FIGURE),
            ratio(spread([1.0, 2.0]), NO_FIGURE),
            share(NO_FIGURE),
        ):
            self.assertEqual(figure, TOO_SHORT)
        self.assertIsNone(goal_is_met([3.0, NO_FIGURE], 2))
        self.assertEqual((goal_is_met([3.0], 2), goal_is_met([3.0, 1.0], 2)), (True, False))

    def test_it_is_not_drawn(self) -> None:
        _, (panel,) = make_panels(1)
        draw_bars(panel, {"x": {"a": NO_FIGURE, "b": 2.0}}, "", "")
        self.assertEqual([bar.get_height() for bar in panel.patches], [2.0])
        _, (panel,) = make_panels(1)
        draw_lines(panel, {"x": [(1, 5.0), (2, NO_FIGURE), (3, 7.0)]}, "", "", "")
        drawn = [y for y in panel.lines[0].get_ydata() if y == y]
        self.assertEqual(drawn, [5.0, 7.0])

    def test_a_trace_of_a_fault_is_none(self) -> None:
        """It shows single requests while something happens. Their latency is that of the fault."""
        (trace,) = fold([run(0.25, noticed=[])])
        self.assertNotEqual(rate_of(trace), TOO_SHORT)


def cells(section: Section) -> Iterable[str]:
    return (cell for table in section.tables for row in table.rows for cell in row)


class TestReports(unittest.TestCase):
    def test_every_scenario_says_it(self) -> None:
        """Of results that are saved, when the report is made: also if no run has figures at all."""
        for document in read_documents(SAVED):
            with self.subTest(document["scenario"]):
                short, long = (show(with_windows(document, measure_s)) for measure_s in (1e-6, LONG_S))
                self.assertNotIn(TOO_SHORT, [*cells(long)])
                self.assertFalse([each for each in long.caveats if TOO_SHORT in each])
                if all(any(name in each for name in TRACED) for each in document["runs"]):
                    self.assertNotIn(TOO_SHORT, [*cells(short)])
                    continue
                self.assertIn(TOO_SHORT, [*cells(short)])
                self.assertTrue([each for each in short.caveats if TOO_SHORT in each])
                self.assertFalse([cell for cell in cells(short) if "nan" in cell.lower()])
                for answer in short.answers:
                    self.assertNotIn("nan", answer.measured)
                draw([replace(short, plots=short.plots[:1])])

    def test_windows_that_were(self) -> None:
        """Of 128 clients with 1.4 s a call 16.4 a second ended: a figure without a meaning."""
        requests = [(100 + number / 100, 1.4, GET, ANSWERED) for number in range(16)]
        found = run(0.1) | summarise([result(*requests, measure_s=1.0)], {"m": 0.99}, 1.0) | {"repeats": 0}
        self.assertEqual(found["rates"]["all"], 16)
        self.assertTrue(is_too_short(found))
        (folded,) = fold([found])
        self.assertEqual(rate_of(folded), TOO_SHORT)


class Measured(Evaluation):
    """Whose loads take as long as it is told, one after the other."""

    def __init__(self, folder: Path, *took_s: float) -> None:
        self.said: list[str] = []
        super().__init__(Loopback(1), next(iter(SCENARIOS)), folder, "small", tell=self.said.append)
        self.windows: list[float] = []
        self._took_s = [*took_s]

    def _summary(self, ensembles: Any, plan: Any, *_: Any) -> dict[str, Any]:
        self.windows.append(plan.measure_s)
        return run(self._took_s.pop(0), plan.measure_s, raw=[])

    def load(self, meanwhile: Any = None, has_figures: bool = True, **settings: Any) -> None:
        ensembles = mock.Mock()
        ensembles.hosts.return_value = "h:1"
        plan = self.plan(ensembles, "kazoo", write="set", measure_s=2.0, **settings)
        self.run(ensembles, plan, {"load": "x"}, meanwhile, has_figures=has_figures)


class TestMeasuring(unittest.TestCase):
    def measure(self, took_s: Sequence[float], loads: int = 1, **settings: Any) -> Measured:
        with tempfile.TemporaryDirectory() as folder:
            evaluation = Measured(Path(folder), *took_s)
            for _ in range(loads):
                evaluation.load(**settings)
        self.assertEqual(len(evaluation.document["runs"]), loads)
        return evaluation

    def test_once_more(self) -> None:
        """For as long as it takes; the next one of its kind is so long at once."""
        evaluation = self.measure((0.5, 0.5, 0.5), loads=2)
        self.assertEqual(evaluation.windows, [2.0, 7.0, 7.0])
        self.assertIn("  a window of 2 s is too short; once more, for 7 s", evaluation.said)
        self.assertFalse([each for each in evaluation.said if each.startswith(f"  {TOO_SHORT}")])

    def test_long_enough(self) -> None:
        self.assertEqual(self.measure((0.1, 0.1), loads=2).windows, [2.0, 2.0])

    def test_what_remains_too_short_is_said(self) -> None:
        for took_s, settings in (
            ((MOST_WINDOW_S / 10,), {}),
            ((0.5,), {"rate_s": 20.0}),  # a rate that is not achieved takes longer and longer
            ((0.5,), {"meanwhile": print}),
            ((0.5,), {"has_figures": False}),
        ):
            evaluation = self.measure(took_s, **settings)
            self.assertEqual(evaluation.windows, [2.0])
            self.assertTrue(evaluation.said[-1].startswith(f"  {TOO_SHORT}"), evaluation.said)

    def test_twice_at_most(self) -> None:
        evaluation = self.measure((0.5, 0.9))
        self.assertEqual(evaluation.windows, [2.0, 7.0])
        self.assertTrue(evaluation.said[-1].startswith(f"  {TOO_SHORT}"))


if __name__ == "__main__":
    unittest.main()
