"""Mutations of the one order for all ensembles. As mutants.py; each is seen when one scenario is explored."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from parkazoo.engine import total
from parkazoo.protocol import heard
from parkazoo.protocol.grown import pinned_lane
from tests.explore.families import name_of
from tests.explore.mutation import Mutation, reworded
from tests.explore.scenario import Scenario
from tests.explore.total import AT_ONCE, AWAITED, GrownTotal, Total

CLEAR = "sets above and below", AWAITED, "gets below and above", AWAITED


@dataclass(frozen=True)
class TotalMutant(Mutation):
    """A mutation, and the scenario in which it is seen."""

    member: Total | GrownTotal


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


HEARS = "self._heard.hear(self._ensemble)"
TOTAL_MUTANTS: Mapping[str, TotalMutant] = {
    "no write in front of a read": TotalMutant(
        reworded(total._Port.submit, ["or self._put(None)", "or Guard(0)"]), plain(*CLEAR)
    ),
    "no drain before a switch": TotalMutant(
        reworded(total.TotalDriver._admit, ["lane != line.lane or lane", "lane"]),
        plain("sets above and below", AT_ONCE, "gets below and above", AWAITED),
    ),
    "operations of several requests beside each other": TotalMutant(
        reworded(total.TotalDriver._admit, [" or lane == ALONE", ""]),
        plain("creates together and beside", AT_ONCE, "looks beside and below", AWAITED),
    ),
    "one that waits for a claim is overtaken": TotalMutant(
        reworded(total.TotalDriver._admit, [" or self.order.blocked", ""]),
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
    "one that waits for its lane is overtaken": TotalMutant(
        reworded(total.TotalDriver._may_start, ["not line.waiting and not line.is_moving and ", ""]),
        plain("sets below and above", AWAITED, "gets below and above and below", AT_ONCE),
    ),
    "one write in front of all reads": TotalMutant(
        reworded(heard.Heard.guard, ["guard.is_good and guard.count >= elsewhere", "guard.is_good"]), plain(*CLEAR)
    ),
    "what the last ensemble has said does not count": TotalMutant(
        reworded(
            heard.Heard.guard, ["self._of_others if ensemble == self._last else self.count", "self._of_others"]
        ),
        plain(*CLEAR),
    ),
    "what a read has said does not count": TotalMutant(reworded(total._Read.set, [HEARS, "pass"]), plain(*CLEAR)),
    "that a znode is missing does not count": TotalMutant(
        reworded(total._Read.set_exception, [HEARS, "pass"]),
        plain("sets and deletes", AWAITED, "gets below and above", AWAITED),
    ),
    "what a write has said does not count": TotalMutant(
        reworded(total._Written.set, [HEARS, "pass"]),
        plain("sets below and above", AWAITED, "sets above and gets", AWAITED),
    ),
    "why a write has failed does not count": TotalMutant(
        reworded(total._Written.set_exception, [HEARS, "pass"]),
        plain("sets below and above", AWAITED, "fails to set and gets", AWAITED),
    ),
    "a write in front of reads counts though it is lost": TotalMutant(
        reworded(total._CaughtUp.set_exception, ["if not isinstance(exception, REFUSED):", "if False:"]),
        plain("sets above and below", AWAITED, "gets below and above twice", AWAITED, "lag and a lost connection"),
    ),
    "a write of the program counts though it is lost": TotalMutant(
        reworded(total._Written.set_exception, [HEARS, "self._heard.sent(self._ensemble, self._guard)"]),
        plain(
            "sets above and below", AWAITED, "gets and sets above and gets", AWAITED, "lag and a lost connection"
        ),
    ),
    "a guess counts as known": TotalMutant(
        reworded(pinned_lane.grown_lane_of, ["(is_fixed(parent) or places.is_known(parent))", "True"]),
        grown(*CLEAR[:3], AT_ONCE, "mirrored", "to home", "b", "nothing"),
    ),
    "a decision counts as one request": TotalMutant(
        reworded(pinned_lane.grown_lane_of, ["if plan.lasting(context, request) is None:", "if False:"]),
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
