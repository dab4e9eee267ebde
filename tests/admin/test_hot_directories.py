"""Events counted by directory, as clients name it."""

from __future__ import annotations

import unittest

from kazoo.exceptions import ConnectionDropped

from parkazoo.admin.hot_directories import (
    EVENT,
    KEPT_AT_ONCE,
    KEPT_LONG,
    KEPT_PATHS,
    EventCounts,
    HotDirectories,
    Seen,
)
from parkazoo.admin.rates import EnsembleRates, Rates

CREATED, CHANGED, CONNECTED = 1, 3, 3


def event(path: str, xid: int = -1, kind: int = CHANGED) -> bytes:
    """As a server sends it."""
    name = path.encode()
    return EVENT.pack(EVENT.size - 4 + len(name), xid, 7, 0, kind, CONNECTED, len(name)) + name


def seen(*paths: str) -> Seen:
    counts = EventCounts()
    for path in paths:
        frame = event(path)
        assert counts.add(frame, 0, len(frame))
    return counts.seen()


def rates(seconds: float, **writes: float | None) -> Rates:
    rows = [EnsembleRates(name, 1, 1, name, *[None] * 2, of, *[None] * 6) for name, of in writes.items()]
    return Rates(1795680752.7, seconds, "zk", 1, rows, [], [])


class TestEventCounts(unittest.TestCase):
    def test_logical_directories(self) -> None:
        """Mirrors, homes and znodes of their own lie in the user's directories."""
        found = seen("/parkazoo/mirrors/%2Fapp%2Fjobs/7", "/app/jobs/8", "/app", "/parkazoo/mirrors/%2F100%25/x/y")
        self.assertEqual(found.counts, {"/app/jobs": 2, "/": 1, "/100%/x": 1})
        self.assertEqual(found.events, 4)

    def test_what_is_parkazoos_own(self) -> None:
        own = (
            "/parkazoo/map",
            "/parkazoo/mirrors/%2Fapp",
            "/parkazoo/fences/7",
            "/app/.parkazoo/x",
            "/parkazoo/done/x/y",
        )
        self.assertEqual(seen(*own).counts, {"/parkazoo": len(own)})
        self.assertEqual(seen("/app/.parkazoo").counts, {"/app": 1})  # a pin is a child of its directory

    def test_other_frames(self) -> None:
        counts = EventCounts()
        self.assertFalse(counts.add(event("/x", xid=-2), 0, len(event("/x"))))
        self.assertFalse(counts.add(b"\0" * 20, 0, 20))
        frame = event("/x")
        with self.assertRaises(ConnectionDropped):
            counts.add(frame, 0, len(frame) - 1)
        self.assertEqual(counts.seen(), Seen({}, 0))

    def test_memory_is_bounded(self) -> None:
        """With too many directories the hot ones stay, and all events count."""
        counts = EventCounts()
        many = KEPT_AT_ONCE * 2
        for number in range(many):
            for path in (f"/d{number}/x", "/hot/x"):
                frame = event(path)
                counts.add(frame, 0, len(frame))
        found = counts.seen()
        self.assertEqual((found.counts["/hot"], found.events), (many, 2 * many))
        self.assertEqual(len(found.counts), KEPT_LONG)

    def test_by_path(self) -> None:
        """Paths are the ensemble's own; it is known which were created."""
        counts = EventCounts(by_path=True)
        mirrored, plain = "/parkazoo/mirrors/%2Fapp/x", "/app/y"
        for frame in (event(mirrored, kind=CREATED), event(mirrored), event(plain)):
            counts.add(frame, 0, len(frame))
        self.assertEqual(counts.seen(), Seen({mirrored: 2, plain: 1}, 3, {mirrored}))

    def test_memory_by_path_is_bounded(self) -> None:
        counts = EventCounts(by_path=True)
        hot = event("/hot", kind=CREATED)
        for _ in range(2):
            counts.add(hot, 0, len(hot))
        for number in range(KEPT_PATHS):
            frame = event(f"/{number}", kind=CREATED)
            counts.add(frame, 0, len(frame))
        found = counts.seen()
        self.assertEqual((found.counts["/hot"], found.events), (2, KEPT_PATHS + 2))
        self.assertEqual(len(found.counts), KEPT_PATHS // 2)
        self.assertEqual({*found.made}, {*found.counts})


class TestHotDirectories(unittest.TestCase):
    def test_rates(self) -> None:
        found = HotDirectories().add(
            rates(2.0, a=5.0, b=1.0), 2.0, {"a": Seen({"/x": 8, "/y": 2}, 10), "b": Seen({"/z": 4}, 4)}, {}
        )
        self.assertEqual(
            [(each.directory, each.ensemble, each.writes, each.share) for each in found.directories],
            [("/x", "a", 4.0, 0.8), ("/z", "b", 2.0, 1.0), ("/y", "a", 1.0, 0.2)],
        )
        self.assertEqual((found.directories_s, found.unseen), (2.0, []))

    def test_the_last_seconds(self) -> None:
        """Only what was seen in the last 15 s counts, or at the last look."""
        hot = HotDirectories()
        for _ in range(3):
            hot.add(rates(5.0, a=1.0), 5.0, {"a": Seen({"/old": 5}, 5)}, {})
        for _ in range(3):
            found = hot.add(rates(5.0, a=1.0), 5.0, {"a": Seen({"/new": 5}, 5)}, {})
        self.assertEqual([each.directory for each in found.directories], ["/new"])
        self.assertEqual((found.directories[0].writes, found.directories_s), (1.0, 15.0))
        found = hot.add(rates(60.0, a=1.0), 60.0, {"a": Seen({"/last": 60}, 60)}, {})
        self.assertEqual(([each.directory for each in found.directories], found.directories_s), (["/last"], 60.0))

    def test_what_is_not_seen(self) -> None:
        seen_there = {"a": Seen({"/x": 50}, 50), "b": Seen({"/y": 100}, 100), "c": Seen({}, 0)}
        found = HotDirectories().add(rates(1.0, a=100.0, b=100.0, c=None), 1.0, seen_there, {"c": "it is too old"})
        self.assertEqual(len(found.unseen), 2)
        self.assertEqual(found.unseen[0], "the directories of c: it is too old")
        self.assertRegex(found.unseen[1], "^the directories of a: 50% of its writes are not seen: ")

    def test_writes_that_are_not_known(self) -> None:
        self.assertEqual(HotDirectories().add(rates(1.0, a=None), 1.0, {"a": Seen({}, 0)}, {}).unseen, [])


if __name__ == "__main__":
    unittest.main()
