"""Scenarios of clients whose map has grown: they guess differently, remember what is wrong, and find the pins.

One ensemble was adopted, 0. Then came 1 and 2: an older client's epoch and a newer one's give the directory to
any.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import ClassVar, NamedTuple

from kazoo.security import OPEN_ACL_UNSAFE

from parkazoo.kazoo_private import Create, Delete
from parkazoo.protocol.grown.claims import GROWN_PLANS
from parkazoo.protocol.grown.places import NATIVE, UNPINNED
from parkazoo.protocol.placement import Placement
from parkazoo.protocol.plans import PLANS
from tests.explore.alone import abandon, make_context, make_grown, must, outcome, prepared
from tests.explore.directories import OPERATIONS, create, emptied, first_child, try_again
from tests.explore.families import TROUBLES, is_gap, looked_at, name_of
from tests.explore.model import Model
from tests.explore.scenario import Beginning, Knows, Promises, Scenario
from tests.explore.znodes import Request

ADOPTED = Placement(3, 0, lambda path: 0)
D = "/d"
# Where the epoch of the older client puts the directory, and that of the newer one.
EPOCHS: Mapping[str, tuple[int, int]] = {"away": (1, 2), "to home": (1, 0), "from home": (0, 2)}
HINTS: Mapping[str, int | None] = {"nothing": None, "unpinned": UNPINNED, "native": NATIVE, "b": 1, "c": 2}


def drawn(dice: random.Random, *words: Iterable[str]) -> list[str]:
    """One word of each."""
    return [dice.choice(list(each)) for each in words]


def guess(ensemble: int) -> Callable[[str], int]:
    return lambda path: ensemble


class State(NamedTuple):
    """What has brought the directory into it: plain ZooKeeper, then the older client.

    :param steps: after how many steps the last is abandoned.
    """

    plain: Sequence[Request] = ()
    older: Sequence[Request] = ()
    steps: int | None = None


MKDIR, MAKE, DROP, RMDIR = create(D), create(f"{D}/x"), Delete(f"{D}/x", -1), Delete(D, -1)
STATES: Mapping[str, State] = {
    "missing": State(),
    "leaf": State([MKDIR]),
    "adopted": State(first_child(D)),
    "adopted empty": State(emptied(D)),
    "native": State(emptied(D), [MAKE]),
    "native empty": State(emptied(D), [MAKE, DROP]),
    "promotion abandoned": State([MKDIR], [MAKE], 4),
    "mirrored": State([MKDIR], [MAKE]),
    "mirrored empty": State([MKDIR], [MAKE, DROP]),
    "delete abandoned early": State([MKDIR], [MAKE, DROP, RMDIR], 6),
    "delete abandoned late": State([MKDIR], [MAKE, DROP, RMDIR], 9),
}


@cache
def beginning(state: str, epochs: str, hints: tuple[str, str]) -> Beginning:
    """:param hints: what the older client remembers, and the newer one."""
    older, newer = map(guess, EPOCHS[epochs])
    knows = [Knows(older, hint_of(D, hints[0])), Knows(newer, hint_of(D, hints[1])), Knows(newer)]
    return brought(STATES[state], older, knows)


def hint_of(path: str, hint: str) -> Sequence[tuple[str, int]]:
    where = HINTS[hint]
    return [] if where is None else [(path, where)]


def brought(state: State, older: Callable[[str], int], knows: Sequence[Knows]) -> Beginning:
    """A beginning in a state.

    :param older: what the client guesses that has brought it about.
    """
    model, specification = prepared(ADOPTED), Model(1)
    fence = ADOPTED.directory(D).fence
    for ensemble in range(ADOPTED.ensembles):
        must(model.execute(ensemble, Create(fence, b"", OPEN_ACL_UNSAFE, 0)))
    plain = make_context(ADOPTED, "plain")
    before = make_grown(make_context(ADOPTED, "before"), ADOPTED, Knows(older))
    requests, last = [*state.older], []
    if state.steps is not None:
        last = [requests.pop()]
    for request in state.plain:
        must(outcome(model, PLANS[request.type].operation(plain, request)))
    for request in requests:
        must(outcome(model, GROWN_PLANS[request.type].operation(before, request)))
    for request in last:
        abandon(model, GROWN_PLANS[request.type].operation(before, request), state.steps or 0)
    for request in (*state.plain, *requests):
        must(specification.execute(0, request))
    return Beginning(ADOPTED, model, specification, last, knows)


@dataclass(frozen=True)
class Grown:
    """Two operations on a directory in a state, by an older client and a newer one.

    :param epochs: where theirs put it. :param remembers: what the older client remembers, and `other_remembers`.
    """

    state: str
    one: str
    other: str
    epochs: str
    remembers: str
    other_remembers: str
    trouble: str
    family: ClassVar[str] = "grown"

    def scenario(self) -> Scenario:
        operations = [self.one, self.other]
        gap = is_gap(operations)
        promises = Promises(observe=looked_at(D), mirrors_per_life=None if gap else 1, of_watches=not gap)
        programs = [try_again(partial(OPERATIONS[each], D)) for each in operations]
        begun = beginning(self.state, self.epochs, (self.remembers, self.other_remembers))
        return Scenario(name_of(self), begun, programs, TROUBLES[self.trouble], promises=promises)

    @classmethod
    def at_random(cls, dice: random.Random) -> Grown:
        operations = list(OPERATIONS)
        return cls(*drawn(dice, STATES, operations, operations, EPOCHS, HINTS, HINTS, TROUBLES))
