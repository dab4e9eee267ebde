"""What a client remembers where pins decide."""

from __future__ import annotations

import unittest

from parkazoo.protocol.grown.places import NATIVE, Places, directory
from parkazoo.protocol.placement import Place, mirror_path
from tests.explore.grown import ADOPTED, guess

MIRRORED = directory("/a", Place(0, "/a"), 2)


def places() -> Places:
    return Places(ADOPTED, guess(1))


class TestPlaces(unittest.TestCase):
    def test_what_is_above_what_was_found(self) -> None:
        known = places()
        known.remember_found(directory("/a/b/c", Place(2, f"{mirror_path('/a')}/b/c"), NATIVE), 0)
        self.assertEqual([known.where(path) for path in ("/a", "/a/b", "/a/b/c")], [2, NATIVE, NATIVE])
        self.assertEqual(known.home("/a/b/c/x"), Place(2, f"{mirror_path('/a')}/b/c/x"))
        self.assertEqual([known.is_pinned(path) for path in ("/a", "/a/b", "/a/b/c")], [True, False, False])

    def test_what_is_known_of_those_above_stays(self) -> None:
        known = places()
        known.remember(MIRRORED, 0)
        known.remember_found(directory("/a/b", Place(0, "/a/b"), NATIVE), 0)
        self.assertEqual((known.where("/a"), known.where("/a/b")), (2, NATIVE))

    def test_the_nearest_whose_place_is_known(self) -> None:
        known = places()
        self.assertEqual(
            [known.nearest(path) for path in ("/a", "/a/b/c", "/zookeeper/x")], ["/a", "/a", "/zookeeper/x"]
        )
        known.remember(MIRRORED, 0)
        self.assertEqual([known.nearest(path) for path in ("/a/b", "/a/b/c")], ["/a/b"] * 2)
        known.remember(directory("/a/b", Place(2, f"{mirror_path('/a')}/b"), NATIVE), 0)
        self.assertEqual(known.nearest("/a/b/c"), "/a/b/c")
        known.drop("/a")  # so it is not known where /a/b has its children either
        self.assertEqual(known.nearest("/a/b/c"), "/a")

    def test_a_form_hands_on_what_it_knows(self) -> None:
        before, after = places(), places()
        before.remember(MIRRORED, 0)
        before.remember_childless("/new")
        after.inherit(before)
        self.assertEqual((after.where("/a"), after.is_childless("/new")), (2, False))

    def test_what_operations_of_the_older_form_change_is_forgotten(self) -> None:
        before, between, after = places(), places(), places()
        before.remember(MIRRORED, 0)
        between.inherit(before)
        after.inherit(between)
        before.forget("/a")
        self.assertEqual([each.is_known("/a") for each in (before, between, after)], [False] * 3)
        after.remember(MIRRORED, 0)
        self.assertFalse(after.is_known("/a"))  # what was asked before that
