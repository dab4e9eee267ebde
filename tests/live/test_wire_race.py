"""Attempts that overlap: a server that is silent delays no other, and no session begins or goes on twice."""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Callable
from typing import Any
from unittest import mock

from kazoo.protocol.states import KeeperState
from kazoo.retry import KazooRetry

from parkazoo.kazoo_private import CloseInstance, GetData
from parkazoo.wire import handshake as handshake_module
from parkazoo.wire import race as race_module
from parkazoo.wire.attempt import ConnectAttempt, Steps, connect
from parkazoo.wire.handler import ThreadingHandler
from parkazoo.wire.rounds import Backoff
from tests.fakes.conversation import PASSWORD, SESSION
from tests.fakes.owner import LONG_S
from tests.live.test_wire_connect import (
    CONNECTED,
    CONNECTING,
    HANDSHAKE_ANSWERS,
    HEADER,
    ConnectTest,
    Peer,
    Server,
    good,
    good_end,
    register,
    silent,
    swallowing,
)
from tests.live.world import DEADLINE_S, sockets, wait_until

SOON_S, SLOW_S = 0.001, 0.3
NO_PAUSE = mock.patch.object(Backoff, "next_delay_s", side_effect=AssertionError("a pause"))
PATIENT = mock.patch.object(race_module, "PATIENCE_S", LONG_S)


def kinds(peer: Peer) -> list[int]:
    """The types of the requests behind Connect."""
    return [HEADER.unpack_from(frame)[1] for frame in peer.frames[1:]]


class AttemptsTest(ConnectTest):
    def setUp(self) -> None:
        super().setUp()
        self.threads = {*threading.enumerate()}

    def tearDown(self) -> None:
        wait_until(lambda: not {*threading.enumerate()} - self.threads, "no thread is left")

    def serve(self, *scripts: Callable[[Peer], None], **options: Any) -> Server:
        """Another server, which ends with the test."""
        server = Server(*scripts, **options)
        self.addCleanup(server.stop)
        self.threads = {*threading.enumerate()}
        self.before = sockets()
        return server

    def swallowing(self, host: str = "127.0.0.1", port: int = 0) -> str:
        address = swallowing(self, host, port)
        self.before = sockets()
        return address


