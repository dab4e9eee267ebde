"""Figures over commits: what each committed result says of a figure, and which figures have fallen."""

from __future__ import annotations

import csv
import io
import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any, NamedTuple

from bench import RUNS
from bench.client.measure import CPU, LATENCY
from bench.pages.raw import Raw
from bench.report.charts import draw_lines, make_panels
from bench.report.section import Plot, Section, Table
from bench.report.text import NOTHING
from bench.scenarios import ensembles_added, scaling, writes_deferred
from bench.scenarios.evaluation import SIZES
from bench.scenarios.repetitions import fold
from bench.scenarios.scaling_sizes import LOW
from bench.scenarios.thesis_runs import SCENARIO, best_of
from bench.scenarios.writes_deferred import DEFERRED, MODES, SYNC, requests_s
from bench.statistics import Spread, range_of, ratio

NAME = "over-commits"
TITLE = "Figures over commits"
TOLERANCE = 0.1  # what a figure may lose that was measured once, on another day
LEAST_FALL = 0.01  # ranges of some repetitions are narrower than two days are alike
OLDER = "the client's speed, beside an older client's"
OLDER_CPU = "the client's processor time, beside an older client's"
KAZOO, KAZOO_CPU = "the client's speed, beside its base", "the client's processor time, beside its base"
SCALES = "several ensembles, in requests/s of one"
OTHERS = "deferred writes, growth, one client on one ensemble"
GROUPS = (OLDER, OLDER_CPU, KAZOO, KAZOO_CPU, SCALES, OTHERS)
DATE_FORMAT = "%Y-%m-%dT%H:%M:%S%z"
BESIDE, ROW_INCHES = 3, 1.9  # panels in a row, and its height
DAY_S = 86400
LETTERS = 34  # of a panel's title, in a line


class Point(NamedTuple):
    """What a result says of a figure.

    :param group: of figures that are drawn together.
    :param is_more_better: whether a figure is better if it is higher.
    :param low: of its range, as `high`; both are the value if it was measured once.
    :param source: the file, below docs/runs.
    """

    group: str
    figure: str
    is_more_better: bool
    date: str
    commit: str
    value: float
    low: float
    high: float
    source: str

    def has_fallen_since(self, before: Point) -> bool:
        """Whether its whole range is worse than the whole range of the one before, and it by `LEAST_FALL`.

        What was measured once has a range of `TOLERANCE` to each side.
        """
        (low, high), (low_before, high_before) = self._range(), before._range()
        if abs(self.value / before.value - 1) < LEAST_FALL:
            return False
        return high < low_before if self.is_more_better else low > high_before

    def _range(self) -> tuple[float, float]:
        if self.low != self.high:
            return self.low, self.high
        return self.value * (1 - TOLERANCE), self.value * (1 + TOLERANCE)

    def __str__(self) -> str:
        return f"{self.value:.3g}" + (f" ({self.low:.3g} to {self.high:.3g})" if self.low != self.high else "")


def short(commit: str) -> str:
    """A commit's first digits, and whether there were changes that it does not have."""
    name, _, changes = commit.partition("+")
    return name[:7] + (" with changes" if changes else "")


def find_points(raws: Sequence[Raw]) -> list[Point]:
    """Of all results that have figures, in the order of groups, figures and dates.

    :param raws: the oldest first.
    """
    found: list[Point] = []
    for raw in raws:
        if "comparisons" in raw.document:
            found += _of_client(raw)
        elif raw.document.get("scenario") in _OF_SCENARIO and raw.document["about"]["size"] in SIZES[1:]:
            found += _of_scenario(raw)
    return sorted(found, key=lambda point: (GROUPS.index(point.group), point.figure, point.date))


def _point(raw: Raw, commit: str, group: str, figure: str, value: float, *, is_more_better: bool = True) -> Point:
    low, high = range_of(value)
    source = str(raw.path.relative_to(RUNS))
    return Point(group, figure, is_more_better, raw.date, short(commit), float(value), low, high, source)


def _of_client(raw: Raw) -> Iterator[Point]:
    """The ratios, with their quartiles as range."""
    about = raw.document["about"]
    speed, cpu = (OLDER, OLDER_CPU) if about["old"] else (KAZOO, KAZOO_CPU)
    base = f" : {short(about['old'])}" if about["old"] else ""
    for comparison in raw.document["comparisons"]:
        for each in comparison["results"] if not comparison["error"] else ():
            is_cpu, spread = each["measure"] == CPU.name, each["ratio"]
            kind = f" {LATENCY.name}" if each["measure"] == LATENCY.name else ""
            yield _point(
                raw,
                about["versions"]["commit"],
                cpu if is_cpu else speed,
                f"{comparison['name']}{kind}{base}",
                Spread(spread["median"], spread["low"], spread["high"]),
                is_more_better=not (is_cpu or kind),
            )


def _of_scenario(raw: Raw) -> Iterator[Point]:
    document = {**raw.document, "runs": fold(raw.document["runs"])}
    commit = document["about"]["lab"]["versions"]["commit"]
    for group, figure, value, is_more_better in _OF_SCENARIO[document["scenario"]](document):
        if not math.isnan(value):
            yield _point(raw, commit, group, figure, value, is_more_better=is_more_better)


