"""The table of what a gateway costs, from results of bench.gateway."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.gateway.rows import COLUMNS, rows
from bench.pages.raw import Raw
from bench.report.section import Table


def gateway(raws: Sequence[Raw], _: Mapping[str, str]) -> Table:
    """Of the newest file."""
    return Table("", COLUMNS, [*rows(raws[-1].document["loads"])])
