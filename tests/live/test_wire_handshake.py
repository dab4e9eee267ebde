"""What a member asks before its first request: whose server is it, by which map, and is the session registered?"""

from __future__ import annotations

import math
import threading
import unittest
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from struct import Struct
from typing import Any

from kazoo.exceptions import BadVersionError, NoAuthError, NodeExistsError
from kazoo.protocol.states import KeeperState, ZnodeStat

from parkazoo.engine.ports import OtherSession
from parkazoo.errors import ClusterMapError
from parkazoo.kazoo_private import PING_XID, CloseInstance, Create, Delete, GetData, SetData
from parkazoo.protocol.placement import ENSEMBLE, MAP
from parkazoo.wire.own_read import CONFIG
from tests.fakes.conversation import PASSWORD, SESSION, STAT, answer, connect_answer, data_answer, framed
from tests.fakes.result import Result
from tests.live.test_wire_connect import (
    CONNECT,
    CONNECTED,
    CONNECTING,
    HANDSHAKE_ANSWERS,
    HEADER,
    ConnectTest,
    Peer,
    good,
    good_end,
    register,
    reply_to,
)
from tests.live.test_wire_link import Line
from tests.live.world import DEADLINE_S, wait_until

OTHER_SESSION = 0x07E12
SEEN, LOWER = 100, 50  # zxids
STATS = Struct("!qqqqiiiqiiq")


def asked(peer: Peer) -> list[Any]:
    """The requests behind Connect, without pings: their types, and the paths of reads."""
    found: list[Any] = []
    for frame in peer.frames[1:]:
        xid, kind = HEADER.unpack_from(frame)
        if xid != PING_XID:
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

    def test_another_client_s_session_that_is_not_ready(self) -> None:
        """As a new session, which begins again: each attempt registers it, and asks whether it is ready."""
        troubles = iter([OtherSession("older requests"), OtherSession("older requests")])
        owner = {"unready": lambda member: next(troubles, None)}
        with self.connecting(good, good, good, client_id=(SESSION, PASSWORD), owner=owner):
            self.wait_for(CONNECTED)
            self.assertEqual([peer.session for peer in self.server.peers], [SESSION] * 3)
            for peer in self.server.peers:
                self.assertEqual(asked(peer), [ENSEMBLE, Create.type, MAP, CONFIG])

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

    def test_a_session_that_is_given_up_while_servers_are_behind(self) -> None:
        """They take no client that has seen a higher zxid: to end a session and begin another, none is needed."""

        def behind(peer: Peer) -> None:
            peer.read()
            if CONNECT.unpack_from(peer.frames[0])[1]:
                peer.close()
                return
            peer.send(connect_answer(session=peer.session or OTHER_SESSION))
            while True:
                peer.send(reply_to(peer.read()))

        may_break = threading.Event()
        with self.connecting(breaking(may_break), behind) as member:
            self.wait_for(CONNECTED)
            may_break.set()
            wait_until(lambda: len(self.server.peers) > 2, "attempts in vain")
            self.assertEqual(self.owner.states, [CONNECTED, CONNECTING])
            self.owner.loop.call(lambda: member.renew("a test wants it"))
            self.wait_for(CONNECTED, CONNECTING, CONNECTED)
            self.assertEqual(asked(self.server.peers[-2])[-1], CloseInstance.type)
            self.assertEqual([peer.session for peer in self.server.peers[-2:]], [SESSION, 0])


def stat(version: int, mzxid: int, notices: int = 0) -> bytes:
    """Of the ensemble's identity."""
    return STATS.pack(0, mzxid, 0, 0, version, notices, 0, 0, 1, notices, 1)


def marked(version: int, mzxid: int, *, notices: int = 0) -> bytes:
    """The answer to a read of the ensemble's identity."""
    return answer(0, framed(b"b") + stat(version, mzxid, notices))


def writing(peer: Peer, notices: int) -> None:
    """A server on which each write is a change; the ensemble's version rises if that is asked for.

    :param notices: that it has by the time of the first look at the version.
    """
    peer.read()
    peer.send(connect_answer())
    version, mzxid, zxid = 0, 0, 1
    while True:
        frame = peer.read()
        xid, kind = HEADER.unpack_from(frame)
        if kind == SetData.type:
            zxid += 1
            if ENSEMBLE.encode() in frame:
                version, mzxid = version + 1, zxid
            peer.send(answer(xid, stat(version, mzxid), zxid=zxid))
        elif zxid > 1:
            peer.send(answer(xid, framed(b"b") + stat(version, mzxid, notices), zxid=zxid))
        else:
            peer.send(reply_to(frame))


