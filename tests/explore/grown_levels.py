"""Scenarios of a grown map in which a directory and the one above it change places, and of rights."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import ClassVar, Protocol

from kazoo.security import ACL, OPEN_ACL_UNSAFE, Permissions

from parkazoo.kazoo_private import Create, Delete, Exists, GetChildren, GetData, SetACL
from parkazoo.protocol.placement import Placement
from parkazoo.protocol.where.places import NATIVE
from tests.explore.chosen import ACLS, ALICE, BOB, BOTH
from tests.explore.directories import create, in_order, only, try_again
from tests.explore.families import TROUBLES, Family, Mistaken, OwnPast, Pair, Remembered, looked_at, name_of, taken
from tests.explore.grown import ADOPTED, HINTS, MAPS, D, Maps, State, brought, drawn, hint_of, neighbours
from tests.explore.grown_deep import GrownDeep
from tests.explore.grown_families import GrownNumbers, GrownTransaction
from tests.explore.lives import mirrored
from tests.explore.model import Model
from tests.explore.moved import Moved
from tests.explore.risen import GrownRise, GrownRiseBeside
from tests.explore.scenario import Beginning, Knows, Program, Promises, Scenario, Troubles, Turn, Violation
from tests.explore.znodes import Request, Who

# ---- two levels --------------------------------------------------------------------------------

P, PD = "/p", "/p/d"
PX, PDX, PDY, PDZ = P + "/x", PD + "/x", PD + "/y", PD + "/z"
# Where the epochs put both directories: the older client's, then the newer one's.
TWO: Mapping[str, tuple[Mapping[str, int], Mapping[str, int]]] = {
    "apart": ({P: 1, PD: 2}, {P: 2, PD: 1}),
    "together": ({P: 1, PD: 1}, {P: 0, PD: 2}),
    "from home": ({P: 0, PD: 0}, {P: 1, PD: 1}),
}


def _guess(where: Mapping[str, int]) -> Callable[[str], int]:
    return lambda path: where.get(path, 0)


def _two_levels() -> Iterator[tuple[str, Maps]]:
    for name, (older, newer) in TWO.items():
        yield name, Maps(ADOPTED, Knows(_guess(older)), Knows(_guess(newer)))
        for forms, maps in neighbours(Placement(3, 0, _guess(older)), _guess(newer)):
            yield f"{name} {forms}", maps


TWO_MAPS: Mapping[str, Maps] = dict(_two_levels())
ABOVE = [create(P), create(PX), Delete(PX, -1)]
LEVELS: Mapping[str, State] = {
    "missing": State(),
    "mirrored": State([create(P)], [create(PD), create(PDX)]),
    "mirrored empty": State([create(P)], [create(PD), create(PDX), Delete(PDX, -1)]),
    "mirrored leaf": State([create(P)], [create(PD)]),
    "adopted": State([*ABOVE, create(PD), create(PDX)]),
    "native": State(ABOVE, [create(PD), create(PDX)]),
    "native leaf": State(ABOVE, [create(PD)]),
    "delete abandoned": State([create(P)], [create(PD), create(PDX), Delete(PDX, -1), Delete(PD, -1)], 8),
}
LEVEL_HINTS: Mapping[str, Mapping[str, int]] = {
    "nothing": {},
    "above b": {P: 1},
    "above c": {P: 2},
    "above native": {P: NATIVE},
    "below b": {PD: 1},
    "below c": {PD: 2},
    "below native": {PD: NATIVE},
    "b and c": {P: 1, PD: 2},
    "c and b": {P: 2, PD: 1},
    "both native": {P: NATIVE, PD: NATIVE},
}
CLEAR = [Delete(PDX, -1), Delete(PD, -1)]
LEVEL_PROGRAMS: Mapping[str, Sequence[Request]] = {
    "create": [create(PDY)],
    "delete of the child": [Delete(PDX, -1)],
    "get": [GetData(PDX, None)],
    "list": [GetChildren(PD, None)],
    "exists": [Exists(PD, None)],
    "delete": [Delete(PD, -1)],
    "make": [create(PD), create(PDY)],
    "list above": [GetChildren(P, None)],
    "delete above": [Delete(P, -1)],
    "make all again": [*CLEAR, Delete(P, -1), create(P), create(PD), create(PDX)],
    "make below again": [*CLEAR, create(PD), create(PDY)],
}
LEVELS_AFTERWARDS: Sequence[Request] = [
    *looked_at(PD),
    *looked_at(P),
    GetData(PDX, None),
    create(P),
    create(PD),
    create(PDZ),
    GetChildren(PD, None),
    Delete(PD, -1),
    *(Delete(child, -1) for child in (PDX, PDY, PDZ)),
    Delete(PD, -1),
    Delete(P, -1),
    create(P),
    GetChildren(P, None),
]


@dataclass(frozen=True)
class GrownLevels:
    """/p and /p/d: an older client and a newer one, whose hints of both may be wrong."""

    state: str
    one: str
    other: str
    maps: str
    remembers: str
    other_remembers: str
    trouble: str
    family: ClassVar[str] = "grown-levels"

    def scenario(self) -> Scenario:
        begun = _levels(self.state, self.maps, self.remembers, self.other_remembers)
        both = [try_again(in_order(LEVEL_PROGRAMS[each])) for each in (self.one, self.other)]
        promises = Promises(observe=LEVELS_AFTERWARDS)
        return Scenario(name_of(self), begun, both, TROUBLES[self.trouble], promises=promises)

    @classmethod
    def at_random(cls, dice: random.Random) -> GrownLevels:
        words = LEVELS, LEVEL_PROGRAMS, LEVEL_PROGRAMS, TWO_MAPS, LEVEL_HINTS, LEVEL_HINTS, TROUBLES
        return taken(
            lambda: cls(*drawn(dice, *words)),
            lambda each: (
                not (each.one.endswith("again") and each.other.endswith("again"))
            ),  # too long to be judged
        )


@cache
def _levels(state: str, maps: str, one: str, other: str) -> Beginning:
    hints = [[*LEVEL_HINTS[each].items()] for each in (one, other)]
    return brought(LEVELS[state], TWO_MAPS[maps], hints)


# ---- rights ------------------------------------------------------------------------------------

# Bob may create, and may not read all of the ACL: the mirror has to be made by her who sets it.
SECRET = [ACL(Permissions.ALL, ALICE), ACL(Permissions.CREATE | Permissions.READ, BOB)]
SESSIONS = [Who((number,) * 5, frozenset([user]), has_all=False) for number, user in ((70, ALICE), (80, BOB))]
RIGHTS_STATES: Mapping[str, State] = {
    "leaf": State([Create(D, b"", BOTH, 0)]),
    "adopted": State([Create(D, b"", BOTH, 0), create(f"{D}/x")]),
    "native": State([Create(D, b"", BOTH, 0), create(f"{D}/x")], [create(f"{D}/y")]),
    "mirrored": State([Create(D, b"", BOTH, 0)], [create(f"{D}/x")]),
}


def acls_are_alike(beginning: Beginning, model: Model, has_crashed: bool) -> None:
    """Each mirror has its home's ACL, wherever it is."""
    for ensemble, nodes in enumerate(model.nodes):
        for directory in mirrored(beginning, model):
            home, mirror = beginning.home(model, directory), nodes.get(f"/parkazoo/mirrors/%2F{directory[1:]}")
            if mirror is not None and model.nodes[home.ensemble][home.path].acl != mirror.acl:
                raise Violation(f"the mirror of {directory} on {ensemble} has another ACL than the home")


