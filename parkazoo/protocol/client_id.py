"""A client_id: the client's id and, as its password, the sessions by which it can go on.

With one ensemble it is what kazoo's is: the id of the session, and its 16 bytes of password.
"""

from __future__ import annotations

from collections.abc import Mapping

SESSION_PASSWORD_BYTES = 16
NUMBER_BYTES = 8
SESSION_BYTES = NUMBER_BYTES + SESSION_PASSWORD_BYTES

SessionId = tuple[int, bytes]  # id and password of a ZooKeeper session


def pack_sessions(sessions: Mapping[str, SessionId]) -> bytes:
    """The password of a client_id: for each ensemble its name, behind one byte for the name's length, 8 bytes of
    the session's id and 16 of its password."""
    return b"".join(
        bytes([len(name)]) + name.encode() + number.to_bytes(NUMBER_BYTES, "big", signed=True) + password
        for name, (number, password) in sessions.items()
    )


def unpack_sessions(packed: bytes) -> dict[str, SessionId] | None:
    """The inverse of :func:`pack_sessions`; None for anything else."""
    sessions: dict[str, SessionId] = {}
    while packed:
        size = 1 + packed[0]
        name, session, packed = packed[1:size], packed[size : size + SESSION_BYTES], packed[size + SESSION_BYTES :]
        if not name.isascii() or len(session) != SESSION_BYTES or len(name) != size - 1 or not name:
            return None
        number = int.from_bytes(session[:NUMBER_BYTES], "big", signed=True)
        sessions[name.decode()] = number, session[NUMBER_BYTES:]
    return sessions
