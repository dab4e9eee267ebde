"""One loop reads and writes all sockets of a process: a thread, or a greenlet of each gevent hub.

It runs while a connection uses it. Nothing that it calls may block.
"""

from __future__ import annotations

import heapq
import importlib
import itertools
import logging
import os
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Protocol
from weakref import WeakValueDictionary

from parkazoo.types.handlers import Handler
from parkazoo.wire.routine import end_after_fork
from parkazoo.wire.workers import BLOCKING, GREEN, run_on

log = logging.getLogger(__name__)

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
READ_BYTES = 1 << 16  # at once, from a connection
DRAIN_BYTES = 4096
MANY_TIMERS = 64
# Selectors that wait as a handler of kazoo does; all other handlers count as threads.
SELECTORS = {
    "sequential_gevent_handler": "gevent.selectors",
    "sequential_eventlet_handler": "eventlet.green.selectors",
}

HUBS = {"sequential_gevent_handler": "gevent", "sequential_eventlet_handler": "eventlet.hubs"}


class LoopHandler(Handler, Protocol):
    """A handler as kazoo has them: its sockets wait as all that it spawns."""

    def create_socket_pair(self) -> tuple[socket.socket, socket.socket]: ...


class LoopTimer(list[Any]):
    """When to call, a number that orders calls of the same moment, and the function."""

    __slots__ = ()

    def cancel(self) -> None:
        """Let go of the function that it would have called."""
        self[2] = None


class Loop:
    """:func:`acquire` makes one. All but `call`, `wake` and `is_here` is for the loop's own thread."""

    def __init__(self, handler: LoopHandler) -> None:
        self.kind = handler.name
        self.users: list[None] = []  # one for each use
        self._is_over = False  # nobody uses it, nor will
        self.read_sock, self.write_sock = handler.create_socket_pair()
        self.read_sock.setblocking(False)
        self.write_sock.setblocking(False)
        self._selector = importlib.import_module(SELECTORS.get(handler.name, "selectors")).DefaultSelector()
        self._selector.register(self.read_sock, READ, self._drain)
        self._calls: deque[Callable[[], None]] = deque()
        self._last_calls: deque[Callable[[], None]] = deque()
        self._timers: list[LoopTimer] = []
        self._many_timers = MANY_TIMERS
        self._numbers = itertools.count()
        self._is_signalled = False
        self._waker: int | None = None  # is about to send, and may be interrupted by one that calls
        self._thread: int | None = None  # while it is awake
        self._handler = handler
        self._turn = threading.Lock()  # of the one routine that runs it
        self._routines: list[object] = []
        _all[id(self)] = self

    def begin(self) -> None:
        """Start it; may be called again."""
        if not self._turn.locked():
            self._routines.append(self._handler.spawn(self._run))

    def call(self, call: Callable[[], None]) -> None:
        """Make a call on the loop, soon: what the loop itself calls, in its next turn."""
        self._calls.append(call)
        self.wake()

    def wake(self) -> None:
        if self._is_signalled and self._waker != threading.get_ident():
            return
        try:
            self._waker = threading.get_ident()
            self._is_signalled = True
            self.write_sock.send(b"\0")
            self._waker = None
        except BaseException as error:
            # An error of the socket: it is full, so the loop will wake, or closed, for no client uses it any more.
            # Anything else is a signal handler's.
            if not isinstance(error, OSError) or error.errno is None:
                self._is_signalled = False
                raise

    def is_here(self) -> bool:
        """Whether the caller is called by the loop."""
        return self._thread == threading.get_ident()

    def call_at_end(self, call: Callable[[], None]) -> None:
        """Make a call at the end of this turn, when all that is ready now has been read."""
        self._last_calls.append(call)

    def call_later(self, delay_s: float, call: Callable[[], None]) -> LoopTimer:
        timer = LoopTimer([time.monotonic() + delay_s, next(self._numbers), call])
        heapq.heappush(self._timers, timer)
        if len(self._timers) > self._many_timers:  # most of them have perhaps been cancelled
            self._timers = [each for each in self._timers if each[2] is not None]
            heapq.heapify(self._timers)
            self._many_timers = max(MANY_TIMERS, 2 * len(self._timers))
        return timer

    def run_blocking(self, call: Callable[[], None]) -> None:
        """Make a call that may block: on a thread, or as what the handler spawns if that is no thread.

        :raises RuntimeError: no thread can be started.
        """
        if self.kind not in GREEN:
            BLOCKING.keep(self)
        run_on(BLOCKING, self._handler, call)

    def watch(self, sock: socket.socket, call: Callable[[int], None]) -> None:
        """Call when `sock` can be read, or written after :meth:`set_events`."""
        try:
            self._selector.register(sock, READ, call)
        except KeyError:  # another had this number until it was closed
            before = self._selector.get_key(sock.fileno())
            before.data(READ)  # its watcher notices
            with suppress(KeyError, ValueError):  # and has mostly forgotten it by now
                self._selector.unregister(before.fileobj)
            self._selector.register(sock, READ, call)

    def set_events(self, sock: socket.socket, events: int) -> None:
        self._selector.modify(sock, events, self._selector.get_key(sock).data)

    def forget(self, sock: socket.socket) -> None:
        self._selector.unregister(sock)

    def _drain(self, events: int) -> None:
        with suppress(BlockingIOError):
            self.read_sock.recv(DRAIN_BYTES)
        # Only now: this has read the byte of every earlier caller, and looks at its call after this.
        self._is_signalled = False

    def _run(self) -> None:
        if not self._turn.acquire(False):
            return
        # A turn makes the calls that have been asked for before, and no more: it has to end, whatever they do.
        while self._calls or not self._is_over:
            timeout = 0.0 if self._calls or self._last_calls else None
            if self._timers and timeout is None:
                timeout = max(0.0, self._timers[0][0] - time.monotonic())
            self._thread = None
            ready = self._selector.select(timeout)
            self._thread = threading.get_ident()
            for key, events in ready:
                self._make(key.data, events)
            for _ in range(len(self._calls)):
                self._make(self._calls.popleft())
            now = time.monotonic()
            while self._timers and self._timers[0][0] <= now:
                if (call := heapq.heappop(self._timers)[2]) is not None:
                    self._make(call)
            for _ in range(len(self._last_calls)):
                self._make(self._last_calls.popleft())
        self._thread = None  # its number may be another thread's next
        self.close()
        BLOCKING.let_go(self)

    def end(self) -> None:
        """End it, after the calls that have been asked for."""
        self._is_over = True
        self.wake()

    def close(self) -> None:
        """Close what it waits with. It does not run any more, or never did."""
        _all.pop(id(self), None)
        self._selector.close()
        self.read_sock.close()
        self.write_sock.close()

    def abandon(self) -> None:
        """In a child process: the watched sockets are the parent's."""
        for routine in self._routines:
            end_after_fork(routine)
        self._selector.close()  # before any of its sockets: libev aborts if a watched one is closed
        for sock in (self.read_sock, self.write_sock):
            os.close(sock.detach())

    def _make(self, call: Callable[..., None], *arguments: object) -> None:
        try:
            call(*arguments)
        except Exception:
            log.exception("Unhandled exception in %s", name_of(call))


