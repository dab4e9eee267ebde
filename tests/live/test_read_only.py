"""A read-only connection looks for a server that can write, and goes over to it.

kazoo 2.11 cannot read what a 3.9 server without a quorum answers, so a relay makes a server look read-only.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

from kazoo.protocol.states import KeeperState

from parkazoo import ParKazooClient
from tests.live.world import DEADLINE_S, LiveTest, wait_until

TIMEOUT_S = 9  # of the session: a third of it passes between pings
READ_BYTES = 1 << 16
FRAME_SIZE = 4
YES = b"\1"


class Relay:
    """Relays to a server, of which it says that it is read-only.

    :ivar can_write: whether it says so no more.
    """

    def __init__(self, host: str, port: int) -> None:
        self._server = host, port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.sessions = 0
        self.can_write = False
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            asked = client.recv(READ_BYTES)
            if asked == b"isro":
                client.sendall(b"rw" if self.can_write else b"ro")
                return
            self.sessions += 1
            is_read_only = not self.can_write
            with socket.create_connection(self._server) as server:
                server.sendall(asked)
                answer = server.recv(READ_BYTES)
                end = FRAME_SIZE + int.from_bytes(answer[:FRAME_SIZE], "big")  # more answers may follow
                client.sendall(answer[: end - 1] + YES + answer[end:] if is_read_only else answer)
                threading.Thread(target=self._pass_on, args=(server, client), daemon=True).start()
                self._pass_on(client, server)

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(READ_BYTES):
                target.sendall(data)
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.close()


class TestReadOnly(LiveTest):
    ensembles = 1

    def test_a_server_that_can_write(self) -> None:
        host, _, port = self.cluster.hosts.partition(",")[0].rpartition(":")
        relay = Relay(host, int(port))
        self.addCleanup(relay.close)
        client = ParKazooClient(f"127.0.0.1:{relay.port}", timeout=TIMEOUT_S, read_only=True)
        self.addCleanup(client.close)
        self.addCleanup(client.stop)
        client.start(DEADLINE_S)
        self.assertEqual(client.client_state, KeeperState.CONNECTED_RO)
        session, sessions = client.client_id, relay.sessions
        relay.can_write = True
        # In kazoo the state comes a moment before `connected`, without which there is no `client_id`.
        wait_until(
            lambda: client.connected and client.client_state == KeeperState.CONNECTED,
            "a connection that can write",
        )
        self.assertGreater(relay.sessions, sessions)
        self.assertEqual(client.client_id, session)
        client.create("/written-after-read-only")
        client.delete("/written-after-read-only")
