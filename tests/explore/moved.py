"""Scenarios of a directory whose children a move has brought to another ensemble: its pin has a generation."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import ClassVar

from parkazoo.kazoo_private import Create, Delete, SetData, Transaction
from parkazoo.protocol.pin import encode_pin
from parkazoo.protocol.placement import PIN, Place, join, mirror_path
from parkazoo.protocol.plans import PLANS
from parkazoo.types.znodes import ZnodeStat
from tests.explore.alone import abandon, make_context, make_grown, must, outcome
from tests.explore.directories import OPERATIONS, in_order
from tests.explore.families import TROUBLES, beside, is_gap, looked_at, name_of
from tests.explore.grown import (
    ADOPTED,
    DROP,
    EPOCHS,
    HINTS,
    MAKE,
    MAPS,
    MKDIR,
    RMDIR,
    D,
    State,
    brought,
    drawn,
)
from tests.explore.grown_families import AFTERWARDS, NUMBERS, TRANSACTIONS
from tests.explore.model import Model
from tests.explore.pinned import home_by_pins, pin_at
from tests.explore.scenario import MOVE, MOVED, MOVED_TO, Asking, Beginning, Promises, Scenario
from tests.where_is import where_is

# What the older client has done before the move, and behind it; after how many steps its last operation stops.
STATES: Mapping[str, tuple[State, State]] = {
    "moved": (State(older=[MKDIR, MAKE]), State()),
    "moved empty": (State(older=[MKDIR, MAKE, DROP]), State()),
    "delete abandoned early": (State(older=[MKDIR, MAKE, DROP]), State(older=[RMDIR], steps=7)),
    "delete abandoned late": (State(older=[MKDIR, MAKE, DROP]), State(older=[RMDIR], steps=9)),
    "made again": (State(older=[MKDIR, MAKE, DROP]), State(older=[RMDIR, MKDIR, MAKE])),
}
REMEMBERED: Mapping[str, int | None] = {**HINTS, "copy": MOVED}


def move(model: Model) -> None:
    """The children of D go to MOVED_TO, at one moment."""
    home, copy = home_by_pins(model, 0, D), mirror_path(D, MOVE)
    pin = pin_at(model, home)
    assert pin is not None
    old = Place(int(pin.on[1:]), mirror_path(D, pin.generation))
    mirror = model.nodes[old.ensemble][old.path]
    fence = must(model.execute(MOVED_TO, SetData(where_is(ADOPTED, D).fence, b"", -1)))
    assert isinstance(fence, ZnodeStat)
    must(model.execute(MOVED_TO, Create(copy, b"", mirror.acl, 0)))
    for _ in range(mirror.created - len(mirror.children)):
        must(model.execute(MOVED_TO, Create(join(copy, "-"), b"", mirror.acl, 0)))
        must(model.execute(MOVED_TO, Delete(join(copy, "-"), -1)))
    for name in sorted(mirror.children):
        child = model.nodes[old.ensemble][join(old.path, name)]
        must(model.execute(MOVED_TO, Create(join(copy, name), child.data, child.acl, 0)))
        must(model.execute(old.ensemble, Delete(join(old.path, name), -1)))
    must(model.execute(old.ensemble, Delete(old.path, -1)))
    path = join(home.path, PIN)
    acl = model.nodes[home.ensemble][path].acl
    data = encode_pin(fence, f"e{MOVED_TO}", MOVE)
    must(model.execute(home.ensemble, Transaction([Delete(path, -1), Create(path, data, acl, 0)])))


@cache
def beginning(state: str, maps: str, hints: tuple[str, str]) -> Beginning:
    """:param hints: what the older client remembers, and the newer one."""
    before, behind = STATES[state]
    remembered = [[(D, where)] if (where := REMEMBERED[hint]) is not None else [] for hint in hints]
    begun = brought(before, MAPS[maps], remembered)
    model, specification, older = begun.model.copy(), begun.specification.copy(), MAPS[maps].older
    move(model)
    assert older is not None
    context = make_grown(make_context(ADOPTED, "behind"), ADOPTED, older)
    done, last = (behind.older, ()) if behind.steps is None else (behind.older[:-1], behind.older[-1:])
    for request in done:
        must(outcome(model, PLANS[request.type].operation(context, request)))
        must(specification.execute(0, request))
    for request in last:
        with suppress(StopIteration):
            abandon(model, PLANS[request.type].operation(context, request), behind.steps or 0)
    return replace(begun, model=model, specification=specification, abandoned=[*last])


@dataclass(frozen=True)
class Moved:
    """Two clients on it: an operation each, a transaction, or children with numbers."""

    state: str
    one: str
    other: str
    maps: str
    remembers: str
    other_remembers: str
    trouble: str
    family: ClassVar[str] = "moved"

    def scenario(self) -> Scenario:
        begun = beginning(self.state, self.maps, (self.remembers, self.other_remembers))
        both = [self.one, self.other]
        if set(both) <= set(OPERATIONS) and not is_gap(both):
            promises = Promises(observe=looked_at(D))
        else:
            promises = Promises(observe=AFTERWARDS, mirrors_per_life=None, of_watches=False)
        return beside(name_of(self), begun, [*map(_program, both)], TROUBLES[self.trouble], promises)

    @classmethod
    def at_random(cls, dice: random.Random) -> Moved:
        numbers: Sequence[str] = [] if dice.randrange(3) else [*NUMBERS]
        programs = [*OPERATIONS, *TRANSACTIONS]
        both = [*drawn(dice, numbers or programs, numbers or programs)]
        return cls(*drawn(dice, STATES), *both, *drawn(dice, EPOCHS, REMEMBERED, REMEMBERED, TROUBLES))


def _program(name: str) -> Callable[[], Asking]:
    if name in NUMBERS:
        return in_order(NUMBERS[name])
    if name in TRANSACTIONS:
        return in_order([Transaction(TRANSACTIONS[name])])
    return partial(OPERATIONS[name], D)
