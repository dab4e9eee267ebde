"""Mutations of the protocol, each of which breaks a promise in the explorer's sight.

In a mutant a function of production code is wrong, or what an operation sends or is answered. The same scenario
without it is clean.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar
from unittest.mock import patch

from kazoo.exceptions import NodeExistsError, NoNodeError

from parkazoo.kazoo_private import (
    Create,
    Delete,
    Exists,
    GetACL,
    GetChildren,
    GetChildren2,
    GetData,
    SetACL,
    Transaction,
)
from parkazoo.protocol import directory
from parkazoo.protocol.context import Context
from parkazoo.protocol.directory import delete_marked, help_delete, leave_mark, remove_mirror, try_promote
from parkazoo.protocol.ops import transaction
from parkazoo.protocol.ops.watched import look
from parkazoo.protocol.order import CONFLICTS, TRUST, WRITE
from parkazoo.protocol.past import Change, Past
from parkazoo.protocol.pin import decode_pin, encode_pin
from parkazoo.protocol.placement import DONE, Directory, split
from parkazoo.protocol.steps import Operation, Request, Step
from parkazoo.protocol.where.places import Places
from tests.explore.chosen import (
    A_CRASH,
    AGAIN,
    DEFAULT,
    LAG,
    LIST,
    LOOK,
    MKDIR,
    NO_TROUBLE,
    RMDIR,
    RMDIR_V0,
    SET,
    Case,
)
from tests.explore.directories import CLOSED, WATCH, D, acls_are_alike, create, in_order
from tests.explore.edits import (
    Between,
    Generate,
    Running,
    answered,
    apart,
    edited,
    in_multi,
    is_mark,
    is_mirror,
    is_of_fence,
    is_pin,
    like,
    lists_marks,
    passed,
    through,
    unasked,
    unbumped,
    with_newest_fence,
    without,
)
from tests.explore.families import X, Y, name_of
from tests.explore.mutation import Fault, Mutation, in_calls, instead, together
from tests.explore.scenario import Bounds, Program, Promises, Requests, Scenario, Stop, Troubles, Turn
from tests.explore.visitor import ANYTHING
from tests.explore.znodes import path_of

OPEN = create(X).acl
ORPHAN, TWICE, WRONG, ACLS = "orphan", "2 mirrors in one life", "not linearizable", "another ACL"
IsBehind = Callable[[Past, int, str], bool]


@dataclass(frozen=True)
class Mutant(Mutation):
    """A mutation, and the case in which it is seen.

    :param violation: what the explorer says.
    """

    violation: str
    case: Case


# ---- what is wrong -----------------------------------------------------------------------------


def does_not_see_above(right: IsBehind) -> IsBehind:
    def wrong(past: Past, ensemble: int, path: str) -> bool:
        with patch.object(past, "_named", {path: past._named[path]} if path in past._named else {}):
            return right(past, ensemble, path)

    return wrong


def does_not_see_below(right: IsBehind) -> IsBehind:
    def wrong(past: Past, ensemble: int, path: str) -> bool:
        with patch.object(past, "_below", {}):
            return right(past, ensemble, path)

    return wrong


def forgets_what_failed(right: Callable[..., None]) -> Callable[..., None]:
    def wrong(change: Change, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None or kind is GeneratorExit:
            right(change, kind, error, trace)
        else:
            change._past._named.pop(change.paths[0])

    return wrong


def does_not_count(right: Callable[..., None]) -> Callable[..., None]:
    def wrong(past: Past, change: Change, is_executed: bool) -> None:
        count, of_change = past._count, change.count
        right(past, change, is_executed)
        past._count, change.count = count, of_change
        past._written = [min(each, count) for each in past._written]

    return wrong


def remembering(creates: Running) -> Fault:
    """As long as a create runs, what was known of the earlier life of its path is not forgotten."""

    def keeps(right: Callable[..., None]) -> Callable[..., None]:
        def wrong(places: Places, path: str) -> None:
            if not any(path.startswith(request.path) for _, request in creates.now):
                right(places, path)

        return wrong

    return together(in_calls(Create, creates), instead(Places.forget, keeps))


def any_version_of(fits: Callable[[Request], bool]) -> Callable[[Any], Any]:
    def edit(request: Any) -> Any:
        return request._replace(version=-1) if hasattr(request, "version") and fits(request) else request

    return edit


def pins_home(context: Context, *_: object) -> Between:
    def between(steps: tuple[Step, ...]) -> Operation[list[Any]]:
        sent = [(ensemble, in_multi(partial(named, ensemble), request)) for ensemble, request in steps]
        return (yield like(steps, sent))

    def named(ensemble: int, request: Any) -> Any:
        """A pin names the ensemble that it is sent to."""
        pin = decode_pin(request.data or b"") if isinstance(request, Create) and is_pin(request) else None
        return request if pin is None else request._replace(data=encode_pin(pin, context.names[ensemble]))

    return between


def believes_first_acl(*_: object) -> Between:
    first: dict[str, Any] = {}

    def between(steps: tuple[Step, ...]) -> Operation[list[Any]]:
        answers = yield steps
        for at, (_, request) in enumerate(steps):
            if isinstance(request, GetACL) and not isinstance(answers[at], Exception):
                answers[at] = first.setdefault(request.path, answers[at])
        return answers

    return between


def uses_one_mark(right: Generate) -> Generate:
    """Another's mark of that name is as good as an own one."""

    def between(steps: tuple[Step, ...]) -> Operation[list[Any]]:
        answers = yield steps
        return [None if isinstance(each, NodeExistsError) else each for each in answers]

    def wrong(context: Context, d: Directory, intent: str) -> Operation[str | None]:
        forgetful = copy(context)
        forgetful.new_mark = lambda: "mark"
        return passed(right(forgetful, d, intent), between)

    return wrong


