"""An established connection to a server: any thread sends, the loop reads.

A request gets its xid, joins the pending ones and hands over its bytes in one step, under one lock. While few
requests are on their way, the calling thread writes to the socket itself, and takes along what others hand over
meanwhile. Otherwise the loop writes, many requests at a time. One thread writes at a time, without the lock.
:class:`~parkazoo.wire.exchange.Exchange` knows what the bytes mean.
"""

from __future__ import annotations

import os
import random
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from kazoo.exceptions import AuthFailedError, ConnectionDropped, SessionExpiredError

from parkazoo.engine.ports import AbandonedError, Reply, Timer, is_abandoned
from parkazoo.kazoo_private import CONNECTION_DROP, SESSION_EXPIRED
from parkazoo.protocol.steps import WireRequest
from parkazoo.types.handlers import Log
from parkazoo.wire.backlog import Backlog
from parkazoo.wire.bodies import serialize
from parkazoo.wire.exchange import DRAINING, ENDED, OPEN, TORN, SessionClosed
from parkazoo.wire.handshake import Established
from parkazoo.wire.keep_alive import KeepAlive
from parkazoo.wire.loop import READ, READ_BYTES, WRITE
from parkazoo.wire.proof import Proof
from parkazoo.wire.running import RunningLoop

if TYPE_CHECKING:
    from parkazoo.wire.member import Member

MOST_IN_FLIGHT = 2000
MOST_WRITES = 4  # of a thread, before others go on
FEW_IN_FLIGHT = 32  # with more requests on their way, it is faster to send many at a time
MOST_UNSENT_BYTES = 1 << 20
PROOF_EVERY_S = 0.05
WOULD_BLOCK = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
BROKEN = -1  # stands for a thread that writes: the last write failed, so none may write after it


class EndedByServer(ConnectionDropped):
    """The server has closed the connection, or something between has."""


