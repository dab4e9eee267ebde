"""A move to another server that fails, or is not wanted any more."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any
from unittest import mock

from kazoo.protocol.states import KeeperState

from parkazoo.kazoo_private import CloseInstance
from parkazoo.wire import move as move_module
from tests.fakes.conversation import connect_answer, data_answer
from tests.live.test_wire_connect import CONNECTED, CONNECTING, HEADER, Peer, good, reply_to, silent
from tests.live.test_wire_move import NOWHERE, SHORT_S, MoveTest, answering_later
from tests.live.world import DEADLINE_S, Seen, wait_until


class TestFailures(MoveTest):
    def test_the_new_server_cannot_be_reached(self) -> None:
        """The connection stays, and the next attempt follows."""
        second = self.serve(good)
        second.refuse()
        with self.connecting(good) as member, mock.patch.object(move_module, "MOST_DELAY_S", 0.01):
            self.wait_for(CONNECTED)
            self.settle(member, second.address)
            self.check(member, self.server)
            third = self.serve(good)
            self.settle(member, third.address)
            self.check(member, third)
            self.assertEqual(self.owner.states, [CONNECTED])

    def test_the_new_server_does_not_accept(self) -> None:
        """It refuses, is silent, is another ensemble's, or does not know the session: the connection goes on."""

        def expired(peer: Peer) -> None:
            peer.read()
            peer.send(connect_answer(0, 0))

        def foreign(peer: Peer) -> None:
            peer.read(2)
            peer.send(connect_answer() + data_answer(0, b"{}") * 3)

        for script in (lambda peer: peer.close(), silent, expired, foreign):
            second = self.serve(script, good)
            limit = mock.patch.object(move_module, "LIMIT_S", SHORT_S)
            with self.subTest(script), limit, self.connecting(good) as member:
                self.wait_for(CONNECTED)
                self.settle(member, second.address)
                wait_until(lambda second=second: len(second.peers) > 1, "the next attempt")
                result = self.read(member)
                self.check(member, second)
                self.assertEqual((len(result.told), self.owner.states), (1, [CONNECTED]))

    def test_a_read_only_server(self) -> None:
        """It takes no writes, and the connection's own server does."""

        def read_only(peer: Peer) -> None:
            peer.read()
            peer.send(connect_answer(is_read_only=True))
            while True:
                peer.send(reply_to(peer.read()))

        second = self.serve(read_only, good)
        with self.connecting(good, read_only=True) as member:
            self.wait_for(CONNECTED)
            self.settle(member, second.address)
            self.check(member, second)
            self.assertEqual((self.owner.states, len(second.peers)), ([CONNECTED], 2))

    def test_others_are_known_meanwhile(self) -> None:
        """The server that has just accepted is none of them: the connection moves on."""
        is_asked, may_answer = threading.Event(), threading.Event()

        def slow(peer: Peer) -> None:
            peer.read()
            is_asked.set()
            may_answer.wait(DEADLINE_S)
            peer.send(connect_answer())
            while True:
                peer.send(reply_to(peer.read()))

        second, third = self.serve(slow), self.serve(good)
        with self.connecting(good) as member:
            self.wait_for(CONNECTED)
            self.settle(member, second.address)
            is_asked.wait(DEADLINE_S)
            self.settle(member, third.address)
            may_answer.set()
            self.check(member, third)
            self.assertEqual(self.owner.states, [CONNECTED])

    def test_others_are_known_while_it_waits(self) -> None:
        """An attempt at another server does not wait for those that have failed."""
        second, third = self.serve(lambda peer: peer.close()), self.serve(good)
        with self.connecting(good) as member:
            self.wait_for(CONNECTED)
            move = member._connection._move

            def fail(*why: str) -> None:
                with mock.patch.object(move_module, "MOST_DELAY_S", 1e6):
                    original(*why)

            original, move._fail = move._fail, fail
            self.settle(member, second.address)
            wait_until(lambda: move._failures, "the attempt has failed")
            self.settle(member, third.address)
            self.check(member, third)

    def test_its_server_ends_meanwhile(self) -> None:
        """What waits fails as what was sent does, and the client hears of it."""
        second, told = self.serve(silent), []
        with self.connecting(good, good, timeout=DEADLINE_S) as member:
            self.wait_for(CONNECTED)
            self.settle(member, second.address)
            wait_until(lambda: second.peers and second.peers[0].frames, "the new server is asked")
            result = self.read(member)
            vars(self.owner)["member_changed"] = lambda each, state: told.append((state, each.has_unanswered))
            self.server.peers[0].close()
            wait_until(lambda: result.told, "the failure")
            self.assertEqual(told[0], (CONNECTING, True))

    def test_the_next_attempt_waits_longer(self) -> None:
        refuse = lambda peer: peer.close()  # noqa: E731 - a script
        second = self.serve(refuse, refuse, refuse, good)
        with (
            self.connecting(good) as member,
            mock.patch.object(move_module, "MOST_DELAY_S", 0.001),
            mock.patch.object(move_module.random, "random", lambda: 1.0),
        ):
            self.wait_for(CONNECTED)
            loop = self.owner.loop
            with mock.patch.object(loop, "call_later", mock.Mock(wraps=loop.call_later)) as later:
                self.settle(member, second.address)
                self.check(member, second)
            delays = [round(each.args[0] * 1000) for each in later.call_args_list if each.args[0] < 0.01]
            self.assertEqual(delays, [1, 2, 4, 8])

    def test_stopped_in_between(self) -> None:
        """The new server closes the session."""
        is_asked, may_answer = threading.Event(), threading.Event()

        def slow(peer: Peer) -> None:
            peer.read()
            is_asked.set()
            may_answer.wait(DEADLINE_S)
            peer.send(connect_answer())
            while True:
                peer.send(reply_to(peer.read()))

        second = self.serve(slow)
        with self.connecting(good) as member:
            self.wait_for(CONNECTED)
            self.settle(member, second.address)
            is_asked.wait(DEADLINE_S)
            self.owner.loop.call(member.begin_stop)
            may_answer.set()
        self.assertEqual(HEADER.unpack_from(second.peers[0].frames[-1])[1], CloseInstance.type)
        self.assertEqual(self.owner.states, [CONNECTED, KeeperState.CLOSED])

    def test_stopped_before(self) -> None:
        """A client that stops stays where it is, with a watch too: the session is closed there."""
        for watch in (None, Seen()):
            is_asked, may_answer = threading.Event(), threading.Event()
            slow, second = answering_later(is_asked, may_answer, 1), self.serve(good)
            with self.subTest(watch=watch), self.connecting(slow) as member:
                self.wait_for(CONNECTED)
                self.read(member, watch)
                self.read(member)
                is_asked.wait(DEADLINE_S)
                self.settle(member, second.address)
                wait_until(lambda second=second: second.peers, "the new server is reached")
                self.owner.loop.call(member.begin_stop)
                wait_until(lambda member=member: member.is_stopping, "it stops")
                may_answer.set()
            self.assertEqual(HEADER.unpack_from(self.server.peers[0].frames[-1])[1], CloseInstance.type)
            self.assertEqual(second.peers[0].frames, [])

    def test_left_in_between(self) -> None:
        """The client stops without a word to the servers."""
        second = self.serve(silent)
        with self.connecting(good, timeout=DEADLINE_S) as member:
            self.wait_for(CONNECTED)
            self.settle(member, second.address)
            wait_until(lambda: second.peers and second.peers[0].frames, "the new server is asked")
            self.owner.loop.call(member.leave)
            wait_until(second.peers[0].has_ended.is_set, "the end of the attempt")

    def test_a_watch_is_left_meanwhile(self) -> None:
        """Its server stays, so the connection does."""
        is_asked, may_answer = threading.Event(), threading.Event()
        slow, second, watch = answering_later(is_asked, may_answer), self.serve(good), Seen()
        there = {("127.0.0.1", second.port): 1.0}
        with (
            mock.patch.object(move_module, "spread", lambda server, old, new: there),
            self.connecting(slow) as member,
        ):
            self.wait_for(CONNECTED)
            first = self.read(member, watch)
            is_asked.wait(DEADLINE_S)
            self.settle(member, self.server.address, second.address)
            wait_until(lambda: second.peers, "the new server is reached")
            may_answer.set()
            wait_until(second.peers[0].has_ended.is_set, "it is not wanted")
            self.check(member, self.server)
            self.assertEqual((len(first.told), self.owner.states, [*watch]), (1, [CONNECTED], []))

    def test_a_program_connects(self) -> None:
        """Only when the connection breaks, with its own function."""
        second, made = self.serve(good), []

        def hook(original: Callable[..., Any]) -> Callable[..., Any]:
            def connect(*address: Any) -> Any:
                made.append(address[2])
                return original(*address)

            return connect

        with self.connecting(good, hosts=NOWHERE, hook=hook) as member:
            self.settle(member, NOWHERE, spare=self.server.address)
            self.wait_for(CONNECTED)
            self.settle(member, second.address, spare=self.server.address)
            self.check(member, self.server)
            self.server.peers[0].close()
            self.check(member, second)
            self.assertEqual(made[-1], second.port)

    def test_by_another_name(self) -> None:
        """The client began with a name that the ensemble does not use."""
        first, second = self.serve(good), self.serve(good)
        with self.connecting(hosts=f"localhost:{first.port}") as member:
            self.wait_for(CONNECTED)

            def learn() -> None:
                member.hosts = [("127.0.0.1", first.port)]
                member._connection.take_hosts([])

            self.owner.loop.call(learn)
            self.settle(member, second.address)
            self.check(member, second)
            self.assertEqual(self.owner.states, [CONNECTED])

    def test_lost_before_its_turn(self) -> None:
        """The next connection is to the new server anyway."""
        second = self.serve(good)
        with self.connecting(good) as member, mock.patch.object(move_module, "MOST_DELAY_S", 1e6):
            self.wait_for(CONNECTED)
            self.settle(member, second.address)
            self.server.peers[0].close()
            self.wait_for(CONNECTED, CONNECTING, CONNECTED)
            self.check(member, second)
