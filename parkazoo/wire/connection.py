"""kazoo's connection to one ensemble, with a wake-up that never blocks and requests sent in batches."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

from kazoo.exceptions import ConnectionDropped, SessionExpiredError

from parkazoo.kazoo_private import (
    AUTH_XID,
    CLOSE_RESPONSE,
    CONNECTION_DROP,
    SESSION_EXPIRED,
    Auth,
    CloseInstance,
    ConnectionHandler,
    int_int_struct,
    int_struct,
)
from parkazoo.wire.routine import end_after_fork

BATCH_REQUESTS = 128
BATCH_BYTES = 1 << 16
XID_MAX = (1 << 31) - 1


class MemberConnection(ConnectionHandler):
    """The connection of a :class:`~parkazoo.wire.member.Member`, which is its ``client``.

    kazoo sends one byte through a socket pair for each request and reads it back with it; the pair blocks when
    it is full (after 278 bytes here), and with it whoever holds something another thread waits for. Here a byte
    only means "look at the queue", and there is at most about one of them.
    """

    _read_sock: Any
    _write_sock: Any

    def start(self) -> None:
        self._is_signalled = False
        super().start()
        self._read_sock.setblocking(False)
        self._write_sock.setblocking(False)

    def abandon(self) -> None:
        """In a child process: close what it has of the parent's sockets, without a word to the servers."""
        for sock in (self._socket, self._read_sock, self._write_sock):
            if sock is not None:
                with suppress(OSError):  # it had been closed
                    os.close(sock.detach())
        self._read_sock = self._write_sock = None
        self.connection_stopped = self.handler.event_object()
        self.connection_stopped.set()
        end_after_fork(self._connection_routine)

    def wake(self) -> bool:
        """Have the connection thread look at the queue; False if the connection is closed."""
        if self._is_signalled:
            return self._write_sock is not None
        sock = self._write_sock
        if sock is None:
            return False
        self._is_signalled = True
        try:
            sock.send(b"\0")
        except BlockingIOError:
            pass  # full: it will wake
        except OSError:
            return False
        return True

    def _connect(self, host: str, hostip: str, port: int) -> Any:
        """Overrides kazoo's, and lets programs that replace ``client._connection._connect`` (Patroni) in."""
        try:
            timeouts = self.client.connect_hook(super()._connect, host, hostip, port)
        except Exception as error:
            self.client.trouble = f"{host}:{port} {error}"
            raise
        self.client.trouble = ""
        if self.client._queue or self.client.is_renewing:
            self._is_signalled = False
            self.wake()
        return timeouts

    def _send_request(self, read_timeout: float, connect_timeout: float) -> None:
        """Overrides kazoo's: called when there is a byte to read; sends what is queued, up to a batch."""
        client = self.client
        with suppress(BlockingIOError):
            self._read_sock.recv(4096)
        self._is_signalled = False  # before the queue is looked at: what is queued from now on wakes again
        if client.is_renewing:
            self._close_session(read_timeout, connect_timeout)
        batch = bytearray()
        try:
            for _ in range(BATCH_REQUESTS):
                if len(batch) > BATCH_BYTES:
                    break
                try:
                    request, reply = client._queue.popleft()
                except IndexError:  # also if another thread has just failed what was queued
                    break
                batch += self._frame(request, reply)
            else:
                self.wake()  # replies are read before the next batch
        finally:
            if batch:
                self._write(batch, connect_timeout)
        if client._queue:
            self.wake()

    def _frame(self, request: Any, reply: Any) -> bytes:
        """The bytes of a request, which waits for its answer from now on."""
        if request is SESSION_EXPIRED:
            raise SessionExpiredError("Session expired: Testing")
        if request is CONNECTION_DROP:
            raise ConnectionDropped("Connection dropped: Testing")
        try:
            body = request.serialize()
        except Exception as error:  # a value that kazoo's types let through, such as a version of 2**40
            if reply is not None:
                reply.set_exception(error)
            return b""
        if request.type == Auth.type:
            xid = AUTH_XID
        else:
            self._xid: int = self._xid % XID_MAX + 1
            xid = self._xid
        self.logger.debug("Sending request(xid=%s): %s", xid, request)
        self.client._pending.append((request, reply, xid))
        return int_struct.pack(len(body) + 8) + int_int_struct.pack(xid, request.type) + body

    def _close_session(self, read_timeout: float, connect_timeout: float) -> None:
        """Close the session on its servers, so that its ephemerals are gone, and begin another."""
        self._write(self._frame(CloseInstance, None), connect_timeout)
        while self._read_socket(read_timeout) != CLOSE_RESPONSE:
            pass
        raise SessionExpiredError("Closed, together with the client's other sessions")
