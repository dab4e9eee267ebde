"""`parkazoo ready`."""

from __future__ import annotations

import re
import socket
import time
import unittest

from kazoo.exceptions import ConfigurationError, ConnectionDropped

from bench import ROOT
from parkazoo.admin import init_map
from parkazoo.admin.readiness import _ask, find_unready
from parkazoo.errors import ClusterMapError
from parkazoo.local import LocalCluster
from parkazoo.local.four_letter_words import role_of
from parkazoo.protocol.placement import ENSEMBLE
from tests.live.map_case import IDENTITY, MapCase, dump, error_of, free_port, other_spelling, run_command
from tests.live.test_words import server
from tests.live.world import DEADLINE_S, wait_until

LONG = ("--timeout", f"{DEADLINE_S:g}")  # as long as a slow machine may take


class ReadyTest(MapCase):
    def setUp(self) -> None:
        super().setUp()
        self.map = init_map(self.a, self.all)

    def test_ready(self) -> None:
        before = [dump(client) for client in self.plain]
        for hosts in (self.a, f"{self.c},{self.b}"):
            self.assertEqual(run_command("ready", "--hosts", hosts, *LONG), (0, "ready: a, b, c\n", ""))
        self.assertEqual(run_command("ready", "--hosts", self.a, "--ensemble", "b", *LONG)[:2], (0, "ready: b\n"))
        self.assertEqual([dump(client) for client in self.plain], before)

    def test_two_transactions(self) -> None:
        """The session's beginning and its end: it is not left to expire."""
        zxids = [role_of(hosts).zxid for hosts in self.all.values()]
        self.assertEqual(find_unready(self.a, timeout_s=DEADLINE_S), ([*"abc"], {}))
        for hosts, zxid in zip(self.all.values(), zxids, strict=True):
            wait_until(lambda hosts=hosts, zxid=zxid: role_of(hosts).zxid == zxid + 2, f"{hosts} has ended it")

    def test_an_ensemble_is_down(self) -> None:
        closed = f"127.0.0.1:{free_port()}"
        self.publish(self.map.with_hosts({**self.map.ensembles, "b": closed}))
        told = 1, f"not ready: b: {closed}: Connection refused\n"
        wait_until(lambda: run_command("ready", "--hosts", self.a)[:2] == told, "b alone is not ready")
        self.assertEqual(run_command("ready", "--hosts", self.a, "--ensemble", "c", *LONG)[0], 0)

    def test_another_ensemble(self) -> None:
        self.publish(self.map.with_hosts({**self.map.ensembles, "b": other_spelling(self.c)}))
        status, out, _ = run_command("ready", "--hosts", self.a)
        self.assertEqual(status, 1)
        self.assertIn(f"not ready: b: {other_spelling(self.c)}: is ensemble c of cluster {self.map.cluster}", out)
        self.plain[2].delete(ENSEMBLE)
        self.assertIn(
            f"b: {other_spelling(self.c)}: has no {ENSEMBLE}", run_command("ready", "--hosts", self.a)[1]
        )

    def test_no_map(self) -> None:
        closed = f"127.0.0.1:{free_port()}"
        self.assertIn(f"no cluster map was read within 1 s: {closed}: Conn", error_of("ready", "--hosts", closed))
        self.plain[0].set("/parkazoo/map", b"[]")
        self.assertIn("damaged", error_of("ready", "--hosts", self.a))

    def test_wrong_arguments(self) -> None:
        self.assertIn(
            "no ensemble of the map is called 'x'", error_of("ready", "--hosts", self.a, "--ensemble=x", *LONG)
        )
        error_of("ready", "--hosts", "h:x", status=2)
        error_of("ready", "--hosts", self.a, "--ensemble=", status=2)

    def test_closed(self) -> None:
        for client in self.plain:
            client.delete("/parkazoo", recursive=True)
        init_map(self.a, self.all, closed=True, auth=[IDENTITY])
        self.assertIn("/parkazoo/map: NoAuthError", error_of("ready", "--hosts", self.a))
        auth = ("--auth", ":".join(IDENTITY))
        self.assertEqual(run_command("ready", "--hosts", self.a, *auth, *LONG)[:2], (0, "ready: a, b, c\n"))

    def test_the_examples(self) -> None:
        """The commands of docs/operations/ready.md and conf/kubernetes.yaml, with these servers for theirs."""
        page = (ROOT / "docs" / "operations" / "ready.md").read_text()
        (unit,) = re.findall(r"^ExecStartPre=/usr/bin/parkazoo (.*)$", page, re.MULTILINE)
        manifest = (ROOT / "conf" / "kubernetes.yaml").read_text()
        in_pod = re.findall(r"command: \[parkazoo, (ready, .*?)\]", manifest)
        self.assertEqual(len(in_pod), 2)
        hosts = f"{self.a},{self.b}"
        self.assertIn("a1:2181,b1:2181", unit)
        for command in (unit.replace("a1:2181,b1:2181", hosts).split(), *(each.split(", ") for each in in_pod)):
            wait_until(
                lambda command=command: run_command(*command, PARKAZOO_HOSTS=hosts)[0] == 0, " ".join(command)
            )


class QuorumTest(unittest.TestCase):
    def test_an_election_is_awaited(self) -> None:
        """A frozen follower is passed over; a new leader is awaited; without a quorum nothing is ready."""
        with LocalCluster(ensembles=1, servers=3) as cluster:
            (a,) = cluster.ensembles
            frozen = a.followers()[0]
            frozen.freeze()
            self.assertEqual(run_command("ready", "--hosts", a.hosts, *LONG)[0], 0)
            frozen.thaw()
            a.wait_quorum()
            leader = a.leader()
            leader.kill()
            self.assertEqual(run_command("ready", "--hosts", a.hosts, *LONG)[0], 0)
            next(each for each in a.servers if each.is_running).kill()
            self.assertEqual(run_command("ready", "--hosts", a.hosts)[0], 1)


class OtherServersTest(unittest.TestCase):
    def test_sasl(self) -> None:
        digest = {"mechanism": "DIGEST-MD5", "username": "ann", "password": "x"}
        for options in ({"sasl_options": digest}, {"auth": [("sasl", "ann:x")]}):
            with self.assertRaisesRegex(ConfigurationError, "without SASL"):
                find_unready("h:1", **options)
        self.assertIn("without SASL", error_of("ready", "--hosts", "h:1", "--auth=sasl:ann:x", status=2))

    def test_no_zookeeper(self) -> None:
        def greet(connection: socket.socket) -> None:
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            connection.recv(1 << 16)

        def close(connection: socket.socket) -> None:
            connection.recv(1 << 16)

        for play, told in ((greet, "not ZooKeeper's"), (close, "no quorum")):
            with server(play) as address, self.assertRaisesRegex(ConnectionDropped, told):
                _ask((), None, address, time.monotonic() + DEADLINE_S)

    def test_it_says_nothing(self) -> None:
        """Its end is that of the time, and it keeps nobody."""
        with socket.create_server(("127.0.0.1", 0)) as silent:
            hosts = f"127.0.0.1:{silent.getsockname()[1]}"
            with self.assertRaisesRegex(
                ClusterMapError, f"within 0.2 s: {hosts}: (does not answer in time|timed out)"
            ):
                find_unready(hosts, timeout_s=0.2)
