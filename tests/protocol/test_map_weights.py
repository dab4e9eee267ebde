"""What decides where znodes live: the weights of a map, and what a later ParKazoo may write in it."""

from __future__ import annotations

import json

from parkazoo.protocol.cluster_map import ClusterMap
from tests.protocol.map_documents import GOOD, OTHER_VALUES, ReadCase, encoded, weighted, with_first


class TestWeights(ReadCase):
    def test_each_key_is_needed(self) -> None:
        for key in ("form", "epochs"):
            self.assert_refused(
                json.dumps({k: v for k, v in GOOD.items() if k != key}).encode(), f"missing.*{key}"
            )

    def test_the_highest_word_wins(self) -> None:
        placement = ClusterMap.from_json(encoded()).make_placement()
        # See test_placement, HIGHEST.
        self.assertEqual([placement.of_children(path) for path in ("/", "/app", "/app/jobs")], [0, 0, 1])

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
