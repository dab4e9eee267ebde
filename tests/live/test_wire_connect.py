"""How a member connects to servers that a test plays: whatever they do, and whenever it is stopped."""

from __future__ import annotations

import errno
import json
import socket
import sys
import threading
import time
import traceback
import unittest
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from struct import Struct
from typing import Any
from unittest import mock

from kazoo.exceptions import ConnectionDropped, NoNodeError
from kazoo.protocol.states import KeeperState

from parkazoo import ParKazooClient
from parkazoo import client as client_module
from parkazoo.engine.session import Session as ClientSession
from parkazoo.kazoo_private import CloseInstance, Create, GetData, int_struct
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.placement import ENSEMBLE, MAP
from parkazoo.wire import handshake as handshake_module
from parkazoo.wire import loop as loops
from parkazoo.wire import rounds as rounds_module
from parkazoo.wire.attempt import ConnectAttempt, Steps, connect
from parkazoo.wire.handler import ThreadingHandler
from tests.fakes.conversation import PASSWORD, SESSION, answer, auth_answer, connect_answer, data_answer, framed
from tests.fakes.owner import Owner, make_member
from tests.fakes.result import Result
from tests.live.world import DEADLINE_S, sockets, wait_until

CONNECT = Struct("!iqiq")  # protocol, zxid, time-out in ms, session; the password follows
HEADER = Struct("!ii")  # xid, type
REFUSED = -115
SHORT_S = 0.3  # a session time-out that is to pass
CONNECTED, CONNECTING = KeeperState.CONNECTED, KeeperState.CONNECTING
OURS = data_answer(0, b"b")
HANDSHAKE_ANSWERS = connect_answer() + OURS
REGISTERED = answer(0, framed(b"/r")) + data_answer(0, b"map") + data_answer(0, b"config")
START = ParKazooClient.start_async.__code__


