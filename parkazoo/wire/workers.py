"""Threads for calls that block, made when needed; they end when they have been idle for a while."""

from __future__ import annotations

import logging
import os
import queue
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any
from weakref import WeakSet

from parkazoo.types.handlers import Handler

log = logging.getLogger(__name__)

IDLE_S = 2.0
GREEN = ("sequential_gevent_handler", "sequential_eventlet_handler")  # kazoo's handlers that spawn no threads

_all: WeakSet[Workers | CallQueue] = WeakSet()

# Signal handlers run on the main thread, after any call that it makes here. They may raise, and may use clients.
# So a thread that asks for a call takes no lock and notes nothing: it appends the call, and wakes a thread. The
# thread that makes calls notes that it does.


def make(call: Callable[[], object]) -> None:
    """Make a call of the user's. All it raises ends here, SystemExit too, because later calls must be made."""
    try:
        call()
    except BaseException:
        log.exception("Unhandled exception in %r", call)


class Workers:
    """A pool of daemon threads.

    It loses no call: when no thread can be started, a call waits until one is free, or for the next :meth:`run`.

    :param most: how many threads there may be, nearly; None for as many as there are calls.
    """

    _wakes: Any  # a queue that idle threads wait at, made with the first one: gevent may patch modules until then

    def __init__(self, name: str, most: int | None = None) -> None:
        self._name = name
        self._most = most
        self.reset()
        _all.add(self)

    def reset(self) -> None:
        """As new; for a child process, which has none of the threads."""
        self._calls: OrderedDict[Callable[[], object], None] = OrderedDict()
        self._threads: set[threading.Thread] = set()
        self._idle: set[threading.Thread] = set()
        self._keepers: WeakSet[object] = WeakSet()
        self._is_short = False
        self._lock = threading.Lock()  # for its threads alone
        self.__dict__.pop("_wakes", None)

    def run(self, call: Callable[[], object]) -> None:
        """Ask for a call. One that waits already is not made twice."""
        self._calls[call] = None
        self._wake()
        if len(self._idle) < len(self._calls) and (self._most is None or len(self._threads) < self._most):
            try:
                self._start()
            except (RuntimeError, MemoryError) as error:
                if not self._is_short:
                    log.warning("No more threads for %s, calls have to wait: %s", self._name, error)
                self._is_short = True
            else:
                self._is_short = False

    def keep(self, owner: object) -> None:
        """Keep a thread ready until :meth:`let_go`, or as long as `owner` is referred to.

        :raises RuntimeError: no thread can be started.
        """
        self._keepers.add(owner)
        if not self._threads:
            try:
                self._start()
            except BaseException:
                self._keepers.discard(owner)
                raise

    def let_go(self, owner: object) -> None:
        self._keepers.discard(owner)
        self._wake()

    def _wake(self) -> None:
        """Wake an idle thread to look again."""
        if self._idle and self._wakes.qsize() < len(self._idle):
            self._wakes.put(None)

    def _start(self) -> None:
        self.__dict__.setdefault("_wakes", queue.SimpleQueue())
        threading.Thread(target=self._work, name=self._name, daemon=True).start()

    def _work(self) -> None:
        thread = threading.current_thread()
        self._threads.add(thread)
        try:
            while (call := self._next(thread)) is not None:
                make(call)
                del call  # release before it is idle
        finally:
            self._threads.discard(thread)
            self._idle.discard(thread)

    def _next(self, thread: threading.Thread) -> Callable[[], object] | None:
        """Wait for a call; None if the thread is to end."""
        is_long_idle = False
        while True:
            with self._lock:
                self._idle.discard(thread)
                if self._calls:
                    return self._calls.popitem(last=False)[0]
                is_kept = bool(self._keepers) and not self._idle
                if is_long_idle and not is_kept:
                    self._threads.discard(thread)  # before the last look: run() and keep() look at it last
                    if not self._calls and (self._threads or not self._keepers):
                        return None
                    self._threads.add(thread)
                self._idle.add(thread)
            if self._calls:  # run() may have found no idle thread
                continue
            try:
                self._wakes.get(timeout=None if is_kept else IDLE_S)
                is_long_idle = False
            except queue.Empty:
                is_long_idle = True


CALLBACKS = Workers("parkazoo-callbacks")
BLOCKING = Workers("parkazoo-blocking")  # names, TLS files, SASL, and what programs put in a connection's way


def run_on(workers: Workers, handler: Handler, call: Callable[[], object]) -> None:
    """Make a call that may block: on one of the threads, or as what the handler spawns if that is no thread."""
    if handler.name in GREEN:
        handler.spawn(call)
    else:
        workers.run(call)


class SoleWorker:
    """Has what waits done, by one thread at a time.

    :param has_more: whether anything waits. :param work: does all that waits.
    """

    def __init__(self, handler: Handler, has_more: Callable[[], object], work: Callable[[], None]) -> None:
        self._handler = handler
        self._has_more = has_more
        self._work = work
        self._turn = threading.Lock()  # the thread that holds it works
        self._is_working = False

    def ask(self) -> None:
        """Something waits. Who works notes that; see above."""
        if not self._is_working:
            run_on(CALLBACKS, self._handler, self._run)

    def _run(self) -> None:
        while self._has_more() and self._turn.acquire(False):  # again: more may have come before it let go
            try:
                self._is_working = True
                self._work()
            finally:
                self._is_working = False
                self._turn.release()


class CallQueue:
    """Makes calls one at a time, in order. Stands where kazoo's threading handler has a queue.

    :param handler: on what it spawns if that is no thread; None: on threads.
    """

    def __init__(self, handler: Handler | None = None) -> None:
        self._handler = handler
        self.reset()
        _all.add(self)

    def reset(self) -> None:
        """As new; for a child process."""
        self._calls: deque[Callable[[], object]] = deque()
        self._turn = threading.Lock()  # the thread that holds it makes the calls
        self._thread: int | None = None
        self.current: Callable[[], object] | None = None
        """The call that is being made."""

    def put(self, call: Callable[[], object]) -> None:
        self._calls.append(call)
        if self._thread is not None:
            return
        if self._handler is None:
            CALLBACKS.run(self._work)
        else:
            run_on(CALLBACKS, self._handler, self._work)

    @property
    def waiting(self) -> int:
        """How many calls wait."""
        return len(self._calls)

    def is_current(self) -> bool:
        """Whether the caller is called by it."""
        return self._thread == threading.get_ident()

    def join(self, timeout_s: float) -> bool:
        """Wait for the calls that have been put before; on one of its own calls, do not wait.

        :returns: whether they are made.
        """
        if self.is_current():
            return False
        if not self._calls and not self._turn.locked():
            return True
        is_made = threading.Lock()
        is_made.acquire()
        self.put(is_made.release)
        return is_made.acquire(timeout=timeout_s)

    def _work(self) -> None:
        calls, turn = self._calls, self._turn
        while calls and turn.acquire(False):  # again: a call may have been put just before it let go
            try:
                self._thread = threading.get_ident()
                while calls:
                    self.current = calls.popleft()
                    make(self.current)
            finally:
                self.current = self._thread = None
                turn.release()


def _after_fork() -> None:
    for each in list(_all):
        each.reset()


os.register_at_fork(after_in_child=_after_fork)
