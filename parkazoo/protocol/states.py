"""One table: the states of the ensembles that a client has joined, to the one state of the client.

The first row that applies decides:

    ensembles                                       the client is
    one has refused the credentials                 AUTH_FAILED        LOST: for good, as with kazoo
    one is stopped, or out of connection retries    CLOSED             LOST
    a session that has ended the client's           EXPIRED_SESSION    LOST: all sessions are closed and begin anew
    one that it waits for is not connected          CONNECTING         SUSPENDED, once it has been connected
    none is connected                               CONNECTING         SUSPENDED, once it has been connected
    one that is connected can only read             CONNECTED_RO       CONNECTED
    else                                            CONNECTED          CONNECTED

The client waits for an ensemble from the moment at which it loses the connection, if it has something there that
a lost connection may cost it (:func:`matters`), until that ensemble is connected again. If it only has requests
there without an answer, it waits until they have failed: so a program that gets a ConnectionLoss hears of
SUSPENDED and CONNECTED, as with kazoo. An expired session ends the client's if there may be an ephemeral of it
(:func:`is_fatal`); otherwise that session alone begins anew. With one ensemble all this is kazoo's behaviour.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from kazoo.exceptions import AuthFailedError, ConnectionClosedError, SessionExpiredError
from kazoo.protocol.states import KazooState, KeeperState

CONNECTED_STATES = (KeeperState.CONNECTED, KeeperState.CONNECTED_RO)
# What a request gets in a state in which none is sent or kept, as with kazoo.
CLOSED_ERRORS: Mapping[str, Callable[[], Exception]] = {
    KeeperState.AUTH_FAILED: AuthFailedError,
    KeeperState.CLOSED: partial(ConnectionClosedError, "Connection has been closed"),
    KeeperState.EXPIRED_SESSION: SessionExpiredError,
}
TABLE = (
    KeeperState.AUTH_FAILED,
    KeeperState.CLOSED,
    KeeperState.EXPIRED_SESSION,
    KeeperState.CONNECTING,
    KeeperState.CONNECTED_RO,
    KeeperState.CONNECTED,
)


def state_of(joined: Iterable[tuple[str, bool]]) -> str:
    """The client's KeeperState.

    :param joined: of each ensemble that is joined: its KeeperState, and whether the client waits for it.
    """
    states = [state for state, is_awaited in joined if is_awaited or state != KeeperState.CONNECTING]
    return min(states, key=TABLE.index, default=KeeperState.CONNECTING)


def matters(has_ephemerals: bool, has_watches: bool) -> bool:
    """Whether the client waits for an ensemble whose connection is lost until it is back.

    What a request without an answer may have left there counts as left.
    """
    return has_ephemerals or has_watches


def is_fatal(has_ephemerals: bool, is_alone: bool) -> bool:
    """Whether a session that has expired ends the client's.

    :param is_alone: there is one ensemble.
    """
    return has_ephemerals or is_alone


def kazoo_state(state: str) -> str:
    """KazooState for a KeeperState, as kazoo's listeners hear it."""
    if state in CONNECTED_STATES:
        return KazooState.CONNECTED
    return KazooState.SUSPENDED if state == KeeperState.CONNECTING else KazooState.LOST
