"""kazoo's threading handler with threads made when they are needed, and light results."""

from __future__ import annotations

import atexit
import logging
import queue
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any
from weakref import WeakSet

from kazoo.handlers.threading import AsyncResult, KazooTimeoutError, SequentialThreadingHandler

from parkazoo.wire import loop as loops
from parkazoo.wire.lockless_event import LocklessEvent
from parkazoo.wire.own import is_own
from parkazoo.wire.routine import has_ended
from parkazoo.wire.workers import CALLBACKS, CallQueue

log = logging.getLogger(__name__)

CLOSE_TIMEOUT_S = 10.0  # kazoo's least

_NOT_YET = object()


class Result(AsyncResult):
    """kazoo's AsyncResult without a Condition: each waiting thread brings a lock.

    The handler's `completion_queue` calls each callback once, in the order in which they were linked; what is_own
    has a queue of its own, so that it waits for none of the user's. If the
    handler is not running, the thread that sets the result or links the callback calls it, as with kazoo; a loop
    never does. There is no lock: a thread that waits or links appends first, and then looks at
    `_exception`; a thread that sets writes `_exception` first, and then looks at what was appended.
    """

    _has_given_up = False  # a get() with a time-out was the last to wait

    def __init__(self, handler: ThreadingHandler) -> None:
        self._handler = handler
        self._exception: Any = _NOT_YET
        self._callbacks: list[Callable[[Result], None]] = []
        self._waiters: list[threading.Lock] = []
        self.value: Any = None

    def ready(self) -> bool:
        return self._exception is not _NOT_YET

    def successful(self) -> bool:
        return self._exception is None

    @property
    def exception(self) -> Exception | None:
        return self._exception if self._exception is not _NOT_YET else None

    def set(self, value: object = None) -> None:
        try:
            self.value = value
            self._exception = None
            if self._waiters or self._callbacks:
                self._tell_all()
        except BaseException:  # a signal handler's
            self._tell_all()
            raise

    def set_exception(self, exception: Exception) -> None:
        try:
            self._exception = exception
            if self._waiters or self._callbacks:
                self._tell_all()
        except BaseException:  # a signal handler's
            self._tell_all()
            raise

    @property
    def is_abandoned(self) -> bool:
        """See :func:`parkazoo.engine.ports.is_abandoned`. A callback, or another wait, changes that."""
        return self._has_given_up and not self._waiters and not self._callbacks

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        if self._exception is _NOT_YET and block:
            self._has_given_up = not self.wait(timeout)
        if self._exception is None:
            return self.value
        if self._exception is _NOT_YET:
            raise KazooTimeoutError
        raise self._exception

    def wait(self, timeout: float | None = None) -> bool:
        if self._exception is _NOT_YET and not sys.is_finalizing():  # then no thread brings an answer any more
            waiter = threading.Lock()
            waiter.acquire()
            self._waiters.append(waiter)
            if self._exception is not _NOT_YET:  # it may not have seen the waiter
                return True
            if timeout is None:
                waiter.acquire()
            elif not waiter.acquire(timeout=min(max(timeout, 0), threading.TIMEOUT_MAX)):
                with suppress(ValueError):
                    self._waiters.remove(waiter)
        return self._exception is not _NOT_YET

    def rawlink(self, callback: Callable[[Result], None]) -> None:
        if callback not in self._callbacks:
            self._callbacks.append(callback)
        if self._exception is not _NOT_YET:
            self._put(callback)

    def unlink(self, callback: Callable[[Result], None]) -> None:
        if self._exception is _NOT_YET:
            with suppress(ValueError):
                self._callbacks.remove(callback)

    def _tell_all(self) -> None:
        """Start the callbacks, and wake the waiting threads. Done again, or too early, it does no harm."""
        if self._exception is _NOT_YET:
            return
        for callback in self._callbacks.copy():
            self._put(callback)
        for waiter in self._waiters.copy():
            _wake(waiter)

    def _put(self, callback: Callable[[Result], None]) -> None:
        """:param callback: the one that is called next, or another one that is of the same kind as a rule."""
        if is_own(callback):
            self._handler.own_queue.put(self._call_next)
        elif self._handler.running or loops.is_here():
            self._handler.completion_queue.put(self._call_next)
        else:
            self._call_next()

    def _call_next(self) -> None:
        """The callback that was linked first."""
        try:
            callback = self._callbacks.pop(0)
        except IndexError:  # another thread has called it
            return
        callback(self)


