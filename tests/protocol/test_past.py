"""Reads that are looked at while another thread changes what a client remembers of its own past."""

from __future__ import annotations

import unittest
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any
from unittest import mock

from parkazoo.protocol import past as module
from parkazoo.protocol.past import Change, Past


class Table(dict[str, Change]):
    """Another thread does something before one looks into it, or after something was taken out."""

    other: Callable[[], object] | None = None

    def get(self, path: str, default: Any = None) -> Any:
        self._run_other()
        return super().get(path, default)

    def __delitem__(self, path: str) -> None:
        super().__delitem__(path)
        self._run_other()

    def _run_other(self) -> None:
        other, self.other = self.other, None
        if other is not None:
            other()


class TestForgetting(unittest.TestCase):
    """A change falls out of the tables, as another one begins: reads of its path stay behind it."""

    def setUp(self) -> None:
        patch = mock.patch.object(module, "PATHS_REMEMBERED", 2)
        patch.start()
        self.addCleanup(patch.stop)
        self.past = Past(2, nullcontext())
        self.named, self.below = self.past._named, self.past._below = Table(), Table()
        for path in ("/a", "/b"):
            with self.past.begin((path,), 0):
                pass
        self.assertTrue(self.past.is_behind(1, "/a"))

    def forget(self) -> None:
        self.past.begin(("/c",), 0)
        self.assertNotIn("/a", self.past._named)

    def test_as_a_read_is_looked_at(self) -> None:
        self.below.other = self.forget
        self.assertTrue(self.past.is_behind(1, "/a"))

    def test_a_read_is_looked_at_meanwhile(self) -> None:
        found: list[bool] = []
        self.named.other = lambda: found.append(self.past.is_behind(1, "/a"))
        self.forget()
        self.assertEqual(found, [True])


class TestDistrust(unittest.TestCase):
    def test_until_each_ensemble_has_caught_up(self) -> None:
        past = Past(2, nullcontext())
        self.assertFalse(past.is_behind(0, "/a"))
        past.distrust()
        self.assertEqual([past.is_behind(each, "/a") for each in range(2)], [True, True])
        past.caught_up(0, past.count)
        self.assertEqual([past.is_behind(each, "/a") for each in range(2)], [False, True])

    def test_where_there_is_one(self) -> None:
        past = Past(1, nullcontext())
        past.distrust()
        self.assertFalse(past.is_behind(0, "/a"))
