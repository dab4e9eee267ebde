"""A cluster whose folders were copied to other addresses: it is not used by mistake, and can live for itself."""

from __future__ import annotations

import atexit
import json
import re
import shutil
import tempfile
import unittest
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from parkazoo import ClusterMapError, ParKazooClient
from parkazoo.admin import UnconfirmedError, give_new_identity, init_map, new_identity, read_map
from parkazoo.admin import copied as copied_module
from parkazoo.local import HOST, LocalCluster, free_ports
from parkazoo.protocol.cluster_map import ClusterMap, parse_hosts
from parkazoo.protocol.placement import CLIENTS, ENSEMBLE, MAP
from parkazoo.wire import same_ensemble
from tests.fakes.owner import LONG_S
from tests.handlers import make_handler
from tests.live.map_case import FEW_FENCES, check_but_strangers, dump, run_command
from tests.live.world import DEADLINE_S, connected, wait_until
from tests.relay import Relay

SHAPE = (2, 1)
PORT = r"\b(?:2\d|3[01])\d{3}\b"  # of a local server
REFUSED = "parkazoo map new-identity"
COMMANDS = (
    "map show",
    "map check",
    "map weight a=2",
    "map drain a",
    "map rule add /x",
    "map rule list",
    "map grow",
    "map abort",
    "map epochs",
    "map log",
    "map hosts a={a}",
    "status",
    "clients",
    "where /x",
    "fsck --repair",
)


def copy_folder(old: Path, new: Path) -> None:
    """The folder of a cluster that does not run; the copy gets ports of its own."""
    shutil.copytree(old, new)
    ports = re.findall(PORT, (old / "cluster.json").read_text())
    others = dict(zip(ports, map(str, free_ports(len(ports))), strict=True))
    for file in (new / "cluster.json", *new.glob("*/*/zoo.cfg")):
        file.write_text(re.sub(PORT, lambda found: others[found[0]], file.read_text()))


@cache
def clusters() -> tuple[LocalCluster, LocalCluster]:
    """The process's original and its copy, with few fences; they end with the process."""
    stack = ExitStack()
    atexit.register(stack.close)
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    original = LocalCluster(*SHAPE, data=folder / "original", make_map=False)
    with original, mock.patch("parkazoo.admin.contents.FENCE_COUNT", FEW_FENCES):
        init_map(original.hosts, {each.name: each.hosts for each in original.ensembles}, form="grown")
        with connected(ParKazooClient(original.hosts)) as client:
            for number in range(8):
                client.create(f"/{number}/kept", b"kept", makepath=True)
    copy_folder(folder / "original", folder / "copy")
    return stack.enter_context(original), stack.enter_context(LocalCluster(*SHAPE, data=folder / "copy"))


class CopiedCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.original, cls.copy = clusters()
        stack = ExitStack()
        cls.addClassCleanup(stack.close)
        cls.given = {each.name: each.hosts for each in cls.copy.ensembles}
        cls.plain = {
            each.hosts: stack.enter_context(connected(KazooClient(each.hosts)))
            for each in (*cls.original.ensembles, *cls.copy.ensembles)
        }
        stack.enter_context(mock.patch("parkazoo.admin.contents.FENCE_COUNT", FEW_FENCES))
        for module in (same_ensemble, copied_module):  # a slow machine's servers are not taken for unreachable
            stack.enter_context(mock.patch.object(module, "LIMIT_S", LONG_S))

    def dump_original(self) -> list[Any]:
        return [dump(self.plain[each.hosts]) for each in self.original.ensembles]

    def dump_copy(self) -> list[Any]:
        return [dump(self.plain[each.hosts]) for each in self.copy.ensembles]

    def start(self, hosts: str) -> ParKazooClient:
        client = ParKazooClient(hosts, handler=make_handler())
        self.addCleanup(client.stop)
        client.start(DEADLINE_S)
        return client

    def assert_refused(self, hosts: str) -> None:
        client = ParKazooClient(hosts, handler=make_handler())
        with self.assertRaisesRegex(ClusterMapError, REFUSED):
            client.start(DEADLINE_S)
        self.assertEqual(client.client_state, "CLOSED")
        wait_until(lambda: not any(map(self.registered, self.plain)), "the sessions are closed")

    def registered(self, hosts: str) -> list[str]:
        with suppress(NoNodeError):
            return list(self.plain[hosts].get_children(CLIENTS))
        return []


