"""A client that defers writes (structures/deferred.py)."""

from __future__ import annotations

import time
from typing import Any, Literal

from kazoo.exceptions import ConfigurationError, ConnectionClosedError

from parkazoo.compat.ensembles import Ensembles
from parkazoo.engine.deferrals import Deferrals
from parkazoo.engine.session import Session
from parkazoo.protocol.rights import own_acl
from parkazoo.protocol.states import CLOSED_ERRORS
from parkazoo.structures.deferred import Deferred


class Deferring(Ensembles):
    """A client that defers writes."""

    _deferrals: Deferrals | None = None  # while there are deferred writes
    _deferred: tuple[Deferred, ...] = ()
    _deferring: Any  # a lock, of these two; a thread may take it again

    def deferred(
        self,
        max_pending: int = 10_000,
        linger_s: float = 0.002,
        on_error: Literal["stop", "skip"] = "stop",
        guard: str | None = None,
    ) -> Deferred:
        """Writes that are **not durable, and not visible to other clients, until the barrier**: :class:`Deferred`.

        :param max_pending: so many writes may be pending; then calls wait.
        :param linger_s: seconds after which a batch that is not full is sent.
        :param on_error: when a write is refused: ``"stop"``: nothing behind it is done on its ensemble;
            ``"skip"``: the rest follows.
        :param guard: the path of a znode without which no batch is done, such as the contender of a lock. It stops
            the lane when it is missing. All writes must be on its ensemble.
        :raises TypeError: an option has the wrong type. :raises ValueError: an option is out of range.
        :raises ConnectionClosedError: the client is not connected.
        :raises ConfigurationError: the client was made with ``consistency="total"``.
        """
        self.check_process()
        if guard is not None and not isinstance(guard, str):
            raise TypeError("Invalid type for 'guard' (string expected: the path of a znode)")
        if isinstance(max_pending, bool) or not isinstance(max_pending, int):
            raise TypeError(f"max_pending must be a whole number, not {max_pending!r}")
        if max_pending < 1:
            raise ValueError(f"max_pending must be at least 1, not {max_pending!r}")
        if isinstance(linger_s, bool) or not isinstance(linger_s, int | float):
            raise TypeError(f"linger_s must be a number, not {linger_s!r}")
        if not linger_s >= 0:
            raise ValueError(f"linger_s must not be below 0, not {linger_s!r}")
        if on_error not in ("stop", "skip"):
            raise ValueError(f"on_error must be 'stop' or 'skip', not {on_error!r}")
        session = self._session
        if session is None or session.driver is None or self._state in CLOSED_ERRORS:
            raise ConnectionClosedError("the client is not connected: start it")
        if self.has_total_order:
            raise ConfigurationError("writes of a client with consistency='total' cannot be deferred")
        deferrals = self._use_deferrals(session)
        try:
            made = Deferred(self, deferrals, max_pending, linger_s, on_error == "skip", guard)
        except BaseException:
            self._drop_deferrals(deferrals)
            raise
        with self._deferring:
            self._deferred = (*self._deferred, made)
        return made

    def _use_deferrals(self, session: Session[Any]) -> Deferrals:
        """Those of the session, from which on operations come through them."""
        with self._deferring:
            found = self._deferrals
            if found is None or found.session is not session:
                patience_s, lock = self._session_timeout / 1000, self.handler.rlock_object()
                found = Deferrals(session, self._runtime, patience_s, own_acl(self.auth_data), lock)
                self._deferrals = found
            found.users += 1
            return found

    def _drop_deferrals(self, deferrals: Deferrals) -> None:
        with self._deferring:
            deferrals.users -= 1
            if not deferrals.users and self._deferrals is deferrals:
                self._deferrals = None

    def forget_deferred(self, deferred: Deferred, deferrals: Deferrals) -> None:
        """It is closed."""
        with self._deferring:
            if deferred in self._deferred:
                self._deferred = tuple(each for each in self._deferred if each is not deferred)
                self._drop_deferrals(deferrals)

    def _end_deferred(self) -> None:
        """The client is about to stop: wait for what is pending, for the session timeout at most."""
        deadline_s = time.monotonic() + self._session_timeout / 1000
        for each in self._deferred:
            each.abandon(deadline_s - time.monotonic())
