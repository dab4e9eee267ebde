"""Makes a report from the results that are saved in a folder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.report.page import make_page, make_picture
from bench.report.section import Section
from bench.report.text import in_words
from bench.scenarios import reported
from bench.scenarios.catalogue import SCENARIOS
from bench.scenarios.caveats import caveats_of
from bench.scenarios.repetitions import fold

REPORT = "report.html"
TITLE = "ParKazoo: the evaluation"


class ReportError(Exception):
    """There can be no report. The message says why and what to do."""


def read_documents(folder: Path) -> list[dict[str, Any]]:
    """Of each scenario that has results there, in their order.

    :raises ReportError: none has.
    """
    paths = [folder / f"{name}.json" for name in SCENARIOS]
    documents = [_read(path) for path in paths if path.exists()]
    if not documents:
        raise ReportError(
            f"{folder} has no results: there is none of {', '.join(path.name for path in paths)}. "
            "python -m bench.scenarios makes some"
        )
    return documents


def _read(path: Path) -> dict[str, Any]:
    try:
        document: dict[str, Any] = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ReportError(f"{path} cannot be read: {error}") from None
    return document


def show(document: Mapping[str, Any]) -> Section:
    """
    :raises ReportError: the document is damaged.
    """
    name = document["scenario"]
    if not document["runs"]:
        return Section(name, SCENARIOS[name].TITLE, "Nothing was measured.", caveats=caveats_of(document))
    try:
        return SCENARIOS[name].show({**document, "runs": fold(document["runs"])})
    except (KeyError, TypeError, IndexError) as error:
        raise ReportError(f"the results of {name} are damaged: {type(error).__name__} {error}") from error


def make_report(folder: Path) -> Path:
    """Write report.html, and a PNG file for each plot, into the folder of the results.

    :raises ReportError: there are no results, or damaged ones.
    """
    documents = read_documents(folder)
    sections = [*(show(document) for document in documents), reported.section()]
    pictures = draw(sections)
    for name, picture in pictures.items():
        (folder / f"{name}.png").write_bytes(picture)
    path = folder / REPORT
    path.write_text(make_page(TITLE, describe_setting(documents), sections, pictures))
    return path


def draw(sections: Sequence[Section]) -> dict[str, bytes]:
    """Of each plot's name, its PNG file."""
    return {plot.name: make_picture(plot.figure) for section in sections for plot in section.plots}


def describe_setting(documents: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """What holds for all, and how busy the processors were."""
    about = documents[0]["about"]
    lab = about["lab"]
    runs = [run for document in documents for run in document["runs"]]
    busy = [share for run in runs for share in run["busy"].values()]
    took_s = sum(document["about"]["took_s"] for document in documents)
    setting = {
        "date": f"{about['date']}, {took_s / 60:.0f} minutes",
        "lab": str(lab["kind"]),
        **{name.replace("_", " "): in_words(value) for name, value in lab.items() if name != "kind"},
        "size": about["size"],
        "seed": str(about["seed"]),
        "client hosts": str(about["clients"]),
    }
    if busy:
        setting["processors busy"] = f"{min(busy):.0%} to {max(busy):.0%}, while something was measured"
    return setting
