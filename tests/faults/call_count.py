"""A client's calls, counted in its worker's journal."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable

from parkazoo.monitoring import Listener, OperationEnded

CALLS = "calls"  # the records


class CallCount(Listener):
    """Counts the operations of a client by outcome, and keeps the longest.

    :param record: of a worker.
    """

    def __init__(self, record: Callable[..., None]) -> None:
        self._record = record
        self._lock = threading.Lock()
        self._outcomes = Counter[str]()
        self._longest: tuple[float, str] = (0.0, "")

    def operation_ended(self, event: OperationEnded) -> None:
        with self._lock:
            self._outcomes[event.outcome] += 1
            self._longest = max(self._longest, (event.seconds, event.operation))

    def write(self) -> None:
        """Write those that have ended since the last time. Threads call this."""
        with self._lock:
            outcomes, longest = self._outcomes, self._longest
            self._outcomes, self._longest = Counter(), (0.0, "")
        if outcomes:
            self._record(CALLS, outcomes=outcomes, longest_s=longest[0], longest=longest[1])
