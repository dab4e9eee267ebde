"""A client_id that holds all sessions."""

from __future__ import annotations

import unittest

from parkazoo.protocol.client_id import pack_password, unpack_password


class TestPassword(unittest.TestCase):
    SESSIONS = (
        (0x100AB, b"p" * 16),
        (-1, bytes(range(16))),
        ((1 << 63) - 1, bytes(16)),
        (-(1 << 63), b"\xff" * 16),
    )

    def test_there_and_back(self) -> None:
        for count in range(len(self.SESSIONS) + 1):
            sessions = list(self.SESSIONS[:count])
            packed = pack_password(sessions)
            self.assertEqual(len(packed), 24 * count)
            self.assertEqual(unpack_password(packed, count), sessions)

    def test_of_another_number_of_sessions(self) -> None:
        packed = pack_password(self.SESSIONS[:2])
        for other in (0, 1, 3):
            self.assertIsNone(unpack_password(packed, other))
        self.assertIsNone(unpack_password(packed[:-1], 2))
        self.assertIsNone(unpack_password(b"", 2))
