"""What an ensemble holds at /parkazoo/map, compared with the map that is published."""

from __future__ import annotations

import dataclasses
import json
import unittest

from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.map_copies import CopyKind, judge_copy, newest

PUBLISHED = ClusterMap("5d3c", {"a": "h1:1,h2:1", "b": "h3:1"}, ("a", "b"), "a", 3)


def changed(epoch: int, cluster: str = "5d3c", **ensembles: str) -> ClusterMap:
    return dataclasses.replace(
        PUBLISHED, epoch=epoch, cluster=cluster, ensembles={**PUBLISHED.ensembles, **ensembles}
    )


class JudgeTest(unittest.TestCase):
    def test_kinds(self) -> None:
        spaced = json.dumps(json.loads(PUBLISHED.to_json()), indent=7, sort_keys=True).encode()
        for data, kind, is_wrong, about in (
            (None, CopyKind.MISSING, False, "it is missing"),
            (PUBLISHED.to_json(), CopyKind.SAME, False, "it is the published one"),
            (spaced, CopyKind.SAME, False, "it is the published one"),
            (changed(2).to_json(), CopyKind.OLDER, False, "it is map 2, older than 3"),
            (changed(2, b="h4:1").to_json(), CopyKind.OLDER, False, "it is map 2, older than 3"),
            (changed(4).to_json(), CopyKind.NEWER, False, "it is map 4, newer than 3"),
            (
                changed(3, b="h4:1").to_json(),
                CopyKind.DIFFERING,
                True,
                "it is map 3 too, and says something else",
            ),
            (changed(3, "77aa").to_json(), CopyKind.FOREIGN, True, "it is of cluster 77aa"),
            (changed(9, "77aa").to_json(), CopyKind.FOREIGN, True, "it is of cluster 77aa"),
            (b"", CopyKind.DAMAGED, True, "it is damaged (not JSON: "),
            (b'{"format": 3}', CopyKind.DAMAGED, True, "it has format 3, which this ParKazoo does not know"),
        ):
            with self.subTest(about):
                copy = judge_copy(data, PUBLISHED)
                self.assertEqual((copy.kind, copy.is_wrong), (kind, is_wrong))
                self.assertTrue(copy.about.startswith(about), copy.about)
                self.assertEqual(copy.map is None, kind in {CopyKind.MISSING, CopyKind.DAMAGED})

    def test_another_history(self) -> None:
        """A primary that has gone back to a backup was changed, while the newer copy was away."""
        first = dataclasses.replace(PUBLISHED, epoch=1, form=Form.GROWN)
        away = first.with_epoch({"a": 1, "b": 9}, ())
        published = first.with_epoch({"a": 7, "b": 1}, ()).with_epoch({"a": 8, "b": 1}, ())
        for old in (first, first.with_epoch({"a": 7, "b": 1}, ())):
            self.assertIs(judge_copy(old.to_json(), published).kind, CopyKind.OLDER)
        copy = judge_copy(away.to_json(), published)
        self.assertEqual((copy.kind, copy.is_wrong), (CopyKind.DIFFERING, True))
        self.assertEqual(copy.about, "it is map 2, which map 3 does not follow")


class NewestTest(unittest.TestCase):
    def test_newest(self) -> None:
        maps = (changed(2), changed(5), changed(4), changed(9, "77aa"))
        self.assertEqual(newest(PUBLISHED, *(each.to_json() for each in maps), None, b"{"), changed(5))
        self.assertIs(newest(PUBLISHED), PUBLISHED)

    def test_of_one_epoch_the_first(self) -> None:
        self.assertIs(newest(PUBLISHED, changed(3, b="h4:1").to_json()), PUBLISHED)