class Link:
    """A session's connection, from the end of the handshake until it breaks or is closed.

    :param client: the member. Its backlog has the requests that may not be sent yet; its pending requests wait for
        answers. Answers are kept while the gate is closed: listeners hear of a state before any later answer.
    :param established: the connection. It counts as lost when the server has been silent for its read time-out.
    :param on_ping: called on the loop, after each ping.
    :param on_end: called once, on the loop, with the reason; None if the server has closed the session.
    """

    def __init__(
        self,
        client: Member,
        established: Established,
        loop: RunningLoop,
        logger: Log,
        on_ping: Callable[[], None],
        on_end: Callable[[Exception | None], None],
    ) -> None:
        self._client = client
        self._gate = client.runtime.gate
        self._overrides = client.overrides
        self._sock = sock = established.sock
        self._exchange = established.exchange
        self._pending = client._pending
        self._backlog: Backlog = client.backlog
        self._loop = loop
        self._on_ping = on_ping
        self._on_end = on_end
        self._logger = logger
        self._is_secure = isinstance(sock, ssl.SSLSocket)
        self.lock = threading.Lock()  # of the exchange's state, its xids, and the unsent bytes
        self._unsent = bytearray()
        self._sender: int | None = None  # the thread that is writing
        self._is_blocked = False  # the socket takes no more for now
        self._is_signalled = False  # the loop is going to write
        session_timeout_s = established.exchange.accepted.time_out / 1000
        self._alive = KeepAlive(
            established.read_timeout_s, session_timeout_s, established.asked_s, time.monotonic()
        )
        self._look_at_s = 0.0  # not earlier, for the next proof
        self._proof = Proof(self._exchange, self._pending, self._alive, self.lock)
        self._timer: Timer | None = None
        self._on_drained: Callable[[], None] | None = None

    def begin(self) -> None:
        """On the loop: read from now on, and send what waits."""
        self._guard(self._watch)
        self._keep_alive()
        self.flush()
        self.resume()
        if self._is_secure and self._exchange.state != ENDED:
            self._on_ready(READ)  # bytes that came with the handshake do not make the socket readable

    def _watch(self) -> None:
        try:
            self._loop.watch(self._sock, self._on_ready)
        except ValueError:  # some programs do that
            raise ConnectionDropped("the socket has been closed") from None

    def send_first(self, requests: Sequence[tuple[WireRequest, Reply]]) -> None:
        """Before it begins: these requests go before all that wait."""
        with self.lock:
            for request, reply in requests:
                self._hand_over(self._exchange.request(request, reply, serialize(request)))

    def resume(self) -> None:
        """On the loop: take the arrived bytes, if the gate is open."""
        if self._exchange.has_kept and self._exchange.state != ENDED:
            self._guard(partial(self._take, b""))
            self._look_whether_drained()
        self._go_on_sending()

    # ---- any thread ------------------------------------------------------------------------------

    def send(self, request: WireRequest, reply: Reply | None, body: bytes) -> bool:
        """Send, keeping the order of requests; False if this is not the time. It never blocks."""
        client, exchange = self._client, self._exchange
        with self.lock:
            in_flight, unsent = len(self._pending), self._unsent
            is_full = in_flight >= MOST_IN_FLIGHT or len(unsent) >= MOST_UNSENT_BYTES
            if is_full or exchange.state != OPEN or self._backlog or client.is_renewing:
                return False
            data = exchange.request(request, reply, body)
            self._alive.sent(time.monotonic(), len(data))
            if self._sender is not None:
                unsent += data
                return True  # the sending thread takes it along
            is_ours = in_flight < FEW_IN_FLIGHT and not (
                self._is_secure or self._is_blocked or self._loop.is_here()
            )
            if is_ours:
                self._sender = threading.get_ident()
            if unsent or not is_ours:
                unsent += data
                data = b""
        if is_ours:
            try:
                if self._send_out(data):
                    return True
            except OSError as error:
                if error.errno is None:  # not the socket's: a signal handler's
                    raise
                self._loop.call(partial(self.end, _dropped(error)))
            except ConnectionDropped as error:
                self._loop.call(partial(self.end, error))
        self.wake()  # the loop goes on
        return True

    def distrust(self, thread: int) -> None:
        """A thread was interrupted while it was sending: nothing more is sent; the loop ends the connection."""
        with self.lock:
            self._exchange.tear()
            if self._sender == thread:
                self._sender = None
        self._loop.call(self._end_torn)

    def _end_torn(self) -> None:
        self.end(ConnectionDropped("an exception interrupted a thread that was sending"))

    def wake(self) -> None:
        """Have the loop send the unsent bytes."""
        if self._is_signalled:
            return
        self._is_signalled = True
        if self._loop.is_here():
            self._loop.call_at_end(self.flush)
        else:
            self._loop.call(self.flush)

    def _send_out(self, data: bytes | bytearray) -> bool:
        """By the thread that has set `_sender`: write, and take along some unsent bytes.

        :param data: what goes first; empty if something is unsent.
        :returns: whether nothing is left.
        :raises OSError: the connection is broken. So is ConnectionDropped, by a program's select.
        """
        sent = 0
        is_known = False  # how much has gone
        try:
            for _ in range(MOST_WRITES):
                if sent == len(data):
                    if not self._unsent:
                        break
                    with self.lock:
                        data, sent, self._unsent = self._unsent, 0, bytearray()
                if "select" in self._overrides and not self._is_ready([], [self._sock]):
                    raise ConnectionDropped("socket time-out during write")
                try:
                    sent = self._sock.send(data)
                except WOULD_BLOCK:
                    break
                if sent < len(data):
                    break
            is_known = True
        finally:
            if not is_known:  # the socket is broken, or a signal handler has raised: nothing may be sent again
                self._sender = BROKEN
                if self._exchange.state == ENDED:
                    self._sock.close()
        with self.lock:
            if sent < len(data):
                self._unsent[:0] = data[sent:]
            is_all = not self._unsent
            self._sender = None
            if self._exchange.state == ENDED:
                self._sock.close()  # not before: its number may be another socket's next
        return is_all

    # ---- the loop: sending -----------------------------------------------------------------------

    def drain(self, on_drained: Callable[[], None]) -> bool:
        """Let requests wait in the backlog from now on. False if this is not the time.

        :param on_drained: called once, perhaps at once, when all sent requests have their answers.
        """
        with self.lock:
            is_open = self._exchange.state == OPEN
            if is_open:
                self._exchange.drain()
        if is_open:
            self._on_drained = on_drained
            self._look_whether_drained()
        return is_open

    def go_on(self) -> None:
        """Do not drain any more."""
        self._on_drained = None
        with self.lock:
            is_draining = self._exchange.state == DRAINING
            if is_draining:
                self._exchange.open()
        if is_draining:
            self.wake()

    def _look_whether_drained(self) -> None:
        call = self._on_drained
        if call is not None and not self._pending and not self._exchange.has_kept:
            self._on_drained = None
            call()

    def flush(self) -> None:
        self._is_signalled = False
        state = self._exchange.state
        if state == ENDED:
            return
        if state == TORN:
            self._end_torn()
            return
        if self._sender == BROKEN:  # before the thread that has seen it says why
            self.end(EndedByServer("a write to the socket failed"))
            return
        refused: list[tuple[Reply | None, Exception]] = []
        self._guard(partial(self._flush, refused))
        for reply, refusal in refused:
            if reply is not None:
                reply.set_exception(refusal)

    def _flush(self, refused: list[tuple[Reply | None, Exception]]) -> None:
        with self.lock:
            self._take_waiting(refused)
            is_ours = self._sender is None
            if is_ours:
                self._sender = threading.get_ident()
        if is_ours:
            self._note_blocked(not self._send_out(b""))

    def _guard(self, step: Callable[[], None]) -> None:
        """End the connection if a step of it fails."""
        try:
            step()
        except SessionClosed:
            why = "Closed, together with the client's other sessions"
            self.end(SessionExpiredError(why) if self._client.is_renewing else None)
        except (AuthFailedError, ConnectionDropped, SessionExpiredError) as error:
            self.end(error)
        except OSError as error:
            self.end(_dropped(error))
        except Exception as error:
            self._logger.exception("Unhandled exception in the connection")
            self.end(ConnectionDropped(f"unhandled exception: {error!r}"))

    def _take_waiting(self, refused: list[tuple[Reply | None, Exception]]) -> None:
        client, exchange = self._client, self._exchange
        pending = self._pending
        if client.is_renewing and exchange.state == OPEN:
            self._hand_over(exchange.close())
        while exchange.state == OPEN and len(pending) < MOST_IN_FLIGHT and len(self._unsent) < MOST_UNSENT_BYTES:
            if (taken := self._backlog.take()) is None:  # also if another thread has just failed them
                break
            request, reply = taken
            if is_abandoned(reply):
                refused.append((reply, AbandonedError()))
                continue
            if request is SESSION_EXPIRED:
                raise SessionExpiredError("Session expired: Testing")
            if request is CONNECTION_DROP:
                raise ConnectionDropped("Connection dropped: Testing")
            try:
                body = serialize(request)
            except Exception as error:  # a value that kazoo's types let through, such as a version of 2**40
                refused.append((reply, error))
                continue
            self._hand_over(exchange.request(request, reply, body))

    def _hand_over(self, data: bytes) -> None:
        """With the lock held."""
        self._unsent += data
        self._alive.sent(time.monotonic(), len(data))

    def _note_blocked(self, is_blocked: bool) -> None:
        if is_blocked != self._is_blocked:
            self._is_blocked = is_blocked
            self._loop.set_events(self._sock, READ | WRITE if is_blocked else READ)

    def _keep_alive(self) -> None:
        """Ping if nothing else was sent, and check whether the server is still there."""
        if self._exchange.state == ENDED:
            return
        if self._sock.fileno() < 0:  # some programs do that
            self.end(ConnectionDropped("the socket has been closed"))
            return
        self._client.owner.recover()
        if self._exchange.state == ENDED:
            return
        now_s, alive = time.monotonic(), self._alive
        if alive.is_lost(now_s):
            self.end(ConnectionDropped("outstanding heartbeat ping not received"))
            return
        jitter_s = random.uniform(0, alive.most_jitter_s)
        if now_s >= alive.ping_at_s(jitter_s):
            self.ping()
            self._proof.look()
        self._client.keep_memory(now_s)
        self._timer = self._loop.call_later(max(alive.look_at_s(jitter_s) - now_s, 0.01), self._keep_alive)

    # ---- the loop: reading -----------------------------------------------------------------------

    def _on_ready(self, events: int) -> None:
        if events & WRITE:
            self.flush()
        if events & READ and self._exchange.state != ENDED:
            self._guard(self._receive)
            self._look_whether_drained()
        if self._backlog:
            self._go_on_sending()

    def _go_on_sending(self) -> None:
        if self._backlog and self._exchange.state != ENDED:
            self.wake()  # there may be room now

    def _receive(self) -> None:
        """Read once: a server may send faster than the loop reads, and others have their turn."""
        if "select" in self._overrides and not self._is_ready([self._sock], []):
            raise ConnectionDropped("socket time-out during read")
        try:
            data = self._sock.recv(READ_BYTES)
        except WOULD_BLOCK:
            return
        if not data:
            raise EndedByServer("socket connection broken")
        self._take(data)
        is_open = self._exchange.state != ENDED
        if self._is_secure and is_open and self._sock.pending():  # type: ignore[attr-defined]  # a socket of TLS has it
            self._loop.call(partial(self._on_ready, READ))  # what TLS has read does not make the socket readable

    def _take(self, data: bytes) -> None:
        exchange = self._exchange
        answers = exchange.answers
        if self._gate.is_closed:
            exchange.keep(data)
        else:
            exchange.receive(data)
        if answers != exchange.answers or (exchange.has_kept and exchange.frames.has_answer):
            now_s = time.monotonic()
            self._alive.answered(now_s, bool(self._pending))
            if now_s >= self._look_at_s:
                self._look_at_s = now_s + PROOF_EVERY_S
                self._proof.look()

    # ---- the loop: the end -----------------------------------------------------------------------

    def ping(self) -> None:
        with self.lock:
            self._hand_over(self._exchange.ping())
        self.wake()
        self._on_ping()

    def end(self, error: Exception | None) -> None:
        """Close the socket; the client fails the pending requests."""
        if self._exchange.state == ENDED:
            return
        with suppress(KeyError, ValueError):  # it is not watched, or has been closed
            self._loop.forget(self._sock)
        if self._timer is not None:
            self._timer.cancel()
        with self.lock:
            self._on_drained = None
            self._exchange.end()
            if self._sender is None or self._sender == BROKEN:
                self._sock.close()
        self._on_end(error)

    def close_alone(self) -> int | None:
        """When no other thread runs, nor will: ask the server to close the session, behind the unsent bytes.

        No lock is taken, for a thread that has stopped may hold it.

        :returns: a descriptor of the connection, for the caller to close; None if this is not the time to send.
        """
        exchange = self._exchange
        if exchange.state != OPEN or self._sender is not None:
            return None
        data = bytes(self._unsent) + exchange.close()
        exchange.end()
        with suppress(OSError):
            if self._sock.send(data) == len(data):
                return os.dup(self._sock.fileno())
        return None

    def _is_ready(self, reading: list[socket.socket], writing: list[socket.socket]) -> bool:
        """The answer of a select with which a program has replaced the handler's."""
        return any(self._overrides["select"](reading, writing, [], 0)[:2])


def _dropped(error: OSError) -> ConnectionDropped:
    is_servers = isinstance(error, (ConnectionResetError, BrokenPipeError, ssl.SSLError))
    kind = EndedByServer if is_servers else ConnectionDropped
    return kind(f"socket connection error: {error.strerror or error}")
