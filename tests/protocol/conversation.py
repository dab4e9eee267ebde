"""An exchange with a server that a test plays, and all that comes of it."""

from __future__ import annotations

import logging
from collections import deque
from typing import Any

from kazoo.exceptions import AuthFailedError, ConnectionDropped, KazooException, SessionExpiredError

from parkazoo.kazoo_private import WATCH_XID, Auth, GetData, int_int_struct, int_struct
from parkazoo.wire.exchange import CLOSING, OPEN, Exchange, SessionClosed
from parkazoo.wire.frames import REQUEST
from tests.protocol.answers import answer, connect_answer, framed

LOG = logging.getLogger("parkazoo.test")
REFUSED = -115
AUTH = Auth(0, "digest", "a:b")
PATH = "/cluster/ensemble"
ENDS = (AuthFailedError, ConnectionDropped, SessionClosed, SessionExpiredError)


class Reply:
    def __init__(self, number: int, told: list[Any]) -> None:
        self._number = number
        self._told = told

    def set(self, value: Any = None) -> None:
        self._told.append((self._number, value))

    def set_exception(self, exception: Exception) -> None:
        what = str(exception) if isinstance(exception, KazooException) else None  # struct's errors tell an offset
        self._told.append((self._number, type(exception), what))


class Conversation:
    """An exchange, and all that comes of it, in order."""

    last_zxid = 0

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.pending: deque[Any] = deque()
        self.exchange = Exchange(self, self.pending, self._read_event, LOG)

    def describe(self, request: Any) -> str:
        return f"about {getattr(request, 'path', None)}"

    def unchroot(self, path: str) -> str:
        return f"unchrooted {path}"

    def register(self, request: Any) -> None:
        self.told.append(("watch", request.path))

    def _read_event(self, data: bytes, offset: int) -> None:
        kind, _ = int_int_struct.unpack_from(data, offset)
        (length,) = int_struct.unpack_from(data, offset + 8)
        self.told.append(("event", kind, data[offset + 12 : offset + 12 + length].decode()))

    def open(self, rest: bytes = b"") -> Conversation:
        self.exchange.greet(connect_answer() + rest)
        self.exchange.join()
        return self

    def ask(self, *requests: Any) -> list[int]:
        """The xids with which these are sent; replies have numbers from 0 on."""
        xids = []
        for number, request in enumerate(requests):
            body = request.serialize()
            frame = self.exchange.request(request, Reply(number, self.told), body)
            length, xid, kind = REQUEST.unpack_from(frame)
            assert (length, kind, frame[12:]) == (len(body) + 8, request.type, bytes(body))
            xids.append(xid)
        return xids

    def get(self, count: int) -> None:
        self.ask(*(GetData(f"/{number}", None) for number in range(count)))

    def values(self) -> list[Any]:
        """What the replies to reads have got."""
        return [each[1][0] if isinstance(each[1], tuple) else each[1:] for each in self.told]

    def feed(self, *parts: bytes) -> Exception | None:
        """The end, if it comes to that."""
        try:
            for part in parts:
                take = self.exchange.receive if self.exchange.state in (OPEN, CLOSING) else self.exchange.greet
                take(part)
        except ENDS as error:
            self.exchange.end()
            return error
        return None


def event(kind: int, path: str) -> bytes:
    return answer(WATCH_XID, int_int_struct.pack(kind, 3) + framed(path.encode()))
