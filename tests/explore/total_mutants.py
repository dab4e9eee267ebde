"""Mutations of the one order for all ensembles. As mutants.py; each is seen when one scenario is explored."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar
from unittest.mock import patch

from parkazoo.engine.ports import Reply
from parkazoo.engine.total import TotalDriver, _Port
from parkazoo.protocol.context import Context
from parkazoo.protocol.heard import Guard, Heard
from parkazoo.protocol.only_ensemble import ALONE, SEVERAL, listed_in, only_ensemble
from parkazoo.protocol.order import Order
from parkazoo.protocol.placement import GUESS, HINT, Directory
from parkazoo.protocol.plans import BRIEF, PLANS
from parkazoo.protocol.steps import PathRequest, Request
from tests.explore.families import name_of
from tests.explore.mutation import Mutation, instead
from tests.explore.scenario import Scenario
from tests.explore.total import AT_ONCE, AWAITED, GrownTotal, Total

CLEAR = "sets above and below", AWAITED, "gets below and above", AWAITED


@dataclass(frozen=True)
class TotalMutant(Mutation):
    """A mutation, and the scenario in which it is seen."""

    member: Total | GrownTotal
    violation: ClassVar[str] = "not linearizable"


def plain(
    does: str, writes: str, sees: str, reads: str, trouble: str = "lag", state: str = "with a child"
) -> Total:
    return Total(state, does, writes, sees, reads, "nothing", trouble)


def grown(
    does: str,
    writes: str,
    sees: str,
    reads: str,
    state: str,
    maps: str,
    remembers: str,
    other_remembers: str,
) -> GrownTotal:
    return GrownTotal(state, does, writes, sees, reads, maps, remembers, other_remembers, "lag")


def on_any_ensemble(right: Callable[..., bool]) -> Callable[..., bool]:
    """Those on another ensemble need not have ended."""

    def wrong(driver: TotalDriver, ensemble: int, token: object) -> bool:
        driver._line.ensemble = ensemble
        return right(driver, ensemble, token)

    return wrong


def beside_each_other(right: Callable[..., bool]) -> Callable[..., bool]:
    """All that are alone count as on one ensemble."""
    return lambda driver, ensemble, token: right(driver, BESIDE if ensemble == ALONE else ensemble, token)


def before_those_that_wait(right: Callable[..., bool]) -> Callable[..., bool]:
    def wrong(driver: TotalDriver, *operation: Any) -> bool:
        line = driver._line
        waiting, is_moving = line.waiting, line.is_moving
        line.waiting, line.is_moving = deque(), False
        may_start = right(driver, *operation)
        waiting.extend(line.waiting)
        line.waiting, line.is_moving = waiting, is_moving
        return may_start

    return wrong


def counting_nothing(right: Callable[..., Guard | None]) -> Callable[..., Guard | None]:
    def wrong(heard: Heard, ensemble: int) -> Guard | None:
        with patch.multiple(heard, _of_others=0, count=0):
            return right(heard, ensemble)

    return wrong


def counting_others(right: Callable[..., Guard | None]) -> Callable[..., Guard | None]:
    def wrong(heard: Heard, ensemble: int) -> Guard | None:
        with patch.object(heard, "count", heard._of_others):
            return right(heard, ensemble)

    return wrong


class _Deaf(Heard):
    """What is answered does not count."""

    def __init__(self, heard: Heard) -> None:
        vars(self).update(vars(heard))

    def hear(self, ensemble: int) -> None:
        pass


def deaf(is_error: bool) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Of answers that are errors, or of the others."""

    def deafened(right: Callable[..., None]) -> Callable[..., None]:
        def wrong(port: _Port, guard: Guard, reply: Reply | None, answer: Any) -> None:
            if isinstance(answer, Exception) is is_error:
                port._heard = _Deaf(port._heard)
            right(port, guard, reply, answer)

        return wrong

    return deafened


def as_if_done(right: Callable[..., None]) -> Callable[..., None]:
    deafened = deaf(is_error=True)(right)

    def wrong(port: _Port, guard: Guard, reply: Reply | None, answer: Any) -> None:
        if isinstance(answer, Exception):
            port._heard.sent(port._ensemble, guard)
        deafened(port, guard, reply, answer)

    return wrong


def blameless(right: Callable[..., None]) -> Callable[..., None]:
    def wrong(port: _Port, guard: Guard, reply: Reply | None, answer: Any) -> None:
        right(port, Guard(0), reply, answer)  # another one is found not to be good

    return wrong