def _rights(state: State, maps: str, remembers: str, other_remembers: str) -> Beginning:
    return brought(state, MAPS[maps], (hint_of(D, remembers), hint_of(D, other_remembers)))


@dataclass(frozen=True)
class GrownRights:
    """As chosen.Rights: two set ACLs that take the other's rights."""

    state: str
    acls: str
    maps: str
    remembers: str
    other_remembers: str
    family: ClassVar[str] = "grown-rights"

    def scenario(self) -> Scenario:
        begun = _rights(RIGHTS_STATES[self.state], self.maps, self.remembers, self.other_remembers)
        both: list[Sequence[Request]] = [[SetACL(D, acl, -1)] for acl in ACLS[self.acls]]
        promises = Promises(at_end=partial(acls_are_alike, begun))
        return Scenario(name_of(self), begun, both, promises=promises, whos=SESSIONS)

    @classmethod
    def at_random(cls, dice: random.Random) -> GrownRights:
        return cls(*drawn(dice, RIGHTS_STATES, ACLS, MAPS, HINTS, HINTS))


BEFORE: Mapping[str, tuple[State, Sequence[Request]]] = {
    "makes it": (State(), [Create(D, b"", SECRET, 0)]),
    **{f"sets {state}": (how, [SetACL(D, SECRET, -1)]) for state, how in RIGHTS_STATES.items()},
}
THEN: Mapping[str, Program] = {
    "nothing": [],
    "lists": [GetChildren(D, None)],
    "creates": [create(f"{D}/y")],
    "opens": [SetACL(D, OPEN_ACL_UNSAFE, -1)],
}
MEANWHILE: Mapping[str, Request] = {
    "creates": create(f"{D}/z"),
    "lists": GetChildren(D, None),
    "gets": GetData(D, None),
}


