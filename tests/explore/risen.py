"""Scenarios of a client that goes on to the next form of its map while operations are under way.

Those go on by the older form, and others begin by the newer one beside them.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from parkazoo.kazoo_private import Transaction
from tests.explore.directories import OPERATIONS, in_order, try_again
from tests.explore.families import (
    NOTHING,
    NUMBERED,
    OTHERS,
    TOUCHES,
    TROUBLES,
    are_in_order,
    in_their_order,
    is_gap,
    is_numbered,
    looked_at,
    name_of,
    taken,
)
from tests.explore.grown import HINTS, MAPS, STATES, D, Maps, beginning, drawn
from tests.explore.scenario import Program, Promises, Rise, Scenario, Turn
from tests.explore.znodes import Request

# Of two forms that follow each other: by the older one the client begins, to the newer one it goes.
RISING: Mapping[str, Maps] = {
    name: maps
    for name, maps in MAPS.items()
    if name.endswith(("plain tolerant", "tolerant guarded", "guarded grown"))
}


def rising(maps: str, first: Request, *behind: Request) -> Program:
    """All is issued at once; behind the first request the client goes on to the next form."""
    newer = MAPS[maps].newer
    assert newer is not None
    issued: list[Request | Rise] = [first, Rise(newer), *behind]
    return in_order([issued])


@dataclass(frozen=True)
class GrownRise:
    """A client issues an operation, goes on to the next form, and issues others, all at once: they are done in
    their order.

    :param remembers: what the client knows of the directory.
    :param other: what another client has done since then.
    """

    state: str
    remembers: str
    maps: str
    other: str
    one: str
    two: str
    three: str
    family: ClassVar[str] = "grown-rise"

    def scenario(self) -> Scenario:
        mine = rising(self.maps, *(TOUCHES[each] for each in self._issued))
        return Scenario(
            name_of(self),
            beginning(self.state, self.maps, (self.remembers, "nothing")),
            [mine, OTHERS[self.other]],
            opening=[Turn(1)],
            promises=in_their_order(D, self.maps),
        )

    @classmethod
    def at_random(cls, dice: random.Random) -> GrownRise:
        words = STATES, HINTS, RISING, OTHERS, TOUCHES, TOUCHES, [NOTHING, *TOUCHES]
        return taken(lambda: cls(*drawn(dice, *words)), cls._is_promised)

    @property
    def _issued(self) -> list[str]:
        return [each for each in (self.one, self.two, self.three) if each != NOTHING]

    def _is_promised(self) -> bool:
        return are_in_order(self.state, f"{self.maps} {self.remembers} {NOTHING}", *self._issued)


@dataclass(frozen=True)
class GrownRiseBeside:
    """The same beside another client, which has gone on to the next form already."""

    state: str
    remembers: str
    maps: str
    other: str
    one: str
    two: str
    trouble: str
    family: ClassVar[str] = "grown-rise-beside"

    def scenario(self) -> Scenario:
        mine = rising(self.maps, TOUCHES[self.one], TOUCHES[self.two])
        has_transaction = any(isinstance(TOUCHES[each], Transaction) for each in (self.one, self.two))
        of_watches = not has_transaction and not is_gap([self.other])
        promises = Promises(observe=looked_at(D), mirrors_per_life=None, of_watches=of_watches)
        return Scenario(
            name_of(self),
            beginning(self.state, self.maps, (self.remembers, "nothing")),
            [mine, try_again(lambda: OPERATIONS[self.other](D))],
            TROUBLES[self.trouble],
            promises=promises,
        )

    @classmethod
    def at_random(cls, dice: random.Random) -> GrownRiseBeside:
        words = STATES, HINTS, RISING, OPERATIONS, TOUCHES, TOUCHES, TROUBLES
        return taken(
            lambda: cls(*drawn(dice, *words)),
            lambda each: (
                NUMBERED not in (each.one, each.two) or is_numbered(each.state, f"{each.maps} {NOTHING} {NOTHING}")
            ),
        )
