"""A mass reconnect, simulated: an ensemble is away, comes back, and all its sessions are to go on."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import count

from bench.scale.policy import Policy

END_S = 20.0


@dataclass(frozen=True)
class Rates:
    """What an ensemble does in a second. Its servers share that evenly.

    :param resumed: sessions that go on.
    :param opened: new ones, with their registrations.
    :param watches: set again.
    """

    resumed: float
    opened: float
    watches: float


@dataclass(frozen=True)
class Outage:
    """
    :param away_s: from when all connections end until the servers serve.
    :param is_silent: nothing answers meanwhile, as behind a cut cable. Else connections are refused, and the
        sessions' time runs only while the ensemble serves, as ZooKeeper has it after a restart.
    """

    away_s: float
    is_silent: bool = False


@dataclass(frozen=True)
class Comeback:
    """
    :param half_s: from when the servers serve until half of the clients have a session; no more than `all_s`.
    :param all_s: until the last one has, of those that have one at the end.
    :param at_work_s: until the last watch is set again.
    :param expired: sessions, those of the clients that are missing too.
    :param attempts: that reached a server which served.
    :param abandoned: of them, whose answer came too late.
    :param missing: clients without a session at the end, 20 s after the servers serve.
    """

    sessions: int
    half_s: float
    all_s: float
    at_work_s: float
    expired: int
    attempts: int
    abandoned: int
    missing: int


class _Client:
    __slots__ = ("attempt", "expires_s", "has_expired", "rounds", "too_slow", "untried")

    def __init__(self, expires_s: float) -> None:
        self.expires_s = expires_s
        self.has_expired = False
        self.rounds = self.too_slow = 0
        self.attempt = 0  # a number; 0: it has a session, or has not begun
        self.untried: list[int] = []


class _World:
    """Events in the order of their times; times are seconds since the outage began."""

    def __init__(
        self, servers: int, watches: int, rates: Rates, outage: Outage, policy: Policy, chance: random.Random
    ) -> None:
        self._servers = servers
        self._watches_s = watches * servers / rates.watches
        self._resume_s, self._open_s = servers / rates.resumed, servers / rates.opened
        self._outage = outage
        self._policy = policy
        self._chance = chance
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._ticket = count(1)
        self._waiting: list[list[Callable[[], float]]] = [[] for _ in range(servers)]
        self.free_s = [0.0] * servers  # when each has done what it does
        self.now_s = 0.0
        self.back_s: list[float] = []
        self.expired = self.attempts = self.abandoned = 0

    def run(self, sessions: int) -> None:
        outage, policy = self._outage, self._policy
        expires_s = policy.time_out_s + (0.0 if outage.is_silent else outage.away_s)
        clients = [_Client(expires_s) for _ in range(sessions)]
        for client in clients:
            if outage.is_silent:
                self._try(client)
            else:
                self._rest(client)
        while self._events and self._events[0][0] <= outage.away_s + END_S:
            self.now_s, _, event = heapq.heappop(self._events)
            event()
        self.expired += sum(
            bool(each.attempt) and not each.has_expired and each.expires_s < self.now_s for each in clients
        )

    def _at(self, at_s: float, event: Callable[[], None]) -> None:
        heapq.heappush(self._events, (at_s, next(self._ticket), event))

    def _try(self, client: _Client) -> None:
        """The next server, in a random order."""
        if not client.untried:
            client.untried = self._chance.sample(range(self._servers), self._servers)
        server = client.untried.pop()
        client.attempt = next(self._ticket)
        if self.now_s >= self._outage.away_s:
            self.attempts += 1
            self._ask(client, server)
            patience_s = self._policy.patience_s(client.too_slow)
        else:
            patience_s = self._policy.time_out_s / 3
        self._at(self.now_s + patience_s, partial(self._give_up, client, client.attempt))

    def _give_up(self, client: _Client, attempt: int) -> None:
        if client.attempt != attempt:
            return
        client.attempt = next(self._ticket)  # an answer comes too late
        if self.now_s >= self._outage.away_s:
            client.too_slow += 1
        if client.untried:
            self._try(client)
            return
        self._rest(client)

    def _rest(self, client: _Client) -> None:
        """Pause, again and again while all refuse at once."""
        until_s = self.now_s
        while until_s == self.now_s or (until_s < self._outage.away_s and not self._outage.is_silent):
            client.rounds += 1
            until_s += self._policy.pause_s(client.rounds, self._chance)
        self._at(until_s, partial(self._try, client))

    def _ask(self, client: _Client, server: int) -> None:
        """The server does what it is asked also if the client has gone by then."""
        self._add(server, partial(self._serve, client, client.attempt, server))

    def _add(self, server: int, work: Callable[[], float]) -> None:
        """Let a server do something, which returns the seconds that it takes."""
        self._waiting[server].append(work)
        if len(self._waiting[server]) == 1 and self.free_s[server] <= self.now_s:
            self._go_on(server)

    def _go_on(self, server: int) -> None:
        """It does not keep the order in which it is asked: it has many connections, and looks at all."""
        waiting = self._waiting[server]
        if waiting:
            chosen = self._chance.randrange(len(waiting))
            waiting[chosen], waiting[-1] = waiting[-1], waiting[chosen]
            self.free_s[server] = self.now_s + waiting.pop()()
            self._at(self.free_s[server], partial(self._go_on, server))

    def _serve(self, client: _Client, attempt: int, server: int) -> float:
        if client.attempt and not client.has_expired and self.now_s > client.expires_s:
            client.has_expired = True
            self.expired += 1
        took_s = self._open_s if client.has_expired else self._resume_s
        client.expires_s = max(client.expires_s, self.now_s + self._policy.time_out_s)
        self._at(self.now_s + took_s, partial(self._answer, client, attempt, server))
        return took_s

    def _answer(self, client: _Client, attempt: int, server: int) -> None:
        if client.attempt != attempt:
            self.abandoned += 1
            return
        client.attempt = 0
        self.back_s.append(self.now_s)
        if self._watches_s:
            self._add(server, lambda: self._watches_s)


def simulate(
    sessions: int, servers: int, watches: int, rates: Rates, outage: Outage, policy: Policy, seed: int
) -> Comeback:
    """
    :param sessions: of the whole ensemble.
    :param watches: that each client sets again.
    """
    world = _World(servers, watches, rates, outage, policy, random.Random(seed))
    world.run(sessions)
    back = sorted(at_s - outage.away_s for at_s in world.back_s)
    return Comeback(
        sessions,
        back[min((sessions - 1) // 2, len(back) - 1)],
        back[-1],
        max(world.free_s) - outage.away_s,
        world.expired,
        world.attempts,
        world.abandoned,
        sessions - len(back),
    )
