"""Which server is tried when: by a clock that the test turns."""

from __future__ import annotations

import select
import threading
import unittest
from collections.abc import Callable
from typing import Any
from unittest import mock

from kazoo.protocol.states import KeeperState
from kazoo.retry import KazooRetry

from parkazoo.wire import link as link_module
from parkazoo.wire import race as race_module
from parkazoo.wire import rounds as rounds_module
from parkazoo.wire.handshake import Address
from parkazoo.wire.loop import READ, WRITE
from parkazoo.wire.race import PATIENCE_GROWTH, PATIENCE_S, STAGGER_S
from parkazoo.wire.rounds import FAILED_S, MOST_DELAY_S, Rounds
from tests.fakes.conversation import PASSWORD, SESSION, connect_answer
from tests.fakes.loop import Clock, HandLoop
from tests.fakes.owner import Owner, make_member
from tests.live.test_wire_connect import (
    CONNECTED,
    CONNECTING,
    HANDSHAKE_ANSWERS,
    Peer,
    Server,
    good,
    good_end,
    register,
    silent,
)
from tests.live.test_wire_race import AttemptsTest
from tests.live.world import DEADLINE_S, sockets, wait_until

EXPIRED = KeeperState.EXPIRED_SESSION
TIMED = (race_module, rounds_module, link_module)


def numbered(number: int) -> Address:
    return Address(f"127.0.0.{number}", f"127.0.0.{number}", 1)


class ByHand:
    """A member on a loop that the test drives. Time stands still unless the test turns the clock."""

    def __init__(self, *hosts: str, **options: Any) -> None:
        self.clock = Clock()
        self.loop = HandLoop(self.clock)
        self.owner = Owner(self.loop)
        self.member = make_member(self.owner, ",".join(hosts), randomize_hosts=False, **options)
        self.connection = self.member._connection

    def __enter__(self) -> ByHand:
        self._patches = [mock.patch.object(each, "time", self.clock) for each in TIMED]
        for patch in self._patches:
            patch.start()
        self.member.begin()
        self.loop.make_calls()
        return self

    def __exit__(self, *_: object) -> None:
        self.member.begin_stop()
        self.loop.make_calls()
        for patch in self._patches:
            patch.stop()

    @property
    def tried(self) -> list[str]:
        """The servers that are being tried."""
        return [str(each.address) for each in self.connection._race._all]

    def turn(self, *but: str) -> None:
        """Have the loop look at the sockets, but not at those of these servers."""
        trying = self.connection._race._all
        skipped = [each.attempt.sock for each in trying if each.attempt and str(each.address) in but]
        for sock, call in list(self.loop.watched.items()):
            if sock not in skipped and self.loop.watched.get(sock) is call:
                readable, writable, _ = select.select([sock], [sock], [], 0)
                if readable or writable:
                    call((READ if readable else 0) | (WRITE if writable else 0))
        self.loop.make_calls()

    def turn_until(self, condition: Callable[[], Any], what: str, *but: str) -> None:
        def turned() -> Any:
            self.turn(*but)
            return condition()

        wait_until(turned, what)

    def wait_asked(self, server: Server, count: int = 1, *but: str) -> None:
        """Wait until the server has got so many Connects."""

        def are_asked() -> bool:
            return sum(bool(peer.frames) for peer in list(server.peers)) >= count

        self.turn_until(are_asked, f"{count} Connects", *but)