class TestSilent(AttemptsTest):
    """Of several servers one says nothing. Sessions live 10 minutes: no limit ends the attempt on it."""

    def test_it_swallows_packets(self) -> None:
        """The other gets the one Connect, of the session if there is one; the first one's socket is closed."""
        for session in (0, SESSION):
            server, silent_one = self.serve(good), self.swallowing()
            hosts, client_id = f"{silent_one},{server.address}", (session, PASSWORD) if session else None
            with (
                self.subTest(session=session),
                NO_PAUSE,
                PATIENT,
                self.connecting(hosts=hosts, randomize_hosts=False, client_id=client_id) as member,
            ):
                self.wait_for(CONNECTED)
                self.assertTrue(member._connection._race.is_idle())
                (peer,) = server.peers
                self.assertEqual(peer.session, session)
            self.assertEqual(self.owner.states, [CONNECTED, KeeperState.CLOSED])

    def overtake(self, session: int) -> Server:
        """The first server accepts and says nothing; the other answers when that one's connection is closed."""
        first = self.serve(silent)

        def script(peer: Peer) -> None:
            peer.read(1)
            if first.peers[0].has_ended.wait(DEADLINE_S):
                peer.read(1)
                peer.send(HANDSHAKE_ANSWERS)
                register(peer)
            good_end(peer)

        second = self.serve(script)
        hosts, client_id = f"{first.address},{second.address}", (session, PASSWORD) if session else None
        with NO_PAUSE, self.connecting(hosts=hosts, randomize_hosts=False, client_id=client_id) as member:
            self.wait_for(CONNECTED)
            self.assertEqual(member._session_id, SESSION)
            self.assertEqual([len(first.peers), len(second.peers)], [1, 1])
            self.assertEqual([each.peers[0].session for each in (first, second)], [session, session])
        self.assertEqual(self.owner.states, [CONNECTED, KeeperState.CLOSED])
        return first

    def test_to_a_new_session(self) -> None:
        """What may begin there ends there: it reads that behind Connect."""
        first = self.overtake(0)
        self.assertEqual(kinds(first.peers[0]), [GetData.type, CloseInstance.type])

    def test_to_a_session_that_goes_on(self) -> None:
        """It is not asked to close the session."""
        first = self.overtake(SESSION)
        self.assertEqual(kinds(first.peers[0]), [GetData.type])

    def test_no_other_can_be_asked(self) -> None:
        """All others refuse, in every round: the silent one is not given up, and its late answer is good."""
        may_answer, refused = threading.Event(), []

        def refuse(attempt: ConnectAttempt, ip: str, port: int) -> Steps[None]:
            if port == 1:
                refused.append(port)
                raise OSError(errno.ECONNREFUSED, "Connection refused")
            return (yield from connect(attempt, ip, port))

        def script(peer: Peer) -> None:
            may_answer.wait(DEADLINE_S)
            good(peer)

        server = self.serve(script)
        with (
            mock.patch.object(handshake_module, "connect", refuse),
            mock.patch.object(race_module, "PATIENCE_S", SOON_S),
            self.connecting(hosts=f"{server.address},127.0.0.1:1", randomize_hosts=False),
        ):
            wait_until(lambda: len(refused) > 3, "some rounds")
            may_answer.set()
            self.wait_for(CONNECTED)
            self.assertEqual(len(server.peers), 1)

    def test_some_before_a_good_one(self) -> None:
        """In the first round each gets its share of the session timeout."""
        silent_ones = [self.serve(silent).address for _ in range(4)]
        hosts = ",".join([*silent_ones, self.serve(good).address])
        with (
            self.assertLogs("parkazoo.test", "WARNING") as logged,
            self.connecting(hosts=hosts, randomize_hosts=False, timeout=5.0),
        ):
            self.wait_for(CONNECTED)
        ends = [line for line in logged.output if "no answer to Connect" in line]
        shares = [line.rpartition(" within ")[2] for line in ends]
        self.assertEqual(shares[:4], ["0.5 s", "1.0 s", "1.0 s", "1.0 s"])

    def test_all_are_slow(self) -> None:
        """Each needs longer than its share of the session timeout; there is no session to hurry for."""

        def script(peer: Peer) -> None:
            threading.Event().wait(SLOW_S)
            good(peer)

        hosts = ",".join(self.serve(script).address for _ in range(10))
        with self.connecting(hosts=hosts, timeout=5 * SLOW_S):
            self.wait_for(CONNECTED)

    def test_hundreds_that_swallow_packets(self) -> None:
        """The one that does not is found; all the others' sockets are closed."""
        _, port = self.swallowing("0.0.0.0").split(":")
        server = self.serve(good)
        hosts = ",".join([*(f"127.0.{n // 200}.{n % 200 + 1}:{port}" for n in range(300)), server.address])
        with (
            mock.patch.object(race_module, "STAGGER_S", SOON_S),
            NO_PAUSE,
            PATIENT,
            self.connecting(hosts=hosts, randomize_hosts=False) as member,
        ):
            self.wait_for(CONNECTED)
            self.assertTrue(member._connection._race.is_idle())
            self.assertEqual(len(server.peers), 1)

    def test_all_addresses_have_changed(self) -> None:
        """Of the old ones one refuses, one swallows packets. The session goes on at the new one, with no pause."""
        may_break = threading.Event()

        def script(peer: Peer) -> None:
            peer.read(2)
            peer.send(HANDSHAKE_ANSWERS)
            register(peer)
            may_break.wait(DEADLINE_S)
            old.refuse()
            peer.close()

        old = self.serve(script)
        self.swallowing("127.0.0.3", old.port)
        new = self.serve(good, host="127.0.0.2", port=old.port)
        named = ["127.0.0.1", "127.0.0.3"]

        def look_up(host: str, port: int, *_: Any) -> list[Any]:
            return [(None, None, None, None, (ip, port)) for ip in named]

        with (
            mock.patch.object(socket, "getaddrinfo", look_up),
            NO_PAUSE,
            PATIENT,
            self.connecting(hosts=f"some.name:{old.port}", randomize_hosts=False),
        ):
            self.wait_for(CONNECTED)
            named[:] = ["127.0.0.2"]
            may_break.set()
            self.wait_for(CONNECTED, CONNECTING, CONNECTED)
            self.assertEqual([peer.session for peer in new.peers], [SESSION])


