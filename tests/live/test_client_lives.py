"""A long life: lost connections and expired sessions leave nothing behind in the client's process.

PARKAZOO_TEST_LIVES is the number of lost connections, a tenth of it that of expired sessions; ``make lives`` has
a thousand.
"""

from __future__ import annotations

import gc
import os
import threading
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from kazoo.exceptions import KazooException
from kazoo.retry import KazooRetry

from parkazoo.kazoo_private import CONNECTION_DROP, SESSION_EXPIRED
from tests.handlers import make_handler
from tests.live.world import LiveTest, Seen, wait_until
from tests.where_is import forget_places

DROPS = int(os.environ.get("PARKAZOO_TEST_LIVES", "50"))
EXPIRIES = DROPS // 10
WARM_UP = 10  # for what is made once, and caches
SLACK_BYTES = 64 * 1024  # of buffers and tables that have grown
SLACK_OBJECTS = 500
BYTES_A_LIFE = 200  # of what Python keeps: interned strings, counters that grow, the records of this test


class Figures:
    """What the process holds now."""

    def __init__(self) -> None:
        gc.collect()
        self.threads = threading.active_count()
        self.files = len(list(Path("/proc/self/fd").iterdir()))
        self.objects = len(gc.get_objects())
        self.bytes = tracemalloc.get_traced_memory()[0]
        self.resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def __str__(self) -> str:
        return (
            f"{self.threads} threads, {self.files} files, {self.objects} objects, "
            f"{self.bytes / 1024:.0f} KiB traced, {self.resident / 1024:.0f} KiB resident"
        )


class TestLives(LiveTest):
    def setUp(self) -> None:
        super().setUp()
        handler = make_handler()
        retry = KazooRetry(max_tries=-1, delay=0.01, max_delay=0.1, sleep_func=handler.sleep_func)
        self.client = self.joined(handler=handler, connection_retry=retry)
        self.root = self.new_root(self.client)
        self.directories = [self.directory(self.root, native) for native in (False, True)]
        for path in self.directories:
            self.client.ensure_path(f"{path}-empty")
            self.client.create(f"{path}/child", makepath=True)
        self.states = Seen()
        self.client.add_listener(self.states)
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)

    def live(self) -> None:
        """Some of everything: requests, watches of each kind, an ephemeral, a lock."""
        client = self.client
        for path in self.directories:
            for each in (path, f"{path}-empty"):
                client.get(each, watch=_nothing)
                client.exists(f"{each}/none", watch=_nothing)
                client.get_children(each, watch=_nothing)
            with suppress(KazooException):
                client.delete(f"{path}/e")
            client.create(f"{path}/e", b"x", ephemeral=True)
        with client.Lock(f"{self.directories[0]}/lock"):
            pass
        self.states.clear()

    def drop(self) -> None:
        self.client._call(CONNECTION_DROP, None)
        wait_until(lambda: "SUSPENDED" in self.states and self.client.connected, "connected again")
        self.wait_for_members()

    def expire(self) -> None:
        old = self.client.client_id[0]
        self.client._call(SESSION_EXPIRED, None)
        wait_until(lambda: self.client.client_id[0] != old, "another session")
        wait_until(lambda: "LOST" in self.states and self.client.connected, "connected again")
        self.wait_for_members()

    def wait_for_members(self) -> None:
        for member in self.client.members.values():
            wait_until(lambda m=member: m.connected, "each member connected")

    def measure(self, count: int, happen: Callable[[], None]) -> None:
        name = happen.__name__

        def once() -> None:
            wait_until(lambda: not self.live(), "everything done once")
            happen()

        for _ in range(WARM_UP):
            once()
        before = self.settled(None)
        for _ in range(count):
            once()
        after = self.settled(before)
        print(f"{count} x {name}: before {before}; after {after}")
        self.assertLessEqual(after.threads, before.threads)  # those that have had nothing to do end
        self.assertLessEqual(after.files, before.files)  # so do sockets of clients before
        self.assertLess(after.bytes - before.bytes, BYTES_A_LIFE * count + SLACK_BYTES, "memory grows")
        self.assertLess(
            after.objects - before.objects, count + SLACK_OBJECTS, "an object or more for each life stays"
        )

    def settled(self, before: Figures | None) -> Figures:
        """Threads that have done their work may need a moment to end."""
        self.states.clear()
        self.client.cluster_map.make_placement().of_children.cache_clear()  # bounded, but not yet full
        forget_places()
        context = self.client._session.driver.context
        context.places._forget_directories()  # bounded too, as what is remembered of own changes
        for memory in (context.places._begun, context.past._named, context.past._below):
            memory.clear()
        figures = Figures()

        def is_quiet() -> bool:
            nonlocal figures
            last, figures = figures, Figures()
            limit = before or last
            return figures.threads <= limit.threads and figures.files <= limit.files

        wait_until(is_quiet, "threads and files as before")
        return figures

    def test_lost_connections(self) -> None:
        self.measure(DROPS, self.drop)

    def test_expired_sessions(self) -> None:
        self.measure(EXPIRIES, self.expire)

    def test_withdrawn_watches(self) -> None:
        """A program that takes its watches out of the client's tables leaves nothing of them."""
        session: Any = self.client._session
        children = self.client._child_watchers
        for number in range(DROPS):
            path = self.client.create(f"{self.root}/w{number}")
            self.client.get_children(path, watch=_nothing)
            wait_until(lambda p=path: children[p].discard(_nothing) is None and not children[p], "withdrawn")
            self.client.delete(path)
        wait_until(lambda: gc.collect() is not None and not len(session.watching), "no watch is remembered")


def _nothing(event: Any) -> None:
    """A watch."""
