"""Runs a session with threads or greenlets: the loop of the process, and the handler's workers."""

from __future__ import annotations

import secrets
import threading
import uuid
from collections.abc import Callable
from functools import partial

from kazoo.protocol.states import Callback, WatchedEvent

from parkazoo.engine.ports import Monitor
from parkazoo.protocol.watches import DirectoryWatch
from parkazoo.types.znodes import Watch
from parkazoo.wire import loop as loops
from parkazoo.wire.link import Link
from parkazoo.wire.own import is_own, own_queue
from parkazoo.wire.running import AnswerGate

NUMBER_BITS = 63


class LoopRuntime:
    """Runs one session, see :class:`parkazoo.engine.ports.Runtime`; its members share it.

    :param monitor: hears of connections, sessions and watches; None if nobody does.
    :ivar loop: from :meth:`begin` on.
    """

    loop: loops.Loop
    link_type = Link

    def __init__(self, handler: loops.LoopHandler, gate: AnswerGate, monitor: Monitor | None) -> None:
        self.gate = gate
        self.monitor = monitor
        self._handler = handler
        self._own_queue = own_queue(handler)

    def begin(self) -> None:
        self.loop = loops.acquire(self._handler)

    def end(self) -> None:
        loops.release(self.loop)

    def call(self, call: Callable[[], None]) -> None:
        self.loop.call(call)

    def call_later(self, delay_s: float, call: Callable[[], None]) -> loops.LoopTimer:
        return self.loop.call_later(delay_s, call)

    def deliver(self, watch: Watch, event: WatchedEvent) -> None:
        if isinstance(watch, DirectoryWatch):
            watch(event)
        elif is_own(watch):
            self._own_queue.put(partial(watch, event))
        else:
            self._handler.dispatch_callback(Callback("watch", watch, (event,)))

    def make_lock(self) -> threading.Lock:
        return threading.Lock()

    def new_mark(self) -> str:
        return uuid.uuid4().hex

    def new_number(self) -> int:
        return secrets.randbits(NUMBER_BITS) or 1
