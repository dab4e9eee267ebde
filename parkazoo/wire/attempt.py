"""What a socket carries before requests: steps of the loop, written as one generator.

The generator does its reads and writes on a socket that never blocks, and yields what it waits for:

    READ or WRITE    until the socket is ready for it
    NEXT_TURN        until the loop has looked at all other sockets
    a function       until it was called where it may block; the generator receives its result
    Limit(seconds)   nothing; but everything after it has to end within that time
    Until(begin)     until what `begin` was called with is called; the generator receives its argument
"""

from __future__ import annotations

import errno
import logging
import os
import socket
import ssl
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, NamedTuple, TypeVar

from kazoo.exceptions import ConnectionDropped, KazooException

from parkazoo.engine.ports import OtherSession, Timer
from parkazoo.wire.loop import READ, READ_BYTES, WRITE
from parkazoo.wire.running import RunningLoop

log = logging.getLogger(__name__)

CAUSED_OUTSIDE = (OSError, KazooException, OtherSession)  # by a network, a server or another session
CONNECTING = (errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EALREADY)
NEXT_TURN = 0
T = TypeVar("T")


class Limit(NamedTuple):
    seconds: float
    message: str


class Until(NamedTuple):
    """:param begin: called at once. What it is called with is for the loop to call, later."""

    begin: Callable[[Callable[[Any], None]], None]


Wish = int | Limit | Until | Callable[[], object]
Steps = Generator[Wish, Any, T]


class ConnectAttempt:
    """Runs the generator. All of it is for the loop's own thread.

    :param steps: the generator; it gets this object, whose `sock` it sets.
    :param on_end: called once with what the generator returns, or with the exception that it raises. Perhaps
        before the constructor returns.
    :param on_mistake: called with an exception of the generator that nothing outside has caused, before `on_end`;
        and with one that `on_end` raises.
    """

    def __init__(
        self,
        loop: RunningLoop,
        steps: Callable[[ConnectAttempt], Steps[T]],
        on_end: Callable[[T | Exception], None],
        on_mistake: Callable[[Exception], None],
    ) -> None:
        self.sock: Any = None
        self.branches: list[ConnectAttempt] = []
        self.loop = loop
        self._on_end = on_end
        self._on_mistake = on_mistake
        self._timer: Timer | None = None
        self._is_watched = False
        self._called: object = None  # stands for the call, or the turn, for which it waits
        self.has_ended = False
        self._steps = steps(self)
        self._step(None)

    def cancel(self, error: ConnectionDropped) -> None:
        """Close the socket, and end with this error. The generator gets GeneratorExit before."""
        if not self.has_ended:
            self._end()
            self._steps.close()
            self.close()
            self._tell(error)

    def look(self) -> None:
        """What it waits for may have come while this process did not run."""
        if self._is_watched:
            self._on_ready(0)

    def close(self) -> None:
        if self.sock is not None:
            self.sock.close()

    def branch(self, steps: Callable[[ConnectAttempt], Steps[T]], on_end: Callable[[T | Exception], None]) -> None:
        """Begin another attempt beside this one."""
        self.branches.append(ConnectAttempt(self.loop, steps, on_end, self._on_mistake))

    def cut(self, error: ConnectionDropped) -> None:
        """Cancel the branches that are left."""
        while self.branches:
            self.branches.pop().cancel(error)

    def sockets(self) -> list[Any]:
        """Its own, and those of its branches."""
        return [self.sock, *(sock for each in self.branches for sock in each.sockets())]

    def _take(self, called: object, value: Any) -> None:
        """Go on with the result of a call, or in a new turn, unless it was given up meanwhile."""
        if called is self._called:
            self._step(value)
        elif hasattr(value, "close"):  # a socket
            value.close()

    def _step(self, value: Any) -> None:
        self._called = None
        if self.has_ended:
            return
        try:
            wish = self._steps.throw(value) if isinstance(value, Exception) else self._steps.send(value)
            while isinstance(wish, Limit):
                self._limit(wish)
                wish = next(self._steps)
            self._wait(wish)
        except StopIteration as stop:
            self._end()
            self._tell(stop.value)
        except Exception as error:
            self._end()
            self.close()
            if not isinstance(error, CAUSED_OUTSIDE):
                log.exception("Unhandled exception while a connection was made")
                self._on_mistake(error)
            self._tell(error)

    def _tell(self, outcome: Any) -> None:
        try:
            self._on_end(outcome)
        except Exception as error:
            self._on_mistake(error)
            raise  # the loop logs it

    def _wait(self, wish: Wish) -> None:
        if isinstance(wish, Until) or callable(wish) or wish == NEXT_TURN:
            self._called = called = object()
            if isinstance(wish, Until):
                wish.begin(partial(self._take, called))
            elif callable(wish):
                self._run_blocking(called, wish)
            else:
                self.loop.call(partial(self._take, called, None))
            return
        self.loop.watch(self.sock, self._on_ready)
        self._is_watched = True
        if wish == WRITE:
            self.loop.set_events(self.sock, WRITE)

    def _run_blocking(self, called: object, call: Callable[[], object]) -> None:
        try:
            self.loop.run_blocking(partial(self._call, called, call))
        except Exception as error:  # no thread can be started
            self.loop.call(partial(self._take, called, ConnectionDropped(str(error))))

    def _call(self, called: object, call: Callable[[], object]) -> None:
        """On another thread. A program's own code may raise anything, such as gevent's Timeout; so may SASL."""
        try:
            value = call()
        except CAUSED_OUTSIDE as error:
            value = error
        except Exception as error:
            value = ConnectionDropped(str(error) or type(error).__name__)
        except BaseException as error:
            value = ConnectionDropped(repr(error))
        self.loop.call(partial(self._take, called, value))

    def _on_ready(self, events: int) -> None:
        self._forget()
        self._step(None)

    def _limit(self, limit: Limit) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(limit.seconds, partial(self._give_up, limit.message))

    def _give_up(self, message: str) -> None:
        timer = self._timer
        self.look()
        if self._timer is timer:
            self._forget()
            self._step(ConnectionDropped(message))

    def _forget(self) -> None:
        if self._is_watched:
            self._is_watched = False
            self.loop.forget(self.sock)

    def _end(self) -> None:
        self.has_ended = True
        self._forget()
        self._called = None
        if self._timer is not None:
            self._timer.cancel()


