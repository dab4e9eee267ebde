"""Requests as bytes, for the leanest of clients."""

from __future__ import annotations

from struct import Struct

from parkazoo.protocol.directory import ANY_VERSION

CREATE, DELETE, GET_DATA, SET_DATA, PING, CLOSE = 1, 2, 4, 5, 11, -11
PING_XID, EVENT_XID = -2, -1
NODE_EXISTS = -110
PERSISTENT, EPHEMERAL = 0, 1
ANYBODY = "world", "anyone"
ALL_RIGHTS = 31
PASSWORD_BYTES = 16
SESSION_TIMEOUT_MS = 60_000  # long, for clients that send no pings

INT = Struct("!i")
HEADER = Struct("!iii")  # length, xid, type
REPLY = Struct("!iiqi")  # length, xid, zxid, error
CONNECT = Struct("!iqiqi16s?")  # protocol, last zxid, time-out, session id, password and its length, read-only
CONNECTED = Struct("!iiiqi16s")  # length, protocol, time-out, session id, password and its length


class BareError(Exception):
    """A server answered with an error, or not at all."""


def text(value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return INT.pack(len(data)) + data


def connect(time_out_ms: int, session: int = 0, password: bytes = bytes(PASSWORD_BYTES)) -> bytes:
    """The frame that begins a session, or goes on with one."""
    return text(CONNECT.pack(0, 0, time_out_ms, session, PASSWORD_BYTES, password, False))


def frame(xid: int, kind: int, body: bytes = b"") -> bytes:
    return HEADER.pack(len(body) + 8, xid, kind) + body


def get_data(path: str, watch: bool = False) -> tuple[int, bytes]:
    return GET_DATA, text(path) + bytes([watch])


def set_data(path: str, value: bytes) -> tuple[int, bytes]:
    return SET_DATA, text(path) + text(value) + INT.pack(ANY_VERSION)


def create(path: str, value: bytes, kind: int = PERSISTENT) -> tuple[int, bytes]:
    acl = INT.pack(1) + INT.pack(ALL_RIGHTS) + b"".join(map(text, ANYBODY))
    return CREATE, text(path) + text(value) + acl + INT.pack(kind)


def delete(path: str) -> tuple[int, bytes]:
    return DELETE, text(path) + INT.pack(ANY_VERSION)
