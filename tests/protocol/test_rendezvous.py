"""Bids are computed alike on every machine, for ever; what changes them moves no more than it must."""

from __future__ import annotations

import subprocess
import sys
import unittest
from collections import Counter
from collections.abc import Sequence
from hashlib import sha256
from unittest import mock

from parkazoo.protocol import rendezvous as module
from parkazoo.protocol.rendezvous import MOST_WEIGHT, bid_of, rendezvous

KEYS = [f"/app/{number}" for number in range(4000)]
# Made with: printf %s KEY | sha256sum
SHEETS = {
    "/app/jobs": "0ca86c9eb12cc6f9735b538a56586e4fab4c297ce3f257c4e21a62e3c67cd4dc",
    "0 2 /app/jobs": "87db1d6754cb9d912f02c084d0ad61e07f53c496d77613c3668d9e56cf9998fd",
    "0 3 /app/jobs": "807334681e40f67f0f9b72682c9a8bbae731af3a6e6313b7dbe3f0a90753abb8",
    "1 1 /app/jobs": "71a9c7c1be2f482e02c70db121048bc069505a940c0ea8b3ee77ac18d75c6e24",
}


def word(sheet: str, index: int) -> int:
    return int(SHEETS[sheet][8 * index : 8 * index + 8], 16)


def specified(weights: Sequence[int], key: str) -> int:
    """The winner as docs/design/protocol.md has it."""
    bids = []
    for position, weight in enumerate(weights):
        for slot in range(1, weight + 1):
            first = "" if position < 8 and slot == 1 else f"{position // 8} {slot} "
            words = sha256((first + key).encode()).hexdigest()
            bids.append((words[position % 8 * 8 :][:8], -position))
    return -max(bids)[1]


def moves(before: Sequence[int], after: Sequence[int]) -> Counter[tuple[int, int]]:
    """How many keys go from one ensemble to another."""
    old, new = rendezvous(before), rendezvous(after)
    return Counter((old(key), new(key)) for key in KEYS if old(key) != new(key))


class KnownTest(unittest.TestCase):
    def test_one_sheet(self) -> None:
        for position in range(8):
            self.assertEqual(
                bid_of(position, 1, "/app/jobs"), (word("/app/jobs", position), "/app/jobs", position)
            )
        self.assertEqual(rendezvous([1] * 3)("/app/jobs"), 1)
        self.assertEqual(rendezvous([1] * 8)("/app/jobs"), 5)

    def test_more_slots(self) -> None:
        self.assertEqual(bid_of(0, 3, "/app/jobs"), (word("0 2 /app/jobs", 0), "0 2 /app/jobs", 0))
        self.assertEqual(bid_of(1, 3, "/app/jobs"), (word("/app/jobs", 1), "/app/jobs", 1))
        self.assertEqual(rendezvous([3, 0, 1])("/app/jobs"), 0)

    def test_more_than_eight(self) -> None:
        self.assertEqual(bid_of(9, 1, "/app/jobs"), (word("1 1 /app/jobs", 1), "1 1 /app/jobs", 1))
        self.assertEqual(rendezvous([0] * 7 + [1, 0, 1])("/app/jobs"), 7)
        self.assertEqual(rendezvous([0] * 8 + [1, 1])("/app/jobs"), 9)

    def test_as_specified(self) -> None:
        for weights in (
            [1],
            [1] * 8,
            [1] * 9,
            [1] * 100,
            [2, 2],
            [0, 1, 5],
            [1] * 8 + [3, 0, 1],
            [MOST_WEIGHT, 1],
        ):
            winner = rendezvous(weights)
            for key in ("/", "/app", "/ünï/код", "/a%2Fb", *KEYS[:50]):
                with self.subTest(weights=weights, key=key):
                    self.assertEqual(winner(key), specified(weights, key))

    def test_same_in_another_process(self) -> None:
        code = (
            "from parkazoo.protocol.rendezvous import rendezvous\n"
            "print([rendezvous([2, 1, 3])(f'/d{i}') for i in range(50)])"
        )
        answer = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
        )
        self.assertEqual(answer.stdout.strip(), str([rendezvous([2, 1, 3])(f"/d{i}") for i in range(50)]))

    def test_of_equal_bids_the_first(self) -> None:
        """Also where a later slot of the first is as high as the first slot of another."""
        for digests, winner in (
            ((b"\1" * 32, b"\1" * 32), 0),
            ((b"\1\1\1\1" + b"\2" * 28, b"\2" * 32), 0),
            ((b"\2" * 28 + b"\3" * 4, b"\3" * 4 + b"\0" * 28), 0),
            ((b"\1" * 32, b"\0" * 32), 0),
            ((b"\1" * 4 + b"\2" * 28, b"\0" * 4 + b"\2" * 28), 1),
        ):
            with mock.patch.object(module, "sha256") as made:
                made.return_value.digest.side_effect = digests
                self.assertEqual(rendezvous([2] * 8)("/"), winner)

    def test_no_weights(self) -> None:
        for weights in ([], [0], [0, 0], [1, -1]):
            with self.assertRaises(ValueError):
                rendezvous(weights)


