"""Ensembles of three servers: a session outlives its server, and what lacks a quorum does not stop the others."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Any

from kazoo.exceptions import ConnectionLoss, NoNodeError
from kazoo.protocol.states import KazooState

from parkazoo.kazoo_private import Connect
from parkazoo.local import HOST, LocalCluster, LocalServer
from tests.fakes.conversation import framed
from tests.live.world import DEADLINE_S, LiveTest, Seen, wait_until

ENSEMBLES = 2
MANY = 200
LONG_S = 60.0
CLUSTER: LocalCluster


def setUpModule() -> None:
    global CLUSTER  # noqa: PLW0603 - unittest's way of a fixture
    CLUSTER = LocalCluster(ensembles=ENSEMBLES, servers=3)
    CLUSTER.start()


def tearDownModule() -> None:
    CLUSTER.stop()


class TestQuorum(LiveTest):
    ensembles = ENSEMBLES

    @classmethod
    def setUpClass(cls) -> None:
        cls.cluster = CLUSTER

    def setUp(self) -> None:
        super().setUp()
        self.addCleanup(self.heal)
        self.client = self.parkazoo()
        self.root = self.new_root(self.client)
        paths = (f"{self.root}/{number}" for number in range(100))
        self.paths = [
            next(path for path in paths if self.placement.of_children(path) == n) for n in range(ENSEMBLES)
        ]
        for path in self.paths:
            self.client.create(f"{path}/first", makepath=True)

    def heal(self) -> None:
        for ensemble in self.cluster.ensembles:
            for server in ensemble.servers:
                if not server.is_running:
                    server.start()
            for server in ensemble.servers:
                server.wait_serving()

    def server_of(self, client: Any, ensemble: int) -> LocalServer:
        """The server that a client is connected to."""
        port = self.member(client, ensemble)._connection._socket.getpeername()[1]
        return next(each for each in self.cluster.ensembles[ensemble].servers if each.port == port)

    def test_a_server_dies(self) -> None:
        """Whichever: the session goes on at another, with its ephemerals."""
        ephemerals = [self.client.create(f"{path}/ephemeral", ephemeral=True) for path in self.paths]
        session, seen = self.client.client_id, Seen()
        self.client.add_listener(seen)
        for ensemble in range(ENSEMBLES):
            seen.clear()
            self.server_of(self.client, ensemble).kill()
            wait_until(
                lambda: KazooState.SUSPENDED in seen and seen[-1] == KazooState.CONNECTED,
                "connected again",
                LONG_S,
            )
            # Followers of a leader that was killed may close connections once more.
            for path in ephemerals:
                stat = self.client.retry(self.client.exists, path)
                self.assertEqual(stat.ephemeralOwner, session[0])
            wait_until(lambda: self.client.client_id == session, "the same session")
            self.assertEqual({*seen}, {KazooState.SUSPENDED, KazooState.CONNECTED})

    def test_the_session_has_moved(self) -> None:
        """The server says so by ending the connection, but may answer the reads behind a write that it refuses."""
        first, path = f"{self.paths[1]}/first", f"{self.paths[1]}/none"
        member = self.member(self.client, 1)
        with self.assertLogs(level="WARNING") as logs:
            for _ in range(MANY):
                self.client.retry(self.client.get, first)
                here = self.server_of(self.client, 1)
                there = next(each for each in self.cluster.ensembles[1].servers if each is not here)
                asked = Connect(0, 0, 10_000, *member.client_id, False)
                with socket.create_connection((HOST, there.port), DEADLINE_S) as thief:
                    thief.sendall(framed(asked.serialize()))
                    self.assertTrue(thief.recv(1))
                    delete, gets = self.client.delete_async(path), [self.client.get_async(first) for _ in range(3)]
                    with self.assertRaises((ConnectionLoss, NoNodeError)):
                        delete.get(timeout=DEADLINE_S)
                    for get in gets:
                        with suppress(ConnectionLoss):
                            self.assertEqual(get.get(timeout=DEADLINE_S)[0], b"")
                if any("no answer to xid" in line for line in logs.output):
                    return
        self.fail(f"{MANY} times in which no read behind the write was answered")

    def test_no_quorum(self) -> None:
        """The other ensemble's work goes on; the rest follows when the quorum is back."""
        self.client.create(f"{self.paths[1]}/held", ephemeral=True)  # a watch would be gone after the first kill
        ensemble = self.cluster.ensembles[1]
        first, second, _ = ensemble.servers
        for server in (first, second):
            server.kill()
        wait_until(lambda: self.client.state == KazooState.SUSPENDED, "suspended", LONG_S)
        for number in range(20):
            self.client.create(f"{self.paths[0]}/{number}")
        for server in (first, second):
            server.start()
        ensemble.wait_quorum(LONG_S)
        wait_until(lambda: self.client.connected, "connected", LONG_S)
        # A leader that has just been elected may close connections once more.
        self.client.retry(self.client.ensure_path, f"{self.paths[1]}/x")
        self.assertIn("held", self.client.retry(self.client.get_children, self.paths[1]))
        self.assertEqual(len(self.client.get_children(self.paths[0])), 21)

    def test_sync(self) -> None:
        """What another client has written is seen after a sync, whatever server one is connected to."""
        writer = self.parkazoo()
        for number in range(30):
            for path in self.paths:
                writer.set(path, b"%d" % number)
                writer.create(f"{path}/{number}")
                self.client.sync(path)
                self.assertEqual(self.client.get(path)[0], b"%d" % number)
                self.assertEqual(len(self.client.get_children(path)), number + 2)

    def test_chains_through_followers(self) -> None:
        """A client whose members are connected to any servers still gives its own operations one order."""
        for round_number in range(5):
            client = self.parkazoo()
            chains = []
            for number in range(60):
                top = f"{self.root}/{round_number}-{number}"
                client.create_async(top)
                client.create_async(f"{top}/b")
                client.create_async(f"{top}/b/c", b"%d" % number)
                chains.append((client.get_async(f"{top}/b/c"), client.get_children_async(top), number))
            for data, children, number in chains:
                self.assertEqual(data.get(timeout=DEADLINE_S)[0], b"%d" % number)
                self.assertEqual(children.get(timeout=DEADLINE_S), ["b"])
            client.stop()
