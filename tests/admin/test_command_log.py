"""A command says on stderr what went wrong with it; what its clients log does not come there."""

from __future__ import annotations

import logging
import socket
import unittest
from collections.abc import Callable
from typing import Any
from unittest import mock

from kazoo.client import KazooClient

from parkazoo import ParKazooClient
from parkazoo.admin import walk
from parkazoo.admin.clients import AdminClient

TIMEOUT_S = 60.0
CONNECTIONS = 3


class Unhandled(logging.Handler):
    """Has what Python would print on stderr, because no handler is there for it."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.name}: {record.getMessage()}")


def unhandled(start: Callable[[str], Callable[[], object]]) -> list[str]:
    """Returns the lines of a client whose server accepts each connection and closes it.

    :param start: given the hosts, starts a client, and returns what stops it.
    """
    last = Unhandled()
    with (
        mock.patch.object(logging.getLogger(), "handlers", []),
        mock.patch.object(logging, "lastResort", last),
        socket.create_server(("127.0.0.1", 0)) as listener,
    ):
        listener.settimeout(TIMEOUT_S)
        stop = start(f"127.0.0.1:{listener.getsockname()[1]}")
        try:
            for _ in range(CONNECTIONS):
                listener.accept()[0].close()
        finally:
            stop()
    return last.lines


class TestCommandLog(unittest.TestCase):
    def test_connections_that_are_lost(self) -> None:
        def start_plain(hosts: str) -> Callable[[], object]:
            return self.started(KazooClient(hosts))

        def start_admin(hosts: str) -> Callable[[], object]:
            client = AdminClient("a", hosts, {}, TIMEOUT_S)
            client.start()
            return client.stop

        def start_walk(hosts: str) -> Callable[[], object]:
            return self.started(ParKazooClient(hosts, logger=walk.log))

        self.assertNotEqual(unhandled(start_plain), [])  # they do log
        self.assertEqual(unhandled(start_admin), [])
        self.assertEqual(unhandled(start_walk), [])

    def started(self, client: Any) -> Callable[[], object]:
        self.addCleanup(client.close)
        client.start_async()
        return client.stop  # type: ignore[no-any-return]


if __name__ == "__main__":
    unittest.main()
