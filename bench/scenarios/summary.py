"""A run in figures: what its requests say together, and what was the limit."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from bench.load.plan import LATE_S, Plan
from bench.load.record import ANSWERED, FAILED, UNANSWERED
from bench.load.requests import GET, WRITES
from bench.load.result import Result, ensembles_of, join
from bench.statistics import (
    WINDOW_MEDIANS,
    count_by_time,
    decode,
    encode,
    is_long_enough,
    join_histograms,
    make_histogram,
    mean_s,
    percentile_by_time,
    percentile_s,
    quantiles,
    slowest_median_s,
    spread,
)

FULL = 0.9  # of a processor or a machine: what uses more is the limit, or may be
BEHIND_S = 0.05  # an open loop that sends so late is behind
MARGIN = 1.2  # of a longer window, because the next median may be longer too
SORTS = {"writes": WRITES, "reads": (GET,)}


def summarise(results: Sequence[Result], busy: Mapping[str, float], bucket_s: float) -> dict[str, Any]:
    """
    :param results: of all hosts.
    :param busy: the share of each machine's processors that were busy meanwhile.
    :param bucket_s: of the run over time.
    """
    plan = results[0].plan
    columns = join(results)
    begun_s = max(result.begun_s for result in results)
    first_s = begun_s + plan.warm_up_s
    last_s = first_s + plan.measure_s
    began = columns["begun_ns"] / 1e9
    ended = (columns["begun_ns"] + columns["took_ns"]) / 1e9
    is_answered = columns["outcome"] == ANSWERED
    is_counted = is_answered & (ended >= first_s) & (ended < last_s)
    is_timed = (columns["outcome"] != FAILED) & (began >= first_s) & (began < last_s)
    late_s = float(np.percentile(columns["late_ns"][is_timed], 99)) / 1e9 if is_timed.any() else 0.0
    apart_s = begun_s - min(result.first_s for result in results)
    cpu_share = max(result.cpu_share for result in results)
    seconds = count_by_time(ended[is_counted], first_s, last_s, min(1.0, plan.measure_s))
    of_sort = {sort: np.isin(columns["kind"], kinds) for sort, kinds in SORTS.items()}
    timed_writes = is_timed & of_sort["writes"]
    calls = {"call": encode(make_histogram(columns["call_ns"][timed_writes]))} if timed_writes.any() else {}
    return {
        "plan": plan.as_json(),
        "begun_s": begun_s,
        "rates": {
            "all": int(is_counted.sum()) / plan.measure_s,
            **{sort: int((is_counted & of_sort[sort]).sum()) / plan.measure_s for sort in SORTS},
        },
        "seconds": quantiles(seconds, (0.25, 0.5, 0.75)),
        "latency": {
            sort: encode(make_histogram(columns["took_ns"][is_timed & of_sort[sort]]))
            for sort in SORTS
            if (is_timed & of_sort[sort]).any()
        },
        **(calls if plan.is_deferred else {}),
        "failed": int((columns["outcome"] == FAILED).sum()),
        "unanswered": int((columns["outcome"] == UNANSWERED).sum()),
        "errors": sum((result.errors for result in results), Counter()),
        "late_s": late_s,
        "cpu_share": cpu_share,
        "busy": dict(busy),
        "limits": name_limits(cpu_share, late_s, apart_s, busy),
        "over_time": _over_time(plan, columns, begun_s, bucket_s),
    }


def name_limits(cpu_share: float, late_s: float, apart_s: float, busy: Mapping[str, float]) -> list[str]:
    """What had nothing left to give, so that the figure may be its own rather than the servers'."""
    limits = []
    if cpu_share > FULL or late_s > BEHIND_S or apart_s > LATE_S:
        limits.append("load generator")
    limits += [f"processors of {machine}" for machine, share in busy.items() if share > FULL]
    return limits


def _over_time(plan: Plan, columns: Mapping[str, Any], begun_s: float, bucket_s: float) -> dict[str, Any]:
    """Answers and their latency by the time of the answer; failures; all for each ensemble."""
    end_s = begun_s + plan.total_s()
    bucket_s = min(bucket_s, plan.total_s())
    ended = (columns["begun_ns"] + columns["took_ns"]) / 1e9
    ensembles = ensembles_of(plan, columns["directory"])
    found: dict[str, Any] = {"bucket_s": bucket_s, "ensembles": []}
    for number in range(plan.ensembles):
        is_answered = (ensembles == number) & (columns["outcome"] == ANSWERED)
        is_failed = (ensembles == number) & (columns["outcome"] == FAILED)
        found["ensembles"].append(
            {
                "answered": count_by_time(ended[is_answered], begun_s, end_s, bucket_s),
                "failed": count_by_time(ended[is_failed], begun_s, end_s, bucket_s),
                "median_s": _rounded(
                    percentile_by_time(
                        ended[is_answered],
                        columns["took_ns"][is_answered] / 1e9,
                        begun_s,
                        end_s,
                        bucket_s,
                        50,
                    )
                ),
            }
        )
    return found


def _rounded(values: Sequence[float | None]) -> list[float | None]:
    return [None if value is None else round(value, 6) for value in values]


def is_too_short(run: Mapping[str, Any]) -> bool:
    """Whether the run's window is too short for figures: for its rates, and for its latencies."""
    return not is_long_enough(run["plan"]["measure_s"], run["latency"].values())


def longer_window_s(run: Mapping[str, Any]) -> float | None:
    """The window that a run which is too short should have had; None if it is long enough, or cannot be told."""
    slowest_s = slowest_median_s(run["latency"].values())
    if slowest_s is None or not is_too_short(run):
        return None
    return math.ceil(MARGIN * WINDOW_MEDIANS * slowest_s)


def latency_s(run: Mapping[str, Any], sort: str, percentile: float) -> float | None:
    """Of a run's writes or reads; None if there were none. If it was repeated, the median with its range."""
    found = _histograms(run, sort)
    return spread(percentile_s(each, percentile) for each in found) if found else None


def mean_latency_s(run: Mapping[str, Any], sort: str) -> float | None:
    """As `latency_s`."""
    found = _histograms(run, sort)
    return spread(mean_s(each) for each in found) if found else None


def _histograms(run: Mapping[str, Any], sort: str) -> list[Any]:
    """Of each repetition that has any; none of a run that is without figures."""
    if run.get("is_too_short"):
        return []
    return [decode(each[sort]) for each in run.get("latencies", [run["latency"]]) if sort in each]


def together_s(run: Mapping[str, Any], find: Callable[[Any], float]) -> float | None:
    """What a histogram says of all requests of a run together, a deferred write until its call returned."""
    if run.get("is_too_short"):
        return None
    latencies: Sequence[Mapping[str, str]] = run.get("latencies", [run["latency"]])
    calls = run.get("calls") or [run.get("call")] * len(latencies)
    sorts = [{**each, "writes": call} if call else each for each, call in zip(latencies, calls, strict=True)]
    return spread(find(decode(join_histograms(list(each.values())))) for each in sorts)


def call_s(run: Mapping[str, Any], percentile: float) -> float | None:
    """Of a run's deferred writes, until the call returned; of others, until they were answered. As `latency_s`."""
    if "call" not in run or run.get("is_too_short"):
        return latency_s(run, "writes", percentile)
    return spread(percentile_s(decode(each), percentile) for each in run.get("calls", [run["call"]]))
