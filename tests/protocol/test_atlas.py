"""The map as the ensembles hold it."""

from __future__ import annotations

import json
import unittest
from dataclasses import replace
from typing import Any

from kazoo.exceptions import ConnectionLoss, NoAuthError, NoNodeError

from parkazoo.errors import ClusterMapError
from parkazoo.protocol.atlas import name_in, newer_of, read_copy
from parkazoo.protocol.cluster_map import ClusterMap
from tests.fakes.client import with_more
from tests.where_is import where_is

KNOWN = ClusterMap("test", {"a": "h:1", "b": "h:2", "c": "h:3"}, ("a", "b", "c"), "a", epoch=3)


class TestReadCopy(unittest.TestCase):
    def test_a_map(self) -> None:
        self.assertEqual(read_copy((KNOWN.to_json(), None), "h:1"), KNOWN)

    def test_none(self) -> None:
        self.assertIsNone(read_copy(NoNodeError(), "h:1"))

    def test_errors(self) -> None:
        """They name the server; what is no word of the map's state stays as it is."""
        newer = json.loads(KNOWN.to_json()) | {"format": 3}
        for answer, kind, words in (
            (NoAuthError(), ClusterMapError, "may not read /parkazoo/map on h:1: pass the cluster's identity"),
            ((b"{", None), ClusterMapError, "cannot use the cluster map at /parkazoo/map on h:1: it is damaged"),
            ((None, None), ClusterMapError, "cannot use the cluster map at /parkazoo/map on h:1: it is damaged"),
            ((json.dumps(newer).encode(), None), ClusterMapError, "upgrade ParKazoo"),
            (ConnectionLoss("lost"), ConnectionLoss, "lost"),
        ):
            with self.subTest(words), self.assertRaises(kind) as raised:
                read_copy(answer, "h:1")
            self.assertIn(words, str(raised.exception))


class TestNewerOf(unittest.TestCase):
    def check(self, words: str, **changes: Any) -> None:
        with self.assertRaises(ClusterMapError) as raised:
            newer_of(KNOWN, replace(KNOWN, **changes), "h:2")
        self.assertIn("/parkazoo/map on h:2", str(raised.exception))
        self.assertIn(words, str(raised.exception))

    def test_the_same(self) -> None:
        self.assertIs(newer_of(KNOWN, replace(KNOWN), "h:2"), KNOWN)

    def test_older(self) -> None:
        """Whatever it says."""
        for older in (replace(KNOWN, epoch=2), replace(KNOWN, epoch=1, placement=("c", "b", "a"), bootstrap="c")):
            self.assertIs(newer_of(KNOWN, older, "h:2"), KNOWN)

    def test_newer(self) -> None:
        moved: list[dict[str, Any]] = [{}, {"ensembles": {"a": "h:1,h:4", "b": "h:5", "c": "h:3"}}]
        for changes in moved:
            newer = replace(KNOWN, epoch=4, **changes)
            self.assertIs(newer_of(KNOWN, newer, "h:2"), newer)

    def test_of_another_cluster(self) -> None:
        for epoch in (2, 3, 4):
            self.check("is of cluster other, not test", cluster="other", epoch=epoch)

    def test_other_content(self) -> None:
        self.check("number 3 too", ensembles={"a": "h:1", "b": "h:2", "c": "h:4"})
        self.check("number 3 too", bootstrap="b")

    def test_another_placement(self) -> None:
        """No command changes that yet."""
        for changes in (
            {"placement": ("b", "a", "c")},
            {"bootstrap": "b"},
            {"weights": {"b": 2}},
            {"ensembles": {"a": "h:1", "b": "h:2"}, "placement": ("a", "b")},
            {"ensembles": {**KNOWN.ensembles, "d": "h:4"}, "placement": ("a", "b", "c", "d")},
            {
                "ensembles": {**KNOWN.ensembles, "d": "h:4"},
                "placement": ("d", "a", "b", "c"),
                "unweighted": ("c",),
            },
            {"ensembles": {"a": "h:1", "b": "h:2", "d": "h:3"}, "placement": ("a", "b", "d")},
            {"unweighted": ("c",)},
        ):
            with self.subTest(changes):
                self.check("map 4, places znodes otherwise than the client's map, number 3", epoch=4, **changes)

    def test_more_ensembles(self) -> None:
        """They have no weight, so nothing has another place. Perhaps two have come since."""
        grown = with_more(KNOWN, d="h:4")
        twice = with_more(grown, e="h:5", f="h:6")
        self.assertEqual(twice.unweighted, ("d", "e", "f"))
        for before, after in ((KNOWN, grown), (grown, twice), (KNOWN, twice)):
            self.assertIs(newer_of(before, after, "h:2"), after)
            self.assertIs(newer_of(after, before, "h:2"), after)
        for changes in (
            {"unweighted": ()},
            {"unweighted": (), "weights": {"d": 0}},
            {"weights": {"a": 2}},
        ):
            with self.subTest(changes), self.assertRaisesRegex(ClusterMapError, "places znodes otherwise"):
                newer_of(grown, replace(grown, epoch=5, **changes), "h:2")  # type: ignore[arg-type]

    def test_where_they_stand(self) -> None:
        """Without a weight, behind all that have one. No directory is there; all are where they were."""
        grown = with_more(replace(KNOWN, weights={"b": 3}), d="h:4", e="h:5")
        document = json.loads(grown.to_json())
        first = document["epochs"][0]
        self.assertEqual((first["weights"], grown.shares), ({"a": 1, "b": 3, "c": 1}, (1, 3, 1, 0, 0)))
        self.assertEqual(ClusterMap.from_json(grown.to_json()), grown)
        before, after = replace(KNOWN, weights={"b": 3}).make_placement(), grown.make_placement()
        for number in range(1000):
            self.assertEqual(where_is(after, f"/{number}"), where_is(before, f"/{number}"))
        for weights, name in (({"a": 1, "b": 1, "d": 1}, "c"), ({"b": 1, "c": 1}, "a")):
            first["weights"] = weights
            with self.assertRaisesRegex(ClusterMapError, f"no weight is given for ensemble {name}"):
                ClusterMap.from_json(json.dumps(document).encode())

    def test_more_ensembles_beside_the_bootstrap_ensemble(self) -> None:
        """It carries no znodes, and stays apart."""
        apart = ClusterMap("test", {"a": "h:1", "z": "h:9"}, ("a",), "z")
        grown = with_more(apart, b="h:2")
        self.assertIs(newer_of(apart, grown, "h:2"), grown)
        self.assertEqual(grown.names, ("a", "b", "z"))


class TestNameIn(unittest.TestCase):
    def record(self, found: Any) -> tuple[bytes, None]:
        return json.dumps(found).encode(), None

    def test_each(self) -> None:
        for name in KNOWN.ensembles:
            self.assertEqual(name_in(KNOWN, self.record(KNOWN.identity(name))), name)

    def test_none_of_them(self) -> None:
        for found in ({"cluster": "other", "name": "b"}, {"cluster": "test", "name": "d"}, {"cluster": "test"}, 5):
            with self.subTest(found), self.assertRaisesRegex(ClusterMapError, "are not ensemble"):
                name_in(KNOWN, self.record(found))

    def test_no_answer(self) -> None:
        for answer in (NoAuthError(), ConnectionLoss()):
            with self.assertRaises(type(answer)):
                name_in(KNOWN, answer)
        with self.assertRaisesRegex(ClusterMapError, "have lost their data"):
            name_in(KNOWN, NoNodeError())
