"""Scenarios of a client that gives operations up, as a task of asyncio does that is cancelled.

What was not sent by then is not done. What was sent is finished without its caller, wholly or not at all, and the
client's other operations go on in their order. See ``Troubles.given_up``.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

from parkazoo.kazoo_private import Delete, GetChildren, GetData
from parkazoo.protocol.placement import split
from tests.explore import grown
from tests.explore.clients import one_by_one
from tests.explore.directories import OPERATIONS, STATES, WATCH, create, only, try_again
from tests.explore.families import NOTHING, PLAIN, in_state, name_of, promises_of
from tests.explore.grown import HINTS, MAPS, drawn
from tests.explore.scenario import Asking, GivenUp, Makepath, Scenario, Troubles
from tests.explore.znodes import Answer, Request

AWAITED, AT_ONCE = HOW = ("awaited", "at once")
KEEPS: Mapping[str, Sequence[int]] = {
    "sent": (),
    "kept": (0, 1, 2),
    "kept on a": (0,),
    "kept on b": (1,),
}
TIMES: Mapping[str, int] = {"once": 1, "twice": 2}
ONE_ORDER = "one order"
TROUBLES: Mapping[str, Troubles] = {
    "no trouble": Troubles(),
    "lag": Troubles(has_lag=True),
    "a lost connection": Troubles(losses=1),
    ONE_ORDER: Troubles(has_lag=True),
}


ON_GROWN = [trouble for trouble in TROUBLES if trouble != ONE_ORDER]
ON_A_PLAIN_MAP = 0.5  # of the scenarios


def makepath(d: str) -> Asking:
    yield Makepath(create(f"{d}/y/z"))


def delete_tree(d: str) -> Asking:
    """As the client's recursive delete: what has been listed is deleted at once."""
    names = yield GetChildren(d, None)
    if isinstance(names, list):
        deletes: list[Request] = [Delete(path, -1) for path in (*(f"{d}/{name}" for name in names), d)]
        yield deletes


TASKS: Mapping[str, Callable[[str], Asking]] = {
    **OPERATIONS,
    "makepath": makepath,
    "tree delete": delete_tree,
    "get with watch": lambda d: only(GetData(d, WATCH)),
    "create and another beside": lambda d: one_by_one([create(d + "/x"), create("/beside")]),
    "get_children above": lambda d: only(GetChildren(split(d)[0], None)),
}
OTHERS: Mapping[str, Callable[[str], Asking]] = {NOTHING: lambda d: iter(()), **OPERATIONS}  # type: ignore[dict-item, return-value]


def in_tasks(*tasks: Callable[[], Asking]) -> Asking:
    """One after the other. One ends when it is given up, and the next one begins."""
    for task in tasks:
        asking = task()
        try:
            asked = next(asking)
            while not is_given_up(result := (yield asked)):
                asked = asking.send(result)
        except StopIteration:
            pass
        asking.close()


def is_given_up(result: Answer) -> bool:
    results = result if isinstance(result, list) else [result]
    return any(isinstance(each, GivenUp) for each in results)


def at_once(*tasks: Callable[[], Asking]) -> Asking:
    """The first operation of each."""
    yield [next(task()) for task in tasks]  # type: ignore[misc]  # none is a list


@dataclass(frozen=True)
class Abandoned:
    """A client does `one`, then `two`, and may give up either, perhaps beside one other client or two.

    :param how: whether it awaits `one`. :param keeps: which connections have no room at first.
    """

    state: str
    one: str
    two: str
    how: str
    other: str
    third: str
    keeps: str
    times: str
    trouble: str
    form: str = PLAIN
    family: ClassVar[str] = "given-up"

    def scenario(self) -> Scenario:
        d, begun = in_state(self.state, self.form)
        mine = in_tasks if self.how == AWAITED else at_once
        tasks = [partial(TASKS[each], d) for each in (self.one, self.two)]
        others = [each for each in (self.other, self.third) if each != NOTHING]
        promises = promises_of(d, [self.one, self.two, *others])
        has_total_order = self.trouble == ONE_ORDER
        is_alone = self.form == PLAIN and not others
        promises = replace(promises, is_in_order=has_total_order or is_alone)
        if has_total_order:
            promises = replace(promises, mirrors_per_life=None)
        return Scenario(
            name_of(self),
            begun,
            [partial(mine, *tasks), *(try_again(partial(OPERATIONS[each], d)) for each in others)],
            TROUBLES[self.trouble]._replace(given_up=TIMES[self.times], keeps=KEEPS[self.keeps]),
            promises=promises,
            has_total_order=has_total_order,
        )

    @classmethod
    def at_random(cls, dice: random.Random) -> Abandoned:
        others = [NOTHING, *OPERATIONS]
        words = TASKS, TASKS, HOW, others, [NOTHING] * len(OPERATIONS) + others, KEEPS, TIMES
        if dice.random() < ON_A_PLAIN_MAP:
            return cls(*drawn(dice, STATES, *words, TROUBLES))
        *others, maps, older, newer = drawn(dice, grown.STATES, *words, ON_GROWN, MAPS, HINTS, HINTS)
        return cls(*[*others, f"{maps} {older} {newer}"])
