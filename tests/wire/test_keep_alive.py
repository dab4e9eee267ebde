"""When to ping, and when a server is lost: read time-out 6 s, session time-out 9 s."""

from __future__ import annotations

import unittest
from collections import deque
from contextlib import nullcontext
from typing import Any
from unittest.mock import Mock

from parkazoo.wire.exchange import XID_MAX
from parkazoo.wire.keep_alive import MOST_JITTER_S, KeepAlive
from parkazoo.wire.proof import Proof


class TestKeepAlive(unittest.TestCase):
    def setUp(self) -> None:
        self.alive = KeepAlive(6.0, 9.0, 100.0, 100.0)

    def lost_at_s(self) -> float:
        """The first tenth of a second at which the server is lost."""
        return next(tenth / 10 for tenth in range(1000, 2000) if self.alive.is_lost(tenth / 10))

    def test_ping(self) -> None:
        """Half the read time-out after the last that was sent, or a bit earlier."""
        self.assertEqual(self.alive.ping_at_s(0.0), 103.0)
        self.assertEqual(self.alive.ping_at_s(0.4), 102.6)
        self.alive.sent(101.0, 10)
        self.assertEqual(self.alive.ping_at_s(0.0), 104.0)
        self.alive.answered(103.0, False)
        self.alive.proved(101.0, 10)
        self.assertEqual(self.alive.ping_at_s(0.0), 104.0)

    def test_jitter(self) -> None:
        """It leaves a quarter of the read time-out, at the least."""
        self.assertEqual(self.alive.most_jitter_s, MOST_JITTER_S)
        self.assertEqual(KeepAlive(0.4, 0.6, 0.0, 0.0).most_jitter_s, 0.1)

    def test_silence(self) -> None:
        """The read time-out after its last answer, if it was asked by then."""
        self.alive.sent(100.5, 10)
        self.assertEqual(self.lost_at_s(), 106.1)
        self.assertEqual(self.alive.look_at_s(0.0), 103.5)
        self.alive.sent(103.0, 10)
        self.assertEqual(self.lost_at_s(), 106.1)
        self.assertEqual(self.alive.look_at_s(0.0), 106.0)
        self.alive.answered(104.0, True)
        self.alive.proved(103.0, 10)
        self.assertEqual(self.lost_at_s(), 110.1)

    def test_nothing_asked(self) -> None:
        """This process did not run. The server is lost before the session can expire."""
        self.assertEqual(self.lost_at_s(), 107.6)
        self.assertEqual(self.alive.look_at_s(0.0), 103.0)

    def test_asked_late(self) -> None:
        """It has half a read time-out to answer, unless the session may expire before."""
        self.alive.sent(104.0, 10)
        self.alive.sent(105.0, 10)
        self.assertEqual(self.lost_at_s(), 107.1)
        self.alive = KeepAlive(6.0, 9.0, 100.0, 100.0)
        self.alive.sent(107.0, 10)
        self.assertEqual(self.lost_at_s(), 107.6)

    def test_answered(self) -> None:
        """Without a waiting request there is no silence."""
        self.alive.sent(100.5, 10)
        self.alive.answered(101.0, False)
        self.alive.proved(100.5, 10)
        self.assertEqual(self.lost_at_s(), 108.1)

    def test_answered_late(self) -> None:
        """It counts when what was answered was sent."""
        self.alive.sent(100.5, 10)
        self.alive.answered(104.0, False)
        self.assertEqual(self.lost_at_s(), 107.6)

    def test_proved_long_ago(self) -> None:
        """A handshake took its time: there is a ping at once, and time for its answer."""
        self.alive = KeepAlive(6.0, 9.0, 95.0, 100.0)
        self.assertEqual(self.alive.ping_at_s(0.0), 98.0)
        self.assertEqual(self.lost_at_s(), 103.1)
        self.alive.sent(100.0, 10)
        self.assertEqual(self.alive.ping_at_s(0.0), 103.0)
        self.alive.answered(102.9, False)
        self.alive.proved(100.0, 10)
        self.assertEqual(self.lost_at_s(), 107.6)

    def test_much_under_way(self) -> None:
        """Then its answers may be later."""
        for _ in range(3):
            self.alive.sent(100.0, 1 << 20)
        self.alive.answered(105.0, True)
        self.assertEqual(self.lost_at_s(), 111.1)
        self.alive.proved(100.0, 3 << 20)
        self.assertEqual(self.lost_at_s(), 108.1)

    def test_answers_that_are_late(self) -> None:
        """While they come, the server hears."""
        self.alive.sent(100.5, 10)
        self.alive.answered(112.0, True)
        self.assertEqual(self.lost_at_s(), 115.1)


class TestProof(unittest.TestCase):
    """Requests are sent and answered; `proved_s` is what the answers prove."""

    def setUp(self) -> None:
        self.alive = KeepAlive(6.0, 9.0, 100.0, 100.0)
        self.pending: deque[Any] = deque()
        self.exchange = Mock(xid=XID_MAX - 1, pings=0, pongs=0)
        self.proof = Proof(self.exchange, self.pending, self.alive, nullcontext())

    def send(self, now_s: float) -> None:
        self.exchange.xid = self.exchange.xid % XID_MAX + 1
        self.pending.append((None, None, self.exchange.xid))
        self.alive.sent(now_s, 10)

    def proved_s(self) -> float:
        self.proof.look()
        return self.alive._proved_s

    def test_one_after_the_other(self) -> None:
        for now_s in (101.0, 102.0, 103.0):
            self.send(now_s)
            self.pending.popleft()
            self.assertEqual(self.proved_s(), now_s)

    def test_pings(self) -> None:
        self.exchange.pings = 1
        self.alive.sent(101.0, 10)
        self.assertEqual(self.proved_s(), 100.0)
        self.exchange.pongs = 1
        self.assertEqual(self.proved_s(), 101.0)

    def test_many_under_way(self) -> None:
        """Xids begin again with 1 meanwhile."""
        self.send(101.0)
        self.assertEqual(self.proved_s(), 100.0)
        self.send(102.0)
        self.send(103.0)
        self.assertEqual(self.proved_s(), 100.0)
        self.pending.popleft()
        self.assertEqual(self.proved_s(), 101.0)
        self.send(104.0)
        self.pending.popleft()
        self.assertEqual(self.proved_s(), 101.0)
        self.pending.popleft()
        self.assertEqual(self.proved_s(), 103.0)
