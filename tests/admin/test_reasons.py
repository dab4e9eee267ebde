"""Why a command's client did not connect, in words."""

from __future__ import annotations

import socket
import unittest

from kazoo.protocol.states import KeeperState

from parkazoo.admin.clients import REFUSED, AdminClient, reasons


class TestReasons(unittest.TestCase):
    def test_refused(self) -> None:
        """kazoo goes on to CLOSED at once when servers have refused an identity."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            client = AdminClient("a", f"127.0.0.1:{server.getsockname()[1]}", {}, 1.0)
            for state, words in (
                (KeeperState.AUTH_FAILED, REFUSED),
                (KeeperState.CLOSED, REFUSED),
                (KeeperState.CONNECTING, "answers, but not as a ZooKeeper that serves"),
            ):
                with self.subTest(state):
                    client.zk._state = state
                    self.assertIn(words, reasons(client))
