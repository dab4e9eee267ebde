"""Scenarios of clients whose map has grown: they guess differently, remember what is wrong, and find the pins.

One ensemble was adopted, 0. Then came 1 and 2: an older client's epoch and a newer one's give the directory to
any. Or the map is on its way there: the forms of the two clients' maps are neighbours, or the same.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import NamedTuple

from kazoo.security import OPEN_ACL_UNSAFE

from parkazoo.kazoo_private import Create, Delete
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.placement import Placement
from parkazoo.protocol.plans import PLANS
from parkazoo.protocol.where.places import NATIVE, by_first
from tests.explore.alone import abandon, make_context, make_grown, must, outcome, prepared
from tests.explore.directories import create, emptied, first_child
from tests.explore.model import Model
from tests.explore.scenario import UNPINNED, Beginning, Knows
from tests.explore.znodes import Request
from tests.where_is import where_is

ADOPTED = Placement(3, 0, lambda path: 0)
D = "/d"
Hints = Sequence[tuple[str, int]]
# Where the epoch of the older client puts the directory, and that of the newer one.
EPOCHS: Mapping[str, tuple[int, int]] = {"away": (1, 2), "to home": (1, 0), "from home": (0, 2)}
# Where the first epoch has its children.
FIRST: Mapping[str, Placement] = {"native": ADOPTED, "mirrored": Placement(3, 0, lambda path: int(path == D))}
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


class Maps(NamedTuple):
    """By which the clients work.

    :param first: by the first epoch. :param older: what the older client knows; None if its map is plain.
    """

    first: Placement
    older: Knows | None
    newer: Knows | None

    @property
    def may_skip_numbers(self) -> bool:
        """Whether a directory without children may get a pin and a proof, which take two numbers."""
        both = (self.older, self.newer)
        return self.first is ADOPTED and any(each and each.form is Form.GUARDED for each in both)


def neighbours(first: Placement, newest: Callable[[str], int]) -> Iterator[tuple[str, Maps]]:
    """Two forms that can work together, of which one is not grown and one is not plain.

    :param newest: where the newest epoch puts the children of a directory.
    """
    for one, other in itertools.product(Form, Form):
        if abs(one - other) <= 1 and one + other not in (2 * Form.PLAIN, 2 * Form.GROWN):
            both = [_known(form, first, newest) for form in (one, other)]
            yield f"{one.word} {other.word}", Maps(first, *both)


def _known(form: Form, first: Placement, newest: Callable[[str], int]) -> Knows | None:
    if form is Form.PLAIN:
        return None
    return Knows(newest if form is Form.GROWN else by_first(first), form=form)


def _maps() -> Iterator[tuple[str, Maps]]:
    for name, (older, newer) in EPOCHS.items():
        yield name, Maps(ADOPTED, Knows(guess(older)), Knows(guess(newer)))
    for where, first in FIRST.items():
        for forms, maps in neighbours(first, guess(2)):
            yield f"{where} {forms}", maps


# What the clients know: of maps that have grown, and of maps of neighbouring forms.
MAPS: Mapping[str, Maps] = dict(_maps())


@cache
def beginning(state: str, maps: str, hints: tuple[str, str]) -> Beginning:
    """:param hints: what the older client remembers, and the newer one."""
    return brought(STATES[state], MAPS[maps], (hint_of(D, hints[0]), hint_of(D, hints[1])))


def hint_of(path: str, hint: str) -> Hints:
    where = HINTS[hint]
    return [] if where is None else [(path, where)]


def brought(state: State, maps: Maps, hints: Sequence[Hints]) -> Beginning:
    """A beginning in a state.

    :param hints: what the older client remembers, and the newer one.
    """
    first = maps.first
    model, specification = prepared(first), Model(1)
    fence = where_is(first, D).fence
    for ensemble in range(first.ensembles):
        must(model.execute(ensemble, Create(fence, b"", OPEN_ACL_UNSAFE, 0)))
    plain, before, plans = make_context(first, "plain"), make_context(first, "before"), PLANS
    if maps.older is not None:
        before = make_grown(before, first, maps.older)
    requests, last = [*state.older], []
    if state.steps is not None:
        last = [requests.pop()]
    for request in state.plain:
        must(outcome(model, PLANS[request.type].operation(plain, request)))
    for request in requests:
        must(outcome(model, plans[request.type].operation(before, request)))
    for request in last:
        with suppress(StopIteration):  # it may take less
            abandon(model, plans[request.type].operation(before, request), state.steps or 0)
    for request in (*state.plain, *requests):
        must(specification.execute(0, request))
    both = zip((maps.older, maps.newer), hints, strict=True)
    knows = [each and each._replace(hints=_safe(first, each.form, some)) for each, some in both]
    return Beginning(first, model, specification, last, [*knows, maps.newer])


def _safe(first: Placement, form: Form, hints: Hints) -> Hints:
    """A client remembers nothing wrong before it asks for proofs: nobody has decided by another epoch."""
    if form >= Form.GUARDED:
        return hints
    return [(path, where) for path, where in hints if max(where, NATIVE) == by_first(first)(path)]
