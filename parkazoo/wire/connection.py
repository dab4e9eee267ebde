"""How a member connects, and connects again: steps of the loop. Then a :class:`Link` carries its requests."""

from __future__ import annotations

import math
import os
import random
import time
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from kazoo.exceptions import AuthFailedError, ConnectionDropped, SessionExpiredError
from kazoo.protocol.states import KeeperState

from parkazoo.engine.ports import OtherSession, Reply, note_kept
from parkazoo.kazoo_private import RWServerAvailable, Watch
from parkazoo.protocol.steps import WireRequest
from parkazoo.types.handlers import Log
from parkazoo.wire.attempt import ConnectAttempt
from parkazoo.wire.bodies import serialize
from parkazoo.wire.handshake import Address, Established, ask_writer
from parkazoo.wire.link import EndedByServer, Link
from parkazoo.wire.move import Move, SessionMoved
from parkazoo.wire.names import LookUp
from parkazoo.wire.own_read import OWN_PATHS
from parkazoo.wire.race import NotWanted, Outcome, Race
from parkazoo.wire.report import ConnectionReport, words_of
from parkazoo.wire.rounds import Rounds
from parkazoo.wire.running import RunningLoop

if TYPE_CHECKING:
    from parkazoo.wire.member import Member

WRITER_LIMIT_S = 2.0


class LeftByClient(ConnectionDropped):
    """The client stops, and its session lives on."""


