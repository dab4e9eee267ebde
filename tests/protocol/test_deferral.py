"""Writes that go from one lane of deferred writes to another."""

from __future__ import annotations

import unittest
from collections.abc import Iterator
from itertools import count

from kazoo.exceptions import NoNodeError

from parkazoo.kazoo_private import SetData
from parkazoo.protocol.deferral import COMMITTED, DROPPED, FAILED, MOST_WRITES, PENDING, Lane, Outcome, Write


def lane(numbers: Iterator[int], *, skips: bool = False) -> Lane:
    """It has its marker."""
    made = Lane(skips, numbers)
    made.settled(0)
    return made


def issue(to: Lane, *paths: str) -> list[Write]:
    writes = [Write(SetData(path, b"", -1), 1) for path in paths]
    for write in writes:
        to.add(write)
    return writes


def send(from_: Lane, outcome: Outcome, at: int = -1) -> None:
    batch = from_.take(is_urgent=True)
    assert batch is not None
    batch.answer(outcome, at, NoNodeError(), 1)
    from_.answered()


class TestMoved(unittest.TestCase):
    def setUp(self) -> None:
        self.numbers = count()
        self.one, self.other = lane(self.numbers), lane(self.numbers)

    def move(self) -> list[Write]:
        moved = self.one.moved.popleft()
        self.assertFalse(self.one.moved)
        self.assertEqual((moved.directory, moved.ensemble), ("/d", 1))
        self.other.take_in(moved.writes)
        return moved.writes

    def test_what_is_in_front_comes_first(self) -> None:
        a, first, b, second = issue(self.one, "/e/a", "/d/x", "/e/b", "/d/x")
        send(self.one, Outcome.APART, 1)
        self.assertFalse(self.one.moved)
        send(self.one, Outcome.DONE)
        self.assertEqual([each.state for each in (a, first)], [COMMITTED, PENDING])
        send(self.one, Outcome.APART, 0)
        self.assertEqual(self.move(), [first, second])
        self.assertEqual((self.one.pending, self.other.pending), (1, 2))
        send(self.one, Outcome.DONE)
        self.assertEqual((b.state, self.one.pending), (COMMITTED, 0))

    def test_those_that_were_not_sent(self) -> None:
        issue(self.one, "/d/x")
        batch = self.one.take(is_urgent=True)
        later = issue(self.one, *["/d/x"] * MOST_WRITES, "/e/x")
        assert batch is not None
        batch.answer(Outcome.APART, 0, None, 1)
        self.one.answered()
        self.assertEqual(len(self.move()), MOST_WRITES + 1)
        self.assertEqual((self.one.pending, self.one.is_full), (1, False))
        self.assertEqual(later[-1].state, PENDING)

    def test_a_barrier_waits_for_them(self) -> None:
        """Those in front of them in their new lane may have higher numbers."""
        issue(self.one, "/d/x")
        barrier = next(self.numbers)
        issue(self.other, "/f/x")
        send(self.one, Outcome.APART, 0)
        self.move()
        self.assertTrue(self.one.has_ended(barrier))
        self.assertFalse(self.other.has_ended(barrier))
        send(self.other, Outcome.DONE)
        self.assertTrue(self.other.has_ended(barrier))

    def test_a_lane_that_has_stopped(self) -> None:
        issue(self.other, "/f/x")
        send(self.other, Outcome.FAILED, 0)
        (write,) = issue(self.one, "/d/x")
        send(self.one, Outcome.APART, 0)
        self.move()
        self.assertEqual((write.state, self.other.pending), (DROPPED, 0))
        self.assertEqual([each.state for each in self.other.bad], [FAILED, DROPPED])
