"""The dialogue on one connection, from Connect to its end. Pure: bytes in, answers out; requests in, bytes out.

There is no socket here, no lock, no thread and no clock. The owner of the socket hands in what has come, and sends
the bytes that are returned, in order. After an exception it calls :meth:`Exchange.end`.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from kazoo.exceptions import (
    EXCEPTIONS,
    AuthFailedError,
    ConnectionDropped,
    NoNodeError,
    SessionExpiredError,
    ZookeeperError,
)

from parkazoo.engine.ports import Reply
from parkazoo.kazoo_private import (
    AUTH_XID,
    PING_XID,
    WATCH_XID,
    Auth,
    Close,
    CloseInstance,
    Connect,
    Delete,
    Exists,
    PingInstance,
    Transaction,
    int_struct,
)
from parkazoo.protocol.holdings import CHANGING, Holdings
from parkazoo.protocol.steps import Question, WatchRequest, WireRequest
from parkazoo.protocol.subject import Subject, error_about
from parkazoo.types.handlers import Log
from parkazoo.wire.frames import ANSWER, LENGTH_BYTES, REPLY, REQUEST, Frames, frame_end, request_frame
from parkazoo.wire.sizes import NOTED_BYTES, Sizes

# The states of a connection, and what may happen in each of them, with the state after it.
CONNECTING = "CONNECTING"  # until the server accepts the session
VERIFYING = "VERIFYING"  # until it answers to the credentials, and says which ensemble it belongs to
OPEN = "OPEN"  # requests are taken
DRAINING = "DRAINING"  # no request is taken; answers come
CLOSING = "CLOSING"  # the last request was to close the session
TORN = "TORN"  # a request may have been sent in part: nothing more is sent
ENDED = "ENDED"  # nothing is sent or read

ACCEPT, READY, DRAIN, CLOSE, TEAR, END = "accept", "ready", "drain", "close", "tear", "end"
TABLE = {
    CONNECTING: {ACCEPT: VERIFYING, END: ENDED},
    VERIFYING: {READY: OPEN, END: ENDED},
    OPEN: {DRAIN: DRAINING, CLOSE: CLOSING, TEAR: TORN, END: ENDED},
    DRAINING: {READY: OPEN, TEAR: TORN, END: ENDED},
    CLOSING: {TEAR: TORN, END: ENDED},
    TORN: {TEAR: TORN, END: ENDED},
    ENDED: {TEAR: ENDED, END: ENDED},
}

MOST_HANDSHAKE_BYTES = 1 << 20  # of an answer in the handshake
XID_MAX = (1 << 31) - 1
HANDSHAKE_XID = 0  # requests have 1 and above
ANSWER_BYTES = ANSWER.size
HEAD_BYTES = REQUEST.size - LENGTH_BYTES  # of a request, beside its own
AUTH_TYPE, CLOSE_TYPE, DELETE_TYPE, EXISTS_TYPE = Auth.type, Close.type, Delete.type, Exists.type
TRANSACTION_TYPE = Transaction.type

Pending = tuple[WireRequest, Reply | None, int]  # the int: its xid


class SessionClosed(Exception):
    """The server has closed the session, as it was asked to."""


class SessionHolder(Protocol):
    """Whose session it is."""

    last_zxid: int
    last_xid: int
    holdings: Holdings
    sizes: Sizes

    def describe(self, request: WireRequest) -> Subject:
        """What an error about a request names."""

    def unchroot(self, path: str) -> str:
        """The user's name for a path in the result of a transaction."""

    def register(self, request: WatchRequest, is_missing: bool = False) -> None:
        """The server keeps the watch of this request. :param is_missing: its znode is not there."""


