"""An asyncio loop as the wire needs one: readiness of sockets, calls and timers."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Callable
from contextlib import suppress

from parkazoo.wire.loop import READ, WRITE, name_of
from parkazoo.wire.workers import BLOCKING

log = logging.getLogger(__name__)


class AsyncioLoop:
    """See :class:`parkazoo.wire.running.RunningLoop`. It is made by the thread that runs the loop."""

    kind = "asyncio"

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._thread = threading.get_ident()
        self._watched: dict[socket.socket, tuple[int, Callable[[int], None], int]] = {}

    def is_here(self) -> bool:
        return threading.get_ident() == self._thread

    def call(self, call: Callable[[], None]) -> None:
        if self.is_here():
            self._loop.call_soon(_make, call)
        else:
            with suppress(RuntimeError):  # it is closed: nobody waits for a name any more
                self._loop.call_soon_threadsafe(_make, call)

    def call_at_end(self, call: Callable[[], None]) -> None:
        self._loop.call_soon(call)

    def call_later(self, delay_s: float, call: Callable[[], None]) -> asyncio.TimerHandle:
        return self._loop.call_later(delay_s, _make, call)

    def run_blocking(self, call: Callable[[], None]) -> None:
        """On a thread of the wire's. The loop's own may be busy with what a program does, and hold up its end."""
        BLOCKING.keep(self)
        BLOCKING.run(call)
        BLOCKING.let_go(self)

    def watch(self, sock: socket.socket, call: Callable[[int], None]) -> None:
        number = sock.fileno()
        if number < 0:
            raise ValueError("the socket is closed")
        self._loop.add_reader(number, call, READ)
        self._watched[sock] = number, call, READ

    def set_events(self, sock: socket.socket, events: int) -> None:
        number, call, before = self._watched[sock]
        for event, add, remove in (
            (READ, self._loop.add_reader, self._loop.remove_reader),
            (WRITE, self._loop.add_writer, self._loop.remove_writer),
        ):
            if events & event and not before & event:
                add(number, call, event)
            elif before & event and not events & event:
                remove(number)
        self._watched[sock] = number, call, events

    def forget(self, sock: socket.socket) -> None:
        number, _, events = self._watched.pop(sock)
        if events & READ:
            self._loop.remove_reader(number)
        if events & WRITE:
            self._loop.remove_writer(number)


def _make(call: Callable[[], None]) -> None:
    try:
        call()
    except Exception:
        log.exception("Unhandled exception in %s", name_of(call))
