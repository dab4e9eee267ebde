"""Attempts that overlap: a server that is silent holds up the others for a moment.

Sockets connect beside each other, TLS included. But one server at a time is asked for the session: two that are
asked take it from each other, and a new session would begin twice. A silent server's connection is closed before
the next server is asked, and not before the next one can be asked.
"""

from __future__ import annotations

import math
import socket
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from kazoo.exceptions import ConnectionDropped

from parkazoo.engine.ports import Timer
from parkazoo.wire.attempt import ConnectAttempt, Steps, T
from parkazoo.wire.branches import STAGGER_S
from parkazoo.wire.dialogue import Authenticate
from parkazoo.wire.exchange import CONNECTING, Exchange
from parkazoo.wire.handshake import Address, Established, reach, shake_hands
from parkazoo.wire.running import RunningLoop

if TYPE_CHECKING:
    from parkazoo.wire.member import Member

PATIENCE_S = 0.5  # a server that does not answer to Connect within this: the next one is tried
PATIENCE_GROWTH = 4  # with each server that was too slow: they may all be busy


Outcome = Established | Exception


class NotWanted(ConnectionDropped):
    """The attempt was cancelled: another has succeeded, or the client stops."""


class Candidate:
    """A server that is being reached, then waits for its turn, then is asked for the session."""

    def __init__(self, address: Address, is_alone: bool, on_end: Callable[[Outcome], None]) -> None:
        self.address = address
        self.is_alone = is_alone
        self.on_end = on_end
        self.attempt: ConnectAttempt | None = None  # while it is being reached or asked
        self.sock: Any = None  # once it is reached
        self.exchange: Exchange | None = None  # once it is asked
        self.patient_until_s = 0.0

    def has_answered(self) -> bool:
        return self.exchange is not None and self.exchange.state != CONNECTING


class Race:
    """The attempts of a member that are under way. All of it is for the loop's own thread.

    :param authenticate: see :func:`shake_hands`.
    :param on_slow: called when it is time for another attempt beside these.
    """

    def __init__(
        self, member: Member, loop: RunningLoop, authenticate: Authenticate, on_slow: Callable[[], None]
    ) -> None:
        self._member = member
        self._loop = loop
        self._authenticate = authenticate
        self._on_slow = on_slow
        self._all: list[Candidate] = []
        self._reached: deque[Candidate] = deque()  # they wait for their turn
        self._asked: Candidate | None = None  # whose turn it is
        self._patience_s = PATIENCE_S
        self._timer: Timer | None = None

    def begin(self, address: Address, on_end: Callable[[Outcome], None], *, is_alone: bool = False) -> None:
        """Try a server.

        :param on_end: called once, perhaps at once, with an :class:`Established`, or with what :func:`reach` and
            :func:`shake_hands` raise, or with :class:`NotWanted`.
        :param is_alone: no other attempt begins while this one is under way.
        """
        self._member._connection.report.trying(address)
        candidate = Candidate(address, is_alone, on_end)
        self._all.append(candidate)
        self._set_timer(STAGGER_S)
        self._run(candidate, reach(self._member, address), self._have_reached)

    def cancel(self) -> None:
        """Close the sockets of all; each ends with :class:`NotWanted`."""
        self._reached.clear()
        for candidate in list(self._all):
            self._drop(candidate, NotWanted("not wanted any more"))

    def sockets(self) -> list[socket.socket]:
        socks = [[each.sock] if each.attempt is None else each.attempt.sockets() for each in self._all]
        return [sock for sock in chain.from_iterable(socks) if sock is not None]

    def is_idle(self) -> bool:
        return not self._all

    def __contains__(self, address: object) -> bool:
        return any(each.address == address for each in self._all)

    def is_promising(self) -> bool:
        """Whether it is too early to try another server."""
        return time.monotonic() < self._promising_until_s()

    def _promising_until_s(self) -> float:
        asked = self._asked
        if any(each.is_alone for each in self._all):
            return math.inf
        if asked is None:
            return math.inf if self._reached else -math.inf
        return math.inf if asked.has_answered() else asked.patient_until_s

    # ---- one server ---------------------------------------------------------------------------------

    def _run(
        self,
        candidate: Candidate,
        steps: Callable[[ConnectAttempt], Steps[T]],
        on_end: Callable[[Candidate, T | Exception], None],
    ) -> None:
        member = self._member
        attempt = ConnectAttempt(self._loop, steps, partial(on_end, candidate), member.owner.have_mistaken)
        if not attempt.has_ended:
            candidate.attempt = attempt

    def _have_reached(self, candidate: Candidate, outcome: socket.socket | Exception) -> None:
        candidate.attempt = None
        if isinstance(outcome, Exception):
            self._end(candidate, outcome)
        else:
            candidate.sock = outcome
            self._reached.append(candidate)
            self._ask_next()

    def _ask_next(self) -> None:
        """Ask the server that waits, unless another is being asked and may still answer."""
        if self._reached and self._asked is not None and not self.is_promising():
            self._give_up(self._asked)
        if self._reached and self._asked is None:
            self._ask(self._reached.popleft())

    def _give_up(self, asked: Candidate) -> None:
        if asked.attempt is not None:
            asked.attempt.look()
        if self._asked is asked and not asked.has_answered():
            silent_s = self._patience_s
            self._patience_s = min(silent_s * PATIENCE_GROWTH, self._member._session_timeout / 1000)
            self._drop(asked, ConnectionDropped(f"no answer to Connect within {silent_s:.1f} s"))

    def _ask(self, candidate: Candidate) -> None:
        member, connection = self._member, self._member._connection
        self._asked = candidate
        candidate.exchange = Exchange(member, member._pending, connection._read_watch_event, connection.logger)
        candidate.patient_until_s = time.monotonic() + self._patience_s
        self._set_timer(self._patience_s)
        steps = shake_hands(member, candidate.address, candidate.sock, candidate.exchange, self._authenticate)
        self._run(candidate, steps, self._end)

    def _drop(self, candidate: Candidate, error: ConnectionDropped) -> None:
        if candidate.attempt is not None:
            candidate.attempt.cancel(error)
        else:
            candidate.sock.close()
            self._end(candidate, error)

    def _end(self, candidate: Candidate, outcome: Outcome) -> None:
        self._all.remove(candidate)
        if self._asked is candidate:
            self._asked = None
        if isinstance(outcome, Established):
            self.cancel()
            self._patience_s = PATIENCE_S
        if self._reached:
            self._loop.call(self._ask_next)  # not from here: one after the other may fail at once
        if not self._all:
            self._set_timer(None)
        candidate.on_end(outcome)

    # ---- when to try another server --------------------------------------------------------------

    def _set_timer(self, delay_s: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if delay_s is None else self._loop.call_later(delay_s, self._look_again)

    def _look_again(self) -> None:
        self._timer = None
        self._ask_next()
        if not self.is_promising():
            self._on_slow()
