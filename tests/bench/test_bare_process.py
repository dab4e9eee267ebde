"""The loops of bare sockets, on servers that only answer."""

from __future__ import annotations

import random
import socket
import threading
import unittest
import unittest.mock
from collections import Counter
from contextlib import redirect_stdout, suppress
from io import StringIO
from itertools import takewhile
from typing import Any

from bench.bare_requests import CONNECTED, CREATE, GET_DATA, INT, REPLY, SET_DATA, BareError
from bench.load.bare_process import BareClients
from bench.load.loops import arrivals
from bench.load.plan import BETWEEN_ENSEMBLES, Plan
from bench.load.record import ANSWERED, FAILED, ROW, UNANSWERED
from bench.load.requests import GET, SET

HOST = "127.0.0.1"
CLIENTS, IN_FLIGHT, DIRECTORIES = 2, 4, 4


class Answering:
    """A server that knows ZooKeeper's frames.

    :param error: of each answer to a set.
    :param most: so many sets are answered.
    """

    def __init__(self, error: int = 0, most: int = 1 << 40) -> None:
        self._error, self._left = error, most
        self.kinds: Counter[int] = Counter()
        self.connections = 0
        self._socket = socket.create_server((HOST, 0))
        self.place = f"{HOST}:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                self.connections += 1
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as frames, suppress(OSError):
            frames.read(INT.unpack(frames.read(INT.size))[0])
            connection.sendall(CONNECTED.pack(CONNECTED.size - INT.size, 0, 60_000, 1, 16, bytes(16)))
            while length := frames.read(INT.size):
                xid, kind = INT.unpack(frames.read(4))[0], INT.unpack(frames.read(4))[0]
                frames.read(INT.unpack(length)[0] - 8)
                self.kinds[kind] += 1
                self._left -= kind == SET_DATA
                if kind != SET_DATA or self._left >= 0:
                    error = self._error if kind == SET_DATA else 0
                    connection.sendall(REPLY.pack(REPLY.size - INT.size, xid, 1, error))

    def close(self) -> None:
        self._socket.close()


class TestBareClients(unittest.TestCase):
    def serve(self, **how: Any) -> Answering:
        server = Answering(**how)
        self.addCleanup(server.close)
        return server

    def run_plan(self, hosts: str, **entries: Any) -> tuple[list[tuple[Any, ...]], Counter[str]]:
        """The rows of the record, and the errors."""
        base = {"threads": CLIENTS, "in_flight": IN_FLIGHT, "directories": DIRECTORIES, "is_pinned": True}
        times = {"warm_up_s": 0.05, "measure_s": 0.1}
        plan = Plan(
            system="zookeeper", hosts=hosts, root="/r", name="n", write="set", **{**base, **times, **entries}
        )
        clients = BareClients(plan)
        try:
            with redirect_stdout(StringIO()):
                account = clients.work()
        finally:
            clients.close()
        return [*ROW.iter_unpack(account.rows)], account.errors

    def test_closed_loop(self) -> None:
        """On each ensemble as many requests, in its own directories, by its servers in turn."""
        first, second, other = self.serve(), self.serve(), self.serve()
        hosts = f"{first.place},{second.place}{BETWEEN_ENSEMBLES}{other.place}"
        rows, errors = self.run_plan(hosts, ensembles=2)
        self.assertEqual(([each.connections for each in (first, second, other)], errors), ([1, 1, 2], {}))
        self.assertEqual({(row[4], row[6]) for row in rows}, {(SET, ANSWERED)})
        self.assertEqual({row[5] for row in rows}, {*range(DIRECTORIES)})
        of_other = sum(row[5] % 2 for row in rows)
        self.assertEqual(other.kinds[SET_DATA], of_other)
        self.assertEqual(first.kinds[SET_DATA] + second.kinds[SET_DATA], len(rows) - of_other)
        made = DIRECTORIES // 2 * (1 + 1 + Plan.leaves)  # the root each time, a directory, its leaves
        self.assertEqual([each.kinds[CREATE] for each in (first, second, other)], [made, 0, made])

    def test_open_loop(self) -> None:
        """Each that was to come in the time has come, whatever the server does."""
        rows, _ = self.run_plan(self.serve().place, rate_s=400, read_share=1.0, is_pinned=False, seed=5)
        due = takewhile(lambda at_s: at_s < 0.15, arrivals(400, random.Random("5 arrivals")))
        self.assertEqual(len(rows), len([*due]))
        self.assertEqual({(row[4], row[6]) for row in rows}, {(GET, ANSWERED)})
        self.assertTrue(all(row[2] >= 0 for row in rows))  # late

    def test_linearizable_reads(self) -> None:
        server = self.serve()
        rows, _ = self.run_plan(server.place, read_share=1.0, is_linearizable=True)
        self.assertEqual(server.kinds[GET_DATA], len(rows))
        self.assertEqual(server.kinds[9], len(rows))

    def test_errors(self) -> None:
        rows, errors = self.run_plan(self.serve(error=-4).place)
        self.assertEqual({row[6] for row in rows}, {FAILED})
        self.assertEqual(errors, {"BareError": len(rows)})

    def test_no_answers(self) -> None:
        with unittest.mock.patch("bench.load.bare_process.ANSWER_TIMEOUT_S", 0.1):
            rows, _ = self.run_plan(self.serve(most=10).place, measure_s=2.0)  # so long ten may take
        self.assertEqual(Counter(row[6] for row in rows), {ANSWERED: 10, UNANSWERED: CLIENTS * IN_FLIGHT})

    def test_a_server_that_goes(self) -> None:
        listening = socket.create_server((HOST, 0))
        self.addCleanup(listening.close)

        def hang_up() -> None:
            listening.accept()[0].close()

        threading.Thread(target=hang_up, daemon=True).start()
        with self.assertRaises((BareError, OSError)):
            self.run_plan(f"{HOST}:{listening.getsockname()[1]}", threads=1)