class Peer:
    """The server's end of one connection."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._data = b""
        self.frames: list[bytes] = []
        self.has_ended = threading.Event()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.settimeout(DEADLINE_S)

    def read(self, count: int = 1) -> bytes:
        """The last of so many frames."""
        for _ in range(count):
            while len(self._data) < 4 or len(self._data) < 4 + int_struct.unpack_from(self._data)[0]:
                data = self._sock.recv(1 << 16)
                if not data:
                    raise EOFError
                self._data += data
            end = 4 + int_struct.unpack_from(self._data)[0]
            self.frames.append(self._data[4:end])
            self._data = self._data[end:]
        return self.frames[-1]

    def send(self, data: bytes) -> None:
        self._sock.sendall(data)

    def close(self) -> None:
        self._sock.close()

    def run(self, script: Callable[[Peer], None]) -> None:
        """Play the script, then read until the client closes."""
        with suppress(EOFError, OSError):
            script(self)
            while True:
                self.read()
        self._sock.close()
        self.has_ended.set()

    @property
    def session(self) -> int:
        """That the client asked for."""
        return int(CONNECT.unpack_from(self.frames[0])[3])


class Server:
    """Plays a script with each who connects; after the last script that again."""

    def __init__(self, *scripts: Callable[[Peer], None], host: str = "127.0.0.1", port: int = 0) -> None:
        self.peers: list[Peer] = []
        self._scripts = scripts
        self._door = socket.create_server((host, port), backlog=100)
        self.port = self._door.getsockname()[1]
        self.address = f"{host}:{self.port}"
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                taken, _ = self._door.accept()
                peer = Peer(taken)
                script = self._scripts[min(len(self.peers), len(self._scripts) - 1)]
                self.peers.append(peer)
                thread = threading.Thread(target=peer.run, args=(script,), daemon=True)
                self._threads.append(thread)
                thread.start()

    def refuse(self) -> None:
        """From now on."""
        with suppress(OSError):
            self._door.shutdown(socket.SHUT_RDWR)
        self._door.close()

    def stop(self) -> None:
        self.refuse()
        for thread in self._threads:
            thread.join(DEADLINE_S)


def swallowing(test: unittest.TestCase, host: str = "127.0.0.1", port: int = 0) -> str:
    """The address of a server whose kernel does not answer any more: too many wait to be accepted."""
    door = socket.create_server((host, port), backlog=0)
    test.addCleanup(door.close)
    for _ in range(5):
        filler = socket.socket()
        test.addCleanup(filler.close)
        filler.setblocking(False)
        filler.connect_ex(door.getsockname())
    return f"{host}:{door.getsockname()[1]}"


class Session(Owner):
    """An owner with a real loop, which ends with the member."""

    def __init__(self) -> None:
        super().__init__(loops.acquire(ThreadingHandler()))

    def member_ended(self, member: Any) -> None:
        super().member_ended(member)
        loops.release(self.loop)


def silent(peer: Peer) -> None:
    """Reads, and says nothing."""


def reply_to(frame: bytes) -> bytes:
    """What a server of the ensemble answers."""
    xid, kind = HEADER.unpack_from(frame)
    if kind == GetData.type:
        return data_answer(xid, b"b" if ENSEMBLE.encode() in frame else b"x")
    return answer(xid, framed(b"/r") if kind == Create.type else b"")


def good(peer: Peer) -> None:
    """A server of the ensemble, for a member without credentials. It closes the session when it is asked to."""
    peer.read()
    peer.send(connect_answer())
    while True:
        peer.send(reply_to(peer.read()))


def register(peer: Peer) -> None:
    """Take the registration of a new session: the end of its handshake."""
    peer.read(3)
    peer.send(REGISTERED)


def good_end(peer: Peer) -> None:
    """Close the session when the client asks for that."""
    while True:
        xid, kind = HEADER.unpack_from(peer.read())
        if kind == CloseInstance.type:
            peer.send(answer(xid))


class ConnectTest(unittest.TestCase):
    def setUp(self) -> None:
        self.before = sockets()

    @contextmanager
    def connecting(
        self, *scripts: Callable[[Peer], None], hosts: str = "", owner: Any = None, **options: Any
    ) -> Iterator[Any]:
        """A member that connects to a server with these scripts; in the end it is stopped, and nothing is left.

        :param owner: what its owner has instead, by name.
        """
        self.server = Server(*(scripts or (silent,)))
        self.owner = Session()
        vars(self.owner).update(owner or {})
        member = make_member(self.owner, hosts or self.server.address, **options)
        member.begin()
        try:
            yield member
        finally:
            self.owner.loop.call(member.begin_stop)
            has_stopped = member._connection.stop(DEADLINE_S)
            self.server.stop()
        self.assertTrue(has_stopped)
        wait_until(lambda: self.owner.ended == [member], "the owner hears of the end")
        self.assertEqual({peer.has_ended.is_set() for peer in self.server.peers} - {True}, set())
        wait_until(lambda: sockets() <= self.before, "no socket is left")

    def wait_for(self, *states: str) -> None:
        wait_until(lambda: self.owner.states[: len(states)] == [*states], f"{states}")

    def wait_attempts(self, member: Any, count: int, trouble: str) -> None:
        """Wait until it has tried so often, and says why it failed."""
        wait_until(lambda: len(self.server.peers) >= count, f"{count} attempts")
        wait_until(lambda: trouble in member.describe_troubles(), f"{trouble!r}")
        self.assertIn(f"{self.server.address}: ", member.describe_troubles())


class TestHandshake(ConnectTest):
    def check_good(self, member: Any) -> None:
        self.wait_for(CONNECTED)
        result = Result()
        member.submit(GetData("/x", None), result)
        wait_until(lambda: result.told, "an answer")
        self.assertEqual(result.value[0], b"x")

    def test_one_flight(self) -> None:
        """Connect, credentials and the question for the identity, before the server has said anything."""

        def script(peer: Peer) -> None:
            peer.read(4)
            peer.send(connect_answer() + auth_answer() + auth_answer() + OURS)
            register(peer)
            xid, _ = HEADER.unpack_from(peer.read())
            peer.send(data_answer(xid, b"x"))

        with self.connecting(script, good, auth_data=[("digest", "b:b"), ("digest", "a:a")]) as member:
            self.check_good(member)
            frames = self.server.peers[0].frames
            self.assertEqual([HEADER.unpack_from(each)[1] for each in frames[1:4]], [100, 100, 4])
            self.assertIn(b"a:a", frames[1])
            self.assertIn(b"b:b", frames[2])
            self.assertIn(ENSEMBLE.encode(), frames[3])
            self.assertEqual(member._session_id, SESSION)
            self.server.peers[0].close()

    def test_byte_by_byte(self) -> None:
        def script(peer: Peer) -> None:
            peer.read(2)
            for byte in HANDSHAKE_ANSWERS:
                peer.send(bytes([byte]))
            peer.read(3)
            for byte in REGISTERED:
                peer.send(bytes([byte]))
            xid, _ = HEADER.unpack_from(peer.read())
            for byte in data_answer(xid, b"x"):
                peer.send(bytes([byte]))
            good_end(peer)

        with self.connecting(script) as member:
            self.check_good(member)

    def test_more_than_the_handshake(self) -> None:
        """What comes behind it, in the same breath, is the link's."""

        is_queued, result = threading.Event(), Result()

        def script(peer: Peer) -> None:
            peer.read(2)
            peer.send(HANDSHAKE_ANSWERS)
            peer.read(3)
            is_queued.wait(DEADLINE_S)
            peer.send(REGISTERED + data_answer(1, b"x"))
            good_end(peer)

        with self.connecting(script) as member:
            member.submit(GetData("/x", None), result)
            is_queued.set()
            wait_until(lambda: result.told, "an answer")
        self.assertEqual(result.value[0], b"x")

    def test_silent(self) -> None:
        with self.connecting(silent, timeout=SHORT_S) as member:
            self.wait_attempts(member, 3, "no answer to Connect within 0.3 s")

    def test_a_registration_has_time_of_its_own(self) -> None:
        """An ensemble may be slow for Connect and for the registration, which are two writes."""

        def script(peer: Peer) -> None:
            peer.read(2)
            peer.send(HANDSHAKE_ANSWERS)

        with self.connecting(script, timeout=SHORT_S) as member:
            self.wait_attempts(member, 2, "no answer to the registration of the session within 0.3 s")
            wait_until(
                lambda: any(len(peer.frames) == 6 for peer in self.server.peers),
                "the end of the session that is not wanted",
            )

    def test_the_registration_is_proof_too(self) -> None:
        """That the server hears this client: not as of Connect alone."""
        read_s: list[float] = []

        def script(peer: Peer) -> None:
            peer.read(2)
            read_s.append(time.monotonic())
            peer.send(HANDSHAKE_ANSWERS)
            register(peer)
            good_end(peer)

        with self.connecting(script) as member:
            self.wait_for(CONNECTED)
            self.assertGreaterEqual(member._connection._link._alive._proved_s, read_s[0])

    def test_silent_to_a_session(self) -> None:
        """The only server says nothing while it starts: that must not take all of the session's time."""
        with self.connecting(silent, timeout=3 * SHORT_S, client_id=(7, PASSWORD)) as member:
            self.wait_attempts(member, 2, "no answer to Connect within 0.3 s")
            # When the session is over anyway, a slow server may take its time to say so.
            wait_until(lambda: "within 0.9 s" in member.describe_troubles(), "more patience")

    def test_never_the_identity(self) -> None:
        def script(peer: Peer) -> None:
            peer.read(2)
            peer.send(connect_answer())

        with self.connecting(script, good, timeout=SHORT_S) as member:
            self.check_good(member)
            self.assertGreater(len(self.server.peers), 1)

    def test_closes(self) -> None:
        def script(peer: Peer) -> None:
            peer.close()

        with self.connecting(script) as member:
            self.wait_attempts(member, 3, "the server closed the connection before it answered")
        self.assertEqual(self.owner.states, [KeeperState.CLOSED])

    def test_closes_after_connect(self) -> None:
        def script(peer: Peer) -> None:
            peer.read(2)
            peer.send(connect_answer()[:17])
            peer.close()

        with self.connecting(script) as member:
            self.wait_attempts(member, 3, "the server closed the connection before it answered")

    def test_garbage(self) -> None:
        """Of another protocol; lengths beyond all bounds; frames that hold nothing."""
        whole = (
            b"HTTP/1.1 400 Bad Request\r\n\r\n",
            int_struct.pack(-1) + bytes(40),
            int_struct.pack(3) + bytes(40),
        )
        for garbage in (*whole, connect_answer() + int_struct.pack(-5), connect_answer() + answer(7)):
            with self.subTest(garbage):

                def script(peer: Peer, garbage: bytes = garbage) -> None:
                    peer.read(2)
                    peer.send(garbage)

                with self.connecting(script) as member:
                    self.wait_attempts(member, 2, "")
                self.assertEqual(self.owner.states, [KeeperState.CLOSED])

    def test_garbage_for_the_identity(self) -> None:
        def script(peer: Peer) -> None:
            peer.read(2)
            peer.send(connect_answer() + answer(0, b"\0"))

        with self.connecting(script, good) as member:
            self.check_good(member)

    def test_another_ensemble(self) -> None:
        """A session that has just begun there is closed; nothing that is queued is sent there."""
        for wrong in (data_answer(0, b"c"), answer(0, code=NoNodeError.code)):

            def script(peer: Peer, wrong: bytes = wrong) -> None:
                peer.read(2)
                peer.send(connect_answer() + wrong)

            with self.subTest(wrong), self.connecting(script) as member:
                member.submit(GetData("/x", None), Result())
                self.wait_attempts(member, 3, "another ensemble")
                first = self.server.peers[0]
                self.assertTrue(first.has_ended.wait(DEADLINE_S))
                self.assertEqual([HEADER.unpack_from(each)[1] for each in first.frames[2:]], [CloseInstance.type])
                self.assertEqual(self.owner.states, [])

    def test_another_ensemble_when_it_resumes(self) -> None:
        """The session is one of ours: it is not closed by way of a server that is not."""

        def script(peer: Peer) -> None:
            peer.read(2)
            peer.send(connect_answer() + data_answer(0, b"c"))

        with self.connecting(script, good, client_id=(SESSION, PASSWORD)) as member:
            self.check_good(member)
            first = self.server.peers[0]
            self.assertTrue(first.has_ended.wait(DEADLINE_S))
            self.assertEqual((len(first.frames), first.session), (2, SESSION))

    def test_credentials_refused(self) -> None:
        """That is the end: it does not try again."""

        def script(peer: Peer) -> None:
            peer.read(3)
            peer.send(connect_answer() + auth_answer(REFUSED))

        result = Result()
        with self.connecting(script, auth_data=[("digest", "a:a")]) as member:
            wait_until(lambda: self.owner.ended, "the end")
            member.submit(GetData("/x", None), result)
        self.assertEqual(self.owner.states, [KeeperState.AUTH_FAILED, KeeperState.CLOSED])
        self.assertEqual(len(self.server.peers), 1)
        self.assertEqual(len(result.told), 1)

    def test_session_expired(self) -> None:
        """It says so, and begins another."""

        def script(peer: Peer) -> None:
            peer.read(2)
            peer.send(connect_answer(0, 0))

        with self.connecting(script, good, client_id=(7, PASSWORD)) as member:
            self.wait_for(KeeperState.EXPIRED_SESSION, CONNECTING, CONNECTED)
            self.assertEqual([peer.session for peer in self.server.peers], [7, 0])
            self.assertEqual(member._session_id, SESSION)

    def test_the_next_server_at_once(self) -> None:
        """After one that refuses, and one that is no ZooKeeper server; without a pause."""
        other = Server(lambda peer: peer.send(b"SSH-2.0-x\r\n"))
        self.addCleanup(other.stop)
        with socket.create_server(("127.0.0.1", 0)) as closed:
            refusing = f"127.0.0.1:{closed.getsockname()[1]}"
        with mock.patch.object(rounds_module.Backoff, "next_delay_s", side_effect=AssertionError):
            server = Server(good)
            self.addCleanup(server.stop)
            self.before = sockets()
            with self.connecting(
                hosts=f"{refusing},{other.address},{server.address}", randomize_hosts=False
            ) as member:
                self.check_good(member)

    def test_hundreds_of_servers_that_fail_at_once(self) -> None:
        """Without a route to them, the attempts end before they have begun."""

        def refuse(attempt: ConnectAttempt, ip: str, port: int) -> Steps[None]:
            if port == 1:
                raise OSError(errno.ENETUNREACH, "Network is unreachable")
            return (yield from connect(attempt, ip, port))

        server = Server(good)
        self.addCleanup(server.stop)
        self.before = sockets()
        hosts = ",".join(["127.0.0.1:1"] * 500 + [server.address])
        with (
            mock.patch.object(handshake_module, "connect", refuse),
            self.connecting(hosts=hosts, randomize_hosts=False) as member,
        ):
            self.check_good(member)
            self.assertEqual(member._connection._rounds.in_vain, 0)


