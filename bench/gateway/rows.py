"""What a gateway costs, as rows of a table: for a terminal and for a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench.client.paths import MOST_IN_FLIGHT

GATEWAY = "gateway"  # its side's name
GOALS_US = {MOST_IN_FLIGHT: 12.0, 1: 45.0}  # CPU of the gateway per get, by requests in flight
COLUMNS = ("load", "programs at", "its CPU, µs", "goal", "requests/s", "median, ms", "p99, ms")


def rows(loads: Sequence[Mapping[str, Any]]) -> Iterator[list[str]]:
    """Yields one for each load, as its JSON has it, at each side."""
    for load in loads:
        kind, in_flight = load["kind"], load["in_flight"]
        for side, figures in load["sides"].items():
            goal = GOALS_US[in_flight] if (kind, side) == ("get", GATEWAY) else None
            yield [
                f"{kind}, {in_flight} in flight",
                side,
                f"{figures['cpu_us']['median']:.1f}",
                f"≤ {goal:g}" if goal else "",
                f"{figures['rate']['median']:,.0f}",
                f"{figures['median_ms']['median']:.2f}",
                f"{figures['p99_ms']['median']:.2f}",
            ]
