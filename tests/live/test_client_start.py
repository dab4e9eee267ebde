"""start() and join(), with one ensemble and three; and with what is wrong: a clear error in time, nothing left."""

from __future__ import annotations

import json
import socket
import threading
import time
import warnings
from typing import Any
from unittest import mock

from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError, ConfigurationError, ConnectionClosedError, NoNodeError
from kazoo.protocol.states import KazooState
from kazoo.security import CREATOR_ALL_ACL

from parkazoo import ClusterMapError, ParKazooClient
from parkazoo.admin import accept_restore, init_map, read_history
from parkazoo.engine.session import Session
from parkazoo.local import LocalCluster, free_ports
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.placement import ENSEMBLE, MAP
from parkazoo.wire import handshake
from parkazoo.wire.member import Member
from tests.handlers import make_handler
from tests.live.world import DEADLINE_S, LiveTest, Seen, sockets, wait_until

ADMIN = ("digest", "admin:secret")
BLANK: LocalCluster


def setUpModule() -> None:
    global BLANK  # noqa: PLW0603 - unittest's way of a fixture
    BLANK = LocalCluster(ensembles=1, servers=1, make_map=False)
    BLANK.start()


def tearDownModule() -> None:
    BLANK.stop()


class Closer:
    """A server that closes each connection as soon as something has come, as ZooKeeper does without a quorum.

    :param resets: with bytes that it has not read, so that the client's end is reset.
    """

    def __init__(self, *, resets: bool) -> None:
        self._resets = resets
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> Closer:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._server.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            with connection:
                connection.recv(1 if self._resets else 1 << 16)


