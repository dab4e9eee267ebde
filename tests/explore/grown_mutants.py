"""Mutations of the operations where pins decide. Each is seen in walks at random through one scenario.

As mutants.py; the same walks without the mutation are clean.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar

from kazoo.exceptions import NoNodeError, NotEmptyError

from parkazoo.kazoo_private import CheckVersion, Create, Delete, GetChildren, GetData, SetACL, SetData, Transaction
from parkazoo.protocol.context import Context
from parkazoo.protocol.directory import KnownACL, delete_again, help_delete, try_promote
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.ops.brief import read, rest_of
from parkazoo.protocol.ops.creates import _make_first, decide, names_mirror, to_be
from parkazoo.protocol.order import COUNT, READ, SEQUENCE_DIGITS, Order
from parkazoo.protocol.pin import NATIVE_PIN
from parkazoo.protocol.placement import GUESS, HINT, PIN, PINNED, PROOF, Directory, join, split
from parkazoo.protocol.steps import Operation, Request, Step, placed, resumed
from parkazoo.protocol.where.lookup import _is_there, locate
from parkazoo.protocol.where.places import directory
from tests.explore.alone import must
from tests.explore.directories import WATCH, create, in_order
from tests.explore.edits import (
    Between,
    Generate,
    Running,
    apart,
    edited,
    is_of_fence,
    is_pin,
    like,
    lists_marks,
    passed,
    saying,
    sent,
    through,
    unasked,
    unbumped,
    with_newest_fence,
    without,
)
from tests.explore.families import NOTHING, in_their_order, looked_at, name_of
from tests.explore.grown import ADOPTED, D, beginning
from tests.explore.grown_deep import GrownDeep
from tests.explore.grown_families import NUMBERED, OTHER, SECOND, X, Y
from tests.explore.grown_levels import GrownAcl, GrownLevels
from tests.explore.mutation import Fault, SeenMutation, Wrong, in_calls, instead, together
from tests.explore.risen import GrownRise
from tests.explore.scenario import Program, Promises, Requests, Scenario, Stop, Troubles, Turn
from tests.explore.znodes import path_of
from tests.where_is import where_is

LAG, NO_TROUBLE = Troubles(has_lag=True), Troubles()
MKDIR, RMDIR, LIST, GET_X = create(D), Delete(D, -1), GetChildren(D, None), GetData(X, None)
MAKE_X, MAKE_Y, DROP_Y = create(X), create(Y), Delete(Y, -1)
AGAIN = [RMDIR, MKDIR, MAKE_Y]
DISAGREE, ORPHAN, WRONG = "disagree", "orphan", "not linearizable"
OTHERS, ACLS = "children beside a pin", "another ACL"
NAMES = "names another ensemble"


@dataclass(frozen=True)
class GrownMutant(SeenMutation):
    """A mutation, and the scenario in which it is seen, by its name."""

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
                must(model.execute(ensemble, SetData(where_is(ADOPTED, D).fence, b"", -1)))
        begun = dataclasses.replace(begun, model=model)
        return Scenario(name, begun, programs, troubles, opening, promises)

    return scenario


def at_once(state: str, hint: str, *requests: Request) -> Callable[[str], Scenario]:
    """One client issues these without waiting; `hint` is what it remembers. They are done in their order."""
    return in_case(state, in_order([[*requests]]), hints=(hint, "nothing"), promises=in_their_order(D, "away"))


def named(member: GrownAcl | GrownLevels | GrownRise | GrownDeep) -> Callable[[str], Scenario]:
    return lambda name: dataclasses.replace(member.scenario(), name=name)


# ---- what is wrong -----------------------------------------------------------------------------


def is_proof(request: Request) -> bool:
    return split(path_of(request))[1] == PROOF


def is_guard(request: Request) -> bool:
    return isinstance(request, CheckVersion) and is_proof(request)


def is_native_mark(request: Request) -> bool:
    return isinstance(request, Create) and (is_proof(request) or request.data == NATIVE_PIN)


def is_native_marks(request: Request) -> bool:
    return isinstance(request, Transaction) and all(map(is_native_mark, request.operations))


def asks_pin(request: Request) -> bool:
    return isinstance(request, GetData) and is_pin(request)


def unless_grown(*betweens: Between) -> Wrong:
    def wrong(right: Generate) -> Generate:
        def run(context: Context, request: Request) -> Operation[Any]:
            running = right(context, request)
            for between in betweens if context.form is not Form.GROWN else ():
                running = passed(running, between)
            return running

        return run

    return wrong


def by_guarded_form(right: Generate) -> Generate:
    def wrong(context: Context, *arguments: Any) -> Operation[Any]:
        other = copy(context)
        other.form = max(context.form, Form.GUARDED)
        return right(other, *arguments)

    return wrong


def guard_of_pin(request: Any) -> Any:
    return request._replace(path=join(split(request.path)[0], PIN)) if is_guard(request) else request


def asks_no_pin(right: Generate) -> Generate:
    def wrong(
        context: Context,
        d: Directory,
        child: Request | None,
        known: KnownACL | None,
        may_be_there: bool,
        names_mirror: object,
    ) -> Operation[Any]:
        return right(context, d, child, known, may_be_there, saying(True))

    return wrong


def guesses(right: Callable[..., Directory]) -> Callable[..., Directory]:
    return lambda context, found: right(context, found._replace(certainty=GUESS, is_decided=False))


def remembers_undecided(right: Generate) -> Generate:
    """What is above a directory and undecided is remembered as native."""
    running = Running()
    locates = running(right)

    def wrong(context: Context, *arguments: Any, **named: Any) -> Operation[Directory | None]:
        is_above, since = bool(running.now), context.places.count

        def run() -> Operation[Directory | None]:
            located: Directory | None = yield from locates(context, *arguments, **named)
            if is_above and located is not None and located.certainty < PINNED:
                context.places.remember(located, since, HINT)
            return located

        return run()

    return wrong


def missing_homes() -> Fault:
    """A first child for which there is no home fails, though the server may have been behind."""

    class Missed(Exception):
        pass

    def tells(right: Generate) -> Generate:
        def wrong(context: Context, d: Directory, child: Request, *others: Any) -> Operation[Any]:
            try:
                return (yield from right(context, d, child, *others))
            except NoNodeError:
                if others[1:] == (True,):  # it was a guess
                    raise
                raise Missed from None

        return wrong

    def fails(right: Generate) -> Generate:
        def wrong(*arguments: Any, **named: Any) -> Operation[Any]:
            try:
                return (yield from right(*arguments, **named))
            except Missed:
                raise NoNodeError from None

        return wrong

    return together(instead(_make_first, tells), instead(decide, fails))


def bumps_no_fence_of_home(*_: object) -> Between:
    """Only the fence of what the pin says goes up."""
    is_asked = False

    def between(steps: tuple[Step, ...]) -> Operation[list[Any]]:
        nonlocal is_asked
        is_asked = is_asked or any(asks_pin(request) for _, request in steps)
        return (yield steps) if is_asked else (yield from unbumped(steps))

    return between


def asks_no_pin_of_leaf(context: Context, request: Request) -> Between:
    is_leaf = False

    def between(steps: tuple[Step, ...]) -> Operation[list[Any]]:
        nonlocal is_leaf
        answers = yield from (unasked(asks_pin, NoNodeError())(steps) if is_leaf else sent(steps))
        for (_, each), answer in zip(steps, answers, strict=True):
            if isinstance(each, SetACL) and not is_pin(each) and not isinstance(answer, Exception):
                is_leaf = not answer.numChildren
        return answers

    return between


def gives_up(right: Generate) -> Generate:
    def wrong(d: Directory, version: int) -> Operation[bool]:
        yield from ()
        raise NotEmptyError

    return wrong


def believing(believes: Callable[[bool], bool]) -> Fault:
    """What is asked after NoNode is not asked: it is taken for proved.

    :param believes: given whether it is about what is above the directory that is looked for.
    """
    locating = Running()

    def wrong(right: Generate) -> Generate:
        def is_there(*arguments: object) -> Operation[bool]:
            return (saying(True) if believes(bool(locating.now)) else right)(*arguments)

        return is_there

    return together(instead(locate, locating), instead(_is_there, wrong))


def is_never_fresh(right: Generate) -> Generate:
    def wrong(context: Context, path: str, is_fresh: bool = False, *others: Any, **named: Any) -> Operation[Any]:
        return right(context, path, False, *others, **named)

    return wrong


def helping_by_guess() -> Fault:
    listing = Running()

    def wrong(right: Generate) -> Generate:
        def helps(context: Context, d: Directory, marks: Sequence[str]) -> Operation[None]:
            for _ in listing.now:
                d = directory(d.path, d.home, context.places.guess(d.path))
            return right(context, d, marks)

        return helps

    return together(in_calls(GetChildren, listing), instead(help_delete, wrong))


def knowing_before_the_mark() -> Fault:
    deleting = Running()

    def wrong(right: Generate) -> Generate:
        def names_mirror(*arguments: object) -> Operation[bool]:
            return (saying(True) if deleting.now else right)(*arguments)

        return names_mirror

    return together(in_calls(Delete, deleting), instead(names_mirror, wrong))


def asks_pin_before_marks(right: Generate) -> Generate:
    def wrong(*arguments: Any) -> Operation[Any]:
        *others, names_mirror = arguments
        early: list[bool] = []

        def named() -> Operation[bool]:
            yield from ()
            return early[-1]

        def between(steps: tuple[Step, ...]) -> Operation[list[Any]]:
            if lists_marks(steps[0][1]):
                try:
                    early[:] = [(yield from names_mirror())]
                except NoNodeError as error:
                    return [error]
            return (yield steps)

        return passed(right(*others, named), between)

    return wrong


def reads_fence_of_guess(context: Context, d: Directory, *_: object) -> Between:
    """At first; a fence that is not there is made where it belongs."""
    is_read = False

    def between(steps: tuple[Step, ...]) -> Operation[list[Any]]:
        nonlocal is_read
        if is_read:
            return (yield steps)
        is_read, guess = True, context.places.guess(d.path)
        return (yield like(steps, [(guess if is_of_fence(each) else at, each) for at, each in steps]))

    return between


def claims_count(right: Callable[..., bool]) -> Callable[..., bool]:
    """No later write waits for it."""

    def wrong(order: Order[Any], path: str, mode: int) -> bool:
        return not path[-SEQUENCE_DIGITS:].isdecimal() and right(order, path, COUNT if mode == READ else mode)

    return wrong


def releases_count(right: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    def wrong(order: Order[Any], path: str, mode: int) -> list[Any]:
        return right(order, path, COUNT if mode == READ else mode)

    return wrong


def claims_no_number(right: Callable[..., bool]) -> Callable[..., bool]:
    """Names with a sequence number too, which claim another key besides."""

    def wrong(order: Order[Any], path: str, mode: int) -> bool:
        if mode != READ:
            return right(order, path, mode)
        if not right(order, path, COUNT):
            return False
        order._counts[path] = order._counts.get(path, 0) + 1
        return True

    return wrong


def begins_so_all_the_same(right: Generate) -> Generate:
    def wrong(operation: Operation[Any], step: Step, answer: Any) -> Operation[Any]:
        has_begun = False

        def between(steps: tuple[Step, ...]) -> Operation[list[Any]]:
            nonlocal has_begun
            first, has_begun = not has_begun, True
            return (yield (step,) if first else steps)

        return right(passed(operation, between), step, answer)

    return wrong


def is_sent_again(right: Generate) -> Generate:
    def wrong(context: Context, request: Any, d: Directory, answer: Any) -> Operation[Any]:
        return resumed(read(context, request), (d.home.ensemble, placed(request, d.home.path)), answer)

    return wrong


# ---- where it is seen --------------------------------------------------------------------------

MIRRORED = "mirrored guarded grown"
GROWN_MUTANTS: Mapping[str, GrownMutant] = {
    "native creates are not guarded": GrownMutant(
        in_calls(Create, through(lambda *_: without(is_guard))),
        OTHERS,
        in_case("native empty", [MAKE_X], AGAIN, hints=("native", "nothing")),
    ),
    "only a grown client guards its creates": GrownMutant(
        in_calls(Create, unless_grown(without(is_guard), unasked(is_native_marks, None))),
        OTHERS,
        in_case("native empty", [MAKE_X], AGAIN, maps="native guarded grown", hints=("native", "nothing")),
    ),
    "only a grown client guards its transactions": GrownMutant(
        in_calls(Transaction, unless_grown(without(lambda each: is_guard(each) or is_native_mark(each)))),
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
        instead(_make_first, by_guarded_form),
        WRONG,
        in_case("missing", [LIST], [MKDIR, MAKE_X], maps="native plain tolerant"),
    ),
    "the guard asks only for a pin": GrownMutant(
        in_calls(Create, edited(guard_of_pin)),
        OTHERS,
        in_case("native empty", [MAKE_X], AGAIN, hints=("native", "nothing")),
    ),
    "the proof goes in a request of its own": GrownMutant(
        in_calls(Delete, through(lambda *_: apart(is_proof))),
        DISAGREE,
        in_case("native empty", [RMDIR], [LIST]),
    ),
    "the guess decides and not the pin": GrownMutant(
        instead(try_promote, asks_no_pin),
        NAMES,
        in_case("leaf", [MAKE_X], [MAKE_Y]),
    ),
    "a transaction does not check its parents": GrownMutant(
        in_calls(Transaction, through(lambda *_: without(is_guard))),
        OTHERS,
        in_case("native empty", [Transaction([MAKE_X, OTHER])], AGAIN, hints=("native", "nothing")),
    ),
    "a child made before does not keep a directory native": GrownMutant(
        instead(
            to_be,
            lambda to_be: lambda context, found: to_be(context, found._replace(certainty=GUESS, is_decided=False)),
        ),
        OTHERS,
        in_case("adopted", [MAKE_Y], [LIST]),
    ),
    "a leaf that was looked below is native": GrownMutant(
        instead(locate, remembers_undecided),
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
        missing_homes(),
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
        in_calls(SetACL, through(bumps_no_fence_of_home)),
        ACLS,
        named(GrownAcl("leaf", "bob may read it", "the older", "to home", "unpinned", "unpinned", "nothing")),
    ),
    "set_acls does not look for a pin where there was none": GrownMutant(
        in_calls(SetACL, through(asks_no_pin_of_leaf)),
        ACLS,
        named(GrownAcl("leaf", "bob may read it", "the older", "to home", "unpinned", "unpinned", "nothing")),
    ),
    "a delete with a version does not see it again": GrownMutant(
        instead(delete_again, gives_up),
        WRONG,
        in_case("native empty", [Delete(D, 0)], [SetData(D, b"1", -1), MAKE_X], hints=("native", "nothing")),
    ),
    "NoNode is believed": GrownMutant(
        believing(lambda locates: not locates),
        WRONG,
        in_case("mirrored", [LIST], [GET_X]),
    ),
    "a write is verified by a read that may be stale": GrownMutant(
        instead(locate, is_never_fresh),
        WRONG,
        in_case("leaf", [MAKE_X], [SetData(X, b"new", -1)], troubles=LAG),
    ),
    "a helper asks the guess": GrownMutant(
        helping_by_guess(),
        ORPHAN,
        in_case("leaf", [MAKE_X], [RMDIR], [LIST], opening=[Requests(0, 7), Requests(1, 6), Stop(1)]),
    ),
    "a delete knows the place before its mark": GrownMutant(
        knowing_before_the_mark(),
        ORPHAN,
        in_case("mirrored empty", [RMDIR], AGAIN, opening=[Requests(0, 5)]),
    ),
    "the place in the pin is read before the marks": GrownMutant(
        instead(try_promote, asks_pin_before_marks),
        ORPHAN,
        in_case("promotion abandoned", [MAKE_X], [*AGAIN, DROP_Y, RMDIR], opening=[Requests(0, 8), Turn(1, 4)]),
    ),
    "the fence of the guess is used": GrownMutant(
        instead(try_promote, through(reads_fence_of_guess)),
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
        instead(try_promote, through(lambda *_: with_newest_fence)),
        ORPHAN,
        in_case("promotion abandoned", [MAKE_X], [RMDIR]),
    ),
    "what goes on by the older form is not in the same order": GrownMutant(
        instead(Order.successor, lambda successor: lambda order: Order()),
        WRONG,
        named(GrownRise("leaf", "nothing", MIRRORED, "does nothing", "create", "get of the child", NOTHING)),
    ),
    "a create does not wait for a read of one request": GrownMutant(
        together(instead(Order.claim_node, claims_count), instead(Order.release_node, releases_count)),
        WRONG,
        at_once("adopted empty", "b", GET_X, MAKE_X),
    ),
    "a number may be given before it is read": GrownMutant(
        instead(Order.claim_node, claims_no_number),
        WRONG,
        at_once("mirrored empty", "native", GetData(SECOND, None), NUMBERED),
    ),
    "a read goes on where it would not begin any more": GrownMutant(
        instead(resumed, begins_so_all_the_same),
        WRONG,
        at_once("promotion abandoned", "native", GET_X, RMDIR),
    ),
    "a read that has found its znode is sent again": GrownMutant(
        instead(rest_of, is_sent_again),
        WRONG,
        in_case("mirrored", in_order([[GetData(D, WATCH), GET_X]]), [SetData(D, b"new", -1)] * 2),
    ),
    "the place of the home is not verified": GrownMutant(
        believing(bool),
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
