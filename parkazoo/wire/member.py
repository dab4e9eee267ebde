"""One ensemble's client and its life."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from kazoo.client import KazooClient
from kazoo.exceptions import (
    AuthFailedError,
    ConnectionClosedError,
    SessionExpiredError,
)
from kazoo.protocol.states import KeeperState

from parkazoo.driver import Reply
from parkazoo.kazoo_private import CloseInstance
from parkazoo.protocol.steps import Request
from parkazoo.wire.connection import MemberConnection
from parkazoo.wire.log import DiscreetLog

CLOSED_ERRORS = {
    KeeperState.AUTH_FAILED: AuthFailedError,
    KeeperState.CLOSED: partial(ConnectionClosedError, "Connection has been closed"),
    KeeperState.EXPIRED_SESSION: SessionExpiredError,
}
FINAL_STATES = (KeeperState.AUTH_FAILED, KeeperState.CLOSED)


class Owner(Protocol):
    """The client that a member belongs to."""

    def member_changed(self, member: Member, state: str) -> None: ...
    def unchroot(self, path: str) -> str: ...


class Member(KazooClient):
    """A kazoo client for one ensemble, part of a client for all of them.

    It shares the owner's handler and credentials, reports each state to the owner, and names paths as the
    owner's user does.
    """

    _live: Any
    _stopped: Any

    def __init__(
        self,
        owner: Owner,
        name: str,
        connect_hook: Callable[..., Any],
        sasl_options: dict[str, Any] | None,
        auth_data: set[tuple[str, str]],
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.name = name
        self.owner = owner
        self.connect_hook = connect_hook
        self.auth_data = auth_data
        self.is_renewing = False
        self.trouble = ""  # why the last attempt to connect failed
        self._connection = MemberConnection(
            self, self._conn_retry.copy(), logger=DiscreetLog(self.logger), sasl_options=sasl_options
        )

    def begin(self) -> None:
        """Connect, without waiting for it. Requests are queued from now on."""
        self._stopped.clear()
        self._state = KeeperState.CONNECTING
        self._connection.start()

    def submit(self, request: Request, reply: Reply | None) -> None:
        """Queue a request; never blocks. `reply` gets the answer, or what kazoo's ``_call`` would set."""
        state = self._state
        if state in CLOSED_ERRORS:
            if reply is not None:
                reply.set_exception(CLOSED_ERRORS[state]())
            return
        if not self._connection.submit(request, reply) or self._state in CLOSED_ERRORS:
            self._notify_pending(self._state)  # it closed meanwhile, perhaps without seeing this request

    def _call(self, request: Request, async_object: Reply | None) -> bool:
        """Overrides kazoo's, for whoever uses this member as a client of its own."""
        self.submit(request, async_object)
        return self._state not in CLOSED_ERRORS

    def renew(self) -> None:
        """Close the session on its servers and begin another; what waits to be sent has expired with it."""
        self.is_renewing = True
        _fail(self._queue, SessionExpiredError())
        self._connection.wake()

    def begin_stop(self) -> None:
        """Ask for the end of the session, after what is queued."""
        if not self._stopped.is_set():
            self._stopped.set()
            self._queue.append((CloseInstance, None))
            self._connection.wake()

    def abandon(self) -> None:
        """In a child process: the connection is the parent's."""
        self._state = KeeperState.CLOSED
        self._live, self._stopped = self.handler.event_object(), self.handler.event_object()
        self._stopped.set()
        self._connection.abandon()

    def unchroot(self, path: str) -> str:
        """The owner's name for a physical path: called for watches' events and transactions' results."""
        return self.owner.unchroot(path)

    def _session_callback(self, state: str) -> None:
        """Overrides kazoo's. While the session is being replaced this member is CONNECTING, whatever happens."""
        if state == self._state:
            return
        super()._session_callback(state)
        if self.is_renewing and state not in FINAL_STATES:
            if state == KeeperState.EXPIRED_SESSION:
                self.is_renewing = False
                self._state = KeeperState.CONNECTING  # requests wait for the new session from now on
            state = KeeperState.CONNECTING
        self.owner.member_changed(self, state)

    def _notify_pending(self, state: str) -> None:
        """Overrides kazoo's. While the session is being replaced, what is queued waits for the new one."""
        if self.is_renewing and state not in FINAL_STATES:
            _fail(self._pending, SessionExpiredError())
        else:
            super()._notify_pending(state)

    def _reset(self) -> None:
        """Overrides kazoo's, which makes a new queue: what is queued at that moment would never be answered."""
        if not hasattr(self, "_queue"):
            self._queue: deque[tuple[Any, ...]] = deque()
        self._pending: deque[tuple[Any, ...]] = deque()
        self._reset_watchers()
        self._reset_session()
        self.last_zxid = 0
        self._protocol_version = None


def _fail(requests: deque[tuple[Any, ...]], error: Exception) -> None:
    """Answer all of kazoo's queued or pending requests; others may take from the deque at the same time."""
    while True:
        try:
            _, reply, *_ = requests.popleft()
        except IndexError:
            return
        if reply is not None:
            reply.set_exception(error)
