"""Clients for which all ensembles have one order, on servers that lag; on a plain map, and on a grown one."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from parkazoo.kazoo_private import (
    Create,
    Delete,
    Exists,
    GetChildren,
    GetChildren2,
    GetData,
    SetACL,
    SetData,
    Sync,
    Transaction,
)
from tests.explore import grown
from tests.explore.directories import CLOSED, D, beginning, create
from tests.explore.families import looked_at, name_of, taken
from tests.explore.grown import drawn
from tests.explore.risen import RISING, rising
from tests.explore.scenario import Asking, Beginning, Program, Promises, Scenario, Troubles
from tests.explore.znodes import Request

BESIDE: Create = create("/beside")


def does(d: str) -> Mapping[str, Sequence[Request]]:
    """What a client does. The directory is on one ensemble, its children may be on another."""
    x, y = d + "/x", d + "/y"
    set_d, set_x = SetData(d, b"new", -1), SetData(x, b"new", -1)
    return {
        "sets above and below": [set_d, set_x],
        "sets below and above": [set_x, set_d],
        "creates and sets": [create(y), set_d],
        "sets and creates": [set_d, create(y)],
        "creates and sets below": [create(y), set_x],
        "deletes and sets": [Delete(x, -1), set_d],
        "sets and deletes": [set_d, Delete(x, -1)],
        "empties": [Delete(x, -1), Delete(d, -1), BESIDE],
        "closes and sets": [SetACL(d, CLOSED, -1), set_x],
        "creates below and beside": [create(y), BESIDE],
        "creates beside and sets": [BESIDE, set_x],
        "creates together and sets": [Transaction([create(y), create(d + "/z")]), set_d],
        "creates together and beside": [Transaction([create(y), create(d + "/z")]), Transaction([BESIDE])],
    }


def sees(d: str) -> Mapping[str, Sequence[Request]]:
    """What another one sees, which may do something about it."""
    x, y = d + "/x", d + "/y"
    get_d, get_x, names = GetData(d, None), GetData(x, None), GetChildren(d, None)
    set_x, look_y, look_beside = SetData(x, b"mine", -1), Exists(y, None), Exists(BESIDE.path, None)
    return {
        "gets above and below": [get_d, get_x],
        "gets below and above": [get_x, get_d],
        "gets and lists": [get_d, names],
        "lists and gets": [names, get_d],
        "lists with stat and gets": [GetChildren2(d, None), get_d, get_x],
        "lists and looks beside": [names, look_beside, Exists(d, None)],
        "looks beside and below": [look_beside, look_y],
        "gets below and above twice": [get_x, get_d, get_d],
        "gets below and above and below": [get_x, get_d, get_x],
        "gets and looks below": [get_x, look_y],
        "gets and looks beside": [get_x, look_beside],
        "fails to set and gets": [SetData(d, b"mine", 0), get_x],
        "sets above and gets": [SetData(d, b"mine", 1), get_x],
        "gets and sets above and gets": [get_x, SetData(d, b"mine", -1), get_d],
        "sets and gets and looks below": [set_x, get_x, look_y],
        "syncs and gets": [get_x, Sync(d), get_d],
    }


OTHERS: Mapping[str, Sequence[Request]] = {
    "nothing": [],
    "gets below and above": [GetData(D + "/x", None), GetData(D, None)],
    "sets below": [SetData(D + "/x", b"other", -1)],
}
WITH: Mapping[str, Troubles] = {
    "lag": Troubles(has_lag=True),
    "lag and a lost connection": Troubles(losses=1, has_lag=True),
}
AWAITED, AT_ONCE = HOW = ("awaited", "at once")
STATES = ("with a child", "leaf")
GROWN_STATES: Mapping[str, Sequence[str]] = {  # and what a client may remember that is right
    "mirrored": ("nothing", "b"),
    "leaf": ("nothing",),
    "native": ("nothing", "native"),
}


def in_turn(requests: Sequence[Request], how: str) -> Program:
    def at_once() -> Asking:
        if requests:
            yield [*requests]

    return requests if how == AWAITED else at_once


def _scenario(name: str, begun: Beginning, d: str, programs: Sequence[Program], trouble: str) -> Scenario:
    promises = Promises(observe=looked_at(d), mirrors_per_life=None, is_in_order=True)
    return Scenario(name, begun, programs, WITH[trouble], promises=promises, has_total_order=True)


@dataclass(frozen=True)
class Total:
    """A client does something on two ensembles, another looks at it.

    :param writes: whether the first one awaits each answer. :param reads: whether the second one does.
    :param other: what a third one does.
    """

    state: str
    does: str
    writes: str
    sees: str
    reads: str
    other: str
    trouble: str
    family: ClassVar[str] = "total"

    def scenario(self) -> Scenario:
        programs = [in_turn(does(D)[self.does], self.writes), in_turn(sees(D)[self.sees], self.reads)]
        if OTHERS[self.other]:
            programs.append(OTHERS[self.other])
        return _scenario(name_of(self), beginning(self.state), D, programs, self.trouble)

    @classmethod
    def at_random(cls, dice: random.Random) -> Total:
        return cls(*drawn(dice, STATES, does(D), HOW, sees(D), HOW, OTHERS, WITH))


@dataclass(frozen=True)
class GrownTotal:
    """As :class:`Total`, by an older client and a newer one.

    :param maps: by which they work. :param remembers: what the older client remembers of the directory, and
        `other_remembers`.
    """

    state: str
    does: str
    writes: str
    sees: str
    reads: str
    maps: str
    remembers: str
    other_remembers: str
    trouble: str
    family: ClassVar[str] = "grown-total"

    def scenario(self) -> Scenario:
        d = grown.D
        programs = [in_turn(does(d)[self.does], self.writes), in_turn(sees(d)[self.sees], self.reads)]
        begun = grown.beginning(self.state, self.maps, (self.remembers, self.other_remembers))
        return _scenario(name_of(self), begun, d, programs, self.trouble)

    @classmethod
    def at_random(cls, dice: random.Random) -> GrownTotal:
        d = grown.D
        words = GROWN_STATES, does(d), HOW, sees(d), HOW, grown.MAPS, grown.HINTS, grown.HINTS, WITH
        return taken(lambda: cls(*drawn(dice, *words)), lambda each: not each.is_gap)

    @property
    def is_gap(self) -> bool:
        """Whether what is issued at once goes by what is wrong: docs/design/protocol.md, "Known gaps"."""
        right = GROWN_STATES[self.state] if self.maps in grown.EPOCHS else ("nothing",)
        return (self.writes == AT_ONCE and self.remembers not in right) or (
            self.reads == AT_ONCE and self.other_remembers not in right
        )


@dataclass(frozen=True)
class RisenTotal:
    """As :class:`GrownTotal`; the one or the other issues all at once, and rises to the next form in between.

    :param who: "writes" or "reads": the one who rises. :param how: what the other does.
    """

    state: str
    does: str
    sees: str
    how: str
    who: str
    maps: str
    trouble: str
    family: ClassVar[str] = "risen-total"

    def scenario(self) -> Scenario:
        d = grown.D
        both = [does(d)[self.does], sees(d)[self.sees]]
        mine, other = both if self.who == "writes" else reversed(both)
        programs = [rising(self.maps, *mine), in_turn(other, self.how)]
        begun = grown.beginning(self.state, self.maps, ("nothing", "nothing"))
        return _scenario(name_of(self), begun, d, programs, self.trouble)

    @classmethod
    def at_random(cls, dice: random.Random) -> RisenTotal:
        d = grown.D
        return cls(*drawn(dice, GROWN_STATES, does(d), sees(d), HOW, ("writes", "reads"), RISING, WITH))


TOTAL: Sequence[type[Total | GrownTotal | RisenTotal]] = (Total, GrownTotal, RisenTotal)