class TestWentBack(ConnectTest):
    """Version 7 of the ensemble's identity is seen; then the connection breaks."""

    def first(self, peer: Peer) -> None:
        peer.read(2)
        peer.send(connect_answer() + marked(7, 70))
        register(peer)
        self.may_break.wait(DEADLINE_S)
        peer.close()

    def setUp(self) -> None:
        super().setUp()
        self.may_break = threading.Event()

    def again(self, *answers: bytes) -> Any:
        """A server that answers to what is asked first, and then, frame by frame, to the rest."""
        first, *more = answers

        def script(peer: Peer) -> None:
            peer.read(4)
            peer.send(connect_answer() + first + data_answer(0, b"map") + data_answer(0, b"config"))
            for each in more:
                peer.read(2)
                peer.send(each)
            good_end(peer)

        return script

    def connects_again(self, *answers: bytes) -> tuple[list[Any], int]:
        """What is asked at the second connection, and how often the owner hears that the ensemble went back."""
        with self.connecting(self.first, self.again(*answers)):
            self.wait_for(CONNECTED)
            self.may_break.set()
            self.wait_for(CONNECTED, CONNECTING, CONNECTED)
            return asked(self.server.peers[1]), len(self.owner.gone_back)

    def test_it_goes_on(self) -> None:
        self.assertEqual(self.connects_again(marked(8, 80)), ([ENSEMBLE, MAP, CONFIG], 0))

    def test_a_server_that_lags(self) -> None:
        """Behind a write that cannot succeed it has caught up."""
        caught_up = answer(0, code=BadVersionError.code) + marked(7, 70)
        questions = [ENSEMBLE, MAP, CONFIG, Delete.type, ENSEMBLE]
        self.assertEqual(self.connects_again(marked(6, 60), caught_up), (questions, 0))

    def test_it_went_back(self) -> None:
        """That is noted there; the note is no news afterwards."""
        still = answer(0, code=BadVersionError.code) + marked(6, 60)
        noted = answer(0, framed(b"/r")) + marked(6, 60, notices=1)
        found, count = self.connects_again(marked(6, 60), still, noted)
        self.assertEqual((found[3:], count), ([Delete.type, ENSEMBLE, ENSEMBLE, ENSEMBLE], 1))
        create = self.server.peers[1].frames[6]
        self.assertEqual(HEADER.unpack_from(create)[1], Create.type)
        self.assertIn(b'{"seen": 7, "found": 6}', create)

    def test_it_may_not_be_noted(self) -> None:
        still = answer(0, code=BadVersionError.code) + marked(6, 60)
        refused = answer(0, code=NoAuthError.code) + marked(6, 60)
        self.assertEqual(self.connects_again(marked(6, 60), still, refused)[1], 1)

    def test_another_client_has_noted_it(self) -> None:
        still = answer(0, code=BadVersionError.code) + marked(9, 95, notices=1)
        found, count = self.connects_again(marked(9, 95, notices=1), still)
        self.assertEqual((found[3:], count), ([Delete.type, ENSEMBLE], 1))

    def test_another_client_has_noted_it_before(self) -> None:
        """One note is enough, although this client could have seen it by itself."""
        still = answer(0, code=BadVersionError.code) + marked(6, 60, notices=1)
        found, count = self.connects_again(marked(6, 60, notices=1), still)
        self.assertEqual((found[3:], count), ([Delete.type, ENSEMBLE], 1))

    def test_a_server_that_does_not_say_it(self) -> None:
        """The next is asked."""
        silent = answer(0, code=-4) + answer(0, code=-4)
        with self.connecting(self.first, self.again(marked(6, 60), silent), self.again(marked(8, 80))):
            self.wait_for(CONNECTED)
            self.may_break.set()
            self.wait_for(CONNECTED, CONNECTING, CONNECTED)
            self.assertEqual(len(self.server.peers), 3)
            self.assertEqual(self.owner.gone_back, [])


