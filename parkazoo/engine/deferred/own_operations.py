"""A client's own operations while it has deferred writes: they see them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Protocol

from kazoo.security import ACL

from parkazoo.engine.driver import Driver
from parkazoo.engine.ports import AbandonedError, Reply, Runtime, give, is_abandoned
from parkazoo.engine.session import Session
from parkazoo.protocol.steps import Request


class _Lanes(Protocol):
    @property
    def pending(self) -> int:
        """Returns how many writes have no outcome."""

    @property
    def is_in_doubt(self) -> bool:
        """Returns whether a lane does not know which of its batches are in."""

    def flush(self) -> None:
        """Sends everything, as soon as the lanes are out of doubt."""


class OwnOperations:
    """Passes on a client's own operations as long as it has a ``client.deferred()``.

    Before an operation the lanes send all their writes. While these are under way, the loop issues the operation:
    when a connection is lost, the loop tells the lanes first. While a lane is in doubt, operations wait for the
    session timeout at most, because they would not see the writes that the lane sends again.

    :param acl: of markers.
    :param lock: of all lanes; the thread that holds it may take it again. Nothing blocks while it is held.
    :ivar lanes: of each ``client.deferred()``.
    """

    def __init__(
        self,
        session: Session[Any],
        runtime: Runtime,
        patience_s: float,
        acl: Sequence[ACL],
        lock: AbstractContextManager[object],
    ) -> None:
        self.session = session
        self.runtime = runtime
        self.acl = acl
        self.lock = lock
        self.lanes: tuple[_Lanes, ...] = ()
        self._patience_s = patience_s
        self._kept: list[tuple[Request, Reply | None]] | None = None  # None: nothing waits
        self._doubt: object | None = None  # another one for each time in which operations wait

    @property
    def driver(self) -> Driver:
        driver = self.session.driver
        assert driver is not None
        return driver

    def call(self, request: Request, reply: Reply | None) -> None:
        """Issues an operation. Any thread may call."""
        for lanes in self.lanes:
            lanes.flush()
        with self.lock:
            if self._kept is not None or any(lanes.pending for lanes in self.lanes):
                if self._kept is None:
                    self.runtime.call(self._release)
                    self._kept = []
                self._kept.append((request, reply))
                return
        self.session.call(request, reply)

    def call_later(self, delay_s: float, call: Callable[[], None]) -> None:
        """Makes a call on the loop, after that time. Any thread may ask for it."""

        def begin() -> None:
            self.runtime.call_later(delay_s, call)

        self.runtime.call(begin)

    def changed(self, is_in_doubt: bool) -> None:
        """Keeps operations, or passes them on, after a lane has changed. The caller holds the lock."""
        if not is_in_doubt:
            if self._kept is not None:
                self.runtime.call(self._release)
        elif self._doubt is None:
            doubt = object()
            self.call_later(self._patience_s, partial(self._pass_on, doubt))
            if self._kept is None:
                self._kept = []
            self._doubt = doubt

    def _release(self) -> None:
        """On the loop, where no signal handler raises: passes on operations unless a lane is in doubt."""
        with self.lock:
            doubt = self._doubt
            if any(lanes.is_in_doubt for lanes in self.lanes):
                return
        self._pass_on(doubt)

    def _pass_on(self, doubt: object | None) -> None:
        """On the loop: passes on the operations that wait, unless that was done since this doubt began."""
        with self.lock:
            if doubt is not self._doubt:
                return
            self._doubt = None  # a lane that gets in doubt from now on keeps what comes
        while self._doubt is None:
            with self.lock:
                kept, self._kept = self._kept, []
                if not kept:
                    self._kept = None
                    return
            for request, reply in kept:
                if is_abandoned(reply):
                    give(reply, AbandonedError())
                else:
                    self.session.call(request, reply)
