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


def in_words(value: object, name: str = "") -> str:
    """What a lab says of itself. Entries with the same to say say it once: h1 to h27: server."""
    if isinstance(value, Mapping):
        names: dict[str, list[str]] = {}
        for key, each in value.items():
            names.setdefault(in_words(each, key), []).append(str(key).removesuffix("_bytes").replace("_", " "))
        return "; ".join(f"{_range(keys)}: {each}" for each, keys in names.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    if name.endswith("_bytes") and isinstance(value, int):
        return f"{value / 2**30:.1f} GiB"
    return str(value)


def _range(names: list[str]) -> str:
    return f"{names[0]} to {names[-1]}" if len(names) > 2 else ", ".join(names)
