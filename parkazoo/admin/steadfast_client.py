"""A kazoo client that sends nothing to servers of another ensemble than it had at first."""

from __future__ import annotations

import socket
import threading
from functools import partial
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss, KazooException, NoAuthError, NoNodeError, SessionExpiredError

from parkazoo.protocol.placement import ENSEMBLE
from parkazoo.protocol.states import CLOSED_ERRORS, CONNECTED_STATES
from parkazoo.wire.about import command_registration

MOST_QUEUED = 100  # a byte wakes kazoo's loop for each, in a socket that takes some 280 before it blocks
POLL_S = 0.01


class SteadfastClient(KazooClient):
    """After a session has expired, requests fail as expired until the next one's servers have shown that they are
    the same ensemble: ``/parkazoo/ensemble`` is as it was.

    A command verifies its ensembles when it begins. If an address leads to another ensemble later, servers there
    do not know the session, and kazoo begins a new one: the rest would be done to the wrong ensemble.

    :ivar is_elsewhere: whether the last servers that were asked are others.

    :param registers: whether each session says that it is a command's, where there is a place and a right for it.
    """

    def __init__(self, *, registers: bool = False, **options: Any) -> None:
        self._registers = registers
        self._lock = threading.RLock()  # between a look at the session and what is sent in it
        self._first: object = None  # what the first session's servers showed
        self._usable: int | None = None  # the id of the session that may be used; None before the first was seen
        self._is_looking = self._is_asked = False  # now; and no answer has come
        self.is_elsewhere = False
        super().__init__(**options)

    def _session_callback(self, state: str) -> None:
        with self._lock:
            super()._session_callback(state)
            if state not in CONNECTED_STATES:
                self.is_elsewhere = False
                self._forget_wakes()
            elif self._usable not in (None, self._session_id):
                self._look()

    def _forget_wakes(self) -> None:
        """The lock is held. Of the requests that have been lost: else they would fill the socket in the end."""
        read_sock: socket.socket | None = self._connection._read_sock
        while not self._queue and read_sock is not None and self.handler.select([read_sock], [], [], 0)[0]:
            if not read_sock.recv(MOST_QUEUED):  # gevent's waits, whatever flags it is given
                break

    def _call(self, request: Any, async_object: Any) -> Any:
        while len(self._queue) >= MOST_QUEUED and not self._is_looking and self._state not in CLOSED_ERRORS:
            if self._state not in CONNECTED_STATES:
                async_object.set_exception(ConnectionLoss())
                return False
            self.handler.sleep_func(POLL_S)  # behind the lock its loop would wait for us
        with self._lock:
            is_over = self._state in CLOSED_ERRORS  # kazoo says why
            if is_over or self._is_looking or self._usable in (None, self._session_id):
                sent = super()._call(request, async_object)
                is_first = self._usable is None and not self._is_asked and self._state in CONNECTED_STATES
                if is_first:  # behind the request: that hears why a server refuses all
                    self._look()
                return sent
            if self.is_elsewhere and not self._is_asked:  # they may have come to be the ones
                self._look()
        async_object.set_exception(SessionExpiredError())
        return False

    def _look(self) -> None:
        """The lock is held."""
        self._is_looking = self._is_asked = True
        try:
            answer = self.get_async(ENSEMBLE)
        finally:
            self._is_looking = False
        answer.rawlink(partial(self._compare, self._session_id))

    def _compare(self, session: int, answer: Any) -> None:
        shown: object
        try:
            shown, _ = answer.get_nowait()
        except (NoNodeError, NoAuthError) as error:
            shown = type(error)
        except KazooException:
            shown = None
        with self._lock:
            self._is_asked = False
            if shown is None:
                return  # the next connection looks again
            if self._usable is None:
                self._first = shown
            self.is_elsewhere = shown != self._first
            if not self.is_elsewhere:
                self._usable = session
                if self._registers:
                    self._register(session)

    def _register(self, session: int) -> None:
        has_credentials = bool(self.auth_data) or self._connection.sasl_options is not None
        asked = command_registration(session, has_credentials)
        self.create_async(asked.path, asked.data, asked.acl, ephemeral=True)
