"""Requests that a client has sent and not been answered yet."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any

from bench.load.record import UNANSWERED, Record
from bench.load.requests import Request, Requests

POLL_S = 0.02


def nothing() -> None:
    pass


class Outstanding:
    """Sends requests of one client and records what becomes of them."""

    def __init__(self, client: Any, record: Record) -> None:
        self._client = client
        self._record = record
        self._numbers = count()
        self._open: dict[int, tuple[Request, int, int]] = {}

    def send(self, requests: Requests, meant_ns: int, then: Callable[[], None] = nothing) -> None:
        """Send the next one, without waiting.

        :param meant_ns: when it was to be sent, by time.perf_counter_ns.
        :param then: called when it was answered.
        """
        request, number = requests.draw(), next(self._numbers)
        self._open[number] = request, meant_ns, time.perf_counter_ns() - meant_ns
        requests.ask(self._client, request).rawlink(partial(self._answered, requests, number, then))

    def _answered(self, requests: Requests, number: int, then: Callable[[], None], result: Any) -> None:
        now_ns = time.perf_counter_ns()
        sent = self._open.pop(number, None)
        if sent is None:  # given up already
            return
        request, meant_ns, late_ns = sent
        if result.exception is None:
            requests.done(request)
            self._record.add(request, meant_ns, now_ns, late_ns=late_ns)
        else:
            self._record.add_failed(request, meant_ns, now_ns, result.exception, late_ns)
        then()

    def wait_answered(self, timeout_s: float) -> None:
        """Wait until there are no more. Those that are there after `timeout_s` are recorded as not answered."""
        deadline = time.monotonic() + timeout_s
        while self._open and time.monotonic() < deadline:
            self._client.handler.sleep_func(POLL_S)
        now_ns = time.perf_counter_ns()
        for number in list(self._open):
            if sent := self._open.pop(number, None):
                request, meant_ns, late_ns = sent
                self._record.add(request, meant_ns, now_ns, UNANSWERED, late_ns)
