"""Mutations of the operations where pins decide. Each is seen in walks at random through one scenario.

As mutants.py; the same walks without the mutation are clean.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from parkazoo.kazoo_private import Delete, GetChildren, GetData, SetData, Transaction
from parkazoo.protocol import directory, steps
from parkazoo.protocol.grown import changing, lookup, making, multi, reading
from parkazoo.protocol.order import Order
from tests.explore.alone import must
from tests.explore.directories import create
from tests.explore.families import looked_at, name_of
from tests.explore.grown import ADOPTED, D, beginning
from tests.explore.grown_deep import GrownDeep
from tests.explore.grown_families import NUMBERED, OTHER, SECOND, X, Y, in_order
from tests.explore.grown_levels import GrownAcl, GrownLevels
from tests.explore.mutation import Mutation
from tests.explore.risen import NONE, GrownRise
from tests.explore.scenario import Program, Promises, Requests, Scenario, Stop, Troubles, Turn
from tests.explore.znodes import Request

LAG, NO_TROUBLE = Troubles(has_lag=True), Troubles()
MKDIR, RMDIR, LIST, GET_X = create(D), Delete(D, -1), GetChildren(D, None), GetData(X, None)
MAKE_X, MAKE_Y, DROP_Y = create(X), create(Y), Delete(Y, -1)
AGAIN = [RMDIR, MKDIR, MAKE_Y]
DISAGREE, ORPHAN, WRONG = "disagree", "orphan", "not linearizable"
OTHERS, ACLS = "children beside a pin", "another ACL"
NAMES = "names another ensemble"


@dataclass(frozen=True)
class GrownMutant(Mutation):
    """A mutation, and the scenario in which it is seen, by its name.

    :param violation: what the explorer says.
    """

    violation: str
    scenario: Callable[[str], Scenario]


def in_case(
    state: str,
    *programs: Program,
    maps: str = "away",
    hints: tuple[str, str] = ("nothing", "nothing"),
    troubles: Troubles = NO_TROUBLE,
    opening: Sequence[Requests | Turn | Stop] = (),
    fences: Sequence[int] = (0, 0, 0),
    promises: Promises = Promises(observe=looked_at(D), mirrors_per_life=None),  # noqa: B008 - frozen
) -> Callable[[str], Scenario]:
    """Clients on the directory D: an older one, then newer ones.

    :param maps: by which they work.
    :param fences: how often the fence has gone up before, on each ensemble.
    """

    def scenario(name: str) -> Scenario:
        begun = beginning(state, maps, hints)
        model = begun.model.copy()
        for ensemble, count in enumerate(fences):
            for _ in range(count):
                must(model.execute(ensemble, SetData(ADOPTED.directory(D).fence, b"", -1)))
        begun = dataclasses.replace(begun, model=model)
        return Scenario(name, begun, programs, troubles, opening, promises)

    return scenario


def at_once(state: str, hint: str, *requests: Request) -> Callable[[str], Scenario]:
    """One client issues these without waiting; `hint` is what it remembers. They are done in their order."""
    promises = Promises(observe=looked_at(D), mirrors_per_life=None, is_in_order=True)
    return in_case(state, in_order([[*requests]]), hints=(hint, "nothing"), promises=promises)


def named(member: GrownAcl | GrownLevels | GrownRise | GrownDeep) -> Callable[[str], Scenario]:
    return lambda name: dataclasses.replace(member.scenario(), name=name)


MIRRORED = "mirrored guarded grown"
TAKES_PROOF = """
    with suppress(NoNodeError):
        yield from ask(d.home.ensemble, Delete(d.proof, -1))
    _, index, error = yield from commit(d.home.ensemble, last_of_native(d, version)[1:])"""
LISTS_MARKS = "            marks = yield from ask(home, GetChildren(d.pin, None))\n"
ASKS_PIN = """            if names_mirror is not None and not (yield from names_mirror()):
                return AGAIN
"""
LEAF_IS_UNKNOWN = """        if located.is_decided:  # else it may have no child yet, and is not native
            places.remember(above, since)
