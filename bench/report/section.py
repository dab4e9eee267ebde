"""A part of a report: what a scenario has to show."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.report.text import TOO_SHORT

FIGURE = re.compile(rf"(?:[-\d.,%/* \n]|to|{TOO_SHORT})*")


@dataclass(frozen=True)
class Table:
    """
    :param rows: cells as text; what is in a column tells whether it has figures.
    :param is_prose: cells are sentences rather than figures. They may have links, as in Markdown.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    is_prose: bool = False

    def kinds(self) -> list[str]:
        """Of each column: ``figure`` or ``text``."""
        return [_kind([row[number] for row in self.rows]) for number in range(len(self.columns))]


def _kind(cells: Sequence[str]) -> str:
    return "figure" if all(map(FIGURE.fullmatch, cells)) else "text"


@dataclass(frozen=True)
class Plot:
    """
    :param name: of its file, without the ending.
    :param about: what is to be seen, for those who do not see it.
    :param figure: of matplotlib.
    """

    name: str
    about: str
    figure: Any


@dataclass(frozen=True)
class Answer:
    """A line of the overview.

    :param goal: empty if there is none.
    :param is_met: None if there is no goal.
    """

    asked: str
    goal: str
    measured: str
    is_met: bool | None = None


def goal_is_met(values: Sequence[float], least: float) -> bool | None:
    """Whether all are at least that; None if one of them is no number."""
    return None if any(map(math.isnan, values)) else min(values) >= least


@dataclass(frozen=True)
class Section:
    """
    :param about: what was done, in a few sentences.
    :param answers: for the overview of the whole report.
    :param caveats: what the figures do not say.
    """

    name: str
    title: str
    about: str
    tables: Sequence[Table] = ()
    plots: Sequence[Plot] = ()
    caveats: Sequence[str] = field(default_factory=list)
    answers: Sequence[Answer] = ()


@dataclass(frozen=True)
class Front:
    """What a reader of a report sees first.

    :param answers: of each question, a sentence.
    :param plots: one, or none if there is nothing to draw.
    :param sections: what follows, before the goals and the scenarios.
    """

    answers: Mapping[str, str]
    plots: Sequence[Plot] = ()
    sections: Sequence[Section] = ()