def is_announced(request: Request) -> bool:
    return split(path_of(request))[0] == DONE


def leaves_watch_on_data(steps: tuple[Step, ...]) -> Operation[list[Any]]:
    """Behind a listing with its stat, which is asked for without a watch."""
    watches = [(ensemble, each) for ensemble, each in steps if isinstance(each, GetChildren2) and each.watcher]
    answers = yield like(
        steps,
        [
            (ensemble, GetChildren2(each.path, None) if isinstance(each, GetChildren2) else each)
            for ensemble, each in steps
        ],
    )
    for ensemble, each in watches:
        yield ((ensemble, Exists(each.path, each.watcher)),)
    return answers


def watches_mirror(request: Request) -> bool:
    return isinstance(request, Exists) and bool(request.watcher) and is_mirror(request)


def has_had_child(answer: Any) -> Any:
    """A listing with a stat that says so."""
    return (answer[0], answer[1]._replace(cversion=1)) if isinstance(answer, tuple) else answer


# ---- where it is seen --------------------------------------------------------------------------


def in_case(
    state: str,
    *programs: Program,
    troubles: Troubles = NO_TROUBLE,
    opening: Sequence[Requests | Turn | Stop] = (),
    bounds: Bounds = ANYTHING,
    promises: Promises = DEFAULT,
) -> Case:
    return Case(programs, (state,), troubles, bounds, promises, opening)