class TestProgramsOwn(AttemptsTest):
    """What a program has put in the way of a connection is called for one server after the other."""

    def check_one_by_one(self, **options: Any) -> None:
        """The first server is silent for the time of an attempt, then the second is tried."""
        asked: list[int] = []

        def script(peer: Peer) -> None:
            asked.append(len(first.peers))
            good(peer)

        first, second = self.serve(silent), self.serve(script)
        with (
            self.assertLogs("parkazoo.test", "WARNING") as logged,
            mock.patch.object(race_module, "STAGGER_S", SOON_S),
            mock.patch.object(race_module, "PATIENCE_S", SOON_S),
            self.connecting(
                hosts=f"{first.address},{second.address}", randomize_hosts=False, timeout=1.0, **options
            ),
        ):
            self.wait_for(CONNECTED)
            self.assertEqual(asked[0], 1)
        self.assertIn("no answer to Connect within 0.5 s", logged.output[0])

    def test_create_connection(self) -> None:
        class Own(ThreadingHandler):
            def create_connection(self, *args: Any, **kwargs: Any) -> Any:
                return socket.create_connection(kwargs["address"], kwargs["timeout"])

        self.check_one_by_one(handler=Own())

    def test_connect(self) -> None:
        calls: list[str] = []

        def hook(original: Callable[..., Any]) -> Callable[..., Any]:
            def connect(*address: Any) -> Any:
                calls.append("begin")
                try:
                    return original(*address)
                finally:
                    calls.append("end")

            return connect

        self.check_one_by_one(hook=hook)
        self.assertGreater(len(calls), 3)
        self.assertEqual(calls, ["begin", "end"] * (len(calls) // 2))


class TestStop(AttemptsTest):
    """While several servers are tried. No time limit ends it: sessions live 10 minutes."""

    def test_two_that_cannot_be_reached(self) -> None:
        hosts = f"{self.swallowing()},{self.swallowing()}"
        with self.connecting(hosts=hosts) as member:
            wait_until(lambda: len(member._connection._race.sockets()) == 2, "two attempts")

    def test_a_pause(self) -> None:
        """One server refuses, one cannot be reached."""
        with socket.create_server(("127.0.0.1", 0)) as closed:
            refusing = f"127.0.0.1:{closed.getsockname()[1]}"
        hosts = f"{self.swallowing()},{refusing}"
        pauses = mock.patch.object(Backoff, "next_delay_s", lambda backoff: LONG_S)
        with pauses, self.connecting(hosts=hosts) as member:
            wait_until(lambda: member._connection._rounds._pause is not None, "a pause")
            self.assertEqual(len(member._connection._race.sockets()), 1)

    def test_a_look_up(self) -> None:
        """One server cannot be reached, the name of the other has no address, then no answer."""
        is_asked, may_answer, asked = threading.Event(), threading.Event(), []
        self.addCleanup(may_answer.set)

        def look_up(*_: Any) -> list[Any]:
            asked.append(1)
            if len(asked) > 1:
                is_asked.set()
                may_answer.wait(DEADLINE_S)
            raise socket.gaierror("no such name")

        with mock.patch.object(socket, "getaddrinfo", look_up):
            hosts = f"127.0.0.1:1,{self.swallowing()},some.name:1"
            with self.connecting(hosts=hosts, randomize_hosts=False) as member:
                self.assertTrue(is_asked.wait(DEADLINE_S))
                self.assertEqual(len(member._connection._race.sockets()), 1)
            may_answer.set()

    def test_no_more_rounds(self) -> None:
        """By the program's policy. It ends only when the last attempt has failed."""
        with socket.create_server(("127.0.0.1", 0)) as closed:
            refusing = f"127.0.0.1:{closed.getsockname()[1]}"
        retry = KazooRetry(max_tries=1)
        silent_one = self.swallowing()
        with self.connecting(
            hosts=f"{silent_one},{refusing}", randomize_hosts=False, connection_retry=retry, timeout=1.0
        ) as member:
            wait_until(member._connection.connection_stopped.is_set, "the end")
            self.assertIn(f"{silent_one}: no connection within 0.5 s", member.describe_troubles())