class TestInTime(AttemptsTest):
    """What happens when, by a clock that the test turns."""

    def test_servers_that_cannot_be_reached(self) -> None:
        """The next one is tried 250 ms later, beside the others. The first that accepts ends their attempts."""
        first, second, server = self.swallowing(), self.swallowing(), self.serve(good)
        with ByHand(first, second, server.address) as by_hand:
            for tried in ([first], [first, second], [first, second, server.address]):
                began_s = by_hand.clock.now_s
                self.assertEqual(by_hand.tried, tried)
                by_hand.loop.go_to(began_s + STAGGER_S - 0.01)
                self.assertEqual(by_hand.tried, tried)
                by_hand.loop.go_to(began_s + STAGGER_S)
            by_hand.turn_until(lambda: by_hand.owner.states == [CONNECTED], "connected")
            self.assertEqual(by_hand.tried, [])
            self.end(by_hand)

    def test_busy_servers(self) -> None:
        """Each is given four times as long as the one before: not all are asked in vain again and again."""
        servers = [self.serve(silent) for _ in range(3)]
        times: list[float] = []
        with ByHand(*(each.address for each in servers)) as by_hand:
            began_s = by_hand.clock.now_s
            for server in servers:
                by_hand.wait_asked(server)
                asked_s = by_hand.clock.now_s
                times.append(asked_s - began_s)
                patient_until_s = asked_s + PATIENCE_S * PATIENCE_GROWTH ** (len(times) - 1)
                by_hand.loop.go_to(patient_until_s - 0.01)
                self.assertEqual(by_hand.tried, [server.address])
                by_hand.loop.go_to(patient_until_s)
        self.assertEqual(times, [0.0, PATIENCE_S, PATIENCE_S * (1 + PATIENCE_GROWTH)])
        self.assertEqual([len(each.peers) for each in servers], [1, 1, 1])

    def test_the_last_one_is_silent_too(self) -> None:
        """After a pause the first is asked again, and the last one's connection is closed, not before."""
        servers = [self.serve(silent), self.serve(silent)]
        with ByHand(*(each.address for each in servers)) as by_hand:
            by_hand.wait_asked(servers[0])
            by_hand.loop.go_to(by_hand.clock.now_s + PATIENCE_S)
            by_hand.wait_asked(servers[1])
            self.assertTrue(servers[0].peers[0].has_ended.wait(DEADLINE_S))
            by_hand.loop.go_to(by_hand.clock.now_s + PATIENCE_S * PATIENCE_GROWTH)
            self.assertTrue(by_hand.connection._rounds.is_waiting)
            self.assertEqual(by_hand.tried, [servers[1].address])
            by_hand.loop.go_to(by_hand.clock.now_s + MOST_DELAY_S)
            by_hand.wait_asked(servers[0], 2)
            self.assertTrue(servers[1].peers[0].has_ended.wait(DEADLINE_S))

    def test_an_answer_that_has_come(self) -> None:
        """The process did not run: before a server is given up, the client looks whether it has answered."""
        may_answer, has_answered = threading.Event(), threading.Event()

        def script(peer: Peer) -> None:
            peer.read(2)
            may_answer.wait(DEADLINE_S)
            peer.send(HANDSHAKE_ANSWERS)
            has_answered.set()
            register(peer)
            good_end(peer)

        first, second = self.serve(script), self.serve(good)
        with ByHand(first.address, second.address) as by_hand:
            by_hand.wait_asked(first)
            may_answer.set()
            self.assertTrue(has_answered.wait(DEADLINE_S))
            by_hand.loop.stall_until(by_hand.clock.now_s + 2 * PATIENCE_S)
            by_hand.turn_until(lambda: by_hand.owner.states == [CONNECTED], "connected")
            self.assertEqual([peer.frames for peer in second.peers if peer.frames], [])
            self.assertEqual(len(first.peers), 1)
            self.end(by_hand)

    def test_a_server_that_is_reached_late(self) -> None:
        """It waits for its turn. The client stops just then, or the one that was asked closes: its turn comes."""
        may_close = threading.Event()

        def script(peer: Peer) -> None:
            peer.read(2)
            may_close.wait(DEADLINE_S)
            peer.close()

        for stops in (True, False):
            may_close.clear()
            late, prompt = self.serve(good), self.serve(script)
            with self.subTest(stops=stops), ByHand(late.address, prompt.address) as by_hand:
                race = by_hand.connection._race
                by_hand.loop.go_to(by_hand.clock.now_s + STAGGER_S)
                by_hand.wait_asked(prompt, 1, late.address)
                by_hand.turn_until(lambda race=race: race._reached, "the other is reached")
                self.assertEqual(len(race.sockets()), 2)
                if stops:
                    continue
                may_close.set()
                by_hand.turn_until(lambda: by_hand.owner.states == [CONNECTED], "connected")
                self.end(by_hand)
            wait_until(lambda: sockets() <= self.before, "no socket is left")

    def test_the_session_has_expired(self) -> None:
        """A server says so while another waits for its turn: one new session begins. It may be no loss."""

        def script(peer: Peer) -> None:
            peer.read(2)
            peer.send(connect_answer(0, 0))

        for states in ([EXPIRED, CONNECTING, CONNECTED], [CONNECTED]):
            late, prompt = self.serve(good), self.serve(script, good)
            hosts = late.address, prompt.address
            with self.subTest(states=states), ByHand(*hosts, client_id=(SESSION, PASSWORD)) as by_hand:
                by_hand.owner.is_lost = EXPIRED in states
                by_hand.loop.go_to(by_hand.clock.now_s + STAGGER_S)
                by_hand.wait_asked(prompt, 1, late.address)
                owner = by_hand.owner
                by_hand.turn_until(lambda owner=owner, states=states: owner.states == states, "connected")
                self.assertFalse(by_hand.member.has_ephemerals)
                asked = [peer.session for server in (late, prompt) for peer in server.peers if peer.frames]
                self.assertEqual(sorted(asked), [0, SESSION])
                self.end(by_hand)

    def test_other_servers(self) -> None:
        """The next attempt, when it is due, is at one of them."""
        left, untried, server = self.swallowing(), self.swallowing(), self.serve(good)
        with ByHand(left, untried) as by_hand:
            began_s = by_hand.clock.now_s
            by_hand.member.hosts = [("127.0.0.1", server.port)]
            by_hand.connection._rounds.take_hosts()
            self.assertEqual(by_hand.tried, [left])
            by_hand.loop.go_to(began_s + STAGGER_S)
            self.assertEqual(by_hand.tried, [left, server.address])
            by_hand.turn_until(lambda: by_hand.owner.states == [CONNECTED], "connected")
            self.end(by_hand)

    def end(self, by_hand: ByHand) -> None:
        """Close the session."""
        by_hand.member.begin_stop()
        by_hand.turn_until(lambda: by_hand.owner.ended, "the end")


