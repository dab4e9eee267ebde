"""How commands show a cluster's problems."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from parkazoo.admin import MapProblem
from parkazoo.cli.plain_text import plain


def is_wrong(findings: Sequence[MapProblem]) -> bool:
    """Whether there is more than a warning."""
    return not all(finding.is_warning for finding in findings)


def findings_table(findings: Sequence[MapProblem]) -> Table:
    title = "what is wrong" if is_wrong(findings) else "warnings: the cluster serves"
    table = Table("ensemble", "problem", "what to do", title=title, title_justify="left")
    for finding in findings:
        style = "yellow" if finding.is_warning else ""
        table.add_row(finding.ensemble, plain(finding.problem), plain(finding.remedy), style=style)
    return table
