"""What a client remembers where pins decide."""

from __future__ import annotations

import unittest
from collections.abc import Callable
from itertools import product
from unittest import mock

from parkazoo.protocol.placement import CERTAIN, GUESS, HINT, PINNED, Directory, Place, Placement, mirror_path
from parkazoo.protocol.where import places as module
from parkazoo.protocol.where.places import NATIVE, Places, directory
from tests.explore.alone import find_directory
from tests.explore.grown import ADOPTED, guess
from tests.interruption import each_interruption
from tests.where_is import where_is

MIRRORED = directory("/a", Place(0, "/a"), 2)


def places() -> Places:
    return Places(ADOPTED, guess(1))


def where(known: Places, path: str) -> int:
    d = known.known(path)
    return NATIVE if d.is_native else d.mirror.ensemble


class TestPlaces(unittest.TestCase):
    def test_what_is_above_what_was_found(self) -> None:
        known = places()
        known.remember_found(directory("/a/b/c", Place(2, f"{mirror_path('/a')}/b/c"), NATIVE), 0)
        self.assertEqual([where(known, path) for path in ("/a", "/a/b", "/a/b/c")], [2, NATIVE, NATIVE])
        self.assertEqual(known.known("/a/b/c/x").home, Place(2, f"{mirror_path('/a')}/b/c/x"))
        self.assertEqual([known.known(path).certainty for path in ("/a", "/a/b", "/a/b/c")], [PINNED, HINT, HINT])

    def test_what_is_known_of_those_above_stays(self) -> None:
        known = places()
        known.remember(MIRRORED, 0)
        known.remember_found(directory("/a/b", Place(0, "/a/b"), NATIVE), 0)
        self.assertEqual((where(known, "/a"), where(known, "/a/b")), (2, NATIVE))

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

    def test_another_thread_finds_the_same_first(self) -> None:
        """A directory that stood below itself was looked through without end."""

        class Lock:
            """Whoever asks for it first waits until another thread has used it."""

            is_first = True

            def __enter__(self) -> None:
                if self.is_first:
                    self.is_first = False
                    known.known("/a/b")

            def __exit__(self, *_: object) -> None:
                """It is not held."""

        for path in ("/", "/a", "/a/b", "/a/b/c"):
            with self.subTest(path):
                known = Places(ADOPTED, guess(1), Lock())
                self.assertEqual(known.known(path), places().known(path))
                known.remember(MIRRORED, 0)
                known.drop("/a")
                self.assertEqual(known.known(path), places().known(path))

    def test_interrupted_while_it_forgets(self) -> None:
        """What is below is found anew by the next change of the directory, whatever was left of it."""

        def prepare() -> Callable[[], None]:
            self.known = places()
            self.known.remember(MIRRORED, 0)
            for path in ("/a/b", "/a/b/c", "/a/d/e/f"):
                self.known.known(path)
            return lambda: self.known.forget("/a")

        def check() -> None:
            self.known.forget("/a")
            self.known.remember(directory("/a", Place(0, "/a"), 1), self.known.count)
            fresh = places()
            fresh.remember(directory("/a", Place(0, "/a"), 1), 0)
            for path in ("/a/b", "/a/b/c", "/a/d/e/f"):
                self.assertEqual(self.known.known(path), fresh.known(path))

        self.assertGreater(each_interruption(prepare, check, {module.__file__}), 50)

    def test_a_form_hands_on_what_it_knows(self) -> None:
        before, after = places(), places()
        before.remember(MIRRORED, 0)
        before.remember_childless("/new")
        after.inherit(before)
        self.assertEqual((where(after, "/a"), after.is_childless("/new")), (2, False))

    def test_what_operations_of_the_older_form_change_is_forgotten(self) -> None:
        before, between, after = places(), places(), places()
        before.remember(MIRRORED, 0)
        between.inherit(before)
        after.inherit(between)
        before.forget("/a")
        self.assertEqual([each.known("/a").certainty for each in (before, between, after)], [GUESS] * 3)
        after.remember(MIRRORED, 0)
        self.assertEqual(after.known("/a").certainty, GUESS)  # what was asked before that

    def test_what_is_below_follows(self) -> None:
        """What is known of a directory changes where all below it is, whatever was asked of it before."""
        known = places()
        before = known.known("/a/b/c/x")
        self.assertIs(known.known("/a/b/c/x"), before)
        known.remember(directory("/a/b", Place(1, f"{mirror_path('/a')}/b"), 2), 0)
        self.assertEqual(known.known("/a/b/c/x").home, before.home)  # /a/b/c still has its children on 1
        known.remember(directory("/a/b/c", Place(2, f"{mirror_path('/a/b')}/c"), NATIVE), 0)
        self.assertEqual(known.known("/a/b/c/x").home, Place(2, f"{mirror_path('/a/b')}/c/x"))
        known.drop("/a/b/c")
        self.assertEqual(known.known("/a/b/c/x").home, before.home)

    def test_a_newer_epoch_moves_guesses(self) -> None:
        known = places()
        known.remember(MIRRORED, 0)
        guessed = known.known("/b").mirror
        known.decide_by(guess(0))
        self.assertEqual((guessed.ensemble, known.known("/b").mirror.ensemble), (1, 0))
        self.assertEqual(where(known, "/a"), 2)

    def test_bounded(self) -> None:
        known = places()
        with mock.patch.object(module, "REMEMBERED", 10):
            for number in range(50):
                known.known(f"/{number}/x")
                known.remember(known.known(f"/{number}"), 0)
        self.assertLess(len(known._directories), 30)
        self.assertEqual(known.known("/0").certainty, GUESS)