class TestNoStart(LiveTest):
    """Maps on a server of their own, below which there is nothing else."""

    def setUp(self) -> None:
        super().setUp()
        self.hosts = BLANK.hosts
        self.plain = self._begin(KazooClient(self.hosts, handler=make_handler(), auth_data=[ADMIN]), True)
        if self.plain.exists("/parkazoo"):
            self.plain.delete("/parkazoo", recursive=True)

    def write(self, document: bytes, record: bytes | None = None) -> None:
        for path, data in ((MAP, document), (ENSEMBLE, record)):
            if data is not None:
                self.plain.ensure_path(path)
                self.plain.set(path, data)

    def fails(self, kind: type[BaseException], *words: str, timeout_s: float = DEADLINE_S, **options: Any) -> None:
        """start() raises `kind` with these words, in time, and leaves nothing behind; nor does start_async()."""
        ParKazooClient(self.hosts, handler=make_handler())  # what is made once
        before = threading.active_count(), len(sockets())
        client = ParKazooClient(options.pop("hosts", self.hosts), handler=make_handler(), **options)
        began = time.monotonic()
        with self.assertRaises(kind) as caught:
            client.start(timeout_s)
        self.assertLess(time.monotonic() - began, timeout_s + DEADLINE_S)
        for word in words:
            self.assertIn(word, str(caught.exception))
        self.assertFalse(client.connected)
        self.assertRaises((kind, ConnectionClosedError), client.get, "/")
        self.ends(client, before)
        client.start_async()
        if kind is not client.handler.timeout_exception:
            wait_until(lambda: client.client_state in ("CLOSED", "AUTH_FAILED"), "the failure")
            self.assertRaises(kind, client.get, "/")
        self.ends(client, before)

    def join_fails(self, kind: type[BaseException], *words: str, timeout_s: float = DEADLINE_S) -> None:
        """join() of ensemble b raises `kind` with these words, in time; nothing is left behind the end."""
        ParKazooClient(self.hosts, handler=make_handler())  # what is made once
        before = threading.active_count(), len(sockets())
        client = self.parkazoo(hosts=self.hosts)
        began = time.monotonic()
        with self.assertRaises(kind) as caught:
            client.join("b", timeout=timeout_s)
        self.assertLess(time.monotonic() - began, timeout_s + DEADLINE_S)
        for word in words:
            self.assertIn(word, str(caught.exception))
        self.assertTrue(client.connected)
        self.ends(client, before)

    def ends(self, client: Any, before: tuple[int, int]) -> None:
        client.stop()
        client.close()
        wait_until(
            lambda: threading.active_count() <= before[0] and len(sockets()) <= before[1],
            f"{threading.enumerate()} and {sockets()}, at first {before}",
        )

    def map_of(self, **ensembles: str) -> ClusterMap:
        return ClusterMap("test", ensembles, tuple(ensembles), next(iter(ensembles)))

    def record(self, cluster: str = "test", name: str = "a") -> bytes:
        return json.dumps({"cluster": cluster, "name": name}).encode()

    def test_no_map(self) -> None:
        """The client cannot know whether there was one: it names both, and what tells them apart."""
        self.fails(ClusterMapError, MAP, self.hosts, "none has been made", "lost its data", "parkazoo map init")
        self.assertTrue(issubclass(ClusterMapError, ConfigurationError))

    def test_damaged_maps(self) -> None:
        good = self.map_of(a=self.hosts).to_json()
        for document in (b"", b"\xff\xfe", b"{", b"[]", b"null", good[:-20], good.replace(b'"hash"', b'"hush"')):
            with self.subTest(document):
                self.write(document)
                self.fails(ClusterMapError, MAP, self.hosts, "damaged")

    def test_newer_format(self) -> None:
        self.write(json.dumps({**json.loads(self.map_of(a=self.hosts).to_json()), "format": 3}).encode())
        self.fails(ClusterMapError, MAP, self.hosts, "format 3", "upgrade")

    def test_other_hash(self) -> None:
        self.write(self.map_of(a=self.hosts).to_json().replace(b"sha256", b"md5"))
        self.fails(ClusterMapError, MAP, self.hosts, "md5")

    def test_unknown_placement(self) -> None:
        document = json.loads(self.map_of(a=self.hosts).to_json())
        self.write(json.dumps({**document, "placement": ["a", "b"]}).encode())
        self.fails(ClusterMapError, MAP, self.hosts, "ensemble b")

    def test_wrong_servers(self) -> None:
        self.write(self.map_of(a=self.hosts).to_json())
        self.fails(ClusterMapError, self.hosts, f"{ENSEMBLE} there is missing; ", "parkazoo map check")
        for record in (b"", b"{}", b"\xff", self.record(cluster="another"), self.record(name="b")):
            with self.subTest(record):
                self.write(self.map_of(a=self.hosts).to_json(), record)
                self.fails(ClusterMapError, self.hosts, ENSEMBLE, "parkazoo map check")
        other = self.cluster.ensembles[1].hosts
        self.write(self.map_of(a=self.hosts, b=other).to_json(), self.record())
        self.join_fails(ClusterMapError, other, ENSEMBLE, "parkazoo map check")

    def test_a_connection_that_does_not_end(self) -> None:
        """The error is that of the start, not that of its end."""
        (port,) = free_ports(1)
        client = self.parkazoo(hosts=f"127.0.0.1:{port}", start=False)
        with (
            mock.patch.object(ParKazooClient, "_close_timeout_s", 0.01),
            mock.patch.object(Session, "stop"),  # it never says that all has ended
            self.assertRaises(client.handler.timeout_exception),
        ):
            client.start(0.01)

    def test_no_server_there(self) -> None:
        (port,) = free_ports(1)
        dead = f"127.0.0.1:{port}"
        timeout = make_handler().timeout_exception
        with self.assertLogs("parkazoo", "WARNING") as logs:
            self.fails(timeout, dead, "Servers of any ensemble will do", hosts=dead, timeout_s=0.5)
        first = logs.records[0]
        self.assertEqual(first.name, "parkazoo")
        self.assertRegex(first.getMessage(), f"^the servers of hosts: .*{dead}")
        self.fails(timeout, "no.such.host.invalid", hosts="no.such.host.invalid:2181", timeout_s=0.5)
        self.write(self.map_of(a=self.hosts, b=dead).to_json(), self.record())
        self.join_fails(timeout, "ensemble b", dead, timeout_s=1)

    def test_every_reason_is_told(self) -> None:
        """The time-out's message names each server of an ensemble with what became of the attempt to reach it."""
        (port,) = free_ports(1)
        dead = f"127.0.0.1:{port}"
        with (
            socket.create_server(("127.0.0.1", 0)) as mute,
            Closer(resets=False) as polite,
            Closer(resets=True) as rude,
        ):
            silent = f"127.0.0.1:{mute.getsockname()[1]}"
            servers = ",".join((dead, polite.address, rude.address, "no.such.host.invalid:2181", silent))
            self.write(self.map_of(a=self.hosts, b=servers).to_json(), self.record())
            client = self.parkazoo(hosts=self.hosts, randomize_hosts=False, timeout=60)
            self.assertRaises(client.handler.timeout_exception, client.join, timeout=0.01)
            wait_until(lambda: len(client.members["b"].troubles) == 4, "an attempt at each")
            with self.assertRaises(client.handler.timeout_exception) as caught:
                client.join("b", timeout=0.01)
        closed = "the server closed the connection before it answered: it may have no quorum"
        self.assertRegex(
            str(caught.exception),
            rf"ensemble b \({dead}: Connection refused, {polite.address}: {closed}, {rude.address}: {closed}, "
            r"no\.such\.host\.invalid:2181: cannot resolve no\.such\.host\.invalid: .+, "
            rf"{silent}: no answer yet\)",
        )

    def test_no_right_to_read_the_map(self) -> None:
        self.write(self.map_of(a=self.hosts).to_json(), self.record())
        self.plain.set_acls(MAP, CREATOR_ALL_ACL)
        self.fails(ClusterMapError, MAP, self.hosts, "auth_data")
        client = self.parkazoo(hosts=self.hosts, auth_data=[ADMIN])
        self.assertEqual(client.cluster_map.names, ("a",))

    def test_refused_credentials(self) -> None:
        self.write(self.map_of(a=self.hosts).to_json(), self.record())
        self.fails(AuthFailedError, auth_data=[("no such scheme", "x")])

    def test_a_mistake(self) -> None:
        """No server causes it: start() raises it at once, and does not try until the time is over."""
        self.write(self.map_of(a=self.hosts).to_json(), self.record())
        for where, name in ((handshake, "_register"), (Session, "_open")):
            with self.subTest(name), mock.patch.object(where, name, side_effect=KeyError(name)):
                self.fails(KeyError, name)

    def test_start_async_without_a_map(self) -> None:
        """No thread waits for start(): then every operation says what is wrong."""
        client = self.parkazoo(hosts=self.hosts, start=False)
        seen = Seen()
        client.add_listener(seen)
        client.start_async()
        early = client.get_async("/")
        self.assertRaises(ClusterMapError, early.get, timeout=DEADLINE_S)
        wait_until(lambda: client.client_state == "CLOSED", "closed")
        self.assertRaises(ClusterMapError, client.get, "/")
        self.assertNotIn("CONNECTED", seen)

    def test_a_map_that_comes_later(self) -> None:
        """The same client starts once the cause is gone."""
        client = self.parkazoo(hosts=self.hosts, start=False)
        self.assertRaises(ClusterMapError, client.start, DEADLINE_S)
        init_map(self.hosts, {"a": self.hosts})
        client.start(DEADLINE_S)
        self.assertIsNotNone(client.exists("/"))

    def test_one_ensemble_with_data(self) -> None:
        """It is read and written as it stands, by the plain clients beside it too, and it holds its own map."""
        plain = self.plain
        plain.create("/old/app", b"data", makepath=True)
        plain.create("/old/app/child")
        init_map(self.hosts, {"only": self.hosts})
        client = self.parkazoo(hosts=self.hosts)
        self.assertEqual(client.cluster_map.ensembles, {"only": self.hosts})
        self.assertEqual(client.get("/old/app"), plain.get("/old/app"))
        self.assertEqual(client.get_children("/old/app"), ["child"])
        self.assertEqual(sorted(client.get_children("/")), ["old", "zookeeper"])
        number, password = client.client_id
        self.assertEqual(len(password), 16)
        client.create("/old/app/child/new", b"x", ephemeral=True)
        self.assertEqual(plain.get("/old/app/child/new")[1].ephemeralOwner, number)
        transaction = client.transaction()
        transaction.create("/new")
        transaction.create("/old/other")
        transaction.delete("/old/app/child/new")
        self.assertEqual(transaction.commit(), ["/new", "/old/other", True])
        self.assertEqual(plain.get_children("/new"), [])
        client.delete("/old", recursive=True)
        client.delete("/new")
        self.assertEqual(sorted(plain.get_children("/")), ["parkazoo", "zookeeper"])

    def test_a_missing_chroot(self) -> None:
        self.write(self.map_of(a=self.hosts).to_json(), self.record())
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            client = self.parkazoo("/chroot", hosts=self.hosts)
        self.assertTrue(any("chroot" in str(each.message) for each in caught))
        self.assertRaises(NoNodeError, client.create, "/x")
        client.ensure_path("/x")
        self.assertEqual(client.get_children("/"), ["x"])
        self.plain.delete("/chroot", recursive=True)


