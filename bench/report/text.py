"""Figures as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NOTHING = "-"
MARK = " *"  # behind a figure whose limit was not the servers


def rate(value: float | None) -> str:
    """Three digits, or all of an integer."""
    if value is None:
        return NOTHING
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def rate_of(run: Mapping[str, Any], sort: str = "all") -> str:
    """Of a run, marked if something else than the servers was its limit."""
    return rate(run["rates"][sort]) + (MARK if run["limits"] else "")


def ratio(value: float, base: float) -> str:
    return f"{value / base:.2f}" if base else NOTHING


def milliseconds(seconds: float | None) -> str:
    return NOTHING if seconds is None else f"{seconds * 1000:.3g}" if seconds < 0.1 else f"{seconds * 1000:,.0f}"


def size(count: int) -> str:
    """Of bytes: 10 B, 1 KiB, 1 MB."""
    if count >= 1_000_000:
        return f"{count / 1e6:g} MB"
    if count % 1024 == 0:
        return f"{count // 1024} KiB"
    return f"{count / 1000:g} kB" if count >= 1000 else f"{count} B"
