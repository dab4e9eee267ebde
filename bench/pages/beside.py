"""The reports' figures beside ours: the thesis' here, the others' as the pages of docs/design have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from bench import ROOT
from bench.pages.marked import pages, tables
from bench.pages.report_tables import Line, command_of, table_of, times
from bench.published import THESIS
from bench.report.section import Section, Table
from bench.report.text import rate
from bench.scenarios.repetitions import fold
from bench.scenarios.thesis_figures import COMPARED
from bench.scenarios.thesis_runs import times_of_base

NAME = "beside"
COLUMN = "like with like?"  # of the tables that are meant


def section(thesis: Sequence[Mapping[str, Any]]) -> Section:
    """
    :param thesis: the results of its scenario, or of its parts.
    """
    found = [
        table for page in pages(ROOT / "docs" / "design") for table in tables(page) if COLUMN in table.columns
    ]
    return Section(
        NAME,
        "The reports' figures and ours",
        "A ratio is ours divided by theirs. docs/design says more of each, and the last section here names each "
        "table and figure of the reports.",
        [_as_prose(each) for each in ([_thesis(thesis)] if thesis else []) + found],
    )


def _thesis(documents: Sequence[Mapping[str, Any]]) -> Table:
    """What it compared: three ensembles and one."""
    ours = times_of_base([run for each in documents for run in fold(each["runs"])])
    command = command_of({**documents[0], "part": ""})
    lines = [
        Line(
            f"{each.load}, {each.of}: three ensembles, in kazoo's requests/s on one ({each.source})",
            rate(each.times),
            rate(ours[each.of][each.load]),
            times(ours[each.of][each.load], each.times),
            f"no: theirs of {each.three_with or 'unnamed hosts'} and {each.one_with}; ours of one sweep on both "
            "sides, with limited bandwidth",
            command,
        )
        for each in COMPARED
        if each.load in ours.get(each.of, {})
    ]
    return replace(table_of(lines), title=THESIS.name)


def _as_prose(table: Table) -> Table:
    rows = [[_cell(each) for each in row] for row in table.rows]
    return replace(table, columns=[each or "what" for each in table.columns], rows=rows, is_prose=True)


def _cell(text: str) -> str:
    """Without Markdown; a figure's range stands in parentheses after it."""
    head, _, rest = text.replace("`", "").partition("\n")
    return f"{head} ({rest})" if rest else head
