"""What a client says to a ZooKeeper server on one connection, and what it hears: neither socket nor clock."""

from __future__ import annotations

from collections.abc import Sequence

from bench.bare_requests import (
    CLOSE,
    CONNECTED,
    INT,
    NODE_EXISTS,
    REPLY,
    SESSION_TIMEOUT_MS,
    BareError,
    connect,
    create,
    frame,
    get_data,
    set_data,
    text,
)
from bench.load.requests import CREATE, SET, Request

SYNC = 9
STEP = 2  # of xids: a request has an even one, the sync before it the odd one below


class ZooKeeperWire:
    """
    :param value: that is written.
    :param is_linearizable: each read has a sync before it, sent together with it.
    """

    def __init__(self, value: bytes, is_linearizable: bool) -> None:
        self._value = value
        self._is_linearizable = is_linearizable
        self._encoded: dict[tuple[int, str], Sequence[tuple[int, int, bytes]]] = {}
        self._xid = 0
        self._is_connected = False
        self._held: list[bytes] = []  # until the session is there
        self._out = [connect(SESSION_TIMEOUT_MS)]
        self._rest = b""

    def ask(self, request: Request) -> int:
        """Puts a request into the bytes that are to be sent.

        :returns: its number.
        """
        key = request.kind, request.path
        if (parts := self._encoded.get(key)) is None:
            parts = self._encoded[key] = self._encode(request)
        self._xid += STEP
        out = self._out if self._is_connected else self._held
        for before, kind, body in parts:
            out.append(frame(self._xid - before, kind, body))
        return self._xid

    def _encode(self, request: Request) -> Sequence[tuple[int, int, bytes]]:
        """Of each part: by how much its xid is less than the request's, its type, its body."""
        if request.kind == SET:
            return [(0, *set_data(request.path, self._value))]
        if request.kind == CREATE:
            return [(0, *create(request.path, self._value))]
        sync = [(1, SYNC, text(request.path))] if self._is_linearizable else []
        return [*sync, (0, *get_data(request.path))]

    def outgoing(self) -> bytes:
        """Takes all that is to be sent now."""
        data = b"".join(self._out)
        self._out.clear()
        return data

    def end(self) -> bytes:
        """The last bytes: the session ends."""
        return frame(0, CLOSE)

    def hear(self, data: bytes) -> list[tuple[int, str]]:
        """Takes bytes from the server.

        :returns: of each request that is answered its number, and its error, if it has one. A sync that fails is
            the error of its read.
        :raises BareError: there is no session.
        """
        data = self._rest + data
        at, answered = 0, []
        while len(data) - at >= INT.size:
            end = at + INT.size + INT.unpack_from(data, at)[0]
            if len(data) < end:
                break
            if self._is_connected:
                _, xid, _, error = REPLY.unpack_from(data, at)
                if error and error != NODE_EXISTS:
                    answered.append((xid + xid % STEP, f"error {error}"))
                elif not xid % STEP:
                    answered.append((xid, ""))
            else:
                self._begin(data[at:end])
            at = end
        self._rest = data[at:]
        return answered

    def _begin(self, answer: bytes) -> None:
        granted_ms = CONNECTED.unpack_from(answer)[2]
        if not granted_ms:
            raise BareError("the server gives no session")
        self._is_connected = True
        self._out += self._held
        self._held.clear()
