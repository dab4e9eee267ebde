"""How a client goes from one form of its map to the next (docs/design/growing.md).

An operation works by one form from its beginning to its end. So when the client learns of a newer form, those that
come are kept for a moment, those under way end, and then what was kept begins by the newer form. What does not end
in time fails as if a connection had been lost.
"""

from __future__ import annotations

from collections.abc import Callable

from kazoo.exceptions import ConnectionLoss

from parkazoo.engine.driver import Driver
from parkazoo.engine.gate import Gate
from parkazoo.engine.ports import Runtime

POLL_S = 0.005
MOST_POLLS = 200  # not a time: a process that is stopped meanwhile does not miss its operations' ends


class FormChange:
    """One such change. All of it is on the loop.

    :param gate: is shut until `begin_next` opens it. That is called when nothing of the older form is under way.
    """

    def __init__(self, runtime: Runtime, driver: Driver, gate: Gate, begin_next: Callable[[], None]) -> None:
        self._runtime = runtime
        self._driver = driver
        self._gate = gate
        self._begin_next = begin_next
        self._polls = 0
        self._is_urgent = False
        gate.shut()
        runtime.call(self._poll)

    def hurry(self) -> None:
        """Wait for nothing that an ensemble has to answer."""
        self._is_urgent = True

    def _poll(self) -> None:
        self._polls += 1
        is_quiet = self._gate.is_empty and self._driver.is_quiet
        is_over = self._polls > MOST_POLLS or (self._is_urgent and self._gate.is_empty)
        if not is_quiet and not is_over:
            self._runtime.call_later(POLL_S, self._poll)
            return
        if not is_quiet:
            self._driver.fail_all(ConnectionLoss)
        self._begin_next()
