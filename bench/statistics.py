"""What many requests say together. Times are seconds, if a name does not say otherwise."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from hdrh.histogram import HdrHistogram

# Latencies are counted in microseconds, to three digits: up to 2,048 µs exactly, beyond that to 0.1 %.
HIGHEST_US = 3_600_000_000
DIGITS = 3
PERCENTILES = (5.0, 50.0, 95.0, 99.0)


def make_histogram(took_ns: Any = ()) -> HdrHistogram:
    """
    :param took_ns: an array of latencies.
    :raises ValueError: one takes more than an hour, which no histogram here has room for.
    """
    histogram = HdrHistogram(1, HIGHEST_US, DIGITS)
    values, counts = np.unique(np.maximum(np.asarray(took_ns, dtype=np.int64) // 1000, 1), return_counts=True)
    for value, count in zip(values.tolist(), counts.tolist(), strict=True):
        if not histogram.record_value(value, count):
            raise ValueError(f"a latency of {value / 1e6:.0f} s is beyond the histogram")
    return histogram


def encode(histogram: HdrHistogram) -> str:
    """As text, in the format that the HDR libraries of all languages share."""
    return str(histogram.encode().decode())


def decode(text: str) -> HdrHistogram:
    return HdrHistogram.decode(text)


def percentile_s(histogram: HdrHistogram, percentile: float) -> float:
    """
    :raises ValueError: there are no values.
    """
    if not histogram.get_total_count():
        raise ValueError("no latencies have no percentiles")
    return float(histogram.get_value_at_percentile(percentile)) / 1e6


def cumulate(histogram: HdrHistogram) -> list[tuple[float, float]]:
    """The cumulative distribution: for each latency that occurred, the share that took no longer."""
    total = histogram.get_total_count()
    seen, points = 0, []
    for each in histogram.get_recorded_iterator():
        seen += each.count_added_in_this_iter_step
        points.append((each.value_iterated_to / 1e6, seen / total))
    return points


def count_by_time(times: Any, begin: float, end: float, bucket: float) -> list[int]:
    """How many of the times lie in each whole bucket between `begin` and `end`."""
    buckets = int((end - begin) / bucket + 1e-6)
    edges = begin + bucket * np.arange(buckets + 1)
    counts = np.histogram(np.asarray(times)[np.asarray(times) < edges[-1]], edges)[0]
    return [int(each) for each in counts]


def percentile_by_time(
    times: Any, values: Any, begin: float, end: float, bucket: float, percentile: float
) -> list[float | None]:
    """Of the values whose times lie in each bucket, that percentile; None where there are none."""
    buckets = int((end - begin) / bucket + 1e-6)
    values, numbers = np.asarray(values), np.floor((np.asarray(times) - begin) / bucket)
    chosen = [values[numbers == number] for number in range(buckets)]
    return [float(np.percentile(some, percentile)) if some.size else None for some in chosen]


def quantiles(values: Iterable[float], shares: Sequence[float] = (0.0, 0.5, 0.95, 1.0)) -> list[float]:
    """Interpolated between the values.

    :raises ValueError: there are no values.
    """
    found = list(values)
    if not found:
        raise ValueError("no values have no quantiles")
    return [float(each) for each in np.quantile(found, shares)]


def first_after(times: Any, moment: float) -> float | None:
    """The first of the times that is later."""
    later = np.asarray(times)[np.asarray(times) > moment]
    return float(later.min()) if later.size else None


def percentile_99(values: Any) -> float | None:
    """None if there are none."""
    return float(np.percentile(values, 99)) if values.size else None
