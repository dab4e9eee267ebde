"""The process of a load whose clients are bare sockets: all of them in one thread, on ZooKeeper or on etcd."""

from __future__ import annotations

import json
import random
import selectors
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import cycle
from typing import NamedTuple, Protocol

from bench.bare_requests import BareError
from bench.load.etcd_wire import EtcdWire
from bench.load.loops import ANSWER_TIMEOUT_S, LOOK_S, arrivals
from bench.load.plan import BETWEEN_ENSEMBLES, ETCD, Plan
from bench.load.record import UNANSWERED, Account, Record
from bench.load.requests import CREATE, SET, Request, Requests, leaves_of, name_directories, value_of
from bench.load.zookeeper_wire import ZooKeeperWire
from parkazoo.wire.loop import READ_BYTES


class Wire(Protocol):
    """Bytes and requests of one connection: EtcdWire, ZooKeeperWire."""

    def ask(self, request: Request) -> int: ...

    def outgoing(self) -> bytes: ...

    def hear(self, data: bytes) -> list[tuple[int, str]]: ...

    def end(self) -> bytes: ...


class Sent(NamedTuple):
    """A request that is not answered yet. Times are by time.perf_counter_ns.

    :param requests: where it is from.
    """

    request: Request
    requests: Requests | None
    meant_ns: int
    late_ns: int


class Lane:
    """A connection of a client to a server of one ensemble."""

    def __init__(self, plan: Plan, place: str) -> None:
        value = value_of(plan)
        make: Callable[[bytes, bool], Wire] = EtcdWire if plan.system == ETCD else ZooKeeperWire
        self.wire = make(value, plan.is_linearizable)
        self.open: dict[int, Sent] = {}
        host, _, port = place.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), plan.connect_timeout_s)
        self.socket.settimeout(None)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def put(self, request: Request, requests: Requests | None, meant_ns: int, late_ns: int = 0) -> None:
        self.open[self.wire.ask(request)] = Sent(request, requests, meant_ns, late_ns)

    def flush(self) -> None:
        if data := self.wire.outgoing():
            self.socket.sendall(data)

    def receive(self) -> list[tuple[Sent, str]]:
        """What is answered by what has come, each with its error, if it has one.

        :raises BareError: the connection is lost.
        """
        data = self.socket.recv(READ_BYTES)
        if not data:
            raise BareError("the server has closed the connection")
        return [(self.open.pop(number), error) for number, error in self.wire.hear(data) if number in self.open]

    def close(self) -> None:
        with suppress(OSError):
            self.socket.sendall(self.wire.end())
        self.socket.close()


class BareClients:
    """The clients of this process, each with a connection to every ensemble, its servers in turn."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._paths = name_directories(plan)
        self._record = Record()
        ensembles = [hosts.split(",") for hosts in plan.hosts.split(BETWEEN_ENSEMBLES)]
        self._clients = [
            [Lane(plan, places[number % len(places)]) for places in ensembles] for number in range(plan.threads)
        ]
        self._selector = selectors.SelectSelector()  # its time-outs are exact, and there are few sockets
        for lane in self._lanes():
            self._selector.register(lane.socket, selectors.EVENT_READ, lane)

    def _lanes(self) -> Iterator[Lane]:
        return (lane for client in self._clients for lane in client)

    def work(self) -> Account:
        """
        :raises BareError: a connection is lost, or preparations fail.
        """
        self._make_znodes()
        print(json.dumps({"begun_s": time.time()}), flush=True)
        begun_s, cpu_s = time.time(), time.process_time()
        end_ns = time.perf_counter_ns() + int(self._plan.total_s() * 1e9)
        if self._plan.rate_s:
            self._run_open(end_ns)
        else:
            self._run_closed(end_ns)
        self._finish()
        cpu_s, ended_s = time.process_time() - cpu_s, time.time()
        record = self._record
        return Account(begun_s, ended_s, cpu_s / (ended_s - begun_s), bytes(record.rows), record.errors)

    def _make_znodes(self) -> None:
        """The directories, where there are any, and the leaves in them, one request after the other."""
        for number, directory in enumerate(self._paths):
            lane = self._clients[0][number % self._plan.ensembles]
            made = [] if self._plan.system == ETCD else [self._plan.root, directory]
            kind = SET if self._plan.system == ETCD else CREATE
            for path in [*made, *leaves_of(directory, self._plan.leaves)]:
                lane.put(Request(kind, number, path), None, time.perf_counter_ns())
                while lane.open:
                    lane.flush()
                    for _, error in lane.receive():
                        if error:
                            raise BareError(f"{path} cannot be made: {error}")

    def _run_closed(self, end_ns: int) -> None:
        """Each sequence stays in its directory, so each connection has as many requests outstanding."""
        plan = self._plan
        for number in range(plan.threads * plan.in_flight):
            directory = number % plan.directories
            requests = self._requests(number, directory)
            lane = self._clients[number // plan.in_flight][directory % plan.ensembles]
            lane.put(requests.draw(), requests, time.perf_counter_ns())
        for lane in self._lanes():
            lane.flush()
        while time.perf_counter_ns() < end_ns:
            self._listen(LOOK_S, goes_on=True)

    def _run_open(self, end_ns: int) -> None:
        """At random times, by the clients in turn; latency counts from the time that a request was meant for."""
        plan, began_ns = self._plan, time.perf_counter_ns()
        requests, clients = self._requests(0, None), cycle(self._clients)
        for at_s in arrivals(plan.rate_s, random.Random(f"{plan.seed} arrivals")):
            meant_ns = began_ns + int(at_s * 1e9)
            if meant_ns > end_ns:
                break
            while (left_s := (meant_ns - time.perf_counter_ns()) / 1e9) > 0:
                self._listen(min(left_s, LOOK_S))
            request = requests.draw()
            lane = next(clients)[request.directory % plan.ensembles]
            lane.put(request, None, meant_ns, time.perf_counter_ns() - meant_ns)
            lane.flush()
            self._listen(0)

    def _requests(self, number: int, directory: int | None) -> Requests:
        plan = self._plan
        return Requests(
            plan, self._paths, f"{plan.name}-{number}", random.Random(f"{plan.seed} {number}"), directory
        )

    def _listen(self, timeout_s: float, *, goes_on: bool = False) -> None:
        """Take what has come, within so long.

        :param goes_on: each request that is answered has a successor.
        """
        for key, _ in self._selector.select(timeout_s):
            lane: Lane = key.data
            answered = lane.receive()
            now_ns = time.perf_counter_ns()
            for (request, requests, meant_ns, late_ns), error in answered:
                if error:
                    self._record.add_failed(request, meant_ns, now_ns, BareError(error), late_ns)
                else:
                    self._record.add(request, meant_ns, now_ns, late_ns=late_ns)
                if goes_on and requests:
                    lane.put(requests.draw(), requests, now_ns)
            lane.flush()

    def _finish(self) -> None:
        """Wait for what is still outstanding."""
        deadline_ns = time.perf_counter_ns() + int(ANSWER_TIMEOUT_S * 1e9)
        while any(lane.open for lane in self._lanes()) and time.perf_counter_ns() < deadline_ns:
            self._listen(LOOK_S)
        now_ns = time.perf_counter_ns()
        for lane in self._lanes():
            for request, _, meant_ns, late_ns in lane.open.values():
                self._record.add(request, meant_ns, now_ns, UNANSWERED, late_ns)

    def close(self) -> None:
        for lane in self._lanes():
            lane.close()
