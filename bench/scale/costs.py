"""What a session costs a server, step by step: opened, pinged, watching, told, registered, resumed, closed."""

from __future__ import annotations

import os
import socket
import statistics
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from bench.bare_requests import CREATE, EPHEMERAL, GET_DATA, SET_DATA, create, get_data, set_data
from bench.machine import cpu_s
from bench.scale.server import LOCAL_SESSIONS, ensemble_of, live_bytes
from bench.scale.sessions import NOTIFIED, Sessions
from parkazoo.local import LocalEnsemble, LocalServer
from parkazoo.protocol.placement import CLIENTS, MAP
from parkazoo.protocol.registration import encode_registration, registration_path
from parkazoo.version import __version__

TIME_OUT_MS = 60_000
IDLE_S = 3.0
PINGS_S = 2000
LEAST_PINGS = 10_000
WARM_UP_SESSIONS = 50  # before memory is measured: classes are loaded
SETTLE_S = 0.5
CLIENT = 0x7FFFFFFFFFFFFFFF

SESSION, PINGED, WATCH, EVENT, REGISTRATION, RESUMED, CLOSED = STEPS = (
    "session opened",
    "ping",
    "watch set",
    "watch told",
    "registration made",
    "session resumed",
    "session closed",
)
ALONE, OF_THREE, LOCAL = LAYOUTS = "1 server", "3 servers", "3 servers, local sessions"
HOME, LEADER, OTHER = "home", "leader", "other"


@dataclass(frozen=True)
class Cost:
    """Of one operation, for one server.

    :param role: `HOME`, where the sessions are connected: the only server, or a follower; `LEADER`; `OTHER`, the
        third one.
    :param count: operations, in each of the rounds that this is the median of.
    :param cpu_us: processor time, without what the idle server uses.
    :param heap_bytes: by which the live objects have grown.
    :param per_s: operations a second; of pings, those that were asked for.
    :param client_share: of one processor, which the one thread of the clients used meanwhile.
    """

    layout: str
    step: str
    role: str
    count: int
    cpu_us: float
    heap_bytes: float
    per_s: float
    client_share: float


def measure_costs(
    count: int, rounds: int, warm_up: int, layouts: Sequence[str], tell: Callable[[str], None]
) -> list[Cost]:
    """
    :param count: of the sessions.
    :param warm_up: rounds that come before and are not counted: the JVM compiles what it needs.
    :raises LocalClusterError: servers cannot be started.
    :raises ScaleError: a server does not tell what it uses.
    :raises BareError: a server refuses or is silent.
    """
    costs: list[Cost] = []
    for layout in layouts:
        servers, settings = (1 if layout == ALONE else 3), (LOCAL_SESSIONS if layout == LOCAL else {})
        with ensemble_of(servers, settings, tell) as ensemble:
            roles = name_roles(ensemble)
            tell(f"{layout}: {count} sessions")
            take_steps(WARM_UP_SESSIONS, NoMeter(roles))
            heap = HeapMeter(roles)
            take_steps(count, heap)
            for _ in range(warm_up):
                take_steps(count, NoMeter(roles))
            meter = CpuMeter(layout, roles, heap)
            for number in range(1, rounds + 1):
                tell(f"{layout}: {count} sessions, round {number} of {rounds}")
                take_steps(count, meter)
        costs += medians(meter.costs)
    return costs


def name_roles(ensemble: LocalEnsemble) -> dict[str, LocalServer]:
    if len(ensemble.servers) == 1:
        return {HOME: ensemble.servers[0]}
    leader = ensemble.leader()
    home, other = (server for server in ensemble.servers if server is not leader)
    return {HOME: home, LEADER: leader, OTHER: other}


def medians(costs: Iterable[Cost]) -> list[Cost]:
    """Of the rounds, for each layout, step and role."""
    rounds: dict[tuple[str, str, str], list[Cost]] = {}
    for cost in costs:
        rounds.setdefault((cost.layout, cost.step, cost.role), []).append(cost)

    def median(some: Sequence[Cost], name: str) -> float:
        return float(statistics.median(getattr(each, name) for each in some))

    return [
        Cost(
            *key,
            some[0].count,
            *(median(some, name) for name in ("cpu_us", "heap_bytes", "per_s", "client_share")),
        )
        for key, some in rounds.items()
    ]


