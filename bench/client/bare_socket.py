"""The least that Python can do: requests as bytes on a blocking socket. It shows how much room there is."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice

from bench.bare_requests import (
    CLOSE,
    INT,
    NODE_EXISTS,
    REPLY,
    SESSION_TIMEOUT_MS,
    BareError,
    connect,
    create,
    delete,
    frame,
    get_data,
    set_data,
)
from bench.client.paths import MOST_IN_FLIGHT, VALUE
from bench.client.threads import shares
from bench.client.workload import Load
from parkazoo.wire.loop import READ_BYTES

LEAVES = 240


def take_answers(data: bytes) -> tuple[bytes, int]:
    """What is left behind the last whole answer, and the number of whole ones.

    :raises BareError: one is an error.
    """
    begin = answers = 0
    while len(data) - begin >= REPLY.size:
        length, _, _, error = REPLY.unpack_from(data, begin)
        if len(data) - begin < 4 + length:
            break
        if error:
            raise BareError(f"error {error}")
        begin += 4 + length
        answers += 1
    return data[begin:], answers


class BareClient:
    """A session. It sends no pings, so it must be used or closed within the session's time-out."""

    def __init__(self, hosts: str) -> None:
        host, _, port = hosts.partition(",")[0].rpartition(":")
        self._sock = socket.create_connection((host, int(port)))
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sock.sendall(connect(SESSION_TIMEOUT_MS))
        self._receive_frame()
        self._xid = 0

    def _receive_frame(self) -> bytes:
        data = self._some_bytes()
        while len(data) < 4 or len(data) < 4 + INT.unpack_from(data)[0]:
            data += self._some_bytes()
        return data

    def _some_bytes(self) -> bytes:
        data = self._sock.recv(READ_BYTES)
        if not data:
            raise BareError("the server has closed the connection")
        return data

    def _frame(self, kind: int, body: bytes) -> bytes:
        self._xid += 1
        return frame(self._xid, kind, body)

    def call(self, kind: int, body: bytes) -> int:
        """Send a request and wait for the answer.

        :returns: the error code.
        """
        self.send(kind, body)
        return self.receive()

    def send(self, kind: int, body: bytes) -> None:
        self._sock.sendall(self._frame(kind, body))

    def receive(self) -> int:
        """The error code of the answer to the last request."""
        _, xid, _, error = REPLY.unpack_from(self._receive_frame())
        if xid != self._xid:
            raise BareError(f"an answer to request {xid} where {self._xid} was asked")
        return int(error)

    def do(self, kind: int, body: bytes) -> None:
        """
        :raises BareError: the server refuses.
        """
        if error := self.call(kind, body):
            raise BareError(f"error {error}")

    def pipeline(self, requests: Sequence[tuple[int, bytes]]) -> None:
        """Send requests, always as many in flight as there may be, and wait for all answers."""
        left = iter(requests)
        missing = len(requests)
        rest = b""
        self._send_some(left, MOST_IN_FLIGHT)
        while missing:
            rest, answers = take_answers(rest + self._some_bytes())
            missing -= answers
            self._send_some(left, answers)

    def _send_some(self, requests: Iterator[tuple[int, bytes]], count: int) -> None:
        if frames := [self._frame(*each) for each in islice(requests, count)]:
            self._sock.sendall(b"".join(frames))

    def close(self) -> None:
        self.call(CLOSE, b"")
        self._sock.close()


class BareLoad(Load):
    """With one socket, and znodes to read and write.

    :param hosts: of each ensemble.
    """

    def __init__(self, hosts: Sequence[str]) -> None:
        self.hosts = hosts
        self.client = BareClient(hosts[0])
        self.paths = make_leaves(self.client)

    def some_paths(self, count: int) -> list[str]:
        return list(islice(cycle(self.paths), count))

    def close(self) -> None:
        self.client.close()


def make_leaves(client: BareClient) -> list[str]:
    paths = [f"/bench-bare/n{number}" for number in range(LEAVES)]
    for path in ("/bench-bare", *paths):
        if (error := client.call(*create(path, VALUE))) not in (0, NODE_EXISTS):
            raise BareError(f"error {error}")
    return paths


class BareSyncGet(BareLoad):
    def run(self, operations: int) -> None:
        for path in self.some_paths(operations):
            self.client.do(*get_data(path))


class BareSyncSet(BareLoad):
    def run(self, operations: int) -> None:
        for path in self.some_paths(operations):
            self.client.do(*set_data(path, VALUE))


class BareSyncCreateDelete(BareLoad):
    def run(self, operations: int) -> None:
        for path in self.some_paths(operations // 2):
            self.client.do(*create(path + "-new", VALUE))
            self.client.do(*delete(path + "-new"))


class BareRoundGet(BareLoad):
    """With a socket for each ensemble, in turn."""

    def __init__(self, hosts: Sequence[str]) -> None:
        super().__init__(hosts)
        self._clients = [self.client, *(BareClient(each) for each in hosts[1:])]
        for each in self._clients[1:]:
            make_leaves(each)

    def run(self, operations: int) -> None:
        for client, path in zip(cycle(self._clients), self.some_paths(operations)):
            client.do(*get_data(path))

    def close(self) -> None:
        for each in self._clients[1:]:
            each.close()
        super().close()


class BareBothGet(BareRoundGet):
    """Two ensembles at once."""

    def run(self, operations: int) -> None:
        both = self._clients[:2]
        for path in self.some_paths(operations):
            for each in both:
                each.send(*get_data(path))
            for each in both:
                if error := each.receive():
                    raise BareError(f"error {error}")


class BareAsyncGet(BareLoad):
    def run(self, operations: int) -> None:
        self.client.pipeline([get_data(path) for path in self.some_paths(operations)])


class BareAsyncSet(BareLoad):
    def run(self, operations: int) -> None:
        self.client.pipeline([set_data(path, VALUE) for path in self.some_paths(operations)])


class BareThreadsGet(BareLoad):
    """Threads with a socket each, dealt out to the ensembles.

    :param count: of the threads.
    """

    def __init__(self, count: int, hosts: Sequence[str]) -> None:
        super().__init__(hosts)
        self._count = count
        self._clients = [BareClient(each) for each in islice(cycle(hosts), count)]
        for each in self._clients[: len(hosts)]:
            make_leaves(each)
        self._pool = ThreadPoolExecutor(count)

    def run(self, operations: int) -> None:
        list(self._pool.map(self.work, self._clients, shares(self.some_paths(operations), self._count)))

    def work(self, client: BareClient, paths: Sequence[str]) -> None:
        for path in paths:
            client.do(*get_data(path))

    def close(self) -> None:
        self._pool.shutdown()
        for each in self._clients:
            each.close()
        super().close()


class BareThreadsSet(BareThreadsGet):
    def work(self, client: BareClient, paths: Sequence[str]) -> None:
        for path in paths:
            client.do(*set_data(path, VALUE))
