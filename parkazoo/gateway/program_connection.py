"""The connection of one program: its requests in, answers and events out."""

from __future__ import annotations

import asyncio
import fcntl
import logging
import math
import select
import termios
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from functools import partial
from itertools import islice
from struct import Struct
from typing import TYPE_CHECKING, Any

from kazoo.exceptions import (
    AuthFailedError,
    BadArgumentsError,
    ConnectionClosedError,
    ConnectionLoss,
    NoNodeError,
    NoWatcherError,
    SessionExpiredError,
)

from parkazoo.engine.ports import OnAnswer
from parkazoo.errors import CrossEnsembleError
from parkazoo.gateway import program_replies as replies
from parkazoo.gateway import program_requests as requests
from parkazoo.gateway.answer_row import AnswerPlace, AnswerRow
from parkazoo.gateway.program_bytes import FrameError, FrameReader, Incoming
from parkazoo.gateway.program_requests import RefusedError, placed
from parkazoo.gateway.status_words import WORDS, ProgramStatus, answer_word
from parkazoo.gateway.watch_table import CHILDREN, DATA, ProgramWatch
from parkazoo.kazoo_private import Create, Create2, Exists, GetChildren, GetChildren2, Sync, Transaction
from parkazoo.protocol.newer_requests import CreateContainer, CreateTTL, GetEphemerals
from parkazoo.protocol.placement import logical
from parkazoo.types import AddWatchMode
from parkazoo.types.znodes import ZnodeStat
from parkazoo.wire.frames import ANSWER, REPLY

if TYPE_CHECKING:
    from parkazoo.gateway.gateway import Gateway
    from parkazoo.gateway.program_session import ProgramSession

log = logging.getLogger(__name__)

CONNECT_S = 10.0  # for the first words of a program
LINGER_S = 5.0  # for a program to take the last answers
MOST_UNANSWERED = 1000
ENDED_EVENTS = getattr(select, "POLLRDHUP", select.POLLHUP)  # the former is Linux's: it comes before the latter
MOST_UNREAD_BYTES = 1 << 20
MOST_BUFFERED_BYTES = 1 << 26
MOST_UNANSWERED_BYTES = 1 << 20  # or one request more, which may be as large
WATCHES_AT_ONCE = 500
MOST_IDENTITIES = 100  # of a session
READS_AT_ONCE = 100  # of a multiRead
MOST_READ_BYTES = 1 << 22  # of its answer; ZooKeeper's clients take no more in one frame
REPLY_BYTES = REPLY.size
NATIVE_INT = Struct("i")
PART_OF_TIMEOUT = 3  # so much of it a request waits for its ensemble
# The watches that each type of removal concerns: of ones that come once, and of ones that stay.
ONCE_OF_TYPE = {1: (CHILDREN,), 2: (DATA,), 3: (DATA, CHILDREN), 4: (), 5: ()}
LASTING_OF_TYPE = {
    1: (),
    2: (),
    3: (*AddWatchMode,),
    4: (AddWatchMode.PERSISTENT,),
    5: (AddWatchMode.PERSISTENT_RECURSIVE,),
}
MAKING = (Create.type, Create2.type, CreateContainer.type, CreateTTL.type)
WITHOUT_STAT = (CreateContainer, CreateTTL)  # a client's answers to them have none; a program's may need one

Creation = Create2 | CreateContainer | CreateTTL
SetWatch = tuple[str, str, str, bool]  # kind, path, the same with the chroot, whether there was a znode


