"""What a member asks before its first request: whose server is it, by which map, and is the session registered?"""

from __future__ import annotations

import threading
from typing import Any

from kazoo.exceptions import NoAuthError, NodeExistsError
from kazoo.protocol.states import KeeperState

from parkazoo.engine.ports import OtherSession
from parkazoo.errors import ClusterMapError
from parkazoo.kazoo_private import CloseInstance, Create, SetData
from parkazoo.protocol.placement import ENSEMBLE, MAP
from parkazoo.wire.own_read import CONFIG
from tests.fakes.conversation import PASSWORD, SESSION, STAT, answer, connect_answer, data_answer
from tests.live.test_wire_connect import (
    CONNECTED,
    CONNECTING,
    HANDSHAKE_ANSWERS,
    HEADER,
    ConnectTest,
    Peer,
    good,
    good_end,
    register,
)
from tests.live.world import DEADLINE_S, wait_until

OTHER_SESSION = 0x07E12


def asked(peer: Peer) -> list[Any]:
    """The requests behind Connect: their types, and the paths of reads."""
    found: list[Any] = []
    for frame in peer.frames[1:]:
        _, kind = HEADER.unpack_from(frame)
        found.append(next((path for path in (MAP, ENSEMBLE, CONFIG) if path.encode() in frame), kind))
    return found


def breaking(may_break: threading.Event) -> Any:
    """A server that takes the session, and closes the connection when it may."""

    def script(peer: Peer) -> None:
        peer.read(2)
        peer.send(HANDSHAKE_ANSWERS)
        register(peer)
        may_break.wait(DEADLINE_S)
        peer.close()

    return script


def other(peer: Peer) -> None:
    """A server that gives the other session."""
    peer.read(2)
    peer.send(connect_answer(session=OTHER_SESSION) + data_answer(0, b"b"))
    register(peer)
    good_end(peer)


