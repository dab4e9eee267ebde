"""The gateway: a listener, the connections and sessions of programs, and the time that passes for them."""

from __future__ import annotations

import asyncio
import hmac
import logging
import resource
import ssl
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from parkazoo.gateway.listen_sockets import bind
from parkazoo.gateway.listen_tls import MOST_HANDSHAKES, TlsListener
from parkazoo.gateway.placed_requests import PathTable
from parkazoo.gateway.program_connection import ProgramConnection
from parkazoo.gateway.program_requests import RefusedError
from parkazoo.gateway.program_session import ProgramSession
from parkazoo.gateway.session_table import SessionTable, TableError, TableRow
from parkazoo.gateway.status_words import GatewayStatus
from parkazoo.kazoo_private import collect_hosts, normpath
from parkazoo.types.handlers import Log

log = logging.getLogger(__name__)

LEAST_MS, MOST_MS = 1_000, 3_600_000  # of a session's time-out; servers have limits of their own
TICK_S = 0.25
STOP_S = 10.0  # for servers to close sessions
BACKLOG = 512
THROTTLED = -127  # ZooKeeper's error
MOST_CONNECTIONS = 1000
FILES_OF_A_SESSION = 8  # its program's, one for each ensemble, and attempts
WARN_EVERY_S = 30.0


class GatewayOptions(NamedTuple):
    """How the clients of programs are made.

    :param hosts: servers of any ensembles, perhaps with a chroot.
    :param auth: identities of the gateway itself, and so of every program.
    :param tls: TLS options to servers, as kazoo names them. :param has_total_order: for all programs.
    :param most_connections: of programs; so many sessions, too.
    :param client_log: of the clients; None: ``parkazoo``.
    """

    hosts: str
    auth: tuple[tuple[str, str], ...] = ()
    tls: Mapping[str, Any] = {}
    has_total_order: bool = False
    most_connections: int = MOST_CONNECTIONS
    client_log: Log | None = None