class ProgramRequest(AnswerPlace):
    """A request on its way: its place in the row of answers, and the reply to its operation.

    :param write: makes the body of the answer. :ivar watch: that it leaves.
    :ivar operations: of a transaction: it is refused by an error for each, as a server's, and not by one alone.
    """

    __slots__ = ("_connection", "asked_s", "left", "operations", "watch", "write", "xid")

    def __init__(self, connection: ProgramConnection, xid: int, asked_s: float) -> None:
        super().__init__()
        self._connection = connection
        self.xid = xid
        self.asked_s = asked_s
        self.write: Callable[[Any], bytes] = replies.write_count
        self.watch: ProgramWatch | None = None
        self.left = 0  # parts without an answer
        self.operations = 0

    @property
    def is_abandoned(self) -> bool:
        """See :func:`parkazoo.engine.ports.is_abandoned`."""
        return self.answer is not None or self._connection.has_ended

    def set(self, value: object = None) -> None:
        self._connection.answered(self, value)

    def set_body(self, body: bytes) -> None:
        """:param body: of the answer, as a program reads it."""
        self._connection.answered_body(self, body)

    def set_exception(self, exception: Exception) -> None:
        self._connection.answered(self, exception)


def _stat_when_made(session: ProgramSession, made: Creation, found: ZnodeStat | None) -> ZnodeStat:
    """:param made: the create. :param found: by the read behind it."""
    now_ms = int(time.time() * 1000)
    return replies.stat_when_made(found, len(made.data or b""), session.zxid, now_ms)


def _readable_bytes(transport: asyncio.Transport) -> int:
    """How much lies there, at the socket or in the layer of TLS."""
    file = transport.get_extra_info("socket").fileno()
    (at_socket,) = NATIVE_INT.unpack(fcntl.ioctl(file, termios.FIONREAD, bytes(NATIVE_INT.size)))
    of_tls = getattr(transport, "get_read_buffer_size", lambda: 0)
    return int(at_socket + of_tls())


async def shielded(left: asyncio.Future[None]) -> None:
    """Several requests may wait for it."""
    await asyncio.shield(left)


