"""What scenario moves measures: a load, and the directories that move meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.scenarios.evaluation import RATE_BYTES_S, VALUE_BYTES, Parts

REBALANCE, PAUSE, RATE, HOTTEST = "rebalance", "pause", "rate", "hottest"  # the parts
WRITTEN = 4  # znodes of each directory that requests are about


@dataclass(frozen=True)
class Balancing:
    """Old directories are on one ensemble; two more come, and `map rebalance` spreads them.

    :param directories: with one request in flight in each, all the time.
    :param large: so many of them have `znodes` more.
    :param before_s: until ensembles come; `counted_s`, of the command's counting; `measure_s`, in all.
    """

    shape: str
    directories: int
    large: int
    znodes: int
    clients: int
    rate_bytes_s: float
    warm_up_s: float
    before_s: float
    counted_s: float
    measure_s: float
    part: str = REBALANCE


@dataclass(frozen=True)
class Moving:
    """The first directory of a load moves to and fro between two ensembles.

    :param znodes: its children.
    :param load: entries of a plan.
    :param rates: of each move, the znodes/s that it may write; None: any number.
    :param before_s: until the first move; `each_s`, from one to the next.
    """

    part: str
    shape: str
    znodes: int
    load: Mapping[str, Any] = field(hash=False)
    rates: Sequence[float | None]
    warm_up_s: float
    before_s: float
    each_s: float

    @property
    def measure_s(self) -> float:
        return self.before_s + len(self.rates) * self.each_s


def _steady(rate_s: float, threads: int, **more: Any) -> dict[str, Any]:
    """Requests come at a fixed rate, half of them reads, to four directories."""
    common = {"write": "set", "read_share": 0.5, "size": VALUE_BYTES, "leaves": WRITTEN, "directories": 4}
    return {**common, "rate_s": rate_s, "threads": threads, **more}


def _idle(count: int) -> dict[str, Any]:
    """Clients of each process that seldom ping: the sessions of so many share a machine."""
    return {"idle": count, "session_timeout_s": 30.0}


def _hot(threads: int, in_flight: int) -> dict[str, Any]:
    """As the hottest load of scenario scaling: all in one directory."""
    return {"directories": 1, "threads": threads, "in_flight": in_flight}


_FULL = (
    Balancing("3x3", 24, 8, 500, 24, 4 * RATE_BYTES_S, 5, 20, 15, 280),
    # A thousand clients that ask nothing, and eight that ask.
    Moving(PAUSE, "2x3", 10_000, _steady(240, 2, processes=2, **_idle(250)), (3000,) * 5, 5, 20, 30),
    Moving(RATE, "2x3", 20_000, _steady(240, 4), (3000, None) * 2, 5, 20, 28),
    Moving(HOTTEST, "2x3", 0, _hot(12, 2), (None,) * 5, 2, 10, 12),
)
SIZES: dict[str, Any] = {
    "small": (
        Balancing("2x1", 6, 1, 20, 2, RATE_BYTES_S, 0.2, 1, 1, 8),
        Moving(PAUSE, "2x1", 50, _steady(60, 1, idle=3), (None, None), 0.2, 0.5, 2),
        Moving(RATE, "2x1", 50, _steady(60, 1), (300, None), 0.2, 0.5, 2),
        Moving(HOTTEST, "2x1", 0, _hot(2, 2), (None,), 0.2, 0.5, 3),
    ),
    "medium": (
        Balancing("3x3", 24, 10, 500, 24, 4 * RATE_BYTES_S, 3, 10, 10, 140),
        Moving(PAUSE, "2x3", 2000, _steady(120, 2, **_idle(50)), (3000,) * 4, 3, 10, 8),
        Moving(RATE, "2x3", 5000, _steady(120, 4), (3000, None), 3, 10, 10),
        Moving(HOTTEST, "2x3", 0, _hot(12, 2), (None, None), 2, 5, 12),
    ),
    "full": Parts({each.part: (each,) for each in _FULL}),
}