class TestPlainPlaces(unittest.TestCase):
    """Where the path decides."""

    placement = Placement(3)
    mirrored, native = find_directory(placement, False), find_directory(placement, True)

    def setUp(self) -> None:
        self.places = Places(self.placement)

    def test_native(self) -> None:
        home = where_is(self.placement, self.native).home
        self.assertEqual(self.places.known(self.native), Directory(self.native, home, home, True))

    def test_mirrored(self) -> None:
        d = self.places.known(self.mirrored)
        mirror = Place(self.placement.of_children(self.mirrored), f"/parkazoo/mirrors/%2F{self.mirrored[1:]}")
        self.assertEqual(
            (d.home, d.mirror, d.is_native), (where_is(self.placement, self.mirrored).home, mirror, False)
        )
        self.assertEqual((d.certainty, d.is_decided), (CERTAIN, False))
        self.assertEqual((d.pin, d.mark("m")), (f"{self.mirrored}/.parkazoo", f"{self.mirrored}/.parkazoo/m"))

    def test_as_the_specification_says(self) -> None:
        many = (f"/{'/'.join(names)}" for depth in range(5) for names in product("abcde", repeat=depth))
        for path in (*many, "/zookeeper", "/zookeeper/config"):
            d = self.places.known(path)
            self.assertEqual((d.home, d.mirror), where_is(self.placement, path)[1:3])

    def test_no_place(self) -> None:
        with self.assertRaises(ValueError):
            self.places.known("/\ud800")

    def test_a_mirror_that_was_seen(self) -> None:
        """Then a create takes one request. A native directory needs none."""
        self.places.remember_childless(self.mirrored)
        self.assertTrue(self.places.is_childless(self.mirrored))
        self.places.remember(self.places.known(self.mirrored), 0)
        self.assertTrue(self.places.known(self.mirrored).is_decided)
        self.assertFalse(self.places.is_childless(self.mirrored))
        self.places.forget(self.mirrored)
        self.assertFalse(self.places.known(self.mirrored).is_decided)
        self.places.remember(self.places.known(self.mirrored), 0)  # as it was before
        self.assertFalse(self.places.known(self.mirrored).is_decided)

    def test_childless_is_bounded(self) -> None:
        for number in range(module.CHILDLESS_REMEMBERED + 1):
            self.places.remember_childless(f"/{number}")
        self.assertFalse(self.places.is_childless("/0"))
