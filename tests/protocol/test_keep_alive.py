"""When to ping, and when a server is lost: read time-out 6 s, session time-out 9 s."""

from __future__ import annotations

import unittest

from parkazoo.wire.keep_alive import MOST_JITTER_S, KeepAlive


class TestKeepAlive(unittest.TestCase):
    def setUp(self) -> None:
        self.alive = KeepAlive(6.0, 9.0, 100.0)

    def lost_at_s(self) -> float:
        """The first tenth of a second at which the server is lost."""
        return next(tenth / 10 for tenth in range(1000, 2000) if self.alive.is_lost(tenth / 10))

    def test_ping(self) -> None:
        """Half the read time-out after the last that was sent, or a bit earlier."""
        self.assertEqual(self.alive.ping_at_s(0.0), 103.0)
        self.assertEqual(self.alive.ping_at_s(0.4), 102.6)
        self.alive.sent(101.0)
        self.assertEqual(self.alive.ping_at_s(0.0), 104.0)
        self.alive.heard(103.0, False)
        self.assertEqual(self.alive.ping_at_s(0.0), 104.0)

    def test_jitter(self) -> None:
        """It leaves a quarter of the read time-out, at the least."""
        self.assertEqual(self.alive.most_jitter_s, MOST_JITTER_S)
        self.assertEqual(KeepAlive(0.4, 0.6, 0.0).most_jitter_s, 0.1)

    def test_silence(self) -> None:
        """The read time-out after its last word, if it was asked by then."""
        self.alive.sent(100.5)
        self.assertEqual(self.lost_at_s(), 106.1)
        self.assertEqual(self.alive.look_at_s(0.0), 103.5)
        self.alive.sent(103.0)
        self.assertEqual(self.lost_at_s(), 106.1)
        self.assertEqual(self.alive.look_at_s(0.0), 106.0)
        self.alive.heard(104.0, True)
        self.assertEqual(self.lost_at_s(), 110.1)

    def test_nothing_asked(self) -> None:
        """Then only the session's time-out counts: this process did not run."""
        self.assertEqual(self.lost_at_s(), 109.1)
        self.assertEqual(self.alive.look_at_s(0.0), 103.0)

    def test_asked_late(self) -> None:
        """It has half a read time-out to answer, within that of the session."""
        self.alive.sent(104.0)
        self.alive.sent(105.0)
        self.assertEqual(self.lost_at_s(), 107.1)
        self.alive = KeepAlive(6.0, 9.0, 100.0)
        self.alive.sent(108.0)
        self.assertEqual(self.lost_at_s(), 109.1)

    def test_answered(self) -> None:
        """Without a waiting request there is no silence."""
        self.alive.sent(100.5)
        self.alive.heard(101.0, False)
        self.assertEqual(self.lost_at_s(), 110.1)
