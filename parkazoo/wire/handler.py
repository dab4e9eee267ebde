"""kazoo's threading handler with threads made when they are needed, and light results."""

from __future__ import annotations

import atexit
import threading
from _thread import allocate_lock
from collections.abc import Callable
from functools import partial
from typing import Any

from kazoo.handlers.threading import AsyncResult, KazooTimeoutError, SequentialThreadingHandler

from parkazoo.wire.workers import Strand

_NOT_YET = object()


class Result(AsyncResult):
    """kazoo's AsyncResult, without a Condition: a lock is made for those who wait."""

    def __init__(self, handler: Any) -> None:
        self._handler = handler
        self._exception: Any = _NOT_YET
        self._callbacks: list[Callable[[Any], None]] | None = None
        self._lock = allocate_lock()
        self._waiters: list[Any] | None = None
        self.value: Any = None

    def ready(self) -> bool:
        return self._exception is not _NOT_YET

    def successful(self) -> bool:
        return self._exception is None

    @property
    def exception(self) -> Any:
        return self._exception if self._exception is not _NOT_YET else None

    def set(self, value: Any = None) -> None:
        with self._lock:
            self.value = value
            self._exception = None
            waiters, self._waiters = self._waiters, None
            if self._callbacks:
                self._do_callbacks()
        if waiters:
            for waiter in waiters:
                waiter.release()

    def set_exception(self, exception: Exception) -> None:
        with self._lock:
            self._exception = exception
            waiters, self._waiters = self._waiters, None
            if self._callbacks:
                self._do_callbacks()
        if waiters:
            for waiter in waiters:
                waiter.release()

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        if self._exception is _NOT_YET and block:
            self.wait(timeout)
        if self._exception is None:
            return self.value
        if self._exception is _NOT_YET:
            raise KazooTimeoutError
        raise self._exception

    def wait(self, timeout: float | None = None) -> bool:
        if self._exception is _NOT_YET:
            waiter = allocate_lock()
            waiter.acquire()
            with self._lock:
                if self._exception is not _NOT_YET:
                    return True
                if self._waiters is None:
                    self._waiters = [waiter]
                else:
                    self._waiters.append(waiter)
            if timeout is None:
                waiter.acquire()
            else:
                waiter.acquire(timeout=min(max(timeout, 0), threading.TIMEOUT_MAX))
        return self._exception is not _NOT_YET

    def rawlink(self, callback: Callable[[Any], None]) -> None:
        with self._lock:
            if self._callbacks is None:
                self._callbacks = []
            if callback not in self._callbacks:
                self._callbacks.append(callback)
            if self._exception is not _NOT_YET:
                self._do_callbacks()

    def unlink(self, callback: Callable[[Any], None]) -> None:
        with self._lock:
            if self._exception is _NOT_YET and self._callbacks and callback in self._callbacks:
                self._callbacks.remove(callback)

    def _do_callbacks(self) -> None:
        for callback in self._callbacks or ():
            call = partial(callback, self)
            if self._handler.running:
                self._handler.completion_queue.put(call)
            else:
                call()


class Handler(SequentialThreadingHandler):
    """What a ParKazooClient gets if it is given no handler."""

    _running: bool

    def __init__(self) -> None:
        super().__init__()
        self.callback_queue = Strand(self)
        self.completion_queue = Strand(self)
        self._workers = [self.callback_queue, self.completion_queue]

    def start(self) -> None:
        with self._state_change:
            if not self._running:
                self._running = True
                atexit.register(self.stop)

    def stop(self) -> None:
        with self._state_change:
            if not self._running:
                return
            self._running = False
            self.completion_queue.join()
            self.callback_queue.join()
            atexit.unregister(self.stop)

    def async_result(self) -> Result:
        return Result(self)

    def dispatch_callback(self, callback: Any) -> None:
        self.callback_queue.put(partial(callback.func, *callback.args))
