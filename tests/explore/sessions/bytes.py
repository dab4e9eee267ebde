"""What a server sends: answers and events of the model as bytes."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct

from kazoo.exceptions import ZookeeperError
from kazoo.protocol.states import EventType, WatchedEvent, ZnodeStat
from kazoo.security import ACL

from parkazoo.kazoo_private import WATCH_XID, Close, Create, Create2, Transaction, int_int_struct, int_struct
from parkazoo.protocol.newer_requests import CreateTTL
from parkazoo.wire.frames import REPLY
from tests.explore.znodes import SEQUENCE, Answer, Request

CONNECTED = Struct("!iiq")  # protocol, time-out in ms, session
STAT = Struct("!qqqqiiiqiiq")
HEADER = Struct("!iBi")  # of an operation in a transaction: type, whether it is the end, error
END = HEADER.pack(-1, True, -1)
NUMBER = 10  # digits at the end of a name
EVENTS = (EventType.CREATED, EventType.DELETED, EventType.CHANGED, EventType.CHILD)  # from 1 on
ZK_CONNECTED = 3


def framed(body: bytes) -> bytes:
    size: bytes = int_struct.pack(len(body))
    return size + body


def accepted(session: int, time_out_ms: int, is_read_only: bool = False) -> bytes:
    """The answer to Connect.

    :param session: 0 if it has expired.
    """
    head = CONNECTED.pack(0, time_out_ms if session else 0, session)
    return framed(head + framed(bytes(16)) + bytes([is_read_only]))


def event(told: WatchedEvent) -> bytes:
    kind = EVENTS.index(told.type) + 1
    body = int_int_struct.pack(kind, ZK_CONNECTED) + framed(told.path.encode())
    return framed(REPLY.pack(WATCH_XID, -1, 0) + body)


def answered(xid: int, zxid: int, request: Request, answer: Answer) -> bytes:
    """The answer to a request."""
    if isinstance(answer, ZookeeperError):
        return framed(REPLY.pack(xid, zxid, answer.code))
    if answer is None:  # exists
        return framed(REPLY.pack(xid, zxid, -101))
    if isinstance(request, Transaction):
        assert isinstance(answer, list)
        return framed(REPLY.pack(xid, zxid, 0) + _transaction(request, answer))
    return framed(REPLY.pack(xid, zxid, 0) + (b"" if isinstance(request, Close) else _body(request, answer)))


def _body(request: Request, answer: Answer) -> bytes:
    if isinstance(request, (Create, Create2, CreateTTL)) and isinstance(answer, str):
        number = answer[-NUMBER:] if request.flags & SEQUENCE else ""
        return framed((request.path + number).encode())
    if answer is None:  # the data of a znode without any
        return bytes(int_struct.pack(-1))
    if isinstance(answer, ZnodeStat):
        return STAT.pack(*answer)
    if isinstance(answer, ACL):
        perms: bytes = int_struct.pack(answer.perms)
        return perms + framed(answer.id.scheme.encode()) + framed(answer.id.id.encode())
    if isinstance(answer, (bytes, str)):
        return framed(answer.encode() if isinstance(answer, str) else answer)
    if isinstance(answer, list):
        count: bytes = int_struct.pack(len(answer))
        return count + b"".join(_body(request, each) for each in answer)
    if isinstance(answer, tuple):
        return b"".join(_body(request, each) for each in answer)
    assert answer is True
    return b""


def _transaction(request: Transaction, results: Sequence[Answer]) -> bytes:
    parts = []
    for operation, result in zip(request.operations, results, strict=True):
        if isinstance(result, Exception):
            code = result.code if isinstance(result, ZookeeperError) else 0
            parts.append(HEADER.pack(-1, False, code) + int_struct.pack(code))
        else:
            parts.append(HEADER.pack(operation.type, False, 0) + _body(operation, result))
    return b"".join(parts) + END
