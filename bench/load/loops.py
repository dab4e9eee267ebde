"""How one client asks: the next request when one was answered (closed loop), or at random times (open loop)."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

from kazoo.exceptions import KazooException

from bench.load.outstanding import Outstanding
from bench.load.record import Record
from bench.load.requests import Requests

ANSWER_TIMEOUT_S = 5.0  # after the end, for what is still outstanding
LOOK_S = 0.1
POOL_POLL_S = 0.001


def run_closed(client: Any, requests: Requests, record: Record, finish: Any) -> None:
    """One synchronous call after the other, as most programs do.

    :param finish: an event of the client's handler.
    """
    while not finish.is_set():
        request = requests.draw()
        begun_ns = time.perf_counter_ns()
        try:
            requests.ask(client, request).get()
        except KazooException as error:
            record.add_failed(request, begun_ns, time.perf_counter_ns(), error)
        else:
            record.add(request, begun_ns, time.perf_counter_ns())
            requests.done(request)


def run_window(client: Any, sequences: list[Requests], record: Record, finish: Any) -> None:
    """Closed loops of one client, one for each of the sequences, all at once."""
    outstanding = Outstanding(client, record)

    def go_on(requests: Requests) -> None:
        if not finish.is_set():
            outstanding.send(requests, time.perf_counter_ns(), partial(go_on, requests))

    for requests in sequences:
        go_on(requests)
    finish.wait()
    outstanding.wait_answered(ANSWER_TIMEOUT_S)


def arrivals(rate_s: float, chance: random.Random) -> Iterator[float]:
    """Times of a Poisson process, in seconds from its beginning, without end."""
    at_s = 0.0
    while True:
        at_s += chance.expovariate(rate_s)
        yield at_s


def run_open(
    client: Any,
    requests: Requests,
    record: Record,
    finish: Any,
    rate_s: float,
    chance: random.Random,
    most_s: float,
    pool: int = 0,
    chain: int = 1,
) -> None:
    """Requests at random times, whether earlier ones were answered or not.

    Latency counts from the time that a request was meant for: one that is sent late has waited already.

    :param most_s: no request is meant for later than so long from now on. The finish may come later than that: it
        may be behind more requests than can be answered.
    :param pool: so many are outstanding at most; 0: any number.
    :param chain: requests one after the other that count as one.
    """
    outstanding = Outstanding(client, record)
    began_ns = time.perf_counter_ns()
    full_until_ns = 0
    for at_s in arrivals(rate_s, chance):
        if at_s > most_s:
            break
        meant_ns = began_ns + int(at_s * 1e9)
        while (left_s := (meant_ns - time.perf_counter_ns()) / 1e9) > 0 and not finish.is_set():
            finish.wait(min(left_s, LOOK_S))
        while pool and len(outstanding) >= pool and not finish.is_set():
            finish.wait(POOL_POLL_S)
            full_until_ns = time.perf_counter_ns()
        if finish.is_set():
            break
        outstanding.send(requests, meant_ns, able_ns=max(meant_ns, full_until_ns), chain=chain)
    outstanding.wait_answered(ANSWER_TIMEOUT_S)
