"""What the tests of growing maps share: a map of form grown on a and b, which may gain c."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from parkazoo import ParKazooClient
from parkazoo.admin import find_whereabouts, grow_map, init_map, read_map
from parkazoo.admin.clients import AdminClient
from parkazoo.fsck import check
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.placement import CLIENTS
from parkazoo.protocol.registration import encode_registration
from tests.live.copies_case import CrashError
from tests.live.map_case import FEW_FENCES, MapCase, check_but_strangers
from tests.live.world import wait_until


@contextlib.contextmanager
def crash_after(writes: int) -> Iterator[None]:
    """After so many writes of any kind."""
    left = itertools.count(writes, -1)

    def or_crash(write: Callable[..., bool]) -> Callable[..., bool]:
        def write_or_crash(*arguments: Any) -> bool:
            if next(left) == 0:
                raise CrashError
            return write(*arguments)

        return write_or_crash

    with (
        mock.patch.object(AdminClient, "make", or_crash(AdminClient.make)),
        mock.patch.object(AdminClient, "set", or_crash(AdminClient.set)),
        mock.patch.object(AdminClient, "commit", or_crash(AdminClient.commit)),
        mock.patch("parkazoo.admin.make.CREATES_AT_ONCE", FEW_FENCES // 2),
    ):
        yield


@contextlib.contextmanager
def end_at_sleep(end: Callable[[], None], module: str = "parkazoo.admin.rise") -> Iterator[None]:
    """A command that waits for clients calls `end` before it looks again, in place of its first pause."""
    ends = iter([end])
    pauses = mock.Mock(sleep=lambda seconds: next(ends, lambda: None)(), monotonic=time.monotonic)
    with mock.patch(f"{module}.time", pauses):
        yield


class GrowCase(MapCase):
    def setUp(self) -> None:
        super().setUp()
        self.two = {"a": self.a, "b": self.b}
        self.map = init_map(self.a, self.two, form="grown")

    def grow(self, **options: Any) -> ClusterMap:
        return grow_map(self.a, {"c": self.c}, **options)

    def follows(self, client: ParKazooClient, cluster_map: ClusterMap) -> None:
        wait_until(lambda: client.cluster_map == cluster_map, "the client works by the newest map")

    def place(self, path: str) -> str:
        """The name of the ensemble that holds the children."""
        found = find_whereabouts(read_map(self.a), path)
        return found.cluster_map.names[found.d.mirror.ensemble]

    def assert_published(self, *names: str) -> ClusterMap:
        """All copies are the same, and nothing is wrong; the map."""
        found = [self.plain["abc".index(name)].get("/parkazoo/map")[0] for name in names]
        self.assertEqual(len({*found}), 1, found)
        self.assertEqual(check_but_strangers(self.a), [])
        return ClusterMap.from_json(found[0])

    def assert_grown(self, names: str) -> ClusterMap:
        found = self.assert_published(*names)
        self.assertEqual((found.form, found.placement), (Form.GROWN, tuple(names)))
        wrong = {kind.name for kind, tally in check(self.a, grace_s=0).tallies.items() if tally.found}
        self.assertLessEqual(wrong, {"missing-structure"})  # only as many fences as a test needs
        return found

    def stay_behind(self, ensemble: int = 0, **more: str) -> Callable[[], None]:
        """A registration of a client that does not follow; call what this returns to have it end."""
        path = f"{CLIENTS}/0xabc"
        about = {"epoch": 1, "host": "web7", "pid": 4711, "since": "2026-11-20T10:00:00Z"} | more
        self.plain[ensemble].create(path, encode_registration(0xABC, about))
        return lambda: self.plain[ensemble].delete(path)