class TestRounds(unittest.TestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        patch = mock.patch.object(rounds_module, "time", self.clock)
        patch.start()
        self.addCleanup(patch.stop)
        hosts = ",".join(f"127.0.0.{number}:1" for number in range(1, 4))
        self.member = make_member(Owner(HandLoop(self.clock)), hosts, randomize_hosts=False)
        self.ready = 0
        self.rounds = Rounds(self.member, self.member.runtime.loop, KazooRetry(max_tries=-1), self.is_ready)

    def is_ready(self) -> None:
        self.ready += 1

    def round(self) -> list[int]:
        """The servers' numbers, in the order in which they are tried."""
        self.rounds.begin()
        return self.rest()

    def rest(self) -> list[int]:
        """Those that the round has not tried yet."""
        numbers = []
        while (address := self.rounds.next_server(())) is not None:
            numbers.append(int(address.ip[-1]))
        return numbers

    def take(self, *numbers: int) -> None:
        """The member has other servers."""
        self.member.hosts = [(f"127.0.0.{number}", 1) for number in numbers]
        self.rounds.take_hosts()

    def failed(self, *numbers: int) -> None:
        for number in numbers:
            self.rounds.failed(numbered(number))

    def test_one_that_has_failed_comes_last(self) -> None:
        """For a while, or until it accepts again."""
        self.failed(1)
        self.assertEqual(self.round(), [2, 3, 1])
        self.clock.now_s += FAILED_S
        self.assertEqual(self.round(), [1, 2, 3])
        self.failed(1, 2)
        self.rounds.succeeded(numbered(1))
        self.assertEqual(self.round(), [1, 3, 2])

    def test_spare_servers_come_last(self) -> None:
        """Even after one that has failed."""
        self.member.spare_hosts = [("127.0.0.2", 1)]
        self.take(1, 3)
        self.failed(1)
        self.assertEqual(self.round(), [3, 1, 2])

    def test_spare_servers_wait(self) -> None:
        """A host that is still being tried may only be slow. The round is not over before it has failed."""
        self.member.spare_hosts = [("127.0.0.2", 1)]
        self.take(1, 3)
        self.rounds.begin()
        self.assertEqual(self.rounds.next_server([]), numbered(1))
        self.assertEqual(self.rounds.next_server([numbered(1)]), numbered(3))
        for busy in ([numbered(1), numbered(3)], [numbered(3)]):
            self.assertIsNone(self.rounds.next_server(busy))
            self.assertFalse(self.rounds.is_over(busy))
        self.assertEqual(self.rounds.next_server([]), numbered(2))
        self.assertTrue(self.rounds.is_over([]))

    def test_all_have_failed(self) -> None:
        self.failed(1, 2, 3)
        self.assertEqual(self.round(), [1, 2, 3])

    def test_those_that_are_being_tried(self) -> None:
        """They are not tried twice at a time; the next round waits until it has another server to try."""
        self.rounds.begin()
        addresses = [*self.rounds._known]
        self.assertEqual(self.rounds.next_server(addresses[:2]), addresses[2])
        self.assertIsNone(self.rounds.next_server(()))
        self.assertTrue(self.rounds.is_over(addresses[:2]))
        self.assertFalse(self.rounds.is_over(addresses))

    def test_other_servers(self) -> None:
        """Those that have left are not tried in this round either. The new ones are, without a pause, once."""
        self.rounds.begin()
        self.rounds.next_server(())
        self.take(3, 4)
        self.assertEqual((self.ready, self.rest()), (1, []))
        self.assertTrue(self.rounds.is_over(()))
        self.assertTrue(self.rounds.begin_later())
        self.assertEqual((self.ready, self.rest()), (2, [3, 4]))
        self.assertTrue(self.rounds.begin_later())
        self.assertTrue(self.rounds.is_waiting)

    def test_other_servers_after_the_last_round(self) -> None:
        """What `connection_retry` allows has been used up for the earlier ones."""
        retry = KazooRetry(max_tries=1)
        self.rounds = Rounds(self.member, self.member.runtime.loop, retry, self.is_ready)
        self.assertEqual(self.round(), [1, 2, 3])
        self.assertFalse(self.rounds.begin_later())
        self.take(4)
        self.assertTrue(self.rounds.begin_later())
        self.assertEqual(self.rest(), [4])
        self.assertFalse(self.rounds.begin_later())

    def test_other_servers_in_a_pause(self) -> None:
        self.round()
        self.rounds.begin_later()
        pause = self.rounds._pause
        self.take(4)
        self.assertFalse(self.rounds.is_waiting)
        self.assertEqual((self.ready, self.rest()), (2, [4]))
        assert pause is not None
        self.assertIsNone(pause[2], "it has been cancelled")

    def test_other_servers_while_names_are_looked_up(self) -> None:
        """What is found out about the earlier ones does not count, in the middle of a round either."""
        with mock.patch.object(rounds_module, "LookUp") as look_up:
            self.rounds.begin()
            self.take(4)
            self.assertTrue(self.rounds.is_waiting)
            self.rounds.cancel()
            self.rounds.look_again()
            self.take(5)
            self.rounds.begin()
            *earlier, (_, hosts, end) = [each.args for each in look_up.call_args_list]
        self.assertEqual(len(earlier), 3)
        self.assertEqual(hosts, self.member.hosts)
        for _, ((host, port), *_), end_earlier in earlier:
            end_earlier([Address(host, host, port)], {})
        self.assertEqual((self.ready, self.rest()), (0, []))
        end([Address("127.0.0.5", "127.0.0.5", 1)], {})
        for _, ((host, port), *_), end_earlier in earlier:
            end_earlier([Address(host, host, port)], {})
        self.assertEqual((self.ready, self.rest()), (1, [5]))
