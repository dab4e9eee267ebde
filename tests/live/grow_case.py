"""What the tests of growing maps share: a map of form grown on a and b, which may gain c."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

from parkazoo import ParKazooClient
from parkazoo.admin import find_whereabouts, grow_map, init_map, read_map
from parkazoo.admin.clients import AdminClient
from parkazoo.protocol.cluster_map import ClusterMap
from tests.handlers import make_handler
from tests.live.copies_case import CrashError
from tests.live.map_case import COMMAND_TIMEOUT_S, FEW_FENCES, MapCase, check_but_strangers
from tests.live.world import Seen, wait_until


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
def end_at_sleep(end: Callable[[], None]) -> Iterator[None]:
    """A command that waits for clients calls `end` before it looks again, in place of its first pause."""
    ends = iter([end])
    with mock.patch("parkazoo.admin.rise.time", mock.Mock(sleep=lambda seconds: next(ends, lambda: None)())):
        yield


class GrowCase(MapCase):
    def setUp(self) -> None:
        super().setUp()
        self.two = {"a": self.a, "b": self.b}
        self.map = init_map(self.a, self.two, form="grown")

    def grow(self, **options: Any) -> ClusterMap:
        return grow_map(self.a, {"c": self.c}, **options)

    def client(self) -> tuple[ParKazooClient, Seen]:
        """Its states are seen from its first CONNECTED on."""
        client = ParKazooClient(self.a, handler=make_handler())
        self.addCleanup(client.close)
        self.addCleanup(client.stop)
        client.start()
        states = Seen()
        client.add_listener(states)
        return client, states

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

    def at_once(self, *calls: Callable[[], Any]) -> list[Any]:
        """What each returns, or raises."""
        barrier = threading.Barrier(len(calls))
        results: list[Any] = [None] * len(calls)

        def run(index: int) -> None:
            barrier.wait()
            try:
                results[index] = calls[index]()
            except Exception as error:
                results[index] = error

        threads = [threading.Thread(target=run, args=(index,)) for index in range(len(calls))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(COMMAND_TIMEOUT_S)
        return results
