"""Requests under way together, whose answers one thread takes."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from kazoo.exceptions import ConnectionLoss, SessionExpiredError
from kazoo.handlers.threading import KazooTimeoutError

from parkazoo.admin.clients import AGAIN_S
from parkazoo.types import AsyncResult

LOST = (ConnectionLoss, SessionExpiredError)
Issue = Callable[[], AsyncResult[Any]]


class _Sent(NamedTuple):
    issue: Issue
    then: Callable[[Any], None]
    is_write: bool


class Window:
    """Requests under way. A read whose connection was lost is sent again; of a write the caller is told.

    :param timeout_s: how long it waits for any answer.
    :ivar under_way: the number of requests without an answer.
    """

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        # No SimpleQueue: before Python 3.13 its get() waits for ever if the time is over when it begins to.
        self._answers: queue.Queue[tuple[_Sent, AsyncResult[Any]]] = queue.Queue()
        self._lost: list[_Sent] = []
        self._heard_at = time.monotonic()
        self._is_lossy = False
        self.under_way = 0

    def read(self, issue: Issue, then: Callable[[Any], None]) -> None:
        """
        :param issue: sends the request.
        :param then: called with the answer, or the error, by `wait`.
        """
        self._begin(_Sent(issue, then, False))

    def write(self, issue: Issue, then: Callable[[Any], None]) -> None:
        """As `read`."""
        self._begin(_Sent(issue, then, True))

    def wait(self) -> None:
        """Takes one answer.

        :raises KazooTimeoutError: none came in time.
        """
        again = min(self._timeout_s, AGAIN_S) if self._lost else self._timeout_s
        try:
            sent, result = self._answers.get(timeout=again)
        except queue.Empty:
            self._verify_alive()
            lost, self._lost = self._lost, []
            for each in lost:
                self._send(each)
            return
        answer: Any = result.exception if result.exception is not None else result.value
        self._is_lossy = isinstance(answer, LOST)
        if not self._is_lossy:
            self._heard_at = time.monotonic()
        else:
            self._verify_alive()
            if not sent.is_write:
                self._lost.append(sent)
                return
        self.under_way -= 1
        sent.then(answer)

    def drain(self) -> None:
        """Takes all answers."""
        while self.under_way:
            self.wait()

    def _verify_alive(self) -> None:
        if time.monotonic() - self._heard_at >= self._timeout_s:
            raise KazooTimeoutError(
                f"no answer within {self._timeout_s:g} s; it is safe to run the command again"
            ) from None

    def _begin(self, sent: _Sent) -> None:
        if not self.under_way and not self._is_lossy:
            self._heard_at = time.monotonic()
        self.under_way += 1
        self._send(sent)

    def _send(self, sent: _Sent) -> None:
        sent.issue().rawlink(lambda result: self._answers.put((sent, result)))