class TestRefused(ConnectTest):
    """The client has seen zxid SEEN, and the connection breaks. From then on servers refuse that zxid."""

    def setUp(self) -> None:
        super().setUp()
        self.may_break = threading.Event()
        self.zxid = LOWER  # of the ensemble that the client meets again
        self.marked = framed(b"b") + stat(7, 40)  # of that too
        self.has_quorum = True
        self.refuses = True

    def first(self, peer: Peer) -> None:
        peer.read(2)
        peer.send(connect_answer() + answer(0, framed(b"b") + stat(7, 40), zxid=SEEN))
        register(peer)
        self.may_break.wait(DEADLINE_S)
        peer.close()

    def again(self, peer: Peer) -> None:
        peer.read()
        if not self.has_quorum or (CONNECT.unpack_from(peer.frames[0])[1] and self.refuses):
            peer.close()
            return
        peer.send(connect_answer(session=peer.session or OTHER_SESSION))
        while True:
            frame = peer.read()
            xid, kind = HEADER.unpack_from(frame)
            if kind == Delete.type:
                peer.send(answer(xid, zxid=self.zxid, code=BadVersionError.code))
            elif kind == GetData.type and ENSEMBLE.encode() in frame:
                peer.send(answer(xid, self.marked, zxid=self.zxid))
            else:
                peer.send(reply_to(frame))

    @contextmanager
    def refused(self) -> Iterator[Any]:
        """Attempts in vain, until the session must have expired."""

        def went_back(member: Any) -> None:
            self.owner.gone_back.append(member)
            member.renew("a test wants it")

        with self.connecting(self.first, self.again, owner={"went_back": went_back}) as member:
            self.wait_for(CONNECTED)
            self.may_break.set()
            wait_until(lambda: len(self.begun()) > 2, "attempts in vain")
            self.assertEqual([peer.session for peer in self.begun()[1:3]], [SESSION, SESSION])
            self.owner.loop.call(lambda: setattr(member._connection, "_away_since_s", -math.inf))
            yield member

    def begun(self) -> list[Peer]:
        return [peer for peer in self.server.peers if peer.frames]

    def asked_beside(self) -> list[Any]:
        """The requests of the first session beside the member's."""
        peer = next(each for each in self.begun()[1:] if not each.session)
        self.assertTrue(peer.has_ended.wait(DEADLINE_S))
        return asked(peer)

    def test_the_ensemble_went_back(self) -> None:
        """That is noted there, and the member's session begins anew, without a zxid."""
        with self.assertLogs("parkazoo.test", "WARNING") as logged, self.refused() as member:
            self.wait_for(CONNECTED, CONNECTING, CONNECTED)
            self.assertEqual(self.owner.gone_back, [member])
            questions = [Delete.type, ENSEMBLE, ENSEMBLE, ENSEMBLE, CloseInstance.type]
            self.assertEqual(self.asked_beside(), questions)
            self.assertEqual([peer.session for peer in self.begun()[-3:]], [0, SESSION, 0])
            self.assertIn(b'{"seen": 7, "found": 7}', self.begun()[-3].frames[3])
        told = "its ensemble is at zxid 0x32, and this client has seen 0x64: it was restored from an older copy"
        self.assertTrue(any(told in line for line in logged.output), logged.output)

    def test_another_client_has_noted_it(self) -> None:
        self.marked = framed(b"b") + stat(7, 40, 1)
        with self.refused() as member:
            self.wait_for(CONNECTED, CONNECTING, CONNECTED)
            self.assertEqual(self.owner.gone_back, [member])
            self.assertEqual(self.asked_beside(), [Delete.type, ENSEMBLE, CloseInstance.type])

    def test_an_ensemble_that_was_made_anew(self) -> None:
        """There is nothing to note: all is gone."""
        self.marked = framed(b"b") + STATS.pack(45, 45, 0, 0, 0, 0, 0, 0, 1, 0, 45)
        with self.refused() as member:
            self.wait_for(CONNECTED, CONNECTING, CONNECTED)
            self.assertEqual(self.owner.gone_back, [member])
            self.assertEqual(self.asked_beside(), [Delete.type, ENSEMBLE, CloseInstance.type])

    def test_a_server_that_lagged(self) -> None:
        """By its answer it has caught up. The session goes on."""
        self.zxid = SEEN
        with self.refused() as member:
            self.assertEqual(self.ask_until_known(), [Delete.type, ENSEMBLE, CloseInstance.type])
            self.refuses = False
            self.wait_for(CONNECTED, CONNECTING, CONNECTED)
            self.assertEqual((self.owner.gone_back, member._session_id), ([], SESSION))

    def ask_until_known(self) -> list[Any]:
        """What is asked beside the member's session, as soon as it is."""
        wait_until(lambda: any(not each.session for each in self.begun()[1:]), "a session beside")
        return self.asked_beside()

    def test_without_a_quorum(self) -> None:
        """No session begins beside the member's either."""
        self.has_quorum = False
        with self.refused() as member:
            wait_until(lambda: any(not each.session for each in self.begun()[1:]), "a session beside")
            self.wait_attempts(member, 6, "it may have no quorum, or have lost data that this client has seen")
            self.assertEqual(self.owner.gone_back, [])

    def test_a_server_of_another_ensemble(self) -> None:
        self.marked = framed(b"c") + stat(7, 40)
        with self.refused() as member:
            wait_until(lambda: "another ensemble" in member.describe_troubles(), "the reason")
            self.assertEqual(self.owner.gone_back, [])


