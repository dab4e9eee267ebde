"""Figures of what is not compared in pairs, with their goals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Figure:
    """:param goal: at most; None where there is none."""

    what: str
    value: float
    unit: str
    goal: float | None = None

    def row(self) -> tuple[str, str, str, str]:
        """What, the figure, its goal, and whether it is met."""
        figure = f"{_short(self.value)} {self.unit}".rstrip()
        if self.goal is None:
            return self.what, figure, "", ""
        verdict = "met" if self.value <= self.goal else "MISSED"
        return self.what, figure, f"≤ {self.goal:g} {self.unit}".rstrip(), verdict


@dataclass(frozen=True)
class Measured:
    """:param about: for people."""

    about: str
    figures: Sequence[Figure]

    def as_json(self) -> dict[str, Any]:
        return {"about": self.about, "figures": [asdict(each) for each in self.figures]}


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
