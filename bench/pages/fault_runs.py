"""The table of the runs of tests.faults, from their summaries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench.pages.raw import DATE, Raw
from bench.report.section import Table
from bench.report.text import MARK

BOOTSTRAP = "the bootstrap ensemble"  # counts faults that are counted by their manner already
RUN = "faults-"


def fault_runs(raws: Sequence[Raw], _: Mapping[str, str]) -> Table:
    """A row for each run: what it went through, what was judged, and how many problems there were."""
    return Table(
        "",
        (
            "run",
            "minutes",
            "faults",
            "of registers",
            "locks held",
            "deferred writes",
            "commands killed, refused",
            "longest pause, s",
            "busy",
            "problems",
        ),
        [_row(raw) for raw in raws],
    )


def _row(raw: Raw) -> list[str]:
    document = raw.document
    figures = {name: each["figures"] for name, each in document["promises"].items()}
    held = [found["held"] for found in figures.values() if "held" in found]
    growth, pauses = figures.get("growth"), figures.get("pauses")
    return [
        f"[{_name(raw)}](../runs/{raw.path.name})",
        f"{document['minutes']:g}",
        f"{_faults(document)}",
        _count(figures.get("registers", {}).get("operations")),
        _count(sum(held) or None),
        _count(figures.get("deferred", {}).get("written")),
        f"{growth['commands killed']}, {growth['commands refused']}" if growth else "",
        _pause(pauses) if pauses else "",
        f"{document['busy_share']:.0%}",
        str(document["problems"]),
    ]


def _name(raw: Raw) -> str:
    """What the file's name says beside the date: grow-901."""
    return DATE.sub("", raw.path.stem).removeprefix(RUN).strip("-")


def _pause(figures: Mapping[str, str]) -> str:
    """Marked if the machine was too busy for it to be judged."""
    return figures["longest while a command runs, s"] + (MARK if "times" in figures else "")


def _faults(document: Mapping[str, Any]) -> int:
    return sum(
        count
        for manners in document["faults"].values()
        for manner, count in manners.items()
        if manner != BOOTSTRAP
    )


def _count(value: int | None) -> str:
    return "" if value is None else f"{value:,}"
