"""fsck on real ensembles: each kind of damage made by hand, found, repaired, and found no more."""

from __future__ import annotations

import time
from unittest import mock

from kazoo.client import KazooClient
from kazoo.exceptions import NotEmptyError
from kazoo.security import OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from parkazoo.protocol import findings
from parkazoo.protocol.placement import CLIENTS, DEFERRED, DONE, FENCES, MIRRORS, PIN, escape, join
from parkazoo.protocol.rights import pin_acl
from tests.live.fsck_case import OURS_AND_MORE, FsckCase, new_mark

DAY_S = 24 * 3600


# ---- nothing wrong -------------------------------------------------------------------------


class FsckTest(FsckCase):
    def test_clean(self) -> None:
        d = self.mirrored()
        for name in ("a", "b/c/d", "e%/f"):
            self.client.create(f"{d.path}/{name}", makepath=True)
        self.client.set_acls(d.path, [*OPEN_ACL_UNSAFE, *READ_ACL_UNSAFE])
        self.client.delete(f"{d.path}/b", recursive=True)
        self.client.create(f"{d.path}/ephemeral", ephemeral=True)
        report = self.check()
        self.assertEqual(self.found(report), {})
        self.assertTrue(report.is_clean and report.is_complete)
        self.assertGreater(report.looked_at, 3 * 1024)

    def test_nothing_is_written(self) -> None:
        d = self.mirrored()
        self.client.create(f"{d.path}/child")
        zxids = [self.last_zxid(client) for client in self.plain]
        self.at_home(d).create(d.mark(new_mark("-1")))
        self.check()
        self.at_home(d).delete(d.mark(self.at_home(d).get_children(d.pin)[0]))
        sessions = 3 * 4 + 2 * 2  # the bootstrap's map reader; begin and end of each
        for before, client in zip(zxids, self.plain, strict=True):
            self.assertLess(self.last_zxid(client) - before, sessions)

    def last_zxid(self, client: KazooClient) -> int:
        """Of all writes; sessions are some too."""
        client.create("/zxid")
        stat = client.exists("/zxid")
        client.delete("/zxid")
        return int(stat.czxid) & 0xFFFFFFFF

    def test_unfinished_promotion_is_a_note(self) -> None:
        d = self.mirrored()
        self.make_pin(d)
        for repair in (False, True):
            report = self.check(repair)
            self.assertEqual(self.found(report), {"unfinished-promotions": [(self.name(d.home.ensemble), d.path)]})
            self.assertTrue(report.is_clean)
            self.assertEqual(report.remaining, [])
        self.client.create(f"{d.path}/child")
        self.assertEqual(self.found(self.check()), {})

    # ---- repaired ------------------------------------------------------------------------------

    def test_empty_mirror(self) -> None:
        d = self.mirrored()
        self.client.delete(d.path)
        self.at_mirror(d).create(d.mirror.path)
        self.is_repaired("empty-mirrors", [(self.name(d.mirror.ensemble), d.mirror.path)])

    def test_empty_mirror_of_an_ephemeral(self) -> None:
        d = self.mirrored()
        self.client.delete(d.path)
        self.client.create(d.path, ephemeral=True)
        self.at_mirror(d).create(d.mirror.path)
        self.is_repaired("empty-mirrors", [(self.name(d.mirror.ensemble), d.mirror.path)])
        self.assertTrue(self.client.exists(d.path))

    def test_missing_pin(self) -> None:
        d = self.mirrored()
        self.client.create(f"{d.path}/child", b"data")
        self.at_home(d).delete(d.pin)
        self.at_mirror(d).set_acls(d.mirror.path, OURS_AND_MORE)
        self.is_repaired("missing-pins", [(self.name(d.home.ensemble), d.path)])
        self.assertEqual(self.client.get(f"{d.path}/child")[0], b"data")
        self.assertEqual(self.at_mirror(d).get_acls(d.mirror.path)[0], OPEN_ACL_UNSAFE)
        with self.assertRaises(NotEmptyError):
            self.client.delete(d.path)

    def test_unfinished_delete(self) -> None:
        d = self.mirrored()
        self.client.create(f"{d.path}/child")
        self.client.delete(f"{d.path}/child")
        for version in ("-1", "0"):
            self.at_home(d).create(d.mark(new_mark(version)))
        self.at_mirror(d).delete(d.mirror.path)
        self.is_repaired("unfinished-deletes", [(self.name(d.home.ensemble), d.path)])
        self.assertFalse(self.client.exists(d.path))
        done = self.at_home(d).get_children(DONE)
        self.assertEqual(len(done), 1)
        self.at_home(d).delete(f"{DONE}/{done[0]}")

    def test_unfinished_delete_that_lost_to_a_set(self) -> None:
        d = self.mirrored()
        self.client.set(d.path, b"data")
        self.make_pin(d)
        self.at_home(d).create(d.mark(new_mark("0")))
        place = (self.name(d.home.ensemble), d.path)
        self.assertEqual(self.found(self.check()), {"unfinished-deletes": [place]})
        self.assertTrue(self.check(repair=True).is_clean)
        self.assertEqual(self.client.get(d.path)[0], b"data")
        self.assertEqual(self.found(self.check()), {"missing-mirrors": [place]})

    def test_delete_that_had_no_effect(self) -> None:
        """Its mirror is there: it is called off, with children or without."""
        d = self.mirrored()
        self.client.create(f"{d.path}/child")
        for intent in ("-1", "transaction", "7"):
            self.at_home(d).create(d.mark(new_mark(intent)))
            self.is_repaired("unfinished-deletes", [(self.name(d.home.ensemble), d.path)])
            self.assertEqual(self.client.get_children(d.path), ["child"])
        self.client.delete(f"{d.path}/child")
        self.at_home(d).create(d.mark(new_mark("-1")))
        self.is_repaired("unfinished-deletes", [(self.name(d.home.ensemble), d.path)])
        self.assertTrue(self.client.exists(d.path))

    def test_unfinished_transaction(self) -> None:
        """It is called off, also without its mirror."""
        d = self.mirrored()
        self.make_pin(d)
        self.at_home(d).create(d.mark(new_mark("transaction")))
        place = (self.name(d.home.ensemble), d.path)
        self.assertEqual(self.found(self.check()), {"unfinished-deletes": [place]})
        self.assertTrue(self.check(repair=True).is_clean)
        self.assertTrue(self.client.exists(d.path))
        self.assertEqual(self.found(self.check()), {"missing-mirrors": [place]})

    def test_differing_acls(self) -> None:
        """What a set_acls leaves that ends after its first step; and other ways."""
        d = self.mirrored()
        self.client.create(f"{d.path}/child")
        place = (self.name(d.mirror.ensemble), d.path)
        self.at_home(d).set_acls(d.home.path, OURS_AND_MORE)
        self.is_repaired("differing-acls", [place])
        self.assertEqual(self.at_mirror(d).get_acls(d.mirror.path)[0], OURS_AND_MORE)
        self.at_mirror(d).set_acls(d.mirror.path, OPEN_ACL_UNSAFE)
        self.is_repaired("differing-acls", [place])
        self.at_home(d).set_acls(d.pin, OPEN_ACL_UNSAFE)
        self.is_repaired("differing-acls", [place])
        self.assertEqual(self.at_home(d).get_acls(d.pin)[0], pin_acl(OURS_AND_MORE))

    def test_missing_structure(self) -> None:
        paths = sorted([CLIENTS, f"{FENCES}/17", f"{FENCES}/4", DONE])
        for path in paths:
            self.plain[1].delete(path, recursive=True)
        self.is_repaired("missing-structure", [("b", path) for path in paths])

    def test_stale_done_record(self) -> None:
        """Not before a day is over, by the servers' clock too."""
        path = f"{DONE}/{new_mark('-1')}"
        self.plain[1].create(path)
        self.assertEqual(self.found(self.check()), {})
        with mock.patch("parkazoo.admin.walk.time.time", lambda: time.time_ns() / 1e9 + 2 * DAY_S):
            report = self.check(repair=True)
        self.assertEqual(self.found(report), {"stale-done-records": [("b", path)]})
        self.assertIn("clock", report.remaining[0].remains)
        with mock.patch.object(findings, "STALE_AFTER_MS", -DAY_S * 1000):
            self.is_repaired("stale-done-records", [("b", path)])
        self.assertIsNone(self.plain[1].exists(path))

    def test_abandoned_marker(self) -> None:
        """Not before a day is over, and not while its client is there."""
        path, living = f"{DEFERRED}/gone", f"{DEFERRED}/living"
        self.addCleanup(self.plain[1].delete, DEFERRED, recursive=True)
        self.plain[1].create(path, b'{"client": "0x17", "batches": 0}', makepath=True)
        self.client.join()
        registered = self.plain[1].get(f"{CLIENTS}/{self.plain[1].get_children(CLIENTS)[0]}")[0]
        self.plain[1].create(living, registered)
        self.assertEqual(self.found(self.check()), {})
        with mock.patch.object(findings, "STALE_AFTER_MS", -DAY_S * 1000):
            self.is_repaired("abandoned-markers", [("b", path)])
        self.assertEqual(self.plain[1].get_children(DEFERRED), ["living"])

    # ---- told ----------------------------------------------------------------------------------

    def test_orphans(self) -> None:
        """Told; and when the directory has been made again, its children are joined to it."""
        d = self.mirrored()
        self.client.create(f"{d.path}/child", b"data")
        self.at_home(d).delete(d.home.path, recursive=True)
        self.is_told("orphans", [(self.name(d.mirror.ensemble), d.mirror.path)])
        self.client.create(d.path)
        self.is_repaired("missing-pins", [(self.name(d.home.ensemble), d.path)])
        self.assertEqual(self.client.get(f"{d.path}/child")[0], b"data")

    def test_foreign(self) -> None:
        d = self.mirrored()
        self.client.create(f"{d.path}/child")
        native = self.directory(self.root, is_native=True)
        self.client.create(native)
        home = self.home(native)
        places = [
            (0, "/parkazoo/strange"),
            (1, "/parkazoo/map/below"),
            (2, f"{FENCES}/1024"),
            (0, f"{FENCES}/5/below"),
            (1, f"{DONE}/strange"),
            (2, f"{MIRRORS}/strange"),
            (2, f"{MIRRORS}/%2F%"),
            (0, f"{MIRRORS}/{escape('/parkazoo/map')}"),
            (d.home.ensemble, d.mark("strange")),
            (d.mirror.ensemble, join(d.mirror.path, PIN)),
            (home.ensemble, join(home.path, PIN)),
        ]
        for ensemble, path in places:
            self.plain[ensemble].create(path)
        self.is_told("foreign", [(self.name(ensemble), path) for ensemble, path in places])
        report = self.check()
        (below,) = [found for found in report.remaining if found.path == f"{FENCES}/5/below"]
        self.assertIn("delete", below.remains)
        for ensemble, path in places:
            self.plain[ensemble].delete(path)

    def test_misplaced(self) -> None:
        d = self.mirrored()
        other = next(e for e in range(3) if e != self.placement.of_children("/"))
        elsewhere = next(e for e in range(3) if e != d.mirror.ensemble)
        native = self.directory(self.root, is_native=True)
        places = [
            (d.home.ensemble, join(d.home.path, "child")),
            (other, "/top"),
            (elsewhere, d.mirror.path),
            (other, f"{MIRRORS}/{escape(native)}"),
        ]
        for ensemble, path in places:
            self.plain[ensemble].create(path)
            self.plain[ensemble].create(f"{path}/below")
        self.is_told("misplaced", [(self.name(ensemble), path) for ensemble, path in places])
        for ensemble, path in places:
            self.plain[ensemble].delete(path, recursive=True)
