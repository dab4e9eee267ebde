"""A server that a test plays: the bytes that it sends, an exchange with it, and all that comes of that."""

from __future__ import annotations

import logging
from collections import deque
from struct import Struct
from typing import Any

from kazoo.exceptions import AuthFailedError, ConnectionDropped, KazooException, SessionExpiredError

from parkazoo.kazoo_private import AUTH_XID, WATCH_XID, Auth, GetData, int_int_struct, int_struct
from parkazoo.protocol.holdings import Holdings
from parkazoo.protocol.subject import Subject
from parkazoo.wire.exchange import CLOSING, OPEN, Exchange, SessionClosed
from parkazoo.wire.frames import REPLY, REQUEST
from parkazoo.wire.sizes import Sizes

CONNECTED = Struct("!iiq")  # protocol, time-out in ms, session
STAT = bytes(68)
PASSWORD = b"p" * 16
SESSION = 0x5E55
LOG = logging.getLogger("parkazoo.test")
REFUSED = -115
AUTH = Auth(0, "digest", "a:b")
PATH = "/cluster/ensemble"
ENDS = (AuthFailedError, ConnectionDropped, SessionClosed, SessionExpiredError)


def framed(body: bytes) -> bytes:
    return int_struct.pack(len(body)) + body


def answer(xid: int, body: bytes = b"", *, zxid: int = 1, code: int = 0) -> bytes:
    return framed(REPLY.pack(xid, zxid, code) + body)


def auth_answer(code: int = 0) -> bytes:
    return answer(AUTH_XID, zxid=0, code=code)


def data_answer(xid: int, data: bytes) -> bytes:
    """To a get."""
    return answer(xid, framed(data) + STAT)


def connect_answer(time_out_ms: int = 10_000, session: int = SESSION, *, is_read_only: bool = False) -> bytes:
    """To Connect; 0 ms: the session has expired."""
    return framed(CONNECTED.pack(0, time_out_ms, session) + framed(PASSWORD) + bytes([is_read_only]))


def event(kind: int, path: str) -> bytes:
    return answer(WATCH_XID, int_int_struct.pack(kind, 3) + framed(path.encode()))


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

    last_zxid = last_xid = 0

    def __init__(self) -> None:
        self.holdings = Holdings()
        self.sizes = Sizes()
        self.told: list[Any] = []
        self.pending: deque[Any] = deque()
        self.begin()

    def describe(self, request: Any) -> Subject:
        return Subject(f"{getattr(request, 'path', None)}", "a")

    def unchroot(self, path: str) -> str:
        return f"unchrooted {path}"

    def register(self, request: Any, is_missing: bool = False) -> None:
        self.told.append(("watch on nothing" if is_missing else "watch", request.path))

    def _read_event(self, data: bytes, offset: int) -> None:
        kind, _ = int_int_struct.unpack_from(data, offset)
        (length,) = int_struct.unpack_from(data, offset + 8)
        self.told.append(("event", kind, data[offset + 12 : offset + 12 + length].decode()))

    def begin(self) -> None:
        """A new connection."""
        self.exchange = Exchange(self, self.pending, self._read_event, LOG)

    def open(self, rest: bytes = b"") -> Conversation:
        self.exchange.receive_handshake(connect_answer() + rest)
        self.exchange.open()
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
                take = (
                    self.exchange.receive
                    if self.exchange.state in (OPEN, CLOSING)
                    else self.exchange.receive_handshake
                )
                take(part)
        except ENDS as error:
            self.exchange.end()
            return error
        return None
