"""An address that leads to a server, to another one tomorrow, or nowhere."""

from __future__ import annotations

import selectors
import socket
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

from parkazoo.local import HOST, free_ports

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
PART_BYTES = 1 << 16
MOST_BYTES = 1 << 20  # kept for a side that does not read
BACKLOG = 4096


class Relay:
    """Takes connections at an address of its own, and passes bytes on to its target and back.

    Methods return when what they do is done. Any thread may call them.

    :param target: ``"host:port"``.
    :param host: where it listens.
    """

    def __init__(self, target: str, host: str = HOST) -> None:
        self.target = target
        self.accepted = 0
        self._host = host
        self._port = free_ports(1)[0]
        self.address = f"{host}:{self._port}"
        self._selector = selectors.DefaultSelector()
        self._inner, self._outer = socket.socketpair()
        self._inner.setblocking(False)
        self._selector.register(self._inner, READ, None)
        self._calls: deque[tuple[Callable[[], None], threading.Event]] = deque()
        self._sides: set[_Side] = set()
        self._door: socket.socket | None = None
        self._is_frozen = self._is_mute = False
        self._is_over = False
        self._open()
        self._thread = threading.Thread(target=self._run, name=f"relay {self.address}", daemon=True)
        self._thread.start()

    def __enter__(self) -> Relay:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def cut(self) -> None:
        """End every connection."""
        self._do(self._cut)

    def refuse(self) -> None:
        """End every connection, and refuse new ones."""
        self._do(self._refuse)

    def admit(self) -> None:
        """Take connections again."""
        self._do(self._open)

    def freeze(self) -> None:
        """Stop in its tracks, as a process that got SIGSTOP: the kernel takes connections, nothing is answered."""
        self._do(lambda: setattr(self, "_is_frozen", True))

    def thaw(self) -> None:
        self._do(lambda: setattr(self, "_is_frozen", False))

    def mute(self) -> None:
        """Swallow what comes from now on. What the target says goes on to be heard."""
        self._do(lambda: setattr(self, "_is_mute", True))

    def lead_to(self, target: str) -> None:
        """End every connection; those that come lead to `target`."""

        def turn() -> None:
            self.target = target
            self.accepted = 0
            self._cut()

        self._do(turn)

    def stop(self) -> None:
        """End every connection, and the relay."""
        if self._thread.is_alive():
            self._do(lambda: setattr(self, "_is_over", True))
            self._thread.join()
            self._inner.close()  # only now: the thread may make the call before `_do` has woken it
            self._outer.close()

    def _do(self, call: Callable[[], None]) -> None:
        is_done = threading.Event()
        self._calls.append((call, is_done))
        self._outer.send(b"\0")
        is_done.wait()

    # ---- on its thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._is_over:
            if self._is_frozen:
                self._inner.setblocking(True)
                self._inner.recv(1)
                self._inner.setblocking(False)
            else:
                for key, events in self._selector.select():
                    if key.data is not None:
                        key.data(events)
                with suppress(BlockingIOError):
                    self._inner.recv(PART_BYTES)
            while self._calls:
                call, is_done = self._calls.popleft()
                call()
                is_done.set()
        self._refuse()
        self._selector.close()

    def _open(self) -> None:
        if self._door is None:
            self._door = socket.create_server((self._host, self._port), backlog=BACKLOG)
            self._door.setblocking(False)
            self._selector.register(self._door, READ, self._accept)

    def _refuse(self) -> None:
        if self._door is not None:
            self._selector.unregister(self._door)
            self._door.close()
            self._door = None
        self._cut()

    def _cut(self) -> None:
        for side in list(self._sides):
            side.end()

    def _accept(self, events: int) -> None:
        with suppress(BlockingIOError, ConnectionError):
            assert self._door is not None
            taken, _ = self._door.accept()
            self.accepted += 1
            host, _, port = self.target.rpartition(":")
            beyond = socket.socket()
            beyond.setblocking(False)
            beyond.connect_ex((host, int(port)))  # what comes of it shows when it is written to
            near, far = _Side(taken, self._selector, self._sides), _Side(beyond, self._selector, self._sides)
            near.peer, far.peer = far, near
            far.is_connecting = True
            near.is_swallowed = lambda: self._is_mute
            near.watch()
            far.watch()


class _Side:
    """One of the two sockets of a connection."""

    peer: _Side

    def __init__(self, sock: socket.socket, selector: selectors.BaseSelector, sides: set[_Side]) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sock = sock
        self._selector = selector
        self._sides = sides
        self._unsent = bytearray()
        self._events = 0
        self.is_connecting = False
        self.is_swallowed: Callable[[], bool] = lambda: False
        sides.add(self)

    def watch(self) -> None:
        """Have what is possible now looked at."""
        events = READ if len(self.peer._unsent) < MOST_BYTES and not self.is_connecting else 0
        events |= WRITE if self._unsent or self.is_connecting else 0
        if events == self._events or self not in self._sides:
            return
        if not self._events:
            self._selector.register(self._sock, events, self._on_ready)
        elif events:
            self._selector.modify(self._sock, events, self._on_ready)
        else:
            self._selector.unregister(self._sock)
        self._events = events

    def end(self) -> None:
        """End both sides."""
        for side in (self, self.peer):
            if side in self._sides:
                self._sides.discard(side)
                if side._events:
                    self._selector.unregister(side._sock)
                with suppress(OSError):  # what came before the end of the other side
                    side._sock.send(side._unsent)
                side._sock.close()

    def _on_ready(self, events: int) -> None:
        if self not in self._sides:  # its peer has just ended
            return
        try:
            if events & WRITE:
                self.is_connecting = False
                del self._unsent[: self._sock.send(self._unsent)]
            if events & READ:
                data = self._sock.recv(PART_BYTES)
                if not data:
                    self.end()
                    return
                if self.is_swallowed():
                    return
                self.peer._unsent += data
                if not self.peer.is_connecting:
                    with suppress(BlockingIOError):
                        del self.peer._unsent[: self.peer._sock.send(self.peer._unsent)]
        except BlockingIOError:
            pass
        except OSError:
            self.end()
            return
        self.watch()
        self.peer.watch()
