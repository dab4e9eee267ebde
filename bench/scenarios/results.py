"""Makes a report from the results that are saved in a folder."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.report.page import PNG, embed, make_page, make_picture
from bench.report.section import Front, Section
from bench.report.text import in_words
from bench.scenarios import reported
from bench.scenarios.catalogue import SCENARIOS, title_of
from bench.scenarios.caveats import caveats_of
from bench.scenarios.conclusions import make_front
from bench.scenarios.evaluation import stem
from bench.scenarios.host_plots import make_host_plots
from bench.scenarios.repetitions import fold

REPORT = "report.html"
TITLE = "ParKazoo: the evaluation"
MEASURED = ("runs", "trials", "uploads")  # entries of a document that have figures


class ReportError(Exception):
    """There can be no report. The message says why and what to do."""


def read_documents(folder: Path) -> list[dict[str, Any]]:
    """Of each scenario that has results there, in their order; those of its parts too.

    :raises ReportError: none has.
    """
    names = [f"{name}.json" for name in SCENARIOS]
    paths = [
        path for name in SCENARIOS for path in (folder / f"{name}.json", *sorted(folder.glob(f"{name}-*.json")))
    ]
    documents = [_read(path) for path in paths if path.exists()]
    if not documents:
        raise ReportError(
            f"{folder} has no results: there is none of {', '.join(names)}. python -m bench.scenarios makes some"
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
    name, part = document["scenario"], document.get("part", "")
    whole = stem(name, part)
    if not any(document.get(each) for each in MEASURED):
        return Section(whole, title_of(name, part), "Nothing was measured.", caveats=caveats_of(document))
    try:
        section = SCENARIOS[name].show({**document, "runs": fold(document["runs"])})
    except (KeyError, TypeError, IndexError) as error:
        raise ReportError(f"the results of {whole} are damaged: {type(error).__name__} {error}") from error
    plots = [replace(plot, name=whole + plot.name.removeprefix(name)) for plot in section.plots]
    return replace(section, name=whole, title=title_of(name, part), plots=plots)


def make_report(folder: Path) -> Path:
    """Write report.html, and a PNG file for each plot, into the folder of the results.

    :raises ReportError: there are no results, or damaged ones.
    """
    documents = read_documents(folder)
    measured = [_with_hosts(document, folder) for document in documents]
    front = make_front({stem(each["scenario"], each.get("part", "")): each for each in documents}, {})
    sections = [*measured, reported.section()]
    pictures = draw([front, *sections])
    for name, picture in pictures.items():
        (folder / f"{name}.png").write_bytes(picture)
    path = folder / REPORT
    embedded = {name: embed(picture) for name, picture in pictures.items()}
    path.write_text(make_page(TITLE, describe_setting(documents), sections, embedded, front))
    return path


def _with_hosts(document: Mapping[str, Any], folder: Path) -> Section:
    """And what each host did, which is in no document: it would be far longer than all else."""
    section = show(document)
    return replace(section, plots=[*section.plots, *make_host_plots(document, folder, section.name)])


def draw(parts: Iterable[Section | Front], kind: str = PNG) -> dict[str, bytes]:
    """Of each plot's name, its file."""
    return {plot.name: make_picture(plot.figure, kind) for part in parts for plot in part.plots}


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
