"""A client follows changes of the servers: of the map's, and of those that an ensemble says it has."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kazoo.exceptions import NoAuthError, NoNodeError

from parkazoo.protocol.placement import MAP
from parkazoo.protocol.registration import decode_registration, registration_path
from tests.engine.test_session import SessionTest
from tests.fakes.client import Client
from tests.fakes.member import CONFIG, CONNECT_S

MANY = 100_000


def config(version: int, *servers: str) -> bytes:
    """What an ensemble says of itself.

    :param servers: ``"b:1"``.
    """
    lines = []
    for number, server in enumerate(servers, 1):
        host, port = server.split(":")
        lines.append(f"server.{number}={host}:2888:3888:participant;{port}")
    return "\n".join([*lines, f"version={version:x}"]).encode()


class ServersTest(SessionTest):
    def started(self, joined: str = "a", **options: Any) -> Client:
        client = super().started(joined, **options)
        client.servers |= {
            f"{name}:{port}": client.ensembles[name] for name in client.map.names for port in (2, 3)
        }
        return client

    def say(self, client: Client, name: str, found: Any) -> None:
        """The ensemble's configuration changes, and the member hears of it."""
        client.ensembles[name].data[CONFIG] = found
        client[name].read_config(client.ensembles[name])

    def lose(self, client: Client, name: str) -> None:
        """The connection, for a moment."""
        client[name].lose()
        client.ensembles[name].is_up = True
        client.runtime.turn(CONNECT_S)


class TestConfig(ServersTest):
    def test_followed(self) -> None:
        """From one to the next, also when all servers have changed; without a change of state."""
        client = self.started("ab")
        for version, servers in enumerate((("b:1", "b:2"), ("b:2", "b:3"), ("b:1",)), 1):
            self.say(client, "b", config(version, *servers))
            self.assertEqual(client["b"].hosts, ",".join(servers))
            self.assertEqual(client["b"].spare, "" if "b:1" in servers else "b:1")
        self.assertEqual((client["a"].hosts, client.states), ("a:1", []))

    def test_read_at_each_connection(self) -> None:
        client = self.started("ab")
        client.ensembles["b"].data[CONFIG] = config(1, "b:1", "b:2")
        self.lose(client, "b")
        self.assertEqual(client["b"].hosts, "b:1,b:2")
        client = self.started()
        client.ensembles["b"].data[CONFIG] = config(1, "b:1", "b:2")
        self.join(client, "b")
        self.assertEqual(client["b"].hosts, "b:1,b:2")

    def test_an_older_one(self) -> None:
        """A server lags."""
        client = self.started("ab")
        self.say(client, "b", config(7, "b:2", "b:1"))
        self.say(client, "b", config(6, "b:1"))
        self.assertEqual(client["b"].hosts, "b:2,b:1")

    def test_the_same_servers(self) -> None:
        """Nothing changes."""
        client = self.started("ab")
        client["b"].settle("b", "b:9", (), None)  # as if it were so
        self.say(client, "b", config(1, "b:1"))
        self.assertEqual(client["b"].hosts, "b:9")

    def test_other_names(self) -> None:
        """The servers call each other by names that clients cannot use."""
        client = self.started("ab")
        self.say(client, "b", config(1, "inside:1", "inside:2"))
        self.assertEqual(client["b"].hosts, "b:1")

    def test_of_no_use(self) -> None:
        client = self.started("ab")
        rubbish = (
            NoAuthError(),
            NoNodeError(),
            None,
            b"",
            b"\xff\xfe",
            b"version=1",
            b"server.1=0.0.0.0:1:2:participant;0.0.0.0:1\nversion=1",
            b"server.1=b:1:2:participant;99999\nversion=1",
            b"server.1=b:1:2:participant;1\nserver.2=b:1:2:participant\nversion=1",
            b"server.1=b:1:2:participant;1\nserver.2=c:1:2:participant;2\nversion=-1",
            b"server.1=b:1:2:participant;1\nserver.1=\nversion=2",
            b"=" * MANY,
            b"server.1=" + b"b" * MANY,
        )
        for each in rubbish:
            with self.subTest(each):
                self.say(client, "b", each)
                self.assertEqual((client["b"].hosts, client.states), ("b:1", []))
                self.lose(client, "b")
                self.assertEqual(client["b"].hosts, "b:1")
                client.states.clear()

    def test_one_ensemble(self) -> None:
        """The hosts are the user's."""
        client = self.started(names="a")
        self.say(client, "a", config(1, "a:1", "a:2"))
        self.assertEqual(client["a"].hosts, "a:1")

    def test_all_are_expired(self) -> None:
        """What is known of the servers does not depend on the session."""
        client = self.started("ab")
        self.say(client, "b", config(1, "b:1", "b:2"))
        client.session.expire("a test wants it")
        client.runtime.turn(3 * CONNECT_S)
        self.assertEqual(client["b"].hosts, "b:1,b:2")


