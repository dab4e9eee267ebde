"""An ensemble that leaves the map: what the map says, and that no new pin names it."""

from __future__ import annotations

import json
import unittest
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kazoo.security import OPEN_ACL_UNSAFE

from parkazoo.errors import ClusterMapError
from parkazoo.kazoo_private import Create, Delete
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.context import Context
from parkazoo.protocol.epochs import Epoch, Form
from parkazoo.protocol.pin import decode_pin
from parkazoo.protocol.placement import Placement
from parkazoo.protocol.plans import PLANS
from parkazoo.protocol.where.places import Places, directory
from tests.explore.alone import make_context, must, outcome, prepared

MAP = ClusterMap(
    "c",
    {"a": "h1:1", "b": "h2:1", "c": "h3:1"},
    ("a", "b", "c"),
    "a",
    form=Form.GROWN,
    later=(Epoch(2, {"a": 1, "b": 1, "c": 2}),),
)
FIRST = Placement(2)
D = next(path for path in (f"/d{number}" for number in range(100)) if not FIRST.is_native(path))
B = FIRST.of_children(D)
A = 1 - B


class TestMap(unittest.TestCase):
    def test_two_steps(self) -> None:
        leaving = MAP.with_leaving("c")
        self.assertEqual((leaving.epoch, leaving.leaving, leaving.epochs[-1].weights["c"]), (2, {"c": 2}, 0))
        self.assertEqual(leaving.with_leaving("c"), leaving)
        gone = leaving.without("c")
        self.assertEqual((gone.gone, gone.leaving, {*gone.ensembles}), ({"c": "h3:1"}, {}, {"a", "b"}))
        self.assertEqual((gone.placement, gone.names), (MAP.placement, MAP.names))
        for before, after in ((MAP, leaving), (leaving, gone), (MAP, gone)):
            self.assertTrue(after.continues(before))
            self.assertEqual(ClusterMap.from_json(after.to_json()), after)
        self.assertFalse(leaving.continues(gone))
        self.assertEqual((leaving.parting, gone.parting), ({"c": 2}, {"c": 0}))

    def test_it_stays_with_a_weight(self) -> None:
        leaving = MAP.with_leaving("c")
        self.assertEqual(leaving.with_epoch({"a": 2, "b": 1, "c": 0}, ()).leaving, {"c": 2})
        back = leaving.with_epoch({"a": 1, "b": 1, "c": 1}, ())
        self.assertEqual((back.leaving, back.with_leaving("c").leaving), ({}, {"c": 4}))

    def test_nobody_gets_its_name(self) -> None:
        gone = MAP.with_leaving("c").without("c")
        with self.assertRaisesRegex(ClusterMapError, "^an ensemble c has left this cluster"):
            gone.with_ensembles({"c": "h9:1"})
        self.assertEqual(gone.with_ensembles({"d": "h3:1"}).names, ("a", "b", "c", "d"))

    def test_refused(self) -> None:
        leaving = MAP.with_leaving("c")
        for wrong, words in (
            ({"leaving": {"a": 1}}, "'a' cannot leave"),
            ({"leaving": {"x": 1}}, "'x' cannot leave"),
            ({"leaving": {"b": 1}}, "b leaves, and has a weight"),
            ({"gone": {"c": "h3:1"}}, "c is not in the placement"),
            ({"gone": {"c": "h3:1"}, "ensembles": {"a": "h1:1", "b": "h2:1"}}, "c leaves, and has left"),
            ({"gone": {"x": "h3:1"}}, "'x' cannot leave"),
            ({"gone": {"x": ""}}, "names no server"),
        ):
            with self.subTest(wrong), self.assertRaisesRegex(ClusterMapError, words):
                replace(leaving, **wrong)  # type: ignore[arg-type]
        document = json.loads(leaving.to_json())
        for key, value in (("leaving", {"c": True}), ("leaving", ["c"]), ("gone", {"c": 1}), ("gone", 7)):
            with self.subTest(key), self.assertRaisesRegex(ClusterMapError, "damaged"):
                ClusterMap.from_json(json.dumps({**document, key: value}).encode())


class TestPins(unittest.TestCase):
    """A client sees a pin of a directory without children; the directory is made again before it goes on."""

    def grown(self, marks: str, guess: int, leaving: Sequence[int], knows: bool = False) -> Context:
        context = make_context(FIRST, marks)
        context.names = ("a", "b")
        places = Places(FIRST, lambda path: guess, leaving=frozenset(leaving))
        if knows:
            places.remember(directory(D, places.known(D).home, B), 0)
        return context.risen(Form.GROWN, places)

    def make_again(self, leaving: Sequence[int]) -> tuple[Any, set[str]]:
        """:returns: what the create of the child is answered, and the ensembles that pins name."""
        model = prepared(FIRST, [D])
        first = self.grown("first", B, ())
        for request in (Create(D, b"", OPEN_ACL_UNSAFE, 0), Create(f"{D}/x", b"", OPEN_ACL_UNSAFE, 0)):
            must(outcome(model, PLANS[Create.type].operation(first, request)))
        must(outcome(model, PLANS[Delete.type].operation(first, Delete(f"{D}/x", -1))))
        deletes = PLANS[Delete.type].operation(first, Delete(D, -1))
        steps = next(deletes)
        has_mirror = f"/parkazoo/mirrors/{D.replace('/', '%2F')}"
        while has_mirror in model.nodes[B]:  # the pin is still there
            steps = deletes.send([model.execute(ensemble, request) for ensemble, request in steps])
        late = self.grown("late", A, leaving, knows=True)
        creates = PLANS[Create.type].operation(late, Create(f"{D}/y", b"", OPEN_ACL_UNSAFE, 0))
        sent, is_done = next(creates), False
        while True:
            is_about_to_pin = any(type(request).__name__ in {"Create", "Transaction"} for _, request in sent)
            if is_about_to_pin and any(ensemble == A for ensemble, _ in sent) and not is_done:
                is_done = True
                with self.assertRaises(StopIteration):
                    while True:
                        steps = deletes.send([model.execute(ensemble, request) for ensemble, request in steps])
                must(outcome(model, PLANS[Create.type].operation(first, Create(D, b"", OPEN_ACL_UNSAFE, 0))))
            try:
                sent = creates.send([model.execute(ensemble, request) for ensemble, request in sent])
            except StopIteration as stop:
                self.assertTrue(is_done)
                pins = [
                    decode_pin(znode.data)
                    for nodes in model.nodes
                    for path, znode in nodes.items()
                    if path.endswith("/.parkazoo")
                ]
                return stop.value, {pin.on for pin in pins if pin is not None}

    def test_it_is_not_made_again(self) -> None:
        self.assertEqual(self.make_again([B]), (f"{D}/y", {"ab"[A]}))

    def test_where_nothing_leaves_it_is(self) -> None:
        self.assertEqual(self.make_again([]), (f"{D}/y", {"ab"[B]}))
