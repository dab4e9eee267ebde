"""A client's way to its session while it has deferred writes: its operations see them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Protocol

from parkazoo.engine.early import Early
from parkazoo.engine.ports import Reply, Runtime
from parkazoo.engine.session import Session
from parkazoo.protocol.steps import Request


class _Lane(Protocol):
    @property
    def is_in_doubt(self) -> bool:
        """Whether it does not know which of its batches are in."""

    def flush(self) -> None:
        """Put everything on the wire, as soon as the lane is out of doubt."""


class Deferrals:
    """All lanes of one client. Its ordinary operations come through here as long as there is one.

    An operation first puts on the wire what the lanes have not sent yet. While a lane does not know which of its
    batches are in, operations wait: they would not see what is sent again. They wait for the session timeout at
    most.

    :param acl: of markers. :param lock: may be taken again by the thread that holds it; nothing blocks then.
    :ivar users: how many ``client.deferred()`` there are; the client keeps this as long as there are some.
    """

    def __init__(
        self,
        session: Session[Any],
        runtime: Runtime,
        patience_s: float,
        acl: Any,
        lock: AbstractContextManager[Any],
    ) -> None:
        self.session = session
        self.runtime = runtime
        self.acl = acl
        self.lanes: tuple[_Lane, ...] = ()
        self.users = 0
        self._patience_s = patience_s
        self._lock = lock
        self._early: Early | None = None
        self._opening: Early | None = None

    def call(self, request: Request, reply: Reply | None) -> None:
        """Issue an ordinary operation."""
        for lane in self.lanes:
            lane.flush()
        early = self._early
        if early is None:
            self.session.call(request, reply)
        else:
            early.call(request, reply)

    def enter(self, lane: _Lane) -> None:
        """There is another lane, and it is in doubt."""
        with self._lock:
            self.lanes = (*self.lanes, lane)
        self.hold()

    def leave(self, lane: _Lane) -> None:
        """The lane is over."""
        with self._lock:
            self.lanes = tuple(each for each in self.lanes if each is not lane)
        self.release()

    def hold(self) -> None:
        """Keep what comes: a lane is in doubt."""
        with self._lock:
            if self._early is not self._opening:
                return
            early = Early(self.runtime.make_lock(), lambda: None)
            self.call_later(self._patience_s, partial(self._let_go, early))
            self._early = early

    def call_later(self, delay_s: float, call: Callable[[], None]) -> None:
        """As the runtime's; any thread may ask for it."""

        def begin() -> None:
            self.runtime.call_later(delay_s, call)

        self.runtime.call(begin)

    def release(self) -> None:
        """A lane is not in doubt any more."""
        if self._early is not None:
            self.runtime.call(self._release)

    def _release(self) -> None:
        """On the loop, where no signal handler raises."""
        with self._lock:
            early = self._early
            if early is None or any(lane.is_in_doubt for lane in self.lanes):
                return
        self._let_go(early)

    def _let_go(self, early: Early) -> None:
        with self._lock:  # a lane that gets in doubt from now on keeps what comes anew
            if self._early is early:
                self._opening = early
        early.open(self.session.call)
        with self._lock:
            if self._opening is early:
                self._opening = None
            if self._early is early:
                self._early = None
