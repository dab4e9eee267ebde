"""A connection whose ensemble has other servers, which a test plays."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest import mock

from kazoo.protocol.states import KeeperState

from parkazoo.kazoo_private import PING_XID, CloseInstance, GetData
from parkazoo.protocol.cluster_map import parse_hosts
from parkazoo.wire import move as move_module
from tests.fakes.conversation import SESSION, event
from tests.fakes.result import Result
from tests.live.test_wire_connect import (
    CONNECTED,
    CONNECTING,
    HANDSHAKE_ANSWERS,
    HEADER,
    ConnectTest,
    Peer,
    Server,
    good,
    register,
    reply_to,
)
from tests.live.world import DEADLINE_S, Seen, sockets, wait_until

EXPIRED = KeeperState.EXPIRED_SESSION
NOWHERE = "127.0.0.1:1"
MAP, CONFIG = "/parkazoo/map", "/zookeeper/config"
SHORT_S = 0.2  # for a server that does not answer


def answering_later(
    is_asked: threading.Event, may_answer: threading.Event, at_once: int = 0
) -> Callable[[Peer], None]:
    """A server that answers to so many requests at once, and to the next one when it may."""

    def script(peer: Peer) -> None:
        peer.read(2)
        peer.send(HANDSHAKE_ANSWERS)
        register(peer)
        for _ in range(at_once):
            peer.send(reply_to(peer.read()))
        frame = peer.read()
        is_asked.set()
        may_answer.wait(DEADLINE_S)
        peer.send(reply_to(frame))
        while True:
            peer.send(reply_to(peer.read()))

    return script


class MoveTest(ConnectTest):
    def setUp(self) -> None:
        super().setUp()
        for name, value in (("MOST_DELAY_S", 0.0), ("LIMIT_S", DEADLINE_S)):
            patch = mock.patch.object(move_module, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def serve(self, *scripts: Callable[[Peer], None]) -> Server:
        before = sockets()
        server = Server(*scripts)
        self.before |= sockets() - before
        self.addCleanup(server.stop)
        return server

    def settle(self, member: Any, *servers: str, spare: str = "") -> None:
        """The ensemble has these servers from now on."""
        others = parse_hosts(spare) if spare else ()
        self.owner.loop.call(partial(member.settle, "b", ",".join(servers), others, None))

    def read(self, member: Any, watch: Any = None) -> Result:
        result = Result()
        member.submit(GetData("/x", watch), result)
        return result

    def check(self, member: Any, server: Server) -> None:
        """It is connected to that server, with its session."""
        wait_until(lambda: str(member._connection.address) == server.address, "the other server")
        result = self.read(member)
        wait_until(lambda: result.told, "an answer")
        self.assertEqual(result.value[0], b"x")
        self.assertEqual(member.session_id, SESSION)
        self.assertEqual(server.peers[-1].session, 0 if server is self.server else SESSION)

    def kinds(self, server: Server) -> list[int]:
        """Of the requests on its first connection, behind the handshake."""
        return [HEADER.unpack_from(each)[1] for each in self.requests(server)]

    def requests(self, server: Server) -> list[bytes]:
        """Those, without pings."""
        return [each for each in server.peers[0].frames[5:] if HEADER.unpack_from(each)[0] != PING_XID]


class TestMove(MoveTest):
    def test_its_server_leaves(self) -> None:
        """No state changes, and the session goes along."""
        second = self.serve(good)
        with self.connecting(good) as member:
            self.wait_for(CONNECTED)
            self.settle(member, second.address)
            self.check(member, second)
            self.assertTrue(self.server.peers[0].has_ended.wait(DEADLINE_S))
            self.assertEqual((self.owner.states, self.kinds(self.server)), ([CONNECTED], []))
        self.assertEqual(HEADER.unpack_from(second.peers[-1].frames[-1])[1], CloseInstance.type)

    def test_after_the_last_answer(self) -> None:
        """What comes meanwhile waits for the new server."""
        is_asked, may_answer = threading.Event(), threading.Event()
        slow = answering_later(is_asked, may_answer)
        second = self.serve(good)
        with self.connecting(slow) as member:
            self.wait_for(CONNECTED)
            results = [self.read(member)]
            is_asked.wait(DEADLINE_S)
            self.settle(member, second.address)
            wait_until(lambda: second.peers, "the new server is reached")
            wait_until(lambda: member._connection._link._exchange.state == "DRAINING", "the link takes no more")
            results += [self.read(member), self.read(member)]
            self.assertEqual([each.told for each in results], [[], [], []])
            may_answer.set()
            self.check(member, second)
            self.assertEqual([len(each.told) for each in results], [1, 1, 1])
            self.assertEqual((self.owner.states, self.kinds(self.server)), ([CONNECTED], [GetData.type]))

    def test_no_last_answer(self) -> None:
        """The server is slow: the connection stays, and carries requests again."""
        is_asked, may_answer = threading.Event(), threading.Event()

        def slow(peer: Peer) -> None:
            peer.read(2)
            peer.send(HANDSHAKE_ANSWERS)
            register(peer)
            first = peer.read()
            is_asked.set()
            second = peer.read()
            peer.send(reply_to(first) + reply_to(second))
            while True:
                peer.send(reply_to(peer.read()))

        second = self.serve(good)
        with mock.patch.object(move_module, "LIMIT_S", SHORT_S), self.connecting(slow) as member:
            self.wait_for(CONNECTED)
            first = self.read(member)
            is_asked.wait(DEADLINE_S)
            self.settle(member, second.address)
            wait_until(lambda: second.peers and second.peers[0].has_ended.is_set(), "it gives up")
            may_answer.set()
            waiting = self.read(member)
            wait_until(lambda: first.told and waiting.told, "answers")
            self.check(member, second)
            self.assertEqual(self.owner.states, [CONNECTED])

    def test_with_a_watch(self) -> None:
        """Watches do not move: the connection breaks, as if the server had closed it."""
        second, watch = self.serve(good), Seen()
        with self.connecting(good) as member:
            self.wait_for(CONNECTED)
            read = self.read(member, watch)
            wait_until(lambda: read.told, "the watch is left")
            self.settle(member, second.address)
            self.wait_for(CONNECTED, CONNECTING, CONNECTED)
            self.check(member, second)
            self.assertEqual([each.type for each in watch.wait()], ["NONE"])

    def test_a_watch_and_a_server_that_stays(self) -> None:
        """Nothing is to be gained."""
        second = self.serve(good)
        with self.connecting(good) as member, mock.patch.object(move_module, "spread") as spread:
            self.wait_for(CONNECTED)
            read = self.read(member, Seen())
            wait_until(lambda: read.told, "the watch is left")
            self.settle(member, self.server.address, second.address)
            self.check(member, self.server)
            self.assertFalse(spread.called)

    def test_evenly(self) -> None:
        """By chance, as `spread` says."""
        second = self.serve(good)
        with self.connecting(good) as member:
            self.wait_for(CONNECTED)
            there = {("127.0.0.1", second.port): 1.0}
            with mock.patch.object(move_module, "spread", lambda server, old, new: there):
                self.settle(member, self.server.address, second.address)
                self.check(member, second)
            self.assertEqual(self.owner.states, [CONNECTED])

    def test_from_a_spare_server(self) -> None:
        """It was the only one that could be reached: it may have left the ensemble."""
        second = self.serve(good)
        with (
            self.connecting(good, hosts=NOWHERE) as member,
            mock.patch.object(move_module, "MOST_DELAY_S", 0.01),
        ):
            self.settle(member, NOWHERE, spare=self.server.address)
            self.wait_for(CONNECTED)
            self.settle(member, second.address, spare=self.server.address)
            self.check(member, second)
            self.assertEqual(self.owner.states, [CONNECTED])

    def test_not_at_random(self) -> None:
        second = self.serve(good)
        with self.connecting(good, randomize_hosts=False) as member:
            self.wait_for(CONNECTED)
            self.settle(member, second.address, self.server.address)
            self.check(member, self.server)
            self.settle(member, second.address)
            self.check(member, second)
            self.assertEqual(self.owner.states, [CONNECTED])


class TestOwnWatches(MoveTest):
    def test_they_are_the_members(self) -> None:
        """It reads again what has changed, with a watch that no table has. The user's on that path is called."""
        watch = Seen()
        with self.connecting(good) as member:
            self.wait_for(CONNECTED)
            self.assertEqual((len(self.owner.copies), len(self.owner.configs)), (1, 1))
            self.assertEqual((member.has_watches, member.has_unanswered), (False, False))
            read = Result()
            member.submit(GetData(CONFIG, watch), read)
            wait_until(lambda: read.told, "the watch is left")
            peer = self.server.peers[0]
            peer.send(event(3, MAP) + event(3, CONFIG) + event(3, "/other"))
            wait_until(lambda: len(self.owner.copies) == len(self.owner.configs) == 2, "both are read")
            self.assertEqual([each.path for each in watch.wait()], [CONFIG])
            self.assertFalse(member.has_watches)
            wait_until(lambda: len(self.kinds(self.server)) == 3, "three reads")
            self.assertEqual([each[-1:] for each in self.requests(self.server)[1:]], [b"\1"] * 2)

    def test_in_the_handshake(self) -> None:
        """What has changed by then is read again."""

        def script(peer: Peer) -> None:
            peer.read(2)
            peer.send(HANDSHAKE_ANSWERS + event(3, MAP))
            register(peer)
            while True:
                peer.send(reply_to(peer.read()))

        with self.connecting(script) as member:
            self.wait_for(CONNECTED)
            wait_until(lambda: len(self.owner.copies) == 2, "the map is read again")
            self.assertFalse(member.has_watches)
