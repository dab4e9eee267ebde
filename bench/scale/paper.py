"""How many sessions each server has, and what they cost it: arithmetic on measured costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.scale.costs import (
    ALONE,
    EVENT,
    HOME,
    LEADER,
    OF_THREE,
    OTHER,
    PINGED,
    REGISTRATION,
    RESUMED,
    SESSION,
    WATCH,
    Cost,
    listing_bytes,
)
from bench.scale.reconnect import Rates
from parkazoo.wire.keep_alive import KeepAlive

CLIENTS, ENSEMBLES = 100_000, 100
TIME_OUT_S = 10.0
WATCHES = 5  # of a client on each ensemble that it uses
START_S = 60.0  # in which all clients start
USED = (1, 3, 10)
SERVERS = (3, 5)
MIXED, OWN, ONE = "mixed", "own", "one for all"


@dataclass(frozen=True)
class Use:
    """How clients use ensembles.

    :param used: ensembles, of each client; drawn evenly.
    :param hosts: which ensemble a client begins on. `MIXED`: any; `OWN`: one that it uses; `ONE`: the same for
        all clients.
    """

    used: int
    hosts: str

    @property
    def name(self) -> str:
        return f"{self.used} of {ENSEMBLES}" if self.used < ENSEMBLES else "all"

    @property
    def of_client(self) -> float:
        """Sessions of a client, the one included that it began with."""
        return self.used + (0.0 if self.hosts == OWN else 1 - self.used / ENSEMBLES)

    @property
    def of_ensemble(self) -> float:
        """Sessions of an ensemble, of the fullest one."""
        return float(CLIENTS) if self.hosts == ONE else CLIENTS * self.of_client / ENSEMBLES


USES = (
    *(Use(used, hosts) for used in USED for hosts in (OWN, MIXED)),
    Use(1, ONE),
    Use(ENSEMBLES, OWN),
)


@dataclass(frozen=True)
class Load:
    """Of the fullest ensemble, and of each of its servers.

    :param sessions: of the ensemble; each has a registration there.
    :param ping_cpu: of one processor, 0 to 1 and beyond.
    :param heap_bytes: on top of an empty server's.
    :param start: share of what the ensemble can open, 0 to 1 and beyond, if all clients start within a minute.
    :param told_s: until all clients know of a new map, have read it and have said so.
    :param listing_bytes: of the names of all registrations.
    """

    use: str
    hosts: str
    servers: int
    of_client: float
    in_all: float
    sessions: float
    of_server: float
    pings_s: float
    ping_cpu: float
    heap_bytes: float
    start: float
    told_s: float
    listing_bytes: float


class Measured:
    """Costs by what they are of."""

    def __init__(self, costs: Sequence[Cost]) -> None:
        self._costs = {(cost.layout, cost.step, cost.role): cost for cost in costs}

    def of(self, step: str, role: str = HOME) -> Cost:
        """On three servers; on one where three were not measured."""
        return self._costs.get((OF_THREE, step, role)) or self._costs[ALONE, step, HOME]

    def _elsewhere_bytes(self, step: str) -> float:
        """On the servers of the ensemble that the session is not connected to; 0 if there was none."""
        found = [self._costs.get((OF_THREE, step, role)) for role in (LEADER, OTHER)]
        return max((cost.heap_bytes for cost in found if cost), default=0.0)

    @property
    def connection_bytes(self) -> float:
        """Of a session, on the server that it is connected to, beside what every server has of it."""
        return self.of(SESSION).heap_bytes - self._elsewhere_bytes(SESSION)

    @property
    def session_bytes(self) -> float:
        """Of a session, on every server of the ensemble, with its registration."""
        registered = self._elsewhere_bytes(REGISTRATION) or self.of(REGISTRATION).heap_bytes
        return self._elsewhere_bytes(SESSION) + registered

    def rates(self) -> Rates:
        opened, registered = self.of(SESSION).per_s, self.of(REGISTRATION).per_s
        return Rates(self.of(RESUMED).per_s, 1 / (1 / opened + 1 / registered), self.of(WATCH).per_s)


def ping_interval_s() -> float:
    """Mean time between two pings of a session that does nothing else."""
    keep_alive = KeepAlive(TIME_OUT_S * 2 / 3, TIME_OUT_S, 0.0, 0.0)
    return keep_alive.ping_at_s(keep_alive.most_jitter_s / 2)


def load(use: Use, servers: int, measured: Measured) -> Load:
    sessions = use.of_ensemble
    here = sessions / servers
    pings_s = here / ping_interval_s()
    told, read, said = (measured.of(step).per_s for step in (EVENT, WATCH, REGISTRATION))
    return Load(
        use.name,
        use.hosts,
        servers,
        use.of_client,
        CLIENTS * use.of_client,
        sessions,
        here,
        pings_s,
        pings_s * measured.of(PINGED).cpu_us / 1e6,
        here * (measured.connection_bytes + WATCHES * measured.of(WATCH).heap_bytes)
        + sessions * measured.session_bytes,
        sessions / START_S / measured.rates().opened,
        sessions * (1 / told + 1 / read + 1 / said),
        listing_bytes(round(sessions)),
    )
