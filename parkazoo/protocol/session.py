"""One table: the members' states to the one state of the client.

A ParKazoo session is N ZooKeeper sessions that live and die together. The first row that applies decides:

    if any member is      the client is
    AUTH_FAILED           AUTH_FAILED        LOST: for good, as with kazoo
    EXPIRED_SESSION       EXPIRED_SESSION    LOST: the other sessions are closed and all start anew
    CLOSED                CLOSED             LOST: stopped, or out of connection retries
    CONNECTING            CONNECTING         SUSPENDED, once it has been connected
    CONNECTED_RO          CONNECTED_RO       CONNECTED
    CONNECTED             CONNECTED          CONNECTED
"""

from __future__ import annotations

from collections.abc import Iterable

from kazoo.protocol.states import KeeperState

TABLE = (
    KeeperState.AUTH_FAILED,
    KeeperState.EXPIRED_SESSION,
    KeeperState.CLOSED,
    KeeperState.CONNECTING,
    KeeperState.CONNECTED_RO,
    KeeperState.CONNECTED,
)


def state_of(members: Iterable[str]) -> str:
    """The client's KeeperState for its members' (at least one)."""
    return min(members, key=TABLE.index)


def pack_password(passwords: Iterable[tuple[int, bytes]]) -> bytes:
    """The sessions after the first, each as 8 bytes of id and 16 of password: a client_id resumes them all."""
    return b"".join(number.to_bytes(8, "big", signed=True) + password for number, password in passwords)


def unpack_password(packed: bytes, sessions: int) -> list[tuple[int, bytes]] | None:
    """The inverse of :func:`pack_password`; None if `packed` is not of that many sessions."""
    if len(packed) != 24 * sessions:
        return None
    parts = [packed[at : at + 24] for at in range(0, len(packed), 24)]
    return [(int.from_bytes(part[:8], "big", signed=True), part[8:]) for part in parts]
