"""Programs that send bytes, in a process of their own: so that what they cost is not the gateway's."""

from __future__ import annotations

import selectors
import socket
import statistics
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from multiprocessing.connection import Connection

from bench.bare_requests import (
    CONNECTED,
    INT,
    NODE_EXISTS,
    PING,
    PING_XID,
    REPLY,
    BareError,
    connect,
    create,
    frame,
    get_data,
    set_data,
    text,
)
from bench.client.crowd import FILES_BESIDE, allow_files
from bench.client.paths import VALUE
from parkazoo.wire.loop import READ_BYTES

EXISTS = 3
IDLE_TIMEOUT_MS = 40_000
PING_EVERY_S = 5.0
MOST_WAITING = 50  # sessions that begin at a time
DEADLINE_S = 60.0
P99 = 98  # of the 99 cuts
Address = tuple[str, int]


def exists(path: str) -> tuple[int, bytes]:
    return EXISTS, text(path) + b"\0"


REQUESTS: Mapping[str, Callable[[str], tuple[int, bytes]]] = {
    "get": get_data,
    "set": lambda path: set_data(path, VALUE),
    "exists": exists,
}


@dataclass(frozen=True)
class Order:
    """
    :param kind: of the REQUESTS. :param in_flight: requests without an answer, always.
    """

    kind: str
    in_flight: int
    operations: int


@dataclass(frozen=True)
class Report:
    """
    :param median_s: of the latencies. :param cpu_s: of the program's process.
    """

    operations: int
    wall_s: float
    median_s: float
    p99_s: float
    cpu_s: float


class Program:
    """One session. While it does nothing, it has to be told to ping."""

    def __init__(self, address: Address) -> None:
        self._sock = socket.create_connection(address, DEADLINE_S)
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sock.sendall(connect(IDLE_TIMEOUT_MS))
        self._rest = b""
        while len(self._rest) < CONNECTED.size or len(self._rest) < INT.size + INT.unpack_from(self._rest)[0]:
            self._rest += self._receive()
        self._rest = self._rest[INT.size + INT.unpack_from(self._rest)[0] :]
        self._xid = 0

    def _receive(self) -> bytes:
        data = self._sock.recv(READ_BYTES)
        if not data:
            raise BareError("the connection was closed")
        return data

    def send(self, requests: Sequence[tuple[int, bytes]]) -> None:
        frames = []
        for kind, body in requests:
            self._xid += 1
            frames.append(frame(self._xid, kind, body))
        self._sock.sendall(b"".join(frames))

    def answers(self) -> list[int]:
        """The error codes of the next whole answers, at least of one."""
        codes: list[int] = []
        while not codes:
            data = self._rest + self._receive()
            begin = 0
            while len(data) - begin >= REPLY.size:
                length, _, _, code = REPLY.unpack_from(data, begin)
                if len(data) - begin < INT.size + length:
                    break
                codes.append(code)
                begin += INT.size + length
            self._rest = data[begin:]
        return codes

    def ping(self) -> None:
        """:raises BareError: the session has ended."""
        self._sock.sendall(frame(PING_XID, PING))
        self.answers()

    def make(self, paths: Sequence[str]) -> None:
        """Make znodes, unless they are there.

        :raises BareError: they cannot be made.
        """
        for path in paths:
            self.send([create(path, VALUE)])
            (code,) = self.answers()
            if code not in (0, NODE_EXISTS):
                raise BareError(f"{path}: error {code}")

    def run(self, order: Order, paths: Sequence[str]) -> Report:
        """:raises BareError: an answer is an error."""
        request = REQUESTS[order.kind]
        left: Iterator[tuple[int, bytes]] = iter([*islice(cycle([*map(request, paths)]), order.operations)])
        began: deque[float] = deque()
        latencies_s: list[float] = []
        cpu_s, wall_s = time.process_time(), time.perf_counter()
        room = order.in_flight
        while len(latencies_s) < order.operations:
            if some := [*islice(left, room)]:
                began.extend([time.perf_counter()] * len(some))
                self.send(some)
            codes, now_s = self.answers(), time.perf_counter()
            if any(codes):
                raise BareError(f"{order.kind}: error {next(filter(None, codes))}")
            room = len(codes)
            latencies_s += [now_s - began.popleft() for _ in codes]
        wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
        p99_s = statistics.quantiles(latencies_s, n=100)[P99]
        return Report(order.operations, wall_s, statistics.median(latencies_s), p99_s, cpu_s)


def work(pipe: Connection, address: Address, parents: Sequence[str], paths: Sequence[str]) -> None:
    """Take orders. What they name has been made.

    :param parents: of the paths, in an order in which they can be made.
    """
    program = Program(address)
    program.make([*parents, *paths])
    pipe.send(None)
    while True:
        while not pipe.poll(PING_EVERY_S):
            program.ping()
        order = _next(pipe)
        if order is None:
            return
        pipe.send(program.run(order, paths))


def hold(pipe: Connection, address: Address) -> None:
    """Hold as many sessions as the pipe says, each time that it says a number, and ping for all of them."""
    holder = _Holder(address)
    while True:
        if pipe.poll(0 if holder.is_late else PING_EVERY_S / 10):
            try:
                count = pipe.recv()
            except (EOFError, OSError):
                return
            holder.have(count)
            pipe.send(count)
        holder.ping()


class _Holder:
    def __init__(self, address: Address) -> None:
        self._address = address
        self._held: list[socket.socket] = []
        self._selector = selectors.DefaultSelector()
        self._pinged_s = time.monotonic()

    @property
    def is_late(self) -> bool:
        """Whether it is time for the next pings."""
        return time.monotonic() > self._pinged_s + PING_EVERY_S

    def have(self, count: int) -> None:
        """:raises BareError: a session has not begun."""
        allow_files(count + FILES_BESIDE)
        while len(self._held) < count:
            self._begin(min(MOST_WAITING, count - len(self._held)))
            self.ping()

    def _begin(self, count: int) -> None:
        new = [socket.create_connection(self._address, DEADLINE_S) for _ in range(count)]
        for each in new:
            each.sendall(connect(IDLE_TIMEOUT_MS))
        for each in new:
            answer = each.recv(READ_BYTES)
            if len(answer) < CONNECTED.size or CONNECTED.unpack_from(answer)[2] <= 0:
                raise BareError("no session")
            self._selector.register(each, selectors.EVENT_READ)
        self._held += new

    def ping(self) -> None:
        """If it is time.

        :raises BareError: a session has ended.
        """
        for key, _ in self._selector.select(0):
            assert isinstance(key.fileobj, socket.socket)
            if not key.fileobj.recv(READ_BYTES):
                raise BareError("a session has ended")
        if self.is_late:
            self._pinged_s = time.monotonic()
            for each in self._held:
                each.sendall(frame(PING_XID, PING))


def _next(pipe: Connection) -> Order | None:
    try:
        order: Order = pipe.recv()
    except (EOFError, OSError):
        return None
    return order
