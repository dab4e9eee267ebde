"""Scenarios of a tree of three levels whose directories change places, each by itself.

A word has a letter for each level: an ensemble; or in a hint ``n`` for native, ``u`` for unpinned, ``x`` for
nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from parkazoo.kazoo_private import Delete, Exists, GetChildren, GetData, SetData, Transaction
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.placement import Placement
from parkazoo.protocol.where.places import NATIVE
from tests.explore.directories import create, in_order, try_again
from tests.explore.families import TROUBLES, name_of
from tests.explore.grown import ADOPTED, Hints, Maps, State, brought, drawn, neighbours
from tests.explore.scenario import UNPINNED, Knows, Program, Promises, Rise, Scenario, Turn
from tests.explore.znodes import Request

TREE = A, B, C = "/a", "/a/b", "/a/b/c"
X, Y, Z = C + "/x", C + "/y", C + "/z"
BESIDE = B + "/q"
MAKES = [create(A), create(B), create(C), create(X)]
TAKES_DOWN = [Delete(path, -1) for path in (X, Y, C, BESIDE, B, A)]
# What there is, and how much of it is of plain ZooKeeper.
TREES: Mapping[str, tuple[Sequence[Request], int]] = {
    "nothing": ([], 0),
    "a leaf": (MAKES[:1], 1),
    "two": (MAKES[:2], 2),
    "two of both": (MAKES[:2], 1),
    "three": (MAKES[:3], 3),
    "three of an older client": (MAKES[:3], 0),
    "all": (MAKES, 4),
    "all of both": (MAKES, 2),
    "all of an older client": (MAKES, 0),
    "emptied": ([*MAKES, Delete(X, -1)], 4),
    "emptied by an older client": ([*MAKES, Delete(X, -1), Delete(C, -1)], 2),
    "with a leaf beside": ([*MAKES[:2], create(BESIDE), *MAKES[2:]], 3),
}
PROGRAMS: Mapping[str, Sequence[Request]] = {
    "makes": MAKES,
    "makes the last": [create(X), create(Y)],
    "makes in it": [create(C), create(X)],
    "looks and makes": [GetData(C, None), create(B), create(C)],
    "looks and makes beside": [Exists(X, None), create(BESIDE), GetChildren(B, None)],
    "makes by transactions": [Transaction([create(C), create(X)]), Transaction([create(Y), SetData(X, b"1", -1)])],
    "makes the lowest again": [Delete(X, -1), Delete(C, -1), create(C), create(Y)],
    "makes two again": [Delete(X, -1), Delete(C, -1), Delete(B, -1), create(B), create(C), create(Y)],
    "makes all again": [*TAKES_DOWN, *MAKES],
    "takes down": TAKES_DOWN,
    "reads": [GetData(X, None), GetChildren(C, None), Exists(B, None), GetChildren(A, None)],
    "writes": [SetData(X, b"1", -1), SetData(C, b"1", -1), SetData(B, b"1", -1)],
}
AFTERWARDS: Sequence[Request] = [
    *(look for path in TREE for look in (GetChildren(path, None), Exists(path, None))),
    *MAKES[:3],
    create(Z),
    GetChildren(C, None),
    Delete(Z, -1),
    *TAKES_DOWN,
    *MAKES,
    *(GetChildren(path, None) for path in TREE),
]
BOTH_GROWN = "grown grown"
FORMS = [BOTH_GROWN, *(forms for forms, _ in neighbours(ADOPTED, ADOPTED.of_children))]
FIRST = ("adopted", "by the older")
RISES = ("nobody", "the older", "the older while it works")
ALONE: Mapping[str, Sequence[Turn]] = {"nobody": [], "the older": [Turn(0)], "the newer": [Turn(1)]}
HINT = {"n": NATIVE, "u": UNPINNED, "0": 0, "1": 1, "2": 2}


def _places(word: str) -> Callable[[str], int]:
    where = {path: int(digit) for path, digit in zip(TREE, word, strict=True)}
    return lambda path: where.get(path, 0)


def _hints(word: str) -> Hints:
    return [(path, HINT[each]) for path, each in zip(TREE, word, strict=True) if each != "x"]


def _word(dice: random.Random, letters: str) -> str:
    return "".join(dice.choice(letters) for _ in TREE)


@dataclass(frozen=True)
class GrownDeep:
    """Two clients on the tree. The older one may go on to the newer one's form, between its operations or in
    them. One may have done all that it has to do before the other begins, on servers that lag.
    """

    tree: str
    forms: str
    first: str
    older: str
    newer: str
    remembers: str
    other_remembers: str
    one: str
    other: str
    rises: str
    alone: str
    trouble: str
    family: ClassVar[str] = "grown-deep"

    def scenario(self) -> Scenario:
        first = ADOPTED if self.first == "adopted" else Placement(3, 0, _places(self.older))
        maps = Maps(first, Knows(_places(self.older)), Knows(_places(self.newer)))
        if self.forms != BOTH_GROWN:
            maps = dict(neighbours(first, _places(self.newer)))[self.forms]
        steps, plain = TREES[self.tree]
        begun = brought(
            State(steps[:plain], steps[plain:]), maps, (_hints(self.remembers), _hints(self.other_remembers))
        )
        programs = [self._mine(maps), try_again(in_order(PROGRAMS[self.other]))]
        promises = Promises(observe=AFTERWARDS, mirrors_per_life=None, of_watches=False)
        return Scenario(name_of(self), begun, programs, TROUBLES[self.trouble], ALONE[self.alone], promises)

    def _mine(self, maps: Maps) -> Program:
        mine = list(PROGRAMS[self.one])
        if self.rises == "nobody" or maps.newer is None:
            return try_again(in_order(mine))
        half = len(mine) // 2
        rise: list[Request | Rise] = [mine[half], Rise(maps.newer)]
        if self.rises == "the older":
            return in_order([*mine[:half], rise, *mine[half + 1 :]])
        return in_order([[*mine[:half], *rise, *mine[half + 1 :]]])

    @classmethod
    def at_random(cls, dice: random.Random) -> GrownDeep:
        tree, forms, first = drawn(dice, TREES, FORMS, FIRST)
        one_place, other_place = _word(dice, "012"), _word(dice, "012")
        one_hint, other_hint = _word(dice, "xxnu012"), _word(dice, "xxnu012")
        one, other = drawn(dice, PROGRAMS, PROGRAMS)
        older, newer = forms.split()
        rises = dice.choice(RISES) if Form[older.upper()] + 1 == Form[newer.upper()] else "nobody"
        words = drawn(dice, ALONE, TROUBLES)
        return cls(tree, forms, first, one_place, other_place, one_hint, other_hint, one, other, rises, *words)
