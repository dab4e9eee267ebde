"""`parkazoo status`."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
import unittest
from contextlib import suppress
from typing import Any
from unittest import mock

from rich.console import Console

from parkazoo import ParKazooClient
from parkazoo.admin import ClusterStatus, init_map, read_status
from parkazoo.admin.server_status import ServerStatus, ask
from parkazoo.admin.strangers import Strangers
from parkazoo.cli import status_command
from parkazoo.cli.interrupting import until_interrupted
from parkazoo.cli.status_command import _screen, _watch
from parkazoo.errors import ClusterMapError
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.placement import DONE
from tests.live.map_case import COMMAND_TIMEOUT_S, MapCase, free_port, run_command
from tests.live.world import DEADLINE_S, shared_cluster

SRVR = """Zookeeper version: 3.9.5-b1f3f2, built on 2026-01-05 20:10 UTC
Latency min/avg/max: 0/0.5185/13
Received: 27
Sent: 26
Connections: 2
Outstanding: 0
Zxid: 0x100000b6f
Mode: follower
Node count: 1037
"""


class StatusTest(MapCase):
    def setUp(self) -> None:
        super().setUp()
        self.map = init_map(self.a, self.all)

    def change_map(self, **ensembles: str) -> None:
        changed = ClusterMap(self.map.cluster, {**self.map.ensembles, **ensembles}, self.map.placement, "a")
        self.publish(changed)

    def test_all_is_well(self) -> None:
        client = ParKazooClient(self.a)
        self.addCleanup(client.close)
        self.addCleanup(client.stop)
        client.start(DEADLINE_S)
        found = read_status(self.a)
        self.assertEqual(found.cluster_map, self.map)
        self.assertEqual(found.findings, [])
        self.assertEqual([(each.ensemble, each.server) for each in found.servers], [*self.all.items()])
        for each in found.servers:
            self.assertEqual((each.role, each.serves, each.trouble), ("standalone", True, None))
            self.assertRegex(str(each.version), r"^3\.\d+\.\d+$")
            assert each.latency_ms is not None and each.connections is not None and each.znodes is not None
            self.assertGreaterEqual(each.latency_ms[1], each.latency_ms[0])
            self.assertGreaterEqual(each.connections, 2)  # the client's and this one
            self.assertGreater(each.znodes, 4)
        self.assertEqual(len(found.clients), 1)

        status, out, _ = run_command("status", "--hosts", self.a)
        self.assertEqual(status, 0)
        for name, server in self.all.items():
            self.assertRegex(out, rf"{name} .*{server} .*standalone .*3\.\d+\.\d+ ")
        self.assertIn("registered clients: 1; by version: ", out)
        status, out, _ = run_command("status", "--hosts", self.a, "--json")
        self.assertEqual(status, 0)
        printed = json.loads(out)
        self.assertEqual(printed["cluster"], self.map.cluster)
        self.assertEqual([each["role"] for each in printed["servers"]], ["standalone"] * 3)
        self.assertEqual(printed["findings"], [])

    def test_what_is_wrong_comes_first(self) -> None:
        closed = f"127.0.0.1:{free_port()}"
        self.plain[2].delete(DONE)
        self.change_map(b=closed)
        status, out, _ = run_command("status", "--hosts", self.a)
        self.assertEqual(status, 1)
        self.assertRegex(
            out,
            rf"(?s)cannot be reached: {closed}.*{DONE}.*standalone.*{closed} does not serve: Connection refused\n",
        )
        self.assertIn("registered clients: none", out)

    def test_an_ensemble_is_down(self) -> None:
        """An address that refuses is not waited for, and JSON is printed whatever is wrong."""
        closed = f"127.0.0.1:{free_port()}"
        self.change_map(b=closed)
        for hosts in (self.a, f"{closed},{self.c}"):
            for command in (("status",), ("map", "check"), ("clients",), ("map", "epochs")):
                with self.subTest(hosts=hosts, command=command):
                    status, out, err = run_command(*command, "--hosts", hosts, "--timeout", "3600")
                    self.assertEqual((status, err), (1, ""))
                    self.assertIn(f"{closed}: Connection refused", out)
        status, out, _ = run_command("status", "--json", "--hosts", self.a, "--timeout", "3600")
        self.assertEqual((status, len(json.loads(out)["servers"])), (1, 3))
        for command in ("status", "clients", "fsck", "map check", "map epochs", "map show"):
            status, out, err = run_command(*command.split(), "--json", "--hosts", closed, "--timeout", "1")
            self.assertEqual(status, 1)
            self.assertIn(f"{closed}: Connection refused", json.loads(out)["error"])
            self.assertIn(f"{closed}: Connection refused", err)

    def test_a_server_down_is_a_warning(self) -> None:
        closed = f"127.0.0.1:{free_port()}"
        self.change_map(b=f"{self.b},{closed}")
        status, out, _ = run_command("status", "--hosts", self.a)
        self.assertEqual(status, 0)
        self.assertIn(f"{closed} does not serve: Connection refused\n", out)

    def test_no_map(self) -> None:
        closed = f"127.0.0.1:{free_port()}"
        with self.assertRaisesRegex(ClusterMapError, "Connection refused"):
            read_status(closed)
        status, _, err = run_command("status", "--hosts", closed)
        self.assertEqual(status, 1)
        self.assertIn(f"{closed}: Connection refused", err)
        self.assertEqual(run_command("status", "--hosts", self.a, "--json", "--watch", "1")[0], 2)

    def test_watch(self) -> None:
        """A screen again and again, until ^C; it ends well."""
        self.addCleanup(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, signal.default_int_handler))
        process = subprocess.Popen(
            [sys.executable, "-u", "-m", "parkazoo", "status", "--hosts", self.a, "--watch", "0.5"],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "COLUMNS": "200"},
        )
        self.addCleanup(process.kill)
        assert process.stdout is not None
        seen = 0
        deadline = time.monotonic() + COMMAND_TIMEOUT_S
        while seen < 2 and time.monotonic() < deadline:
            seen += f"cluster {self.map.cluster}" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=COMMAND_TIMEOUT_S)
        self.assertEqual((seen, process.returncode), (2, 0))


class WatchTest(unittest.TestCase):
    def setUp(self) -> None:
        self.addCleanup(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, signal.default_int_handler))

    def test_an_interrupt_that_python_drops(self) -> None:
        """As it does in a weak reference's callback. The screen ends before it would be drawn again."""

        def read(*args: object, **options: object) -> None:
            with suppress(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
            raise ClusterMapError("no map")

        options: Any = {}
        console = Console(record=True, file=io.StringIO())
        with (
            mock.patch.object(status_command, "read_status", read),
            until_interrupted() as is_ended,
        ):
            _watch(console, DEADLINE_S, "h:1", options, is_ended)
        self.assertEqual(console.export_text().count("no map"), 1)

    def test_who_ignores_it(self) -> None:
        """As a shell's script does for what it starts in the background."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        with until_interrupted() as is_ended:
            signal.raise_signal(signal.SIGINT)
            self.assertFalse(is_ended())


class RoleTest(unittest.TestCase):
    def test_roles(self) -> None:
        cluster = shared_cluster(1, 3)
        found = read_status(cluster.hosts)
        self.assertEqual(sorted(str(each.role) for each in found.servers), ["follower", "follower", "leader"])


class ScreenTest(unittest.TestCase):
    def test_80_columns(self) -> None:
        """Names and roles stay whole, however long the reasons of other servers are."""
        server, trouble = "zk-a{}.example.org:2181", "it closed the connection before it answered: no quorum?"
        cluster_map = ClusterMap("x", {"a": ",".join(map(server.format, range(3)))}, ("a",), "a")
        servers = [
            ServerStatus("a", server.format(0), serves=False, trouble=trouble),
            ServerStatus("a", server.format(1), True, None, "follower", "3.9.5", (0.5, 1304), 12, 1_204_513),
            ServerStatus("a", server.format(2), serves=True, trouble="srvr is off"),
        ]
        console = Console(file=io.StringIO(), width=80)
        console.print(_screen(ClusterStatus(cluster_map, [], servers, [], Strangers({}, {}))))
        out = console.file.getvalue()  # type: ignore[attr-defined]
        self.assertRegex(out, r"ensemble +server +role +version +latency +clients +znodes ")
        self.assertRegex(out, rf"\n a +{server.format(0)} +\? +\n")
        self.assertRegex(out, rf"\n +{server.format(1)} +follower +3\.9\.5 +0\.5, 1304 +12 +1,204,513 ")
        told = f"{server.format(0)} does not serve: {trouble} {server.format(2)} says nothing: srvr is off "
        self.assertIn(told, " ".join(out.split()) + " ")


class Answers:
    """Stands for a connected AdminClient: a server that says that."""

    def __init__(self, said: Any) -> None:
        self._said = said

    def ask(self, word: str) -> Any:
        if isinstance(self._said, Exception):
            raise self._said
        return self._said

    def takes(self, size: int) -> bool | None:
        return None


class AnswerTest(unittest.TestCase):
    def ask(self, said: Any) -> Any:
        return ask("h:1", "a", Answers(said))  # type: ignore[arg-type]

    def test_srvr(self) -> None:
        self.assertEqual(
            self.ask(SRVR), ("a", "h:1", True, None, "follower", "3.9.5", (0.5185, 13.0), 2, 1037, None)
        )

    def test_not_allowed(self) -> None:
        found = self.ask("srvr is not executed because it is not in the whitelist.\n")
        self.assertEqual((found.serves, found.role), (True, None))
        self.assertIn("4lw.commands.whitelist", found.trouble)

    def test_not_serving(self) -> None:
        """As in the middle of an election."""
        found = self.ask("This ZooKeeper instance is not currently serving requests\n")
        self.assertEqual((found.serves, found.role), (False, None))
        self.assertIn("not currently serving requests", found.trouble)

    def test_lost(self) -> None:
        found = self.ask(ConnectionResetError(104, "Connection reset by peer"))
        self.assertEqual((found.serves, found.trouble), (False, "Connection reset by peer"))

    def test_parts(self) -> None:
        """What another version does not say is not known."""
        found = self.ask("Mode: observer\nConnections: many\nLatency min/avg/max: 1\nNode count: \x1b[2J\n")
        self.assertEqual(found, ("a", "h:1", True, None, "observer", None, None, None, None, None))
