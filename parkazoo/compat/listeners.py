"""State listeners: called in order, before any later answer, and without delaying a state."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar

from parkazoo.types.handlers import Handler
from parkazoo.wire.loop import Loop, LoopTimer
from parkazoo.wire.workers import SoleWorker

_called_by: ContextVar[Listeners | None] = ContextVar("called_by", default=None)  # in listeners: their Listeners


class Listeners:
    """Calls a client's state listeners, for one state after the other, on a thread (or greenlet) of their own.

    The client's state has changed by then. While they run, `is_closed` is True: answers of servers wait, so that
    no answer overtakes a state, as with kazoo. They wait `patience_s` at most, and no longer once a listener uses
    the client, so that the client can answer it.

    :param call: calls all listeners with a state.
    :param on_open: called when the client can take answers again.
    :ivar lock: is held while the client's state changes.
    """

    def __init__(
        self, handler: Handler, call: Callable[[str], None], patience_s: float, on_open: Callable[[], None]
    ) -> None:
        self.is_closed = False
        self._worker = SoleWorker(handler, lambda: self._states, self._call_all)
        self._call = call
        self._patience_s = patience_s
        self._on_open = on_open
        self.lock = threading.Lock()
        self._states: deque[str] = deque()
        self._timer: LoopTimer | None = None  # of the patience with them
        self.is_calling = False
        self._has_lost_patience = False  # since they were idle, one has used the client, or has taken too long
        self._are_idle = handler.event_object()
        self._are_idle.set()

    def tell(self, state: str, loop: Loop | None) -> None:
        """Has the listeners called soon.

        :param loop: the loop that calls this; None if another thread does, and answers need not wait.
        """
        with self.lock:
            self._states.append(state)
            if not self.is_calling:
                self.is_calling, self._has_lost_patience = True, False
                self._are_idle.clear()
            if loop is not None and not self._has_lost_patience:
                self.is_closed = True
                if self._timer is None:
                    self._timer = loop.call_later(self._patience_s, self._lose_patience)
        self._worker.ask()

    def before_use(self) -> None:
        """Prepares for a use of the client. If a listener uses it, nothing waits for that listener any more."""
        if self.is_calling and _called_by.get() is self:
            self._lose_patience()

    def wait(self, timeout_s: float) -> None:
        """Waits until all have been called; returns at once in a listener."""
        if _called_by.get() is not self:
            self._are_idle.wait(timeout_s)

    def _let_go(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _lose_patience(self) -> None:
        """Lets answers pass until all have been called, whatever states follow."""
        with self.lock:
            self._has_lost_patience = True
            is_opened, self.is_closed = self.is_closed, False
        if is_opened:
            self._on_open()

    def _call_all(self) -> None:
        token = _called_by.set(self)
        try:
            while True:
                with self.lock:
                    if not self._states:
                        self.is_calling = self.is_closed = False
                        self._are_idle.set()
                        self._let_go()
                        break
                    state = self._states.popleft()
                self._call(state)
        finally:
            _called_by.reset(token)
        self._on_open()