class TestRise(ConnectTest):
    """The version of the ensemble's identity, after the member has seen a change."""

    @contextmanager
    def looking(self, *before: Any, notices: int = 0) -> Iterator[Any]:
        """A member that is about to look.

        :param before: servers to which it has been connected before.
        """
        with self.connecting(*before, partial(writing, notices=notices)) as member:
            self.wait_for(CONNECTED, *[CONNECTING, CONNECTED] * len(before))
            result, has_looked = Result(), threading.Event()
            self.owner.loop.call(lambda: member.keep_memory(math.inf))  # there is nothing to look for
            self.owner.loop.call(has_looked.set)
            self.assertTrue(has_looked.wait(DEADLINE_S))  # else it may look behind the change
            member.submit(SetData("/x", b"", -1), result)
            wait_until(lambda: result.told, "the change")
            self.owner.loop.call(lambda: member.keep_memory(math.inf))
            yield member

    def kinds(self) -> list[int]:
        """Of the requests after the handshake, in which a new session registers; without pings."""
        peer = self.server.peers[-1]
        requests = map(HEADER.unpack_from, peer.frames[4 if peer.session else 5 :])
        return [kind for xid, kind in requests if xid != PING_XID]

    def test_it_rises(self) -> None:
        """Its data stays."""
        with self.looking():
            wait_until(lambda: len(self.kinds()) == 3, "the rise")
            self.assertEqual(self.kinds(), [SetData.type, GetData.type, SetData.type])
            (peer,) = self.server.peers
            self.assertTrue(any(ENSEMBLE.encode() + framed(b"b") in frame for frame in peer.frames))

    def test_another_client_has_noted_that_the_ensemble_went_back(self) -> None:
        """When it connected, this one could not see that."""
        may_break = threading.Event()
        may_break.set()
        with self.looking(breaking(may_break), notices=1) as member:
            wait_until(lambda: self.owner.gone_back, "the news")
            self.assertEqual(self.owner.gone_back, [member])
            self.assertEqual(self.kinds(), [SetData.type, GetData.type])

    def test_a_note_about_the_time_before_it_came(self) -> None:
        """A client that began after the restore has lost nothing by it, whenever another one notes that."""
        with self.looking(notices=1):
            wait_until(lambda: len(self.kinds()) == 3, "the rise")
            self.assertEqual(self.owner.gone_back, [])


class TestLook(unittest.TestCase):
    def test_its_own_answer(self) -> None:
        """That others go on is no reason for another look. What an earlier request may have shown is one."""
        for gets, looks in ((1, 1), (2, 2)):
            with self.subTest(gets), Line() as line:
                member = line.member
                member.is_stopping = False
                line.begin()
                member.memory.take(ZnodeStat._make(STATS.unpack(stat(1, 5))))
                member.memory.connected(0.0, 0, 5)
                line.get(gets)
                line.bring(answer(1, framed(b"x") + STAT, zxid=10))
                self.look(line)
                for xid in range(2, gets + 1):
                    line.bring(answer(xid, framed(b"x") + STAT, zxid=11))
                line.bring(answer(gets + 1, framed(b"b") + stat(2, 10), zxid=12))
                self.look(line)
                self.assertEqual(line.xids(), [*range(1, gets + looks + 1)])
                self.assertEqual(line.ends, [])

    def look(self, line: Line) -> None:
        """Look, if it is time for that."""
        line.member.keep_memory(math.inf)
        line.loop.make_calls()
