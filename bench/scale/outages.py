"""Whom an ensemble's outage reaches: clients that hold something on some ensembles, or on all, for a year."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

YEAR_S = 365 * 86_400.0
MONTH_S = YEAR_S / 12


@dataclass(frozen=True)
class Assumed:
    """Nothing of this is measured.

    :param a_year: outages of each ensemble.
    :param long_share: of them, longer than a session's time-out, so that sessions expire.
    :param short_s: mean of the others.
    :param long_s: mean.
    """

    a_year: float = 4.0
    long_share: float = 0.25
    short_s: float = 5.0
    long_s: float = 600.0


@dataclass(frozen=True)
class Fate:
    """Of clients that hold something on so many ensembles each.

    :param suspended: times a year, on average.
    :param lost: times a year, on average.
    :param month: probability of being suspended in a month, 0 to 1; simulated.
    :param month_by_formula: the same.
    :param lost_month: probability of being lost in a month; simulated.
    :param lost_month_by_formula: the same.
    :param hours: suspended, a year.
    :param at_once: the most clients that were suspended at the same time, 0 to 1.
    :param start_fails: the probability that one of these ensembles is away at a moment, 0 to 1; by formula.
    """

    held: int
    suspended: float
    lost: float
    month: float
    month_by_formula: float
    lost_month: float
    lost_month_by_formula: float
    hours: float
    at_once: float
    start_fails: float


def simulate_year(held: int, ensembles: int, clients: int, assumed: Assumed, seed: int) -> Fate:
    """
    :param held: ensembles on which a client has something; drawn evenly for each client.
    :param clients: that are followed.
    """
    chance = np.random.default_rng(seed)
    holds = np.zeros((clients, ensembles), bool)
    ranks = chance.random((clients, ensembles)).argsort(axis=1)[:, :held]
    np.put_along_axis(holds, ranks, True, axis=1)
    count = int(chance.poisson(assumed.a_year * ensembles))
    where = chance.integers(ensembles, size=count)
    begin_s = chance.uniform(0, YEAR_S, count)
    is_long = chance.random(count) < assumed.long_share
    took_s = chance.exponential(np.where(is_long, assumed.long_s, assumed.short_s))
    hours, at_once = _follow(holds, where, begin_s, begin_s + took_s)
    month = (begin_s // MONTH_S).astype(int)
    mean_s = assumed.long_share * assumed.long_s + (1 - assumed.long_share) * assumed.short_s
    return Fate(
        held,
        _mean_hits(holds, where),
        _mean_hits(holds, where[is_long]),
        _share_hit(holds, where, month),
        _at_least_one(assumed.a_year * held / 12),
        _share_hit(holds, where[is_long], month[is_long]),
        _at_least_one(assumed.a_year * assumed.long_share * held / 12),
        hours,
        at_once,
        1 - (1 - assumed.a_year * mean_s / YEAR_S) ** held,
    )


def _at_least_one(mean: float) -> float:
    return 1 - math.exp(-mean)


def _mean_hits(holds: Any, where: Any) -> float:
    counts = np.bincount(where, minlength=holds.shape[1])
    return float((holds @ counts).mean())


def _share_hit(holds: Any, where: Any, month: Any) -> float:
    """Of all clients' months, those with an outage that reached the client."""
    shares = [holds[:, np.unique(where[month == number])].any(axis=1).mean() for number in range(12)]
    return float(np.mean(shares))


def _follow(holds: Any, where: Any, begin_s: Any, end_s: Any) -> tuple[float, float]:
    """Hours a year that a client is suspended, on average; the largest share of clients that are at once."""
    changes = sorted(
        [(float(at_s), 1, int(each)) for at_s, each in zip(begin_s, where, strict=True)]
        + [(float(at_s), -1, int(each)) for at_s, each in zip(end_s, where, strict=True)]
    )
    away = np.zeros(holds.shape[1], int)
    before_s = suspended_s = share = most = 0.0
    for at_s, change, ensemble in changes:
        suspended_s += share * (at_s - before_s)
        away[ensemble] += change
        share = float(holds[:, away > 0].any(axis=1).mean())
        most, before_s = max(most, share), at_s
    return suspended_s / 3600, most
