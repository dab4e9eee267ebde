"""When a connection is to be pinged, and when its server is lost. Pure: all times are handed in."""

from __future__ import annotations

MOST_JITTER_S = 0.4
MANY_BYTES = 1 << 16  # under way


class KeepAlive:
    """Times of one clock, in seconds.

    Events prove that the server can be heard, not that it hears. An answer proves that it has heard a request, and
    that may be long ago. So a server is lost before a session can expire that it does not hear any more; unless
    answers go on coming, which are late: the more so, the more bytes are under way.

    :param read_timeout_s: a server that was asked and does not answer for so long is lost.
    :param session_timeout_s: a session that is not heard for so long expires.
    :param proved_s: the server has heard the client then, or later.
    """

    __slots__ = (
        "_asked_s",
        "_last_read_s",
        "_proved_bytes",
        "_proved_s",
        "_read_timeout_s",
        "_unproved_s",
        "last_sent_s",
        "sent_bytes",
    )

    def __init__(self, read_timeout_s: float, session_timeout_s: float, proved_s: float, now_s: float) -> None:
        self._read_timeout_s = read_timeout_s
        self._unproved_s = (read_timeout_s + session_timeout_s) / 2
        self._proved_s = proved_s
        self.last_sent_s = self._last_read_s = now_s
        self.sent_bytes = self._proved_bytes = 0
        self._asked_s: float | None = None  # when the oldest unanswered one was sent

    def sent(self, now_s: float, count: int) -> None:
        """A request, or a ping, of so many bytes."""
        self.last_sent_s = now_s
        self.sent_bytes += count
        if self._asked_s is None:
            self._asked_s = now_s

    def answered(self, now_s: float, is_waiting: bool) -> None:
        """An answer has come, or a part of one.

        :param is_waiting: whether another request waits for an answer.
        """
        self._last_read_s = now_s
        self._asked_s = now_s if is_waiting else None

    def proved(self, sent_s: float, sent_bytes: int) -> None:
        """All that was sent until then has been answered: so many bytes in all."""
        self._proved_s = sent_s
        self._proved_bytes = sent_bytes

    def is_lost(self, now_s: float) -> bool:
        return now_s > self._until_s

    @property
    def _until_s(self) -> float:
        is_much = self.sent_bytes - self._proved_bytes > MANY_BYTES
        patient_s = self._read_timeout_s if is_much else self._read_timeout_s / 2
        until_s = max(self._proved_s + self._unproved_s, self._last_read_s + patient_s)
        if self._asked_s is None:
            return until_s
        # While this process does not run, it does not ask: that is not the server's silence.
        asked_s = max(self._asked_s + self._read_timeout_s / 2, self._last_read_s + self._read_timeout_s)
        return min(until_s, asked_s)

    @property
    def most_jitter_s(self) -> float:
        return min(MOST_JITTER_S, self._read_timeout_s / 4)

    def ping_at_s(self, jitter_s: float) -> float:
        """When to ping, if nothing is sent before: earlier, if the last proof is older than what was sent last.

        :param jitter_s: so much earlier; up to `most_jitter_s`.
        """
        since_s = self.last_sent_s if self._asked_s is not None else min(self.last_sent_s, self._proved_s)
        return since_s + self._read_timeout_s / 2 - jitter_s

    def look_at_s(self, jitter_s: float) -> float:
        """When to look again, whether to ping and whether the server is lost."""
        return min(self.ping_at_s(jitter_s), self._until_s)
