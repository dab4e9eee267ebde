"""What many requests say together. Times are seconds, if a name does not say otherwise."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from hdrh.histogram import HdrHistogram

# Latencies are counted in microseconds, to three digits: up to 2,048 µs exactly, beyond that to 0.1 %.
HIGHEST_US = 3_600_000_000
DIGITS = 3
PERCENTILES = (5.0, 50.0, 95.0, 99.0)
WINDOW_MEDIANS = 10  # a window of measuring that is shorter than so many median latencies has no figures
NO_FIGURE = math.nan  # of a window that is too short, and of all that is worked out from one


class Spread(float):
    """The median of repetitions; as a number it is that.

    :ivar low: the lowest of them; `high`, the highest.
    """

    low: float
    high: float

    def __new__(cls, median: float, low: float, high: float) -> Spread:
        self = super().__new__(cls, median)
        self.low, self.high = low, high
        return self


def spread(values: Iterable[float]) -> float:
    """The median; with its range, where the values differ.

    :raises ValueError: there are no values.
    """
    found = list(values)
    if not found:
        raise ValueError("no values have no median")
    if min(found) == max(found):
        return found[0]
    return Spread(statistics.median(found), min(found), max(found))


def range_of(value: float) -> tuple[float, float]:
    """The lowest and the highest; of a plain number, that number twice."""
    return (value.low, value.high) if isinstance(value, Spread) else (value, value)


def scaled(value: float, factor: float) -> float:
    """:param factor: above 0."""
    if isinstance(value, Spread):
        return Spread(value * factor, value.low * factor, value.high * factor)
    return value * factor


def ratio(value: float, base: float) -> float:
    """The range goes from the lowest over the base's highest to the highest over the base's lowest, which is more
    than the repetitions of one day would show: these are not pairs.
    """
    (low, high), (base_low, base_high) = range_of(value), range_of(base)
    if low == high and base_low == base_high:
        return value / base
    return Spread(value / base, low / base_high, high / base_low if base_low else float("inf"))


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


def mean_s(histogram: HdrHistogram) -> float:
    """
    :raises ValueError: there are no values.
    """
    if not histogram.get_total_count():
        raise ValueError("no latencies have no mean")
    total = sum(count * (low + (high - low + 1) // 2) for low, high, count in _recorded(histogram))
    return float(float(total) / histogram.get_total_count()) / 1e6


@lru_cache(maxsize=4096)
def _median_s(text: str) -> float:
    """:param text: an encoded histogram."""
    return percentile_s(decode(text), 50)


def slowest_median_s(latencies: Iterable[str]) -> float | None:
    """Of each sort of requests the median latency, and of these the longest; None if nothing was answered.

    :param latencies: the sorts' encoded histograms.
    """
    return max(map(_median_s, latencies), default=None)


def is_long_enough(window_s: float, latencies: Iterable[str]) -> bool:
    """Whether a window of measuring has figures: it is at least ten times the slowest sort's median latency.

    What is answered in a shorter one was mostly sent before it, and what is sent in it is mostly answered later.
    """
    slowest_s = slowest_median_s(latencies)
    return slowest_s is not None and window_s >= WINDOW_MEDIANS * slowest_s


def join_histograms(texts: Sequence[str]) -> str:
    """The histogram of all values of some, encoded as these are."""
    whole = make_histogram()
    for each in texts:
        whole.add(decode(each))
    return encode(whole)


def percentile_s(histogram: HdrHistogram, percentile: float) -> float:
    """
    :param percentile: above 0.
    :raises ValueError: there are no values.
    """
    if not histogram.get_total_count():
        raise ValueError("no latencies have no percentiles")
    at_least = histogram.get_target_count_at_percentile(percentile)
    index = int(np.searchsorted(np.cumsum(_counts(histogram)), at_least))
    return float(histogram.get_highest_equivalent_value(histogram.get_value_from_index(index))) / 1e6


def cumulate(histogram: HdrHistogram) -> list[tuple[float, float]]:
    """The cumulative distribution: for each latency that occurred, the share that took no longer."""
    total = histogram.get_total_count()
    seen, points = 0, []
    for _, high, count in _recorded(histogram):
        seen += count
        points.append((high / 1e6, seen / total))
    return points


def _counts(histogram: HdrHistogram) -> Any:
    """How often each of its values was recorded: an array, since the histogram's own loops take long."""
    return np.ctypeslib.as_array(histogram.counts)


def _recorded(histogram: HdrHistogram) -> Iterator[tuple[int, int, int]]:
    """Of what was recorded, in order: the lowest and the highest value that count as the same, and how often."""
    counts = _counts(histogram)
    for index in np.flatnonzero(counts).tolist():
        low = histogram.get_value_from_index(index)
        yield low, histogram.get_highest_equivalent_value(low), int(counts[index])


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
