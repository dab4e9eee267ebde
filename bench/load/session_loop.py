"""Sessions as a load: each is begun on one of the servers and ended, as barely as possible."""

from __future__ import annotations

import random
import socket
import time
from struct import pack
from typing import Any

from bench.bare_requests import CLOSE, CONNECTED, INT, connect, frame
from bench.load.record import Record
from bench.load.requests import Requests

ANSWER_TIMEOUT_S = 5.0


class NoSessionError(Exception):
    """The server gives none."""


def run_sessions(
    hosts: str, timeout_s: float, requests: Requests, record: Record, finish: Any, chance: random.Random
) -> None:
    """One after the other. A record counts from the connection until the session is there.

    :param hosts: ``"host:port,..."``, of which each session takes one at random.
    """
    places = [(host, int(port)) for host, _, port in (each.rpartition(":") for each in hosts.split(","))]
    while not finish.is_set():
        request = requests.draw()
        begun_ns = time.perf_counter_ns()
        try:
            with socket.create_connection(chance.choice(places), ANSWER_TIMEOUT_S) as connection:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, pack("ii", 1, 0))  # ports would run out
                connection.sendall(connect(int(timeout_s * 1000)))
                _, _, granted_ms, _, _, _ = CONNECTED.unpack_from(INT.pack(0) + _receive(connection))
                if not granted_ms:
                    raise NoSessionError
                record.add(request, begun_ns, time.perf_counter_ns())
                connection.sendall(frame(1, CLOSE))
                _receive(connection)
        except (OSError, NoSessionError) as error:
            record.add_failed(request, begun_ns, time.perf_counter_ns(), error)


def _receive(connection: socket.socket) -> bytes:
    """A frame, without its length."""
    (length,) = INT.unpack(_read(connection, INT.size))
    return _read(connection, length)


def _read(connection: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        part = connection.recv(length - len(data))
        if not part:
            raise ConnectionResetError
        data += part
    return data