@dataclass(frozen=True)
class GrownSecret:
    """Alice gives a directory an ACL that bob may not read, though he may create there; then both are at work."""

    before: str
    then: str
    other: str
    maps: str
    remembers: str
    other_remembers: str
    family: ClassVar[str] = "grown-secret"

    def scenario(self) -> Scenario:
        state, before = BEFORE[self.before]
        begun = _rights(state, self.maps, self.remembers, self.other_remembers)
        both: list[Program] = [[*before, *THEN[self.then]], partial(only, MEANWHILE[self.other])]  # type: ignore[misc]
        promises = Promises(observe=looked_at(D), at_end=partial(acls_are_alike, begun))
        opening = [Turn(0, len(before))]
        return Scenario(name_of(self), begun, both, opening=opening, promises=promises, whos=SESSIONS)

    @classmethod
    def at_random(cls, dice: random.Random) -> GrownSecret:
        return cls(*drawn(dice, BEFORE, THEN, MEANWHILE, MAPS, HINTS, HINTS))


ADMITTED = [ACL(Permissions.ALL, ALICE), ACL(Permissions.ALL & ~Permissions.DELETE, BOB)]
NEW_ACLS: Mapping[str, Sequence[ACL]] = {"bob may read it": ADMITTED, "bob may not read it": SECRET}
SETTERS = ("the older", "the newer")


@dataclass(frozen=True)
class GrownAcl:
    """Alice gives a directory an ACL while bob makes a child in it, perhaps the first one."""

    state: str
    acl: str
    setter: str
    maps: str
    remembers: str
    other_remembers: str
    trouble: str
    family: ClassVar[str] = "grown-acl"

    def scenario(self) -> Scenario:
        begun = _rights(RIGHTS_STATES[self.state], self.maps, self.remembers, self.other_remembers)
        both: list[Sequence[Request]] = [[SetACL(D, NEW_ACLS[self.acl], -1)], [create(f"{D}/z")]]
        whos, troubles = [*SESSIONS], Troubles(has_lag=self.trouble == "lag")
        if self.setter == "the newer":
            both, whos = both[::-1], whos[::-1]
        promises = Promises(at_end=partial(acls_are_alike, begun))
        if self.state == "leaf" and self.acl == "bob may not read it":
            # He may be refused then, where one ZooKeeper would make the child.
            promises = replace(promises, judge=lambda request, result: None)
        return Scenario(name_of(self), begun, both, troubles, promises=promises, whos=whos)

    @classmethod
    def at_random(cls, dice: random.Random) -> GrownAcl:
        return cls(*drawn(dice, RIGHTS_STATES, NEW_ACLS, SETTERS, MAPS, HINTS, HINTS, ("nothing", "lag")))


class AtRandom(Family, Protocol):
    """A family that has too many members to visit all."""

    @classmethod
    def at_random(cls, dice: random.Random) -> Family: ...


GROWN: Sequence[type[AtRandom]] = (
    Pair,
    OwnPast,
    GrownTransaction,
    GrownNumbers,
    Mistaken,
    Remembered,
    GrownLevels,
    GrownDeep,
    GrownRights,
    GrownSecret,
    GrownAcl,
    GrownRise,
    GrownRiseBeside,
    Moved,
)
