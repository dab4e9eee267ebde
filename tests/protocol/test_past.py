"""What a client remembers of its own past, also as another thread changes it while a read is looked at."""

from __future__ import annotations

import unittest
from collections.abc import Callable
from contextlib import nullcontext, suppress
from typing import Any
from unittest import mock

from kazoo.exceptions import ConnectionLoss, NodeExistsError, NoNodeError
from kazoo.protocol.states import ZnodeStat
from kazoo.security import OPEN_ACL_UNSAFE

from parkazoo.kazoo_private import Create, Delete, Exists, GetData
from parkazoo.protocol import past as module
from parkazoo.protocol.ops.creates import create
from parkazoo.protocol.past import Change, Past
from parkazoo.protocol.pin import Pin, encode_pin
from parkazoo.protocol.placement import Placement
from parkazoo.protocol.where.places import NATIVE
from tests.explore.alone import make_context, make_grown
from tests.explore.scenario import Knows

PLACEMENT = Placement(3)
STAT = ZnodeStat(1, 1, 1, 1, 0, 1, 0, 0, 0, 1, 1)


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


class TestUnsent(unittest.TestCase):
    """A change that has no answer may have been given up, and never be sent."""

    def test_it_does_not_stand_for_an_earlier_one(self) -> None:
        past = Past(2, nullcontext())
        with past.begin(("/a/x",), 0):
            pass
        change = past.begin(("/b",), 1)
        self.assertEqual([past.is_behind(1, path) for path in ("/", "/a", "/b")], [True, True, False])
        with change:
            pass
        self.assertEqual([past.is_behind(1, path) for path in ("/", "/a", "/b")], [False, False, False])

    def test_it_fails(self) -> None:
        past = Past(2, nullcontext())
        with past.begin(("/a/x",), 0):
            pass
        change = past.begin(("/b",), 1)
        past.caught_up(1, past.count)
        with suppress(ConnectionLoss), change:
            raise ConnectionLoss
        self.assertEqual([past.is_behind(1, path) for path in ("/", "/b")], [True, True])


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


class TestACreateOnAGuess(unittest.TestCase):
    """Another ensemble than the guess may answer that the znode exists. Only that one has been written to."""

    def run_create(self, guess: int) -> tuple[set[int], Past]:
        """The ensembles that were written to. The pin names the third one."""
        context = make_grown(make_context(PLACEMENT), Placement(1), Knows(lambda path: guess))
        context.past.distrust()
        creating = create(context, Create("/d/x", b"", OPEN_ACL_UNSAFE, 0))
        answers: list[Any] | None = None
        written = set[int]()
        with self.assertRaises(NodeExistsError):
            while True:
                steps = next(creating) if answers is None else creating.send(answers)
                written |= {ensemble for ensemble, request in steps if isinstance(request, (Create, Delete))}
                answers = [self.answer(ensemble, request) for ensemble, request in steps]
        return written, context.past

    @staticmethod
    def answer(ensemble: int, request: object) -> object:
        if isinstance(request, GetData):
            return encode_pin(Pin(1, 1), "e2"), STAT
        if isinstance(request, Exists):
            return STAT
        return NodeExistsError() if isinstance(request, Create) and ensemble == 2 else NoNodeError()

    def test_who_is_behind(self) -> None:
        for guess in (NATIVE, 0, 1, 2):
            with self.subTest(guess):
                written, past = self.run_create(guess)
                caught_up = {each for each in range(3) if not past.is_behind(each, "/elsewhere")}
                self.assertLessEqual(caught_up, written)
