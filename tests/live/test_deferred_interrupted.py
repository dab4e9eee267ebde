"""A signal handler raises in the middle of calls of deferred writes, on real servers."""

from __future__ import annotations

import itertools
from contextlib import suppress
from functools import partial
from typing import Any

from parkazoo import DeferredError
from parkazoo.engine import driver
from parkazoo.engine.deferred import lanes, marker, own_operations, writes
from parkazoo.structures import deferred
from parkazoo.wire import exchange, link
from tests.interruption import interrupted, where_signals_come
from tests.live.test_deferred import DeferredCase
from tests.live.world import DEADLINE_S, wait_until

MODULES = (lanes, marker, own_operations, writes, driver, deferred, exchange, link)
FILES = [str(each.__file__) for each in MODULES]
STEP = 5  # of the points, each of which costs a connection
BATCH = 63  # one less than fill it


class TestInterrupted(DeferredCase):
    def check_put(self, behind: int) -> int:
        """Interrupt a put behind so many others, at each fifth point; how often that was."""
        for count, point in enumerate(itertools.count(1, STEP)):
            later = self.client.deferred(linger_s=DEADLINE_S)
            path = self.other.create(f"{self.root}/{behind}-{point}")
            tickets = [later.put(path, b"") for _ in range(behind)]
            is_over = not interrupted(partial(later.put, path, b""), point, FILES, where_signals_come)
            with suppress(DeferredError):
                later.close(DEADLINE_S)
            self.assertEqual(later.pending, 0)
            states = [ticket.state for ticket in tickets]
            done = states.count("committed")
            self.assertEqual(states, ["committed"] * done + ["dropped"] * (len(states) - done))
            self.assertIn(self.version(path) - done, (0, 1))  # the last one has no ticket
            self.client.retry(self.client.set, path, b"the client goes on")  # on new connections
            if is_over:
                return count
        raise AssertionError("it has no end")

    def test_put(self) -> None:
        for behind in (0, BATCH):
            with self.subTest(behind=behind):
                self.assertGreater(self.check_put(behind), 5)
        wait_until(lambda: not self.markers(), "the markers are gone")

    def test_a_barrier_keeps_its_errors(self) -> None:
        for point in itertools.count(1):
            later = self.client.deferred()
            self.assertTrue(later.put(f"{self.root}/missing", b"").wait(DEADLINE_S))
            told: list[BaseException | None] = []

            def barrier(later: Any = later, told: Any = told) -> None:
                try:
                    later.barrier(DEADLINE_S)
                except BaseException as error:
                    told += [error, error.__context__]
                    raise

            try:
                is_over = not interrupted(barrier, point, (deferred.__file__,), where_signals_come)
            except DeferredError:
                is_over = True
            with suppress(DeferredError):
                later.close(DEADLINE_S)
                self.assertTrue(any(isinstance(each, DeferredError) for each in told), point)
            if is_over:
                break
        self.assertGreater(point, 10)