class TestUnknown(CopiedCase):
    """The copy has no identity of its own: it says that it is the original."""

    def test_clients(self) -> None:
        before = self.dump_original()
        for each in self.copy.ensembles:
            self.assert_refused(each.hosts)
        self.assertEqual(self.dump_original(), before)

    def test_commands(self) -> None:
        before = self.dump_original(), self.dump_copy()
        for command in COMMANDS:
            with self.subTest(command):
                words = command.format(**self.given).split()
                status, out, err = run_command(*words, "--hosts", self.given["a"])
                self.assertEqual((status, out.strip()), (1, ""))
                self.assertIn(REFUSED, err)
        self.assertEqual((self.dump_original(), self.dump_copy()), before)

    def test_other_addresses_of_the_original(self) -> None:
        """A relay, and another name: no map names them, and they lead to the servers that it names."""
        ((_, port),) = parse_hosts(self.original.hosts)
        with Relay(f"{HOST}:{port}") as relay:
            for hosts in (relay.address, f"localhost:{port}"):
                with self.subTest(hosts):
                    client = self.start(hosts)
                    client.join(timeout=DEADLINE_S)
                    self.assertEqual(client.get("/0/kept")[0], b"kept")
                    self.assertEqual(check_but_strangers(hosts), [])

    def test_the_original_is_away(self) -> None:
        """Nothing can be said, and nothing of the original be changed."""
        (server,) = self.original.ensembles[0].servers
        self.original.stop(server.name)
        try:
            client = self.start(self.given["a"])
            self.assertEqual(client.client_state, "CONNECTED")
        finally:
            client.stop()
            self.original.start(server.name)

    def test_a_frozen_server_is_named_first(self) -> None:
        """The next one decides. No limit ends the wait for it."""
        first, second = self.original.ensembles[1], self.original.ensembles[0]
        copied = self.plain[self.given["a"]]
        before = copied.get(MAP)[0]
        found = json.loads(before)
        found["ensembles"] = {"a": f"{first.hosts},{second.hosts}", "b": self.given["b"]}
        copied.set(MAP, json.dumps(found).encode())
        (server,) = first.servers
        server.freeze()
        try:
            client = ParKazooClient(self.given["a"], handler=make_handler())
            self.assertRaisesRegex(ClusterMapError, REFUSED, client.start, DEADLINE_S)
            self.assertRaisesRegex(ClusterMapError, REFUSED, read_map, self.given["a"], timeout_s=DEADLINE_S)
        finally:
            server.thaw()
            copied.set(MAP, before)
            wait_until(lambda: self.plain[first.hosts].get(MAP), "it serves its clients again")