"""
READS_FENCE = "    fence = yield from make_fence(d)\n    acl = yield from _acl_of(d, known, answer)"
GROWN_MUTANTS: Mapping[str, GrownMutant] = {
    "native creates are not guarded": GrownMutant(
        making._create,
        ["if d.is_native and not is_fixed(parent) and context.form >= Form.GUARDED:", "if False:"],
        OTHERS,
        in_case("native empty", [MAKE_X], AGAIN, hints=("native", "nothing")),
    ),
    "only a grown client guards its creates": GrownMutant(
        making._create,
        ["and not is_fixed(parent) and context.form >= Form.GUARDED:", "and context.form is Form.GROWN:"],
        WRONG,
        in_case("native empty", [MAKE_X], AGAIN, maps="native guarded grown", hints=("native", "nothing")),
    ),
    "only a grown client guards its transactions": GrownMutant(
        multi.Attempt.__init__,
        ["self._is_guarded = context.form >= Form.GUARDED", "self._is_guarded = context.form is Form.GROWN"],
        OTHERS,
        in_case(
            "native empty",
            [Transaction([MAKE_X, OTHER])],
            AGAIN,
            maps="native guarded grown",
            hints=("native", "nothing"),
        ),
    ),
    "a tolerant client leaves pins that a plain one counts": GrownMutant(
        making._make_first,
        ["if context.form < Form.GUARDED:", "if False:"],
        WRONG,
        in_case("missing", [LIST], [MKDIR, MAKE_X], maps="native plain tolerant"),
    ),
    "the guard asks only for a pin": GrownMutant(
        making._create_native,
        ["CheckVersion(d.proof, -1)", "CheckVersion(d.pin, -1)"],
        OTHERS,
        in_case("native empty", [MAKE_X], AGAIN, hints=("native", "nothing")),
    ),
    "the proof goes in a request of its own": GrownMutant(
        changing._delete_native,
        ["\n    _, index, error = yield from commit(d.home.ensemble, last_of_native(d, version))", TAKES_PROOF],
        DISAGREE,
        in_case("native empty", [RMDIR], [LIST]),
    ),
    "the guess decides and not the pin": GrownMutant(
        making._make_first,
        ["partial(names_mirror, context, d)", "None"],
        NAMES,
        in_case("leaf", [MAKE_X], [MAKE_Y]),
    ),
    "a transaction does not check its parents": GrownMutant(
        multi.Attempt._multi,
        ["steps.append(CheckVersion(self.context.places.known(parent).proof, -1))", "pass"],
        OTHERS,
        in_case("native empty", [Transaction([MAKE_X, OTHER])], AGAIN, hints=("native", "nothing")),
    ),
    "a child made before does not keep a directory native": GrownMutant(
        making.to_be,
        ["if found.may_be_guessed or (not", "if True or (not"],
        OTHERS,
        in_case("adopted", [MAKE_Y], [LIST]),
    ),
    "a leaf that was looked below is native": GrownMutant(
        lookup.locate,
        [LEAF_IS_UNKNOWN, "        places.remember(above, since, is_pinned=located.is_decided)\n"],
        OTHERS,
        named(
            GrownDeep(
                tree="two",
                forms="guarded tolerant",
                first="by the older",
                older="212",
                newer="100",
                remembers="xxx",
                other_remembers="xxx",
                one="makes the last",
                other="looks and makes beside",
                rises="nobody",
                alone="nobody",
                trouble="a lost connection",
            )
        ),
    ),
    "a home that was read where it had been is missed": GrownMutant(
        making.decide,
        ["if is_guess or isinstance(error, NoNodeError):", "if is_guess:"],
        WRONG,
        named(
            GrownDeep(
                tree="all of an older client",
                forms="grown grown",
                first="adopted",
                older="120",
                newer="112",
                remembers="xxx",
                other_remembers="xxx",
                one="makes the last",
                other="makes two again",
                rises="nobody",
                alone="the newer",
                trouble="lag",
            ),
        ),
    ),
    "set_acls does not stop a first child that is made at home": GrownMutant(
        changing.set_acls,
        ["yield from bump_fence(directory(path, d.home, d.home.ensemble))", "pass"],
        ACLS,
        named(GrownAcl("leaf", "bob may read it", "the older", "to home", "unpinned", "unpinned", "nothing")),
    ),
    "set_acls does not look for a pin where there was none": GrownMutant(
        changing.set_acls,
        ["if stat.numChildren or context.form >= Form.GUARDED:", "if stat.numChildren:"],
        ACLS,
        named(GrownAcl("leaf", "bob may read it", "the older", "to home", "unpinned", "unpinned", "nothing")),
    ),
    "a delete with a version does not see it again": GrownMutant(
        changing._delete,
        ["yield from delete_again(d, request.version)", "raise"],
        WRONG,
        in_case("native empty", [Delete(D, 0)], [SetData(D, b"1", -1), MAKE_X], hints=("native", "nothing")),
    ),
    "NoNode is believed": GrownMutant(
        lookup.at,
        ["is_proved = yield from _is_there(context, above, watch)", "is_proved = True"],
        WRONG,
        in_case("mirrored", [LIST], [GET_X]),
    ),
    "a write is verified by a read that may be stale": GrownMutant(
        lookup.locate,
        ["if is_fresh:", "if False:"],
        WRONG,
        in_case("leaf", [MAKE_X], [SetData(X, b"new", -1)], troubles=LAG),
    ),
    "a helper asks the guess": GrownMutant(
        reading._list,
        ["help_delete(d, marks)", "help_delete(directory(path, d.home, places.guess(path)), marks)"],
        ORPHAN,
        in_case("leaf", [MAKE_X], [RMDIR], [LIST], opening=[Requests(0, 7), Requests(1, 6), Stop(1)]),
    ),
    "a delete knows the place before its mark": GrownMutant(
        changing._delete_mirrored,
        ["if (yield from names_mirror(context, d)):", "if True:"],
        ORPHAN,
        in_case("mirrored empty", [RMDIR], AGAIN, opening=[Requests(0, 5)]),
    ),
    "the place in the pin is read before the marks": GrownMutant(
        directory.try_promote,
        [LISTS_MARKS + ASKS_PIN, ASKS_PIN + LISTS_MARKS],
        ORPHAN,
        in_case("promotion abandoned", [MAKE_X], [*AGAIN, DROP_Y, RMDIR], opening=[Requests(0, 8), Turn(1, 4)]),
    ),
    "the fence of the guess is used": GrownMutant(
        directory.try_promote,
        ["(mirror, Exists(d.fence, None)),", "(context.places.guess(d.path), Exists(d.fence, None)),"],
        ORPHAN,
        in_case(
            "promotion abandoned",
            [MAKE_Y, DROP_Y, RMDIR],
            [MAKE_X],
            hints=("nothing", "b"),
            opening=[Requests(1, 9), Turn(0)],
            fences=(0, 0, 2),
        ),
    ),
    "the fence is read after the marks": GrownMutant(
        directory.try_promote,
        ["    acl = yield from _acl_of(d, known, answer)", READS_FENCE],
        ORPHAN,
        in_case("promotion abandoned", [MAKE_X], [RMDIR]),
    ),
    "what goes on by the older form is not in the same order": GrownMutant(
        Order.successor,
        [
            "later._blocked, later.lines = self._blocked, self.lines\n"
            "    later._counts, later._trusts = self._counts, self._trusts\n",
            "pass\n",
        ],
        WRONG,
        named(GrownRise("leaf", "nothing", MIRRORED, "does nothing", "create", "get of the child", NONE)),
    ),
    "a create does not wait for a read of one request": GrownMutant(
        Order.enter,
        ["if key in counts:", "if key in counts and key.endswith('/'):"],
        WRONG,
        at_once("adopted empty", "b", GET_X, MAKE_X),
    ),
    "a number may be given before it is read": GrownMutant(
        Order.claim_read,
        ["path[-SEQUENCE_DIGITS:].isdecimal() or ", ""],
        WRONG,
        at_once("mirrored empty", "native", GetData(SECOND, None), NUMBERED),
    ),
    "a read goes on where it would not begin any more": GrownMutant(
        steps.resumed,
        ["answers = [answer] if steps == (step,) else (yield steps)", "answers = [answer]"],
        WRONG,
        at_once("promotion abandoned", "native", GET_X, RMDIR),
    ),
    "a read that has found its znode is sent again": GrownMutant(
        reading.rest_of_read,
        ["if is_missing(answer):", "if True:"],
        WRONG,
        in_case("mirrored", in_order([[GetData(D, True), GET_X]]), [SetData(D, b"new", -1)] * 2),
    ),
    "the place of the home is not verified": GrownMutant(
        lookup.locate,
        ["if is_sure or (yield from _is_there(context, above, watch)):", "if True:"],
        WRONG,
        named(GrownLevels("mirrored", "list", "get", "apart", "nothing", "nothing", "a crash")),
    ),
}


@dataclass(frozen=True)
class GrownMutated:
    """The scenario in which a mutant is seen; the mutant itself is not applied."""

    mutant: str
    family: ClassVar[str] = "grown-mutant"

    def scenario(self) -> Scenario:
        return GROWN_MUTANTS[self.mutant].scenario(name_of(self))
