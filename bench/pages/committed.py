"""The page of all committed results, docs/evaluation/index.html, with its plots and its figures over commits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from bench import ROOT
from bench.pages import beside, claims, over_commits
from bench.pages.chosen import choose
from bench.pages.client_ratios import medians
from bench.pages.raw import Raw, read_all
from bench.report.page import SVG, make_page
from bench.report.section import Front, Section
from bench.scenarios import reported
from bench.scenarios.conclusions import make_front
from bench.scenarios.results import TITLE, draw, show
from bench.scenarios.thesis_runs import SCENARIO

FOLDER = ROOT / "docs" / "evaluation"
PAGE, FIGURES = "index.html", "over-commits.csv"


class Whole(NamedTuple):
    """All that is in the folder.

    :param texts: of each file's name, what is in it.
    :param parts: of the page; they have the plots.
    """

    texts: dict[str, str]
    parts: list[Section | Front]

    def is_stale(self, folder: Path = FOLDER) -> bool:
        """Whether a text differs, a plot is missing, or there is one too many. A plot's own lines do not count:
        they depend on matplotlib."""
        plots = {f"{plot.name}.{SVG}" for part in self.parts for plot in part.plots}
        return {path.name for path in folder.glob(f"*.{SVG}")} != plots or any(
            not (folder / name).exists() or (folder / name).read_text() != text
            for name, text in self.texts.items()
        )

    def write(self, folder: Path = FOLDER) -> None:
        """Draws all plots, and removes those that the page no longer has."""
        folder.mkdir(exist_ok=True)
        for path in folder.glob(f"*.{SVG}"):
            path.unlink()
        for name, picture in draw(self.parts, SVG).items():
            (folder / f"{name}.{SVG}").write_bytes(picture)
        for name, text in self.texts.items():
            (folder / name).write_text(text)


def make() -> Whole:
    """From docs/runs.

    :raises PageError: a table of another page that is shown here cannot be made.
    """
    raws = read_all("**/*.json")
    chosen = choose(raws)
    measured = [show(raw.document) for raw in chosen.values()]
    ratios = medians([raw for raw in raws if "comparisons" in raw.document])
    answers = {section.name: section.answers for section in measured}
    points = over_commits.find_points(raws)
    thesis = [raw.document for raw in chosen.values() if raw.document["scenario"] == SCENARIO]
    before = [beside.section(thesis), claims.section(raws, answers, ratios), over_commits.section(points)]
    front = replace(make_front({name: raw.document for name, raw in chosen.items()}, ratios), sections=before)
    sections = [*measured, reported.section()]
    parts: list[Section | Front] = [front, *before, *sections]
    pictures = {plot.name: f"{plot.name}.{SVG}" for part in parts for plot in part.plots}
    titles = {section.name: section.title for section in measured}
    setting = {titles[name]: _source(raw) for name, raw in chosen.items()}
    page = make_page(TITLE, setting, sections, pictures, front)
    return Whole({PAGE: page, FIGURES: over_commits.as_csv(points)}, parts)


def _source(raw: Raw) -> str:
    """When and how results were measured, and their file."""
    about = raw.document["about"]
    return (
        f"{raw.date[:10]}, commit {over_commits.short(about['lab']['versions']['commit'])}, {about['size']}, "
        f"seed {about['seed']}, {about['took_s'] / 60:.0f} minutes: {raw.path.relative_to(ROOT)}"
    )