class TestThree(LiveTest):
    def test_with(self) -> None:
        """A block starts and stops it, whatever the block raises; its repr tells what it is at each time."""
        client = self.parkazoo("/app", start=False)
        closed = repr(client)
        self.assertEqual(closed, f"<ParKazooClient '{self.cluster.hosts}/app' CLOSED>")
        with self.assertRaises(ZeroDivisionError), client as same:
            self.assertIs(same, client)
            client.ensure_path("/")
            client.join()
            assert client.cluster_map is not None
            told = f" CONNECTED on {', '.join(client.members)} of 3 in cluster {client.cluster_map.cluster}>"
            self.assertTrue(repr(client).endswith(told), repr(client))
            raise ZeroDivisionError
        self.assertEqual((client.client_state, repr(client)), ("CLOSED", closed))
        with client:
            self.assertTrue(client.connected)

    def test_servers_that_have_lost_what_the_client_has_seen(self) -> None:
        """ZooKeeper closes such a connection without a word: the log and the reason say what it may be."""
        client = self.joined()
        member = client.members["b"]
        member.last_zxid = 1 << 60
        with self.assertLogs("parkazoo.b", "WARNING") as logged:
            member._connection._socket.shutdown(socket.SHUT_RDWR)
            wait_until(lambda: member.troubles, "an attempt")
        (reason,) = member.troubles.values()
        self.assertIn("it may have no quorum, or have lost data that this client has seen", reason)
        self.assertIn(reason, logged.output[-1])

    def test_an_ensemble_that_has_lost_what_the_client_has_seen(self) -> None:
        """Its servers never say that the session has expired. Once it must have, the client finds out why."""
        client, states = self.joined(timeout=4.0), Seen()
        client.add_listener(states)
        session = client.client_id
        member = client.members["b"]
        member.last_zxid = 1 << 60
        with self.assertLogs("parkazoo", "ERROR") as logged:
            member._connection._socket.shutdown(socket.SHUT_RDWR)
            wait_until(lambda: KazooState.LOST in states, "the end of the session")
        self.assertIn("ensemble b: it has gone back to an older copy of its data", logged.output[0])
        wait_until(lambda: client.connected and member.connected, "the client again")
        self.assertNotEqual(client.client_id, session)
        (note,) = accept_restore(self.cluster.ensembles[0].hosts, "b", timeout_s=DEADLINE_S)
        self.assertRegex(note, rf"^a client that had seen change \d+ of {ENSEMBLE} found change \d+, ")
        self.assertEqual(
            read_history(self.cluster.ensembles[0].hosts)[-1].what, "the restore of ensemble b accepted"
        )

    def test_configuration(self) -> None:
        """All three are in the map, each has a session, and each knows who it is."""
        client = self.joined()
        names = tuple(ensemble.name for ensemble in self.cluster.ensembles)
        self.assertEqual(client.cluster_map.names, names)
        self.assertEqual(client.cluster_map.placement, names)
        for index, ensemble in enumerate(self.cluster.ensembles):
            self.assertEqual(client.cluster_map.ensembles[ensemble.name], ensemble.hosts)
            self.assertTrue(client.members[ensemble.name].connected)
            record = json.loads(self.kazoo(index).get(ENSEMBLE)[0])
            self.assertEqual(record, {"cluster": client.cluster_map.cluster, "name": ensemble.name})

    def test_any_ensemble(self) -> None:
        """Each has a copy of the map."""
        for ensemble in self.cluster.ensembles:
            client = self.parkazoo(hosts=ensemble.hosts)
            self.assertEqual([*client.members], [ensemble.name])
            self.assertIsNotNone(client.exists("/"))

    def test_two_handlers(self) -> None:
        """Clients do not share a handler by accident."""
        first, second = self.parkazoo(), self.parkazoo()
        self.assertIsNot(first.handler, second.handler)
        first.stop()
        self.assertIsNotNone(second.exists("/"))

    def test_a_time_out_while_the_others_are_met(self) -> None:
        """join() names the missing ensembles at any moment, also when it has just begun."""
        missing = Seen()

        def begin(member: Member) -> None:
            missing(member.owner.roster.describe_missing())
            begin_(member)

        begin_ = Member.begin
        with mock.patch.object(Member, "begin", begin):
            self.joined()
        self.assertEqual(len(missing), 3)
        self.assertIn("the cluster", missing[0])
        self.assertIn("ensemble b", missing[1])
        self.assertIn("ensemble c", missing[2])

    def test_connected_in_parallel(self) -> None:
        """A start makes one connection, a join one to each other ensemble: they do not wait for each other."""
        client = self.parkazoo(start=False)
        begun = Seen()
        all_begun = client.handler.event_object()
        connect = client._connection._connect

        def hook(host: str, hostip: str, port: int) -> Any:
            begun(port)
            if len(begun) > 1:  # the first is the start's
                if len(begun) == self.ensembles:
                    all_begun.set()
                all_begun.wait(DEADLINE_S)
            return connect(host, hostip, port)

        client._connection._connect = hook
        client.start(DEADLINE_S)
        self.assertEqual(len(begun), 1)
        client.join(timeout=DEADLINE_S)
        self.assertTrue(all_begun.is_set())
        self.assertEqual(len(begun), self.ensembles)
