"""A driver over members that keep what they are asked until the test answers."""

from __future__ import annotations

import threading
import unittest
from collections import deque
from typing import Any

from kazoo.exceptions import ConnectionLoss

from parkazoo.engine.driver import Driver
from parkazoo.protocol.placement import Placement
from parkazoo.protocol.subject import Subject, error_about
from tests.explore.alone import make_context
from tests.fakes.result import Result

PLACEMENT = Placement(3)


class AskedMember:
    """Once it fails, it answers with an error before submit() returns, as a closed connection does.

    :ivar waiting: the replies to requests without an answer.
    """

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.waiting: deque[Any] = deque()
        self.is_failing = False

    def submit(self, request: Any, reply: Any) -> None:
        self.requests.append(request)
        if not self.is_failing:
            self.waiting.append(reply)
        elif reply is not None:
            reply.set_exception(ConnectionLoss())

    def fail(self, subject: Subject | None = None) -> None:
        self.is_failing = True
        while self.waiting:
            error = ConnectionLoss() if subject is None else error_about(ConnectionLoss, subject)
            self.waiting.popleft().set_exception(error)


class AskedTest(unittest.TestCase):
    def setUp(self) -> None:
        self.members = [AskedMember() for _ in range(3)]
        self.driver = Driver(make_context(PLACEMENT), self.members, threading.Lock)

    def issue(self, *requests: Any) -> list[Result]:
        results = [Result() for _ in requests]
        for request, result in zip(requests, results, strict=True):
            self.driver.call(request, result)
        return results

    def fail_members(self, subject: Subject | None = None) -> None:
        for member in self.members:
            member.fail(subject)

    @property
    def sent(self) -> int:
        return sum(len(member.requests) for member in self.members)

    def take(self) -> Any:
        """The reply to the oldest request that waits at a member."""
        return next(member.waiting.popleft() for member in self.members if member.waiting)
