"""An established connection to a server: any thread sends, the loop reads.

Taking an xid, joining those that wait for an answer and handing the bytes over is one step, under one lock. While
few requests are on their way the calling thread writes to the socket itself, and takes along what others hand over
meanwhile; otherwise the loop writes, many requests at a time. One thread writes at a time, without the lock.
"""

from __future__ import annotations

import logging
import math
import random
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from kazoo.exceptions import (
    EXCEPTIONS,
    AuthFailedError,
    ConnectionDropped,
    NoNodeError,
    SessionExpiredError,
    ZookeeperError,
)

from parkazoo.kazoo_private import (
    AUTH_XID,
    CONNECTION_DROP,
    PING_XID,
    SESSION_EXPIRED,
    WATCH_XID,
    Auth,
    Close,
    CloseInstance,
    Exists,
    GetChildren,
    GetChildren2,
    PingInstance,
    Transaction,
    int_struct,
)
from parkazoo.wire.frame import REPLY, REQUEST
from parkazoo.wire.handshake import Joined
from parkazoo.wire.loop import READ, WRITE, Loop, Timer

MOST_IN_FLIGHT = 2000
MOST_WRITES = 4  # of a thread, before others go on
FEW_IN_FLIGHT = 32  # a thread that has more of them on their way gains more by sending many at a time
MOST_UNSENT_BYTES = 1 << 20
READ_BYTES = 1 << 16
XID_MAX = (1 << 31) - 1
WOULD_BLOCK = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Link:
    """A session's connection, from the end of the handshake until it breaks or is closed.

    :param client: the member; its queue holds what may not be sent yet, its pending requests wait for answers.
        While its owner's gate is closed what comes is kept: listeners hear of a state before any later answer.
    :param joined: the connection. After its read time-out without a word from the server, it is taken for lost.
    :param read_event: kazoo's code for a watch's event.
    :param on_ping: told on the loop, after each ping.
    :param on_end: told once, on the loop, why it has ended; None if the server has closed the session.
    """

    def __init__(
        self,
        client: Any,
        joined: Joined,
        loop: Loop,
        logger: Any,
        read_event: Callable[[bytes, int], None],
        on_ping: Callable[[], None],
        on_end: Callable[[Exception | None], None],
    ) -> None:
        self._client = client
        self._gate = client.owner.gate
        self._sock = sock = joined.sock
        self._loop = loop
        self._read_event = read_event
        self._read_timeout_s = joined.read_timeout_s
        self._session_timeout_s = joined.connect.time_out / 1000
        self._on_ping = on_ping
        self._on_end = on_end
        self._logger = logger
        self._is_debugging = logger.isEnabledFor(logging.DEBUG)
        self._is_secure = isinstance(sock, ssl.SSLSocket)
        self.lock = threading.Lock()
        self._is_open = True  # requests may be sent
        self._has_ended = False
        self._is_signalled = False  # the loop is going to write
        self._sender: int | None = None  # the thread that is writing
        self._is_torn = False  # a thread was interrupted while it was sending
        self._is_blocked = False  # the socket takes no more for now
        self._xid = 0
        self._unsent = bytearray()
        self._parts = [joined.rest] if joined.rest else []  # what has come and has not been taken
        self._bytes = len(joined.rest)  # in these parts
        self._wanted = 0  # so many are needed to go on
        self._last_sent = self._last_read = time.monotonic()
        self._asked: float | None = None  # when the first was sent of what is without an answer
        self._timer: Timer | None = None

    def begin(self) -> None:
        """On the loop: read from now on, and send what has been queued."""
        self._guard(self._watch)
        self._keep_alive()
        self.flush()
        if not self._has_ended and (self._parts or self._is_secure):
            self._on_ready(READ)  # what came along with the handshake does not make the socket readable

    def _watch(self) -> None:
        try:
            self._loop.watch(self._sock, self._on_ready)
        except ValueError:  # some programs do that
            raise ConnectionDropped("the socket has been closed") from None

    def resume(self) -> None:
        """On the loop: the gate is open again."""
        if self._parts and not self._has_ended:
            self._guard(self._take_frames)
        self._go_on_sending()

    # ---- any thread ------------------------------------------------------------------------------

    def send(self, request: Any, reply: Any, body: bytes) -> bool:
        """Send, keeping the order of requests; False if that may not be now. It never blocks."""
        client = self._client
        with self.lock:
            in_flight = len(client._pending)
            is_full = in_flight >= MOST_IN_FLIGHT or len(self._unsent) >= MOST_UNSENT_BYTES
            if is_full or not self._is_open or client._queue or client.is_renewing:
                return False
            self._unsent += self._frame(request, reply, body)
            if self._sender is not None:
                return True  # it will be taken along
            is_ours = in_flight < FEW_IN_FLIGHT and not (
                self._is_secure or self._is_blocked or self._loop.is_here()
            )
            if is_ours:
                self._sender = threading.get_ident()
        if is_ours:
            try:
                if self._send_out():
                    return True
            except OSError as error:
                if error.errno is None:  # not the socket's: a signal handler's
                    raise
            except ConnectionDropped:
                pass
        self.wake()  # so the loop will find the error, or go on
        return True

    def distrust(self, thread: int) -> None:
        """A thread was interrupted while it was sending: nothing more is sent; the loop ends the connection."""
        with self.lock:
            self._is_open = False
            self._is_torn = True
            if self._sender == thread:
                self._sender = None
        self._loop.call(self._end_torn)

    def _end_torn(self) -> None:
        self.end(ConnectionDropped("an exception interrupted a thread that was sending"))

    def wake(self) -> None:
        """Have the loop send what is there to be sent."""
        if self._is_signalled:
            return
        self._is_signalled = True
        if self._loop.is_here():
            self._loop.call_at_end(self.flush)
        else:
            self._loop.call(self.flush)

    def _frame(self, request: Any, reply: Any, body: bytes) -> bytes:
        """With the lock held: the bytes of a request, which waits for its answer from now on."""
        if request.type == Auth.type:
            xid = AUTH_XID
        else:
            self._xid = xid = self._xid % XID_MAX + 1
        if self._is_debugging:
            self._logger.debug("Sending request(xid=%s): %s", xid, request)
        self._client._pending.append((request, reply, xid))
        self._note_sent()
        return REQUEST.pack(len(body) + 8, xid, request.type) + body

    def _note_sent(self) -> None:
        self._last_sent = now = time.monotonic()
        if self._asked is None:
            self._asked = now

    # ---- the loop: sending -----------------------------------------------------------------------

    def flush(self) -> None:
        self._is_signalled = False
        if self._has_ended:
            return
        if self._is_torn:
            self._end_torn()
            return
        refused: list[tuple[Any, Exception]] = []
        self._guard(lambda: self._flush(refused))
        for reply, refusal in refused:
            if reply is not None:
                reply.set_exception(refusal)

    def _flush(self, refused: list[tuple[Any, Exception]]) -> None:
        with self.lock:
            self._take_queued(refused)
            is_ours = self._sender is None
            if is_ours:
                self._sender = threading.get_ident()
        if is_ours:
            self._note_blocked(not self._send_out())

    def _guard(self, step: Callable[[], None]) -> None:
        """End the connection if a step of it fails."""
        try:
            step()
        except OSError as error:
            self.end(ConnectionDropped(f"socket connection error: {error.strerror or error}"))
        except (ConnectionDropped, SessionExpiredError) as error:
            self.end(error)
        except Exception as error:  # what the server says cannot be read, and would be read again and again
            self._logger.exception("Unhandled exception in the connection")
            self.end(ConnectionDropped(f"unhandled exception: {error!r}"))

    def _take_queued(self, refused: list[tuple[Any, Exception]]) -> None:
        client = self._client
        queue, pending = client._queue, client._pending
        if self._is_open and client.is_renewing:
            self._is_open = False
            self._unsent += self._frame(CloseInstance, None, b"")
        while self._is_open and len(pending) < MOST_IN_FLIGHT and len(self._unsent) < MOST_UNSENT_BYTES:
            try:
                request, reply = queue.popleft()
            except IndexError:  # also if another thread has just failed what was queued
                break
            if request is SESSION_EXPIRED:
                raise SessionExpiredError("Session expired: Testing")
            if request is CONNECTION_DROP:
                raise ConnectionDropped("Connection dropped: Testing")
            try:
                body = request.serialize()
            except Exception as error:  # a value that kazoo's types let through, such as a version of 2**40
                refused.append((reply, error))
                continue
            self._unsent += self._frame(request, reply, body)
            if isinstance(request, Close):
                self._is_open = False

    def _send_out(self) -> bool:
        """By whoever has set `_sender`: write what there is, and some of what comes meanwhile.

        :returns: whether nothing is left.
        :raises OSError: the connection is broken. So is ConnectionDropped, by a program's select.
        """
        data, sent = bytearray(), 0
        is_known = False  # how much has gone
        try:
            for _ in range(MOST_WRITES):
                with self.lock:
                    data, sent, self._unsent = self._unsent, 0, bytearray()
                if data:
                    if not self._is_ready([], [self._sock]):
                        raise ConnectionDropped("socket time-out during write")
                    try:
                        sent = self._sock.send(data)
                    except WOULD_BLOCK:
                        break
                if sent < len(data) or not data:
                    break
            is_known = True
        finally:
            if not is_known:  # the socket is broken, or a signal handler has raised: nothing may be sent again
                self._is_open = False
                self._is_torn = True
                self._sender = None
                if self._has_ended:
                    self._sock.close()
        with self.lock:
            self._unsent[:0] = data[sent:]
            is_all = not self._unsent
            self._sender = None
            if self._has_ended:
                self._sock.close()  # not before: its number may be another socket's next
        return is_all

    def _note_blocked(self, is_blocked: bool) -> None:
        if is_blocked != self._is_blocked:
            self._is_blocked = is_blocked
            self._loop.set_events(self._sock, READ | WRITE if is_blocked else READ)

    def _keep_alive(self) -> None:
        """Ping if nothing else was sent, and look whether the server is still there."""
        if self._has_ended:
            return
        now = time.monotonic()
        if self._sock.fileno() < 0:  # some programs do that
            self.end(ConnectionDropped("the socket has been closed"))
            return
        self._client.owner.mend()
        if self._has_ended:
            return
        # This process may not have run for a while, and so may not have asked: that is not the server's silence.
        patient_until = math.inf
        if self._asked is not None:
            patient_until = max(self._asked + self._read_timeout_s / 2, self._last_read + self._read_timeout_s)
        if now > min(patient_until, self._last_read + self._session_timeout_s):
            self.end(ConnectionDropped("outstanding heartbeat ping not received"))
            return
        ping_after_s = self._read_timeout_s / 2 - random.uniform(0, min(0.4, self._read_timeout_s / 4))
        if now - self._last_sent >= ping_after_s:
            self.ping()
        next_s = min(self._last_sent + ping_after_s, patient_until)
        self._timer = self._loop.call_later(max(next_s - now, 0.01), self._keep_alive)

    # ---- the loop: reading -----------------------------------------------------------------------

    def _on_ready(self, events: int) -> None:
        if events & WRITE:
            self.flush()
        if events & READ and not self._has_ended:
            self._guard(self._receive)
        self._go_on_sending()

    def _go_on_sending(self) -> None:
        if self._client._queue and not self._has_ended:
            self.wake()  # there may be room now

    def _receive(self) -> None:
        while True:
            if not self._is_ready([self._sock], []):
                raise ConnectionDropped("socket time-out during read")
            try:
                data = self._sock.recv(READ_BYTES)
            except WOULD_BLOCK:
                data = None
            if data is not None:
                if not data:
                    raise ConnectionDropped("socket connection broken")
                self._last_read = time.monotonic()
                self._asked = self._last_read if self._client._pending else None
                self._parts.append(data)
                self._bytes += len(data)
            if self._bytes >= self._wanted:
                self._take_frames()
            if self._has_ended or data is None or not self._is_secure or not self._sock.pending():
                return

    def _take_frames(self) -> None:
        """Take what is whole. A part is joined to others once, so that a large answer takes no longer per byte."""
        if self._gate.is_closed:
            return
        data = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        begin, end, wanted = 0, len(data), 4
        while end - begin >= 4:
            (length,) = int_struct.unpack_from(data, begin)
            if length < REPLY.size:
                raise ConnectionDropped("the server's answer is not ZooKeeper's")
            if end - begin - 4 < length:
                wanted = 4 + length
                break
            self._take(data, begin + 4)
            if self._has_ended:
                return
            begin += 4 + length
        self._parts = [data[begin:]] if begin < end else []
        self._bytes = end - begin
        self._wanted = wanted

    def _take(self, data: bytes, offset: int) -> None:
        xid, zxid, code = REPLY.unpack_from(data, offset)
        offset += REPLY.size
        client = self._client
        if xid == WATCH_XID:
            self._read_event(data, offset)
            return
        if xid == PING_XID:
            return
        if xid == AUTH_XID:
            self._take_auth(code)
            return
        if not client._pending:
            raise ConnectionDropped(f"an answer to nothing: xid {xid}")
        request, reply, expected = client._pending.popleft()
        if xid != expected:
            error = RuntimeError(f"xids do not match, expected {expected} received {xid}")
            if reply is not None:
                reply.set_exception(error)
            raise ConnectionDropped(str(error))
        if zxid > 0:
            client.last_zxid = zxid
        if code:
            self._take_error(request, reply, code)
        else:
            self._take_answer(request, reply, data, offset)

    def _take_auth(self, code: int) -> None:
        """A server answers to credentials at once, before requests that came earlier."""
        pending = self._client._pending
        index = next((index for index, (_, _, xid) in enumerate(pending) if xid == AUTH_XID), None)
        if index is None:
            raise ConnectionDropped("an answer to credentials that were not sent")
        _, reply, _ = pending[index]
        del pending[index]
        if code:
            if reply is not None:
                reply.set_exception(AuthFailedError())
            self.end(AuthFailedError())
        elif reply is not None:
            reply.set(True)

    def _take_error(self, request: Any, reply: Any, code: int) -> None:
        if code == NoNodeError.code and request.type == Exists.type:
            self._register(request)
            if reply is not None:
                reply.set(None)
        else:
            what = self._client.describe(request)
            is_known = code in EXCEPTIONS  # it may be a newer server's
            error = EXCEPTIONS[code](what) if is_known else ZookeeperError(f"error {code}: {what}")
            if self._is_debugging:
                self._logger.debug("Received error %r", error)
            if reply is not None:
                reply.set_exception(error)

    def _take_answer(self, request: Any, reply: Any, data: bytes, offset: int) -> None:
        if request.type == Close.type:
            is_renewing = self._client.is_renewing
            self.end(
                SessionExpiredError("Closed, together with the client's other sessions") if is_renewing else None
            )
            return
        try:
            answer = request.deserialize(data, offset)
            if request.type == Transaction.type:
                answer = Transaction.unchroot(self._client, answer)
        except Exception as error:
            self._logger.exception("Exception raised during deserialization of request: %s", request)
            if reply is not None:
                reply.set_exception(error)
            return
        if self._is_debugging:
            self._logger.debug("Received response: %r", answer)
        self._register(request)
        if reply is not None:
            reply.set(answer)

    def _register(self, request: Any) -> None:
        watcher = getattr(request, "watcher", None)
        client = self._client
        if watcher and not client._stopped.is_set():
            is_child = isinstance(request, (GetChildren, GetChildren2))
            (client._child_watchers if is_child else client._data_watchers)[request.path].add(watcher)

    # ---- the loop: the end -----------------------------------------------------------------------

    def ping(self) -> None:
        with self.lock:
            self._unsent += REQUEST.pack(8, PING_XID, PingInstance.type)
            self._note_sent()
        self.wake()
        self._on_ping()

    def end(self, error: Exception | None) -> None:
        """Close the socket; what waits for an answer is the client's to tell."""
        if self._has_ended:
            return
        with suppress(KeyError, ValueError):  # it is not watched, or has been closed
            self._loop.forget(self._sock)
        if self._timer is not None:
            self._timer.cancel()
        with self.lock:
            self._is_open = False
            self._has_ended = True
            if self._sender is None:
                self._sock.close()
        self._on_end(error)

    def _is_ready(self, reading: list[Any], writing: list[Any]) -> bool:
        """What the handler's select says, if a program has replaced it; otherwise there is no need to ask."""
        select = self._client.handler.__dict__.get("select")
        return select is None or any(select(reading, writing, [], 0)[:2])
