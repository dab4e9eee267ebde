"""What decides where znodes live: the format of a map, its weights, and what a later ParKazoo may write in it."""

from __future__ import annotations

import json

from parkazoo.errors import ClusterMapError
from parkazoo.protocol.cluster_map import ClusterMap
from tests.protocol.map_documents import FORMAT_1, GOOD, OTHER_VALUES, ReadCase, encoded, weighted, with_first


class TestFormats(ReadCase):
    def test_format_1(self) -> None:
        """It stays what it was, whatever is changed in it."""
        found = ClusterMap.from_json(json.dumps(FORMAT_1).encode())
        self.assertEqual((found.format, found.hash, found.shares), (1, "sha256", (1, 1)))
        self.assertEqual(json.loads(found.to_json()), FORMAT_1)
        moved = {**FORMAT_1, "epoch": 2, "ensembles": {"a": "h1:2181,h2:2181", "b": "h4:1"}}
        self.assertEqual(json.loads(found.with_hosts({"b": "h4:1"}).to_json()), moved)
        self.assertNotEqual(found, ClusterMap.from_json(encoded()))

    def test_format_1_has_its_own_keys(self) -> None:
        for key in ("form", "epochs"):
            self.assert_refused(json.dumps({**FORMAT_1, key: GOOD[key]}).encode(), f"unknown.*{key}")
            self.assert_refused(
                json.dumps({k: v for k, v in GOOD.items() if k != key}).encode(), f"missing.*{key}"
            )
        self.assert_refused(
            json.dumps({**FORMAT_1, "hash": GOOD["hash"]}).encode(), "rendezvous.*format 1.*sha256"
        )
        self.assert_refused(encoded(hash="sha256"), "'sha256'; in format 2 .*rendezvous-sha256")
        with self.assertRaisesRegex(ClusterMapError, "format 1 has no weights"):
            ClusterMap("5d3c", GOOD["ensembles"], ("a", "b"), "a", weights={"a": 2}, format=1)

    def test_the_format_decides_the_placement(self) -> None:
        old, new = (ClusterMap.from_json(json.dumps(each).encode()).make_placement() for each in (FORMAT_1, GOOD))
        # See test_placement, MODULO and HIGHEST.
        self.assertEqual([old.of_children(path) for path in ("/", "/app", "/app/jobs")], [1, 1, 0])
        self.assertEqual([new.of_children(path) for path in ("/", "/app", "/app/jobs")], [0, 0, 1])

    def test_weights(self) -> None:
        found = ClusterMap.from_json(weighted(a=0, b=3))
        self.assertEqual((found.shares, found.weights), ((0, 3), {"a": 0, "b": 3}))
        self.assertEqual(json.loads(found.to_json())["epochs"][0]["weights"], {"a": 0, "b": 3})
        self.assertEqual(ClusterMap.from_json(found.to_json()), found)
        placement = found.make_placement()
        self.assertEqual({placement.of_children(f"/{number}") for number in range(100)}, {1})
        self.assertNotEqual(found, ClusterMap.from_json(encoded()))
        self.assertEqual(ClusterMap.from_json(weighted(b=1, a=1)), ClusterMap.from_json(encoded()))

    def test_other_weights(self) -> None:
        for weight in (-1, 101, 1.0, 2.5, "1", True, False, None, [], 10**30):
            with self.subTest(weight):
                self.assert_refused(
                    weighted(a=1, b=weight), "weight of ensemble b is .*, not a whole number from 0 to 100"
                )
        self.assert_refused(weighted(a=0, b=0), "every ensemble would have weight 0")
        self.assert_refused(weighted(b=1), "no weight is given for ensemble a")
        for weight in (1, 2, None):
            self.assert_refused(
                weighted(a=1, b=1, c=weight), "a weight is given for 'c', which is not in the placement"
            )

    def test_of_a_later_parkazoo(self) -> None:
        first = GOOD["epochs"][0]
        self.assert_refused(encoded(form="later"), "form 'later'.* knows plain, .*: upgrade")
        self.assert_refused(
            encoded(form="grown", epochs=[first, {"epoch": 7, "new": 1}]), "unknown in 'epochs'.*new"
        )
        self.assert_refused(with_first(rules=[{"prefix": "/app", "together": True}]), "rules: upgrade")

    def test_damaged_epochs(self) -> None:
        first = GOOD["epochs"][0]
        for epochs in ([], [[]], [None], [first, 1]):
            self.assert_refused(encoded(epochs=epochs), "damaged .'epochs'")
        for key in first:
            self.assert_refused(encoded(epochs=[{k: v for k, v in first.items() if k != key}]), f"missing.*{key}")
            for value in OTHER_VALUES:
                if (key, value) == ("rules", []):
                    continue
                self.assert_refused(with_first(**{key: value}), "'epochs'|weight|has rules: upgrade")
        self.assert_refused(with_first(more=1), "unknown.*more")
        self.assert_refused(with_first(epoch=2), "the first of 'epochs' is 2")
        self.assert_refused(weighted(a=1, b=1).replace(b'"a": 1,', b'"a": 1, "a": 1,'), "'a' appears twice")
