"""From the answers of a client to the bytes that a program gets. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kazoo.exceptions import ConnectionLoss, NoNodeError, RuntimeInconsistency, ZookeeperError
from kazoo.protocol.states import EventType
from kazoo.security import ACL, Id

from parkazoo.errors import RequestTooLargeError
from parkazoo.gateway.program_bytes import LONG_STRUCT
from parkazoo.gateway.program_requests import BAD_ARGUMENTS
from parkazoo.kazoo_private import (
    PING_XID,
    WATCH_XID,
    CheckVersion,
    Create,
    Create2,
    Delete,
    Exists,
    GetACL,
    GetChildren,
    GetChildren2,
    GetData,
    SetACL,
    SetData,
    Sync,
    Transaction,
    int_int_struct,
    int_struct,
    multiheader_struct,
    stat_struct,
)
from parkazoo.protocol.newer_requests import (
    ERROR,
    CreateContainer,
    CreateTTL,
    GetEphemerals,
    WhoAmI,
    write_text,
)
from parkazoo.types.znodes import ZnodeStat
from parkazoo.wire.frames import REPLY

OK = 0
CONNECTED_CODE = 3  # of a state, in an event
EVENT_CODES = {EventType.CREATED: 1, EventType.DELETED: 2, EventType.CHANGED: 3, EventType.CHILD: 4}
NO_BUFFER = int_struct.pack(-1)
END_OF_MULTI = multiheader_struct.pack(-1, True, -1)
NO_PASSWORD = bytes(16)


def framed(body: bytes) -> bytes:
    return bytes(int_struct.pack(len(body))) + body


def write_connected(timeout_ms: int, session: int, password: bytes, *, says_read_only: bool) -> bytes:
    """Write the answer to Connect; with a time-out of 0 it says that the session has expired.

    :param says_read_only: the program knows of servers that can only read.
    """
    body = int_int_struct.pack(0, timeout_ms) + LONG_STRUCT.pack(session) + write_buffer(password)
    return framed(body + (b"\0" if says_read_only else b""))


def write_reply(xid: int, zxid: int, body: bytes = b"") -> bytes:
    return framed(REPLY.pack(xid, zxid, OK) + body)


def write_error(xid: int, zxid: int, code: int) -> bytes:
    return framed(REPLY.pack(xid, zxid, code))


def write_pong(zxid: int) -> bytes:
    return write_reply(PING_XID, zxid)


def write_event(kind: str, path: str) -> bytes:
    """:param kind: an EventType."""
    return framed(
        REPLY.pack(WATCH_XID, -1, OK) + int_int_struct.pack(EVENT_CODES[kind], CONNECTED_CODE) + write_text(path)
    )


def code_of(error: Exception) -> int:
    """Return ZooKeeper's code of an error; an error without one is the program's mistake, as a server has it."""
    if isinstance(error, RequestTooLargeError):
        return int(ConnectionLoss.code)
    return int(error.code) if isinstance(error, ZookeeperError) and error.code is not None else BAD_ARGUMENTS


def write_buffer(value: bytes | None) -> bytes:
    return bytes(NO_BUFFER) if value is None else framed(value)


def _write_texts(texts: Sequence[str]) -> bytes:
    return bytes(int_struct.pack(len(texts))) + b"".join(map(write_text, texts))


def _write_stat(stat: ZnodeStat | None) -> bytes:
    if stat is None:
        raise NoNodeError
    return bytes(stat_struct.pack(*stat))


def _write_made(answer: tuple[str, ZnodeStat]) -> bytes:
    return write_text(answer[0]) + _write_stat(answer[1])


def _write_data(answer: tuple[bytes | None, ZnodeStat]) -> bytes:
    return write_buffer(answer[0]) + _write_stat(answer[1])


def _write_acls(answer: tuple[Sequence[ACL], ZnodeStat]) -> bytes:
    acls, stat = answer
    each = (bytes(int_struct.pack(acl.perms)) + write_text(acl.id.scheme) + write_text(acl.id.id) for acl in acls)
    return bytes(int_struct.pack(len(acls))) + b"".join(each) + _write_stat(stat)


def _write_listing(answer: tuple[Sequence[str], ZnodeStat]) -> bytes:
    return _write_texts(answer[0]) + _write_stat(answer[1])


def _write_ids(answer: Sequence[Id]) -> bytes:
    each = (write_text(who.scheme) + write_text(who.id) for who in answer)
    return bytes(int_struct.pack(len(answer))) + b"".join(each)


def write_nothing(answer: object) -> bytes:
    return b""


def write_ok(answer: object) -> bytes:
    return write_count(OK)


def write_count(answer: int) -> bytes:
    return bytes(int_struct.pack(answer))


def write_multi(request: Transaction, results: Sequence[Any]) -> bytes:
    """Write the results of a transaction: all are errors, or none is."""
    parts = []
    for operation, result in zip(request.operations, results, strict=True):
        if isinstance(result, Exception):
            parts.append(_write_failed(result))
        else:
            parts.append(multiheader_struct.pack(operation.type, False, OK))
            parts.append(WRITERS_IN_MULTI[operation.type](result))
    return b"".join((*parts, END_OF_MULTI))


def write_refused(code: int, operations: int) -> bytes:
    """Write the results of a transaction of which nothing was done. Clients in C end without a result for each."""
    return b"".join((*map(_write_code, (code, *[RuntimeInconsistency.code] * (operations - 1))), END_OF_MULTI))


def stat_when_made(found: ZnodeStat | None, length: int, zxid: int, now_ms: int) -> ZnodeStat:
    """The stat of a znode as it was when it was made.

    :param found: its stat now; None: it is gone, and zxid and time are those of now. :param length: of its value.
    """
    zxid, made_ms, owner = (zxid, now_ms, 0) if found is None else (found.czxid, found.ctime, found.ephemeralOwner)
    return ZnodeStat(zxid, zxid, made_ms, made_ms, 0, 0, 0, owner, length, 0, zxid)


def _write_failed(error: Exception) -> bytes:
    return _write_code(code_of(error))


def _write_code(code: int) -> bytes:
    """Some clients read the code in the header, some the one behind it."""
    return bytes(multiheader_struct.pack(ERROR, False, code) + int_struct.pack(code))


def write_read(kind: int, answer: Any) -> bytes:
    """Write the answer to one of the reads of a multiRead, perhaps an error. END_OF_MULTI is behind the last.

    :param kind: the type of the read.
    """
    if isinstance(answer, Exception):
        return _write_failed(answer)
    return bytes(multiheader_struct.pack(kind, False, OK)) + REPLY_WRITERS[kind](answer)


# By the type of the program's request. A writer raises NoNodeError for a stat that there is not.
REPLY_WRITERS: Mapping[int, Callable[[Any], bytes]] = {
    Create.type: write_text,
    Create2.type: _write_made,
    CreateContainer.type: _write_made,
    CreateTTL.type: _write_made,
    Delete.type: write_nothing,
    Exists.type: _write_stat,
    GetData.type: _write_data,
    SetData.type: _write_stat,
    GetACL.type: _write_acls,
    SetACL.type: _write_stat,
    GetChildren.type: _write_texts,
    GetChildren2.type: _write_listing,
    Sync.type: write_text,
    GetEphemerals.type: _write_texts,
    WhoAmI.type: _write_ids,
}
WRITERS_IN_MULTI: Mapping[int, Callable[[Any], bytes]] = {
    Create.type: write_text,
    Create2.type: _write_made,
    Delete.type: write_nothing,
    SetData.type: _write_stat,
    CheckVersion.type: write_nothing,
}
