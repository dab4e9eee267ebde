"""Frames: a length in four bytes, then so many bytes. Pure: bytes in, frames out."""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct

from kazoo.exceptions import ConnectionDropped

from parkazoo.kazoo_private import AUTH_XID, WATCH_XID, Auth, Connect, int_struct
from parkazoo.protocol.steps import WireRequest

HEAD = Struct("!ii")  # length, xid
REQUEST = Struct("!iii")  # length, xid, type
REPLY = Struct("!iqi")  # xid, zxid, error
ANSWER = Struct("!iiqi")  # length, and a reply
LENGTH_BYTES = 4


def request_frame(request: WireRequest, xid: int) -> bytes:
    body = request.serialize()
    return REQUEST.pack(len(body) + 8, xid, request.type) + body


def session_frames(session_ms: int, auth: Iterable[tuple[str, str]]) -> bytes:
    """The frames by which a new session begins, with its identities."""
    asked = Connect(0, 0, session_ms, 0, bytes(16), False).serialize()
    return int_struct.pack(len(asked)) + asked + b"".join(request_frame(Auth(0, *each), AUTH_XID) for each in auth)


def frame_end(data: bytes, begin: int) -> int:
    """Where the frame ends that begins there, perhaps beyond the data. Its length has to be there.

    :raises ConnectionDropped: no frame of a server is so short.
    """
    (length,) = int_struct.unpack_from(data, begin)
    if length < REPLY.size:
        raise ConnectionDropped("the server's answer is not ZooKeeper's")
    return begin + LENGTH_BYTES + int(length)


class Search:
    """For an answer among events, in whatever parts they come. A part of an answer will do."""

    __slots__ = ("_ahead", "_head", "found")

    def __init__(self) -> None:
        self._head = b""  # the beginning of one, of a frame
        self._ahead = 0  # bytes of the event that is passed over
        self.found = False

    def look(self, data: bytes) -> None:
        begin = 0
        while begin < len(data) and not self.found:
            if self._ahead > 0:
                passed = min(self._ahead, len(data) - begin)
                self._ahead -= passed
            else:
                passed = min(HEAD.size - len(self._head), len(data) - begin)
                self._head += data[begin : begin + passed]
                if len(self._head) == HEAD.size:
                    length, xid = HEAD.unpack(self._head)
                    self.found = xid != WATCH_XID
                    self._head, self._ahead = b"", length + LENGTH_BYTES - HEAD.size
            begin += passed


class Frames:
    """The bytes that have come and have not been taken.

    Parts are joined once, when the frame that they make up is whole. So the time for each byte does not grow with
    the size of a frame.
    """

    __slots__ = ("_parts", "_search", "_searched", "size", "wanted")

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._search = Search()
        self._searched = 0  # parts
        self.size = 0  # bytes in these parts
        self.wanted = LENGTH_BYTES  # with so many of them there is something to take

    def add(self, data: bytes) -> None:
        if data:
            self._parts.append(data)
            self.size += len(data)

    @property
    def has_answer(self) -> bool:
        """Whether a part of an answer is there, which is no event."""
        for part in self._parts[self._searched :]:
            self._search.look(part)
        self._searched = len(self._parts)
        return self._search.found

    def take(self) -> bytes:
        """All of it; nothing while the first frame is not whole. What follows the last whole frame is put back."""
        if self.size < self.wanted:
            return b""
        data = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._parts.clear()
        self.size, self.wanted = 0, LENGTH_BYTES
        self._search, self._searched = Search(), 0
        return data

    def put_back(self, rest: bytes) -> None:
        """After :meth:`take`: what begins with a frame that is not whole.

        :raises ConnectionDropped: see :func:`frame_end`.
        """
        self.wanted = frame_end(rest, 0) if len(rest) >= LENGTH_BYTES else LENGTH_BYTES
        self.add(rest)
