"""Whether a server belongs to a copy: the servers that the map names are asked, of which some are silent."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Any
from unittest import mock

from kazoo.exceptions import NoNodeError

from parkazoo.errors import ClusterMapError
from parkazoo.kazoo_private import CloseInstance, ConnectionHandler, Exists, GetData
from parkazoo.wire import same_ensemble
from parkazoo.wire.attempt import Steps
from tests.fakes.conversation import STAT, answer, connect_answer, data_answer, framed
from tests.fakes.owner import LONG_S
from tests.live.test_wire_connect import CONNECTED, HEADER, ConnectTest, Peer, Server, good, silent, swallowing
from tests.live.world import DEADLINE_S, sockets, wait_until

NAMED_SESSION = 0x0A5ED
SOON_S = 0.001


def named(record: bytes, *, knows: bool) -> Callable[[Peer], None]:
    """A server of the map: whose it says that it is, and whether it has the registration."""

    def script(peer: Peer) -> None:
        peer.read()
        peer.send(connect_answer(session=NAMED_SESSION))
        while True:
            xid, kind = HEADER.unpack_from(peer.read())
            if kind == GetData.type:
                peer.send(data_answer(xid, record))
            elif kind == Exists.type:
                peer.send(answer(xid, STAT) if knows else answer(xid, code=NoNodeError.code))
            else:
                peer.send(answer(xid, framed(b"/")))

    return script


original, other_ensemble, itself = named(b"b", knows=False), named(b"x", knows=False), named(b"b", knows=True)


class NamedTest(ConnectTest):
    """The member is on a server that the map does not name. No limit ends the wait for those that it names."""

    limit_s = LONG_S

    def setUp(self) -> None:
        super().setUp()
        self.hosts: list[str] = []
        self.refused: list[str] = []
        self.answers: list[bool | None] = []
        ask = same_ensemble._has_registration

        def asked(*arguments: Any) -> Steps[bool | None]:
            self.answers.append((yield from ask(*arguments)))
            return self.answers[-1]

        for name, value in (("LIMIT_S", self.limit_s), ("_has_registration", asked)):
            patch = mock.patch.object(same_ensemble, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def name(self, script: Callable[[Peer], None]) -> Server:
        server = Server(script)
        self.addCleanup(server.stop)
        self.hosts.append(server.address)
        self.before = sockets()
        return server

    def name_unreachable(self) -> None:
        self.hosts.append(swallowing(self))
        self.before = sockets()

    def name_slow(self) -> None:
        """Nobody says which address this name has."""
        look_up, may_end = socket.getaddrinfo, threading.Event()

        def slow(host: Any, *arguments: Any) -> Any:
            if host == "slow":
                may_end.wait(DEADLINE_S)
                raise OSError("no answer")
            return look_up(host, *arguments)

        names = mock.patch.object(socket, "getaddrinfo", slow)
        names.start()
        self.addCleanup(names.stop)
        self.addCleanup(may_end.set)
        self.hosts.append("slow:1")

    def connecting_by_another_name(self) -> Any:
        def refuse(member: Any, server: str) -> Exception:
            self.refused.append(server)
            return ClusterMapError("a copy")

        doubts = {"doubts": lambda *_: ",".join(self.hosts), "refuse_copy": refuse}
        return self.connecting(good, owner=doubts)

    def assert_refused(self) -> None:
        with self.connecting_by_another_name():
            wait_until(lambda: self.refused, "the copy is refused")
            self.assertEqual({*self.refused}, {self.server.address})
            self.assertNotIn(CONNECTED, self.owner.states)

    def assert_taken(self, *answers: bool | None) -> None:
        with self.connecting_by_another_name():
            self.wait_for(CONNECTED)
        self.assertEqual((self.refused, self.answers), ([], [*answers]))

    def assert_closed(self, server: Server) -> None:
        """The last thing that it was asked is to end the session."""
        wait_until(lambda: server.peers, "it has accepted")
        self.assertTrue(server.peers[0].has_ended.wait(DEADLINE_S))
        self.assertEqual(HEADER.unpack_from(server.peers[0].frames[-1])[1], CloseInstance.type)


class TestNamed(NamedTest):
    def test_a_copy(self) -> None:
        """The session that began for the question is ended."""
        server = self.name(original)
        self.assert_refused()
        self.assert_closed(server)

    def test_itself(self) -> None:
        server = self.name(itself)
        self.assert_taken(True)
        self.assert_closed(server)

    def test_behind_one_that_is_silent(self) -> None:
        """What may begin there ends there."""
        server = self.name(silent)
        self.name(original)
        self.assert_refused()
        self.assert_closed(server)

    def test_itself_behind_one_that_is_silent(self) -> None:
        server = self.name(silent)
        self.name(itself)
        self.assert_taken(True)
        self.assert_closed(server)

    def test_behind_one_that_swallows_packets(self) -> None:
        self.name_unreachable()
        self.name(original)
        self.assert_refused()

    def test_behind_a_name_without_an_address(self) -> None:
        self.name_slow()
        self.name(original)
        self.assert_refused()

    def test_behind_several(self) -> None:
        self.name(silent)
        self.name_unreachable()
        self.name_slow()
        self.name(other_ensemble)
        self.name(original)
        self.assert_refused()

    def test_all_say_nothing_of_it(self) -> None:
        """One refuses, others are of another ensemble: nobody waits."""
        self.hosts.append("127.0.0.1:1")
        self.name(other_ensemble)
        self.name(other_ensemble)
        self.assert_taken(None, None)

    def test_stopped_meanwhile(self) -> None:
        """No socket is left; a forked child knows them all."""
        self.name(silent)
        self.name(silent)
        with self.connecting_by_another_name() as member:
            wait_until(lambda: len(member._connection._race.sockets()) == 3, "both are asked")


class TestLimit(NamedTest):
    limit_s = SOON_S

    def test_all_are_silent(self) -> None:
        """Nothing can be said."""
        self.name(silent)
        self.name_unreachable()
        self.assert_taken()


class TestSasl(ConnectTest):
    def test_two_servers_at_once(self) -> None:
        """Each conversation is on its own socket."""
        both, used = threading.Barrier(2), dict[str, Any]()

        def converse(connection: Any, host: str, timeout_s: float) -> None:
            both.wait(DEADLINE_S)
            used[host] = connection._socket
            both.wait(DEADLINE_S)

        ends = dict(zip("ab", socket.socketpair(), strict=True))
        for sock in ends.values():
            self.addCleanup(sock.close)
        self.before = sockets()
        with (
            mock.patch.object(ConnectionHandler, "_authenticate_with_sasl", converse),
            self.connecting() as member,
        ):
            member.sasl_options = {}
            threads = [
                threading.Thread(target=member.authenticate, args=(sock, host, DEADLINE_S))
                for host, sock in ends.items()
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(DEADLINE_S)
            self.assertEqual(used, ends)
            self.assertIsNone(member._connection._socket)
