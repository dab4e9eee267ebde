"""The members' states to the one state; a client_id that holds all sessions."""

from __future__ import annotations

import itertools
import unittest

from kazoo.protocol.states import KeeperState

from parkazoo.protocol.session import pack_password, state_of, unpack_password

ALL = [value for name, value in vars(KeeperState).items() if not name.startswith("_")]


class TestStates(unittest.TestCase):
    def test_every_combination_of_three(self) -> None:
        for states in itertools.product(ALL, repeat=3):
            self.assertEqual(state_of(states), expected(states), states)

    def test_one(self) -> None:
        for state in ALL:
            self.assertEqual(state_of([state]), state)


def expected(states: tuple[str, ...]) -> str:
    """The decision, said another way: LOST if one is lost, else SUSPENDED if one is, else CONNECTED."""
    for final in (KeeperState.AUTH_FAILED, KeeperState.EXPIRED_SESSION, KeeperState.CLOSED):
        if final in states:
            return final
    if KeeperState.CONNECTING in states:
        return KeeperState.CONNECTING
    return KeeperState.CONNECTED_RO if KeeperState.CONNECTED_RO in states else KeeperState.CONNECTED


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