class Gateway:
    """Serves programs from :meth:`start` to :meth:`stop`, on the loop that runs."""

    def __init__(self, options: GatewayOptions, table: SessionTable) -> None:
        self._options = options
        self._table = table
        chroot = collect_hosts(options.hosts)[1]
        self.paths = PathTable(normpath(chroot) if chroot else "")
        self._sessions: dict[int, ProgramSession] = {}
        self._beginning: dict[ProgramSession, int] = {}  # which session it is to go on with; 0: a new one
        self._ending: set[ProgramSession] = set()
        self._connections: set[ProgramConnection] = set()
        self._received = self._sent = self._zxid = 0  # of connections that have ended
        self._listeners: list[asyncio.Server | TlsListener] = []
        self._ticking: asyncio.TimerHandle | None = None
        self._ticked_s = self._warned_s = 0.0
        self.port = 0

    async def start(
        self, host: str, port: int, tls: ssl.SSLContext | None = None, *, is_shared: bool = False
    ) -> None:
        """Listen.

        :param port: 0: any; :attr:`port` says which. It is the same at each address of the host.
        :param tls: how programs connect; None: in plain text. :param is_shared: others listen there, too.
        :raises OSError: it is in use.
        """
        _allow_files(self._options.most_connections * FILES_OF_A_SESSION + MOST_HANDSHAKES)
        loop = asyncio.get_running_loop()
        sockets = bind(host, port, is_shared=is_shared)
        self.port = sockets[0].getsockname()[1]
        for sock in sockets:
            if tls is None:
                self._listeners.append(await loop.create_server(self._connection, sock=sock, backlog=BACKLOG))
            else:
                self._listeners.append(TlsListener(sock, tls, self._connection, BACKLOG))
        self._ticked_s = loop.time()
        self._warned_s = self._ticked_s - WARN_EVERY_S
        self._tick()

    async def stop(self) -> None:
        """End all connections, and leave the sessions to their time-out: a gateway with this table goes on with
        them. Those that are being closed are closed first, if servers answer within ten seconds.
        """
        for listener in self._listeners:
            listener.close()
        if self._ticking is not None:
            self._ticking.cancel()
        sessions = [*self._sessions.values(), *self._beginning]
        for session in sessions:
            session.leave("the gateway stops")
        for connection in list(self._connections):
            connection.close("the gateway stops")
        ending = [asyncio.ensure_future(each.ended()) for each in {*sessions, *self._ending}]
        if ending:
            _, late = await asyncio.wait(ending, timeout=STOP_S)
            for each in late:
                each.cancel()

    def _connection(self) -> ProgramConnection:
        return ProgramConnection(self)

    # ---- connections -------------------------------------------------------------------------------

    def admit(self, connection: ProgramConnection) -> bool:
        """Whether there may be one more."""
        if len(self._connections) >= self._options.most_connections:
            self._warn(f"{connection.address}: refused: there are {len(self._connections)} connections")
            return False
        self._connections.add(connection)
        return True

    def dismiss(self, connection: ProgramConnection) -> None:
        """It has ended."""
        if connection in self._connections:
            self._connections.discard(connection)
            self._received += connection.received
            self._sent += connection.sent

    def _warn(self, why: str, error: Exception | None = None) -> None:
        """:param error: whose traceback is told."""
        now_s = asyncio.get_running_loop().time()
        if now_s >= self._warned_s + WARN_EVERY_S:
            self._warned_s = now_s
            log.warning("%s", why, exc_info=error)

    # ---- sessions ----------------------------------------------------------------------------------

    def session_for(self, number: int, password: bytes, timeout_ms: int) -> ProgramSession | None:
        """The session that a program wants.

        :param number: its id; 0: a new one.
        :returns: None if there is none of that id and password, here or in the table.
        :raises RefusedError: there are too many.
        """
        if not number:
            return self._begin(min(max(timeout_ms, LEAST_MS), MOST_MS))
        session = self._sessions.get(number)
        if session is None:
            session = next((each for each, wanted in self._beginning.items() if wanted == number), None)
        if session is None:
            try:
                row = self._table.find(number)
            except TableError as error:
                log.error("%s", error)
                raise RefusedError(THROTTLED) from None
            if row is None or not hmac.compare_digest(row.password, password):
                return None
            return self._begin(row.timeout_ms, row)
        return session if hmac.compare_digest(session.password, password) else None

    def _begin(self, timeout_ms: int, row: TableRow | None = None) -> ProgramSession:
        if len(self._sessions) + len(self._beginning) >= self._options.most_connections:
            self._warn(f"a program is refused: there are {self._options.most_connections} sessions")
            raise RefusedError(THROTTLED)
        session = ProgramSession(self._options, self._table, timeout_ms, row, self._have_begun, self._have_ended)
        self._beginning[session] = 0 if row is None else row.number
        return session

    def _have_begun(self, session: ProgramSession) -> None:
        self._beginning.pop(session, None)
        self._sessions[session.number] = session

    def _have_ended(self, session: ProgramSession) -> None:
        self._beginning.pop(session, None)
        if self._sessions.get(session.number) is session:
            del self._sessions[session.number]
        self._zxid = max(self._zxid, session.zxid)
        self._ending.add(session)
        asyncio.get_running_loop().call_soon(self._wait_for, session)

    def _wait_for(self, session: ProgramSession) -> None:
        ended = asyncio.ensure_future(session.ended())
        ended.add_done_callback(lambda _: self._ending.discard(session))

    def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        self._ticking = loop.call_later(TICK_S, self._tick)
        try:
            self._look(loop.time())
        except Exception as error:  # of one session perhaps: the others are looked at again
            self._warn("a look at the sessions has failed", error)

    def _look(self, now_s: float) -> None:
        """Expire the sessions of silent programs, and forget the sessions with which nobody has gone on."""
        asleep_s = max(0.0, now_s - self._ticked_s - 2 * TICK_S)
        self._ticked_s = now_s
        for session in list(self._sessions.values()):
            session.heard_s += asleep_s  # what programs have said meanwhile has not been read yet
            if session.silence_s(now_s) > 0:
                session.expire()
        for session in [*self._sessions.values(), *self._beginning]:
            session.look()
        with suppress(TableError):  # the next line that it cannot write is logged
            self._table.sweep(now_s)

    # ---- for operators -----------------------------------------------------------------------------

    @property
    def status(self) -> GatewayStatus:
        programs = [each.status for each in self._connections]
        return GatewayStatus(
            programs,
            len(self._sessions),
            max((each.zxid for each in self._sessions.values()), default=self._zxid),
            self._received + sum(each.received for each in programs),
            self._sent + sum(each.sent for each in programs),
            self.port,
        )


def _allow_files(count: int) -> None:
    """As many open files as the system lets this process have, if it needs them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count if hard == resource.RLIM_INFINITY else min(count, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
