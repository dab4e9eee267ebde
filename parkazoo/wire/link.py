"""An established connection to a server: any thread sends, the loop reads.

Taking an xid, joining those that wait for an answer and handing the bytes over is one step, under one lock. While
few requests are on their way the calling thread writes to the socket itself, and takes along what others hand over
meanwhile; otherwise the loop writes, many requests at a time. One thread writes at a time, without the lock.
"""

from __future__ import annotations

import logging
import random
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from struct import Struct
from typing import Any

from kazoo.exceptions import EXCEPTIONS, AuthFailedError, ConnectionDropped, NoNodeError, SessionExpiredError

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
from parkazoo.wire.loop import READ, WRITE, Loop, Timer

MOST_IN_FLIGHT = 2000
MOST_WRITES = 4  # of a thread, before others go on
FEW_IN_FLIGHT = 32  # a thread that has more of them on their way gains more by sending many at a time
MOST_UNSENT_BYTES = 1 << 20
READ_BYTES = 1 << 16
XID_MAX = (1 << 31) - 1
REQUEST = Struct("!iii")  # length, xid, type
REPLY = Struct("!iqi")  # xid, zxid, error
TOGETHER = "Closed, together with the client's other sessions"
WOULD_BLOCK = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Link:
    """A session's connection, from the answer to its Connect until it breaks or is closed.

    :param client: the member; its queue holds what may not be sent yet, its pending requests wait for answers.
    :param read_event: kazoo's code for a watch's event.
    :param read_timeout_s: after so long without a word from the server, it is taken for lost.
    :param on_ping: told on the loop, after each ping.
    :param on_end: told once, on the loop, why it has ended; None if the server has closed the session.
    """

    def __init__(
        self,
        client: Any,
        sock: Any,
        loop: Loop,
        logger: Any,
        read_event: Callable[[bytes, int], None],
        read_timeout_s: float,
        on_ping: Callable[[], None],
        on_end: Callable[[Exception | None], None],
    ) -> None:
        self._client = client
        self._sock = sock
        self._loop = loop
        self._read_event = read_event
        self._read_timeout_s = read_timeout_s
        self._on_ping = on_ping
        self._on_end = on_end
        self._logger = logger
        self._is_debugging = logger.isEnabledFor(logging.DEBUG)
        self._is_secure = isinstance(sock, ssl.SSLSocket)
        self._lock = threading.Lock()
        self._is_open = True  # requests may be sent
        self._has_ended = False
        self._is_signalled = False  # the loop is going to write
        self._is_sending = False  # a thread is writing
        self._is_blocked = False  # the socket takes no more for now
        self._xid = 0
        self._unsent = bytearray()
        self._rest = b""  # the beginning of a frame
        self._last_sent = self._last_read = time.monotonic()
        self._timer: Timer | None = None

    def begin(self) -> None:
        """On the loop: read from now on, and send what has been queued."""
        self._loop.watch(self._sock, self._on_ready)
        self._keep_alive()
        self.flush()
        if self._is_secure:
            self._on_ready(READ)  # what came along with the handshake does not make the socket readable

    # ---- any thread ------------------------------------------------------------------------------

    def send(self, request: Any, reply: Any) -> bool:
        """Send, keeping the order of requests; False if that may not be now. It never blocks."""
        body = request.serialize()
        client = self._client
        with self._lock:
            in_flight = len(client._pending)
            is_full = in_flight >= MOST_IN_FLIGHT or len(self._unsent) >= MOST_UNSENT_BYTES
            if is_full or not self._is_open or client._queue or client.is_renewing:
                return False
            self._unsent += self._frame(request, reply, body)
            if self._is_sending:
                return True  # it will be taken along
            if in_flight < FEW_IN_FLIGHT and not self._is_secure and not self._is_blocked:
                self._is_sending = not self._loop.is_here()
            is_ours = self._is_sending
        if is_ours:
            with suppress(OSError, ConnectionDropped):  # so the loop will find it
                if self._send_out():
                    return True
        self.wake()
        return True

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
        self._last_sent = time.monotonic()
        return REQUEST.pack(len(body) + 8, xid, request.type) + body

    # ---- the loop: sending -----------------------------------------------------------------------

    def flush(self) -> None:
        self._is_signalled = False
        if self._has_ended:
            return
        refused: list[tuple[Any, Exception]] = []
        try:
            with self._lock:
                self._take_queued(refused)
                is_ours = not self._is_sending
                self._is_sending = True
            if is_ours:
                self._note_blocked(not self._send_out())
        except (OSError, ConnectionDropped, SessionExpiredError) as error:
            self.end(error if not isinstance(error, OSError) else _dropped(error))
        for reply, refusal in refused:
            if reply is not None:
                reply.set_exception(refusal)

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
        """By whoever has set `_is_sending`: write what there is, and some of what comes meanwhile.

        :returns: whether nothing is left.
        :raises OSError: the connection is broken. So is ConnectionDropped, by a program's select.
        """
        data, sent = bytearray(), 0
        try:
            for _ in range(MOST_WRITES):
                with self._lock:
                    data, sent, self._unsent = self._unsent, 0, bytearray()
                if data:
                    if not self._is_ready([], [self._sock]):
                        raise ConnectionDropped("socket time-out during write")
                    sent = self._sock.send(data)
                if sent < len(data) or not data:
                    break
        except WOULD_BLOCK:
            pass
        finally:
            with self._lock:
                self._unsent[:0] = data[sent:]
                is_all = not self._unsent
                self._is_sending = False
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
        if now - self._last_read > self._read_timeout_s:
            self.end(ConnectionDropped("outstanding heartbeat ping not received"))
            return
        ping_after_s = self._read_timeout_s / 2 - random.uniform(0, min(0.4, self._read_timeout_s / 4))
        if now - self._last_sent >= ping_after_s:
            self.ping()
        wait_s = min(self._last_sent + ping_after_s, self._last_read + self._read_timeout_s) - now
        self._timer = self._loop.call_later(max(wait_s, 0.01), self._keep_alive)

    # ---- the loop: reading -----------------------------------------------------------------------

    def _on_ready(self, events: int) -> None:
        if events & WRITE:
            self.flush()
        if events & READ and not self._has_ended:
            try:
                self._receive()
            except (OSError, ConnectionDropped, SessionExpiredError) as error:
                self.end(error if not isinstance(error, OSError) else _dropped(error))
        if self._client._queue and not self._has_ended:
            self.wake()  # there may be room now

    def _receive(self) -> None:
        while True:
            if not self._is_ready([self._sock], []):
                raise ConnectionDropped("socket time-out during read")
            try:
                data = self._sock.recv(READ_BYTES)
            except WOULD_BLOCK:
                return
            if not data:
                raise ConnectionDropped("socket connection broken")
            self._last_read = time.monotonic()
            self._take_frames(self._rest + data if self._rest else data)
            if self._has_ended or not self._is_secure or not self._sock.pending():
                return

    def _take_frames(self, data: bytes) -> None:
        begin, end = 0, len(data)
        while end - begin >= 4:
            (length,) = int_struct.unpack_from(data, begin)
            if end - begin - 4 < length:
                break
            self._take(data, begin + 4)
            if self._has_ended:
                return
            begin += 4 + length
        self._rest = data[begin:]

    def _take(self, data: bytes, offset: int) -> None:
        xid, zxid, code = REPLY.unpack_from(data, offset)
        offset += REPLY.size
        client = self._client
        if xid == WATCH_XID:
            self._read_event(data, offset)
            return
        if xid == PING_XID:
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

    def _take_error(self, request: Any, reply: Any, code: int) -> None:
        if request.type == Auth.type:
            if reply is not None:
                reply.set_exception(AuthFailedError())
            self.end(AuthFailedError())
        elif code == NoNodeError.code and request.type == Exists.type:
            self._register(request)
            if reply is not None:
                reply.set(None)
        else:
            error = EXCEPTIONS[code]()
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
        if request.type == Auth.type:
            answer: Any = True
        else:
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
        with self._lock:
            self._unsent += REQUEST.pack(8, PING_XID, PingInstance.type)
            self._last_sent = time.monotonic()
        self.wake()
        self._on_ping()

    def end(self, error: Exception | None) -> None:
        """Close the socket; what waits for an answer is the client's to tell."""
        if self._has_ended:
            return
        self._loop.forget(self._sock)
        if self._timer is not None:
            self._timer.cancel()
        with self._lock:
            self._is_open = False
            self._has_ended = True
            if not self._is_sending:
                self._sock.close()
        self._on_end(error)

    def _is_ready(self, reading: list[Any], writing: list[Any]) -> bool:
        """What the handler's select says, if a program has replaced it; otherwise there is no need to ask."""
        select = self._client.handler.__dict__.get("select")
        return select is None or any(select(reading, writing, [], 0)[:2])


def _dropped(error: OSError) -> ConnectionDropped:
    return ConnectionDropped(f"socket connection error: {error.strerror or error}")
