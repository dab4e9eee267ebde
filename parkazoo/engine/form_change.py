"""How a client goes from one form of its map to the next (docs/design/protocol.md).

An operation works by one form from its beginning to its end. So when the client learns of a newer form, operations
that come begin by it, and those under way go on as they began. The client says the newer form when these have
ended. What does not end in time fails as if a connection had been lost.
"""

from __future__ import annotations

from collections.abc import Callable

from parkazoo.engine.driver import Driver
from parkazoo.engine.gate import Gate
from parkazoo.engine.ports import Runtime

GATE_POLL_S = 0.0005  # calls wait meanwhile
POLL_S = 0.005
# About a second. Not times: a process that is stopped meanwhile does not miss its operations' ends.
MOST_GATE_POLLS = 2000
MOST_POLLS = 200


class FormChange:
    """One such change. All of it is on the loop.

    :param gate: is shut until no thread is about to begin an operation by the older form.
    :param fail_waiting: fails the requests that wait for a connection.
    :param fail_older: has operations of the older form end at their next request.
    :param begin: from now on operations begin by the newer form.
    :param end: is called when nothing of the older form sends any more.
    :param is_patient: whether no operation fails for that: others can wait, or go on without it.
    """

    def __init__(
        self,
        runtime: Runtime,
        driver: Driver,
        gate: Gate,
        fail_waiting: Callable[[], None],
        fail_older: Callable[[], None],
        begin: Callable[[], None],
        end: Callable[[], None],
        is_patient: bool = False,
    ) -> None:
        self._runtime = runtime
        self._driver = driver
        self._gate = gate
        self._fail_waiting = fail_waiting
        self._fail_older = fail_older
        self._begin = begin
        self._end = end
        self._is_patient = is_patient
        self._polls = 0
        self._is_urgent = False
        gate.shut()
        runtime.call(self._await_threads)

    def hurry(self) -> None:
        """Wait for nothing that an ensemble has to answer."""
        self._is_urgent = True

    def _await_threads(self) -> None:
        self._polls += 1
        is_empty = self._gate.is_empty and self._driver.is_still
        if not is_empty and self._polls <= MOST_GATE_POLLS:
            self._runtime.call_later(GATE_POLL_S, self._await_threads)
            return
        self._polls = 0
        self._begin()
        fails = self._is_urgent or not is_empty  # a thread that is still there may come with an operation
        if fails:
            self._fail_older()
        if fails or not self._is_patient:
            self._fail_waiting()  # nothing of the newer form is there yet
        self._gate.open()
        self._await_older()

    def _await_older(self) -> None:
        self._polls += 1
        if self._driver.has_older:
            if (self._polls <= MOST_POLLS or self._is_patient) and not self._is_urgent:
                self._runtime.call_later(POLL_S, self._await_older)
                return
            self._fail_older()
            self._fail_waiting()
        self._end()
