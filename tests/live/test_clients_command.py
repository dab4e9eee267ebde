"""`parkazoo clients`."""

from __future__ import annotations

import json
import os
import socket
from collections import Counter
from typing import Any
from unittest import mock

from kazoo.client import KazooClient
from kazoo.security import OPEN_ACL_UNSAFE, make_digest_acl

import parkazoo
from parkazoo import ParKazooClient
from parkazoo.admin import init_map, list_clients
from parkazoo.admin.answers import parse_connections
from parkazoo.errors import ClusterMapError
from parkazoo.kazoo_private import Connect, Create, int_struct
from parkazoo.protocol.cluster_map import ClusterMap, parse_hosts
from parkazoo.protocol.placement import CLIENTS
from parkazoo.protocol.registration import format_session, registration_path
from parkazoo.wire.frames import request_frame
from tests.live.map_case import MapCase, free_port, run_command
from tests.live.world import DEADLINE_S, wait_until


def begin_session(connection: socket.socket, ephemeral: str) -> str:
    """The id of a new session with that ephemeral. It is not ended."""
    opening = Connect(0, 0, 60_000, 0, bytes(16), False).serialize()
    create = request_frame(Create(ephemeral, b"", OPEN_ACL_UNSAFE, 1), 1)
    connection.sendall(int_struct.pack(len(opening)) + opening + create)
    answers = connection.makefile("rb")
    for part in range(2):
        frame = answers.read(int_struct.unpack(answers.read(4))[0])
        if part == 0:
            accepted, _ = Connect.deserialize(frame, 0)
    return format_session(accepted.session_id)


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
        sessions = [
            (name, format_session(client.client_id[0])) for client, name in zip(self.plain, "abc", strict=True)
        ]
        found = list_clients(self.a).unregistered
        self.assertEqual(sorted(found.found), sessions)
        self.assertEqual(found.unseen, {})
        self.assertEqual([each.server for each in found.found.values()], [self.a, self.b, self.c])
        status, out, _ = run_command("clients", "--hosts", self.a)
        self.assertEqual(status, 0)
        self.assertIn("3 sessions are not registered", out)
        for _, session in sessions:
            self.assertRegex(out, rf"  127\.0\.0\.1:\d+ on 127.*, session {session}: [\d,]+ requests\n")
        for command in ("clients", "status"):
            printed = json.loads(run_command(command, "--hosts", self.a, "--json")[1])["unregistered"]
            self.assertEqual(sorted((each["ensemble"], each["session"]) for each in printed["sessions"]), sessions)
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

    def test_what_they_hold(self) -> None:
        """Of a client, of a plain kazoo program, and of a session whose connection is lost."""
        client, idle = self.client(), self.client()
        client.create("/jobs")
        for number in range(7):
            client.create(f"/jobs/{number}", ephemeral=True)
            client.exists(f"/jobs/x{number}", watch=lambda event: None)
        plain = self.plain[1]
        for number in range(3):
            plain.create(f"/plain{number}", ephemeral=True)
            self.addCleanup(plain.delete, f"/plain{number}")
            plain.get(f"/plain{number}", watch=lambda event: None)
        with socket.create_connection(parse_hosts(self.c)[0]) as cut_off:
            session = begin_session(cut_off, "/cut-off")
        self.addCleanup(self.plain[2].delete, "/cut-off")

        def document(*options: str) -> dict[str, Any]:
            status, out, err = run_command("clients", "--hosts", self.a, "--json", *options)
            self.assertEqual((status, err), (0, ""), out)
            found: dict[str, Any] = json.loads(out)
            return found

        def look() -> bool:
            self.found = document("--sort", "ephemerals")
            return session in [each["session"] for each in self.found["unregistered"]["sessions"]]

        wait_until(look, "the server has seen the end of the connection")
        most, least = self.found["clients"]
        self.assertEqual(
            (most["client"], least["client"]), tuple(format_session(each.client_id[0]) for each in (client, idle))
        )
        registrations = 3
        self.assertEqual([each["ephemerals"] for each in (most, least)], [7 + registrations, registrations])
        self.assertEqual((most["watches"] - least["watches"], most["away"]), (7, []))
        self.assertGreater(most["requests"], least["requests"])
        others = {each["session"]: each for each in self.found["unregistered"]["sessions"]}
        about = others[format_session(plain.client_id[0])]
        self.assertEqual((about["ephemerals"], about["watches"], self.found["untold"]), (3, 3, {}))
        self.assertEqual((others[session]["ephemerals"], others[session]["address"]), (1, "no connection"))
        full = self.found["fullest"]
        self.assertEqual((full["path"], full["owner"], full["ephemerals"]), ("/jobs", most["client"], 7))
        by_requests = document("--sort", "requests")
        self.assertIsNone(by_requests["fullest"])
        self.assertEqual([each["ephemerals"] for each in by_requests["clients"]], [None, None])
        self.assertEqual(by_requests["clients"][0]["client"], most["client"])

        status, out, _ = run_command("clients", "--hosts", self.a, "--sort", "watches")
        self.assertEqual(status, 0)
        self.assertRegex(out, r"(?s)requests +ephemerals +watches .*" f"{most['client']}.*{least['client']}")
        self.assertRegex(
            out, rf"session {format_session(plain.client_id[0])}: [\d,]+ requests, 3 ephemerals, 3 wat"
        )
        self.assertIn(f"no connection on ensemble c, session {session}: 0 requests, 1 ephemerals", out)
        told = rf"most ephemerals of one client in one directory: 7 in /jobs on [abc], of {most['client']}\n"
        self.assertRegex(out, told)

    def test_one_is_away(self) -> None:
        """Its session on b is registered, and has no connection there."""
        client = self.client()
        session = client.members["b"].client_id[0]
        self.assertIn(("b", format_session(session)), list_clients(self.a).connected.sessions)
        with mock.patch(
            "parkazoo.admin.strangers.parse_connections",
            lambda said: [each for each in parse_connections(said) if each.session != format_session(session)],
        ):
            status, out, _ = run_command("clients", "--hosts", self.a)
            self.assertEqual(status, 0)
            self.assertRegex(out, rf"{format_session(client.client_id[0])} .* a b \(away\) c ")
            self.assertIn("away: the client has no connection to that ensemble at this moment", out)
            (found,) = json.loads(run_command("clients", "--hosts", self.a, "--json")[1])["clients"]
            self.assertEqual(found["away"], ["b"])

    def test_words_that_are_off(self) -> None:
        self.client()
        asked: list[str] = []

        def answer(word: str, *about: object) -> str:
            asked.append(word)
            return f"{word} is not executed because it is not in the whitelist.\n"

        with mock.patch("parkazoo.admin.clients.ask_server", answer):
            status, out, _ = run_command("clients", "--hosts", self.a, "--holdings")
        self.assertEqual((status, Counter(asked)), (0, {"cons": 3, "dump": 3, "wchc": 3}))
        self.assertRegex(out, r" \? +\? +\? *\n")
        self.assertIn(
            "the ephemerals of ensemble b are not known: dump: it is not in its 4lw.commands.whitelist", out
        )
        self.assertIn(f"the watches at {self.c} are not known: wchc: it is not in its", out)

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