class TestProgramsOwn(ConnectTest):
    """What a program has put in the way of a connection: a handler's create_connection, a client's _connect."""

    def make_handler(self, connect: Callable[..., Any]) -> tuple[Any, list[Any]]:
        """A handler with a create_connection of its own, and what that is given."""
        given: list[Any] = []

        class Own(ThreadingHandler):
            def create_connection(self, *args: Any, **kwargs: Any) -> Any:
                given.append((args, kwargs))
                return connect(kwargs["address"], kwargs["timeout"])

        return Own(), given

    def test_create_connection(self) -> None:
        """It is given what kazoo gives; the socket that it returns is used as it is."""
        tls = {
            "use_ssl": True,
            "keyfile": "k",
            "certfile": "c",
            "ca": "a",
            "keyfile_password": "p",
            "verify_certs": False,
        }
        for options in ({}, tls):
            handler, given = self.make_handler(socket.create_connection)
            with self.subTest(**options), self.connecting(good, handler=handler, **options) as member:
                self.wait_for(CONNECTED)
                host, port = self.server.address.split(":")
                ((args, kwargs),) = given
                self.assertEqual(args, ())
                self.assertEqual(kwargs["address"], (host, int(port)))
                self.assertEqual(kwargs["hostname"], host)
                self.assertEqual(kwargs["timeout"], member._session_timeout / 1000)
                for name in (*tls, "check_hostname"):
                    self.assertEqual(kwargs[name], getattr(member, name))

    def test_it_raises_anything(self) -> None:
        """Both of them, once each; the next attempt succeeds."""
        for error in (OSError("no"), ValueError("no"), SystemExit("no"), KeyboardInterrupt("no")):
            for is_hook in (False, True):
                errors = iter([error])

                def fail_once(errors: Iterator[BaseException] = errors) -> None:
                    for each in errors:
                        raise each

                def create(*args: Any, fail_once: Callable[[], None] = fail_once) -> Any:
                    fail_once()
                    return socket.create_connection(*args)

                def hook(
                    original: Callable[..., Any], fail_once: Callable[[], None] = fail_once
                ) -> Callable[..., Any]:
                    return lambda *address: fail_once() or original(*address)

                options = {"hook": hook} if is_hook else {"handler": self.make_handler(create)[0]}
                with self.subTest(error=error, is_hook=is_hook), self.connecting(good, **options):
                    self.wait_for(CONNECTED)


