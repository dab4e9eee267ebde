"""What a client knows of where things are."""

from __future__ import annotations

import unittest

from parkazoo.protocol import resolver as module
from parkazoo.protocol.placement import Directory, Place, Placement
from parkazoo.protocol.resolver import Resolver
from tests.explore.alone import find_directory

PLACEMENT = Placement(3)
MIRRORED, NATIVE = find_directory(PLACEMENT, False), find_directory(PLACEMENT, True)


class TestKnown(unittest.TestCase):
    def setUp(self) -> None:
        self.resolver = Resolver(PLACEMENT)

    def test_native(self) -> None:
        d = self.resolver.known(NATIVE)
        home = PLACEMENT.home(NATIVE)
        self.assertEqual(d, Directory(NATIVE, home, home, True))

    def test_mirrored(self) -> None:
        d = self.resolver.known(MIRRORED)
        self.assertEqual(d.home, PLACEMENT.home(MIRRORED))
        mirror = Place(PLACEMENT.of_children(MIRRORED), f"/parkazoo/mirrors/%2F{MIRRORED[1:]}")
        self.assertEqual((d.mirror, d.is_native), (mirror, False))
        self.assertEqual(d.pin, f"{MIRRORED}/.parkazoo")
        self.assertEqual(d.mark("m"), f"{MIRRORED}/.parkazoo/m")

    def test_worked_out_once(self) -> None:
        """Also for several clients of a process."""
        self.assertIs(Resolver(PLACEMENT).known(MIRRORED), self.resolver.known(MIRRORED))

    def test_no_place(self) -> None:
        with self.assertRaises(ValueError):
            self.resolver.known("/\ud800")

    def test_find_asks_nothing_yet(self) -> None:
        with self.assertRaises(StopIteration) as found:
            next(self.resolver.find(MIRRORED))
        self.assertEqual(found.exception.value, self.resolver.known(MIRRORED))


class TestMirrors(unittest.TestCase):
    def setUp(self) -> None:
        self.resolver = Resolver(PLACEMENT)

    def test_forget(self) -> None:
        self.resolver.remember_promoted("/a")
        self.resolver.remember_promoted("/a/b")
        self.resolver.forget("/a")
        self.assertEqual([self.resolver.is_promoted(path) for path in ("/a", "/a/b")], [False, True])

    def test_forget_all(self) -> None:
        for path in ("/a", "/a/b", "/a/b/c", "/ab"):
            self.resolver.remember_promoted(path)
        self.resolver.forget_all("/a")
        known = [path for path in ("/a", "/a/b", "/a/b/c", "/ab") if self.resolver.is_promoted(path)]
        self.assertEqual(known, ["/ab"])

    def test_a_mirror_that_has_come(self) -> None:
        self.resolver.remember_childless("/a")
        self.assertTrue(self.resolver.is_childless("/a"))
        self.resolver.remember_promoted("/a")
        self.assertFalse(self.resolver.is_childless("/a"))

    def test_bounded(self) -> None:
        bound = module.PROMOTED_REMEMBERED
        for number in range(bound + 10):
            self.resolver.remember_promoted(f"/{number}")
        self.assertTrue(self.resolver.is_promoted(f"/{bound + 9}"))
        self.assertFalse(self.resolver.is_promoted("/0"))
        self.resolver.forget_all("/")
        for number in range(module.CHILDLESS_REMEMBERED + 1):
            self.resolver.remember_childless(f"/{number}")
        self.assertFalse(self.resolver.is_childless("/0"))