class SharesTest(unittest.TestCase):
    """The keys are fixed, so none of these can fail by chance; the bounds are six standard deviations."""

    def assert_near(self, count: int, share: float) -> None:
        total = len(KEYS)
        self.assertLessEqual(abs(count - total * share), 6 * (total * share * (1 - share)) ** 0.5)

    def test_equal(self) -> None:
        for ensembles in (2, 3, 4, 8, 9, 20):
            counts = Counter(map(rendezvous([1] * ensembles), KEYS))
            for position in range(ensembles):
                self.assert_near(counts[position], 1 / ensembles)

    def test_weighted(self) -> None:
        for weights in ([1, 2, 1], [5, 0, 1, 3], [1] * 8 + [4], [MOST_WEIGHT, 1]):
            counts = Counter(map(rendezvous(weights), KEYS))
            for position, weight in enumerate(weights):
                self.assert_near(counts[position], weight / sum(weights))

    def test_one_that_comes_takes_its_share(self) -> None:
        """A fourth takes a quarter, as much from each, and moves nothing else."""
        for ensembles in (1, 2, 3, 7, 8, 15, 16):
            moved = moves([1] * ensembles, [1] * (ensembles + 1))
            self.assertEqual({new for _, new in moved}, {ensembles})
            self.assert_near(moved.total(), 1 / (ensembles + 1))
            for position in range(ensembles):
                self.assert_near(moved[position, ensembles], 1 / ensembles / (ensembles + 1))

    def test_a_raised_weight_only_attracts(self) -> None:
        for before, after, share in (
            ([1, 1, 1], [1, 2, 1], 2 / 4 - 1 / 3),
            ([1, 1, 1], [1, 9, 1], 9 / 11 - 1 / 3),
            ([2, 3, 0], [2, 3, 5], 5 / 10),
            ([1] * 9, [1, 3] + [1] * 7, 3 / 11 - 1 / 9),
            ([1] * 9, [1] * 8 + [2], 2 / 10 - 1 / 9),
        ):
            with self.subTest(before=before, after=after):
                moved = moves(before, after)
                raised = next(
                    i for i, weights in enumerate(zip(before, after, strict=True)) if len(set(weights)) > 1
                )
                self.assertEqual({new for _, new in moved}, {raised})
                self.assert_near(moved.total(), share)

    def test_a_drained_one_only_gives(self) -> None:
        for before, after in (([1, 1, 1], [1, 0, 1]), ([3, 1, 2], [0, 1, 2]), ([1] * 10, [1] * 9 + [0])):
            moved = moves(before, after)
            drained = after.index(0)
            self.assertEqual({old for old, _ in moved}, {drained})
            winner = rendezvous(before)
            self.assertEqual(moved.total(), sum(winner(key) == drained for key in KEYS))