def as_if_known(right: Callable[..., int]) -> Callable[..., int]:
    """A guess where the children of a directory are counts, for gets and sets, as what a client has seen."""

    def wrong(context: Context, request: Request) -> int:
        if request.type not in BRIEF:
            return right(context, request)
        known = context.known

        def seen(path: str) -> Directory:
            d = known(path)
            return d._replace(certainty=HINT) if d.certainty == GUESS else d

        with patch.object(context, "known", seen):
            return right(context, request)

    return wrong


def as_if_decided(right: Callable[..., int]) -> Callable[..., int]:
    """An operation that may have to decide where children are counts as one request."""

    def wrong(context: Context, request: PathRequest) -> int:
        if request.type in SEVERAL or request.type in BRIEF or request.type not in PLANS:
            return right(context, request)
        return context.known(listed_in(request)).mirror.ensemble

    return wrong


BESIDE = -2  # the ensemble of what is ALONE
TOTAL_MUTANTS: Mapping[str, TotalMutant] = {
    "no write in front of a read": TotalMutant(
        instead(Heard.guard, lambda right: lambda heard, ensemble: right(heard, ensemble) or Guard(0)),
        plain(*CLEAR),
    ),
    "no drain before a switch": TotalMutant(
        instead(TotalDriver._admit, on_any_ensemble),
        plain("sets above and below", AT_ONCE, "gets below and above", AWAITED),
    ),
    "operations of several requests beside each other": TotalMutant(
        instead(TotalDriver._admit, beside_each_other),
        plain("creates together and beside", AT_ONCE, "looks beside and below", AWAITED),
    ),
    "one that waits for a claim is overtaken": TotalMutant(
        partial(patch.object, Order, "blocked", 0),
        grown(
            "creates and sets below",
            AWAITED,
            "sets and gets and looks below",
            AT_ONCE,
            "mirrored",
            "away",
            "b",
            "b",
        ),
    ),
    "one that waits for another ensemble is overtaken": TotalMutant(
        instead(TotalDriver._may_start, before_those_that_wait),
        plain("sets below and above", AWAITED, "gets below and above and below", AT_ONCE),
    ),
    "one write in front of all reads": TotalMutant(instead(Heard.guard, counting_nothing), plain(*CLEAR)),
    "what the last ensemble has said does not count": TotalMutant(
        instead(Heard.guard, counting_others),
        plain(*CLEAR),
    ),
    "what a read has said does not count": TotalMutant(
        instead(_Port._read_answered, deaf(is_error=False)), plain(*CLEAR)
    ),
    "that a znode is missing does not count": TotalMutant(
        instead(_Port._read_answered, deaf(is_error=True)),
        plain("sets and deletes", AWAITED, "gets below and above", AWAITED),
    ),
    "what a write has said does not count": TotalMutant(
        instead(_Port._write_answered, deaf(is_error=False)),
        plain("sets below and above", AWAITED, "sets above and gets", AWAITED),
    ),
    "why a write has failed does not count": TotalMutant(
        instead(_Port._write_answered, deaf(is_error=True)),
        plain("sets below and above", AWAITED, "fails to set and gets", AWAITED),
    ),
    "a write in front of reads counts though it is lost": TotalMutant(
        instead(_Port._caught_up, blameless),
        plain("sets above and below", AWAITED, "gets below and above twice", AWAITED, "lag and a lost connection"),
    ),
    "a write of the program counts though it is lost": TotalMutant(
        instead(_Port._write_answered, as_if_done),
        plain(
            "sets above and below", AWAITED, "gets and sets above and gets", AWAITED, "lag and a lost connection"
        ),
    ),
    "a guess counts as known": TotalMutant(
        instead(only_ensemble, as_if_known),
        grown(*CLEAR[:3], AT_ONCE, "mirrored", "to home", "b", "nothing"),
    ),
    "a decision counts as one request": TotalMutant(
        instead(only_ensemble, as_if_decided),
        grown(
            "creates below and beside",
            AT_ONCE,
            "looks beside and below",
            AWAITED,
            "leaf",
            "from home",
            "nothing",
            "nothing",
        ),
    ),
}


@dataclass(frozen=True)
class TotalMutated:
    """The scenario in which a mutant is seen; the mutant itself is not applied."""

    mutant: str
    family: ClassVar[str] = "total-mutant"

    def scenario(self) -> Scenario:
        return dataclasses.replace(TOTAL_MUTANTS[self.mutant].member.scenario(), name=name_of(self))
