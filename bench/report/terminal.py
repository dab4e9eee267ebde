"""A section as text, for a terminal."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table as RichTable

from bench.report.section import Section


def print_section(console: Console, section: Section) -> None:
    console.rule(section.title, align="left", style="dim")
    console.print(section.about, markup=False, highlight=False)
    for table in section.tables:
        drawn = RichTable(title=table.title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
        for name, kind in zip(table.columns, table.kinds(), strict=True):
            drawn.add_column(name, justify="right" if kind == "figure" else "left")
        for row in table.rows:
            drawn.add_row(*row)
        console.print(drawn)
    for each in section.caveats:
        console.print(f"- {each}", markup=False, highlight=False, style="dim")
