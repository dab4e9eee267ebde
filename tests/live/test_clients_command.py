"""`parkazoo clients`."""

from __future__ import annotations

import json
import os
from unittest import mock

from kazoo.client import KazooClient
from kazoo.security import make_digest_acl

import parkazoo
from parkazoo import ParKazooClient
from parkazoo.admin import init_map, list_clients
from parkazoo.errors import ClusterMapError
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.placement import CLIENTS
from parkazoo.protocol.registration import format_session, registration_path
from tests.live.map_case import MapCase, free_port, run_command
from tests.live.world import DEADLINE_S


class ClientsTest(MapCase):
    def setUp(self) -> None:
        super().setUp()
        self.map = init_map(self.a, self.all)

    def client(self) -> ParKazooClient:
        client = ParKazooClient(self.a)
        self.addCleanup(client.close)
        self.addCleanup(client.stop)
        client.start(DEADLINE_S)
        for name in "abc":  # in this order
            client.join(name, timeout=DEADLINE_S)
        return client

    def test_nobody(self) -> None:
        self.assertEqual(list_clients(self.a)[:2], ([], {}))
        status, out, _ = run_command("clients", "--hosts", self.a)
        self.assertEqual((status, out.partition("\n")[0]), (0, "no client is registered"))
        status, out, _ = run_command("clients", "--hosts", self.a, "--ensemble", "b", "--ensemble", "c")
        self.assertEqual((status, out.partition("\n")[0]), (0, "no client with a session on b or c is known"))

    def test_those_that_do_not_register(self) -> None:
        """This process' plain clients, one on each ensemble."""
        sessions = {
            format_session(client.client_id[0]): name for client, name in zip(self.plain, "abc", strict=True)
        }
        found = list_clients(self.a).unregistered
        self.assertEqual({session: each.ensemble for session, each in found.found.items()}, sessions)
        self.assertEqual(found.unseen, {})
        self.assertEqual([each.server for each in found.found.values()], [self.a, self.b, self.c])
        status, out, _ = run_command("clients", "--hosts", self.a)
        self.assertEqual(status, 0)
        self.assertIn("3 sessions are not registered", out)
        for session in sessions:
            self.assertRegex(out, rf"  127\.0\.0\.1:\d+ on 127.*, session {session}\n")
        for command in ("clients", "status"):
            printed = json.loads(run_command(command, "--hosts", self.a, "--json")[1])["unregistered"]
            self.assertEqual({each["session"]: each["ensemble"] for each in printed["sessions"]}, sessions)
        self.assertIn("3 sessions are not registered", run_command("status", "--hosts", self.a)[1])
        with mock.patch("parkazoo.admin.clients.ask_server", return_value="cons is not in the whitelist.\n"):
            status, out, _ = run_command("clients", "--hosts", self.a)
            self.assertEqual(status, 0)
            self.assertRegex(out, f"connections of {self.b} cannot be listed: .* `cons`: it is not in its 4lw")
            out = run_command("status", "--hosts", self.a)[1]
            self.assertRegex(out, f"the connections of .*{self.b}.* cannot be listed")

    def test_clients(self) -> None:
        clients = [self.client(), self.client()]
        found = {each.client: each for each in list_clients(self.a).clients}
        self.assertEqual({*found}, {format_session(client.client_id[0]) for client in clients})
        for client in clients:
            each = found[format_session(client.client_id[0])]
            self.assertEqual((each.pid, each.version, each.map), (os.getpid(), parkazoo.__version__, 1))
            sessions = {name: format_session(member.client_id[0]) for name, member in client.members.items()}
            self.assertEqual(each.sessions, sessions)
        status, out, _ = run_command("clients", "--hosts", self.a)
        self.assertEqual(status, 0)
        self.assertIn("registered clients: 2", out)
        for each in found.values():
            self.assertRegex(out, rf"{each.client} .*{os.getpid()} .* a b c\s")
        status, out, _ = run_command("clients", "--hosts", self.a, "--ensemble", "b", "--json")
        self.assertEqual(status, 0)
        self.assertEqual([{*each["sessions"]} for each in json.loads(out)["clients"]], [{"b"}] * 2)
        clients[0].stop()
        self.assertEqual(
            [each.client for each in list_clients(self.a).clients], [format_session(clients[1].client_id[0])]
        )

    def test_an_ensemble_is_away(self) -> None:
        """The others' clients are listed, and it is named."""
        client = self.client()
        closed = f"127.0.0.1:{free_port()}"
        changed = ClusterMap(self.map.cluster, {**self.map.ensembles, "b": closed}, self.map.placement, "a")
        self.publish(changed)
        found = list_clients(self.a)
        self.assertEqual([*found.clients[0].sessions], ["a", "c"])
        self.assertEqual(found.absent, {"b": f"{closed}: Connection refused"})
        status, out, _ = run_command("clients", "--hosts", self.a)
        self.assertEqual(status, 1)
        self.assertIn(format_session(client.client_id[0]), out)
        self.assertIn(f"the clients of ensemble b cannot be listed: {closed}: Connection refused", out)

    def test_a_wrong_name(self) -> None:
        with self.assertRaisesRegex(ClusterMapError, "no ensemble of the map is called 'x': there are a, b, c"):
            list_clients(self.a, ["x"])
        status, _, err = run_command("clients", "--hosts", self.a, "--ensemble", "x")
        self.assertEqual(status, 1)
        self.assertIn("no ensemble of the map is called 'x'", err)
        for command in (("clients", "--ensemble", ""), ("map", "hosts", "=h:1"), ("map", "hosts", "a b=h:1")):
            with self.subTest(command):
                status, _, err = run_command(*command, "--hosts", self.a)
                self.assertEqual(status, 2)
                self.assertIn("is no name for an ensemble", err)

    def test_rubbish(self) -> None:
        """What anybody has written there is shown as unknown, and never as a command to the terminal."""
        client = self.client()
        session = format_session(list(client.members.values())[1].client_id[0])
        path = f"{CLIENTS}/{session}"
        for data in (b"", b"\xff", b"[]", b'{"client": 7, "host": "\\u001b[2J", "pid": [1], "since": {}}'):
            with self.subTest(data):
                self.plain[1].set(path, data)
                found = [each for each in list_clients(self.a).clients if each.client is None]
                self.assertEqual([(*each[:6], each.sessions) for each in found], [(None,) * 6 + ({"b": session},)])
                status, out, _ = run_command("clients", "--hosts", self.a)
                self.assertEqual(status, 0)
                self.assertNotIn("\x1b[2J", out)
        self.plain[1].add_auth("digest", "a:b")
        self.plain[1].set_acls(path, [make_digest_acl("a", "b", all=True)])  # may not be read
        self.assertEqual(
            [each.sessions for each in list_clients(self.a).clients if not each.client], [{"b": session}]
        )
        self.plain[1].delete(path)
        self.assertEqual(len(list_clients(self.a).clients), 1)

    def test_fsck_and_check_know_them(self) -> None:
        client = self.client()
        self.assertEqual(run_command("map", "check", "--hosts", self.a)[0], 0)
        self.assertNotIn(CLIENTS, run_command("fsck", "--hosts", self.a)[1])
        session = next(iter(client.members.values())).client_id[0]
        forged = registration_path(session + 99)
        self.plain[0].create(forged)
        self.assertIn(forged, run_command("fsck", "--hosts", self.a)[1])
        self.plain[0].delete(forged)
        plain: KazooClient = self.plain[2]
        client.stop()
        plain.delete(CLIENTS, recursive=True)
        status, out, _ = run_command("map", "check", "--hosts", self.a)
        self.assertEqual(status, 1)
        self.assertRegex(out, f"c .*missing: {CLIENTS} .*map init")
        init_map(self.a, self.all)
        self.assertEqual(run_command("map", "check", "--hosts", self.a)[0], 0)
