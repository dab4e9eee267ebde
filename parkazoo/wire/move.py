"""A connection moves to another server of its ensemble, because the servers have changed.

The session moves along, and programs do not notice: the new server is reached; then requests wait until those
that were sent have their answers, and the new server is asked for the session. Only when it has accepted, the old
connection is closed; otherwise that one goes on. Watches do not move. A connection with a watch of the user stays
where it is, unless its server leaves the ensemble: then its end counts as a lost connection.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, Any

from kazoo.exceptions import ConnectionDropped

from parkazoo.engine.ports import Timer
from parkazoo.protocol.server_list import Server, spread
from parkazoo.wire.attempt import ConnectAttempt, Steps, T
from parkazoo.wire.dialogue import Authenticate
from parkazoo.wire.exchange import Exchange
from parkazoo.wire.handshake import Address, Established, reach, shake_hands
from parkazoo.wire.link import Link
from parkazoo.wire.names import LookUp
from parkazoo.wire.race import Outcome
from parkazoo.wire.report import words_of
from parkazoo.wire.running import RunningLoop

if TYPE_CHECKING:
    from parkazoo.wire.member import Member

MOST_DELAY_S = 10.0  # all clients of an ensemble hear of a change at once
MOST_DOUBLINGS = 5  # of that, one for each attempt that has failed
LIMIT_S = 2.0  # for the last answers and the new server's; and at most a third of the session's time-out


class SessionMoved(ConnectionDropped):
    """The session goes on elsewhere."""


class Move:
    """All of it is for the loop's own thread.

    :param authenticate: see :func:`shake_hands`.
    :param on_moved: called with an :class:`Established`: the server has accepted the session.
    """

    def __init__(
        self,
        member: Member,
        loop: RunningLoop,
        authenticate: Authenticate,
        on_moved: Callable[[Established], None],
    ) -> None:
        self._member = member
        self._loop = loop
        self._authenticate = authenticate
        self._on_moved = on_moved
        self._before: list[Server] = []  # the hosts when the server was chosen, if they have changed since
        self._known: set[Server] = set()  # all that have been hosts, or named by the map alone
        self._link: Link | None = None  # that is to move
        self._server: Server = ("", 0)  # its, by the member's name for it
        self._ip = ""  # its
        self._timer: Timer | None = None
        self._attempt: ConnectAttempt | None = None
        self._sock: Any = None  # of the new server, until it is asked
        self._turn = 0
        self._is_planned = False  # there is a timer, or it has begun
        self._has_begun = False
        self._failures = 0

    def take_hosts(self, before: Collection[Server]) -> None:
        """The member's hosts were `before`. The connection, or the one that is being made, may have to move."""
        self._before = self._before or _plain(before)
        if self._failures and not self._has_begun:
            self.cancel()  # what it waits for is a later attempt at an earlier server
        self._failures = 0
        self._look()

    def connected(self, link: Link, address: Address) -> None:
        self._link, self._server, self._ip = link, (address.host, address.port), address.ip
        self._before = []
        self._look()

    def lost(self) -> None:
        """The next connection is to one of the new servers."""
        self._link, self._before, self._failures = None, [], 0
        self.cancel()

    def cancel(self) -> None:
        self._turn += 1
        self._is_planned = self._has_begun = False
        timer, self._timer = self._timer, None
        attempt, self._attempt = self._attempt, None
        sock, self._sock = self._sock, None
        if timer is not None:
            timer.cancel()
        if attempt is not None:
            attempt.cancel(ConnectionDropped("not wanted any more"))
        if sock is not None:
            sock.close()

    def sockets(self) -> list[socket.socket | None]:
        return [self._sock, None if self._attempt is None else self._attempt.sock]

    def _look(self) -> None:
        """Whether the connection has to move. Its server may have another name, or the client began with one."""
        member, link = self._member, self._link
        self._known.update(_plain(member.servers), self._before)
        if link is not None and self._server not in _plain(member.hosts):
            LookUp(self._loop, member.servers, partial(self._have_looked_up, link))
        self._plan()

    def _have_looked_up(self, link: Link, addresses: list[Address], troubles: dict[Server, str]) -> None:
        if self._link is link and self._server not in _plain(self._member.hosts):
            self._is_one_of(addresses)
            self._plan()

    def _is_one_of(self, addresses: list[Address]) -> bool:
        """Whether the connection is to one of these. Then that is its server's name."""
        same = next((each for each in addresses if (each.ip, each.port) == (self._ip, self._server[1])), None)
        if same is not None:
            self._server = same.host, same.port
            self._member._connection.address = same
        return same is not None

    def _must_leave(self) -> bool:
        """Its server may have left the ensemble: perhaps no other had a quorum just then."""
        return self._server in self._known and self._server not in _plain(self._member.hosts)

    def _plan(self) -> None:
        is_due = self._link is not None and (self._before or self._must_leave())
        if is_due and not self._is_planned:
            self._is_planned = True
            most_s = MOST_DELAY_S * 2 ** min(self._failures, MOST_DOUBLINGS)
            self._later(most_s * random.random(), self._begin)

    def _later(self, delay_s: float, call: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(delay_s, call)

    # ---- the steps -------------------------------------------------------------------------------

    def _begin(self) -> None:
        self._timer = None
        self._has_begun = True
        server = self._choose()
        if server == self._server:
            self._stay()
        else:
            self._turn += 1
            LookUp(self._loop, [server], partial(self._reach, self._turn))

    def _choose(self) -> Server:
        """The server where the connection should be."""
        servers = _plain(self._member.hosts)
        stays = not self._must_leave()
        if self._member.is_stopping or self._member.is_connected_otherwise():
            return self._server
        if stays and (self._server not in self._before or self._member.has_left_watches):
            return self._server  # a move would cost more than it gains
        if not self._member.randomize_hosts:
            return self._server if stays else servers[self._failures % len(servers)]
        chances = spread(self._server, self._before or [self._server], servers)
        return random.choices([*chances], [*chances.values()])[0]

    def _stay(self) -> None:
        link, self._before = self._link, []
        self.cancel()
        if link is not None:
            link.go_on()

    def _reach(self, turn: int, addresses: list[Address], troubles: dict[Server, str]) -> None:
        if turn != self._turn:
            return
        if self._is_one_of(addresses):
            self._stay()
        elif addresses:
            address = random.choice(addresses)
            self._run(reach(self._member, address), partial(self._have_reached, turn, address))
        else:
            self._fail(*troubles.values())

    def _run(self, steps: Callable[[ConnectAttempt], Steps[T]], on_end: Callable[[T | Exception], None]) -> None:
        member = self._member
        attempt = ConnectAttempt(self._loop, steps, on_end, member.owner.have_mistaken)
        if not attempt.has_ended:
            self._attempt = attempt

    def _fail(self, *why: str) -> None:
        """The connection goes on, and another attempt comes later."""
        member, link = self._member, self._link
        self.cancel()
        self._failures += 1
        server, reason = _name(self._server), ", ".join(why)
        member.logger.info(
            "ensemble %s: stays on %s for now: %s",
            member.name,
            server,
            reason,
            extra={"ensemble": member.name, "server": server, "reason": reason},
        )
        if link is not None:
            link.go_on()
        self._plan()

    def _have_reached(self, turn: int, address: Address, outcome: socket.socket | Exception) -> None:
        self._attempt = None
        if turn != self._turn:
            if not isinstance(outcome, Exception):
                outcome.close()
        elif isinstance(outcome, Exception):
            self._fail(f"{address}: {words_of(outcome)}")
        else:
            self._sock = outcome
            limit_s = min(LIMIT_S, self._member._session_timeout / 1000 / 3)
            self._later(limit_s, partial(self._fail, f"{address}: no answer within {limit_s:.1f} s"))
            assert self._link is not None
            if not self._link.drain(partial(self._ask, address)):
                self.cancel()  # it is about to end

    def _ask(self, address: Address) -> None:
        """The last answer has come: ask the new server for the session."""
        member, sock = self._member, self._sock
        servers = _plain(member.hosts)
        if member.is_stopping or (member.has_left_watches and not self._must_leave()):
            self._stay()
        elif (address.host, address.port) not in servers:  # any more
            self._fail(f"{address} has left the ensemble")
        else:
            self._sock = None
            connection = member._connection
            exchange = Exchange(member, member._pending, connection._read_watch_event, connection.logger)
            steps = shake_hands(member, address, sock, exchange, self._authenticate)
            self._run(steps, partial(self._have_asked, self._turn, address))

    def _have_asked(self, turn: int, address: Address, outcome: Outcome) -> None:
        self._attempt = None
        if turn != self._turn:
            if isinstance(outcome, Established):
                outcome.sock.close()
        elif isinstance(outcome, Established) and outcome.exchange.accepted.read_only:
            outcome.sock.close()
            self._fail(f"{address}: it cannot write")
        elif isinstance(outcome, Established):
            self.cancel()
            self._on_moved(outcome)
        else:  # if the session has ended, its own server says so
            self._fail(f"{address}: {words_of(outcome)}")


def _plain(servers: Collection[Server]) -> list[Server]:
    return [(host.strip(), int(port)) for host, port in servers]


def _name(server: Server) -> str:
    host, port = server
    return f"{host}:{port}"