PIPELINE = [create(Y), GetData(D, None), LIST]
MUTANTS: Mapping[str, Mutant] = {
    "reads are not behind own changes": Mutant(
        instead(Past.is_behind, lambda _: lambda past, ensemble, path: False),
        WRONG,
        in_case("empty", [RMDIR, LIST], [RMDIR, MKDIR], troubles=LAG, bounds=Bounds(most=1500)),
    ),
    "reads are not behind own changes above": Mutant(
        instead(Past.is_behind, does_not_see_above),
        WRONG,
        in_case(
            "with a child",
            [MKDIR, GetData(X, None)],
            [Delete(X, -1), RMDIR],
            troubles=LAG,
            bounds=Bounds(most=1500),
        ),
    ),
    "reads are not behind own changes below": Mutant(
        instead(Past.is_behind, does_not_see_below),
        WRONG,
        in_case(
            "missing", [create(X), GetData(D, None)], [MKDIR, create(Y)], troubles=LAG, bounds=Bounds(most=1500)
        ),
    ),
    "reads are not behind changes that failed": Mutant(
        instead(Change.__exit__, forgets_what_failed),
        WRONG,
        in_case("empty", [RMDIR, LIST], [RMDIR], troubles=LAG, bounds=Bounds(most=1500)),
    ),
    "a change counts from its begin alone": Mutant(
        instead(Past.end, does_not_count),
        WRONG,
        in_case(
            "with a child",
            in_order([[MKDIR, LIST], LIST]),
            [Delete(X, -1), RMDIR],
            troubles=LAG,
            bounds=Bounds(most=1500),
            opening=[Requests(0, 2), Requests(1, 9)],
        ),
    ),
    "a directory that was made again is known by its earlier life": Mutant(
        remembering(Running()),
        WRONG,
        in_case(
            "missing",
            in_order([MKDIR, create(X), MKDIR, PIPELINE]),
            [Delete(X, -1), RMDIR],
            opening=[Turn(0, 2), Turn(1), Turn(0, 1)],
            promises=Promises(observe=LOOK, is_in_order=True),
        ),
    ),
    "the earlier life is forgotten when the create has ended": Mutant(
        remembering(Running(only_begins=True)),
        WRONG,
        in_case(
            "missing",
            in_order([MKDIR, create(X), [MKDIR, *PIPELINE]]),
            [Delete(X, -1), RMDIR],
            opening=[Turn(0, 2), Turn(1)],
            promises=Promises(observe=LOOK, is_in_order=True),
        ),
    ),
    "what trusts a memory is overtaken": Mutant(
        partial(patch.dict, CONFLICTS, {WRITE: CONFLICTS[WRITE] & ~TRUST}),
        WRONG,
        in_case(
            "with a child",
            in_order([LIST, [create(Y), MKDIR]]),
            [Delete(X, -1), RMDIR],
            opening=[Turn(0, 1), Turn(1)],
            promises=Promises(observe=LOOK, is_in_order=True),
        ),
    ),
    "a promotion does not check the fence": Mutant(
        instead(try_promote, edited(any_version_of(is_of_fence))),
        ORPHAN,
        in_case("leaf", [create(X)], [RMDIR]),
    ),
    "a pin names the ensemble of the home": Mutant(
        instead(try_promote, through(pins_home)),
        "names another ensemble",
        in_case("leaf", [create(X)], [RMDIR]),
    ),
    "a promotion reads the fence after the marks": Mutant(
        instead(try_promote, through(lambda *_: with_newest_fence)),
        ORPHAN,
        in_case("promotion abandoned", [create(X)], [RMDIR]),
    ),
    "a promotion does not look at the marks": Mutant(
        instead(
            try_promote, answered(lists_marks, lambda answer: answer if isinstance(answer, Exception) else [])
        ),
        TWICE,
        in_case("empty", [create(X)], [RMDIR], opening=[Requests(1, 7)]),
    ),
    "a promotion believes the ACL that it read before the pin": Mutant(
        instead(try_promote, through(believes_first_acl)),
        ACLS,
        in_case(
            "leaf", [create(X)], [SetACL(D, CLOSED, -1)], promises=Promises(observe=LOOK, at_end=acls_are_alike)
        ),
    ),
    "a delete does not bump the fence": Mutant(
        instead(remove_mirror, through(lambda *_: unbumped)),
        ORPHAN,
        in_case("leaf", [create(X)], [RMDIR]),
    ),
    "a delete does not check the fence": Mutant(
        instead(remove_mirror, edited(any_version_of(is_of_fence))),
        TWICE,
        in_case("empty", [RMDIR], AGAIN, bounds=Bounds((11, 40)), opening=[Requests(0, 6)]),
    ),
    "the home goes before the mirror": Mutant(
        instead(remove_mirror, through(lambda *_: without(is_mirror))), ORPHAN, in_case("empty", [RMDIR])
    ),
    "a mark's name is used again": Mutant(
        instead(leave_mark, uses_one_mark),
        ORPHAN,
        in_case(
            "empty",
            [RMDIR],
            [RMDIR, MKDIR, create(X), Delete(X, -1), RMDIR],
            bounds=Bounds((8, 40)),
            opening=[Requests(0, 7)],
        ),
    ),
    "the last step does not hold the marks": Mutant(
        instead(delete_marked, through(lambda *_: apart(is_mark))),
        TWICE,
        in_case("empty", [RMDIR], [create(X)], opening=[Requests(0, 7)]),
    ),
    "a helper does not look for the mirror": Mutant(
        instead(help_delete, answered(is_mirror, lambda answer: None)),
        ORPHAN,
        in_case("leaf", [create(X)], [RMDIR], [LIST], opening=[Requests(0, 4), Requests(1, 4), Stop(1)]),
    ),
    "a helper does not bump the fence": Mutant(
        instead(help_delete, through(lambda *_: unbumped)),
        ORPHAN,
        in_case("leaf", [create(X)], [RMDIR], [LIST], opening=[Requests(0, 4), Requests(1, 4), Stop(1)]),
    ),
    "a helper does not tell whose delete it has finished": Mutant(
        instead(help_delete, through(lambda *_: without(is_announced))),
        WRONG,
        in_case("empty", [RMDIR], [LIST], opening=[Requests(0, 7)]),
    ),
    "a helper does not know the version": Mutant(
        instead(help_delete, edited(any_version_of(lambda request: isinstance(request, Delete)))),
        WRONG,
        in_case("empty", [RMDIR_V0], [SET, LIST], opening=[Requests(0, 7), Stop(0)]),
    ),
    "a helper finishes a transaction's delete": Mutant(
        partial(patch.object, directory, "IN_TRANSACTION", "nobody knows"),
        WRONG,
        in_case(
            "empty",
            [Transaction([create("/other"), RMDIR])],
            [LIST],
            troubles=A_CRASH,
            promises=Promises(observe=[Exists("/other", None), LIST]),
        ),
    ),
    "a transaction that meets children does not see the version again": Mutant(
        instead(transaction.Attempt._must_see_again, lambda _: lambda *_: False),
        WRONG,
        in_case(
            "empty",
            [Transaction([RMDIR_V0])],
            [SET, create(X)],
            promises=Promises(observe=LOOK, mirrors_per_life=None),
        ),
    ),
    "set_acls does not bump the fence": Mutant(
        in_calls(SetACL, through(lambda *_: unbumped)),
        ACLS,
        in_case(
            "leaf", [create(X)], [SetACL(D, CLOSED, -1)], promises=Promises(observe=LOOK, at_end=acls_are_alike)
        ),
    ),
    "set_acls does not look whether it was overtaken": Mutant(
        in_calls(SetACL, answered(lambda request: isinstance(request, GetACL), lambda answer: NoNodeError())),
        ACLS,
        in_case(
            "empty",
            [SetACL(D, OPEN, -1)],
            [SetACL(D, CLOSED, -1)],
            promises=Promises(observe=LOOK, at_end=acls_are_alike),
        ),
    ),
    "the watch is left on the data": Mutant(
        in_calls(GetChildren, through(lambda *_: leaves_watch_on_data)),
        WRONG,
        in_case("leaf", [GetChildren(D, WATCH)], [create(X)]),
    ),
    "the mirror is not watched after the pin": Mutant(
        in_calls(GetChildren, through(lambda *_: unasked(watches_mirror, None))),
        WRONG,
        in_case("promotion abandoned", [GetChildren(D, WATCH)], [create(X)]),
    ),
    "a mirror is taken for a child": Mutant(
        instead(look, answered(is_mirror, has_had_child)),
        WRONG,
        in_case("leaf", [GetChildren(D, WATCH)], [Transaction([create(X), Delete(Y, -1)])]),
    ),
}


@dataclass(frozen=True)
class Mutated:
    """The case in which a mutant is seen; the mutant itself is not applied."""

    mutant: str
    family: ClassVar[str] = "mutant"

    def scenario(self) -> Scenario:
        case = MUTANTS[self.mutant].case
        return case.scenario(name_of(self), case.states[0])
