"""Scenarios by name. A name is a family and the values of its fields: ``pair/leaf/create/delete/a-crash``.

The last field of some is the form of the clients' map. Without it, the map is plain. Otherwise it names the maps
of an older client and of a newer one, and what each remembers: ``pair/leaf/create/delete/a-crash/away-nothing-b``.
See grown.py. There are too many of these, so they are taken at random.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from functools import partial
from typing import ClassVar, Protocol, TypeVar

from parkazoo.kazoo_private import (
    CheckVersion,
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
from parkazoo.protocol.steps import WriteRequest
from tests.explore import directories, grown
from tests.explore.directories import (
    CLOSED,
    OPERATIONS,
    STATES,
    D,
    acls_are_alike,
    create,
    first_child,
    in_order,
    try_again,
)
from tests.explore.grown import HINTS, MAPS, drawn
from tests.explore.scenario import UNPINNED, Asking, Beginning, Program, Promises, Scenario, Troubles, Turn
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
    return "/".join(word.replace(" ", "-") for word in words if word != PLAIN)


# ---- the form of the map -----------------------------------------------------------------------

T = TypeVar("T")
PLAIN = "plain"
NUMBERED = "create with a number"
# No child of theirs is native, nor will be: there a number is skipped when the pin comes.
NUMBERED_MAPS = [name for name, maps in MAPS.items() if not maps.may_skip_numbers]
NUMBERED_STATES = [state for state in grown.STATES if "adopted" not in state and "native" not in state]


def in_state(state: str, form: str) -> tuple[str, Beginning]:
    """A directory, and a beginning with it in a state."""
    if form == PLAIN:
        return STATES[state].directory, directories.beginning(state)
    maps, older, newer = form.rsplit(" ", 2)
    return grown.D, grown.beginning(state, maps, (older, newer))


def is_numbered(state: str, form: str) -> bool:
    """Whether a number is never skipped."""
    return form == PLAIN or (state in NUMBERED_STATES and form.rsplit(" ", 2)[0] in NUMBERED_MAPS)


def taken(draw: Callable[[], T], is_fit: Callable[[T], bool]) -> T:
    """The first that fits."""
    while not is_fit(member := draw()):
        pass
    return member


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
    form: str = PLAIN
    family: ClassVar[str] = "pair"

    def scenario(self) -> Scenario:
        return _at_once(name_of(self), self.state, [self.one, self.other], TROUBLES[self.trouble], self.form)

    @classmethod
    def members(cls, troubles: Sequence[str] = ONE_TROUBLE) -> Iterator[Pair]:
        for trouble, (one, other), state in itertools.product(troubles, PAIRS, STATES):
            yield cls(state, one, other, trouble)

    @classmethod
    def at_random(cls, dice: random.Random) -> Pair:
        words = grown.STATES, OPERATIONS, OPERATIONS, MAPS, HINTS, HINTS, TROUBLES
        state, one, other, *form, trouble = drawn(dice, *words)
        return cls(state, one, other, trouble, " ".join(form))


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


def _at_once(name: str, state: str, operations: Sequence[str], troubles: Troubles, form: str = PLAIN) -> Scenario:
    d, begun = in_state(state, form)
    promises = promises_of(d, operations)
    if form == PLAIN and troubles == TROUBLES["lag"]:
        promises = replace(promises, at_end=acls_are_alike)
    return beside(name, begun, [partial(OPERATIONS[each], d) for each in operations], troubles, promises)


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
        NUMBERED: create(d + "/s", SEQUENCE),
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
    form: str = PLAIN
    family: ClassVar[str] = "own-past"

    def scenario(self) -> Scenario:
        d, begun = in_state(self.state, self.form)
        both = [[changes(d)[self.change], reads(d)[self.read]], programs(d)[self.other]]
        promises = Promises(observe=looked_at(d), mirrors_per_life=None)
        return Scenario(name_of(self), begun, both, Troubles(has_lag=True), promises=promises)

    @classmethod
    def members(cls) -> Iterator[OwnPast]:
        for words in itertools.product(STATES, changes(D), reads(D), programs(D)):
            yield cls(*words)

    @classmethod
    def at_random(cls, dice: random.Random) -> OwnPast:
        def draw() -> OwnPast:
            *words, maps, older, newer = drawn(dice, *of_each, MAPS, HINTS, HINTS)
            return cls(*[*words, f"{maps} {older} {newer}"])

        of_each = grown.STATES, changes(D), reads(D), programs(D)
        return taken(draw, lambda each: each.change != NUMBERED or is_numbered(each.state, each.form))


# ---- what a client remembers -------------------------------------------------------------------

X, Y = D + "/x", D + "/y"
WHEN = ("awaited", "at once")
NOTHING = "nothing"


def learned(d: str, with_a_child: str) -> Mapping[str, tuple[str, Sequence[Request]]]:
    """How a client learns that a directory has a mirror: the state to begin with, and what it has done."""
    return {
        "made it": ("missing", first_child(d)),
        "listed it": (with_a_child, [GetChildren(d, None)]),
        "read its stat": (with_a_child, [Exists(d, None)]),
    }


KNOWN = learned(D, "with a child")
GROWN_KNOWN: Mapping[str, tuple[str, Sequence[Request]]] = {
    **learned(grown.D, "mirrored"),
    "listed a native one": ("native", [GetChildren(grown.D, None)]),
    "read a child of an adopted one": ("adopted", [GetData(grown.D + "/x", None)]),
}


def in_their_order(d: str, form: str) -> Promises:
    return Promises(observe=looked_at(d), mirrors_per_life=1 if form == PLAIN else None, is_in_order=True)


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
    form: str = PLAIN
    family: ClassVar[str] = "remembered"

    def scenario(self) -> Scenario:
        state, known = self._known
        d, begun = in_state(state, self.form)
        made, last = again(d)[self.again], at_once(d)[self.at_once]
        awaited = made if self.when == "awaited" else []
        mine = in_order([*known, *awaited, [*(() if awaited else made), *last]])
        opening = [Turn(0, len(known)), Turn(1), Turn(0, len(awaited))]
        both: list[Program] = [mine, programs(d)[self.other]]
        return Scenario(name_of(self), begun, both, opening=opening, promises=in_their_order(d, self.form))

    @property
    def _known(self) -> tuple[str, Sequence[Request]]:
        return (KNOWN if self.form == PLAIN else GROWN_KNOWN)[self.knows]

    @classmethod
    def members(cls) -> Iterator[Remembered]:
        for words in itertools.product(KNOWN, programs(D), again(D), WHEN, at_once(D)):
            yield cls(*words)

    @classmethod
    def at_random(cls, dice: random.Random) -> Remembered:
        def draw() -> Remembered:
            words = GROWN_KNOWN, MAPS, programs(D), again(D), WHEN, at_once(D)
            knows, maps, *others = drawn(dice, *words)
            return cls(*[knows, *others, f"{maps} {NOTHING} {NOTHING}"])

        return taken(draw, lambda each: "numbers" not in each.at_once or is_numbered(each._known[0], each.form))


def transactions(d: str) -> Mapping[str, Sequence[WriteRequest]]:
    x, y, other, itself = d + "/x", d + "/y", create("/other"), create(d)
    set_d = SetData(d, b"new", -1)
    return {
        "below": [create(x), create(y)],
        "below and set": [create(y), SetData(x, b"new", -1)],
        "below and check": [CheckVersion(x, -1), create(y)],
        "below and beside": [create(x), other],
        "instead": [Delete(x, -1), create(y)],
        "itself and a child": [itself, create(x)],
        "itself and children beside": [other, itself, create(x), create(y)],
        "set and a child": [set_d, create(y)],
        "check and a child": [CheckVersion(d, 0), create(y)],
        "deletes itself": [other, Delete(d, -1)],
        "deletes a child": [other, Delete(x, -1)],
        "deletes a child and itself": [Delete(x, -1), Delete(d, -1)],
        "deletes itself and sets": [set_d, Delete(d, -1)],
        "makes itself again": [Delete(d, -1), itself],
        "makes itself again with a child": [Delete(d, -1), itself, create(y)],
    }


# What is issued at once about a directory that is no more what the client remembers.
def touches(d: str) -> Mapping[str, Request]:
    return {
        **changes(d),
        **reads(d),
        "set": SetData(d, b"new", -1),
        "set_acls": SetACL(d, CLOSED, -1),
        "transaction below": Transaction([create(d + "/x"), create(d + "/y")]),
    }


TOUCHES: Mapping[str, Request] = {
    **touches(grown.D),
    **{f"transaction {name}": Transaction(each) for name, each in transactions(grown.D).items()},
}
OTHERS: Mapping[str, Sequence[Request]] = {"does nothing": [], **programs(grown.D)}
PINNED = [hint for hint, where in HINTS.items() if where not in (None, UNPINNED)]


@dataclass(frozen=True)
class Mistaken:
    """A client remembers something of a directory; another is at work there; the first does not learn of that.

    :param knows: on a plain map, how the client has learned of a mirror; otherwise the state to begin with.
    :param other: what the other client does to its end.
    :param one: what the first client issues then, and `two` behind it, without waiting.
    """

    knows: str
    other: str
    one: str
    two: str
    form: str = PLAIN
    family: ClassVar[str] = "mistaken"

    def scenario(self) -> Scenario:
        state, known = KNOWN[self.knows] if self.form == PLAIN else (self.knows, [])
        d, begun = in_state(state, self.form)
        issued = touches(d) if self.form == PLAIN else TOUCHES
        mine = in_order([*known, [issued[self.one], issued[self.two]]])
        both: list[Program] = [mine, (programs(d) if self.form == PLAIN else OTHERS)[self.other]]
        opening = [*([Turn(0, len(known))] if known else []), Turn(1)]
        return Scenario(name_of(self), begun, both, opening=opening, promises=in_their_order(d, self.form))

    @classmethod
    def members(cls) -> Iterator[Mistaken]:
        others = ("deletes", "makes again", "makes again with a child")
        for knows, other, one, two in itertools.product(KNOWN, others, touches(D), touches(D)):
            if not (other == "makes again" and is_late(one, two)):
                yield cls(knows, other, one, two)

    @classmethod
    def at_random(cls, dice: random.Random) -> Mistaken:
        def draw() -> Mistaken:
            words = grown.STATES, HINTS, MAPS, OTHERS, TOUCHES, TOUCHES
            state, remembers, maps, *others = drawn(dice, *words)
            return cls(*[state, *others, f"{maps} {remembers} {NOTHING}"])

        return taken(draw, lambda each: are_in_order(each.knows, each.form, each.one, each.two))


def are_in_order(state: str, form: str, *issued: str) -> bool:
    """Whether a client of a grown map does in this order what it issues at once."""
    _, remembers, _ = form.rsplit(" ", 2)
    return (NUMBERED not in issued or is_numbered(state, form)) and not any(
        is_overtaken(remembers, *pair) for pair in itertools.combinations(issued, 2)
    )


def is_late(one: str, two: str) -> bool:
    """Whether `one` makes the first child again too late for `two`: docs/design/protocol.md, "Known gaps"."""
    makes = ("create", NUMBERED, "transaction below")
    looks = ("get of the child", "delete of the child", "get_children", "get_children with stat")
    return one in makes and two in looks


def is_overtaken(remembers: str, one: str, two: str) -> bool:
    """Whether `two` may be done before `one`, because the client remembers a pin of an earlier life.

    A transaction behind a create does not wait for it then, nor a change for a listing.
    """
    if remembers not in PINNED:
        return False
    if one == "get_children":
        return two.startswith(("create", "transaction", "delete of the child"))
    return is_late(one, two) or (one in ("create", NUMBERED) and two.startswith("transaction"))
