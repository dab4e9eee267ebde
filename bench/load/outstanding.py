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

    def __len__(self) -> int:
        return len(self._open)

    def send(
        self,
        requests: Requests,
        meant_ns: int,
        then: Callable[[], None] = nothing,
        able_ns: int | None = None,
        chain: int = 1,
    ) -> None:
        """Send the next one, without waiting.

        :param meant_ns: when it was to be sent, by time.perf_counter_ns.
        :param then: called when it was answered.
        :param able_ns: when it could be sent; None: when it was meant to.
        :param chain: so many, each when the one before was answered; the record has the last one, for all of them.
        """
        late_ns = time.perf_counter_ns() - (meant_ns if able_ns is None else able_ns)
        self._ask(requests, next(self._numbers), then, meant_ns, late_ns, chain)

    def _ask(
        self, requests: Requests, number: int, then: Callable[[], None], meant_ns: int, late_ns: int, left: int
    ) -> None:
        request = requests.draw()
        self._open[number] = request, meant_ns, late_ns
        requests.ask(self._client, request).rawlink(partial(self._answered, requests, number, then, left - 1))

    def _answered(self, requests: Requests, number: int, then: Callable[[], None], left: int, result: Any) -> None:
        now_ns = time.perf_counter_ns()
        sent = self._open.pop(number, None)
        if sent is None:  # given up already
            return
        request, meant_ns, late_ns = sent
        if result.exception is None:
            requests.done(request)
            if left:
                self._ask(requests, number, then, meant_ns, late_ns, left)
                return
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