class TestNewIdentity(CopiedCase):
    def setUp(self) -> None:
        clients = [self.plain[hosts] for hosts in self.given.values()]
        saved = [(client, path, client.get(path)[0]) for client in clients for path in (MAP, ENSEMBLE)]
        for client, path, data in saved:
            self.addCleanup(client.set, path, data)
        limit = mock.patch.object(new_identity, "LIMIT_S", LONG_S)
        limit.start()
        self.addCleanup(limit.stop)
        self.before = self.dump_original()

    def tearDown(self) -> None:
        self.assertEqual(self.dump_original(), self.before)

    def assert_unchanged(self, given: dict[str, str], pattern: str) -> None:
        before = self.dump_copy()
        with self.assertRaisesRegex(ClusterMapError, pattern):
            give_new_identity(given)
        self.assertEqual(self.dump_copy(), before)

    def test_both_live(self) -> None:
        before = self.dump_copy()
        hosts = f"--hosts={','.join(reversed(self.given.values()))}"
        its = ", ".join(each.hosts for each in self.original.ensembles)
        status, _, err = run_command("map", "new-identity", hosts)
        self.assertEqual(status, 1)
        self.assertRegex(err, f"^error: the original, .* still answers at {its}: .* --yes")
        status, out, err = run_command("map", "new-identity", hosts, "--dry-run")
        self.assertEqual((status, err), (0, ""))
        would = f"(?s){self.given['b']}.* would be of cluster .*answers at {its}.*nothing was written"
        self.assertRegex(out, would)
        self.assertEqual(self.dump_copy(), before)
        status, out, err = run_command("map", "new-identity", hosts, "--yes")
        arguments = [f"--ensemble={name}={each}" for name, each in self.given.items()]
        self.assertEqual((status, err), (0, ""))
        mine, its = read_map(self.given["b"]), read_map(self.original.hosts)
        self.assertIn(mine.cluster, out)
        self.assertNotEqual(mine.cluster, its.cluster)
        self.assertEqual(mine.ensembles, self.given)
        self.assertNotIn("nothing was changed", out)
        for hosts in (self.given["a"], ",".join(reversed(self.given["a"].split(",")))):  # again
            arguments[0] = f"--ensemble=a={hosts}"
            status, out, err = run_command("map", "new-identity", *arguments)
            self.assertEqual((status, err), (0, ""))
            self.assertIn("nothing was changed: the map names these servers already", out)
        self.assertEqual(give_new_identity(self.given), mine)
        for hosts in (self.given["a"], self.original.hosts):
            self.assertEqual(check_but_strangers(hosts), [])
        client = self.start(self.given["b"])
        for number in range(8):
            self.assertEqual(client.get(f"/{number}/kept")[0], b"kept")
            client.create(f"/{number}/new", ephemeral=True)
        self.assertEqual({str(each._connection.address) for each in client._members()}, {*self.given.values()})
        client.stop()

    def test_interrupted(self) -> None:
        """After the first ensemble: clients refuse either, and the same command goes on."""
        write, written = new_identity._write, list[str]()

        def write_one(client: Any, own: ClusterMap) -> None:
            if written:
                raise KeyboardInterrupt
            write(client, own)
            written.append(client.name)

        with mock.patch.object(new_identity, "_write", write_one), self.assertRaises(KeyboardInterrupt):
            give_new_identity(self.given, yes=True)
        self.assertEqual(written, ["b"])
        self.assert_refused(self.given["a"])
        client = self.start(self.given["b"])
        with self.assertRaisesRegex(ClusterMapError, "ensemble a of this cluster"):
            client.join("a", timeout=DEADLINE_S)
        client.stop()
        self.assertRaisesRegex(UnconfirmedError, "yes=True", give_new_identity, self.given)
        mine = give_new_identity(self.given, yes=True)
        self.assertEqual((read_map(self.given["a"]), read_map(self.given["b"])), (mine, mine))

    def test_refused(self) -> None:
        (host, port) = parse_hosts(self.original.hosts)[0]
        its = f"localhost:{port}"
        self.assert_unchanged({**self.given, "a": its}, f"server {its} is one that the map names, {host}:{port}")
        self.assert_unchanged({"a": self.given["a"]}, "the map has the ensembles a, b")
        self.assert_unchanged({"a": self.given["b"], "b": self.given["a"]}, "is ensemble b of cluster")
        self.assertEqual(run_command("map", "new-identity", f"--ensemble=a={self.given['a']}")[0], 1)

    def test_the_originals_own_servers(self) -> None:
        its = [f"--ensemble={each.name}={each.hosts}" for each in self.original.ensembles]
        status, out, err = run_command("map", "new-identity", *its)
        self.assertEqual((status, out), (1, ""))
        self.assertRegex(err, "^error: server .* is one that the map names, .* nothing was changed")

    def test_the_original_by_another_address(self) -> None:
        """No client is registered there."""
        wait_until(lambda: not self.registered(self.original.hosts), "the sessions are closed")
        with Relay(self.original.hosts) as relay:
            given = {**self.given, "a": relay.address}
            with self.assertRaisesRegex(
                ClusterMapError, f"{relay.address}.* is the original's, by another address"
            ):
                give_new_identity(given, yes=True)

    def test_where_clients_work(self) -> None:
        """So the original is refused by whatever address."""
        with connected(ParKazooClient(self.original.hosts)) as client, Relay(self.original.hosts) as relay:
            wait_until(lambda: self.plain[self.original.hosts].get_children(CLIENTS), "a registration")
            self.assert_unchanged({**self.given, "a": relay.address}, "1 sessions are registered on ensemble a")
            self.assertTrue(client.connected)
