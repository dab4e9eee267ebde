"""The history of the map, without a server."""

from __future__ import annotations

import json
import unittest
from dataclasses import replace

from parkazoo.admin.history import (
    MOST_BYTES_OF_ALL,
    MOST_CHANGES,
    MapChange,
    differences,
    encode_history,
    parse_history,
    program_of,
)
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.epochs import Form, Rule
from parkazoo.protocol.moving import Moving

PLAIN = ClusterMap("5d3c", {"a": "h1:1", "b": "h2:1"}, ("a", "b"), "a")
GROWN = replace(PLAIN, form=Form.GROWN)
CHANGE = MapChange(2, 1_700_000_000, "root", "h", 1, "parkazoo map grow", "form grown instead of plain")


class TestWords(unittest.TestCase):
    def test_differences(self) -> None:
        named = GROWN.with_ensembles({"c": "h3:1"})
        ruled = named.with_epoch({"a": 1, "b": 0, "c": 2}, [Rule("/x"), Rule("/y", ("c",))])
        changed = ruled.with_epoch({"a": 1, "b": 0, "c": 2}, [Rule("/y", ("a",)), Rule("/z")])
        holds = GROWN.with_move(Moving("/d", "0" * 32, "a", "", "b"))
        moved = GROWN.with_move(Moving("/d", "0" * 32, "a", "", "b", has_switched=True))
        for before, after, words in (
            (None, PLAIN, ["made, with ensembles a, b"]),
            (PLAIN, PLAIN, []),
            (PLAIN, replace(PLAIN, cluster="77"), ["cluster 77 instead of 5d3c"]),
            (PLAIN, PLAIN.with_hosts({"b": "h2:1,h4:1"}), ["servers of b: h2:1,h4:1 instead of h2:1"]),
            (PLAIN, PLAIN.with_form(Form.TOLERANT), ["form tolerant instead of plain"]),
            (GROWN, named, ["ensemble c came"]),
            (named, GROWN, ["ensemble c went"]),
            (named, ruled, ["weights: a 1, b 0, c 2", "rule for /x added", "rule for /y added"]),
            (GROWN, holds, ["move of /d from a to b: begun"]),
            (holds, moved, ["move of /d from a to b: the children are there"]),
            (moved, moved.with_move(None), ["move of /d from a to b: done"]),
            (holds, holds.with_move(None), ["move of /d from a to b: called off"]),
            (ruled, changed, ["rule for /x removed", "rule for /y changed", "rule for /z added"]),
        ):
            with self.subTest(words):
                self.assertEqual([*differences(before, after)], words)

    def test_no_password_is_told(self) -> None:
        for argv, program in (
            (["/bin/parkazoo", "map", "weight", "c=2", "--auth", "digest:me:secret"], "parkazoo map weight c=2"),
            (["/x/parkazoo/__main__.py", "map", "grow", "--ensemble=c=h:1"], "parkazoo map grow"),
            (["/x/deploy.py", "secret"], "deploy.py"),
            (["-c"], "-c"),
            ([], ""),
        ):
            with self.subTest(argv):
                self.assertEqual(program_of(argv), program)
        argv = ["/bin/parkazoo", "map", "identity", "add", "digest:me:secret", "more"]
        self.assertEqual(program_of(argv, "me:secret"), "parkazoo map identity add")


class TestHistory(unittest.TestCase):
    def test_round_trip(self) -> None:
        self.assertEqual(parse_history(encode_history([CHANGE, CHANGE])), [CHANGE, CHANGE])
        self.assertEqual(parse_history(None), [])

    def test_the_oldest_are_forgotten(self) -> None:
        many = [CHANGE._replace(map=number) for number in range(MOST_CHANGES + 5)]
        self.assertEqual(parse_history(encode_history(many)), many[5:])
        long = [each._replace(what="x" * (MOST_BYTES_OF_ALL // 10)) for each in many]
        data = encode_history(long)
        self.assertLess(len(data), MOST_BYTES_OF_ALL + 1000)
        self.assertEqual(parse_history(data)[-1], long[-1])

    def test_damaged(self) -> None:
        other = json.dumps([CHANGE._asdict() | {"map": "2"}]).encode()
        for data in (b"x", b"{}", b"[1]", b"[{}]", other, b"\xff", b"[" * 99999):
            with self.subTest(data[:20]):
                self.assertRaises(ValueError, parse_history, data)
