"""An established connection on an asyncio loop: one thread sends, so that none hands over to another."""

from __future__ import annotations

import time

from parkazoo.engine.ports import Reply
from parkazoo.protocol.steps import WireRequest
from parkazoo.wire.exchange import OPEN
from parkazoo.wire.link import MOST_IN_FLIGHT, MOST_UNSENT_BYTES, Link


class AsyncioLink(Link):
    """Sends at once while nothing is on its way; otherwise once in a turn of the loop."""

    _unnoted = 0  # bytes that wait for the end of this turn

    def flush(self) -> None:
        """Send. Only now it counts as sent: the turn may have been long, and a server cannot answer before."""
        if self._unnoted:
            self._alive.sent(time.monotonic(), self._unnoted)
            self._unnoted = 0
        super().flush()

    def send(self, request: WireRequest, reply: Reply | None, body: bytes) -> bool:
        """Send, keeping the order of requests; False if this is not the time."""
        client, exchange, unsent = self._client, self._exchange, self._unsent
        in_flight = len(self._pending)
        is_full = in_flight >= MOST_IN_FLIGHT or len(unsent) >= MOST_UNSENT_BYTES
        if is_full or exchange.state != OPEN or self._backlog or client.is_renewing:
            return False
        data = exchange.request(request, reply, body)
        if in_flight or unsent or self._is_blocked or self._is_signalled:
            unsent += data
            self._unnoted += len(data)
            self.wake()
            return True
        self._alive.sent(time.monotonic(), len(data))
        try:
            sent = self._sock.send(data)
        except OSError:  # it would block; or what broke it is met again when the loop sends
            sent = 0
        if sent < len(data):
            unsent += data[sent:]
            self.wake()
        return True
