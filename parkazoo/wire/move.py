"""A connection moves to another server of its ensemble, because the servers have changed.

The session moves along, and programs do not notice: the new server is reached; then requests wait until those
that were sent have their answers; the connection is closed, and the new server is asked for the session. Watches
do not move. A connection with a watch of the user stays where it is, unless its server leaves the ensemble: then
it breaks, after its last answer.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

from kazoo.exceptions import ConnectionDropped

from parkazoo.protocol.server_list import Server, spread
from parkazoo.wire.attempt import Attempt
from parkazoo.wire.exchange import Exchange
from parkazoo.wire.handshake import Address, Authenticate, Established, reach, shake_hands
from parkazoo.wire.link import Link
from parkazoo.wire.loop import Loop, Timer
from parkazoo.wire.names import LookUp

MOST_DELAY_S = 10.0  # all clients of an ensemble hear of a change at once
LIMIT_S = 2.0  # for the last answers; and without a connection, then it counts as lost


class Moved(ConnectionDropped):
    """The session goes on elsewhere."""


class Move:
    """All of it is for the loop's own thread.

    :param authenticate: see :func:`shake_hands`.
    :param on_moved: called with the new server and an :class:`Established`, or what :func:`shake_hands` raises.
    :param on_broken: called with a server to go on with, and why the connection has to break.
    """

    def __init__(
        self,
        member: Any,
        loop: Loop,
        authenticate: Authenticate,
        on_moved: Callable[[Address, Any], None],
        on_broken: Callable[[Address, Moved], None],
    ) -> None:
        self._member = member
        self._loop = loop
        self._authenticate = authenticate
        self._on_moved = on_moved
        self._on_broken = on_broken
        self._before: list[Server] = []  # the servers among which the connection chose its own
        self._link: Link | None = None  # that is to move
        self._server: Server = ("", 0)  # its
        self._timer: Timer | None = None
        self._attempt: Attempt | None = None
        self._sock: Any = None  # of the new server, while the link has no end yet
        self._turn = 0
        self._is_planned = False
        self.is_between = False  # there is no connection, and the client counts as connected

    def take_hosts(self, before: Collection[Server]) -> None:
        """The member's hosts were `before`. The connection, or the one that is being made, may have to move."""
        self._before = self._before or _plain(before)
        self._plan()

    def connected(self, link: Link, server: Server) -> None:
        self._link, self._server = link, server
        if server in _plain(self._member.hosts):
            self._before = []
        elif server in self._member.spare_hosts:  # perhaps one that has left, while the others had no quorum
            self._before = [server]
        self._plan()

    def lost(self) -> None:
        """The next connection is to one of the new servers."""
        if not self.is_between:
            self._link, self._before = None, []
            self.cancel()

    def cancel(self) -> None:
        self._turn += 1
        self._is_planned = self.is_between = False
        timer, self._timer = self._timer, None
        attempt, self._attempt = self._attempt, None
        sock, self._sock = self._sock, None
        if timer is not None:
            timer.cancel()
        if attempt is not None:
            attempt.cancel(ConnectionDropped("not wanted any more"))
        if sock is not None:
            sock.close()

    def sockets(self) -> list[Any]:
        return [self._sock, None if self._attempt is None else self._attempt.sock]

    def _plan(self) -> None:
        if self._before and self._link is not None and not self._is_planned:
            self._is_planned = True
            self._later(MOST_DELAY_S * random.random(), self._begin)

    def _later(self, delay_s: float, call: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(delay_s, call)

    # ---- the steps -------------------------------------------------------------------------------

    def _begin(self) -> None:
        self._timer = None
        server = self._choose()
        if server == self._server:
            self._before, self._is_planned = [], False
        else:
            self._turn += 1
            LookUp(self._loop, self._member.handler, [server], partial(self._reach, self._turn))

    def _choose(self) -> Server:
        """The server where the connection should be."""
        servers = _plain(self._member.hosts)
        stays = self._server in servers
        if self._server not in self._before or (stays and self._member.has_left_watches):
            return self._server  # by another name; or a move would cost more than it gains
        if not self._member.randomize_hosts:
            return self._server if stays else servers[0]
        chances = spread(self._server, self._before, servers)
        return random.choices([*chances], [*chances.values()])[0]

    def _reach(self, turn: int, addresses: list[Address], troubles: dict[Server, str]) -> None:
        if turn != self._turn:
            return
        if addresses:
            address = random.choice(addresses)
            self._run(reach(self._member, address), partial(self._have_reached, turn, address))
        else:
            self._try_again()

    def _run(self, steps: Any, on_end: Callable[[Any], None]) -> None:
        attempt = Attempt(self._loop, self._member.handler, steps, on_end)
        if not attempt.has_ended:
            self._attempt = attempt

    def _try_again(self) -> None:
        link = self._link
        self.cancel()
        if link is not None:
            link.go_on()
        self._plan()

    def _have_reached(self, turn: int, address: Address, outcome: Any) -> None:
        self._attempt = None
        if turn != self._turn:
            if not isinstance(outcome, Exception):
                outcome.close()
        elif isinstance(outcome, Exception):
            self._try_again()
        else:
            self._sock = outcome
            self._later(LIMIT_S, self._try_again)
            assert self._link is not None
            if not self._link.drain(partial(self._hand_over, address)):
                self.cancel()  # it is about to end

    def _hand_over(self, address: Address) -> None:
        member, link, sock = self._member, self._link, self._sock
        assert link is not None
        if (address.host, address.port) not in _plain(member.hosts):  # any more
            self._try_again()
            return
        if member.has_left_watches:
            self._on_broken(address, Moved(f"its server {_name(self._server)} has left the ensemble"))
            return
        self._sock = None
        self.is_between = True
        link.end(Moved("the session goes on elsewhere"))
        self._link, self._before = None, []
        turn = self._turn
        self._later(LIMIT_S, self._give_up)
        connection = member._connection
        exchange = Exchange(member, member._pending, connection._read_watch_event, connection.logger)
        steps = shake_hands(member, address, sock, exchange, self._authenticate)
        self._run(steps, partial(self._have_shaken_hands, turn, address))

    def _give_up(self) -> None:
        if self._attempt is not None:
            self._attempt.cancel(ConnectionDropped(f"no answer within {LIMIT_S:.1f} s"))

    def _have_shaken_hands(self, turn: int, address: Address, outcome: Any) -> None:
        self._attempt = None
        if turn == self._turn:
            self.cancel()
            self._on_moved(address, outcome)
        elif isinstance(outcome, Established):
            outcome.sock.close()


def _plain(servers: Collection[Server]) -> list[Server]:
    return [(host.strip(), int(port)) for host, port in servers]


def _name(server: Server) -> str:
    host, port = server
    return f"{host}:{port}"
