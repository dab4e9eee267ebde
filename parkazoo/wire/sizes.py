"""Which requests a server may have taken for too large. Pure.

A server that is sent more than its `jute.maxbuffer` in one request ends the connection, without an answer to
anything, and serves on. A client cannot ask for that limit. So when a server ends a connection, and accepts the
session again at the next attempt, a request is suspected that had no answer and is larger than any that the
ensemble has answered:

* at once if it is larger than ZooKeeper's default limit;
* otherwise if that has happened several times in a row, and no request so large was answered in between. Networks
  fail too.
"""

from __future__ import annotations

DEFAULT_LIMIT = 0xFFFFF  # ZooKeeper's default jute.maxbuffer, in bytes
NOTED_BYTES = 1 << 16  # no limit is so low
TIMES = 5


class Sizes:
    """The sizes of large requests to one ensemble, in bytes.

    :ivar unanswered: by xid. :ivar is_in_doubt: it matters whether the server that has ended the connection lives.
    """

    __slots__ = ("_answered", "_endings", "_largest", "_smallest", "is_in_doubt", "unanswered")

    def __init__(self) -> None:
        self.unanswered: dict[int, int] = {}
        self.is_in_doubt = False
        self._answered = NOTED_BYTES  # the largest
        self._largest = 0  # that the last ending was about, if it may count
        self._smallest = 0  # of the requests that endings were about
        self._endings = 0  # so many in a row, and no request so large was answered in between

    def answered(self, xid: int) -> None:
        self._answered = max(self._answered, self.unanswered.pop(xid, 0))
        if self._answered >= self._smallest:
            self._endings = 0

    def ended(self, *, by_server: bool) -> dict[int, int]:
        """The connection has ended. :meth:`tried` says more.

        :returns: the requests that are suspected if the server lives: their sizes, by xid.
        """
        larger = {xid: size for xid, size in self.unanswered.items() if size > self._answered}
        self.unanswered.clear()
        self._largest = 0
        self.is_in_doubt = by_server and bool(larger)
        if not self.is_in_doubt:
            self._endings = 0
            return {}
        if any(size > DEFAULT_LIMIT for size in larger.values()):
            return {xid: size for xid, size in larger.items() if size > DEFAULT_LIMIT}
        self._largest = max(larger.values())
        if self._endings + 1 < TIMES:
            return {}
        return {xid: size for xid, size in larger.items() if size >= min(self._smallest, self._largest)}

    def tried(self, *, lives: bool) -> None:
        """An attempt to connect has ended.

        :param lives: the server that has ended the last connection has accepted the session again.
        """
        if not lives:
            self._endings = 0
        elif self._largest:
            self._smallest = min(self._smallest, self._largest) if self._endings else self._largest
            self._endings += 1
        self._largest = 0
        self.is_in_doubt = False