class MemberConnection:
    """The connection of a :class:`~parkazoo.wire.member.Member`, which is its ``client``, from start to end.

    It tries servers, as :class:`Rounds` and :class:`Race` say, and carries requests over the first that
    accepts. When that connection breaks it goes on with the next server at once.

    :ivar is_running: it has begun, and has not ended.
    """

    is_running = False
    _socket: Any = None
    _loop: RunningLoop | None = None
    _link: Link | None = None
    address: Address | None = None  # of the server of the last link
    _search: ConnectAttempt | None = None  # for a server that can write, while this one cannot
    _first: Address | None = None  # is tried before any other
    _away_since_s = math.inf
    _is_held = False  # another function makes a connection
    _is_moving = False  # the link ends because another has been made
    _ro_mode = False

    def __init__(self, client: Member, logger: Log) -> None:
        self.client = client
        self.logger = logger

    # ---- any thread ------------------------------------------------------------------------------

    def start(self) -> None:
        client = self.client
        self.is_running = True
        self._away_since_s = time.monotonic()
        self.report = ConnectionReport(client)
        loop = client.runtime.loop
        self._race = Race(client, loop, client.authenticate, self._try_next)
        self._rounds = Rounds(client, loop, client.retry_policy, self._try_next)
        self._move = Move(client, loop, client.authenticate, self._have_moved)
        self._loop = loop
        loop.call(self._rounds.begin)

    def abandon(self) -> None:
        """In a child process: close the parent's sockets here, without sending anything to the server."""
        socks = [] if self._loop is None else [*self._race.sockets(), *self._move.sockets()]
        if self._link is not None:
            socks.append(self._link._sock)
        if self._search is not None:
            socks.append(self._search.sock)
        for sock in (self._socket, *socks):
            if sock is not None:
                with suppress(OSError, ValueError):  # it had been closed; the latter is gevent's
                    os.close(sock.detach())
        self._link = self._loop = self._search = None
        self.is_running = False

    def submit(self, request: WireRequest, reply: Reply | None) -> bool:
        """Send a request, or queue it until that is possible; False if the connection has stopped.

        An exception of a signal handler leaves it torn: see :meth:`distrust`.
        """
        link = self._link
        if link is not None and hasattr(request, "serialize"):  # kazoo's test hooks have none
            try:
                body = serialize(request)
            except Exception as error:  # a value that kazoo's types let through, such as a version of 2**40
                if reply is not None:
                    reply.set_exception(error)
                return True
            if link.send(request, reply, body):
                return True
        note_kept(reply)
        self.client.backlog.put(request, reply)
        return self.wake()

    def wake(self) -> bool:
        """Have the queue, a close included, looked at; False if the connection has stopped."""
        link, loop = self._link, self._loop
        if link is not None:
            link.wake()
        elif self.client.is_stopping and loop is not None:
            loop.call(self._give_up)
        return self.is_running

    def exclusive(self) -> AbstractContextManager[object]:
        """While it is entered no thread sends."""
        link = self._link
        return nullcontext() if link is None else link.lock

    def resume(self) -> None:
        """The gate is open again: take the answers that have come meanwhile."""
        loop, link = self._loop, self._link
        if loop is not None and link is not None:
            loop.call(link.resume)

    def distrust(self, thread: int) -> None:
        """A thread was interrupted at an unknown point of a send: nothing more is sent on that link."""
        link = self._link
        if link is not None:
            link.distrust(thread)

    # ---- the loop: connecting --------------------------------------------------------------------

    def _try_next(self) -> None:
        """Try the next server, unless it is too early. After the last of them, a pause."""
        client, race, rounds = self.client, self._race, self._rounds
        if self._loop is None or self._link is not None:
            return
        if client.is_stopping:
            self._finish()
        elif self._is_held or rounds.is_waiting or race.is_promising():
            return
        elif (address := self._first or rounds.next_server(race)) is not None:
            self._first = None
            self._try(address)
        elif rounds.is_over(race) and not rounds.begin_later() and race.is_idle():
            self.report.gave_up()
            self._finish()

    def may_session_live(self) -> bool:
        """Whether the server may still have the session: it was heard of not longer ago than its time-out."""
        return time.monotonic() < self._away_since_s + self.client._session_timeout / 1000

    def is_session_over(self) -> bool:
        """Whether there is no connection, and has been none for as long as the session lives without one."""
        return self._link is None and not self.may_session_live()

    def leave(self) -> None:
        """On the loop, when the client stops: without a word to the server."""
        if self._link is not None:
            self._link.end(LeftByClient("the client leaves its session"))
        else:
            self._give_up()

    def take_hosts(self, before: list[tuple[str, int]]) -> None:
        """On the loop: the member has other servers. A connection goes on, and may move later.

        :param before: its servers so far; empty if they were not known to be this ensemble's.
        """
        if self._loop is not None:
            self._rounds.take_hosts()
            self._move.take_hosts(before)

    def _try(self, address: Address) -> None:
        is_alone = self.client.socket_maker() is not None
        self._race.begin(address, partial(self._have_tried, address), is_alone=is_alone)

    def _have_tried(self, address: Address, outcome: Outcome) -> None:
        client = self.client
        if self._loop is None:  # it has stopped meanwhile
            if isinstance(outcome, Established):
                outcome.sock.close()
            return
        if isinstance(outcome, NotWanted):
            return
        client.note_attempt(lives=isinstance(outcome, Established) and address == self.address)
        if isinstance(outcome, Established):
            client.troubles.clear()
            self._rounds.succeeded(address)
            self._begin_link(outcome)
            return
        if isinstance(outcome, AuthFailedError):
            self.report.refused(address)
            client.troubles[address.host, address.port] = "it refuses the credentials"
            self._tell(KeeperState.AUTH_FAILED)
            self._finish()
            return
        if isinstance(outcome, OtherSession):
            self._race.cancel()  # other servers may be another ensemble's
        elif isinstance(outcome, SessionExpiredError):
            self._expired()
        elif not client.is_stopping:
            self._rounds.failed(address)
            client.troubles[address.host, address.port] = words = words_of(outcome)
            self.report.failed(f"{address}: {words}")
        self._loop.call(self._try_next)  # not from here: there may be hundreds of servers

    def _begin_link(self, established: Established) -> None:
        assert self._loop is not None
        client = self.client
        exchange = established.exchange
        self.address, self._socket, self._xid = established.address, established.sock, 0
        client._session_passwd = exchange.accepted.passwd  # before the id: other threads look at that first
        client._session_id = exchange.accepted.session_id
        client._protocol_version = exchange.accepted.protocol_version
        client.granted_ms = exchange.accepted.time_out
        before, client.last_zxid = client.last_zxid, max(client.last_zxid, exchange.zxid)
        client.memory.connected(time.monotonic(), before, client.last_zxid)
        self._ro_mode = bool(exchange.accepted.read_only)
        self.report.connected(established.address, client._session_id)
        make_link = client.runtime.link_type
        link = make_link(client, established, self._loop, self.logger, self._pinged, self._link_ended)
        if not self._ro_mode:
            link.send_first(client.kept_watches())  # before another thread sends
        self._link = link
        try:
            self._tell(KeeperState.CONNECTED_RO if self._ro_mode else KeeperState.CONNECTED)
        finally:  # what that raises is no reason to leave a link that nobody reads
            if self._link is not None:
                self._move.connected(self._link, self.address)
                self._link.begin()

    # ---- the loop: the end of a connection -------------------------------------------------------

    def _link_ended(self, error: Exception | None) -> None:
        self._link = None
        is_in_doubt = self.client.note_ending(by_server=isinstance(error, EndedByServer))
        self._away_since_s = time.monotonic()
        if self._search is not None:
            self._search.cancel(NotWanted("not wanted any more"))
            self._search = None
        self._move.lost()
        if self._is_moving:
            return
        if error is None:
            self._finish()
        elif isinstance(error, AuthFailedError):
            self._tell(KeeperState.AUTH_FAILED)
            self._finish()
        elif isinstance(error, SessionExpiredError):
            self._expired()
            self._try_others()
        else:
            self.report.lost(words_of(error), is_wanted=isinstance(error, LeftByClient))
            if self.address is not None:
                self._rounds.failed(self.address)
            if is_in_doubt:
                self._first = self.address
            self._tell(KeeperState.CONNECTING)
            self._try_others()

    def _try_others(self) -> None:
        self._try_next()
        if self._loop is not None:
            self._rounds.look_again()

    def _have_moved(self, established: Established) -> None:
        """Another server has the session now. Watches are lost."""
        assert self._link is not None
        self._is_moving = True
        self._link.end(SessionMoved("the session goes on elsewhere"))
        self._is_moving = False
        if self.client.has_left_watches and not self.client.is_stopping:
            self.report.lost("it has left the ensemble")
            self._tell(KeeperState.CONNECTING)
        self._have_tried(established.address, established)

    def _expired(self) -> None:
        if self.client._session_id:  # else a server refuses a new session, again and again perhaps
            self._rounds.reset()
        if not self.client.is_renewing:
            self.report.expired()
        self._tell(KeeperState.EXPIRED_SESSION)
        self._tell(KeeperState.CONNECTING)

    def _tell(self, state: str) -> None:
        self.client._session_callback(state)

    def _give_up(self) -> None:
        """The client stops, and there is no session to close."""
        if self._link is None:
            self._finish()

    def _finish(self) -> None:
        if self._loop is None:
            return
        self._rounds.cancel()
        self._race.cancel()
        self._move.cancel()
        self._loop = None
        self.client.note_attempt(lives=False)
        self._tell(KeeperState.CLOSED)
        self._note_end()
        self.client.owner.member_ended(self.client)  # at last: a thread may wait for all of it

    def _note_end(self) -> None:
        self.is_running = False

    def _read_watch_event(self, buffer: bytes, offset: int) -> None:
        """A client that stops hears of nothing more."""
        if not self.client.owner.is_leaving:
            self.client.owner.member_told(self.client)
            told, _ = Watch.deserialize(buffer, offset)
            self.logger.debug("Received EVENT: %s", told)
            self.client.tell_watches(told.type, told.path)
            if told.path in OWN_PATHS:
                self.client.read_again(told.path)

    # ---- the loop: a server that can write -------------------------------------------------------

    def _pinged(self) -> None:
        """On a read-only connection: time to look for a server that can write."""
        if self._ro_mode and self._search is None and self._loop is not None:
            LookUp(self._loop, self.client.hosts, self._ask_one)

    def _ask_one(self, addresses: list[Address], troubles: dict[tuple[str, int], str]) -> None:
        link = self._link
        if not addresses or not self._ro_mode or link is None or self._loop is None or self._search is not None:
            return
        address = random.choice(addresses)

        def heard(outcome: object) -> None:
            self._search = None
            if outcome is True and self._link is link:
                self._first = address
                self._rounds.reset()
                link.end(RWServerAvailable("found a server that can write"))

        steps, on_mistake = ask_writer(address, WRITER_LIMIT_S), self.client.owner.have_mistaken
        attempt = ConnectAttempt(self._loop, steps, heard, on_mistake)
        if not attempt.has_ended:
            self._search = attempt
