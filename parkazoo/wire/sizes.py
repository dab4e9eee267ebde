"""Which requests a server may have taken for too large. Pure.

A server that is sent more than its `jute.maxbuffer` in one request ends the connection, without an answer to
anything. A client cannot ask for that limit. So when a server ends a connection, a request is suspected that waits
for an answer and is larger than any that the ensemble has answered:

* at once if it is larger than ZooKeeper's default limit;
* otherwise if that has happened several times, and no request so large was answered in between. Networks fail too.
"""

from __future__ import annotations

DEFAULT_LIMIT = 0xFFFFF  # ZooKeeper's default jute.maxbuffer, in bytes
NOTED_BYTES = 1 << 16  # no limit is so low
TIMES = 5


class Sizes:
    """The sizes of large requests to one ensemble, in bytes.

    :ivar unanswered: by xid.
    """

    __slots__ = ("_answered", "_endings", "_smallest", "unanswered")

    def __init__(self) -> None:
        self.unanswered: dict[int, int] = {}
        self._answered = NOTED_BYTES  # the largest
        self._smallest = 0  # of those that endings were about
        self._endings = 0  # so many, and no request so large was answered in between

    def answered(self, xid: int) -> None:
        self._answered = max(self._answered, self.unanswered.pop(xid, 0))
        if self._answered >= self._smallest:
            self._endings = 0

    def ended(self, *, by_server: bool) -> dict[int, int]:
        """The connection has ended.

        :returns: the suspected requests: their sizes, by xid.
        """
        larger = {xid: size for xid, size in self.unanswered.items() if size > self._answered}
        self.unanswered.clear()
        if not by_server or not larger:
            return {}
        if any(size > DEFAULT_LIMIT for size in larger.values()):
            return {xid: size for xid, size in larger.items() if size > DEFAULT_LIMIT}
        largest = max(larger.values())
        self._smallest = min(self._smallest, largest) if self._endings else largest
        self._endings += 1
        if self._endings < TIMES:
            return {}
        return {xid: size for xid, size in larger.items() if size >= self._smallest}
