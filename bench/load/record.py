"""The record of each request: when it began, how long it took, and what became of it."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from struct import Struct

from bench.load.requests import Request

ANSWERED, FAILED, UNANSWERED = range(3)
# What is known of a request, with the type in the notation of struct, which is numpy's too.
COLUMNS = {
    "begun_ns": "q",  # since the epoch; in the open loop, when it was meant to begin
    "took_ns": "q",  # for a request without an answer, until the end of the run
    "late_ns": "q",  # in the open loop, how much later than meant it was sent
    "call_ns": "q",  # of a deferred write, until the call returned
    "kind": "B",  # requests.CREATE, ...
    "directory": "H",
    "outcome": "B",
}
ROW = Struct("=" + "".join(COLUMNS.values()))


@dataclass
class Account:
    """What a process did.

    :param begun_s: when the load began, in seconds since the epoch; `ended_s` likewise.
    :param cpu_share: of one processor, while the load went on.
    :param rows: of all requests, as ROW has them.
    """

    begun_s: float
    ended_s: float
    cpu_share: float
    rows: bytes
    errors: Counter[str]


class Record:
    """Requests of one client. Several threads may add to it, because each adds a row by one call.

    :ivar rows: one ROW after the other.
    """

    def __init__(self) -> None:
        self.rows = bytearray()
        self.errors: Counter[str] = Counter()
        self._epoch_ns = time.time_ns() - time.perf_counter_ns()

    def add(
        self,
        request: Request,
        begun_ns: int,
        ended_ns: int,
        outcome: int = ANSWERED,
        late_ns: int = 0,
        call_ns: int = 0,
    ) -> None:
        """
        :param begun_ns: and `ended_ns`, by time.perf_counter_ns.
        """
        begun_at_ns, took_ns = begun_ns + self._epoch_ns, ended_ns - begun_ns
        self.rows.extend(
            ROW.pack(begun_at_ns, took_ns, late_ns, call_ns, request.kind, request.directory, outcome)
        )

    def add_failed(
        self,
        request: Request,
        begun_ns: int,
        ended_ns: int,
        error: BaseException,
        late_ns: int = 0,
        call_ns: int = 0,
    ) -> None:
        self.errors[type(error).__name__] += 1
        self.add(request, begun_ns, ended_ns, FAILED, late_ns, call_ns)
