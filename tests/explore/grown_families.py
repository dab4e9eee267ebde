"""More scenarios of clients whose map has grown: their own past, transactions, numbers, pipelines.

As families.py, but hints and guesses may be wrong; see grown.py. There are too many: they are taken at random.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, TypeVar

from parkazoo.kazoo_private import (
    CheckVersion,
    Delete,
    Exists,
    GetChildren,
    GetChildren2,
    GetData,
    SetData,
    Transaction,
)
from parkazoo.protocol.steps import WriteRequest
from tests.explore.directories import OPERATIONS, create, first_child, in_order
from tests.explore.families import (
    TROUBLES,
    WHEN,
    again,
    at_once,
    beside,
    changes,
    is_late,
    looked_at,
    mistaken,
    name_of,
    own_past,
    programs,
    promises_of,
    reads,
    remembered,
    touches,
)
from tests.explore.grown import HINTS, MAPS, STATES, D, beginning, drawn
from tests.explore.scenario import UNPINNED, Asking, Promises, Scenario
from tests.explore.znodes import SEQUENCE, Request

T = TypeVar("T")
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
# No child of theirs is native, nor will be: there a number is skipped when the pin comes.
NUMBERED_MAPS = [name for name, maps in MAPS.items() if not maps.may_skip_numbers]
NUMBERED_STATES = [state for state in STATES if "adopted" not in state and "native" not in state]


def _is_numbered(state: str, maps: str) -> bool:
    return state in NUMBERED_STATES and maps in NUMBERED_MAPS


def taken(draw: Callable[[], T], is_fit: Callable[[T], bool]) -> T:
    """The first that fits."""
    while not is_fit(member := draw()):
        pass
    return member


@dataclass(frozen=True)
class GrownPast:
    """A client changes something, then reads; another is at work, and servers lag."""

    state: str
    change: str
    read: str
    other: str
    maps: str
    remembers: str
    other_remembers: str
    family: ClassVar[str] = "grown-past"

    def scenario(self) -> Scenario:
        begun = beginning(self.state, self.maps, (self.remembers, self.other_remembers))
        return own_past(name_of(self), begun, D, self.change, self.read, self.other)

    @classmethod
    def at_random(cls, dice: random.Random) -> GrownPast:
        words = STATES, changes(D), reads(D), programs(D), MAPS, HINTS, HINTS
        return taken(
            lambda: cls(*drawn(dice, *words)),
            lambda each: _is_numbered(each.state, each.maps) or each.change != "create with a number",
        )


# ---- transactions ------------------------------------------------------------------------------

OTHER = create("/other")
TRANSACTIONS: Mapping[str, Sequence[WriteRequest]] = {
    "below": [create(X), create(Y)],
    "below and set": [create(Y), SetData(X, b"new", -1)],
    "below and check": [CheckVersion(X, -1), create(Y)],
    "below and beside": [create(X), OTHER],
    "instead": [Delete(X, -1), create(Y)],
    "itself and a child": [create(D), create(X)],
    "itself and children beside": [OTHER, create(D), create(X), create(Y)],
    "set and a child": [SetData(D, b"new", -1), create(Y)],
    "check and a child": [CheckVersion(D, 0), create(Y)],
    "deletes itself": [OTHER, Delete(D, -1)],
    "deletes a child": [OTHER, Delete(X, -1)],
    "deletes a child and itself": [Delete(X, -1), Delete(D, -1)],
    "deletes itself and sets": [SetData(D, b"new", -1), Delete(D, -1)],
    "makes itself again": [Delete(D, -1), create(D)],
    "makes itself again with a child": [Delete(D, -1), create(D), create(Y)],
}


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


# ---- what one client issues at once ------------------------------------------------------------

TOUCHES: Mapping[str, Request] = {
    **touches(D),
    **{f"transaction {name}": Transaction(each) for name, each in TRANSACTIONS.items()},
}
PINNED = [hint for hint, where in HINTS.items() if where not in (None, UNPINNED)]
NOTHING: Mapping[str, Sequence[Request]] = {"does nothing": []}
IN_ORDER = Promises(observe=looked_at(D), mirrors_per_life=None, is_in_order=True)


@dataclass(frozen=True)
class GrownMistaken:
    """A client remembers something of a directory; another is at work there, and ends; the first does not learn of
    that, and issues two operations at once: they are done in their order."""

    state: str
    remembers: str
    maps: str
    other: str
    one: str
    two: str
    family: ClassVar[str] = "grown-mistaken"

    def scenario(self) -> Scenario:
        begun = beginning(self.state, self.maps, (self.remembers, "nothing"))
        other = {**NOTHING, **programs(D)}[self.other]
        return mistaken(name_of(self), begun, [], other, [TOUCHES[self.one], TOUCHES[self.two]], IN_ORDER)

    @classmethod
    def at_random(cls, dice: random.Random) -> GrownMistaken:
        return taken(
            lambda: cls(*drawn(dice, STATES, HINTS, MAPS, {**NOTHING, **programs(D)}, TOUCHES, TOUCHES)),
            lambda each: (
                (_is_numbered(each.state, each.maps) or "create with a number" not in (each.one, each.two))
                and not is_overtaken(each.remembers, each.one, each.two)
            ),
        )


def is_overtaken(remembers: str, one: str, two: str) -> bool:
    """Whether `two` may be done before `one`, because the client remembers a pin of an earlier life."""
    return remembers in PINNED and _is_late(one, two)


def _is_late(one: str, two: str) -> bool:
    """As families.is_late; nor does a transaction behind a create wait for it, or a change for a listing."""
    if one == "get_children":
        return two.startswith(("create", "transaction", "delete of the child"))
    return is_late(one, two) or (one in ("create", "create with a number") and two.startswith("transaction"))


# How a client has learned where a directory has its children: the state to begin with, and what it has done.
KNOWN: Mapping[str, tuple[str, Sequence[Request]]] = {
    "made it": ("missing", first_child(D)),
    "listed it": ("mirrored", [GetChildren(D, None)]),
    "read its stat": ("mirrored", [Exists(D, None)]),
    "listed a native one": ("native", [GetChildren(D, None)]),
    "read a child of an adopted one": ("adopted", [GetData(X, None)]),
}


@dataclass(frozen=True)
class GrownRemembered:
    """As families.Remembered: a client learns of a directory; another is at work there; then the first makes or
    deletes it and goes on, at once."""

    knows: str
    maps: str
    other: str
    again: str
    when: str
    at_once: str
    family: ClassVar[str] = "grown-remembered"

    def scenario(self) -> Scenario:
        state, known = KNOWN[self.knows]
        begun, last = beginning(state, self.maps, ("nothing", "nothing")), at_once(D)[self.at_once]
        other, made = programs(D)[self.other], again(D)[self.again]
        return remembered(name_of(self), begun, known, other, made, self.when, last, IN_ORDER)

    @classmethod
    def at_random(cls, dice: random.Random) -> GrownRemembered:
        return taken(
            lambda: cls(*drawn(dice, KNOWN, MAPS, programs(D), again(D), WHEN, at_once(D))),
            lambda each: _is_numbered(KNOWN[each.knows][0], each.maps) or "numbers" not in each.at_once,
        )
