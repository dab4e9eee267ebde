"""The bytes that a server sends."""

from __future__ import annotations

from struct import Struct

from parkazoo.kazoo_private import AUTH_XID, int_struct
from parkazoo.wire.frames import REPLY

CONNECTED = Struct("!iiq")  # protocol, time-out in ms, session
STAT = bytes(68)
PASSWORD = b"p" * 16
SESSION = 0x5E55


def framed(body: bytes) -> bytes:
    return int_struct.pack(len(body)) + body


def answer(xid: int, body: bytes = b"", *, zxid: int = 1, code: int = 0) -> bytes:
    return framed(REPLY.pack(xid, zxid, code) + body)


def auth_answer(code: int = 0) -> bytes:
    return answer(AUTH_XID, zxid=0, code=code)


def data_answer(xid: int, data: bytes) -> bytes:
    """To a get."""
    return answer(xid, framed(data) + STAT)


def connect_answer(time_out_ms: int = 10_000, session: int = SESSION) -> bytes:
    """To Connect; 0 ms: the session has expired."""
    return framed(CONNECTED.pack(0, time_out_ms, session) + framed(PASSWORD) + bytes(1))
