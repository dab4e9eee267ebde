"""A watch that looks again at its directory, which the one above has taken along to another ensemble."""

from __future__ import annotations

import unittest

from parkazoo.kazoo_private import Exists
from parkazoo.protocol.ops.watched import NO_CVERSION, _is_same_life
from parkazoo.protocol.placement import Place, mirror_of, mirror_path
from parkazoo.protocol.watches import DirectoryWatch
from parkazoo.protocol.where.places import NATIVE, directory
from parkazoo.types.znodes import ZnodeStat
from tests.fakes.member import STAT

NAME, SEAL = "0123456789abcdef" * 2, 100
OLD = Place(0, f"{mirror_path('/d')}/x%~y")
NEW = Place(1, f"{mirror_path('/d', NAME)}/x%~y")


class TestLives(unittest.TestCase):
    def look(self, home: Place, stat: ZnodeStat, seal: ZnodeStat | None = None) -> bool:
        """:param seal: the new mirror's stat, if that is to be asked."""
        self.watch = DirectoryWatch(
            "/d/x%~y/", print, lambda *_: None, lambda *_: None, "/d/x%~y", lambda *_: None
        )
        self.watch.seen_at, self.watch.home_czxid, self.watch.home_cversion = OLD, 7, 4
        looking = _is_same_life(self.watch, directory("/d/x%~y", home, NATIVE), stat)
        try:
            asked = next(looking)
            self.assertEqual(asked, ((home.ensemble, Exists(mirror_of(home.path), None)),))
            looking.send([seal])
        except StopIteration as stop:
            return bool(stop.value)
        raise AssertionError("it asks more")

    def test_it_stays(self) -> None:
        self.assertTrue(self.look(OLD, STAT._replace(czxid=7)))
        self.assertFalse(self.look(OLD, STAT._replace(czxid=8)))

    def test_made_again_elsewhere(self) -> None:
        """No move has made that mirror."""
        self.assertFalse(self.look(OLD._replace(ensemble=1), STAT._replace(czxid=7)))
        self.assertFalse(self.look(Place(1, "/d/x"), STAT._replace(czxid=7)))

    def test_it_has_moved(self) -> None:
        """What it had is older than the seal; a first child may have come since."""
        sealed = STAT._replace(mzxid=SEAL)
        for pzxid, cversion in ((SEAL - 1, 4), (SEAL + 1, NO_CVERSION)):
            self.assertTrue(self.look(NEW, STAT._replace(czxid=SEAL - 9, pzxid=pzxid, cversion=4), sealed))
            self.assertEqual((self.watch.seen_at, self.watch.home_cversion), (NEW, cversion))
        self.assertFalse(self.look(NEW, STAT._replace(czxid=SEAL + 1), sealed))
        self.assertFalse(self.look(NEW, STAT._replace(czxid=7), None))
