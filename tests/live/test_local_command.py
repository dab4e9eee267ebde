"""Local ensembles: their owner ends, and `parkazoo local`."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from unittest import mock

from parkazoo import local
from parkazoo.admin import grow_map, init_map, read_map
from parkazoo.installing import command_to_add
from parkazoo.local import LocalClusterError
from parkazoo.local.folder import LOCK, is_locked
from parkazoo.local.four_letter_words import role_of
from tests.live.local_case import CALL, WAIT_S, LocalCase, is_listening
from tests.relay import Relay

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

INTERRUPT = """
import sys
class Finder:
    def find_spec(self, name, *rest):
        if name == "typer":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Finder())
"""


class TestOwner(LocalCase):
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


class TestCommand(LocalCase):
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
        self.assertIn(f'ParKazooClient("{servers[0].address},{servers[1].address}")', said)
        self.assertEqual(
            [(each.ensemble, each.role, each.state) for each in servers],
            [("a", "standalone", "serving"), ("b", "standalone", "serving")],
        )
        self.assertIn(f"export PARKAZOO_HOSTS={servers[0].address},{servers[1].address}\n", said)
        again = self.command("local", "up", **home)  # the folder knows how many
        self.assertIn("They were up already.", again)
        self.assertEqual(again.replace("They were up already.\n\n", ""), said)
        said = self.command("local", "up", "--ensembles", "3", status=1, **home)
        self.assertIn("holds a cluster of 2 ensembles of 1, not of 3 of 1: ask for that (--ensembles 2 ", said)
        document = json.loads(self.command("local", "status", "--json", **home))
        self.assertEqual(document, {"servers": [each._asdict() for each in servers]})
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
        self.command("local", "up", **home)  # map, znodes and shape are still there
        self.assertEqual([each.address for each in local.status(folder)], [each.address for each in servers])
        os.kill(int((folder / LOCK).read_text()), signal.SIGKILL)
        self.wait(lambda: not any(is_listening(each.address) for each in servers), "they outlive their supervisor")
        self.assertIn("no local cluster is running", self.command("local", "status", status=1, **home))

    def test_stop_and_start(self) -> None:
        """Of an ensemble, and of a server, in a folder whose path is too long for a socket's."""
        folder = self.folder / ("x" * 120)
        self.addCleanup(self.end, folder)

        def states(*arguments: str) -> list[str]:
            if arguments:
                self.command("local", *arguments, "--data", str(folder))
            return [each.state for each in local.status(folder)]

        self.assertEqual(states("up", "--ensembles", "2", "--servers", "1"), ["serving", "serving"])
        before = local.status(folder)
        self.assertEqual(states("stop", "b"), ["serving", "down"])
        self.assertEqual(states("stop", "b1"), ["serving", "down"])  # again
        port = int(before[1].address.rpartition(":")[2])
        with mock.patch("tests.relay.free_ports", return_value=[port]), Relay(before[0].address) as other:
            self.assertTrue(role_of(other.address).name)
            self.assertEqual(states(), ["serving", "down"])  # what answers there is not b1
        self.assertEqual(states("start", "b1"), ["serving", "serving"])
        self.assertEqual(states("start", "b"), ["serving", "serving"])  # again
        after = local.status(folder)
        self.assertEqual((after[0].pid, after[1].address), (before[0].pid, before[1].address))
        self.assertNotEqual(after[1].pid, before[1].pid)
        said = self.command("local", "stop", "c", "--data", str(folder), status=1)
        self.assertIn("no ensemble and no server is called 'c': there are a (a1), b (b1)", said)
        os.kill(after[0].pid, signal.SIGKILL)
        self.assertEqual(states("start", "a"), ["serving", "serving"])
        self.command("local", "down", "--data", str(folder))
        self.wait(lambda: not any(is_listening(each.address) for each in after), "what was started again lives on")

    def test_stop_of_a_cluster_that_has_an_owner(self) -> None:
        """Its program can stop and start its servers itself."""
        data = self.folder / "owned"
        cluster = self.cluster(1, 3, data)
        said = self.command("local", "stop", "a", "--data", str(data), status=1)
        self.assertIn("takes no requests", said)
        self.assertIn("it belongs to the program that has started it", said)
        servers = cluster.ensembles[0].servers
        cluster.stop("a2")
        self.assertEqual([each.is_running for each in servers], [True, False, True])
        cluster.start("a2")
        # If a2 was the leader, the others may still look for the next one.
        self.wait(lambda: [each.state for each in local.status(data)] == ["serving"] * 3, "all serve")
        self.assertEqual(local.status(data)[1].pid, servers[1].pid)
        cluster.stop("a")
        self.assertFalse(any(each.is_running for each in servers))
        cluster.start("a3")  # without a majority it cannot serve, and is not waited for
        self.assertEqual([each.is_running for each in servers], [False, False, True])
        cluster.start("a")
        self.assertEqual([each.state for each in local.status(data)], ["serving"] * 3)
        with self.assertRaisesRegex(LocalClusterError, r"called 'x': there are a \(a1, a2, a3\)"):
            cluster.stop("x")
        cluster.stop()
        with self.assertRaisesRegex(LocalClusterError, "is not running: start"):
            cluster.start("a")

    def test_plain_ones_that_join_a_cluster_come_back(self) -> None:
        """Also without --plain, when the map has grown; and by themselves, before there is a map."""
        folders = old, new = self.folder / "zk-old", self.folder / "zk-b"
        up = ("local", "up", "--ensembles", "1", "--servers", "1", "--data")
        addresses = []
        for folder in folders:
            self.addCleanup(self.end, folder)
            self.command(*up, str(folder), "--plain")
            local.stop_detached(folder)
            said = self.command(*up, str(folder))
            (server,) = local.status(folder)
            self.assertIn("They are plain ZooKeepers: there is no cluster map.", said)
            self.assertRegex(said, rf'\WKazooClient\("{server.address}"\)')
            addresses.append(server.address)
        first, second = addresses
        init_map(first, {"a": first})
        cluster = grow_map(first, {"b": second}).cluster
        for folder in folders:
            local.stop_detached(folder)
        for _ in range(2):  # as after a reboot; and again, while they run
            for folder, address in zip(folders, addresses, strict=True):
                said = self.command(*up, str(folder))
                self.assertIn(f"ensemble a: of cluster {cluster}: `up` does not change its map", said)
                self.assertIn(f'ParKazooClient("{address}")', said)
                self.assertEqual([each.state for each in local.status(folder)], ["serving"])
        for folder in folders:
            local.stop_detached(folder)
        self.command(*up, str(old), "--plain")
        self.command(*up, str(new))
        self.assertEqual(read_map(second).cluster, cluster)

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

    def test_interrupted_before_it_begins(self) -> None:
        """^C while the command is still being imported."""
        done = self.python("-c", f"{INTERRUPT}\n{CALL}", "local", "status")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (130, "", ""))

    def test_without_its_extra(self) -> None:
        done = self.python("-c", f"import sys; sys.modules['typer'] = None; {CALL}", "local", "status")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertEqual(done.stderr, f"The command parkazoo needs typer and rich: {command_to_add('cli')}\n")
