"""The requests of recipes are counted: what passes a relay, and what kazoo's are known to make."""

from __future__ import annotations

import unittest
from collections import Counter

from bench.bare_requests import PING, PING_XID, connect, create, delete, frame, get_data
from bench.recipe_requests import AGAIN, FIRST, RECIPES, Counted, counted_ensembles, in_words, make_table, measure

SENT = connect(4000) + frame(1, *create("/a", b"")) + frame(PING_XID, PING) + frame(2, *get_data("/a"))
SENT += frame(3, *delete("/a")) + frame(4, *get_data("/a")) + frame(5, 999)
SENT += frame(6, *delete("/parkazoo/fences")) + frame(7, *delete("/parkazoo/fences/7"))
COUNTED = {"connect": 1, "create": 1, "ping": 1, "get": 2, "delete": 2, "type 999": 1, "catch_up": 1}


class TestReading(unittest.TestCase):
    def test_frames_however_they_come(self) -> None:
        for size in (1, 3, 7, 64, len(SENT)):
            counted = Counted("127.0.0.1:1")
            self.addCleanup(counted.close)
            read = counted._reader()
            for start in range(0, len(SENT), size):
                read(SENT[start : start + size])
            self.assertEqual(counted.requests, Counter(COUNTED), size)

    def test_what_has_not_come_whole_is_not_counted(self) -> None:
        counted = Counted("127.0.0.1:1")
        self.addCleanup(counted.close)
        counted._reader()(SENT[:-1])
        self.assertEqual(counted.requests["delete"], 1)

    def test_connections_are_told_apart(self) -> None:
        """The first frame of each has no type."""
        counted = Counted("127.0.0.1:1")
        self.addCleanup(counted.close)
        first, second = counted._reader(), counted._reader()
        first(connect(4000))
        second(connect(4000) + frame(1, *get_data("/a")))
        first(frame(1, *delete("/a")))
        self.assertEqual(counted.requests, Counter({"connect": 2, "get": 1, "delete": 1}))


class TestRecipes(unittest.TestCase):
    def test_counted(self) -> None:
        with counted_ensembles(lambda _: None) as relays:
            records = measure(relays)
        found = {(each["recipe"], each["system"], each["time"]): each["requests"] for each in records}
        self.assertEqual(len(found), len(RECIPES) * 2 * 2)
        lock = {"create": 1, "delete": 1, "exists": 1, "get_children": 1}
        for name in ("Lock", "ReadLock", "WriteLock", "Election"):
            self.assertEqual(found[name, "kazoo", AGAIN], lock, name)
        self.assertEqual(found["Counter", "kazoo", AGAIN], {"exists": 1, "get": 1, "set": 1})
        self.assertEqual(found["DataWatch", "kazoo", AGAIN], {"exists": 1, "get": 1})
        for (name, system, which), requests in found.items():
            self.assertNotIn("ping", requests)
            if (system, which) == ("kazoo", AGAIN):
                self.assertLessEqual(sum(requests.values()), sum(found[name, system, FIRST].values()))
        table = make_table(records)
        self.assertEqual(table.row_count, len(RECIPES))
        self.assertIn(in_words(lock), list(table.columns[2].cells))
        self.assertEqual(in_words(lock), "1 create, 1 delete, 1 exists, 1 get_children: 4")
