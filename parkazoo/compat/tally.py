"""What a client counts: its requests with their seconds, and rarer events."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict

from parkazoo.compat.request_words import operation_of, outcome_of
from parkazoo.engine.ports import Meter
from parkazoo.monitoring import BUCKETS_S, ConnectionLost, Histogram, SessionExpired, WatchFired
from parkazoo.protocol.steps import WireRequest

BUCKETS = len(BUCKETS_S) + 1
_Row = list[float]  # how many in each bucket, and at last the sum of their seconds


class ClientTally:
    """Counts, for the life of a client.

    Any thread may count and read, without a lock: the interpreter looks for other threads and for signals at calls
    and at the ends of loops alone, so nothing comes between the steps of ``row[at] += 1``. Free-threaded Python
    has no such order: there, threads that count at once lose some.

    :ivar connections_lost: by ensemble. :ivar sessions_expired: by ensemble. :ivar watch_events: by ensemble.
    """

    def __init__(self) -> None:
        self._rows: dict[str, dict[tuple[int, type[Exception] | None], _Row]] = {}
        self.connections_lost: Counter[str] = Counter()
        self.sessions_expired: Counter[str] = Counter()
        self.watch_events: Counter[str] = Counter()

    def meter(self, ensemble: str) -> Meter:
        """Returns the function that counts a request to an ensemble."""
        rows = self._rows.setdefault(ensemble, {})

        def count(request: WireRequest, error: Exception | None, seconds: float) -> None:
            key = request.type, None if error is None else error.__class__
            row = rows.get(key)
            if row is None:
                row = rows.setdefault(key, [0.0] * (BUCKETS + 1))
            at = bisect_left(BUCKETS_S, seconds)
            row[at] += 1
            row[-1] += seconds

        return count

    def tell(self, event: object) -> None:
        """Counts rarer events. The loop calls this, one call at a time."""
        if isinstance(event, ConnectionLost):
            self.connections_lost[event.ensemble] += 1
        elif isinstance(event, SessionExpired):
            self.sessions_expired[event.ensemble] += 1
        elif isinstance(event, WatchFired):
            self.watch_events[event.ensemble] += 1

    def requests(self) -> tuple[dict[tuple[str, str, str], int], dict[tuple[str, str], Histogram]]:
        """Returns how many have ended, and their seconds, which are not told apart by outcome."""
        counts: dict[tuple[str, str, str], int] = defaultdict(int)
        sums: dict[tuple[str, str], _Row] = {}
        for ensemble, rows in list(self._rows.items()):
            for (kind, error), row in list(rows.items()):
                now = row.copy()  # in one step
                operation = operation_of(kind)
                counts[ensemble, operation, outcome_of(error)] += int(sum(now[:-1]))
                so_far = sums.get((ensemble, operation), [0.0] * len(now))
                sums[ensemble, operation] = [one + other for one, other in zip(so_far, now, strict=True)]
        seconds = {key: Histogram(tuple(map(int, each[:-1])), each[-1]) for key, each in sums.items()}
        return dict(counts), seconds