class TestMap(ServersTest):
    def change(self, client: Client, *, epoch: int, **hosts: str) -> None:
        """A map with other servers of some ensembles is published, and a hears of it."""
        client.map = replace(client.map, ensembles={**client.map.ensembles, **hosts}, epoch=epoch)
        for ensemble in client.ensembles.values():
            ensemble.data[MAP] = client.map.to_json()
        trouble = client.session.take_copy(client["a"], client.ensembles["a"].read(MAP), "a:1")
        self.assertIsNone(trouble)
        client.runtime.turn(CONNECT_S)

    def epochs(self, client: Client) -> dict[str, Any]:
        """That the registrations say."""
        found = {}
        for name in client.joined:
            data = client.ensembles[name].data[registration_path(client[name].session_id)]
            found[name] = decode_registration(data)["epoch"]
        return found

    def test_while_it_is_connected(self) -> None:
        """All members have the new servers, and say the new epoch, without a change of state."""
        client = self.started("ab")
        before = client.map.epoch
        self.change(client, epoch=before + 1, b="b:2,b:3", c="c:2")
        self.assertEqual((client["a"].hosts, client["b"].hosts), ("a:1", "b:2,b:3"))
        self.assertEqual(self.epochs(client), {"a": before + 1, "b": before + 1})
        self.join(client, "c")
        self.assertEqual((client["c"].hosts, client.states), ("c:2", []))

    def test_the_ensemble_says_more(self) -> None:
        """It knows servers that the new map does not name."""
        client = self.started("ab")
        self.say(client, "b", config(1, "b:1", "b:2"))
        self.change(client, epoch=2, c="c:2")
        self.assertEqual(client["b"].hosts, "b:1,b:2")
        self.change(client, epoch=3, b="b:2,b:3")
        self.assertEqual(client["b"].hosts, "b:1,b:2")

    def test_the_operator_gives_other_names(self) -> None:
        """What the ensemble says is of no use any more, until it shares a name with the map again."""
        client = self.started("ab")
        self.say(client, "b", config(1, "b:1", "b:2"))
        self.change(client, epoch=2, b="b:3")
        self.assertEqual(client["b"].hosts, "b:3")
        self.say(client, "b", config(2, "b:1"))
        self.assertEqual(client["b"].hosts, "b:3")
        self.say(client, "b", config(3, "b:2", "b:3"))
        self.assertEqual(client["b"].hosts, "b:2,b:3")

    def test_a_damaged_one(self) -> None:
        """The client goes on with the one that it has."""
        client = self.started("ab")
        for found in (b"", b"{", b'{"format": 99}'):
            with self.subTest(found):
                client.ensembles["a"].data[MAP] = found
                trouble = client.session.take_copy(client["a"], client.ensembles["a"].read(MAP), "a:1")
                self.assertIn("a:1", str(trouble))
                on_b = self.call(client, "b")
                client.runtime.turn(CONNECT_S)
                self.assert_read(on_b)
                self.assertEqual(client.states, [])

    def test_it_disappears(self) -> None:
        """`map check` tells that. The client goes on, and takes the next one."""
        client = self.started("ab")
        before = client.map.epoch
        client.ensembles["a"].data[MAP] = NoNodeError()
        self.assertIsNone(client.session.take_copy(client["a"], client.ensembles["a"].read(MAP), "a:1"))
        self.lose(client, "a")
        self.change(client, epoch=before + 1, b="b:2")
        self.assertEqual(client["b"].hosts, "b:2")
