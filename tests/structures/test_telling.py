"""The callbacks of a DistributedDict's changes."""

from __future__ import annotations

import logging
import threading
import unittest
from typing import Any
from unittest import mock

from kazoo.handlers.threading import SequentialThreadingHandler

from parkazoo.structures.local_copy import Entry
from parkazoo.structures.telling import Teller
from parkazoo.wire import workers
from tests.live.world import wait_until

LOG = logging.getLogger(__name__)


class TestTeller(unittest.TestCase):
    def setUp(self) -> None:
        self.teller = Teller(SequentialThreadingHandler(), lambda key, entry: entry, LOG)
        self.teller.lock = threading.RLock()
        self.teller.copy = mock.Mock(entries={})
        self.told: list[str] = []
        self.teller.add(lambda key, *values: self.told.append(key))

    def change(self, key: str) -> None:
        entry: Any = mock.Mock(spec=Entry)
        with self.teller.lock:
            before = self.teller.copy.entries.get(key)
            self.teller.copy.entries[key] = entry
            self.teller.changed(key, before)

    def test_a_signal_handlers_exception(self) -> None:
        """It comes before a thread is asked to tell: the next change has all told."""
        with (
            mock.patch.object(workers, "run_on", side_effect=KeyboardInterrupt),
            self.assertRaises(KeyboardInterrupt),
        ):
            self.change("a")
        self.change("b")
        wait_until(lambda: sorted(self.told) == ["a", "b"], "both are told")

    def test_changes_while_a_callback_runs(self) -> None:
        """One thread tells, each key in the end; those of a key become one."""
        at_work, go_on = threading.Event(), threading.Event()

        def wait(key: str, *values: object) -> None:
            at_work.set()
            go_on.wait(60)

        self.teller.add(wait)
        self.change("a")
        at_work.wait(60)
        for key in ("b", "a", "b", "c"):
            self.change(key)
        go_on.set()
        wait_until(lambda: sorted(self.told) == ["a", "a", "b", "c"], "all are told")
