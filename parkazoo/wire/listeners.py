"""State listeners, called in order, which may wait for what their client does."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

_waited_for: ContextVar[Any] = ContextVar("waited_for", default=None)  # in listeners: their Listeners' event


class Listeners:
    """Calls a client's state listeners, for one state after the other, on a thread (or greenlet) of their own.

    Whoever brings a state, a connection thread as a rule, waits until they have returned, so that no later answer
    overtakes it, as with kazoo. But once one of them uses the client, or after `patience_s`, it waits no more:
    then the client can give the listener what it waits for.

    :param handler: kazoo's handler.
    :param call: calls all listeners with a state.
    """

    def __init__(self, handler: Any, call: Callable[[str], None], patience_s: float) -> None:
        self._handler = handler
        self._call = call
        self._patience_s = patience_s
        self._lock = threading.Lock()
        self._states: deque[str] = deque()
        self._may_go_on: Any = None  # while listeners are being called: an event, nobody has to wait for them

    def tell(self, state: str) -> None:
        with self._lock:
            self._states.append(state)
            may_go_on = self._may_go_on
            is_idle = may_go_on is None
            if is_idle:
                may_go_on = self._may_go_on = self._handler.event_object()
        if is_idle:
            self._handler.spawn(self._run, may_go_on)
        if _waited_for.get() is not may_go_on:
            may_go_on.wait(self._patience_s)

    def excuse(self) -> None:
        """The client is about to be used: if that is a listener's doing, nobody waits for it."""
        may_go_on = self._may_go_on
        if may_go_on is not None and _waited_for.get() is may_go_on:
            may_go_on.set()

    def _run(self, may_go_on: Any) -> None:
        _waited_for.set(may_go_on)
        while True:
            with self._lock:
                if not self._states:
                    self._may_go_on = None
                    break
                state = self._states.popleft()
            self._call(state)
        may_go_on.set()
