"""A client's registration on each ensemble, and the owner of ephemerals that all clients see."""

from __future__ import annotations

import json
import os
import socket
from datetime import datetime, timezone
from typing import Any
from unittest import mock

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from kazoo.security import make_digest_acl

import parkazoo
from parkazoo.protocol.placement import CLIENTS
from parkazoo.protocol.registration import format_session, registration_path
from tests.live.test_client_session import SessionTest
from tests.live.world import DEADLINE_S, wait_until
from tests.where_is import where_is


class TestRegistration(SessionTest):
    def registrations(self, client: Any) -> list[dict[str, Any] | None]:
        """What it has registered on each ensemble, as plain kazoo reads it; None where it has not."""
        found: list[dict[str, Any] | None] = []
        for index in range(self.ensembles):
            member = self.member(client, index)
            path = registration_path(member.client_id[0])
            try:
                data, stat = self.plain(index).get(path)
            except NoNodeError:
                found.append(None)
            else:
                self.assertEqual(stat.ephemeralOwner, member.client_id[0])
                found.append(json.loads(data))
        return found

    def sessions(self, client: Any) -> list[int]:
        """The ids of its sessions, by the ensemble's index."""
        return [self.member(client, index).client_id[0] for index in range(self.ensembles)]

    def plain(self, ensemble: int) -> KazooClient:
        """One kazoo client for each ensemble."""
        clients = self.__dict__.setdefault("_plain", {})
        if ensemble not in clients:
            clients[ensemble] = self.kazoo(ensemble)
        return clients[ensemble]

    def test_registered(self) -> None:
        client = self.joined()
        sessions = self.sessions(client)
        for found in self.registrations(client):
            assert found is not None
            self.assertRegex(found.pop("since"), r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00$")
            self.assertEqual(
                found,
                {
                    "client": format_session(client.client_id[0]),
                    "epoch": client.cluster_map.epoch,
                    "version": parkazoo.__version__,
                    "host": socket.gethostname(),
                    "pid": os.getpid(),
                },
            )
        client.stop()
        for index, session in enumerate(sessions):
            self.assertIsNone(self.plain(index).exists(registration_path(session)))

    def test_since(self) -> None:
        """It is when the client's session began, whichever of its sessions registers, and however often."""
        client = self.joined()
        began = [found and found["since"] for found in self.registrations(client)]
        self.assertEqual(len({*began}), 1)
        with mock.patch("parkazoo.wire.about.datetime") as clock:
            clock.now.return_value = datetime(2030, 1, 2, tzinfo=timezone.utc)
            number = client.client_id[0]
            for session, epoch in ((self.sessions(client)[0], 2), (99, 2)):
                found = json.loads(client.registration(session, number, epoch).data)
                self.assertEqual((found["epoch"], found["since"]), (epoch, began[0]))
            found = json.loads(client.registration(99, number + 1, 2).data)
            self.assertEqual(found["since"], "2030-01-02T00:00:00+00:00")

    def test_owner(self) -> None:
        """All see one owner, on every ensemble; of plain kazoo's ephemerals the session."""
        client = self.parkazoo()
        number = client.client_id[0]
        paths = self.on_each(client, ephemeral=True)
        for other in (self.watcher, self.parkazoo()):
            for _ in range(2):
                for path in paths:
                    stats = [
                        other.exists(path),
                        other.get(path)[1],
                        other.get_children(path, include_data=True)[1],
                        other.get_acls(path)[1],
                        other.set(path, b"new"),
                    ]
                    self.assertEqual({stat.ephemeralOwner for stat in stats}, {number})
                    self.assertEqual({stat.owner_session_id for stat in stats}, {number})
        for index, path in enumerate(paths):
            plain = self.plain(index)
            name = path.rpartition("/")[0] + "/plain"
            plain.create(where_is(self.placement, name).home.path, ephemeral=True)
            self.assertEqual(self.watcher.exists(name).ephemeralOwner, plain.client_id[0])

    def test_a_new_session(self) -> None:
        client = self.parkazoo()
        old = client.client_id[0]
        client.restart()
        self.assertNotEqual(client.client_id[0], old)
        client.join(timeout=DEADLINE_S)
        wanted = format_session(client.client_id[0])
        self.assertEqual(
            [found and found["client"] for found in self.registrations(client)], [wanted] * self.ensembles
        )

    def test_expired(self) -> None:
        """If there was an ephemeral, the sessions that begin then register with the new client's id."""
        for ensemble in range(self.ensembles):
            with self.subTest(ensemble):
                client = self.parkazoo()
                self.on_each(client, ephemeral=True)
                old = client.client_id[0]
                self.expire(client, ensemble)
                wait_until(
                    lambda client=client, old=old: client.connected and client.client_id[0] != old, "a new one"
                )
                client.join(timeout=DEADLINE_S)
                wanted = format_session(client.client_id[0])
                found = self.registrations(client)
                self.assertEqual([each and each["client"] for each in found], [wanted] * self.ensembles)
                for path in self.on_each(client, ephemeral=True):
                    self.assertEqual(self.watcher.exists(path).ephemeralOwner, client.client_id[0])
                    client.delete(path)

    def test_resumed(self) -> None:
        """The registration is the newer client's then."""
        first = self.joined()
        session = first.client_id
        for index in range(self.ensembles):
            member = self.member(first, index)
            self.plain(index).set(registration_path(member.client_id[0]), b"{}")
            member.set_hosts("127.0.0.1:1")  # it must not take its session back
        second = self.parkazoo(client_id=session)
        found = self.registrations(second)
        self.assertEqual(
            [each and each["client"] for each in found], [format_session(session[0])] * self.ensembles
        )

    def test_rubbish(self) -> None:
        """Another client has deleted it or written into it: the session's own id is shown, and nothing fails."""
        client = self.parkazoo()
        paths = self.on_each(client, ephemeral=True)
        sessions = self.sessions(client)
        self.plain(0).delete(registration_path(sessions[0]))
        self.plain(1).set(registration_path(sessions[1]), b"\xff{")
        self.plain(2).set(registration_path(sessions[2]), b'{"client": ["0x7"]}')
        self.assertEqual([self.watcher.exists(path).ephemeralOwner for path in paths], sessions)

    def test_hidden(self) -> None:
        client = self.parkazoo()
        path = self.on_each(client, ephemeral=True)[1]
        session = self.sessions(client)[1]
        self.plain(1).add_auth("digest", "a:b")
        self.plain(1).set_acls(registration_path(session), [make_digest_acl("a", "b", all=True)])
        self.assertEqual(self.watcher.exists(path).ephemeralOwner, session)

    def test_the_place_for_registrations_is_gone(self) -> None:
        """The log says so, and what to do: `map init` makes it again."""
        for index in range(self.ensembles):
            wait_until(lambda index=index: self.remove_clients(index), "no client is registered")
        with self.assertLogs("parkazoo", "WARNING") as logged:
            client = self.joined()
        self.assertEqual(len([line for line in logged.output if "map init" in line]), self.ensembles)
        paths = self.on_each(client, ephemeral=True)
        sessions = self.sessions(client)
        self.assertEqual([self.watcher.exists(path).ephemeralOwner for path in paths], sessions)
        for index in range(self.ensembles):
            self.plain(index).create(CLIENTS)
        client._connection._socket.shutdown(socket.SHUT_RDWR)  # each reconnect tries again
        for member in client.members.values():
            wait_until(lambda m=member: m._registered == m.client_id[0], "registered")
        self.wait_connected(client)
        self.assertNotIn(None, self.registrations(client))

    def remove_clients(self, ensemble: int) -> bool:
        self.plain(ensemble).delete(CLIENTS, recursive=True)
        return True

    def test_many_threads_see_one_owner(self) -> None:
        client = self.parkazoo()
        paths = self.on_each(client, ephemeral=True)
        asked = [self.watcher.exists_async(path) for path in paths * 50]
        owners = {each.get(timeout=DEADLINE_S).ephemeralOwner for each in asked}
        self.assertEqual(owners, {client.client_id[0]})
