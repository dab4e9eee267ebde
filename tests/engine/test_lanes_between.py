"""Writes that go from one lane of deferred writes to another."""

from __future__ import annotations

import unittest
from contextlib import nullcontext
from typing import Any

from kazoo.exceptions import NoNodeError
from kazoo.security import OPEN_ACL_UNSAFE

from parkazoo.engine.deferred.lanes import Lane, Lanes
from parkazoo.engine.deferred.own_operations import OwnOperations
from parkazoo.engine.deferred.writes import COMMITTED, DROPPED, FAILED, MOST_WRITES, PENDING, Write, directory_of
from parkazoo.kazoo_private import SetData
from parkazoo.protocol.chain import LANDED, ChainedBatch, Landed
from tests.explore.lane_parts import Runtime

NOT_HERE = NoNodeError("it is on ensemble 1")


class Sent:
    """A session that keeps what is sent, and a driver on which every marker is made at once."""

    number = 1

    def __init__(self) -> None:
        self.driver = self
        self.batches: list[tuple[ChainedBatch, Any]] = []

    def call(self, request: ChainedBatch, reply: Any) -> None:
        self.batches.append((request, reply))

    def run(self, operation: Any, reply: Any) -> None:
        reply.set(b"{}")


class TestLanesBetween(unittest.TestCase):
    def setUp(self) -> None:
        self.sent: Any = Sent()
        runtime: Any = Runtime()
        own = OwnOperations(self.sent, runtime, 0.0, OPEN_ACL_UNSAFE, nullcontext())
        self.lanes = Lanes(own, False, None, 0.0, lambda: None)
        self.one, self.other = self.lanes.on(0), self.lanes.on(1)

    def issue(self, lane: Lane, *paths: str) -> list[Write]:
        writes = [Write(SetData(path, b"", -1), 1) for path in paths]
        for write in writes:
            directory = directory_of(write.request.path)
            self.lanes.assign(directory, lane.ensemble).put(directory, write)
        return writes

    def answer(self, ensemble: int, answer: Landed) -> None:
        """Of the oldest batch on the ensemble; if there is none, of what waits for one."""
        if all(each.marker.ensemble != ensemble for each, _ in self.sent.batches):
            self.lanes.flush()
        index = next(at for at, (each, _) in enumerate(self.sent.batches) if each.marker.ensemble == ensemble)
        _, reply = self.sent.batches.pop(index)
        reply.set(answer)

    def apart(self, at: int) -> Landed:
        return Landed(at, NOT_HERE, 1)

    def test_no_more_are_taken_than_may_be_pending(self) -> None:
        """On all lanes together."""
        writes = [Write(SetData(f"/d{number}/x", b"", -1), 1) for number in range(4)]
        lanes = [self.lanes.assign(f"/d{number}", number % 2) for number in range(4)]
        taken = [self.lanes.put(lane, f"/d{n}", writes[n], 3) for n, lane in enumerate(lanes)]
        self.assertEqual((taken, self.lanes.pending), ([True, True, True, False], 3))
        self.lanes.flush()
        self.answer(0, LANDED)
        self.assertTrue(self.lanes.put(lanes[3], "/d3", writes[3], 3))
        self.lanes.ended = "closed"
        self.assertIsInstance(self.lanes.put(lanes[3], "/d3", writes[3], 3), Exception)

    def test_what_is_in_front_comes_first(self) -> None:
        a, first, b, second = self.issue(self.one, "/e/a", "/d/x", "/e/b", "/d/x")
        self.answer(0, self.apart(1))
        self.assertEqual((self.one.pending, self.other.pending), (4, 0))
        self.assertIs(self.lanes.of["/d"], self.one)
        self.answer(0, LANDED)
        self.assertEqual([each.state for each in (a, first)], [COMMITTED, PENDING])
        self.answer(0, self.apart(0))
        self.assertIs(self.lanes.of["/d"], self.other)
        self.assertEqual((self.one.pending, self.other.pending), (1, 2))
        self.answer(0, LANDED)
        self.assertEqual((b.state, self.one.pending), (COMMITTED, 0))
        self.answer(1, LANDED)
        self.assertEqual([each.state for each in (first, second)], [COMMITTED] * 2)

    def test_those_that_were_not_sent(self) -> None:
        self.issue(self.one, "/d/x")
        self.lanes.flush()
        later = self.issue(self.one, *["/d/x"] * (MOST_WRITES - 2), "/e/x")
        self.assertEqual(len(self.sent.batches), 1)
        self.answer(0, self.apart(0))
        self.assertEqual((self.one.pending, self.other.pending), (1, MOST_WRITES - 1))
        self.assertEqual(later[-1].state, PENDING)

    def test_a_barrier_waits_for_them(self) -> None:
        """Those in front of them in their new lane may have higher numbers."""
        self.issue(self.one, "/d/x")
        barrier = next(self.lanes.numbers)
        self.issue(self.other, "/f/x")
        self.answer(0, self.apart(0))
        self.assertTrue(self.one.has_ended(barrier))
        self.assertFalse(self.other.has_ended(barrier))
        self.answer(1, LANDED)
        self.assertFalse(self.other.has_ended(barrier))
        self.answer(1, LANDED)
        self.assertTrue(self.other.has_ended(barrier))

    def test_a_guard_that_moves(self) -> None:
        """All follow it, in their order; a lane of its ensemble tells if it is not there."""
        self.lanes.guard = "/d/guard"
        first, second, third = self.issue(self.one, "/d/x", "/e/y", "/d/x")
        self.answer(0, self.apart(0))
        self.assertEqual((self.one.pending, self.other.pending), (0, 3))
        self.assertEqual(self.lanes.of, {"/d": self.other, "/e": self.other})
        ((batch, _),) = self.sent.batches
        self.assertEqual(
            (batch.guard, [each.path for each in batch.writes]), ("/d/guard", ["/d/x", "/e/y", "/d/x"])
        )
        self.answer(1, Landed(2, NOT_HERE))
        self.assertEqual([each.state for each in (first, second, third)], [PENDING, FAILED, DROPPED])
        self.answer(1, Landed(0, NOT_HERE))
        self.assertEqual(first.state, DROPPED)

    def test_a_lane_that_has_stopped(self) -> None:
        self.issue(self.other, "/f/x")
        self.answer(1, Landed(0, NOT_HERE))
        (write,) = self.issue(self.one, "/d/x")
        self.answer(0, self.apart(0))
        self.assertEqual((write.state, self.other.pending), (DROPPED, 0))
        self.assertEqual([each.state for each in self.lanes.bad], [FAILED, DROPPED])