class ThreadingHandler(SequentialThreadingHandler):
    """The default handler of a ParKazooClient."""

    queue_impl = queue.SimpleQueue  # a Queue has Conditions: a signal handler that raises may leave them locked
    _running: bool

    def __init__(self) -> None:
        super().__init__()
        self.callback_queue = CallQueue()
        self.completion_queue = CallQueue()
        self.own_queue = CallQueue()  # of what is_own; nothing waits for it at the end
        self._workers = [self.callback_queue, self.completion_queue]

    def start(self) -> None:
        """Start: from now on one thread at least is there to make calls, for all handlers of the process.

        :raises RuntimeError: no thread can be started.
        """
        if not self._running:
            CALLBACKS.keep(self)
            self._running = True
            _stop_at_exit(self)

    def stop(self, timeout_s: float | None = None) -> bool:
        """Wait for the watches and completion callbacks that are due. Later ones are called too.

        Called in one of its own callbacks, it does not wait for that one.

        :param timeout_s: how long; None for CLOSE_TIMEOUT_S.
        :returns: whether all have been called. If not, the log says which one is still running.
        """
        if not self._running:
            return True
        self._running = False
        _running.discard(self)
        try:
            return self._join(CLOSE_TIMEOUT_S if timeout_s is None else timeout_s)
        finally:
            if not self._running:  # it may have been started again meanwhile
                CALLBACKS.let_go(self)

    def _join(self, timeout_s: float) -> bool:
        deadline_s = time.monotonic() + timeout_s
        is_all = True
        for call_queue in (self.completion_queue, self.callback_queue):
            if not call_queue.join(max(0.0, deadline_s - time.monotonic())):
                is_all = False
                if not call_queue.is_current():
                    log.warning(
                        "A callback is still running, it was waited for for %g s: %r",
                        timeout_s,
                        call_queue.current,
                        extra={"seconds": timeout_s},
                    )
        return is_all

    def async_result(self) -> Result:
        return Result(self)

    def event_object(self) -> LocklessEvent:
        return LocklessEvent()

    def dispatch_callback(self, callback: Any) -> None:
        self.callback_queue.put(partial(callback.func, *callback.args))


_running: WeakSet[Any] = WeakSet()


def _stop_all() -> None:
    """At the exit: wait for the calls that are due, for all handlers together no longer than for one."""
    deadline_s = time.monotonic() + CLOSE_TIMEOUT_S
    for handler in list(_running):
        rest_s = max(0.0, deadline_s - time.monotonic())
        if isinstance(handler, ThreadingHandler):
            handler.stop(rest_s)
        elif handler.running and not any(map(has_ended, handler._workers)):
            _wait_for_callbacks(handler, rest_s)


def _stop_at_exit(handler: Any) -> None:
    if (
        not _running
    ):  # as with kazoo: functions that programs register for the exit before start() are called later
        atexit.unregister(_stop_all)
        atexit.register(_stop_all)
    _running.add(handler)


def start_handler(handler: Any) -> None:
    """Start any handler. The exit waits for callbacks of kazoo's handlers no longer than for ours.

    :raises RuntimeError: no thread can be started.
    """
    handler.start()
    if not isinstance(handler, ThreadingHandler):
        atexit.unregister(handler.stop)  # it would wait for ever
        _stop_at_exit(handler)


def _wake(waiter: threading.Lock) -> None:
    try:  # noqa: SIM105 - suppress() takes three calls more, for each synchronous call of a program
        waiter.release()
    except RuntimeError:  # it has been released
        pass


def stop_handler(handler: Any, timeout_s: float | None = None) -> bool:
    """Stop any handler, as :meth:`ThreadingHandler.stop` does.

    After False, kazoo's handler for gevent may be started again, kazoo's others when the callback has ended.
    """
    if isinstance(handler, ThreadingHandler):
        return handler.stop(timeout_s)
    if timeout_s is None:
        timeout_s = CLOSE_TIMEOUT_S
    has_stopped = handler.event_object()

    def stop() -> None:
        handler.stop()
        has_stopped.set()

    routine = handler.spawn(stop)
    if has_stopped.wait(timeout_s):
        return True
    log.warning("A callback has not ended within %.1f s", timeout_s, extra={"seconds": timeout_s})
    if hasattr(routine, "kill"):  # a greenlet: it gives back the handler's lock
        routine.kill()
        handler.callback_queue = handler.queue_impl()
    return False


def _wait_for_callbacks(handler: Any, timeout_s: float) -> None:
    """Wait until one of kazoo's handlers has made the calls that are due, without spawning: this is the exit."""
    deadline_s = time.monotonic() + timeout_s
    for name in ("completion_queue", "callback_queue"):
        if hasattr(handler, name):  # gevent's has no queue for completions
            is_made = handler.lock_object()
            is_made.acquire()
            getattr(handler, name).put(is_made.release)
            if not is_made.acquire(timeout=max(0.0, deadline_s - time.monotonic())):
                log.warning("A callback has not ended within %.1f s", timeout_s, extra={"seconds": timeout_s})
