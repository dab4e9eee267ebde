"""Figures as text."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from bench import statistics
from bench.statistics import Spread

NOTHING = "-"
MARK = " *"  # behind a figure whose limit was not the servers
TOO_SHORT = "too short"  # the window of measuring, for a figure


def rate(value: float | None) -> str:
    """Three digits, or all of an integer. What was repeated has its range in a second line."""
    return ranged(value, lambda each: f"{each:,.0f}" if each >= 100 else f"{each:.3g}")


def ranged(value: float | None, write: Callable[[float], str]) -> str:
    """
    :param write: of one number.
    """
    if value is None:
        return NOTHING
    if math.isnan(value):
        return TOO_SHORT
    if not isinstance(value, Spread) or write(value.low) == write(value.high):
        return write(value)
    return f"{write(value)}\n{write(value.low)} to {write(value.high)}"


def rate_of(run: Mapping[str, Any], sort: str = "all") -> str:
    """Of a run, marked if something else than the servers was its limit."""
    head, line, rest = rate(run["rates"][sort]).partition("\n")
    if head == TOO_SHORT:
        return head
    return head + (MARK if run["limits"] else "") + line + rest


def ratio(value: float, base: float) -> str:
    return ranged(statistics.ratio(value, base), "{:.2f}".format) if base else NOTHING


def plain(value: float, write: Callable[[float], str]) -> str:
    """Without the range that repetitions have.

    :param write: of one number.
    """
    return TOO_SHORT if math.isnan(value) else write(value)


def share(value: float | None, digits: int = 0) -> str:
    return ranged(value, f"{{:.{digits}%}}".format)


def seconds(value: float | None) -> str:
    return ranged(value, "{:.2f}".format)


def milliseconds(seconds: float | None) -> str:
    return ranged(seconds, lambda each: f"{each * 1000:.3g}" if each < 0.1 else f"{each * 1000:,.0f}")


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
