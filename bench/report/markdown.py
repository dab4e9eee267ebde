"""A table as Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence

from bench.report.section import Table

RULES = {"figure": "---:", "text": "---"}
MARKED = re.compile(r" \*$", re.MULTILINE)  # bench.report.text.MARK, where a figure ends
RANGE = re.compile(r"(?<=[\d%]) to (?=\d)")
DASH = "\N{EN DASH}"


def as_markdown(table: Table) -> str:
    """The lines of the table, without its title. A figure's range stands in parentheses after it."""
    rule = "|" + "|".join(RULES[kind] for kind in table.kinds()) + "|\n"
    rows = (_line([_cell(each) for each in row]) for row in table.rows)
    return "".join([_line(table.columns), rule, *rows])


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |\n"


def _cell(text: str) -> str:
    escaped = MARKED.sub(r" \\*", text).replace("|", r"\|")
    head, _, rest = RANGE.sub(DASH, escaped).partition("\n")
    return f"{head} ({rest})" if rest else head