class TestStop(ConnectTest):
    """Whatever it is doing, a member ends when asked. No time limit ends it: sessions live 10 minutes."""

    def test_before_the_connection(self) -> None:
        """The server's kernel does not answer."""
        hosts = swallowing(self)
        self.before = sockets()
        with self.connecting(hosts=hosts) as member:
            wait_until(lambda: not member._connection._race.is_idle(), "an attempt")

    def test_no_answer_to_connect(self) -> None:
        with self.connecting() as member:
            self.wait_frames(2)
            member.submit(GetData("/x", None), result := Result())
        self.assertEqual(len(result.told), 1)  # it does not wait for ever
        self.assertEqual(len(self.server.peers), 1)

    def test_no_identity(self) -> None:
        def script(peer: Peer) -> None:
            peer.read(2)
            peer.send(connect_answer(600_000))

        with self.connecting(script):
            self.wait_frames(2)

    def test_no_tls(self) -> None:
        has_come = threading.Event()

        def script(peer: Peer) -> None:
            peer._sock.recv(1)
            has_come.set()
            peer.read()  # whatever it takes the rest for

        with self.connecting(script, use_ssl=True, verify_certs=False, check_hostname=False):
            self.assertTrue(has_come.wait(DEADLINE_S))

    def test_no_sasl(self) -> None:
        def script(peer: Peer) -> None:
            peer.read()
            peer.send(connect_answer(3000))

        with self.connecting(script, sasl={"mechanism": "DIGEST-MD5", "username": "a", "password": "b"}):
            self.wait_frames(2)

    def test_a_slow_name(self) -> None:
        may_answer, is_asked = threading.Event(), threading.Event()
        self.addCleanup(may_answer.set)

        def answer_late(*_: Any) -> list[Any]:
            is_asked.set()
            may_answer.wait(DEADLINE_S)
            return []

        with mock.patch.object(socket, "getaddrinfo", answer_late), self.connecting(hosts="slow.invalid:1"):
            self.assertTrue(is_asked.wait(DEADLINE_S))

    def test_a_pause(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as closed:
            refusing = f"127.0.0.1:{closed.getsockname()[1]}"
        pauses = mock.patch.object(rounds_module.Backoff, "next_delay_s", lambda backoff: 600.0)
        with pauses, self.connecting(hosts=refusing) as member:
            wait_until(lambda: member._connection._rounds._pause is not None, "a pause")

    def test_a_program_s_connect(self) -> None:
        """It blocks; when it goes on, the connection that it makes is not kept."""
        is_called, may_go_on, outcomes = threading.Event(), threading.Event(), []
        self.addCleanup(may_go_on.set)

        def hook(original: Callable[..., Any]) -> Callable[..., Any]:
            def connect(*address: Any) -> Any:
                is_called.set()
                may_go_on.wait(DEADLINE_S)
                try:
                    return original(*address)
                except ConnectionDropped as error:
                    outcomes.append(error)
                    raise

            return connect

        with self.connecting(good, hook=hook):
            self.assertTrue(is_called.wait(DEADLINE_S))
        self.assertEqual(self.server.peers, [])
        may_go_on.set()
        wait_until(lambda: outcomes, "the end of the call")

    def test_within_a_program_s_connect(self) -> None:
        outcomes = []

        def hook(original: Callable[..., Any]) -> Callable[..., Any]:
            def connect(*address: Any) -> Any:
                try:
                    return original(*address)
                except ConnectionDropped as error:
                    outcomes.append(error)
                    raise

            return connect

        with self.connecting(silent, hook=hook):
            self.wait_frames(2)
        wait_until(lambda: outcomes, "the end of the call")

    def test_connected(self) -> None:
        """What is queued is answered, then the session is closed."""
        result = Result()
        with self.connecting(good) as member:
            self.wait_for(CONNECTED)
            member.submit(GetData("/x", None), result)
        self.assertEqual(result.value[0], b"x")
        kinds = [HEADER.unpack_from(each)[1] for each in self.server.peers[0].frames[1:]]
        read = GetData.type
        self.assertEqual(kinds, [read, Create.type, read, read, read, CloseInstance.type])

    def test_before_anything(self) -> None:
        with self.connecting(good):
            """It is stopped at once."""

    def wait_frames(self, count: int) -> None:
        wait_until(lambda: len(self.server.peers[0].frames) >= count, f"{count} frames")


class TestStart(unittest.TestCase):
    """Of a client whose servers a test plays."""

    def setUp(self) -> None:
        self.before = sockets()

    def end(self, client: Any, server: Server) -> None:
        client.stop()
        client.close()
        server.stop()
        self.assertEqual({peer.has_ended.is_set() for peer in server.peers}, {True})
        wait_until(lambda: sockets() <= self.before, "no socket is left")

    def test_many_threads_at_once(self) -> None:
        """They start one session."""
        server = Server(silent)
        client = ParKazooClient(server.address)
        threads = [threading.Thread(target=client.start_async) for _ in range(8)]
        made: list[Any] = []

        def are_in_start() -> bool:
            frames = sys._current_frames()
            stacks = [frames[thread.ident] for thread in threads if thread.ident in frames]
            count = sum(any(frame.f_code is START for frame, _ in traceback.walk_stack(each)) for each in stacks)
            return count == len(threads) or bool(made)

        def make(*args: Any) -> Any:
            wait_until(are_in_start, "all threads in start_async()")
            made.append(ClientSession(*args))
            return made[-1]

        with mock.patch.object(client_module, "Session", make):
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(DEADLINE_S)
        self.assertEqual(made, [client._session])
        wait_until(lambda: server.peers, "an attempt")
        self.end(client, server)
        self.assertEqual(len(server.peers), 1)

    def test_the_map_s_answer_has_another_xid(self) -> None:
        """That ends the connection, not the start: the next server is asked."""

        def wrong(peer: Peer) -> None:
            peer.read()
            peer.send(connect_answer())
            xid, _ = HEADER.unpack_from(peer.read())
            peer.send(data_answer(xid + 7, b""))

        def right(peer: Peer) -> None:
            peer.read()
            peer.send(connect_answer())
            while True:
                frame = peer.read()
                xid, kind = HEADER.unpack_from(frame)
                if kind == GetData.type:
                    peer.send(data_answer(xid, cluster_map if MAP.encode() in frame else identity))
                else:
                    peer.send(reply_to(frame))

        server = Server(wrong, right)
        described = ClusterMap("test", {"a": server.address}, ("a",), "a")
        cluster_map, identity = described.to_json(), json.dumps(described.identity("a")).encode()
        client = ParKazooClient(server.address)
        client.start(DEADLINE_S)
        self.assertEqual(client.cluster_map, described)
        self.end(client, server)
        self.assertEqual(len(server.peers), 2)
