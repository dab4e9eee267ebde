"""Four-letter words: a server is asked one, and its whole answer is read."""

from __future__ import annotations

import contextlib
import socket
import threading
import unittest
from collections.abc import Callable, Iterator
from unittest import mock

from parkazoo.admin.words import ask_server, takes_request
from parkazoo.local import HOST
from tests.live.world import DEADLINE_S, shared_cluster

Play = Callable[[socket.socket], None]


@contextlib.contextmanager
def server(play: Play) -> Iterator[tuple[str, int]]:
    """The address of a server that plays that on its first connection, and closes it."""

    def serve() -> None:
        with contextlib.suppress(OSError), listener.accept()[0] as connection:
            play(connection)

    with socket.create_server((HOST, 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()
        thread.join(DEADLINE_S)


class TestAnswers(unittest.TestCase):
    def test_in_many_parts(self) -> None:
        """kazoo's `command` reads 8,192 bytes at most."""
        lines = [f" /10.0.0.7:{port}[1](queued=0,recved=1,sent=1,sid=0x{port:x})\n" for port in range(5000)]
        asked: list[bytes] = []

        def play(connection: socket.socket) -> None:
            asked.append(connection.recv(100))
            for line in lines:
                connection.sendall(line.encode())

        with server(play) as address:
            self.assertEqual(ask_server("cons", address, DEADLINE_S), "".join(lines))
        self.assertEqual(asked, [b"cons"])

    def test_one_that_does_not_end(self) -> None:
        """Whether it says nothing more, or always something more."""
        over = threading.Event()

        def stand_still(connection: socket.socket) -> None:
            connection.sendall(b"Zookeeper version: 3")
            over.wait(DEADLINE_S)

        def flood(connection: socket.socket) -> None:
            while True:
                connection.sendall(b"x" * 1000)

        with server(stand_still) as address:
            with self.assertRaisesRegex(TimeoutError, "timed out"):
                ask_server("srvr", address, 0.2)
            over.set()
        with (
            mock.patch("parkazoo.admin.words.MOST_BYTES", 100_000),
            server(flood) as address,
            self.assertRaisesRegex(OSError, "its answer to mntr has more than 100,000 bytes"),
        ):
            ask_server("mntr", address, DEADLINE_S)

    def test_nobody(self) -> None:
        def say_nothing(connection: socket.socket) -> None:
            connection.recv(100)

        with server(say_nothing) as address:
            self.assertEqual(ask_server("ruok", address, DEADLINE_S), "")
        with self.assertRaises(ConnectionRefusedError):
            ask_server("ruok", address, DEADLINE_S)


class TestSizes(unittest.TestCase):
    def test_a_server_that_is_slow_now(self) -> None:
        """It closes no connection in time, so that tells nothing about the size."""
        with socket.create_server((HOST, 0)) as listener:
            self.assertIsNone(takes_request(1 << 20, listener.getsockname(), DEADLINE_S))

    def test_one_that_was_slow_just_then(self) -> None:
        """It has a limit, and took its time with the first connection."""
        kept: list[socket.socket] = []

        def serve() -> None:
            while True:
                connection, _ = listener.accept()
                kept.append(connection)
                if int.from_bytes(connection.recv(4), "big") > 1 << 20 and len(kept) > 1:
                    connection.close()

        with socket.create_server((HOST, 0)) as listener:
            threading.Thread(target=serve, daemon=True).start()
            address = listener.getsockname()
            self.assertIs(takes_request(1 << 23, address, DEADLINE_S), False)
            self.assertIn(takes_request(1 << 19, address, DEADLINE_S), (True, None))
        for each in kept:
            each.close()

    def test_a_server(self) -> None:
        address = shared_cluster().ensembles[0].servers[0].address
        host, _, port = address.rpartition(":")
        found = [takes_request(size, (host, int(port)), DEADLINE_S) for size in (1000, (1 << 20) - 1, 1 << 20)]
        for is_taken, expected in zip(found, (True, True, False), strict=True):
            self.assertIn(is_taken, (expected, None))
