"""A client that has counted what a test says."""

from __future__ import annotations

from itertools import pairwise

from parkazoo.monitoring import BUCKETS_S, Counters, Histogram


def histogram(*seconds: float) -> Histogram:
    bounds = -1, *BUCKETS_S, 99
    buckets = [sum(low < each <= high for each in seconds) for low, high in pairwise(bounds)]
    return Histogram(tuple(buckets), sum(seconds))


COUNTERS = Counters(
    requests={("a", "get", "ok"): 3, ("a", "get", "no_node"): 1, ("b", "set", "other"): 2},
    seconds={("a", "get"): histogram(0.0002, 0.003, 0.003, 7.0), ("b", "set"): histogram(20.0, 30.0)},
    in_flight={"a": 4},
    queued={"b": 5},
    connected={"a": True, "b": False},
    connections_lost={"b": 6, "": 1},
    sessions_expired={},
    watch_events={"a": 7},
    map_epoch=9,
)
LATER = COUNTERS._replace(connected={"a": True, "b": True}, map_epoch=10)


class CountingClient:
    """:ivar error: is raised, if there is one."""

    def __init__(self, counters: Counters = COUNTERS) -> None:
        self._counters = counters
        self.error: Exception | None = None

    def counters(self) -> Counters:
        if self.error is not None:
            raise self.error
        return self._counters
