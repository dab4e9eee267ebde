"""A call that a signal handler's exception ends at any point; others are answered before all is given up."""

from __future__ import annotations

import threading
import unittest
from collections.abc import Callable
from functools import partial
from typing import Any

from kazoo.exceptions import ConnectionLoss, NoNodeError
from kazoo.security import OPEN_ACL_UNSAFE

from parkazoo.engine import driver as driver_module
from parkazoo.engine import gather, read_reply, serial
from parkazoo.engine.driver import Driver
from parkazoo.kazoo_private import Create, Delete, Exists, GetChildren2, GetData, SetData, Transaction
from parkazoo.protocol import context as context_module
from parkazoo.protocol import order
from parkazoo.protocol.context import Context
from parkazoo.protocol.placement import Placement
from parkazoo.protocol.where import places
from tests.explore.alone import find_directory, make_context, make_grown
from tests.explore.scenario import Knows
from tests.fakes.asked import PLACEMENT, AskedMember
from tests.fakes.result import Result
from tests.interruption import each_interruption, where_signals_come_but_to_generators

D = find_directory(PLACEMENT, False)
SEQUENCE = 2
FILES = {each.__file__ for each in (driver_module, gather, read_reply, serial, context_module, order, places)}
REQUESTS = (
    GetData(D, None),
    GetData(f"{D}/a", None),
    Exists(D, None),
    SetData(f"{D}/a", b"", -1),
    Create(f"{D}/s", b"", OPEN_ACL_UNSAFE, SEQUENCE),
    Create(f"{D}/a", b"", OPEN_ACL_UNSAFE, 0),
    GetChildren2(D, None),
    Delete(f"{D}/a", -1),
    Transaction([Create(f"{D}/b", b"", OPEN_ACL_UNSAFE, 0)]),
)


class Others:
    """The requests of other threads, and one that is interrupted.

    :param error: with which the servers answer.
    """

    def __init__(self, make: Callable[[], Context], request: Any, error: type[Exception]) -> None:
        self._make = make
        self._request = request
        self._error = error

    def prepare(self) -> Callable[[], object]:
        self.members = [AskedMember() for _ in range(PLACEMENT.ensembles)]
        self.driver = Driver(self._make(), self.members, threading.Lock)
        self.results = [Result() for _ in REQUESTS * 2]
        for request, result in zip(REQUESTS * 2, self.results, strict=True):
            self.driver.call(request, result)
        return partial(self.driver.call, self._request, Result())

    def check(self) -> None:
        self._answer_all()
        self.driver.fail_all(ConnectionLoss)
        self._answer_all()
        for result in self.results:
            assert len(result.told) == 1, result.told

    def _answer_all(self) -> None:
        while replies := [each for member in self.members for each in member.waiting]:
            for member in self.members:
                member.waiting.clear()
            for reply in replies:
                reply.set_exception(self._error())


class TestInterrupted(unittest.TestCase):
    def strike(self, make: Callable[[], Context]) -> None:
        for request in REQUESTS:
            for error in (NoNodeError, ConnectionLoss):
                others = Others(make, request, error)
                with self.subTest(type(request).__name__, path=getattr(request, "path", ""), error=error.__name__):
                    with self.assertNoLogs("parkazoo"):
                        points = each_interruption(
                            others.prepare, others.check, FILES, where_signals_come_but_to_generators
                        )
                    self.assertGreater(points, 5)

    def test_plain(self) -> None:
        self.strike(partial(make_context, PLACEMENT))

    def test_grown(self) -> None:
        self.strike(lambda: make_grown(make_context(PLACEMENT), Placement(1), Knows(lambda path: 1)))
