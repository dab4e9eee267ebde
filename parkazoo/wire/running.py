"""What runs a member: a loop, and a session's runtime on it. Threads, greenlets and asyncio have their own."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from parkazoo.engine.ports import Monitor, Runtime, Timer

if TYPE_CHECKING:
    from parkazoo.wire.link import Link


class RunningLoop(Protocol):
    """It makes one call at a time. All but `call` is for the loop's own thread.

    :ivar kind: loops of one kind share the answers to their look-ups of names.
    """

    kind: str

    def is_here(self) -> bool:
        """Whether the caller is called by the loop. Any thread may ask."""

    def call(self, call: Callable[[], None]) -> None:
        """Make a call on the loop, soon: what the loop itself asks for, in its next turn."""

    def call_at_end(self, call: Callable[[], None]) -> None:
        """Make a call when all that is ready now has been read."""

    def call_later(self, delay_s: float, call: Callable[[], None]) -> Timer:
        """Make a call after that time."""

    def run_blocking(self, call: Callable[[], None]) -> None:
        """Make a call that may block, where it holds up nothing.

        :raises RuntimeError: no thread can be started.
        """

    def watch(self, sock: socket.socket, call: Callable[[int], None]) -> None:
        """Call when `sock` can be read, or written after :meth:`set_events`.

        :raises ValueError: the socket is closed.
        """

    def set_events(self, sock: socket.socket, events: int) -> None:
        """What to wait for from now on: READ, WRITE or both."""

    def forget(self, sock: socket.socket) -> None:
        """
        :raises KeyError, ValueError: it is not watched.
        """


class AnswerGate(Protocol):
    """Answers pass it. While it is closed they wait; :meth:`Link.resume` takes them when it is open again."""

    is_closed: bool


class WireRuntime(Runtime, Protocol):
    """A runtime of the engine, and the loop of its members.

    :ivar link_type: carries the requests of a connection.
    """

    link_type: type[Link]

    @property
    def loop(self) -> RunningLoop:
        """From `begin` on."""

    @property
    def gate(self) -> AnswerGate: ...

    @property
    def monitor(self) -> Monitor | None:
        """Hears of connections, sessions and watches; None if nobody does."""