class Exchange:
    """The bytes of one connection.

    :param client: gives names, and keeps the zxid of the last answer, and the xid of the last request: xids go on
        from one connection of a session to the next. A server takes a late commit of a request that was sent on
        an earlier connection for the answer to one of the same xid.
    :param pending: the requests that wait for an answer, oldest first. The caller fails the rest at the end.
    :ivar frames: what has come and was not taken. :ivar answers: how many were taken, pongs too.
    :param read_event: takes the bytes that hold a watch's event, and where it begins.
    """

    def __init__(
        self, client: SessionHolder, pending: deque[Pending], read_event: Callable[[bytes, int], None], logger: Log
    ) -> None:
        self.state = CONNECTING
        self.accepted: Connect = None  # type: ignore[assignment]  # the server's Connect
        self.zxid = 0  # of the handshake
        self._client = client
        self._pending = pending
        self._read_event = read_event
        self._logger = logger
        self._sizes = client.sizes
        self._is_debugging = logger.isEnabledFor(logging.DEBUG)
        self._asked: deque[tuple[Question[object], Callable[[Any], None]]] = deque()  # in the handshake
        self._missing = 0  # answers in the handshake, after the first
        self._early = bytearray()  # events in the handshake
        self.frames = Frames()
        self.xid = client.last_xid
        self.answers = self.pings = self.pongs = 0

    def _go(self, what: str) -> None:
        self.state = TABLE[self.state][what]

    # ---- the handshake ---------------------------------------------------------------------------

    def connect(self, asked: Connect) -> bytes:
        """The session that is wanted."""
        body = asked.serialize()
        return int_struct.pack(len(body)) + body

    def credentials(self, auth_data: Iterable[tuple[str, str]]) -> bytes:
        """The credentials."""
        requests = [Auth(0, scheme, auth) for scheme, auth in sorted(auth_data)]
        self._missing += len(requests)
        return b"".join(request_frame(request, AUTH_XID) for request in requests)

    def ask(self, request: Question[object], take: Callable[[Any], None]) -> bytes:
        """A request of the handshake.

        :param take: is called with the answer, which may be an exception; what it raises ends the handshake.
        """
        self._asked.append((request, take))
        self._missing += 1
        return request_frame(request, HANDSHAKE_XID)

    @property
    def is_handshake_over(self) -> bool:
        """Whether all answers of the handshake have come."""
        return self.state != CONNECTING and not self._missing

    def receive_handshake(self, data: bytes) -> None:
        """Take the answers of the handshake. Events, and what comes behind the answers, are kept.

        :raises SessionExpiredError: the server does not know the session.
        :raises AuthFailedError: it refuses the credentials.
        :raises ConnectionDropped: it is no ZooKeeper server.
        """
        frames = self.frames
        frames.add(data)
        data = frames.take()
        begin = 0
        while (
            not self.is_handshake_over
            and len(data) - begin >= LENGTH_BYTES
            and (end := frame_end(data, begin)) <= len(data)
        ):
            if self._take_handshake(data[begin + LENGTH_BYTES : end]) == WATCH_XID:
                self._early += data[begin:end]
            begin = end
        rest = data[begin:]
        if self.is_handshake_over:
            frames.add(bytes(self._early) + rest)
            self._early.clear()
        else:
            if rest:
                frames.put_back(rest)
            if max(frames.wanted if rest else 0, len(self._early)) > MOST_HANDSHAKE_BYTES:
                raise ConnectionDropped("the server's answer is not ZooKeeper's")

    def _take_handshake(self, frame: bytes) -> int:
        """Returns the xid."""
        if self.state == CONNECTING:
            try:
                self.accepted, _ = Connect.deserialize(frame, 0)
            except Exception:
                raise ConnectionDropped("the server's answer is not ZooKeeper's") from None
            if self.accepted.time_out <= 0:
                raise SessionExpiredError("Session has expired")
            self._go(ACCEPT)
            return HANDSHAKE_XID
        xid, zxid, code = REPLY.unpack_from(frame)
        if xid in (PING_XID, WATCH_XID):
            return int(xid)
        if xid == AUTH_XID and self._missing > len(self._asked):
            if code:
                raise AuthFailedError()
        elif xid == HANDSHAKE_XID and self._asked:
            self._take_asked(*self._asked.popleft(), frame, code)
        else:
            raise ConnectionDropped(f"an answer to nothing: xid {xid}")
        self._missing -= 1
        self.zxid = max(self.zxid, zxid)
        return int(xid)

    def _take_asked(self, asked: Question[object], take: Callable[[Any], None], frame: bytes, code: int) -> None:
        try:
            answer = _error(code) if code else asked.deserialize(frame, REPLY.size)
        except Exception:
            raise ConnectionDropped("the server's answer is not ZooKeeper's") from None
        take(answer)

    def open(self) -> None:
        """The handshake is over, or the pause that :meth:`drain` began: requests may be sent."""
        self._go(READY)

    def drain(self) -> None:
        """No request may be sent for now. Another exchange may begin with the next xid."""
        self._client.last_xid = self.xid
        self._go(DRAIN)

    # ---- requests --------------------------------------------------------------------------------

    def request(self, request: WireRequest, reply: Reply | None, body: bytes) -> bytes:
        """The frame of a request, which waits for its answer from now on.

        :param reply: gets the answer; None if nothing wants it.
        :param body: the request's own bytes.
        """
        kind = request.type
        if kind == AUTH_TYPE:
            xid = AUTH_XID
        else:
            self.xid = xid = self.xid % XID_MAX + 1
        if self._is_debugging:
            self._logger.debug("Sending request(xid=%s): %s", xid, request)
        self._pending.append((request, reply, xid))
        if kind == CLOSE_TYPE:
            self._go(CLOSE)
        size = len(body) + HEAD_BYTES
        if size > NOTED_BYTES:
            self._sizes.unanswered[xid] = size
        return REQUEST.pack(size, xid, kind) + body

    def close(self) -> bytes:
        """The frame that asks for the end of the session."""
        return self.request(CloseInstance, None, b"")

    def ping(self) -> bytes:
        self.pings += 1
        return request_frame(PingInstance, PING_XID)

    # ---- answers ---------------------------------------------------------------------------------

    @property
    def has_kept(self) -> bool:
        """Whether something has come and waits to be taken."""
        return bool(self.frames.size)

    def keep(self, data: bytes) -> None:
        """Take it later: with the next :meth:`receive`."""
        self.frames.add(data)

    def receive(self, data: bytes = b"") -> None:
        """Take whole frames, in order: set the reply of each answer, read each event.

        :raises SessionClosed: the session is closed.
        :raises AuthFailedError: the server refuses credentials.
        :raises ConnectionDropped: the server's words make no sense.
        """
        frames = self.frames
        if frames.size:
            frames.add(data)
            data = frames.take()
        begin, size = 0, len(data)
        while size - begin >= ANSWER_BYTES:
            length, xid, zxid, code = ANSWER.unpack_from(data, begin)
            end = begin + LENGTH_BYTES + length
            if length < REPLY.size or end > size:
                break
            if self.state == ENDED:
                return
            # An answer ends with its frame: what says it is longer must not get bytes of the next.
            if end == size:
                self._take(xid, zxid, code, data, begin + ANSWER_BYTES)
            else:
                self._take(xid, zxid, code, data[begin + ANSWER_BYTES : end], 0)
            begin = end
        if begin < size and self.state != ENDED:
            frames.put_back(data[begin:])

    def _take(self, xid: int, zxid: int, code: int, data: bytes, offset: int) -> None:
        if xid < 0 and self._take_unasked(xid, code, data, offset):
            return
        if not self._pending:
            raise ConnectionDropped(f"an answer to nothing: xid {xid}")
        if xid != self._pending[0][2]:
            raise ConnectionDropped(self._why_not_first(xid))
        request, reply, _ = self._pending.popleft()
        self.answers += 1
        if self._sizes.unanswered:
            self._sizes.answered(xid)
        if zxid > 0:
            self._client.last_zxid = zxid
        if code:
            self._take_error(request, reply, code)
            return
        kind = request.type
        if kind == CLOSE_TYPE:
            raise SessionClosed
        try:
            answer = request.deserialize(data, offset)  # type: ignore[attr-defined]  # all that get here have it
            if kind in CHANGING:
                self._client.holdings.answered(request, answer)
            if kind == TRANSACTION_TYPE:
                answer = Transaction.unchroot(self._client, answer)
        except Exception as unreadable:
            self._logger.exception("Exception raised during deserialization of request: %s", request)
            self._client.holdings.lost([request])
            if reply is not None:
                reply.set_exception(unreadable)
            return
        if self._is_debugging:
            self._logger.debug("Received response: %r", answer)
        if getattr(request, "watcher", None):
            self._client.register(request)  # type: ignore[arg-type]  # it has a watcher
        if reply is not None:
            reply.set(answer)

    def _why_not_first(self, xid: int) -> str:
        """A server that hears at a write that the session has moved ends the connection instead of answering.

        What it has put behind that end may go out with what was before it: answers to later reads.
        """
        expected = self._pending[0][2]
        if any(xid == later for _, _, later in self._pending.copy()):  # other threads add to it
            return (
                f"no answer to xid {expected}, but one to xid {xid}: the session may have moved to another server"
            )
        return f"xids do not match, expected {expected} received {xid}"

    def _take_unasked(self, xid: int, code: int, data: bytes, offset: int) -> bool:
        """An event, a pong, or an answer to credentials; False if it is none of them."""
        if xid == AUTH_XID:
            self._take_auth(code)
        elif xid == WATCH_XID:
            try:
                self._read_event(data, offset)
            except Exception as error:  # it would be read again and again
                self._logger.exception("Exception raised while an event was read")
                raise ConnectionDropped("an event that cannot be read") from error
        elif xid == PING_XID:
            self.pongs += 1
            self.answers += 1
        return xid in (AUTH_XID, WATCH_XID, PING_XID)

    def _take_auth(self, code: int) -> None:
        """A server answers to credentials at once, before requests that came earlier."""
        pending = self._pending
        waiting = enumerate(pending.copy())  # other threads add to it
        index = next((index for index, (_, _, xid) in waiting if xid == AUTH_XID), None)
        if index is None:
            raise ConnectionDropped("an answer to credentials that were not sent")
        _, reply, _ = pending[index]
        del pending[index]
        self.answers += 1
        if code:
            if reply is not None:
                reply.set_exception(AuthFailedError())
            raise AuthFailedError()
        if reply is not None:
            reply.set(True)

    def _take_error(self, request: WireRequest, reply: Reply | None, code: int) -> None:
        if code == NoNodeError.code and request.type == EXISTS_TYPE:
            exists: Exists = request  # type: ignore[assignment]  # by its number: a program may have its own class
            if exists.watcher:
                self._client.register(exists, is_missing=True)
            if reply is not None:
                reply.set(None)
            return
        if code == NoNodeError.code and request.type == DELETE_TYPE:
            self._client.holdings.answered(request, None)
        kind, before = _kind(code)
        error = error_about(kind, self._client.describe(request), f"{before}: " if before else "")
        if self._is_debugging:
            self._logger.debug("Received error %r", error)
        if reply is not None:
            reply.set_exception(error)

    # ---- the end ---------------------------------------------------------------------------------

    def tear(self) -> None:
        """The sent bytes may end within a request."""
        self._go(TEAR)

    def end(self) -> None:
        """Nothing more is sent or looked at."""
        self._client.last_xid = self.xid
        self._go(END)


def _kind(code: int) -> tuple[type[ZookeeperError], str]:
    """kazoo's exception and the beginning of its text: a newer server may have an error unknown to kazoo."""
    known: type[ZookeeperError] | None = EXCEPTIONS.get(code)
    return (ZookeeperError, f"error {code}") if known is None else (known, "")


def _error(code: int) -> ZookeeperError:
    kind, text = _kind(code)
    return kind(text) if text else kind()
