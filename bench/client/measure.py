"""What two turns are compared by, and what many such pairs say together."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from bench.client.side import Turn


@dataclass(frozen=True)
class Measure:
    """
    :param of: its value, in `unit`.
    """

    name: str
    unit: str
    of: Callable[[Turn], float]
    is_more_better: bool = False

    def ratio(self, subject: Turn, base: Turn) -> float:
        return self.of(subject) / self.of(base)

    def is_met(self, ratio: float, goal: float) -> bool:
        return ratio >= goal if self.is_more_better else ratio <= goal


RATE = Measure("operations/s", "/s", lambda turn: turn.operations / turn.wall_s, is_more_better=True)
LATENCY = Measure("latency", "µs", lambda turn: turn.wall_s / turn.operations * 1e6)
CPU = Measure("CPU", "µs", lambda turn: turn.cpu_s / turn.operations * 1e6)


@dataclass(frozen=True)
class Spread:
    """The median of some values and their quartiles: half of them lie between `low` and `high`."""

    low: float
    median: float
    high: float


def spread(values: Iterable[float]) -> Spread:
    """
    :raises ValueError: there are no values.
    """
    found = sorted(values)
    if not found:
        raise ValueError("no values have no spread")
    if len(found) == 1:
        return Spread(found[0], found[0], found[0])
    return Spread(*statistics.quantiles(found, n=4, method="inclusive"))


def ratios(measure: Measure, subjects: Sequence[Turn], bases: Sequence[Turn]) -> Spread:
    """Of each pair its own ratio, because both of a pair met the same machine; then the median over the pairs."""
    return spread(measure.ratio(subject, base) for subject, base in zip(subjects, bases, strict=True))
