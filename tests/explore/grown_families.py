"""More scenarios of clients whose map has grown: transactions, and children with numbers.

Hints and guesses may be wrong; see grown.py. There are too many: they are taken at random.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from parkazoo.kazoo_private import Delete, GetChildren, GetChildren2, GetData, Transaction
from tests.explore.directories import OPERATIONS, create, in_order
from tests.explore.families import (
    NUMBERED_MAPS,
    NUMBERED_STATES,
    TROUBLES,
    beside,
    looked_at,
    name_of,
    promises_of,
    transactions,
)
from tests.explore.grown import HINTS, MAPS, STATES, D, beginning, drawn
from tests.explore.scenario import Asking, Promises, Scenario
from tests.explore.znodes import SEQUENCE, Request

X, Y, Z = D + "/x", D + "/y", D + "/z"
# A client that comes at the end looks, and finishes what it finds: all can be deleted and made again.
AFTERWARDS: Sequence[Request] = [
    *looked_at(D),
    create(D),
    create(Z),
    GetData(Z, None),
    GetChildren(D, None),
    Delete(D, -1),
    *(Delete(child, -1) for child in (X, Y, Z)),
    Delete(D, -1),
    create(D),
    create(X),
    *looked_at(D),
]
# ---- transactions ------------------------------------------------------------------------------

OTHER = create("/other")
TRANSACTIONS = transactions(D)


@dataclass(frozen=True)
class GrownTransaction:
    """A transaction beside another one, or beside an operation. If it is refused, nothing was done."""

    state: str
    transaction: str
    other: str
    maps: str
    remembers: str
    other_remembers: str
    trouble: str
    family: ClassVar[str] = "grown-transaction"

    def scenario(self) -> Scenario:
        begun = beginning(self.state, self.maps, (self.remembers, self.other_remembers))
        both = [self._program(self.transaction), self._program(self.other)]
        promises = Promises(observe=AFTERWARDS, mirrors_per_life=None, of_watches=False)
        return beside(name_of(self), begun, both, TROUBLES[self.trouble], promises)

    def _program(self, name: str) -> Callable[[], Asking]:
        if name in TRANSACTIONS:
            return in_order([Transaction(TRANSACTIONS[name])])
        return partial(OPERATIONS[name], D)

    @classmethod
    def at_random(cls, dice: random.Random) -> GrownTransaction:
        others = [*OPERATIONS, *TRANSACTIONS]
        return cls(*drawn(dice, STATES, TRANSACTIONS, others, MAPS, HINTS, HINTS, TROUBLES))


# ---- sequence numbers --------------------------------------------------------------------------

NUMBERED = create(D + "/s", SEQUENCE)
FIRST, SECOND = (f"{D}/s{number:010}" for number in range(2))
NUMBERS: Mapping[str, Sequence[Request]] = {
    "a number": [NUMBERED],
    "two numbers": [NUMBERED, NUMBERED],
    "a number and its delete": [NUMBERED, Delete(FIRST, -1), Delete(SECOND, -1)],
    "a number and a list": [NUMBERED, GetChildren2(D, None)],
    "numbers by transaction": [Transaction([NUMBERED, create(Y), NUMBERED])],
    "a number in a new life": [Delete(D, -1), create(D), NUMBERED],
}


@dataclass(frozen=True)
class GrownNumbers:
    """Children with numbers are made in a directory, beside more of that or an operation."""

    state: str
    one: str
    other: str
    maps: str
    remembers: str
    other_remembers: str
    trouble: str
    family: ClassVar[str] = "grown-numbers"

    def scenario(self) -> Scenario:
        begun = beginning(self.state, self.maps, (self.remembers, self.other_remembers))
        other = in_order(NUMBERS[self.other]) if self.other in NUMBERS else partial(OPERATIONS[self.other], D)
        both, promises = [in_order(NUMBERS[self.one]), other], promises_of(D, [self.other])
        return beside(name_of(self), begun, both, TROUBLES[self.trouble], promises)

    @classmethod
    def at_random(cls, dice: random.Random) -> GrownNumbers:
        hints = [hint for hint in HINTS if hint != "native"]
        others = [*NUMBERS, *OPERATIONS]
        return cls(*drawn(dice, NUMBERED_STATES, NUMBERS, others, NUMBERED_MAPS, hints, hints, TROUBLES))
