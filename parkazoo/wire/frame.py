"""The bytes around a request and an answer."""

from __future__ import annotations

from struct import Struct
from typing import Any

REQUEST = Struct("!iii")  # length, xid, type
REPLY = Struct("!iqi")  # xid, zxid, error


def request_frame(request: Any, xid: int) -> bytes:
    body: bytes = request.serialize()
    return REQUEST.pack(len(body) + 8, xid, request.type) + body
