"""The members' states to the one state."""

from __future__ import annotations

import itertools
import unittest

from kazoo.protocol.states import KeeperState

from parkazoo.protocol.states import state_of

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
