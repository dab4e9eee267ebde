"""Spread: a flat directory whose children are on all ensembles."""

from __future__ import annotations

from typing import Any

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError
from kazoo.protocol.states import EventType

from parkazoo.protocol.placement import split
from tests.live.world import LiveTest, Seen, wait_until

BUCKETS = 20
NAMES = [f"n{number}" for number in range(100)]


class TestSpread(LiveTest):
    def setUp(self) -> None:
        super().setUp()
        self.client = self.parkazoo()
        self.path = f"{self.new_root(self.client)}/spread"
        self.spread = self.client.Spread(self.path, BUCKETS)

    def fill(self) -> None:
        for name in NAMES:
            self.spread.create(name, name.encode())

    def test_children(self) -> None:
        self.fill()
        self.assertEqual((sorted(self.spread.get_children()), self.spread.count()), (sorted(NAMES), len(NAMES)))
        buckets = {split(self.spread.path_of(name))[0] for name in NAMES}
        self.assertEqual(len(buckets), BUCKETS)
        self.assertEqual({self.placement.of_children(bucket) for bucket in buckets}, {0, 1, 2})
        self.assertEqual(self.spread.get("n7")[0], b"n7")
        self.assertEqual(self.spread.set("n7", b"new", 0).version, 1)
        self.assertEqual(self.client.get(self.spread.path_of("n7"))[0], b"new")
        with self.assertRaises(BadVersionError):
            self.spread.set("n7", b"newer", 0)
        with self.assertRaises(NodeExistsError):
            self.spread.create("n7")
        self.assertTrue(self.spread.delete("n7"))
        self.assertIsNone(self.spread.exists("n7"))
        with self.assertRaises(NoNodeError):
            self.spread.get("n7")
        self.assertEqual(self.spread.count(), len(NAMES) - 1)
        self.client.delete(self.path, recursive=True)
        self.assertEqual((self.spread.get_children(), self.spread.count()), ([], 0))

    def test_a_slash_at_the_end(self) -> None:
        """It is the same directory."""
        spread = self.client.Spread(f"{self.path}/", BUCKETS)
        self.assertEqual(spread.create("a"), self.spread.path_of("a"))
        self.assertEqual((spread.path, self.spread.get_children()), (self.path, ["a"]))

    def test_a_watch_is_called_once(self) -> None:
        for is_there in (False, True):
            with self.subTest(is_there=is_there):
                events = Seen()
                before = self.spread.get_children(events)
                self.assertEqual(sorted(before), sorted(NAMES) if is_there else [])
                if is_there:
                    for name in NAMES:
                        self.spread.delete(name)
                else:
                    self.fill()
                wait_until(lambda events=events: len(events) > 0, "the watch is called")  # type: ignore[misc]
                self.client.sync("/")
                self.assertEqual([(each.type, each.path) for each in events], [(EventType.CHILD, self.path)])

    def test_a_watch_that_is_left_often(self) -> None:
        """It is called once, and no bucket holds more than one."""
        events = Seen()
        members = self.client.members.values()

        def left() -> int:
            tables = [table for each in members for table in (each._data_watchers, each._child_watchers)]
            return len({id(watch) for table in tables for watches in [*table.values()] for watch in [*watches]})

        self.fill()
        for _ in range(5):
            self.spread.get_children(events)
        wait_until(lambda: left() == 1, "one is left")
        self.spread.delete("n1")
        wait_until(lambda: not left(), "none is left")
        self.assertEqual(len(events.wait()), 1)

    def test_a_watch_on_each(self) -> None:
        events = Seen()
        self.assertIsNone(self.spread.exists("n1", events))
        self.spread.create("n1")
        wait_until(lambda: [each.type for each in events] == [EventType.CREATED], "it was created")
        self.spread.get("n1", events)
        self.spread.set("n1", b"new")
        wait_until(lambda: [each.type for each in events][1:] == [EventType.CHANGED], "it was set")

    def test_ephemeral(self) -> None:
        other = self.parkazoo()
        theirs = other.Spread(self.path, BUCKETS)
        for name in NAMES[:10]:
            theirs.create(name, ephemeral=True)
        self.assertEqual(self.spread.count(), 10)
        other.stop()
        wait_until(lambda: self.spread.get_children() == [], "they have gone with their client")

    def test_refused(self) -> None:
        self.spread.create("n1")
        with self.assertRaisesRegex(ValueError, "no sequence numbers: these need one order"):
            self.spread.create("n", sequence=True)
        other = self.parkazoo().Spread(self.path, BUCKETS + 1)
        calls: list[Any] = [other.get_children, other.count, lambda: other.create("n2"), lambda: other.get("n1")]
        for call in calls:
            with self.assertRaisesRegex(ValueError, "give the number of buckets that it was made with"):
                call()
        for buckets in (0, -1, 5000, 2.5, True, "3"):
            with self.assertRaisesRegex(ValueError, "buckets must be a whole number from 1 to 4096"):
                self.client.Spread(self.path, buckets)
        for name in ("", ".", "..", "a/b", 5):
            with self.assertRaisesRegex(ValueError, "is no name for a child"):
                self.spread.create(name)
