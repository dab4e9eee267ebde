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

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from kazoo.exceptions import AuthFailedError, ConnectionClosedError, ConnectionLoss, SessionExpiredError
from kazoo.protocol.states import KeeperState

CONNECTED_STATES = (KeeperState.CONNECTED, KeeperState.CONNECTED_RO)
# What a request gets in a state in which none is sent or kept, as with kazoo.
CLOSED_ERRORS: Mapping[str, Callable[[], Exception]] = {
    KeeperState.AUTH_FAILED: AuthFailedError,
    KeeperState.CLOSED: partial(ConnectionClosedError, "Connection has been closed"),
    KeeperState.EXPIRED_SESSION: SessionExpiredError,
}
# The question is asked again at the next connection. RuntimeError: the answer was another request's, and the
# connection has ended.
ASKED_AGAIN = (ConnectionLoss, SessionExpiredError, RuntimeError)
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
