"""How one client asks if its sets are deferred: reads are waited for, sets are not."""

from __future__ import annotations

import random
import time
from collections import defaultdict, deque
from typing import Any, NamedTuple

from kazoo.exceptions import KazooException

from bench.load.loops import arrivals
from bench.load.plan import Plan
from bench.load.record import UNANSWERED, Record
from bench.load.requests import SET, Request, Requests

END_TIMEOUT_S = 5.0  # for what is pending when the load is over
LOOK_S = 0.005
PENDING, COMMITTED = "pending", "committed"


class _Put(NamedTuple):
    ticket: Any
    request: Request
    begun_ns: int
    late_ns: int
    call_ns: int


class DeferredLoop:
    """The deferred writes of one client.

    A write is recorded as answered when it is seen to be committed: at the next write in its directory, or while
    the client waits.
    """

    def __init__(self, client: Any, plan: Plan, record: Record) -> None:
        self._client = client
        self._each = plan.barrier_each
        self._options = {"max_pending": plan.max_pending // plan.clients} if plan.max_pending else {}
        self._record = record
        self._later: Any = client.deferred(**self._options)
        self._pending: defaultdict[int, deque[_Put]] = defaultdict(deque)  # by directory
        self._count = 0

    def send(self, requests: Requests, request: Request, meant_ns: int) -> None:
        """A read, or a write.

        :param meant_ns: when it was to be sent, by time.perf_counter_ns.
        """
        begun_ns = time.perf_counter_ns()
        try:
            if request.kind != SET:
                requests.ask(self._client, request).get()
                self._record.add(request, meant_ns, time.perf_counter_ns(), late_ns=begun_ns - meant_ns)
                return
            ticket = requests.put(self._later, request)
            call_ns = time.perf_counter_ns() - begun_ns
            some = self._pending[request.directory]
            some.append(_Put(ticket, request, meant_ns, begun_ns - meant_ns, call_ns))
            self._settle(some)
            self._count += 1
            if self._each and self._count % self._each == 0:
                self._later.barrier()
                self.look()
        except KazooException as error:
            self._record.add_failed(request, meant_ns, time.perf_counter_ns(), error, begun_ns - meant_ns)
            if request.kind == SET:  # a lane is over
                self._end()
                self._later = self._client.deferred(**self._options)

    def look(self) -> None:
        """Record what has been committed."""
        for some in self._pending.values():
            self._settle(some)

    def _settle(self, some: deque[_Put]) -> None:
        now_ns = time.perf_counter_ns()
        while some and (state := some[0].ticket.state) != PENDING:
            ticket, request, begun_ns, late_ns, call_ns = some.popleft()
            if state == COMMITTED:
                self._record.add(request, begun_ns, now_ns, late_ns=late_ns, call_ns=call_ns)
            else:
                self._record.add_failed(request, begun_ns, now_ns, ticket.error, late_ns, call_ns)

    def finish(self) -> None:
        """Wait for what is pending. What is so after that is recorded as not answered."""
        self._end()
        now_ns = time.perf_counter_ns()
        for some in self._pending.values():
            for _, request, begun_ns, late_ns, call_ns in some:
                self._record.add(request, begun_ns, now_ns, UNANSWERED, late_ns, call_ns)

    def _end(self) -> None:
        deadline_s = time.monotonic() + END_TIMEOUT_S
        while self._later.pending and time.monotonic() < deadline_s:
            self.look()
            self._client.handler.sleep_func(LOOK_S)
        self.look()
        try:
            self._later.close(0)
        except (KazooException, self._client.handler.timeout_exception):  # the tickets say it
            self.look()


def run_deferred(
    client: Any, requests: Requests, record: Record, finish: Any, plan: Plan, chance: random.Random
) -> None:
    """The next request when the call has returned; or at random times, if the plan has a rate.

    :param finish: an event of the client's handler.
    """
    loop = DeferredLoop(client, plan, record)
    if plan.rate_s:
        began_ns = time.perf_counter_ns()
        for at_s in arrivals(plan.rate_s / plan.clients, chance):
            meant_ns = began_ns + int(at_s * 1e9)
            while (left_s := (meant_ns - time.perf_counter_ns()) / 1e9) > 0 and not finish.is_set():
                loop.look()
                finish.wait(min(left_s, LOOK_S))
            if finish.is_set():
                break
            loop.send(requests, requests.draw(), meant_ns)
    else:
        while not finish.is_set():
            loop.send(requests, requests.draw(), time.perf_counter_ns())
    loop.finish()
