"""What the tests of fsck share: a cluster, and damage made by hand."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any
from unittest import mock

from kazoo.client import KazooClient
from kazoo.security import OPEN_ACL_UNSAFE, make_digest_acl

from parkazoo.fsck import Report, check
from parkazoo.local import LocalCluster
from parkazoo.protocol.pin import encode_pin
from parkazoo.protocol.placement import Directory
from parkazoo.protocol.rights import pin_acl
from tests.live.world import LiveTest
from tests.where_is import where_is

GRACE_S = 0.3


class FsckCase(LiveTest):
    """On a cluster of its own, which each test leaves clean: else the next one finds more than it expects."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.cluster = LocalCluster(ensembles=3, servers=1)
        cls.addClassCleanup(cls.cluster.stop)
        cls.cluster.start()

    def setUp(self) -> None:
        super().setUp()
        self.client = self.parkazoo()
        self.plain = [self.kazoo(ensemble) for ensemble in range(self.ensembles)]
        self.root = self.new_root(self.client)

    def tearDown(self) -> None:
        self.client.delete(self.root, recursive=True)

    def check(self, repair: bool = False, **options: Any) -> Report:
        return check(self.cluster.hosts, repair=repair, grace_s=GRACE_S, **options)

    def found(self, report: Report) -> dict[str, list[tuple[str, str]]]:
        """Kinds with ensembles and paths; notes too."""
        for tally in report.tallies.values():
            self.assertEqual(tally.found, len(tally.paths))
        return {
            kind.name: sorted((found.ensemble, found.path) for found in tally.paths)
            for kind, tally in report.tallies.items()
            if tally.found
        }

    def mirrored(self) -> Directory:
        """A new directory that is not native and has no child yet."""
        path = self.directory(f"{self.root}", is_native=False)
        while self.client.exists(path):
            path = self.directory(path, is_native=False)
        self.client.create(path)
        return where_is(self.placement, path)

    def at_home(self, d: Directory) -> KazooClient:
        return self.plain[d.home.ensemble]

    def at_mirror(self, d: Directory) -> KazooClient:
        return self.plain[d.mirror.ensemble]

    def make_pin(self, d: Directory) -> None:
        """As a promotion that is abandoned after it."""
        fence = self.at_mirror(d).exists(d.fence)
        self.at_home(d).create(d.pin, encode_pin(fence, self.name(d.mirror.ensemble)), pin_acl(OPEN_ACL_UNSAFE))

    def name(self, ensemble: int) -> str:
        return "abc"[ensemble]

    def is_repaired(self, kind: str, places: Sequence[tuple[str, str]]) -> None:
        """It is found, found again and repaired, and found no more."""
        report = self.check()
        self.assertEqual(self.found(report), {kind: sorted(places)})
        self.assertFalse(report.is_clean)
        self.assertEqual(len(report.remaining), len(places))
        self.is_no_less_true(report)
        report = self.check(repair=True)
        self.assertEqual(self.found(report), {kind: sorted(places)})
        self.assertTrue(report.is_clean, report.remaining)
        self.assertEqual(self.found(self.check()), {})

    def is_no_less_true(self, whole: Report) -> None:
        """What is said while one of the other ensembles cannot be asked is part of what is said with it."""
        away = next(name for name in "abc" if name not in {found.ensemble for found in whole.remaining})
        with mock.patch("parkazoo.admin.walk.find_away", lambda *arguments: {away: "it is away"}):
            report = self.check()
        seen = self.found(whole)
        for kind, places in self.found(report).items():
            self.assertLessEqual({*places}, {*seen[kind]})
        self.assertEqual((report.absent, report.is_complete, report.is_blind), ({away: "it is away"}, False, True))

    def is_told(self, kind: str, places: Sequence[tuple[str, str]]) -> None:
        """It is found, and left, with advice."""
        for repair in (True, False):
            report = self.check(repair)
            self.assertEqual(self.found(report), {kind: sorted(places)})
            self.assertFalse(report.is_clean)
            self.assertTrue(all(found.remains for found in report.remaining))


OURS_AND_MORE = [*OPEN_ACL_UNSAFE, make_digest_acl("stranger", "secret", all=True)]


def new_mark(intent: str) -> str:
    return f"{uuid.uuid4().hex}.{intent}"
