"""Scenarios by name. A name is a family and the values of its fields: ``pair/leaf/create/delete/a-crash``."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from functools import partial
from typing import ClassVar, Protocol

from parkazoo.kazoo_private import (
    Delete,
    Exists,
    GetChildren,
    GetChildren2,
    GetData,
    SetACL,
    SetData,
    Transaction,
)
from parkazoo.protocol.placement import split
from tests.explore.directories import (
    CLOSED,
    OPERATIONS,
    STATES,
    D,
    acls_are_alike,
    beginning,
    create,
    first_child,
    in_order,
    try_again,
)
from tests.explore.scenario import Asking, Beginning, Promises, Scenario, Troubles, Turn
from tests.explore.znodes import SEQUENCE, Request

TROUBLES: Mapping[str, Troubles] = {
    "a crash": Troubles(crashes=1),
    "a lost connection": Troubles(losses=1),
    "lag": Troubles(has_lag=True),
    "all of it": Troubles(1, 1, True),
}
ONE_TROUBLE = ("a crash", "a lost connection", "lag")
PAIRS = tuple(itertools.combinations_with_replacement(OPERATIONS, 2))


class Named(Protocol):
    """The scenarios that a family has are its instances; their fields are words."""

    family: ClassVar[str]


class Family(Named, Protocol):
    def scenario(self) -> Scenario: ...


def name_of(member: Named) -> str:
    words = (member.family, *astuple(member))  # type: ignore[call-overload]
    return "/".join(word.replace(" ", "-") for word in words)


def looked_at(d: str) -> Sequence[Request]:
    """What a client that comes at the end looks at."""
    return [GetChildren(d, None), Exists(d, None)]


# ---- several operations, each by a client of its own -------------------------------------------


@dataclass(frozen=True)
class Pair:
    """Two operations on a directory in a state."""

    state: str
    one: str
    other: str
    trouble: str
    family: ClassVar[str] = "pair"

    def scenario(self) -> Scenario:
        return _at_once(name_of(self), self.state, [self.one, self.other], TROUBLES[self.trouble])

    @classmethod
    def members(cls, troubles: Sequence[str] = ONE_TROUBLE) -> Iterator[Pair]:
        for trouble, (one, other), state in itertools.product(troubles, PAIRS, STATES):
            yield cls(state, one, other, trouble)


@dataclass(frozen=True)
class Three:
    """Three operations; of so many combinations some are taken at random.

    :param troubles: digits: crashes, losses, whether servers lag.
    """

    state: str
    one: str
    two: str
    three: str
    troubles: str
    family: ClassVar[str] = "three"

    def scenario(self) -> Scenario:
        crashes, losses, lag = map(int, self.troubles)
        troubles = Troubles(crashes, losses, bool(lag))
        return _at_once(name_of(self), self.state, [self.one, self.two, self.three], troubles)

    @classmethod
    def at_random(cls, dice: random.Random) -> Three:
        one, two, three = (dice.choice(list(OPERATIONS)) for _ in range(3))
        troubles = "".join(str(dice.randrange(2)) for _ in range(3))
        return cls(dice.choice(list(STATES)), one, two, three, troubles)


def _at_once(name: str, state: str, operations: Sequence[str], troubles: Troubles) -> Scenario:
    d = STATES[state].directory
    promises = promises_of(d, operations)
    if troubles == TROUBLES["lag"]:
        promises = replace(promises, at_end=acls_are_alike)
    return beside(
        name, beginning(state), [partial(OPERATIONS[each], d) for each in operations], troubles, promises
    )


def promises_of(d: str, operations: Sequence[str]) -> Promises:
    gap = is_gap(operations)
    return Promises(observe=looked_at(d), mirrors_per_life=None if gap else 1, of_watches=not gap)


def beside(
    name: str,
    begun: Beginning,
    programs: Sequence[Callable[[], Asking]],
    troubles: Troubles,
    promises: Promises,
) -> Scenario:
    """Each client has one thing to do, and does it once more after a lost connection."""
    return Scenario(name, begun, [try_again(each) for each in programs], troubles, promises=promises)


def is_gap(operations: Sequence[str]) -> bool:
    """Whether the mirror of a directory that lives may go: docs/design/protocol.md, "Known gaps"."""
    return {"delete with version", "set"} <= set(operations) or "transaction that deletes" in operations


# ---- a client's own past -----------------------------------------------------------------------


def changes(d: str) -> Mapping[str, Request]:
    x, above = d + "/x", split(d)[0]
    return {
        "create of itself": create(d),
        "delete": Delete(d, -1),
        "create": create(x),
        "delete of the child": Delete(x, -1),
        "create with a number": create(d + "/s", SEQUENCE),
        "transaction": Transaction([create(d), create(above.rstrip("/") + "/other")]),
    }


def reads(d: str) -> Mapping[str, Request]:
    return {
        "get_children": GetChildren(d, None),
        "get_children with stat": GetChildren2(d, None),
        "exists": Exists(d, None),
        "get": GetData(d, None),
        "get of the child": GetData(d + "/x", None),
    }


def programs(d: str) -> Mapping[str, Sequence[Request]]:
    """What another client does meanwhile to a directory; of its requests those that fail do no harm."""
    x, y = d + "/x", d + "/y"
    empty = [Delete(x, -1), Delete(d, -1)]
    return {
        "deletes": empty,
        "makes again": [*empty, create(d)],
        "makes again with a child": [*empty, create(d), create(y)],
        "makes": [create(d), create(x)],
    }


@dataclass(frozen=True)
class OwnPast:
    """A client changes something, then reads; another is at work, and servers lag."""

    state: str
    change: str
    read: str
    other: str
    family: ClassVar[str] = "own-past"

    def scenario(self) -> Scenario:
        d = STATES[self.state].directory
        return own_past(name_of(self), beginning(self.state), d, self.change, self.read, self.other)

    @classmethod
    def members(cls) -> Iterator[OwnPast]:
        for words in itertools.product(STATES, changes(D), reads(D), programs(D)):
            yield cls(*words)


def own_past(name: str, begun: Beginning, d: str, change: str, read: str, other: str) -> Scenario:
    """A client changes `d`, then reads; another is at work there, and servers lag."""
    both = [[changes(d)[change], reads(d)[read]], programs(d)[other]]
    promises = Promises(observe=looked_at(d), mirrors_per_life=None)
    return Scenario(name, begun, both, Troubles(has_lag=True), promises=promises)


# ---- what a client remembers -------------------------------------------------------------------

X, Y = D + "/x", D + "/y"
WHEN = ("awaited", "at once")
IN_ORDER = Promises(observe=looked_at(D), is_in_order=True)
# How a client knows that a directory has a mirror: the state to begin with, and what it has done.
KNOWN: Mapping[str, tuple[str, Sequence[Request]]] = {
    "made it": ("missing", first_child(D)),
    "listed it": ("with a child", [GetChildren(D, None)]),
    "read its stat": ("with a child", [Exists(D, None)]),
}


def again(d: str) -> Mapping[str, Sequence[Request]]:
    return {
        "creates": [create(d)],
        "deletes and creates": [Delete(d, -1), create(d)],
        "creates by transaction": [Transaction([create(d)])],
    }


def at_once(d: str) -> Mapping[str, Sequence[Request]]:
    x, y, numbered = d + "/x", d + "/y", create(d + "/s", SEQUENCE)
    return {
        "create get list": [create(y), GetData(d, None), GetChildren(d, None)],
        "create list delete": [create(y), GetChildren2(d, None), Delete(y, -1)],
        "create create exists": [create(x), create(y), Exists(x, None)],
        "create set delete": [create(y), SetData(d, b"new", -1), Delete(d, -1)],
        "numbers and list": [numbered, numbered, GetChildren(d, None)],
        "transaction list get": [Transaction([create(x), create(y)]), GetChildren(d, None), GetData(x, None)],
        "list create list": [GetChildren(d, None), create(y), GetChildren(d, None)],
    }


@dataclass(frozen=True)
class Remembered:
    """A client knows that a directory has a mirror; another deletes it; then the client issues operations at once.

    :param other: what another client does then, to its end.
    :param again: what the first client does with the directory next, "awaited" or "at once" as `when` says.
    :param at_once: and then, without waiting.
    """

    knows: str
    other: str
    again: str
    when: str
    at_once: str
    family: ClassVar[str] = "remembered"

    def scenario(self) -> Scenario:
        state, known = KNOWN[self.knows]
        other, made, last = programs(D)[self.other], again(D)[self.again], at_once(D)[self.at_once]
        return remembered(name_of(self), beginning(state), known, other, made, self.when, last, IN_ORDER)

    @classmethod
    def members(cls) -> Iterator[Remembered]:
        for words in itertools.product(KNOWN, programs(D), again(D), WHEN, at_once(D)):
            yield cls(*words)


def remembered(
    name: str,
    begun: Beginning,
    known: Sequence[Request],
    other: Sequence[Request],
    made: Sequence[Request],
    when: str,
    last: Sequence[Request],
    promises: Promises,
) -> Scenario:
    """A client learns of a directory; another is at work there; then the first does `made`, and `last` at once."""
    awaited = made if when == "awaited" else []
    mine = in_order([*known, *awaited, [*(() if awaited else made), *last]])
    opening = [Turn(0, len(known)), Turn(1), Turn(0, len(awaited))]
    return Scenario(name, begun, [mine, other], opening=opening, promises=promises)


# What is issued at once about a directory that is no more what the client remembers.
def touches(d: str) -> Mapping[str, Request]:
    return {
        **changes(d),
        **reads(d),
        "set": SetData(d, b"new", -1),
        "set_acls": SetACL(d, CLOSED, -1),
        "transaction below": Transaction([create(d + "/x"), create(d + "/y")]),
    }


@dataclass(frozen=True)
class Mistaken:
    """A client remembers that a directory has a mirror; another deletes it; the first does not learn of that.

    :param other: what the other client does to its end.
    :param one: what the first client issues then, and `two` behind it, without waiting.
    """

    knows: str
    other: str
    one: str
    two: str
    family: ClassVar[str] = "mistaken"

    def scenario(self) -> Scenario:
        state, known = KNOWN[self.knows]
        both = [touches(D)[self.one], touches(D)[self.two]]
        return mistaken(name_of(self), beginning(state), known, programs(D)[self.other], both, IN_ORDER)

    @classmethod
    def members(cls) -> Iterator[Mistaken]:
        others = ("deletes", "makes again", "makes again with a child")
        for knows, other, one, two in itertools.product(KNOWN, others, touches(D), touches(D)):
            if not (other == "makes again" and is_late(one, two)):
                yield cls(knows, other, one, two)


def mistaken(
    name: str,
    begun: Beginning,
    known: Sequence[Request],
    other: Sequence[Request],
    both: Sequence[Request],
    promises: Promises,
) -> Scenario:
    """A client learns of a directory; another is at work there; then the first issues `both` at once."""
    opening = [*([Turn(0, len(known))] if known else []), Turn(1)]
    return Scenario(name, begun, [in_order([*known, [*both]]), other], opening=opening, promises=promises)


def is_late(one: str, two: str) -> bool:
    """Whether `one` makes the first child again too late for `two`: docs/design/protocol.md, "Known gaps"."""
    makes = ("create", "create with a number", "transaction below")
    looks = ("get of the child", "delete of the child", "get_children", "get_children with stat")
    return one in makes and two in looks
