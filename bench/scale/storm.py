"""A mass reconnect, for real: an ensemble is killed and started again under thousands of sessions."""

from __future__ import annotations

import heapq
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

from bench.bare_requests import CREATE, BareError
from bench.scale.costs import registration
from bench.scale.policy import Policy
from bench.scale.server import ensemble_of
from bench.scale.sessions import ASKED, EXPIRED, LOST, OPENED, Session, Sessions
from parkazoo.local import LocalEnsemble

END_S = 120.0


@dataclass(frozen=True)
class Storm:
    """
    :param away_s: from the end of the servers until the first session went on.
    :param half_s: from then until half of the sessions went on.
    :param all_s: until all had a session again.
    :param expired: sessions.
    :param abandoned: attempts, because the answer took too long.
    """

    servers: int
    sessions: int
    away_s: float
    half_s: float
    all_s: float
    expired: int
    abandoned: int


def measure_storm(
    sessions: int, servers: int, away_s: float, policy: Policy, seed: int, tell: Callable[[str], None]
) -> Storm:
    """
    :param sessions: each with a registration.
    :param away_s: so long no server is started.
    :raises LocalClusterError: servers cannot be started.
    :raises BareError: not all come back within two minutes.
    """
    with (
        ensemble_of(servers, {}, tell) as ensemble,
        Sessions(sessions, int(policy.time_out_s * 1000)) as crowd,
    ):
        crowd.dial_all([server.address for server in ensemble.servers])
        crowd.ask_all(CREATE, lambda session: registration(session.id)[1])
        tell(f"{servers} servers end and start again under {sessions} sessions")
        for server in ensemble.servers:
            server.kill()
        restart = threading.Timer(away_s, _start_all, [ensemble])
        restart.start()
        try:
            return _Comeback(crowd, ensemble, policy, random.Random(seed)).run()
        finally:
            restart.join()


def _start_all(ensemble: LocalEnsemble) -> None:
    for server in ensemble.servers:
        server.start()


class _Comeback:
    def __init__(self, crowd: Sessions, ensemble: LocalEnsemble, policy: Policy, chance: random.Random) -> None:
        self._crowd = crowd
        self._addresses = [server.address for server in ensemble.servers]
        self._policy = policy
        self._chance = chance
        self._ticket = count()
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._attempt: dict[Session, int] = {}
        self._untried: dict[Session, list[str]] = {}
        self._rounds: dict[Session, int] = dict.fromkeys(crowd.all, 0)
        self._too_slow: dict[Session, int] = dict.fromkeys(crowd.all, 0)
        self._expired = self._abandoned = 0

    def run(self) -> Storm:
        began_s = time.monotonic()
        back_s: list[float] = []
        while len(back_s) < len(self._crowd.all):
            now_s = time.monotonic()
            if now_s > began_s + END_S:
                raise BareError(f"{len(self._crowd.all) - len(back_s)} sessions do not come back")
            while self._due and self._due[0][0] <= now_s:
                heapq.heappop(self._due)[2]()
            pause_s = self._due[0][0] - time.monotonic() if self._due else 1.0
            for session, what in self._crowd.poll(min(pause_s, 1.0)):
                self._attempt[session] = next(self._ticket)
                if what == OPENED:
                    back_s.append(time.monotonic())
                elif what == LOST:
                    self._next(session)
                elif what == EXPIRED:
                    self._expired += 1
                    self._try(session)
        first_s = back_s[0]
        return Storm(
            len(self._addresses),
            len(back_s),
            first_s - began_s,
            back_s[(len(back_s) - 1) // 2] - first_s,
            back_s[-1] - first_s,
            self._expired,
            self._abandoned,
        )

    def _later(self, delay_s: float, call: Callable[[], None]) -> None:
        heapq.heappush(self._due, (time.monotonic() + delay_s, next(self._ticket), call))

    def _next(self, session: Session) -> None:
        """The next server, or a pause behind the last one."""
        if self._untried.get(session):
            self._try(session)
            return
        self._rounds[session] += 1
        self._later(self._policy.pause_s(self._rounds[session], self._chance), lambda: self._try(session))

    def _try(self, session: Session) -> None:
        if not self._untried.get(session):
            self._untried[session] = self._chance.sample(self._addresses, len(self._addresses))
        attempt = self._attempt[session] = next(self._ticket)
        self._crowd.dial(session, self._untried[session].pop())
        patience_s = self._policy.patience_s(self._too_slow[session])
        self._later(patience_s, lambda: self._give_up(session, attempt))

    def _give_up(self, session: Session, attempt: int) -> None:
        if self._attempt[session] != attempt:
            return
        self._abandoned += 1
        self._too_slow[session] += session.state == ASKED
        self._crowd.hang_up(session)
        self._next(session)
