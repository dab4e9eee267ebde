"""Programs through a gateway, on real ensembles: kazoo, and ZooKeeper's own shell."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import jgo
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss, KazooException
from kazoo.protocol.states import KazooState
from kazoo.retry import KazooRetry

from parkazoo.local import HOST, find_java, find_zookeeper
from tests.aio.aio_case import needs_aio
from tests.kazoo_suite.certificates import Authority
from tests.live.gateway_process import GatewayProcess
from tests.live.world import DEADLINE_S, LiveTest, Seen, wait_until

TIMEOUT_S = 10.0
SHELL_NEEDS = "commons-cli:commons-cli:1.5.0"
LONG_S = 40.0  # outlasts the start of a gateway on a busy machine
HOLDER = """
import sys
from kazoo.client import KazooClient
zk = KazooClient(sys.argv[1], timeout=2)
zk.start(60)
zk.create(sys.argv[2], ephemeral=True)
print(zk.client_id[0], flush=True)
sys.stdin.read()
"""


@needs_aio
class GatewayTest(LiveTest):
    """The tests of a class have one gateway. A start takes a second, and more on a busy machine."""

    options: tuple[str, ...] = ()

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.table = Path(folder.name, "sessions")
        cls.gateway = GatewayProcess(cls.cluster.hosts, cls.table, *cls.options)
        cls.addClassCleanup(cls.gateway.end)
        cls.gateway.start()

    def setUp(self) -> None:
        super().setUp()
        self.root = self.new_root(self.parkazoo())
        self.states: list[str] = []  # of all programs

    def program(self, timeout: float = TIMEOUT_S, **options: Any) -> KazooClient:
        """A kazoo client of the gateway. `states` has what the listeners hear."""
        retry = KazooRetry(max_tries=-1, delay=0.05, max_delay=0.2)
        hosts = f"127.0.0.1:{self.gateway.port}{self.root}"
        zk = KazooClient(hosts, timeout=timeout, connection_retry=retry, **options)
        self.addCleanup(zk.close)
        self.addCleanup(zk.stop)
        zk.add_listener(self.states.append)
        zk.start(DEADLINE_S)
        return zk

    def directories(self, zk: Any) -> dict[int, str]:
        """A directory for each ensemble, whose children are there."""
        found: dict[int, str] = {}
        number = 0
        while len(found) < self.ensembles:
            path = f"/d{number}"
            found.setdefault(self.placement.of_children(self.root + path), path)
            number += 1
        for path in found.values():
            zk.ensure_path(path)
        return found


class TestPrograms(GatewayTest):
    def test_kazoo_sees_what_it_sees_at_a_server(self) -> None:
        """The same calls there: results, errors, events and their order."""
        direct = self.kazoo(chroot=f"/plain{self.root.strip('/')}")
        direct.ensure_path("/")
        self.addCleanup(direct.delete, "/", recursive=True)
        self.assertEqual(self.use(self.program()), self.use(direct))

    def use(self, zk: KazooClient) -> list[Any]:
        facts: list[Any] = []
        seen = Seen()

        def note(call: Any, *arguments: Any, **named: Any) -> Any:
            try:
                result = call(*arguments, **named)
            except KazooException as error:
                facts.append(type(error).__name__)
                return None
            facts.append(_without_zxids(result))
            return result

        note(zk.create, "/a", b"1")
        note(zk.create, "/a", b"1")
        note(zk.create, "/a/b/c", b"", makepath=True)
        note(zk.create, "/a/e", ephemeral=True, include_data=True)
        note(zk.create, "/a/e/x")
        note(zk.create, "/a/s-", sequence=True)
        note(zk.create, "/a/s-", b"2", sequence=True, ephemeral=True)
        note(zk.get, "/a", seen)
        note(zk.exists, "/a/b", seen)
        note(zk.exists, "/no", seen)
        note(zk.get_children, "/a", seen)
        note(zk.get_children, "/a", include_data=True)
        note(zk.set, "/a", b"2", version=0)
        note(zk.set, "/a", b"2", version=0)
        note(zk.create, "/no")
        note(zk.delete, "/a")
        note(zk.delete, "/a/b/c", version=3)
        note(zk.delete, "/a/b", recursive=True)
        note(zk.get, "/a/b")
        note(zk.get_acls, "/a")
        note(zk.sync, "/a")
        note(zk.create, "/a/t0")
        for operations in (("/a/t1", "/a/t2"), ("/a/t3", "/a/t1")):
            transaction = zk.transaction()
            for path in operations:
                transaction.create(path)
            transaction.set_data("/a/t0", b"3")  # siblings are on one ensemble
            transaction.check("/a/t0", 1)
            results = transaction.commit()
            facts.append([type(each).__name__ for each in results])
        seen.wait(4)
        facts.append(sorted((event.type, event.path) for event in seen))
        asked = [zk.get_async("/a"), zk.set_async("/a", b"9"), zk.get_async("/a"), zk.get_async("/gone")]
        facts.append([each.get(timeout=DEADLINE_S)[0] for each in (asked[0], asked[2])])
        return facts

    def test_locks(self) -> None:
        """Programs in any language and ParKazoo's clients exclude each other."""
        ours, theirs = self.parkazoo(self.root), self.program()
        with theirs.Lock("/lock", "program"):
            lock = ours.Lock("/lock", "client")
            self.assertFalse(lock.acquire(blocking=False))
            thread = threading.Thread(target=lock.acquire)
            thread.start()
            wait_until(lambda: len(theirs.get_children("/lock")) == 2, "both contend")
        thread.join(DEADLINE_S)
        self.assertFalse(theirs.Lock("/lock", "again").acquire(blocking=False))
        lock.release()
        self.assertTrue(theirs.Lock("/lock", "again").acquire(timeout=DEADLINE_S))

    def test_zkcli(self) -> None:
        """ZooKeeper's own shell."""
        self.program().ensure_path("/")
        path = f"{self.root}/cli"
        said = self.shell(
            f"create {path} first",
            f"create -s -e {path}/n- x",
            f"get -w {path}",
            f"set {path} second",
            f"get {path}",
            f"ls {path}",
            f"stat {path}",
            f"create -t 60000 {path}/t x",
            f"getEphemerals {path}",
            f"getAllChildrenNumber {path}",
            "whoami",
            f"deleteall -b 1 {path}",  # by default it deletes by transactions of a thousand
            f"get {path}/gone",
            f"ls {self.root}",
            "quit",
        )
        for text in (
            f"Created {path}",
            "first",
            "WatchedEvent state:SyncConnected type:NodeDataChanged path:" + path,
            "second",
            "[n-0000000000]",
            "numChildren = 1",
            f"[{path}/n-0000000000]",
            "Auth scheme: User",
            f"Node does not exist: {path}/gone",
        ):
            self.assertIn(text, said)
        self.assertNotIn("Failed to delete", said)
        self.assertIsNone(self.parkazoo().exists(path))

    def shell(self, *commands: str) -> str:
        options = [artifact.resolve() for artifact in jgo.resolve(SHELL_NEEDS)]
        jars = ":".join(map(str, [*find_zookeeper(), *options]))
        argv = [str(find_java()), "-XX:TieredStopAtLevel=1", "-cp", jars, "org.apache.zookeeper.ZooKeeperMain"]
        argv += ["-server", f"127.0.0.1:{self.gateway.port}"]
        done = subprocess.run(
            argv,
            input="\n".join(commands) + "\n",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        return done.stdout


class TestLosses(GatewayTest):
    def test_a_program_that_loses_its_connection(self) -> None:
        zk = self.program()
        session = zk.client_id
        values: list[bytes] = []
        zk.create("/a", b"0")
        zk.create("/e", ephemeral=True)
        zk.DataWatch("/a")(lambda data, stat: values.append(data))
        zk._connection._socket.shutdown(socket.SHUT_RDWR)
        wait_until(lambda: KazooState.SUSPENDED in self.states, "it is suspended")
        self.parkazoo(self.root).set("/a", b"1")
        wait_until(lambda: values[-1] == b"1", "it hears of the change")
        self.assertEqual((zk.client_id, zk.exists("/e").ephemeralOwner), (session, session[0]))
        self.assertNotIn(KazooState.LOST, self.states)

    def test_a_gateway_that_ends_and_starts_again(self) -> None:
        """Killed or stopped, the session goes on, with its ephemerals on all ensembles and its lock."""
        zk = self.program(timeout=LONG_S)
        session = zk.client_id
        paths = [f"{path}/e" for path in self.directories(zk).values()]
        for path in paths:
            zk.create(path, ephemeral=True)
        lock = zk.Lock("/lock", "program")
        lock.acquire()
        other = self.parkazoo(self.root)
        for number, status in ((signal.SIGKILL, -signal.SIGKILL), (signal.SIGTERM, 0)):
            self.assertEqual(self.gateway.end(number), status)
            self.assertIsNotNone(other.exists(paths[0]))
            self.gateway.start()
            wait_until(lambda: zk.connected and zk.exists(paths[0]), "it is back")
            self.assertEqual(zk.client_id, session)
            self.assertEqual({zk.exists(path).ephemeralOwner for path in paths}, {session[0]})
            self.assertFalse(other.Lock("/lock", "other").acquire(blocking=False))
        lock.release()
        self.assertTrue(other.Lock("/lock", "other").acquire(timeout=DEADLINE_S))
        self.assertNotIn(KazooState.LOST, self.states)

    def test_a_program_that_is_killed(self) -> None:
        """Its ephemerals end with its time-out, and with its session if it closes that."""
        other = self.parkazoo(self.root)
        hosts = f"127.0.0.1:{self.gateway.port}{self.root}"
        for number in range(2):
            path = f"/e{number}"
            command = [sys.executable, "-c", HOLDER, hosts, path]
            with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
                assert process.stdout is not None
                session = int(process.stdout.readline())
                self.assertEqual(other.exists(path).ephemeralOwner, session)
                process.kill()
            wait_until(lambda path=path: other.exists(path) is None, "its session has expired")
        wait_until(lambda: self.gateway.fact("zk_global_sessions") == 0, "the gateway has forgotten it")

    def test_a_frozen_ensemble(self) -> None:
        """Requests that need it get ConnectionLoss in time; the others go on, on the same connection."""
        zk = self.program()
        paths = self.directories(zk)
        for path in paths.values():
            zk.create(f"{path}/x", b"1")
        (server,) = self.cluster.ensembles[frozen := 1].servers
        server.freeze()
        self.addCleanup(server.thaw)
        begun_s = time.monotonic()
        lost, healthy = zk.get_async(f"{paths[frozen]}/x"), zk.get_async(f"{paths[0]}/x")
        self.assertEqual(healthy.get(timeout=DEADLINE_S)[0], b"1")
        self.assertIsInstance(lost.exception, ConnectionLoss)
        self.assertLess(time.monotonic() - begun_s, DEADLINE_S)
        self.assertEqual(zk.get(f"{paths[2]}/x")[0], b"1")
        server.thaw()
        value, _ = wait_until(lambda: zk.get(f"{paths[frozen]}/x"), "it is back")
        self.assertEqual(value, b"1")
        self.assertNotIn(KazooState.LOST, self.states)

    def test_two_gateways(self) -> None:
        """One sleeps while its program moves to the other. When it wakes it lets the session go."""
        second = GatewayProcess(self.cluster.hosts, self.table)
        self.addCleanup(second.end)
        second.start()
        zk = self.program(timeout=LONG_S)
        session = zk.client_id
        paths = [f"{path}/e" for path in self.directories(zk).values()]
        for path in paths:
            zk.create(path, ephemeral=True)
        self.gateway.send(signal.SIGSTOP)
        zk.set_hosts(f"127.0.0.1:{second.port}{self.root}")
        zk._connection._socket.shutdown(socket.SHUT_RDWR)
        wait_until(lambda: second.fact("zk_global_sessions") == 1, "the program has moved")
        wait_until(lambda: zk.connected and all(map(zk.exists, paths)), "it goes on")
        self.gateway.send(signal.SIGCONT)
        wait_until(lambda: self.gateway.fact("zk_global_sessions") == 0, "the first has let it go")
        wait_until(lambda: zk.connected and all(map(zk.exists, paths)), "it goes on")
        self.states.clear()
        for _ in range(100):
            self.assertEqual({zk.exists(path).ephemeralOwner for path in paths}, {session[0]})
        self.assertEqual((zk.client_id, self.states), (session, []))


class TestTls(GatewayTest):
    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        authority, cls.files = Authority("ours"), Path(folder.name)
        for name, made in (
            ("gateway", authority.issue("localhost", HOST)),
            ("program", authority.issue("program")),
        ):
            (cls.files / f"{name}.pem").write_bytes(made.certificate)
            (cls.files / f"{name}-key.pem").write_bytes(made.key)
        (cls.files / "ca.pem").write_bytes(authority.certificate)
        cls.options = (
            f"--listen-cert={cls.files}/gateway.pem",
            f"--listen-key={cls.files}/gateway-key.pem",
            f"--listen-ca={cls.files}/ca.pem",
        )
        super().setUpClass()

    def tls(self, name: str) -> dict[str, Any]:
        """kazoo's options. :param name: of the certificate."""
        files = {"ca": "ca", "certfile": name, "keyfile": f"{name}-key"}
        options = {option: f"{self.files}/{file}.pem" for option, file in files.items()}
        return {**options, "use_ssl": True, "check_hostname": True}

    def test_kazoo(self) -> None:
        """With a certificate of the authority, also after the gateway has ended. Nobody else connects."""
        zk = self.program(timeout=LONG_S, **self.tls("program"))
        session = zk.client_id
        data = bytes(200_000)
        zk.create("/e", data, ephemeral=True)
        self.assertEqual({zk.get("/e")[0] for _ in range(20)}, {data})
        self.gateway.end()
        self.gateway.start()
        wait_until(lambda: zk.connected and zk.exists("/e"), "it is back")
        self.assertEqual((zk.client_id, zk.exists("/e").ephemeralOwner), (session, session[0]))
        without = {**self.tls("program"), "certfile": None, "keyfile": None}
        for options in (without, {}):
            refused = KazooClient(f"{HOST}:{self.gateway.port}", **options)
            self.addCleanup(refused.close)
            self.assertRaises(refused.handler.timeout_exception, refused.start, 2)
        self.assertTrue(zk.exists("/e"))


class TestWorkers(GatewayTest):
    options = ("--workers=2",)

    def workers(self) -> list[int]:
        """Their process ids."""
        tasks = Path(f"/proc/{self.gateway.pid}/task").glob("*/children")
        return [int(each) for task in tasks for each in task.read_text().split()]

    def test_one_is_killed(self) -> None:
        """Programs are spread over both. Those of the one that is killed go on."""
        first, second = self.workers()
        programs: list[KazooClient] = []
        while len(programs) < 6 or min(map(self.connected_to, (first, second))) < 2:
            programs.append(self.program(timeout=LONG_S))
            programs[-1].create(f"/e{len(programs)}", ephemeral=True)
        sessions = [zk.client_id for zk in programs]
        os.kill(first, signal.SIGKILL)
        wait_until(lambda: len(self.workers()) == 2 and first not in self.workers(), "another has started")
        for number, (zk, session) in enumerate(zip(programs, sessions, strict=True), 1):
            found = wait_until(lambda zk=zk, path=f"/e{number}": zk.connected and zk.exists(path), "it goes on")
            self.assertEqual((found.ephemeralOwner, zk.client_id), (session[0], session))
        self.assertIn("imok", self.gateway.ask(b"ruok"))
        self.assertEqual(self.gateway.end(signal.SIGTERM), 0)
        self.gateway.start()
        for number, zk in enumerate(programs, 1):
            wait_until(lambda zk=zk, path=f"/e{number}": zk.connected and zk.exists(path), "it goes on")
        self.assertEqual([zk.client_id for zk in programs], sessions)
        self.assertNotIn(KazooState.LOST, self.states)

    def connected_to(self, pid: int) -> int:
        """How many programs a worker has: connections at the gateway's port."""
        inodes = {link.readlink().name for link in Path(f"/proc/{pid}/fd").iterdir()}
        found = (line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:])
        port, established = f":{self.gateway.port:04X}", "01"
        return sum(
            f"socket:[{each[9]}]" in inodes for each in found if (each[1][-5:], each[3]) == (port, established)
        )


def _without_zxids(result: Any) -> Any:
    """What is the same at each ensemble: lists sorted, stats without zxids, times and owners."""
    if hasattr(result, "mzxid"):
        kept = ("version", "cversion", "aversion", "dataLength", "numChildren")
        return [getattr(result, name) for name in kept] + [bool(result.ephemeralOwner)]
    if isinstance(result, tuple):
        return [_without_zxids(each) for each in result]
    return sorted(map(str, result)) if isinstance(result, list) else result
