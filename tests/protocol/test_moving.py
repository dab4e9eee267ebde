"""A directory that moves: what the map says of it."""

from __future__ import annotations

import json
import unittest
from dataclasses import replace

from parkazoo.errors import ClusterMapError
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.moving import NATIVE, Moving
from tests.protocol.map_documents import OTHER_VALUES
from tests.protocol.test_leaving import MAP

NAME, OTHER = "0123456789abcdef" * 2, "f" * 32
MOVE = Moving("/app/jobs", NAME, "a", "", "b")


class TestMap(unittest.TestCase):
    def test_three_steps(self) -> None:
        holds = MAP.with_move(MOVE)
        moved = holds.with_move(MOVE._replace(has_switched=True))
        over = moved.with_move(None)
        self.assertEqual([each.epoch for each in (holds, moved, over)], [2, 3, 4])
        self.assertEqual(replace(over, epoch=1, moved=""), MAP)
        self.assertEqual([each.last_move for each in (MAP, holds, moved, over)], ["", NAME, NAME, NAME])
        self.assertEqual(over.with_move(MOVE._replace(name=OTHER)).last_move, OTHER)
        for each in (holds, moved, over):
            self.assertTrue(each.continues(MAP))
            self.assertEqual(ClusterMap.from_json(each.to_json()), each)
        self.assertNotIn("move", json.loads(over.to_json()))
        self.assertNotIn("moved", json.loads(MAP.to_json()))

    def test_one_at_a_time(self) -> None:
        with self.assertRaisesRegex(ClusterMapError, "^/app/jobs moves: one directory"):
            MAP.with_move(MOVE).with_move(MOVE._replace(name=OTHER, directory="/x"))

    def test_places(self) -> None:
        for generation in ("", NATIVE, OTHER):
            each = MAP.with_move(MOVE._replace(generation=generation, target="a"))
            self.assertEqual(ClusterMap.from_json(each.to_json()), each)

    def test_refused(self) -> None:
        for wrong, words in (
            ({"directory": "/"}, "no directory that can move"),
            ({"directory": ""}, "no directory that can move"),
            ({"directory": "app"}, "no directory that can move"),
            ({"directory": "/app/"}, "no directory that can move"),
            ({"directory": "/app/../x"}, "no directory that can move"),
            ({"directory": "/zookeeper/config"}, "no directory that can move"),
            ({"directory": "/parkazoo/mirrors"}, "no directory that can move"),
            ({"directory": "/app/.parkazoo"}, "no directory that can move"),
            ({"name": "x"}, "no name for a move"),
            ({"name": NAME.upper()}, "no name for a move"),
            ({"name": f"{NAME}\n"}, "no name for a move"),
            ({"generation": NAME}, "no name for a move"),
            ({"generation": "x"}, "no generation"),
            ({"source": "x"}, "no ensemble 'x'"),
            ({"target": ""}, "no ensemble ''"),
        ):
            with self.subTest(wrong), self.assertRaisesRegex(ClusterMapError, words):
                MAP.with_move(MOVE._replace(**wrong))  # type: ignore[arg-type]

    def test_ensembles_that_leave(self) -> None:
        """Children leave such an ensemble; they do not go there."""
        leaving = MAP.with_leaving("c")
        self.assertEqual(leaving.with_move(MOVE._replace(source="c")).leaving, {"c": 2})
        with self.assertRaisesRegex(ClusterMapError, "to ensemble c, which leaves"):
            leaving.with_move(MOVE._replace(target="c"))
        with self.assertRaisesRegex(ClusterMapError, "no ensemble 'c'"):
            leaving.without("c").with_move(MOVE._replace(source="c"))

    def test_form(self) -> None:
        with self.assertRaisesRegex(ClusterMapError, "its form is guarded"):
            replace(MAP, form=Form.GUARDED, later=()).with_move(MOVE)
        with self.assertRaisesRegex(ClusterMapError, "its form is guarded"):
            replace(MAP, form=Form.GUARDED, later=(), moved=NAME)

    def test_clients(self) -> None:
        """A map may say how many there are, or not."""
        counted = MAP.with_move(MOVE._replace(clients=250))
        self.assertEqual(ClusterMap.from_json(counted.to_json()), counted)
        self.assertEqual(json.loads(counted.to_json())["move"]["clients"], 250)
        self.assertNotIn("clients", json.loads(MAP.with_move(MOVE).to_json())["move"])
        for wrong in (0, -1, True, "250", 2.5, None):
            with self.subTest(wrong):
                document = json.loads(counted.to_json())
                self.refuse(document, {**document["move"], "clients": wrong})

    def test_whose_clients_are_waited_for(self) -> None:
        """At the source, if nothing but moves has changed."""
        other = Moving("/x", OTHER, "b", "", "c")
        holds = MAP.with_move(MOVE)
        for before, now, source in (
            (MAP, holds, "a"),
            (holds, holds.with_move(MOVE._replace(has_switched=True)), "a"),
            (holds, holds.with_move(None), "a"),
            (holds, holds.with_move(None).with_move(other), "b"),
            (MAP, holds.with_move(None), ""),
            (MAP, MAP, ""),
            (MAP, MAP.with_leaving("c").with_move(MOVE), ""),
            (holds, holds.with_move(None).with_leaving("c"), ""),
            (holds, holds.with_hosts({"a": "elsewhere:1"}), ""),
            (holds, holds.with_epoch({"a": 2}, []), ""),
        ):
            with self.subTest(before=before, now=now):
                move = now.move_since(before)
                self.assertEqual("" if move is None else move.source, source)

    def test_damaged(self) -> None:
        document = json.loads(MAP.with_move(MOVE).to_json())
        for key in document["move"]:
            for value in OTHER_VALUES:
                with self.subTest(key=key, value=value):
                    self.refuse(document, {**document["move"], key: value})
            self.refuse(document, {each: value for each, value in document["move"].items() if each != key})
        for value in (*OTHER_VALUES, {**document["move"], "more": 1}, {**document["move"], "from": ["a"]}):
            self.refuse(document, value)
        for value in (each for each in OTHER_VALUES if each != ""):
            with self.subTest(value), self.assertRaises(ClusterMapError):
                ClusterMap.from_json(json.dumps({**document, "moved": value}).encode())

    def refuse(self, document: object, move: object) -> None:
        with self.assertRaises(ClusterMapError) as caught:
            ClusterMap.from_json(json.dumps({**document, "move": move}).encode())  # type: ignore[dict-item]
        self.assertLess(len(str(caught.exception)), 1000, "a message for people")
