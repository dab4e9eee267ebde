"""A program's session: a client, a row in the table, and the watches. It outlasts the program's connections."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from kazoo.exceptions import KazooException
from kazoo.protocol.states import EventType, KeeperState, WatchedEvent

from parkazoo.gateway.answer_row import AnswerPlace
from parkazoo.gateway.program_replies import EVENT_CODES
from parkazoo.gateway.session_table import SessionTable, TableError, TableRow
from parkazoo.gateway.upstream import UpstreamClient
from parkazoo.gateway.watch_table import ProgramWatch, WatchTable
from parkazoo.protocol.client_id import SESSION_PASSWORD_BYTES
from parkazoo.protocol.states import CONNECTED_STATES
from parkazoo.types import AddWatchMode

if TYPE_CHECKING:
    from parkazoo.gateway.gateway import GatewayOptions

log = logging.getLogger(__name__)

START_S = 30.0  # then the program's connection ends, and the program asks again


class Program(Protocol):
    """The connection of a program, as its session sees it."""

    @property
    def has_gone(self) -> bool:
        """Whether the program has closed it, even if that has not been read yet."""

    def has_said_more(self) -> bool:
        """Whether it has said anything since this was asked last, while it is not read."""

    def welcome(self) -> None:
        """The session is open."""

    def refuse_session(self) -> None:
        """There is no such session any more. End the connection."""

    def tell(self, kind: str, path: str, behind: AnswerPlace | None = None) -> None:
        """Tell of an event."""

    def close(self, why: str) -> None:
        """End it."""


class ProgramSession:
    """Begins when a program connects without a session, or with one that is only in the table.

    :param row: of the session to go on with.
    :param on_end: called once, when it is over here. The row is kept if the session is not over elsewhere.
    :ivar number: its id; 0: it has not begun. :ivar program: its connection; None: the program is away.
    :ivar heard_s: when the program was last heard of.
    """

    def __init__(
        self,
        options: GatewayOptions,
        table: SessionTable,
        timeout_ms: int,
        row: TableRow | None,
        on_begin: Callable[[ProgramSession], None],
        on_end: Callable[[ProgramSession], None],
    ) -> None:
        self.number = 0
        self.password = secrets.token_bytes(SESSION_PASSWORD_BYTES) if row is None else row.password
        self.timeout_ms = self._asked_ms = timeout_ms
        self.program: Program | None = None
        clock = asyncio.get_running_loop().time
        self.heard_s = clock()
        self.is_open = self.has_ended = False
        self.lasting: dict[tuple[str, AddWatchMode], LastingProgramWatch] = {}
        self._row = row
        self._written = 0  # its number, once its row was written here
        self._lacks_row = False  # it could not be written
        self._table = table
        self._on_begin = on_begin
        self._on_end = on_end
        self._zxid = 0
        self._losses: RepeatedLosses | None = None  # since this gateway has ended the program's connection
        self.client = UpstreamClient(
            options.hosts,
            timeout_ms / 1000,
            auth_data=options.auth,
            consistency="total" if options.has_total_order else "ensemble",
            client_id=None if row is None else row.client_id,
            logger=options.client_log,
            **options.tls,
        )
        self.client.on_change = self._changed
        self.watches = WatchTable(self._fired, clock, self.client.holds)
        self._tasks = {asyncio.ensure_future(self._start())}

    async def _start(self) -> None:
        if self.has_ended:  # before it began
            return
        try:
            await self.client.start(START_S)
        except (KazooException, TimeoutError, RuntimeError) as error:
            if not self.has_ended:
                log.warning("no session: %s", error)
                self._give_up("no session upstream")
            return
        client_id = self.client.client_id
        if self.has_ended:
            return
        if client_id is None:
            self._give_up("lost in the moment in which it began")
            return
        if self._row is not None and client_id[0] != self._row.number:
            self._expire("it could not be resumed")
            return
        self.number = client_id[0]
        granted_s = self.client.granted_timeout_s
        assert granted_s is not None
        self.timeout_ms = int(granted_s * 1000)
        self.watches.unread_s = 2 * granted_s  # to read it, and then to connect again
        self.is_open = True
        self._on_begin(self)
        if self.program is not None:
            self.program.welcome()

    @property
    def zxid(self) -> int:
        """The highest that an ensemble has answered; it never falls."""
        self._zxid = max(self._zxid, self.client.zxid)
        return self._zxid

    # ---- the program's connection ----------------------------------------------------------------

    def attach(self, program: Program) -> None:
        """The program connects, or connects again."""
        self.watches.connect()
        for watch in self.lasting.values():
            watch.behind = None  # that answer never comes
        self._losses = None
        before, self.program = self.program, program
        if before is not None:
            before.close("the program has another connection")
        self.heard_s = asyncio.get_running_loop().time()
        if self.is_open:
            program.welcome()

    def detach(self, program: Program) -> None:
        """A connection has ended."""
        if self.program is program:
            self.program = None
            self.heard_s = asyncio.get_running_loop().time()
            if not self.number and self._row is None and not self.has_ended:
                self._give_up("the program went before it began")  # so it has no password to come back with

    def look(self) -> None:
        """Hear of a program that is not read, because it does not take its answers for example.

        End the connection of one that has gone: it is not read before the session is open.
        Write a row that could not be written.
        """
        if self._lacks_row:
            self._write_row()
        if self.program is not None and self.program.has_said_more():
            self.heard_s = asyncio.get_running_loop().time()
        if self.program is not None and not self.is_open and self.program.has_gone:
            self.program.close("the program has gone")

    def close_program(self, why: str) -> None:
        """The program is to connect again: then it sets its watches again."""
        program, self.program = self.program, None
        if program is not None:
            self._losses = RepeatedLosses(self.client.connections)
            program.close(why)

    # ---- the client ------------------------------------------------------------------------------

    def _changed(self, state: str) -> None:
        """An ensemble has changed. Nothing has been done yet in a session that has just begun there."""
        if self.has_ended:
            return
        if state in CONNECTED_STATES or state == KeeperState.CONNECTING:
            if self.number and not self._has_program and self._is_taken():
                self.leave("the program is away, and another gateway may have it")
            elif state in CONNECTED_STATES:
                self._write_row()
                self.is_open = self.number != 0 and not self.has_ended
                if self.is_open and self.program is not None:
                    self.program.welcome()
            elif self.is_open:  # if only requests without an answer are lost, it is connected again at once
                asyncio.get_running_loop().call_soon(self._suspend)
        elif state == KeeperState.EXPIRED_SESSION and self.number:
            self._expire("a server says that it has expired")
        elif self.number:
            self._expire(f"the client is {state}")

    def _suspend(self) -> None:
        if self.is_open and not self.client.connected:
            self.is_open = False
            self.close_program("the client is suspended")

    def _is_taken(self) -> bool:
        """Whether the program may be with another gateway by now, which has taken a session of this client's.

        Servers end a connection whose session goes on with another. Two gateways would take it from each other
        without end. So one without the program does not try again. If it has ended the program's connection
        itself, it tries once.
        """
        if self._losses is None:
            return not self.client.has_all
        return self._losses.look(self.client.connections)

    @property
    def _has_program(self) -> bool:
        return self.program is not None and not self.program.has_gone

    def _write_row(self) -> None:
        """Write it, unless another gateway has: that has the session now, or it has joined an ensemble since this
        one has read the row. The program's next connection begins with the row as it is then.
        """
        client_id = self.client.client_id
        if client_id is None or (self._row is not None and client_id[0] != self._row.number):
            return
        number, sessions = client_id
        timeout_ms = max(self._asked_ms, int((self.client.granted_timeout_s or 0) * 1000))
        before = None if self._written else self._row
        try:
            row = TableRow(number, self.password, timeout_ms, sessions)
            if not self._written and before is None:
                self._table.put(row)
            elif not self._table.replace(row, before):
                self.leave("another gateway has written its row")
                return
        except TableError as error:
            if not self._lacks_row:
                log.error("%s: a restart of the gateway expires session 0x%x", error, number)
            self._lacks_row = True
        else:
            self._written, self._lacks_row = number, False

    # ---- its end ---------------------------------------------------------------------------------

    def silence_s(self, now_s: float) -> float:
        """How long nothing was heard of the program, beyond its time-out; 0 or less: it is alive."""
        return now_s - self.heard_s - self.timeout_ms / 1000

    def expire(self) -> None:
        """The program was silent for its time-out."""
        if self.client.has_all:
            self._expire("the program was silent")
        else:
            self.leave("the program was silent, and an ensemble is away")

    async def close(self) -> None:
        """The program closes it: its ephemerals go from all ensembles."""
        self._end_row()
        self._forget("closed by the program")
        await asyncio.wait([self._keep(self.client.stop())])

    def leave(self, why: str) -> None:
        """End it here alone: a gateway may go on with it, by its row."""
        if not self.has_ended:
            self._table.leave(self._table_number)
            self._end(why, self.client.leave())

    def _give_up(self, why: str) -> None:
        """It has not begun here. The program asks again, with the session that it has, if it has one."""
        if self._row is None:
            self._end_row()
            self._end(why, self.client.stop())
        else:
            self.leave(why)

    def _expire(self, why: str) -> None:
        self._end_row()
        if self.program is not None:
            self.program.refuse_session()
        self._end(why, self.client.stop())

    @property
    def _table_number(self) -> int:
        """Of its row; 0: it has none."""
        return self._written or (0 if self._row is None else self._row.number)

    def _end_row(self) -> None:
        try:
            self._table.end(self._table_number)
        except TableError as error:
            log.error("%s", error)

    def _end(self, why: str, ending: Any = None) -> None:
        self._forget(why)
        self.close_program(why)
        if ending is not None:
            self._keep(ending)

    def _forget(self, why: str) -> None:
        if not self.has_ended:
            log.info("session 0x%x: %s", self.number & (1 << 64) - 1, why)
            self.has_ended = True
            self.is_open = False
            self._on_end(self)

    def _keep(self, ending: Any) -> asyncio.Future[Any]:
        task = asyncio.ensure_future(ending)
        self._tasks.add(task)
        task.add_done_callback(self._have_done)
        return task

    def _have_done(self, task: asyncio.Future[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("session 0x%x: %s", self.number & (1 << 64) - 1, error)

    async def ended(self) -> None:
        """Wait until nothing of it is under way."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # ---- watches ---------------------------------------------------------------------------------

    def _fired(self, watch: ProgramWatch, event: WatchedEvent) -> None:
        if event.type == EventType.NONE:
            self.watches.lose(watch)
            self._have_lost_watches()
            return
        if event.type not in EVENT_CODES:
            return
        for behind in self.watches.fire(watch, event.type):
            if self.program is None or not self.is_open:
                self.watches.miss(watch, event.type)
            else:
                self.tell(watch, event.type, behind)

    def tell(self, watch: ProgramWatch, kind: str, behind: AnswerPlace | None = None) -> None:
        """Tell the program of an event of a watch. See :meth:`Program.tell`."""
        if self.program is not None:
            self.watches.note_told(watch, kind)
            self.program.tell(kind, watch.path, behind)

    def _have_lost_watches(self) -> None:
        """Of one ensemble perhaps: the program sets them again when it connects again."""
        if self.is_open:
            self.close_program("watches are lost")

    def add_lasting(
        self, path: str, mode: AddWatchMode, behind: AnswerPlace | None = None
    ) -> asyncio.Future[None]:
        """Leave a watch that stays. It is left again by itself when an ensemble is back.

        :param behind: the request by whose answer the program knows of it; None: it knows.
        :returns: done when it is left, whoever has asked first.
        """
        watch = self.lasting.get((path, mode))
        if watch is None:
            watch = self.lasting[path, mode] = LastingProgramWatch(path, mode, self.lasting_fired)
            watch.left = self.client.add_watch_async(path, watch, mode)
            watch.left.add_done_callback(partial(self._have_left, watch))
        if behind is not None:
            watch.behind = behind
        assert watch.left is not None
        return watch.left

    def _have_left(self, watch: LastingProgramWatch, left: asyncio.Future[None]) -> None:
        if left.cancelled() or left.exception() is not None:
            self._end_lasting(watch)

    def _end_lasting(self, watch: LastingProgramWatch) -> None:
        if self.lasting.get((watch.path, watch.mode)) is watch:
            del self.lasting[watch.path, watch.mode]

    def lasting_fired(self, watch: LastingProgramWatch, event: WatchedEvent) -> None:
        """A watch that stays has an event. It may have been removed before its servers had left it."""
        if self.lasting.get((watch.path, watch.mode)) is not watch:
            return
        if event.type == EventType.NONE:
            if event.state in CONNECTED_STATES:  # it is left again
                return
            if event.state != KeeperState.CONNECTING:
                self._end_lasting(watch)
            self._have_lost_watches()
        elif event.type in EVENT_CODES and event.path is not None and self.program is not None and self.is_open:
            self.program.tell(event.type, event.path, watch.behind)


class RepeatedLosses:
    """Whether an ensemble was lost, came back, and was lost again.

    :param connections: of each ensemble, whether it is connected, when this begins.
    """

    def __init__(self, connections: Mapping[str, bool]) -> None:
        self._held = {name for name, is_connected in connections.items() if is_connected}
        self._back: set[str] = set()

    def look(self, connections: Mapping[str, bool]) -> bool:
        """Returns whether one was."""
        connected = {name for name, is_connected in connections.items() if is_connected}
        if self._back - connected:
            return True
        self._back |= connected - self._held
        self._held &= connected
        return False


class LastingProgramWatch:
    """A watch of a program that stays until it is removed; it has each event.

    :ivar left: done when it is left. :ivar behind: its events are told behind the answer to this request.
    """

    def __init__(
        self, path: str, mode: AddWatchMode, on_event: Callable[[LastingProgramWatch, WatchedEvent], None]
    ) -> None:
        self.path = path
        self.mode = mode
        self.left: asyncio.Future[None] | None = None
        self.behind: AnswerPlace | None = None
        self._on_event = on_event

    def __call__(self, event: WatchedEvent) -> None:
        self._on_event(self, event)
