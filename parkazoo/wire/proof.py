"""What the answers on a connection prove: since when the server has heard its client."""

from __future__ import annotations

from collections import deque
from contextlib import AbstractContextManager

from parkazoo.wire.exchange import XID_MAX, Exchange, Pending
from parkazoo.wire.keep_alive import KeepAlive


class Proof:
    """A mark behind the last bytes sent. When all in front of it is answered, there is another mark.

    :param pending: the requests that wait for an answer, oldest first.
    :param lock: of the sent bytes.
    """

    def __init__(
        self, exchange: Exchange, pending: deque[Pending], alive: KeepAlive, lock: AbstractContextManager[object]
    ) -> None:
        self._exchange = exchange
        self._pending = pending
        self._alive = alive
        self._lock = lock
        self._mark: tuple[int, int] | None = None  # a request's xid, and so many pings
        self._sent = 0.0, 0  # when the last in front of the mark, and so many bytes

    def look(self) -> None:
        """On the loop: something was sent, or answered."""
        if self._mark is not None:
            if not self._is_answered(*self._mark):
                return
            self._alive.proved(*self._sent)
        with self._lock:
            self._mark = xid, pings = self._exchange.xid, self._exchange.pings
            self._sent = self._alive.last_sent_s, self._alive.sent_bytes
        if self._is_answered(xid, pings):
            self._alive.proved(*self._sent)
            self._mark = None

    def _is_answered(self, xid: int, pings: int) -> bool:
        if self._exchange.pongs < pings:
            return False
        return not self._pending or 0 < (self._pending[0][2] - xid) % XID_MAX < XID_MAX // 2
