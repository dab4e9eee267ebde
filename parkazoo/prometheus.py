"""The counters of clients for prometheus_client, read when Prometheus scrapes. Needs parkazoo[prometheus]."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate

from parkazoo.installing import command_to_add
from parkazoo.measures import (
    ENSEMBLE,
    MEASURES,
    OPERATION,
    CountedClients,
    CountingClient,
    Labels,
    Measure,
    joined,
    values_of,
)
from parkazoo.monitoring import BUCKETS_S, Counters, Histogram

try:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
    from prometheus_client.registry import Collector
except ModuleNotFoundError:
    raise ImportError(f"parkazoo.prometheus needs prometheus_client: {command_to_add('prometheus')}") from None

BOUNDS = (*map(str, BUCKETS_S), "+Inf")


class ClientCollector(Collector):
    """Collects the counters of clients that were made with ``counters=True``.

    ``REGISTRY.register(ClientCollector(zk))``. Nothing is done for a request; each scrape reads the counters. All
    clients of a registry belong into one collector: ``ClientCollector(jobs=zk, users=other)`` gives each a label
    ``client``, ``ClientCollector(zk, other)`` adds their counts up.

    :raises RuntimeError: a client does not count.
    :raises ValueError: there is no client, or only some have names.
    """

    def __init__(self, *clients: CountingClient, **named: CountingClient) -> None:
        self._clients = CountedClients(clients, named)

    def describe(self) -> Iterator[Metric]:
        """Returns the metrics without values, by which a registry refuses a second collector."""
        return self._collect(())

    def collect(self) -> Iterator[Metric]:
        """Returns the metrics now."""
        return self._collect(self._clients.read())

    def _collect(self, read: Iterable[tuple[Labels, Counters]]) -> Iterator[Metric]:
        for each in MEASURES:
            yield self._family(each, read)
        durations = HistogramMetricFamily(
            "parkazoo_request_duration_seconds",
            "How long requests took, from the client's queue to the answer.",
            labels=self._clients.labels((ENSEMBLE, OPERATION)),
        )
        found = joined(
            ((name, dict[Labels, Histogram](counters.seconds.items())) for name, counters in read), _added
        )
        for labels, histogram in found.items():
            counts = accumulate(histogram.buckets)
            durations.add_metric(labels, list(zip(BOUNDS, counts, strict=True)), histogram.sum_s)
        yield durations

    def _family(self, measure: Measure, read: Iterable[tuple[Labels, Counters]]) -> Metric:
        kind = CounterMetricFamily if measure.grows else GaugeMetricFamily
        family = kind(f"parkazoo_{measure.name}", measure.about, labels=self._clients.labels(measure.labels))
        for labels, value in values_of(measure, read).items():
            family.add_metric(labels, value)
        return family


def _added(one: Histogram, other: Histogram) -> Histogram:
    buckets = (first + second for first, second in zip(one.buckets, other.buckets, strict=True))
    return Histogram(tuple(buckets), one.sum_s + other.sum_s)
