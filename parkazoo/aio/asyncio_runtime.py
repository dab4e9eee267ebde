"""Runs a session on an asyncio loop."""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
import uuid
from collections.abc import Callable

from kazoo.protocol.states import WatchedEvent

from parkazoo.aio.asyncio_link import AsyncioLink
from parkazoo.aio.asyncio_loop import AsyncioLoop
from parkazoo.engine.ports import Monitor
from parkazoo.protocol.watches import DirectoryWatch
from parkazoo.types.znodes import Watch
from parkazoo.wire.link import Link
from parkazoo.wire.runtime import NUMBER_BITS

log = logging.getLogger(__name__)


class OpenGate:
    """Answers pass at once: listeners have been called by then."""

    is_closed = False


class AsyncioRuntime:
    """See :class:`parkazoo.wire.running.WireRuntime`. The loop runs already, and goes on afterwards."""

    link_type: type[Link] = AsyncioLink

    def __init__(self, loop: asyncio.AbstractEventLoop, monitor: Monitor | None) -> None:
        self.monitor = monitor
        self.gate = OpenGate()
        self.move_to(loop)

    def move_to(self, loop: asyncio.AbstractEventLoop) -> None:
        """What is still told is told on this one: the one before was closed."""
        self.loop = AsyncioLoop(loop)
        self._asyncio_loop = loop

    def begin(self) -> None:
        """It runs."""

    def end(self) -> None:
        """It goes on."""

    def call(self, call: Callable[[], None]) -> None:
        self.loop.call(call)

    def call_later(self, delay_s: float, call: Callable[[], None]) -> asyncio.TimerHandle:
        return self.loop.call_later(delay_s, call)

    def deliver(self, watch: Watch, event: WatchedEvent) -> None:
        """A user's function is called before any later answer wakes its task."""
        if isinstance(watch, DirectoryWatch):
            watch(event)
        else:
            self._asyncio_loop.call_soon(_tell, watch, event)

    def make_lock(self) -> threading.Lock:
        """Nobody else asks for it, and no other context manager is as fast."""
        return threading.Lock()

    def new_mark(self) -> str:
        return uuid.uuid4().hex

    def new_number(self) -> int:
        return secrets.randbits(NUMBER_BITS) or 1


def _tell(watch: Watch, event: WatchedEvent) -> None:
    try:
        watch(event)
    except Exception:
        log.exception("Unhandled exception in the watch %r", watch)
