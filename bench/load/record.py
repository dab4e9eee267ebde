"""The record of each request: when it began, how long it took, and what became of it."""

from __future__ import annotations

import time
from array import array
from collections import Counter

from bench.load.requests import Request

ANSWERED, FAILED, UNANSWERED = range(3)
# Of every column the type of array.array, and what it holds.
COLUMNS = {
    "begun_ns": "q",  # since the epoch; in the open loop, when it was meant to begin
    "took_ns": "q",  # for a request without an answer, until the end of the run
    "late_ns": "q",  # in the open loop, how much later than meant it was sent
    "kind": "B",  # requests.CREATE, ...
    "directory": "H",
    "outcome": "B",
}


class Record:
    """Requests of one client. One thread at a time adds to it."""

    def __init__(self) -> None:
        self.columns = {name: array(kind) for name, kind in COLUMNS.items()}
        self.errors: Counter[str] = Counter()
        self._add = [column.append for column in self.columns.values()]
        self._epoch_ns = time.time_ns() - time.perf_counter_ns()

    def add(
        self, request: Request, begun_ns: int, ended_ns: int, outcome: int = ANSWERED, late_ns: int = 0
    ) -> None:
        """
        :param begun_ns: and `ended_ns`, by time.perf_counter_ns.
        """
        values = (
            begun_ns + self._epoch_ns,
            ended_ns - begun_ns,
            late_ns,
            request.kind,
            request.directory,
            outcome,
        )
        for add, value in zip(self._add, values, strict=True):
            add(value)

    def add_failed(
        self, request: Request, begun_ns: int, ended_ns: int, error: BaseException, late_ns: int = 0
    ) -> None:
        self.errors[type(error).__name__] += 1
        self.add(request, begun_ns, ended_ns, FAILED, late_ns)