# ---- what generators are made of ----------------------------------------------------------------


def connect(attempt: ConnectAttempt, ip: str, port: int) -> Steps[None]:
    """A TCP connection.

    :raises OSError: it is refused.
    """
    family = socket.AF_INET6 if ":" in ip else socket.AF_INET
    attempt.sock = sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        while (code := sock.connect_ex((ip, port))) in CONNECTING:
            yield WRITE
    except OverflowError as no_port:  # among the hosts that a user gives
        raise OSError(str(no_port)) from None
    if code not in (0, errno.EISCONN):
        raise OSError(code, os.strerror(code))


def secure(attempt: ConnectAttempt, make_context: Callable[[], ssl.SSLContext], host: str) -> Steps[None]:
    """TLS on the connection.

    :param make_context: may block: it reads files.
    :raises ssl.SSLError: the two cannot agree, or the server cannot prove its identity.
    """
    context = yield make_context
    attempt.sock = sock = context.wrap_socket(attempt.sock, server_hostname=host, do_handshake_on_connect=False)
    yield from _until_done(sock.do_handshake, WRITE)


def send(attempt: ConnectAttempt, data: bytes) -> Steps[None]:
    while data:
        sent = yield from _until_done(partial(attempt.sock.send, data), WRITE)
        data = data[sent:]


class _Wait(NamedTuple):
    events: int


def _until_done(call: Callable[[], T], events: int) -> Steps[T]:
    """Make the call again until the socket does not have to wait for it.

    :param events: what a plain socket waits for.
    """
    while isinstance(result := _try_call(call, events), _Wait):
        yield result.events
    return result


def _try_call(call: Callable[[], T], events: int) -> T | _Wait:
    try:
        return call()
    except BlockingIOError:
        return _Wait(events)
    except ssl.SSLWantReadError:
        return _Wait(READ)
    except ssl.SSLWantWriteError:
        return _Wait(WRITE)


class Closed(ConnectionDropped):
    """The server has closed the connection."""


def receive(attempt: ConnectAttempt) -> Steps[bytes]:
    """Bytes that have come: a read or two a turn of the loop, for a peer may send faster than the loop reads.

    :raises Closed: the server has closed the connection.
    """
    yield NEXT_TURN
    data: bytes = yield from _until_done(partial(attempt.sock.recv, READ_BYTES), READ)
    if not data:
        raise Closed("the server has closed the connection")
    return data
