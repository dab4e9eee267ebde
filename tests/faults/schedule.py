"""Which fault comes when: pure, endless, and the same for the same seed."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeVar

SERVER_KINDS = ("kill", "freeze", "restart", "cut off")
CLIENT_KINDS = ("kill client", "freeze client")
# Some of an ensemble's servers and its clients do not hear some others, or not always.
HEARING_KINDS = ("one-way cut", "partial cut", "flapping", "lossy")
ENSEMBLE_KINDS = ("ensemble down", "ensemble away")  # all of its servers
KINDS = (
    *SERVER_KINDS,
    *HEARING_KINDS,
    *ENSEMBLE_KINDS,
    "freeze and kill",
    "address moves",
    *CLIENT_KINDS,
    "expire",
)
MANNERS = {
    **dict.fromkeys(SERVER_KINDS, ("leader", "follower")),
    **dict.fromkeys(ENSEMBLE_KINDS, ("kill", "freeze", "cut off")),
    "one-way cut": (
        "leader mute",
        "leader deaf",
        "follower mute",
        "follower deaf",
        "clients mute",
        "clients deaf",
    ),
    "partial cut": ("leader and follower", "followers"),
    "flapping": ("leader and follower", "leader and followers"),
    "lossy": ("servers", "leader"),
    "freeze and kill": ("leader frozen", "leader killed"),
    "address moves": ("the only one", "one of four"),
    "freeze client": ("brief", "long"),
}
TICK_MS = 500
AWAY, LONG, BRIEF = 3.0, (1.3, 2.0), (0.2, 0.7)  # of the session timeout
PAIRS = 0.8  # of the steps have two faults, if those are on different ensembles
T = TypeVar("T")


class Pace(NamedTuple):
    """Seconds: how long a fault lasts, and the time without any after it, each from and to.

    :param sync_limit: ticks after which a server and its leader give each other up. Before that, the clients of a
        server that is cut off from its leader do not hear that their sessions have expired.
    :param quiet_end_s: at the end, when all faults are over.
    :param crashes: of clients between two requests, by stress.py, after all of it.
    """

    session_timeout_s: float
    sync_limit: int
    fault_s: tuple[float, float]
    quiet_s: tuple[float, float]
    quiet_end_s: float
    crashes: int

    @property
    def zoo_cfg(self) -> dict[str, str]:
        """Of each server."""
        return {"tickTime": str(TICK_MS), "syncLimit": str(self.sync_limit)}

    @property
    def notice_s(self) -> float:
        """When the clients of a server that is cut off from its leader have heard of it, at the latest.

        The leader looks once a tick whom it has not heard.
        """
        return TICK_MS * (self.sync_limit + 1) / 1000

    @property
    def expiry_s(self) -> float:
        """When their sessions expire, at the earliest.

        Kazoo may have sent nothing for a third of the timeout; servers tell their leader twice a tick who has.
        """
        return self.session_timeout_s * 2 / 3 - TICK_MS / 2 / 1000


FULL = Pace(
    session_timeout_s=6.0, sync_limit=4, fault_s=(1.0, 15.0), quiet_s=(2.0, 6.0), quiet_end_s=10.0, crashes=2000
)
REPLACING = FULL._replace(session_timeout_s=20.0)  # no fault is to end a session, nor a machine that is busy
SHORT = Pace(
    session_timeout_s=5.0, sync_limit=3, fault_s=(1.0, 4.0), quiet_s=(0.5, 1.0), quiet_end_s=4.0, crashes=0
)


class Plan(NamedTuple):
    """A fault to come.

    :param ensemble: its number; of no matter for a client process.
    :param pick: 0 to 1, which of those that it could hit.
    """

    kind: str
    manner: str
    ensemble: int
    pick: float
    lasts_s: float


class Step(NamedTuple):
    """One fault, or two at once and on different ensembles, and then a time without."""

    plans: tuple[Plan, ...]
    quiet_s: float


def schedule(dice: random.Random, ensembles: int, pace: Pace, kinds: Sequence[str] = KINDS) -> Iterator[Step]:
    """Each kind comes once before any comes again, and so does each manner and each ensemble of a kind."""
    plans = _plans(dice, ensembles, pace, kinds)
    waiting = next(plans)
    while True:
        step = [waiting]
        waiting = next(plans)
        if dice.random() < PAIRS and waiting.ensemble != step[0].ensemble:
            step.append(waiting)
            waiting = next(plans)
        yield Step(tuple(step), dice.uniform(*pace.quiet_s))


def _plans(dice: random.Random, ensembles: int, pace: Pace, kinds: Sequence[str]) -> Iterator[Plan]:
    manners = {kind: _deck(dice, MANNERS.get(kind, ("",))) for kind in kinds}
    targets = {kind: _deck(dice, range(ensembles)) for kind in kinds}
    for kind in _deck(dice, kinds):
        manner = next(manners[kind])
        yield Plan(kind, manner, next(targets[kind]), dice.random(), _duration(dice, kind, manner, pace))


def _duration(dice: random.Random, kind: str, manner: str, pace: Pace) -> float:
    if kind in ("restart", "expire"):
        return 0.0
    if kind == "ensemble away":
        return pace.session_timeout_s * AWAY
    if kind != "freeze client":
        return dice.uniform(*pace.fault_s)
    return pace.session_timeout_s * dice.uniform(*(LONG if manner == "long" else BRIEF))


def _deck(dice: random.Random, cards: Sequence[T]) -> Iterator[T]:
    while True:
        yield from dice.sample(cards, len(cards))