class TestQuestions(ConnectTest):
    def test_a_new_session(self) -> None:
        """It registers; behind that it reads the copy, and which servers the ensemble has."""
        with self.connecting(good):
            self.wait_for(CONNECTED)
            self.assertEqual(asked(self.server.peers[0]), [ENSEMBLE, Create.type, MAP, CONFIG])
            self.assertEqual([data for data, _ in self.owner.copies], [b"x"])

    def test_without_a_map(self) -> None:
        """It is asked for at once, with the identity."""
        copies: list[Any] = []

        def recognize(member: Any, record: Any, copy: Any, server: str) -> None:
            copies.append((record[0], copy[0], server))
            self.owner.has_map = True

        with self.connecting(good, owner={"has_map": False, "recognize": recognize}):
            self.wait_for(CONNECTED)
            self.assertEqual(asked(self.server.peers[0]), [ENSEMBLE, MAP, Create.type, MAP, CONFIG])
            self.assertEqual(copies, [(b"b", b"x", self.server.address)])

    def test_a_session_that_has_registered(self) -> None:
        """All is read in one flight."""
        may_break = threading.Event()
        with self.connecting(breaking(may_break), good):
            self.wait_for(CONNECTED)
            may_break.set()
            self.wait_for(CONNECTED, CONNECTING, CONNECTED)
            self.assertEqual(asked(self.server.peers[1]), [ENSEMBLE, MAP, CONFIG])
            self.assertEqual(self.server.peers[1].session, SESSION)

    def test_another_client_s_session(self) -> None:
        """Its registration is there: it is set."""

        def script(peer: Peer) -> None:
            peer.read(2)
            peer.send(HANDSHAKE_ANSWERS)
            peer.read(3)
            peer.send(answer(0, code=NodeExistsError.code) + data_answer(0, b"old") + data_answer(0, b""))
            peer.read(3)
            peer.send(answer(0, STAT) + data_answer(0, b"map") + data_answer(0, b""))
            good_end(peer)

        with self.connecting(script, client_id=(SESSION, PASSWORD)) as member:
            self.wait_for(CONNECTED)
            expected = [ENSEMBLE, Create.type, MAP, CONFIG, SetData.type, MAP, CONFIG]
            self.assertEqual(asked(self.server.peers[0]), expected)
            self.assertEqual([data for data, _ in self.owner.copies], [b"map"])
            self.assertTrue(member.has_ephemerals)

    def test_it_may_not_register(self) -> None:
        """The log says so; the next connection tries again."""
        may_break = threading.Event()

        def script(peer: Peer) -> None:
            peer.read(2)
            peer.send(HANDSHAKE_ANSWERS)
            peer.read(3)
            peer.send(answer(0, code=NoAuthError.code) + data_answer(0, b"map") + data_answer(0, b""))
            may_break.wait(DEADLINE_S)
            peer.close()

        with self.assertLogs("parkazoo.test", "WARNING") as logged, self.connecting(script, good):
            self.wait_for(CONNECTED)
            may_break.set()
            self.wait_for(CONNECTED, CONNECTING, CONNECTED)
            self.assertEqual(asked(self.server.peers[1]), [ENSEMBLE, Create.type, MAP, CONFIG])
        self.assertIn("the session is not registered", logged.output[0])

    def test_a_copy_that_does_not_fit(self) -> None:
        """Behind the registration: the session that has just begun is closed, and nothing else is sent there."""
        errors = iter([ClusterMapError("a map of another cluster")])

        def take_copy(*_: Any) -> Exception | None:
            return next(errors, None)

        with self.connecting(good, owner={"take_copy": take_copy}):
            self.wait_for(CONNECTED)
            first = self.server.peers[0]
            self.assertTrue(first.has_ended.wait(DEADLINE_S))
            self.assertEqual(asked(first), [ENSEMBLE, Create.type, MAP, CONFIG, CloseInstance.type])

    def test_another_session_goes_on(self) -> None:
        """The first is closed; the next attempt, without a pause, resumes the other."""

        def recognize(member: Any, *_: Any) -> Exception | None:
            if member._session_id:
                return None
            member.resume((OTHER_SESSION, PASSWORD))
            return OtherSession("it goes on")

        with self.connecting(good, other, owner={"recognize": recognize}) as member:
            self.wait_for(CONNECTED)
            self.assertEqual([peer.session for peer in self.server.peers], [0, OTHER_SESSION])
            first = self.server.peers[0]
            self.assertTrue(first.has_ended.wait(DEADLINE_S))
            self.assertEqual(asked(first), [ENSEMBLE, CloseInstance.type])
            self.assertEqual((member._session_id, member.has_ephemerals), (OTHER_SESSION, True))
            self.assertEqual(member.troubles, {})


class TestExpired(ConnectTest):
    def test_it_is_no_loss(self) -> None:
        """The owner has lost nothing by it: the member begins another session, and registers that."""
        may_break = threading.Event()

        def expired(peer: Peer) -> None:
            peer.read(3)
            peer.send(connect_answer(0, 0))

        with self.connecting(breaking(may_break), expired, other) as member:
            self.owner.is_lost = False
            self.wait_for(CONNECTED)
            may_break.set()
            self.wait_for(CONNECTED, CONNECTING, CONNECTED)
            self.assertEqual([peer.session for peer in self.server.peers], [0, SESSION, 0])
            self.assertEqual(member._session_id, OTHER_SESSION)
            self.assertEqual(asked(self.server.peers[2]), [ENSEMBLE, Create.type, MAP, CONFIG])
        self.assertEqual(self.owner.states, [CONNECTED, CONNECTING, CONNECTED, KeeperState.CLOSED])

    def test_a_session_that_is_given_up(self) -> None:
        """It is closed on its server before another begins, which registers. The owner hears of the new one."""

        def old(peer: Peer) -> None:
            peer.read(2)
            peer.send(HANDSHAKE_ANSWERS)
            register(peer)
            good_end(peer)

        with self.connecting(old, other) as member:
            self.wait_for(CONNECTED)
            self.owner.loop.call(lambda: member.renew("a test wants it"))
            wait_until(lambda: len(self.owner.states) > 1, "the new session")
            self.assertEqual(self.owner.states, [CONNECTED, CONNECTED])
            self.assertEqual(asked(self.server.peers[0])[-1], CloseInstance.type)
            self.assertEqual([peer.session for peer in self.server.peers], [0, 0])
            self.assertEqual(asked(self.server.peers[1]), [ENSEMBLE, Create.type, MAP, CONFIG])
