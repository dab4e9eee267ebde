"""Crashes between two requests of an operation: what comes between a client's operations and its members."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from parkazoo import ParKazooClient


class CrashError(Exception):
    """Raised instead of an answer: the client that waited for it is gone."""


class NoReply:
    """Drops the answer to a request of a client that is gone."""

    def set(self, value: Any = None) -> None: ...
    def set_exception(self, exception: Exception) -> None: ...


class Crashes:
    """Stands between a client's operations and its members; the client does one operation at a time."""

    def __init__(self, client: ParKazooClient) -> None:
        session: Any = client._session
        session.driver.members = tuple(CrashingMember(member, self) for member in session.driver.members)
        self._armed = Armed()
        self._steps = 0
        self.at_step = 0
        self.is_held = False

    @contextmanager
    def armed(self, armed: Armed) -> Iterator[None]:
        """Do that to the next operation."""
        self._steps, self.at_step, self.is_held, self._armed = 0, 0, False, armed
        try:
            yield
        finally:
            self._armed = Armed()

    def submit(self, member: Any, request: Any, reply: Any) -> None:
        armed = self._armed
        self._steps += 1
        if armed.crash and self._steps >= armed.crash:
            self.at_step = armed.crash
            if self._steps == armed.crash and armed.is_sent:
                member.submit(request, NoReply())
            reply.set_exception(CrashError())
        elif self._steps == armed.hold:
            self.is_held = True
            threading.Timer(armed.hold_s, member.submit, (request, reply)).start()
        else:
            member.submit(request, reply)


class Armed(NamedTuple):
    """What becomes of an operation at which steps, counted from 1; 0 is never.

    :param is_sent: whether the request of that step is sent before the crash.
    :param hold: where it is held up, as if its process had been stopped.
    """

    crash: int = 0
    is_sent: bool = False
    hold: int = 0
    hold_s: float = 0.0


class CrashingMember(NamedTuple):
    member: Any
    crashes: Crashes

    def submit(self, request: Any, reply: Any) -> None:
        self.crashes.submit(self.member, request, reply)
