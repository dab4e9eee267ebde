"""When the function of a DataWatch is called, and when not."""

from __future__ import annotations

import threading
import time
import unittest
from types import SimpleNamespace
from typing import Any

from parkazoo.recipe.watchers import DataWatch
from tests.fakes.member import STAT

SEEN = STAT._replace(mzxid=7, version=1)


class Client:
    """One whose znode has that data and stat."""

    chroot = ""
    handler = SimpleNamespace(sleep_func=time.sleep, lock_object=threading.Lock)

    def get(self, path: str, watch: Any) -> Any:
        return b"1", SEEN

    def add_listener(self, listener: Any) -> None:
        """No state changes here."""


class TestDataWatch(unittest.TestCase):
    def test_what_is_new(self) -> None:
        """By mzxid; and by version, as another ensemble may give the same mzxid."""
        told: list[Any] = []
        watch = DataWatch(Client(), "/x", lambda data, stat: told.append(data))
        for data, stat in (
            (b"1", SEEN),
            (b"2", SEEN._replace(version=2)),
            (b"3", SEEN._replace(mzxid=6, version=3)),
            (None, None),
            (None, None),
        ):
            watch._call(None, (data, stat))
        self.assertEqual(told, [b"1", b"2", b"3", None])
