"""How commands show a cluster's problems."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from parkazoo.admin import ClusterStatus, MapProblem, count_strangers
from parkazoo.cli.plain_text import plain


def is_wrong(findings: Sequence[MapProblem]) -> bool:
    """Whether there is more than a warning."""
    return not all(finding.is_warning for finding in findings)


def tell_strangers(found: ClusterStatus) -> str:
    """Sessions that are not registered; empty if there are none."""
    if not found.unregistered.found:
        return ""
    told = f"{count_strangers(found.unregistered.found)} not registered: `parkazoo clients` tells whose"
    if len(found.cluster_map.ensembles) > 1:
        told += "; a plain kazoo program that writes loses znodes"
    return told


def findings_table(findings: Sequence[MapProblem]) -> Table:
    title = "what is wrong" if is_wrong(findings) else "warnings: the cluster serves"
    table = Table("ensemble", "problem", "what to do", title=title, title_justify="left")
    for finding in findings:
        style = "yellow" if finding.is_warning else ""
        table.add_row(finding.ensemble, plain(finding.problem), plain(finding.remedy), style=style)
    return table
