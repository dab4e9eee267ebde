"""What scenario scaling measures: one limit of the servers, and the shapes that meet it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.lab import Shape
from bench.scenarios.evaluation import LARGE, RATE_BYTES_S, READ_SHARES, WARM_UP_S, Parts

LOADS = {"writes": 0.0, "reads": 1.0, "90% reads": 0.9}
# Requests of all clients together, for each ensemble: enough to keep it busy, and few enough for a leader of nine,
# whose network card has to carry each eight times, not to be so late that clients take it for dead.
OUTSTANDING = 48
# A leader forces all that waits at once, so many requests would hide the disk behind the processors.
OUTSTANDING_ON_DISK = 2
DISK_WAIT_S = 0.01  # an fsync of a spinning disk
# What is drawn, and how the directory of a request is chosen there.
EVEN, HASHED, HOT = "even, spread", "even, as hashed", "one directory"
SKEWS: dict[str, dict[str, Any]] = {
    EVEN: {},
    HASHED: {"is_hashed": True},
    "Zipf 0.5": {"zipf": 0.5},
    "Zipf 1": {"zipf": 1.0},
    "Zipf 2": {"zipf": 2.0},
    HOT: {"directories": 1},
}
SHARES = (0.5, 0.8)  # of the rate of the closed loop, at which latency is measured
# For an estimate, as on two processors: between two loads; to start a shape; for each of its servers.
BETWEEN_S, START_S, SERVER_S = 3.0, 10.0, 1.5


NO_LIMIT = "no limit"


def name_rate(rate_bytes_s: float) -> str:
    return f"{rate_bytes_s * 8 / 1e6:g} Mbit/s"


# So low that two processors are never the limit of all servers.
LOW = tuple(map(name_rate, (RATE_BYTES_S / 4, RATE_BYTES_S)))


@dataclass(frozen=True)
class Limit:
    """What keeps a server from doing more, where all share one machine.

    :param rate_bytes_s: of its network card; 0: not limited.
    :param disk_wait_s: of each fsync; 0: it does not wait.
    """

    rate_bytes_s: float = 0.0
    disk_wait_s: float = 0.0
    outstanding: int = OUTSTANDING

    @property
    def name(self) -> str:
        if self.disk_wait_s:
            return f"disk, {self.disk_wait_s * 1000:g} ms"
        return name_rate(self.rate_bytes_s) if self.rate_bytes_s else NO_LIMIT


@dataclass(frozen=True)
class Size:
    """
    :param systems: what is measured on each shape.
    :param clients: of all hosts together, on ensembles of up to three servers; twice as many on larger ones, so
        that each server has some.
    :param repeat: how often each load is run; skewed ones, and those of an open loop, are run once.
    :param shares: of the closed loop's rate, at which requests come in an open loop.
    """

    systems: Mapping[str, Sequence[str]]
    clients: int
    warm_up_s: float
    measure_s: float
    loads: Sequence[str] = tuple(LOADS)
    skews: Sequence[str] = ()
    skew_shape: str = "3x3"
    repeat: int = 3
    limit: Limit = Limit(RATE_BYTES_S)
    shares: Sequence[float] = ()

    @property
    def open_loads(self) -> Sequence[str]:
        return [load for load in self.loads if load in READ_SHARES] if self.shares else []

    def estimate_s(self) -> float:
        """How long it takes on two processors."""
        load_s = self.warm_up_s + self.measure_s + BETWEEN_S
        of_subject = self.repeat * len(self.loads) + len(self.open_loads) * len(self.shares)
        subjects = sum(map(len, self.systems.values()))
        servers = sum(Shape.parse(shape).size for shape in self.systems)
        loads = of_subject * subjects + len(self.skews)
        warm_ups_s = subjects * (self.warm_up_s + WARM_UP_S + BETWEEN_S)
        return loads * load_s + warm_ups_s + len(self.systems) * START_S + servers * SERVER_S


_EQUAL = {
    "1x3": ("kazoo", "parkazoo"),
    "3x3": ("parkazoo",),
    "6x3": ("parkazoo",),
    "9x3": ("parkazoo",),
}
_FEWER = {shape: systems for shape, systems in _EQUAL.items() if shape != "6x3"}


def _under(limit: Limit, **entries: Any) -> Size:
    """Writes and reads alone: what a mixture adds is seen under 1 Mbit/s, and at the size medium."""
    loads = {"systems": _FEWER, "clients": 48, "warm_up_s": 1, "measure_s": 4, "loads": tuple(READ_SHARES)}
    return Size(**{**loads, "shares": SHARES, "limit": limit, **entries})


SIZES: dict[str, Any] = {
    "small": Size({"1x1": ("kazoo",), "2x1": ("parkazoo",)}, 4, 0.2, 0.6, ("90% reads",), ("Zipf 1",), "2x1", 2),
    "medium": Size(
        {
            "1x3": ("kazoo", "parkazoo"),
            "1x9": ("kazoo",),
            "3x3": ("parkazoo",),
            "9x3": ("parkazoo",),
        },
        24,
        2,
        7,
        skews=(EVEN, HASHED, "Zipf 1", HOT),
    ),
    "full": Parts(
        {
            # A write takes 0.6 s there.
            "1mbit": _under(Limit(RATE_BYTES_S), systems=_EQUAL, warm_up_s=2, measure_s=8),
            "4mbit": _under(Limit(4 * RATE_BYTES_S)),
            "16mbit": _under(Limit(16 * RATE_BYTES_S)),
            "unlimited": _under(Limit()),
            "disk": _under(
                Limit(disk_wait_s=DISK_WAIT_S, outstanding=OUTSTANDING_ON_DISK),
                clients=OUTSTANDING_ON_DISK,
                loads=("writes",),
            ),
            # With as many requests outstanding on nine servers as on three; a write takes 2 s there.
            "others": Size(
                {"1x3": ("kazoo",), "1x9": ("kazoo",), "3x3": ("parkazoo",)},
                24,
                2.5,
                25,
                skews=tuple(SKEWS),
                repeat=1,
            ),
        }
    ),
    # Sixty servers share the processors too, so a quarter of the bandwidth is to be the limit, of writes alone.
    LARGE: Size({"1x3": ("kazoo",), "20x3": ("parkazoo",)}, 24, 5, 30, ("writes",), limit=Limit(RATE_BYTES_S / 4)),
}