Found = Iterator[tuple[str, str, float, bool]]  # group, figure, value, whether more is better


def _scaling(document: Mapping[str, Any]) -> Found:
    limit = scaling.limit_of(document)
    under = "" if limit in LOW else f", {limit}"
    for load, of in scaling.times_of_one(document).items():
        for count, times in of.items():
            if count > 1:
                yield SCALES, f"{load}, {count} ensembles{under}", times, True


def _growth(document: Mapping[str, Any]) -> Found:
    for run in document["runs"]:
        for sort, times in ensembles_added.times_as_late(run).items():
            yield OTHERS, f"{sort} as late while ensembles are added ({run['part']})", times, False


def _deferred(document: Mapping[str, Any]) -> Found:
    runs = [run for run in document["runs"] if run["part"] == MODES]
    rates = {run["mode"]: requests_s(run) for run in runs if run["shape"] == runs[0]["shape"]}
    if DEFERRED in rates and rates.get(SYNC):
        yield OTHERS, "deferred writes/s : synchronous", ratio(rates[DEFERRED], rates[SYNC]), True


def _thesis(document: Mapping[str, Any]) -> Found:
    best = best_of(document["runs"], is_limited=False)
    for (subject, load), run in best.items():
        base = best.get((subject.replace("parkazoo", "kazoo"), load))
        if subject.startswith("parkazoo 1x3") and base and base["rates"]["all"]:
            figure = f"{load} on one ensemble{subject.removeprefix('parkazoo 1x3')} : kazoo"
            yield OTHERS, figure, ratio(run["rates"]["all"], base["rates"]["all"]), True


_OF_SCENARIO = {
    scaling.NAME: _scaling,
    ensembles_added.NAME: _growth,
    writes_deferred.NAME: _deferred,
    SCENARIO: _thesis,
}


def as_csv(points: Sequence[Point]) -> str:
    """A line for each point."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(("group", "figure", "better", "date", "commit", "value", "low", "high", "source"))
    for each in points:
        figures = (f"{value:.4g}" for value in (each.value, each.low, each.high))
        better = "more" if each.is_more_better else "less"
        writer.writerow((each.group, each.figure, better, each.date, each.commit, *figures, each.source))
    return file.getvalue()


def _series(points: Sequence[Point]) -> dict[tuple[str, str], list[Point]]:
    """Of each group and figure that was measured more than once, its points, the oldest first."""
    found: dict[tuple[str, str], list[Point]] = {}
    for each in points:
        found.setdefault((each.group, each.figure), []).append(each)
    return {key: some for key, some in found.items() if len(some) > 1}


def section(points: Sequence[Point]) -> Section:
    series = _series(points)
    rows = [
        [group, figure, *_cells(before), *_cells(point), "FELL" if point.has_fallen_since(before) else ""]
        for (group, figure), some in series.items()
        for before, point in pairwise(some)
    ]
    fallen = [row[:-1] for row in rows if row[-1]]
    columns = ("", "figure", "before", "commit", "date", "then", "commit", "date")
    said = f"{len(fallen)} have fallen" if fallen else "none has fallen"
    return Section(
        NAME,
        TITLE,
        "Each figure that was measured more than once. A figure has fallen if its whole range is worse than the "
        f"whole range of the one before, and it by {LEAST_FALL:.0%}; one without repetitions has a range of "
        f"{TOLERANCE:.0%} to each side. Of "
        f"{len(rows)} steps {said}. over-commits.csv has all figures.",
        [Table("Figures that have fallen", columns, fallen)] if fallen else [],
        _plots(series),
        [
            "Results of different days come from different machines: ratios can be compared, if both sides ran "
            "beside each other, and figures in requests/s cannot. So there are none here.",
            "A commit is the one that was measured; the date is that of the measurement.",
        ],
    )


def _cells(point: Point) -> list[str]:
    return [str(point), point.commit, point.date[:10] or NOTHING]


def _plots(series: Mapping[tuple[str, str], Sequence[Point]]) -> list[Plot]:
    plots = []
    for number, group in enumerate(GROUPS):
        some = {figure: points for (of, figure), points in series.items() if of == group}
        if some:
            about = f"{group[0].upper()}{group[1:]}, over the dates of the commits"
            plots.append(Plot(f"{NAME}-{number}", about, _draw(some)))
    return plots


def _draw(figures: Mapping[str, Sequence[Point]]) -> Any:
    """A small panel for each figure."""
    rows = math.ceil(len(figures) / BESIDE)
    whole, panels = make_panels(BESIDE, ROW_INCHES * rows, rows)
    for panel in panels[len(figures) :]:
        panel.set_visible(False)
    for panel, (name, points) in zip(panels, figures.items(), strict=False):
        dates = [datetime.strptime(each.date, DATE_FORMAT).timestamp() / DAY_S for each in points]
        values = (Spread(each.value, each.low, each.high) for each in points)
        draw_lines(panel, {name: list(zip(dates, values, strict=True))}, "", "", "")
        panel.set_title(textwrap.fill(name, LETTERS), fontsize=8)
        panel.set_xticks([dates[0], dates[-1]], [each.date[:10] for each in (points[0], points[-1])])
        panel.margins(x=0.25)
    return whole
