"""What kazoo's handlers spawn: threads, or gevent's greenlets."""

from __future__ import annotations

import sys
import threading
from typing import Any

from parkazoo.wire.workers import CallQueue


def is_current(routine: Any) -> bool:
    """Whether the caller runs in it. Unknown for what other handlers spawn."""
    if isinstance(routine, CallQueue):
        return routine.is_current()
    if isinstance(routine, threading.Thread):
        return routine is threading.current_thread()
    return _is_greenlet(routine) and bool(routine.getcurrent() is routine)


def current_routine() -> object:
    """Returns the caller's greenlet, if the process has any, or else its thread."""
    greenlets = sys.modules.get("greenlet")
    return threading.current_thread() if greenlets is None else greenlets.getcurrent()


def has_ended(routine: Any) -> bool:
    """Whether a handler's worker has ended."""
    if isinstance(routine, tuple):  # eventlet's, with its queue
        routine = routine[0]
    if isinstance(routine, threading.Thread):
        return not routine.is_alive()
    return bool(getattr(routine, "dead", False))


def end_after_fork(routine: Any) -> None:
    """A fork ends threads. Greenlets go on in the child until they are stopped."""
    if _is_greenlet(routine) and not is_current(routine):
        routine.kill(block=False)


def _is_greenlet(routine: Any) -> bool:
    return hasattr(routine, "getcurrent")
