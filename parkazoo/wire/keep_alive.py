"""When a connection is to be pinged, and when its server is lost. Pure: all times are handed in."""

from __future__ import annotations

import math

MOST_JITTER_S = 0.4


class KeepAlive:
    """Times of one clock, in seconds.

    :param read_timeout_s: a server that was asked and is silent for so long is lost.
    :param session_timeout_s: one that is silent for so long is lost, asked or not.
    """

    __slots__ = ("_asked_s", "_last_read_s", "_last_sent_s", "_read_timeout_s", "_session_timeout_s")

    def __init__(self, read_timeout_s: float, session_timeout_s: float, now_s: float) -> None:
        self._read_timeout_s = read_timeout_s
        self._session_timeout_s = session_timeout_s
        self._last_sent_s = self._last_read_s = now_s
        self._asked_s: float | None = None  # when the first was sent of what is without an answer

    def sent(self, now_s: float) -> None:
        """A request, or a ping."""
        self._last_sent_s = now_s
        if self._asked_s is None:
            self._asked_s = now_s

    def heard(self, now_s: float, is_waiting: bool) -> None:
        """Bytes have come.

        :param is_waiting: whether a request waited for an answer by then.
        """
        self._last_read_s = now_s
        self._asked_s = now_s if is_waiting else None

    def is_lost(self, now_s: float) -> bool:
        return now_s > min(self._patient_until_s, self._last_read_s + self._session_timeout_s)

    @property
    def _patient_until_s(self) -> float:
        """While this process does not run, it does not ask: that is not the server's silence."""
        if self._asked_s is None:
            return math.inf
        return max(self._asked_s + self._read_timeout_s / 2, self._last_read_s + self._read_timeout_s)

    @property
    def most_jitter_s(self) -> float:
        return min(MOST_JITTER_S, self._read_timeout_s / 4)

    def ping_at_s(self, jitter_s: float) -> float:
        """When to ping, if nothing is sent before.

        :param jitter_s: so much earlier; up to `most_jitter_s`.
        """
        return self._last_sent_s + self._read_timeout_s / 2 - jitter_s

    def look_at_s(self, jitter_s: float) -> float:
        """When to look again, whether to ping and whether the server is lost."""
        return min(self.ping_at_s(jitter_s), self._patient_until_s)
