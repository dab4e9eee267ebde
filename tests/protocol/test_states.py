"""The ensembles' states to the client's one."""

from __future__ import annotations

import itertools
import unittest

from kazoo.protocol.states import KazooState, KeeperState

from parkazoo.protocol.states import CLOSED_ERRORS, CONNECTED_STATES, is_fatal, kazoo_state, matters, state_of

ALL = [value for name, value in vars(KeeperState).items() if not name.startswith("_")]


class TestStates(unittest.TestCase):
    def test_every_combination_of_three(self) -> None:
        for states in itertools.product(ALL, repeat=3):
            for awaited in itertools.product((False, True), repeat=3):
                joined = [*zip(states, awaited, strict=True)]
                self.assertEqual(state_of(joined), expected(joined), joined)

    def test_one(self) -> None:
        """As with kazoo, whether the client waits for it or not."""
        for state in ALL:
            for is_awaited in (False, True):
                self.assertEqual(state_of([(state, is_awaited)]), state)

    def test_none(self) -> None:
        self.assertEqual(state_of([]), KeeperState.CONNECTING)

    def test_what_matters(self) -> None:
        for has_ephemerals, has_watches in itertools.product((False, True), repeat=2):
            self.assertEqual(matters(has_ephemerals, has_watches), has_ephemerals or has_watches)

    def test_what_is_fatal(self) -> None:
        """An expired session of the only ensemble, as with kazoo; else what took ephemerals along."""
        self.assertEqual([*itertools.starmap(is_fatal, itertools.product((False, True), repeat=2))], [0, 1, 1, 1])

    def test_as_listeners_hear_it(self) -> None:
        for state in ALL:
            if state in CONNECTED_STATES:
                self.assertEqual(kazoo_state(state), KazooState.CONNECTED)
            elif state in CLOSED_ERRORS:
                self.assertEqual(kazoo_state(state), KazooState.LOST)
            else:
                self.assertEqual((state, kazoo_state(state)), (KeeperState.CONNECTING, KazooState.SUSPENDED))


def expected(joined: list[tuple[str, bool]]) -> str:
    """The decision, said another way: LOST if one is lost, else SUSPENDED if one is missed or all are away."""
    states = [state for state, _ in joined]
    for final in (KeeperState.AUTH_FAILED, KeeperState.CLOSED, KeeperState.EXPIRED_SESSION):
        if final in states:
            return final
    if (KeeperState.CONNECTING, True) in joined or {*states} == {KeeperState.CONNECTING}:
        return KeeperState.CONNECTING
    return KeeperState.CONNECTED_RO if KeeperState.CONNECTED_RO in states else KeeperState.CONNECTED