class ProgramConnection(asyncio.Protocol):
    """Takes the program's frames in order, and gives its answers in the order of the requests.

    :ivar has_ended: nothing is taken or sent any more. :ivar received: frames.
    """

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._loop = asyncio.get_running_loop()
        self._incoming = Incoming()
        self._row = AnswerRow()
        self._transport: asyncio.Transport = None  # type: ignore[assignment]  # until connection_made
        self.session: ProgramSession | None = None
        self.address = ""
        self.has_ended = False
        self.received = 0
        self._is_welcome = False
        self._says_read_only = False
        self._is_closing = False  # the program has closed its session
        self._alone: ProgramRequest | None = None  # the last behind whose answer all others begin
        self._in_turn: Callable[[], None] | None = None  # to be done when that has no request in front of it
        self._is_due = False
        self._is_unread = False  # the program does not take its answers
        self._is_paused = False
        self._unread_bytes = 0  # that the program had sent when it was looked last, while it is not read
        self._connect_timer: asyncio.TimerHandle | None = None
        self._late_timer: asyncio.TimerHandle | None = None
        self._linger_timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    # ---- asyncio's ---------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        host, port, *_ = transport.get_extra_info("peername") or ("?", 0)
        self.address = f"{host}:{port}"
        transport.set_write_buffer_limits(MOST_UNREAD_BYTES)
        if not self._gateway.admit(self):
            self.has_ended = True
            transport.abort()
            return
        self._connect_timer = self._loop.call_later(CONNECT_S, self.close, "it says nothing")

    def data_received(self, data: bytes) -> None:
        if self.has_ended:
            return
        incoming = self._incoming
        incoming.add(data)
        if self.session is None and incoming.head in WORDS:
            self._row.at_once(answer_word(incoming.head, self._gateway.status))
            self.close("a four-letter word")
            return
        self._take_frames()

    def _take_frames(self) -> None:
        """Those that have come, for as long as there is room for their answers."""
        try:
            for frame in self._incoming.take():
                self.received += 1
                if self.session is None:
                    self._connect(FrameReader(frame))
                else:
                    self._begin(frame)
                if self.has_ended:
                    return
                if self._is_full:
                    break
        except FrameError as error:
            self.close(str(error))
        except Exception:
            log.exception("Unhandled exception in a request of %s", self.address)
            self.close("unhandled exception")
        self._look_whether_full()

    def pause_writing(self) -> None:
        self._is_unread = True
        self._look_whether_full()

    def resume_writing(self) -> None:
        self._is_unread = False
        self._look_whether_full()

    def connection_lost(self, error: Exception | None) -> None:
        self.has_ended = True
        for timer in (self._connect_timer, self._late_timer, self._linger_timer):
            if timer is not None:
                timer.cancel()
        if self.session is not None:
            self.session.detach(self)
        self._gateway.dismiss(self)

    # ---- the beginning and the end -----------------------------------------------------------------

    def _connect(self, fields: FrameReader) -> None:
        fields.number()  # the version of the protocol
        fields.long()  # the last zxid that it has seen: ensembles have their own
        timeout_ms, number, password = fields.number(), fields.long(), fields.buffer() or b""
        self._says_read_only = not fields.is_at_end
        assert self._connect_timer is not None
        self._connect_timer.cancel()
        try:
            session = self._gateway.session_for(number, password, timeout_ms)
        except RefusedError as error:
            log.warning("%s: no session: error %d", self.address, error.code)
            self.close("no more sessions")
            return
        if session is None:
            self.refuse_session()
            return
        self.session = session
        session.attach(self)

    def welcome(self) -> None:
        """The session is open. See :class:`Program`."""
        session = self.session
        if self._is_welcome or self.has_ended or session is None:
            return
        self._is_welcome = True
        self._write_connected(session.timeout_ms, session.number, session.password)
        self._look_whether_full()

    def refuse_session(self) -> None:
        """There is no such session any more. See :class:`Program`."""
        if not self._is_welcome:
            self._write_connected(0, 0, replies.NO_PASSWORD)
        self.close("its session has expired")

    def _write_connected(self, timeout_ms: int, number: int, password: bytes) -> None:
        says_read_only = self._says_read_only
        self._row.at_once(replies.write_connected(timeout_ms, number, password, says_read_only=says_read_only))
        self._due()

    def close(self, why: str) -> None:
        """End it, behind the answers whose turn it is."""
        if self.has_ended:
            return
        log.debug("%s: the connection ends: %s", self.address, why)
        self._flush()
        self.has_ended = True
        self._transport.close()
        self._linger_timer = self._loop.call_later(LINGER_S, self._transport.abort)

    @property
    def has_gone(self) -> bool:
        """Whether the program has closed it, even if that has not been read yet."""
        if self.has_ended or self._transport.is_closing():
            return True
        poll = select.poll()
        poll.register(self._transport.get_extra_info("socket").fileno(), ENDED_EVENTS)
        return bool(poll.poll(0))

    def has_said_more(self) -> bool:
        """Whether the program has sent anything since this was asked last, while the gateway does not read it."""
        if not self._is_paused or self.has_ended or self._transport.is_closing():
            self._unread_bytes = 0
            return False
        before, self._unread_bytes = self._unread_bytes, _readable_bytes(self._transport)
        return self._unread_bytes != before

    # ---- answers -----------------------------------------------------------------------------------

    def answered(self, request: ProgramRequest, value: object) -> None:
        """An operation has ended, perhaps with an exception."""
        session = self.session
        assert session is not None
        is_known = not request.is_abandoned
        if request.watch is not None:
            is_left = is_known and not isinstance(value, Exception)
            early = session.watches.end(request.watch, request, value, is_left=is_left)
            if early is not None:
                session.tell(request.watch, early, request)
        if not is_known:
            return
        error = value if isinstance(value, Exception) else None
        if error is None:
            try:
                body = request.write(value)
            except NoNodeError as missing:
                error = missing
            except Exception:  # the program's mistake or ours: the client and its ensembles go on
                log.exception("Unhandled exception in an answer to %s", self.address)
                self.close("unhandled exception")
                return
        if error is None:
            self._answer(request, replies.write_reply(request.xid, session.zxid, body))
        elif isinstance(error, (SessionExpiredError, ConnectionClosedError, AuthFailedError)):
            self.close(f"the session ends: {error!r}")
        else:
            if isinstance(error, CrossEnsembleError):
                log.warning("%s: %s", self.address, error)
            self._refuse(request, replies.code_of(error))

    def answered_body(self, request: ProgramRequest, body: bytes) -> None:
        """The bytes of an answer have come, perhaps too late: see :meth:`AnswerRow.answer`."""
        assert self.session is not None
        header = ANSWER.pack(len(body) + REPLY_BYTES, request.xid, self.session.zxid, replies.OK)
        self._answer(request, header + body)

    def _refuse(self, request: ProgramRequest, code: int) -> None:
        assert self.session is not None
        xid, zxid = request.xid, self.session.zxid
        if request.operations and code == ConnectionLoss.code:
            self.close("a transaction has no answer")  # errors of its operations mean that nothing was done
        elif request.operations:
            self._answer(request, replies.write_reply(xid, zxid, replies.write_refused(code, request.operations)))
        else:
            self._answer(request, replies.write_error(xid, zxid, code))

    def _answer(self, request: ProgramRequest, answer: bytes) -> None:
        self._row.answer(request, answer)
        if self._in_turn is not None and not self.has_ended and self._row.first is self._alone:
            call, self._in_turn = self._in_turn, None
            assert self._alone is not None
            self._try(self._alone, call)
        self._due()

    def tell(self, kind: str, path: str, behind: AnswerPlace | None = None) -> None:
        """Tell of an event. See :class:`Program`."""
        self._row.tell(replies.write_event(kind, path), behind)
        self._due()

    def _due(self) -> None:
        """Send what is ready: now, or while requests wait for answers, together with what comes in this turn."""
        if not self._row:
            self._flush()
        elif not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._is_due = False
        if not self.has_ended:
            if data := self._row.take():
                self._transport.write(data)
            self._look_whether_full()
            if self._transport.get_write_buffer_size() > MOST_BUFFERED_BYTES:  # events, of which each is told
                log.warning("%s: the connection ends: the program does not take its events", self.address)
                self._transport.abort()

    @property
    def _is_full(self) -> bool:
        """Whether the program does not take its answers, or has not got its session, or others have to wait."""
        is_waiting = self.session is not None and not self._is_welcome
        is_waiting = is_waiting or (self._alone is not None and self._alone.answer is None)
        row = self._row
        is_much = len(row) >= MOST_UNANSWERED or row.size >= MOST_UNANSWERED_BYTES
        return is_waiting or self._is_unread or is_much

    def _look_whether_full(self) -> None:
        """Read no more then."""
        if not self.has_ended and self._is_full != self._is_paused:
            self._is_paused = not self._is_paused
            if self._is_paused:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()
                self._loop.call_soon(self._resume)

    def _resume(self) -> None:
        """Take the frames that came before it was full."""
        if not (self.has_ended or self._is_paused):
            self._take_frames()

    def _watch_time(self) -> None:
        """Requests that wait for too long get ConnectionLoss, so that those behind them get their answers."""
        first, session = self._row.first, self.session
        assert session is not None
        limit_s = session.timeout_ms / 1000 / PART_OF_TIMEOUT
        while isinstance(first, ProgramRequest) and not self.has_ended:
            rest_s = first.asked_s + limit_s - self._loop.time()
            if rest_s > 0:
                self._late_timer = self._loop.call_later(rest_s, self._watch_time)
                return
            if first.left:  # a program whose watches are not set must not think that they are
                self.close("its watches cannot be set")
            else:
                self._refuse(first, ConnectionLoss.code)
            first = self._row.first
        self._late_timer = None

    # ---- requests ----------------------------------------------------------------------------------

    def _begin(self, frame: bytes) -> None:
        session = self.session
        assert session is not None
        if self._is_closing:
            return
        session.heard_s = now_s = self._loop.time()
        placed_request = self._gateway.paths.read(frame)
        if placed_request is not None:
            xid, kind, path, rest = placed_request
            request = self._enter(xid, now_s, len(frame))
            request.write = replies.REPLY_WRITERS[kind]
            if not session.client.ask_placed(kind, path, rest, request):
                self._try_issue(request, kind, frame)
            return
        fields = FrameReader(frame)
        xid, kind = fields.number(), fields.number()
        if kind == requests.PING:
            self._row.at_once(replies.write_pong(session.zxid))
            self._due()
        elif kind == requests.AUTH:
            self._authenticate(xid, fields)
        else:
            self._try_issue(self._enter(xid, now_s, len(frame)), kind, frame)

    def _enter(self, xid: int, now_s: float, size: int) -> ProgramRequest:
        request = ProgramRequest(self, xid, now_s)
        self._row.enter(request, size)
        if self._late_timer is None:
            self._watch_time()
        return request

    def _try_issue(self, request: ProgramRequest, kind: int, frame: bytes) -> None:
        self._try(request, partial(self._issue, request, kind, FrameReader(frame, requests.HEAD_BYTES)))

    def _try(self, request: ProgramRequest, call: Callable[[], None]) -> None:
        try:
            call()
        except RefusedError as error:
            self._refuse(request, error.code)

    def _issue(self, request: ProgramRequest, kind: int, fields: FrameReader) -> None:
        session = self.session
        assert session is not None
        special = SPECIAL.get(kind)
        if special is not None:
            special(self, session, request, fields)
            return
        reader = requests.READERS.get(kind)
        if reader is None:
            raise RefusedError(requests.UNIMPLEMENTED)
        client = session.client
        request.operations = int(kind == Transaction.type)
        asked = reader(fields, client.chroot)
        wanted: Any = asked.request
        request.write = replies.REPLY_WRITERS.get(kind, request.write)
        if asked.watches:
            watched = CHILDREN if kind in (GetChildren.type, GetChildren2.type) else DATA
            request.watch = watch = session.watches.watch(watched, asked.path)
            session.watches.begin(watch, request)
            wanted = wanted._replace(watcher=watch)
        if kind in MAKING:
            request.write = partial(self._write_made, request.write)
        elif kind == Sync.type:
            request.write = partial(self._write_synced, asked.path)
        elif kind == GetEphemerals.type:
            request.write = partial(self._write_ephemerals, request.write, asked.path)
        elif kind == Transaction.type:
            request.write = partial(replies.write_multi, wanted)
            request.operations = len(wanted.operations)
            if not wanted.operations:
                request.set([])
                return
        if isinstance(wanted, WITHOUT_STAT) and kind != Create.type:
            self._run(request, self._make_with_stat(session, wanted, client.asked(wanted)))
        elif kind == Transaction.type and any(isinstance(each, Create2) for each in wanted.operations):
            results = client.asked(requests.with_plain_creates(wanted))
            self._run(request, self._commit_with_stats(session, wanted, results))
        else:
            client.ask(wanted, request)

    def _write_made(self, write: Callable[[Any], bytes], answer: Any) -> bytes:
        assert self.session is not None
        unchroot = self.session.client.unchroot
        return write(unchroot(answer) if isinstance(answer, str) else (unchroot(answer[0]), *answer[1:]))

    def _write_synced(self, path: str, answer: object) -> bytes:
        return replies.REPLY_WRITERS[Sync.type](path)

    def _write_ephemerals(self, write: Callable[[Any], bytes], prefix: str, answer: Any) -> bytes:
        """As a server compares: ``/a`` has ``/ab``, too."""
        assert self.session is not None
        paths = map(self.session.client.unchroot, answer)
        return write([path for path in paths if path.startswith(prefix)])

    async def _make_with_stat(
        self, session: ProgramSession, wanted: Creation, made: asyncio.Future[str]
    ) -> tuple[str, ZnodeStat]:
        """A create whose answer has no stat, and a read of that. By then the znode may be another one, or gone."""
        path = await made
        return path, _stat_when_made(session, wanted, await session.client.asked(Exists(logical(path), None)))

    async def _commit_with_stats(
        self, session: ProgramSession, wanted: Any, committed: asyncio.Future[list[Any]]
    ) -> list[Any]:
        """A transaction, and a read for each of its creates that is to be answered with a stat."""
        client, results = session.client, list(await committed)
        for number, operation in enumerate(wanted.operations):
            made = results[number]
            if isinstance(operation, Create2) and not isinstance(made, Exception):
                found = await client.asked(Exists(placed(client.chroot, made), None))
                results[number] = made, _stat_when_made(session, operation, found)
        return results

    def _run(self, request: ProgramRequest, steps: Coroutine[Any, Any, Any]) -> None:
        """What takes more than one call of the client."""
        task = asyncio.ensure_future(self._finish(request, steps))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _finish(self, request: ProgramRequest, steps: Coroutine[Any, Any, Any]) -> None:
        try:
            request.set(await steps)
        except FrameError as error:
            self.close(str(error))
        except Exception as error:
            request.set_exception(error)

    def _authenticate(self, xid: int, fields: FrameReader) -> None:
        """It is answered at once: no server refuses a digest, and none takes another scheme from here."""
        session = self.session
        assert session is not None
        fields.number()
        scheme, credential = fields.text(), fields.buffer() or b""
        try:
            text = credential.decode()
        except UnicodeDecodeError:
            text = ""
        identities = session.client.auth_data
        is_known = scheme == "digest" and text != ""  # servers take a user without a password too
        if is_known and (scheme, text) not in identities:
            is_known = len(identities) < MOST_IDENTITIES
            if is_known:
                session.client.authenticate(scheme, text)
        if is_known or scheme == "ip":
            self._row.at_once(replies.write_reply(xid, session.zxid))
            self._due()
        else:
            self._row.at_once(replies.write_error(xid, session.zxid, AuthFailedError.code))
            self.close(f"credentials of scheme {scheme!r}")

    def _close_session(self, session: ProgramSession, request: ProgramRequest, fields: FrameReader) -> None:
        self._is_closing = True
        request.asked_s = math.inf  # its answer may take as long as the client has to end
        self._run(request, self._close(session, request))

    async def _close(self, session: ProgramSession, request: ProgramRequest) -> None:
        await session.close()
        self._answer(request, replies.write_reply(request.xid, session.zxid))
        self.close("the program has closed its session")

    def _set_watches(self, session: ProgramSession, request: ProgramRequest, fields: FrameReader) -> None:
        """Set the watches of an earlier connection again, and tell the events that it missed."""
        fields.long()  # the zxid since when: the watches themselves know what was seen
        there, missing, children = fields.texts(), fields.texts(), fields.texts()
        expected: dict[tuple[str, str], bool] = {(DATA, path): False for path in missing}
        expected.update({(DATA, path): True for path in there} | {(CHILDREN, path): True for path in children})
        lasting = [] if fields.is_at_end else [fields.texts(), fields.texts()]
        request.left = 1
        request.write = replies.write_nothing
        once = [(kind, path, placed(session.client.chroot, path), each) for (kind, path), each in expected.items()]
        for mode, paths in zip(AddWatchMode, lasting, strict=False):
            for path in paths:
                placed("", path)
                request.left += 1
                self._run_part(request, shielded(session.add_lasting(path, mode)))
        self._set_some(session, request, once)

    def _set_some(self, session: ProgramSession, request: ProgramRequest, once: list[SetWatch]) -> None:
        """Some in each turn of the loop: a program may have very many."""
        if self.has_ended:
            return
        for each in once[:WATCHES_AT_ONCE]:
            self._set_watch(session, request, *each)
        rest = once[WATCHES_AT_ONCE:]
        if rest:
            self._loop.call_soon(self._set_some, session, request, rest)
        else:
            self._end_part(request)

    def _set_watch(
        self,
        session: ProgramSession,
        request: ProgramRequest,
        kind: str,
        path: str,
        physical: str,
        is_expected: bool,
    ) -> None:
        watch = session.watches.set_again(kind, path)
        if watch.is_left:
            session.watches.renew(watch)
            return
        missed = session.watches.take_missed(watch)
        if missed is not None:
            session.tell(watch, missed)
            return
        request.left += 1
        session.watches.begin(watch, request)
        wanted = Exists(physical, watch) if watch.kind == DATA else GetChildren(physical, watch)
        session.client.ask(wanted, OnAnswer(partial(self._have_set, session, request, watch, is_expected)))

    def _have_set(
        self, session: ProgramSession, request: ProgramRequest, watch: ProgramWatch, is_expected: bool, answer: Any
    ) -> None:
        if isinstance(answer, NoNodeError):
            answer = None
        has_fired = request not in watch.arming or watch.arming[request] is not None
        is_failed = isinstance(answer, Exception)
        missed = None if has_fired or is_failed else watch.was_changed(is_expected, answer)
        session.watches.end(watch, request, answer, is_left=not is_failed and missed is None)
        if self.has_ended:
            return
        if isinstance(answer, ConnectionLoss):
            self.close("its watches cannot be set")
            return
        if missed is not None:
            session.tell(watch, missed)
        self._end_part(request)

    def _run_part(self, request: ProgramRequest, steps: Coroutine[Any, Any, Any]) -> None:
        task = asyncio.ensure_future(self._finish_part(request, steps))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _finish_part(self, request: ProgramRequest, steps: Coroutine[Any, Any, Any]) -> None:
        try:
            await steps
        except Exception as error:
            if not request.is_abandoned:
                self._refuse(request, replies.code_of(error))
        else:
            self._end_part(request)

    def _end_part(self, request: ProgramRequest) -> None:
        request.left -= 1
        if not request.left:
            request.set()

    def _add_watch(self, session: ProgramSession, request: ProgramRequest, fields: FrameReader) -> None:
        path, mode = fields.text(), fields.number()
        placed("", path)
        if mode not in [*AddWatchMode]:
            raise RefusedError(requests.BAD_ARGUMENTS)
        request.write = replies.write_ok
        self._run(request, shielded(session.add_lasting(path, AddWatchMode(mode), request)))

    def _remove_watches(self, session: ProgramSession, request: ProgramRequest, fields: FrameReader) -> None:
        self._behind_reads(session, request, fields, self._remove_named)

    def _remove_named(self, session: ProgramSession, request: ProgramRequest, path: str, kind: int) -> None:
        once, lasting = self._named_watches(session, path, kind)
        request.write = replies.write_nothing
        for watch in once:
            session.watches.forget(watch)
        for mode in lasting:
            once = [*once, session.lasting.pop((path, mode))]
        self._alone = request  # a server also removes one that is left meanwhile
        self._run(request, self._remove(session, path, once))

    async def _remove(self, session: ProgramSession, path: str, watches: list[Any]) -> None:
        for each in watches:
            await session.client.remove_watches(path, each)

    def _check_watches(self, session: ProgramSession, request: ProgramRequest, fields: FrameReader) -> None:
        self._behind_reads(session, request, fields, self._check_named)

    def _check_named(self, session: ProgramSession, request: ProgramRequest, path: str, kind: int) -> None:
        self._named_watches(session, path, kind)
        request.write = replies.write_nothing
        request.set()

    def _behind_reads(
        self,
        session: ProgramSession,
        request: ProgramRequest,
        fields: FrameReader,
        call: Callable[[ProgramSession, ProgramRequest, str, int], None],
    ) -> None:
        """Call with the path and the type of a removal: now, or when reads before it have left their watches."""
        path, kind = fields.text(), fields.number()
        placed("", path)
        if kind not in ONCE_OF_TYPE:
            raise RefusedError(requests.BAD_ARGUMENTS)
        is_behind = any(session.watches.is_arming(each, path) for each in ONCE_OF_TYPE[kind])
        if is_behind and self._row.first is not request:
            self._alone = request
            self._in_turn = partial(call, session, request, path, kind)
        else:
            call(session, request, path, kind)

    def _named_watches(
        self, session: ProgramSession, path: str, kind: int
    ) -> tuple[list[Any], list[AddWatchMode]]:
        """Watches that come once and modes of lasting ones.

        :raises RefusedError: there is none.
        """
        once = [watch for each in ONCE_OF_TYPE[kind] if (watch := session.watches.left(each, path)) is not None]
        lasting = [mode for mode in LASTING_OF_TYPE[kind] if (path, mode) in session.lasting]
        if not (once or lasting):
            raise RefusedError(NoWatcherError.code)
        return once, lasting

    def _count_all(self, session: ProgramSession, request: ProgramRequest, fields: FrameReader) -> None:
        path = fields.text()
        placed("", path)
        self._run(request, session.client.count_all_children(path))

    def _multi_read(self, session: ProgramSession, request: ProgramRequest, fields: FrameReader) -> None:
        reads = requests.read_multi_read(fields, session.client.chroot)
        first = [*islice(reads, READS_AT_ONCE)]
        request.write = bytes
        if len(first) == READS_AT_ONCE:
            self._alone = request
        self._run(request, self._read_all(session, request, first, reads))

    async def _read_all(
        self, session: ProgramSession, request: ProgramRequest, some: list[Any], reads: Iterator[Any]
    ) -> bytes:
        """Some at a time: a program may ask for very many.

        :param reads: the others.
        """
        body = bytearray()
        while some and not request.is_abandoned:
            answers = await asyncio.gather(*map(session.client.asked, some), return_exceptions=True)
            for each, answer in zip(some, answers, strict=True):
                if isinstance(answer, ConnectionLoss):
                    raise answer
                body += replies.write_read(each.type, answer)
            if len(body) > MOST_READ_BYTES:
                log.warning("%s: a multiRead has an answer of more than %d bytes", self.address, MOST_READ_BYTES)
                raise BadArgumentsError
            some = [*islice(reads, READS_AT_ONCE)]
        return bytes(body) + replies.END_OF_MULTI

    # ---- for operators -----------------------------------------------------------------------------

    @property
    def sent(self) -> int:
        """How many answers and events it has had."""
        return self._row.count

    @property
    def status(self) -> ProgramStatus:
        session = self.session
        number, timeout_ms = (0, 0) if session is None else (session.number, session.timeout_ms)
        return ProgramStatus(self.address, number, timeout_ms, len(self._row), self.received, self._row.count)


SPECIAL: Mapping[int, Callable[[ProgramConnection, Any, ProgramRequest, FrameReader], None]] = {
    requests.CLOSE: ProgramConnection._close_session,
    requests.SET_WATCHES: ProgramConnection._set_watches,
    requests.SET_WATCHES_2: ProgramConnection._set_watches,
    requests.ADD_WATCH: ProgramConnection._add_watch,
    requests.REMOVE_WATCHES: ProgramConnection._remove_watches,
    requests.CHECK_WATCHES: ProgramConnection._check_watches,
    requests.COUNT_ALL_CHILDREN: ProgramConnection._count_all,
    requests.MULTI_READ: ProgramConnection._multi_read,
}