def registration(session: int) -> tuple[int, bytes]:
    """What a ParKazooClient registers with, byte for byte but for the figures in it."""
    about = {
        "epoch": 1,
        "version": __version__,
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "since": "2026-01-01T00:00:00+00:00",
    }
    return create(registration_path(session), encode_registration(CLIENT, about), EPHEMERAL)


def listing_bytes(registrations: int) -> int:
    """The names in the server's answer when all registrations of an ensemble are listed."""
    return registrations * (4 + len(registration_path(CLIENT)) - len(CLIENTS) - 1)


class Meter(ABC):
    """Measures steps on the servers of an ensemble."""

    def __init__(self, roles: Mapping[str, LocalServer]) -> None:
        self.roles = roles

    def rest(self) -> None:
        """Called before a step if something has happened that is none. The server has ended with it by then."""
        time.sleep(SETTLE_S)

    def be_idle(self) -> None:  # noqa: B027 - one meter alone needs it
        """Called when all sessions are open."""

    @abstractmethod
    def measure(self, step: str, count: int, work: Callable[[], None]) -> None: ...


class NoMeter(Meter):
    def measure(self, step: str, count: int, work: Callable[[], None]) -> None:
        work()


class HeapMeter(Meter):
    """Bytes by step and role, of one operation."""

    def __init__(self, roles: Mapping[str, LocalServer]) -> None:
        super().__init__(roles)
        self.bytes: dict[tuple[str, str], float] = {}

    def rest(self) -> None:
        super().rest()
        self._before = {role: live_bytes(server) for role, server in self.roles.items()}

    def measure(self, step: str, count: int, work: Callable[[], None]) -> None:
        before = self._before
        work()
        self.rest()
        self.bytes |= {(step, role): (self._before[role] - before[role]) / count for role in self.roles}


class CpuMeter(Meter):
    """The rest of what there is to a cost."""

    def __init__(self, layout: str, roles: Mapping[str, LocalServer], heap: HeapMeter) -> None:
        super().__init__(roles)
        self.costs: list[Cost] = []
        self._layout = layout
        self._heap = heap
        self._idle = dict.fromkeys(roles, 0.0)

    def be_idle(self) -> None:
        self._idle = {role: each / IDLE_S for role, each in self._used(lambda: time.sleep(IDLE_S)).items()}

    def _used(self, work: Callable[[], None]) -> dict[str, float]:
        before = {role: cpu_s(server.pid) for role, server in self.roles.items()}
        work()
        return {role: cpu_s(server.pid) - before[role] for role, server in self.roles.items()}

    def measure(self, step: str, count: int, work: Callable[[], None]) -> None:
        took_s = own_s = 0.0

        def timed() -> None:
            nonlocal took_s, own_s
            began_s, own_began_s = time.monotonic(), time.process_time()
            work()
            took_s, own_s = time.monotonic() - began_s, time.process_time() - own_began_s
            self.rest()  # the other servers may be behind

        for role, used_s in self._used(timed).items():
            cpu_us = (used_s - self._idle[role] * (took_s + SETTLE_S)) / count * 1e6
            heap = self._heap.bytes[step, role]
            self.costs.append(Cost(self._layout, step, role, count, cpu_us, heap, count / took_s, own_s / took_s))


def take_steps(count: int, meter: Meter) -> None:
    """Each step once, for so many sessions."""
    home = [meter.roles[HOME].address]
    pings = max(count, LEAST_PINGS)
    with Sessions(count, TIME_OUT_MS) as sessions, Sessions(1, TIME_OUT_MS) as writer:
        writer.dial_all(home)

        def set_all_watches() -> None:
            sessions.ask_all(GET_DATA, lambda _: get_data(MAP, True)[1])

        def tell_all() -> None:
            writer.ask_all(SET_DATA, lambda _: set_data(MAP, b"{}")[1])
            sessions.wait_all(NOTIFIED, count)

        meter.rest()
        meter.measure(SESSION, count, lambda: sessions.dial_all(home))
        meter.be_idle()
        meter.measure(PINGED, pings, lambda: sessions.ping_evenly(pings / PINGS_S, pings))
        meter.measure(WATCH, count, set_all_watches)
        meter.measure(EVENT, count, tell_all)
        meter.measure(REGISTRATION, count, lambda: sessions.ask_all(CREATE, lambda each: registration(each.id)[1]))
        for session in sessions.all:
            sessions.hang_up(session)
        meter.rest()
        meter.measure(RESUMED, count, lambda: sessions.dial_all(home))
        meter.measure(CLOSED, count, sessions.close_all)
        writer.close_all()