def name_of(call: object) -> str:
    """Without its arguments, which may hold a session's password."""
    while isinstance(call, partial):
        call = call.func
    return getattr(call, "__qualname__", type(call).__name__)


_loops: dict[object, Loop] = {}  # by the key of what uses them
_all: WeakValueDictionary[int, Loop] = WeakValueDictionary()  # that run, or may

# A signal handler, or a `__del__`, may start and stop clients in the middle of these functions, on their thread.
# So they take no lock: each step is one call of a dict's or a list's method.


def acquire(handler: LoopHandler) -> Loop:
    """The loop for connections with such a handler. Call :func:`release` when done.

    :raises RuntimeError: no thread can be started.
    """
    key = _key(handler)
    while True:
        loop = _loops.get(key) or _list(key, Loop(handler))
        loop.users.append(None)
        try:
            if _loops.get(key) is loop:  # a later end sees this use
                loop.begin()
                return loop
        except BaseException:
            release(loop)
            raise
        release(loop)


def _list(key: object, made: Loop) -> Loop:
    """The one that counts: `made`, or a quicker thread's."""
    loop = _loops.setdefault(key, made)
    if loop is not made:
        made.close()
    return loop


def is_here() -> bool:
    """Whether the caller is called by a loop."""
    loops = (each() for each in _all.valuerefs())
    return any(loop is not None and loop.is_here() for loop in loops)


def release(loop: Loop) -> None:
    """End a use of a loop. It ends with the last."""
    loop.users.pop()
    if loop.users:
        return
    for key in [key for key, each in _loops.copy().items() if each is loop]:
        _loops.pop(key, None)  # from now on nobody finds it
    if not loop.users:
        loop.end()


def _key(handler: LoopHandler) -> object:
    if handler.name not in HUBS:
        return None
    return importlib.import_module(HUBS[handler.name]).get_hub()  # each thread has its own


def _after_fork() -> None:
    for loop in list(_all.values()):
        loop.abandon()
    _all.clear()
    _loops.clear()


os.register_at_fork(after_in_child=_after_fork)
