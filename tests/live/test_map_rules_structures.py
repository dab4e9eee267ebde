"""DistributedDict and deferred writes below a co-location rule of a map that has grown."""

from __future__ import annotations

from parkazoo import DeferredError
from parkazoo.admin import Rule, add_rule, init_map
from tests.live.grow_case import GrowCase
from tests.live.map_case import MapCase
from tests.live.world import DEADLINE_S, Seen, wait_until
from tests.relay import Relay

DIRECTORIES, EACH = 8, 50


class TestBelowARule(GrowCase):
    """/app is on b, all of it. The map has a, b and c; a client has begun before the rule, and one behind it."""

    def setUp(self) -> None:
        MapCase.setUp(self)
        self.relay = Relay(self.b)
        self.addCleanup(self.relay.stop)
        init_map(self.a, {"a": self.a, "b": self.relay.address}, form="grown")
        self.one, self.states = self.client()
        self.one.create("/before/x", makepath=True)
        self.grow()
        self.follows(self.one, add_rule(self.a, Rule("/app", ("b",))))
        self.other, _ = self.client()

    def test_dictionary(self) -> None:
        for shards in (1, 3):
            with self.subTest(shards=shards):
                path = f"/app/settings/{shards}"
                mine, other = (zk.DistributedDict(path, shards=shards) for zk in (self.one, self.other))
                told = Seen()
                mine.on_change(lambda *change, told=told: told(change))
                other["x"] = 1
                wait_until(lambda mine=mine: mine.copy() == {"x": 1}, "it is heard of")
                mine.update(x=2, y=[3])
                wait_until(lambda other=other: other.copy() == {"x": 2, "y": [3]}, "both are heard of")
                self.assertFalse(other.compare_and_set("x", 0, 9))
                self.assertTrue(other.compare_and_set("x", 1, 4))
                self.assertEqual((other.pop("y"), other.get("y"), mine.snapshot()), ([3], None, {"x": 4}))
                wait_until(lambda told=told: ("y", [3], None, None) in told, f"told: {told}")
                self.assertEqual(
                    [each for each in told if each[0] == "x"], [("x", None, 1, 0), ("x", 1, 2, 1), ("x", 2, 4, 2)]
                )
                self.assertEqual({self.place(each) for each in mine._entries.directories}, {"b"})
                mine.close()
                other.close()

    def test_deferred(self) -> None:
        """Directories below the rule are one lane: what is done is a prefix of all of them."""
        directories = [f"/app/{number}" for number in range(DIRECTORIES)]
        self.other.create("/app")
        with self.one.deferred() as later:
            tickets = [later.add(each) for each in directories]
            later.barrier(DEADLINE_S)
            tickets += [later.add(f"{each}/x") for each in directories]
            later.barrier(DEADLINE_S)
            self.assertEqual(len({*map(id, later._lanes.of.values())}), 1)
            for number in range(EACH):
                tickets += [later.put(f"{each}/x", b"%d" % number) for each in directories]
                if not number % 10:
                    self.relay.cut()
        self.assertEqual({each.state for each in tickets}, {"committed"})
        self.assertEqual({self.place(each) for each in directories}, {"b"})
        for directory in directories:
            data, stat = self.other.retry(self.other.get, f"{directory}/x")
            self.assertEqual((data, stat.version), (b"%d" % (EACH - 1), EACH))  # each once

    def test_a_prefix(self) -> None:
        """Where a write is refused, nothing behind it is done, in no directory below the rule."""
        directories = [f"/app/{number}" for number in range(DIRECTORIES)]
        for directory in directories:
            self.other.create(f"{directory}/x", makepath=True)
        later = self.one.deferred()
        before = [later.put(f"{each}/x", b"before") for each in directories]
        wrong = later.put(f"{directories[0]}/missing", b"")
        behind = [later.put(f"{each}/x", b"behind") for each in directories]
        self.relay.cut()
        wait_until(lambda: not later.pending, "all have ended")
        self.assertRaises(DeferredError, later.close, DEADLINE_S)
        self.assertEqual([each.state for each in before], ["committed"] * DIRECTORIES)
        self.assertEqual((wrong.state, {each.state for each in behind}), ("failed", {"dropped"}))
        for directory in directories:
            data, stat = self.other.retry(self.other.get, f"{directory}/x")
            self.assertEqual((data, stat.version), (b"before", 1))
