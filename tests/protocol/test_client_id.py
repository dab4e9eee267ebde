"""A client_id that holds the sessions by which a client can go on."""

from __future__ import annotations

import unittest

from parkazoo.protocol.client_id import SESSION_PASSWORD_BYTES, pack_sessions, unpack_sessions

SESSIONS = {
    "a": (0x100AB, b"p" * 16),
    "the.longest-name_" + "x" * 46: (-1, bytes(range(16))),
    "0": ((1 << 63) - 1, bytes(16)),
    "Z9": (-(1 << 63), b"\xff" * 16),
}


class TestSessions(unittest.TestCase):
    def test_there_and_back(self) -> None:
        for count in range(len(SESSIONS) + 1):
            sessions = dict([*SESSIONS.items()][:count])
            packed = pack_sessions(sessions)
            self.assertEqual(len(packed), sum(25 + len(name) for name in sessions))
            self.assertEqual(unpack_sessions(packed), sessions)

    def packed_one_by_one(self) -> list[bytes]:
        return [pack_sessions({name: session}) for name, session in SESSIONS.items()]

    def test_anything_else(self) -> None:
        packed = b"".join(self.packed_one_by_one())
        whole = {len(b"".join(self.packed_one_by_one()[:count])) for count in range(len(SESSIONS))}
        for size in {*range(len(packed))} - whole:
            self.assertIsNone(unpack_sessions(packed[:size]), size)
        self.assertIsNone(unpack_sessions(packed + b"\0"))
        self.assertIsNone(unpack_sessions(bytes(25)), "a session of no ensemble")
        self.assertIsNone(unpack_sessions(b"\1\xff" + bytes(24)), "no name of an ensemble")

    def test_not_one_of_kazoo(self) -> None:
        """Whose passwords have 16 bytes: no session is so short."""
        self.assertGreater(len(pack_sessions({"a": SESSIONS["a"]})), SESSION_PASSWORD_BYTES)
