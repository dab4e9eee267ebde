"""When a client reads the map again: the primary at once, what repeats it later; in turns while a move lasts."""

from __future__ import annotations

import unittest
from collections.abc import Callable
from dataclasses import replace

from parkazoo.engine.map_events import LATER_S, MOST_TURNS, NEWS_S, TURN_S, MapEvents, some_time_later
from parkazoo.protocol.cluster_map import ClusterMap
from tests.fakes.runtime import Runtime
from tests.protocol.test_leaving import MAP
from tests.protocol.test_moving import MOVE


class Reader:
    """In place of a member.

    :ivar read_s: when it was told to read the map.
    """

    def __init__(self, name: str, now_s: Callable[[], float]) -> None:
        self.name = name
        self.read_s: list[float] = []
        self._now_s = now_s

    def read_map(self) -> None:
        self.read_s.append(self._now_s())


class TestMapEvents(unittest.TestCase):
    def setUp(self) -> None:
        self.runtime = Runtime()
        self.map: ClusterMap | None = MAP
        self.connected = {*"abc"}
        self.hurries = False
        self.part = 0.5
        self.a, self.b, self.c = (Reader(name, lambda: self.runtime.now_s) for name in "abc")
        self.events = MapEvents[Reader](  # type: ignore[type-var]
            self.runtime.call_later,
            lambda: self.map,
            self.connected.__contains__,
            lambda: self.part,
            lambda: self.hurries,
        )
        for each in (self.a, self.b, self.c):
            self.events.have_read(each)

    def changes(self) -> None:
        assert self.map is not None
        self.map = replace(self.map, epoch=self.map.epoch + 1)

    def assert_later(self, reader: Reader) -> None:
        self.runtime.turn(3 * LATER_S)
        (read_s,) = reader.read_s
        self.assertGreaterEqual(read_s, LATER_S)

    def test_the_primary_is_read_at_once(self) -> None:
        self.events.told(self.a)
        self.assertEqual(self.a.read_s, [0])

    def test_a_copy_repeats_it(self) -> None:
        """While the primary is read; when it has been read."""
        self.events.told(self.a)
        self.events.told(self.b)
        self.changes()
        self.events.have_read(self.a)
        self.events.told(self.c)
        for each in (self.b, self.c):
            self.assertEqual(each.read_s, [])
        self.assert_later(self.b)
        self.assertEqual(len(self.c.read_s), 1)
        self.assertGreaterEqual(self.c.read_s[0], LATER_S)

    def test_a_copy_is_faster(self) -> None:
        """The primary tells it soon, or not: its server lags."""
        self.events.told(self.b)
        self.runtime.turn(NEWS_S / 2)
        self.events.told(self.a)
        self.changes()
        self.events.have_read(self.a)
        self.assert_later(self.b)
        self.events.have_read(self.b)
        self.runtime.turn(10)
        before_s = self.runtime.now_s
        self.events.told(self.c)
        self.events.have_read(self.c)
        self.events.told(self.c)
        self.runtime.turn(NEWS_S)
        self.assertEqual(self.c.read_s[-1], before_s + NEWS_S)

    def test_no_connection_to_the_primary(self) -> None:
        self.connected.discard("a")
        for reads, each in enumerate((self.b, self.c), 1):
            self.events.told(each)
            self.assertEqual(len(each.read_s), 1, reads)

    def test_the_primary_comes_meanwhile(self) -> None:
        """Its connection is there before a copy is read: the next change is news again."""
        self.connected.discard("a")
        self.events.told(self.b)
        self.connected.add("a")
        self.events.have_read(self.b)
        self.events.told(self.c)
        self.runtime.turn(NEWS_S)
        self.assertEqual(self.c.read_s, [NEWS_S])

    def test_few_clients(self) -> None:
        """What they say later is not late."""
        self.assertLessEqual(some_time_later(1, 3), 6 * TURN_S)
        self.assertGreaterEqual(some_time_later(0), LATER_S)

    def test_no_map(self) -> None:
        self.map = None
        self.events.told(self.c)
        self.assertEqual(self.c.read_s, [0])

    def test_turns(self) -> None:
        """Each client has one, whichever step of the move is next; without a move, or a count, all are at once."""
        assert self.map is not None
        for move, longest_s in (
            (MOVE._replace(clients=1000), 1000 * TURN_S),
            (MOVE._replace(clients=1000, has_switched=True), 1000 * TURN_S),
            (MOVE._replace(clients=10**9), MOST_TURNS * TURN_S),
            (MOVE, 0),
            (None, 0),
        ):
            with self.subTest(move):
                self.map, began_s = MAP.with_move(move), self.runtime.now_s
                self.a.read_s.clear()
                for self.part in (0, 0.5, 1):
                    self.events.told(self.a)
                self.runtime.turn(longest_s)
                self.assertEqual([each - began_s for each in self.a.read_s], [0, 0.5 * longest_s, 1 * longest_s])

    def test_who_must_hurry(self) -> None:
        assert self.map is not None
        self.map, self.hurries = MAP.with_move(MOVE._replace(clients=1000)), True
        self.events.told(self.a)
        self.assertEqual(self.a.read_s, [0])

    def test_a_copy_while_the_turn_comes(self) -> None:
        assert self.map is not None
        self.map = MAP.with_move(MOVE._replace(clients=MOST_TURNS))
        for each in (self.a, self.b, self.c):
            self.events.have_read(each)
        self.events.told(self.a)
        self.events.told(self.b)
        self.assert_later(self.b)
