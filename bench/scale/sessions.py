"""Thousands of real sessions in one thread. All that a session does is what it is told to."""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from bench.bare_requests import (
    CLOSE,
    CONNECTED,
    EVENT_XID,
    INT,
    PASSWORD_BYTES,
    PING,
    PING_XID,
    REPLY,
    BareError,
    connect,
    frame,
)
from parkazoo.wire.loop import READ_BYTES

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
SILENCE_S = 60.0
IN_FLIGHT = 40  # below the 50 connections that a server's kernel keeps until the server takes them
CLOSED, REACHING, ASKED, OPEN, CLOSING = range(5)
OPENED, EXPIRED, LOST, ANSWERED, NOTIFIED = "opened", "expired", "lost", "answered", "notified"
Event = tuple["Session", str]
Item = TypeVar("Item")


class Session:
    """A session, with a connection or without one."""

    __slots__ = ("data", "id", "password", "sock", "state", "xid")
    sock: socket.socket  # of the last connection

    def __init__(self) -> None:
        self.state = CLOSED
        self.id = self.xid = 0
        self.password = bytes(PASSWORD_BYTES)
        self.data = b""


class Sessions:
    """
    :param count: of the sessions. They have no connections at first.
    :param time_out_ms: of each session.
    """

    def __init__(self, count: int, time_out_ms: int) -> None:
        self.all = [Session() for _ in range(count)]
        self._time_out_ms = time_out_ms
        self._selector = selectors.DefaultSelector()

    def __enter__(self) -> Sessions:
        return self

    def __exit__(self, *_: object) -> None:
        for session in self.all:
            self.hang_up(session)
        self._selector.close()

    # ---- one session ------------------------------------------------------------------------------

    def dial(self, session: Session, address: str) -> None:
        """Begin to connect, for a new session or for the one that there was. An event says how it ends."""
        host, _, port = address.rpartition(":")
        session.sock = socket.socket()
        session.sock.setblocking(False)
        session.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        session.sock.connect_ex((host, int(port)))
        session.state, session.data = REACHING, b""
        self._selector.register(session.sock, WRITE, session)

    def hang_up(self, session: Session) -> None:
        """Close the connection, if there is one. The server keeps the session."""
        if session.state != CLOSED:
            self._selector.unregister(session.sock)
            session.sock.close()
            session.state = CLOSED

    def send(self, session: Session, kind: int, body: bytes = b"") -> None:
        if kind == PING:
            session.sock.sendall(frame(PING_XID, kind, body))
        else:
            session.xid += 1
            session.sock.sendall(frame(session.xid, kind, body))
        if kind == CLOSE:
            session.state = CLOSING

    def poll(self, time_out_s: float = SILENCE_S) -> list[Event]:
        """What has happened, as soon as anything has; nothing if that takes longer.

        :raises BareError: a server answers with an error.
        """
        until_s = time.monotonic() + max(0.0, time_out_s)
        events: list[Event] = []
        while not events and (ready := self._selector.select(max(0.0, until_s - time.monotonic()))):
            for key, _ in ready:
                events += self._go_on(key.data)
        return events

    def _go_on(self, session: Session) -> list[Event]:
        try:
            if session.state != REACHING:
                return list(self._read(session))
            self._ask(session)
        except OSError:
            self.hang_up(session)
            return [(session, LOST)]
        return []

    def _ask(self, session: Session) -> None:
        if error := session.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            raise OSError(error, "")
        session.sock.sendall(connect(self._time_out_ms, session.id, session.password))
        session.state = ASKED
        self._selector.modify(session.sock, READ, session)

    def _read(self, session: Session) -> Iterator[Event]:
        data = session.sock.recv(READ_BYTES)
        if not data:
            raise ConnectionResetError
        session.data += data
        while len(session.data) >= INT.size:
            end = INT.size + INT.unpack_from(session.data)[0]
            if len(session.data) < end:
                break
            whole, session.data = session.data[:end], session.data[end:]
            yield session, self._take(session, whole)

    def _take(self, session: Session, whole: bytes) -> str:
        if session.state in (OPEN, CLOSING):
            _, xid, _, error = REPLY.unpack_from(whole)
            if error:
                raise BareError(f"error {error}")
            if session.state == CLOSING:
                self._forget(session)
            return NOTIFIED if xid == EVENT_XID else ANSWERED
        _, _, time_out_ms, number, _, password = CONNECTED.unpack_from(whole)
        if time_out_ms <= 0:
            self._forget(session)
            return EXPIRED
        session.id, session.password, session.state = number, password, OPEN
        return OPENED

    def _forget(self, session: Session) -> None:
        self.hang_up(session)
        session.id, session.password = 0, bytes(PASSWORD_BYTES)

    # ---- all of them ------------------------------------------------------------------------------

    def dial_all(self, addresses: Sequence[str]) -> None:
        """Have all connected, each to the next address.

        :raises BareError: a server refuses, or is silent.
        """

        def dial(numbered: tuple[int, Session]) -> None:
            self.dial(numbered[1], addresses[numbered[0] % len(addresses)])

        self._each(list(enumerate(self.all)), dial, OPENED)

    def ask_all(self, kind: int, body_of: Callable[[Session], bytes] = lambda _: b"") -> None:
        """Have each send a request, and wait for all answers.

        :raises BareError: as `poll`, or a server is silent.
        """
        self._each(self.all, lambda session: self.send(session, kind, body_of(session)), ANSWERED)

    def ping_evenly(self, seconds: float, pings: int) -> None:
        """Have them ping in turn, evenly over that time.

        :raises BareError: as `ask_all`.
        """
        began_s = time.monotonic()
        sent = answered = 0
        while answered < pings:
            due = min(pings, int((time.monotonic() - began_s) / seconds * pings) + 1)
            for number in range(sent, due):
                self.send(self.all[number % len(self.all)], PING)
            sent = due
            pause_s = max(0.0, began_s + sent * seconds / pings - time.monotonic())
            events = self.poll(pause_s if sent < pings else SILENCE_S)
            if not events and sent == pings:
                raise BareError("no answer to a ping")
            answered += self._count(events, ANSWERED)

    def wait_all(self, wanted: str, count: int) -> None:
        """Wait for so many events.

        :raises BareError: as `ask_all`.
        """
        while count:
            events = self.poll()
            if not events:
                raise BareError(f"{count} sessions wait to be {wanted}")
            count -= self._count(events, wanted)

    def close_all(self) -> None:
        """End all sessions on the server.

        :raises BareError: as `ask_all`.
        """
        self.ask_all(CLOSE)

    def _each(self, items: Sequence[Item], begin: Callable[[Item], None], wanted: str) -> None:
        """Begin with some; each that has what it wants makes room for the next."""
        left, missing = iter(items), len(items)
        for item in islice(left, IN_FLIGHT):
            begin(item)
        while missing:
            events = self.poll()
            if not events:
                raise BareError(f"{missing} sessions wait to be {wanted}")
            done = self._count(events, wanted)
            missing -= done
            for item in islice(left, done):
                begin(item)

    @staticmethod
    def _count(events: Sequence[Event], wanted: str) -> int:
        """
        :raises BareError: a session has lost its connection, or has expired.
        """
        if bad := [what for _, what in events if what in (LOST, EXPIRED)]:
            raise BareError(f"a session was {bad[0]}")
        return sum(what == wanted for _, what in events)
