"""Pages with generated tables. A comment names the generator and its raw files; the table stands after it:

    <!-- table: GENERATOR FILE [FILE ...] [NAME=VALUE ...] -->
    <!-- end of table -->

Files are patterns below docs/runs. ``columns=0,2`` keeps these columns alone; other names are the generator's.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench import RUNS
from bench.pages.generators import GENERATORS
from bench.pages.raw import read_all
from bench.report.markdown import as_markdown
from bench.report.section import Table

MARKED = re.compile(r"<!-- table: (?P<marker>[^\n]*?) -->\n(?P<table>.*?)<!-- end of table -->", re.DOTALL)
BEGIN = "<!-- table:"
HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)


class PageError(Exception):
    """A table cannot be made. The message says which one, and why."""


@dataclass(frozen=True)
class Order:
    """What a marker asks for."""

    generator: str
    patterns: Sequence[str]
    options: dict[str, str]


def pages(folder: Path) -> list[Path]:
    """Those below the folder that have generated tables."""
    return [page for page in sorted(folder.rglob("*.md")) if BEGIN in page.read_text()]


def stale_tables(page: Path) -> list[str]:
    """The markers of the tables that differ from their raw files.

    :raises PageError: a table cannot be made.
    """
    return [found["marker"] for found in _marked(page) if found["table"] != make(page, found["marker"])]


def renewed(page: Path) -> str:
    """The page's text, with all tables made anew.

    :raises PageError: a table cannot be made.
    """

    def whole(found: re.Match[str]) -> str:
        marker = found["marker"]
        return f"<!-- table: {marker} -->\n{make(page, marker)}<!-- end of table -->"

    return MARKED.sub(whole, page.read_text())


def _marked(page: Path) -> Iterator[re.Match[str]]:
    """
    :raises PageError: a table has no end.
    """
    text = page.read_text()
    if text.count(BEGIN) != len(MARKED.findall(text)):
        raise PageError(f"{page}: a table has no end, or another begins before it")
    return MARKED.finditer(text)


def make(page: Path, marker: str) -> str:
    """The table and its source, as Markdown.

    :raises PageError: it cannot be made.
    """
    order, table = _make(page, marker)
    sources = ", ".join(_link(page, each) for each in order.patterns)
    return f"\n{as_markdown(table)}\nFrom {sources}.\n\n"


def tables(page: Path) -> list[Table]:
    """The page's tables, each with the heading above it as its title.

    :raises PageError: one cannot be made.
    """
    found = []
    for marked in _marked(page):
        _, table = _make(page, marked["marker"])
        found.append(replace(table, title=HEADING.findall(page.read_text(), 0, marked.start())[-1]))
    return found


def _make(page: Path, marker: str) -> tuple[Order, Table]:
    """
    :raises PageError: the table cannot be made.
    """
    try:
        order = _parse(marker)
        raws = [raw for pattern in order.patterns for raw in read_all(pattern)]
        table = GENERATORS[order.generator](raws, order.options)
        if "columns" in order.options:
            table = _with_columns(table, [int(each) for each in order.options["columns"].split(",")])
    except (KeyError, ValueError, IndexError, TypeError) as error:
        raise PageError(f"{page}: '{marker}' cannot be made: {type(error).__name__} {error}") from error
    return order, table


def _parse(marker: str) -> Order:
    generator, *words = shlex.split(marker)
    options = dict(word.split("=", 1) for word in words if "=" in word)
    return Order(generator, [word for word in words if "=" not in word], options)


def _link(page: Path, pattern: str) -> str:
    """To a file; of several, to their folder."""
    target = os.path.relpath(RUNS if "*" in pattern else RUNS / pattern, page.parent)
    return f"[{pattern.replace('*', chr(92) + '*')}]({target})"


def _with_columns(table: Table, numbers: Sequence[int]) -> Table:
    return replace(
        table,
        columns=[table.columns[number] for number in numbers],
        rows=[[row[number] for number in numbers] for row in table.rows],
    )
