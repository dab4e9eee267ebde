"""Where pins decide: whatever a plain client has done to pins and proofs, each request is answered."""

from __future__ import annotations

import unittest
from collections.abc import Mapping, Sequence
from typing import Any

from kazoo.exceptions import NotEmptyError, RolledBackError
from kazoo.security import OPEN_ACL_UNSAFE

from parkazoo.errors import ClusterMapError
from parkazoo.kazoo_private import (
    Create2,
    Delete,
    Exists,
    GetChildren,
    GetChildren2,
    GetData,
    SetACL,
    SetData,
    Sync,
    Transaction,
)
from parkazoo.protocol.pin import NATIVE_PIN
from tests.explore.alone import must
from tests.explore.client import Client
from tests.explore.directories import create
from tests.explore.grown import ADOPTED, STATES, D, Maps, brought, guess
from tests.explore.scenario import Knows

STEPS = 600  # no request of these takes more
X, Y = f"{D}/x", f"{D}/y"
PIN, PROOF, MIRROR = f"{D}/.parkazoo", f"{D}/.parkazoo.native", "/parkazoo/mirrors/%2Fd"
DAMAGES: Mapping[str, tuple[str, Sequence[tuple[int, Any]]]] = {
    "no proof": ("native", [(0, Delete(PROOF, -1))]),
    "no pin": ("native", [(0, Delete(PIN, -1))]),
    "neither": ("native", [(0, Delete(PROOF, -1)), (0, Delete(PIN, -1))]),
    "empty, no proof": ("native empty", [(0, Delete(PROOF, -1))]),
    "empty, no pin": ("native empty", [(0, Delete(PIN, -1))]),
    "a mark below a pin that says native": ("native empty", [(0, create(f"{PIN}/mark"))]),
    "a child of the proof": ("native empty", [(0, create(f"{PROOF}/z"))]),
    "mirrored, no pin": ("mirrored", [(0, Delete(PIN, -1))]),
    "mirrored, no mirror": ("mirrored", [(1, Delete(f"{MIRROR}/x", -1)), (1, Delete(MIRROR, -1))]),
    "mirrored, a pin that is none": ("mirrored", [(0, SetData(PIN, b"none", -1))]),
    "mirrored, a pin that names another": ("mirrored", [(0, SetData(PIN, b'{"fence": [1, 1], "on": "e2"}', -1))]),
    "mirrored, a pin that says native": ("mirrored", [(0, SetData(PIN, NATIVE_PIN, -1))]),
    "mirrored, a proof": ("mirrored", [(0, create(PROOF))]),
    "mirrored, a child of the home": ("mirrored empty", [(0, create(f"{D}/z"))]),
}
TRANSACTIONS = [
    Transaction(operations)
    for operations in (
        [create(Y)],
        [Delete(Y, -1)],
        [Delete(D, -1)],
        [Delete(X, -1), Delete(D, -1)],
        [create(Y), Delete(D, -1)],
        [create(Y), Delete(Y, -1), Delete(D, -1)],
        [create(Y), Delete(Y, -1), Delete(D, -1), create(Y)],
        [create(D), create(Y), Delete(Y, -1), Delete(D, -1)],
        [create(D), create(Y), Delete(D, -1)],
        [Delete(X, -1), Delete(D, -1), create(D), create(Y)],
        [Delete(D, -1), create(Y)],
    )
]
REQUESTS = [
    *(create(Y), Create2(Y, b"", OPEN_ACL_UNSAFE, 0), Delete(Y, -1), Delete(D, -1), SetData(D, b"", -1)),
    *(Exists(Y, None), GetData(D, None), GetData(Y, None), SetACL(D, OPEN_ACL_UNSAFE, -1), Sync(D)),
    *(GetChildren(D, None), GetChildren2(D, None), *TRANSACTIONS),
]


class Case(unittest.TestCase):
    def answer(self, state: str, damage: Sequence[tuple[int, Any]], request: Any, newest: int) -> Any:
        model = brought(STATES[state], Maps(ADOPTED, Knows(guess(1)), None), ((), ())).model
        for step in damage:
            must(model.execute(*step))
        client = Client(ADOPTED, model, knows=Knows(guess(newest)))
        result = client.call(request)
        for _ in range(STEPS):
            if not (choices := client.choices()):
                return result.value
            choices[0]()
        raise AssertionError(f"{request} has no answer")


class TestDamage(Case):
    def test_each_request_is_answered(self) -> None:
        for damage, (state, changes) in DAMAGES.items():
            for request in REQUESTS:
                for newest in range(ADOPTED.ensembles):
                    with self.subTest(damage, request=request, newest=newest):
                        self.answer(state, changes, request, newest)

    def test_one_of_two_is_an_error(self) -> None:
        for damage in ("no proof", "no pin", "empty, no proof", "empty, no pin"):
            for request in (create(Y), Transaction([create(Y)])):
                with self.subTest(damage, request=request):
                    answer = self.answer(*DAMAGES[damage], request, 1)
                    self.assertIsInstance(answer, ClusterMapError)
                    self.assertIn("parkazoo fsck", str(answer))


class TestTransactions(Case):
    def test_each_is_answered(self) -> None:
        for state in STATES:
            for request in TRANSACTIONS:
                for newest in range(ADOPTED.ensembles):
                    with self.subTest(state, request=request, newest=newest):
                        self.answer(state, (), request, newest)

    def test_a_directory_that_it_decides_itself(self) -> None:
        """Made, or used for the first time, and deleted in the same."""
        made = [create(D), create(Y), Delete(Y, -1), Delete(D, -1)]
        self.assertEqual(self.answer("missing", (), Transaction(made), 0), [D, Y, True, True])
        self.assertEqual(self.answer("adopted empty", (), Transaction(made[1:]), 0), [Y, True, True])
        failed = self.answer("adopted empty", (), Transaction([create(Y), Delete(D, -1)]), 0)
        self.assertEqual([*map(type, failed)], [RolledBackError, NotEmptyError])
        failed = self.answer("missing", (), Transaction([create(D), create(Y), Delete(D, -1)]), 0)
        self.assertEqual([*map(type, failed)], [RolledBackError, RolledBackError, NotEmptyError])
