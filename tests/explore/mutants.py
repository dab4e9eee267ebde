"""Mutations of the protocol, each of which breaks a promise in the explorer's sight.

A mutant is a production function with a piece of its source replaced. The same scenario without it is clean.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from parkazoo.kazoo_private import Delete, Exists, GetChildren, GetData, SetACL, Transaction
from parkazoo.protocol import directory, operations
from parkazoo.protocol.order import Order
from parkazoo.protocol.past import Change, Past
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
from tests.explore.directories import CLOSED, WATCH, D, acls_are_alike, create
from tests.explore.families import X, Y, name_of
from tests.explore.mutation import Mutation
from tests.explore.scenario import Asking, Bounds, Program, Promises, Requests, Scenario, Stop, Troubles, Turn
from tests.explore.visitor import ANYTHING
from tests.explore.znodes import Request

OPEN = create(X).acl
ORPHAN, TWICE, WRONG, ACLS = "orphan", "2 mirrors in one life", "not linearizable", "another ACL"


@dataclass(frozen=True)
class Mutant(Mutation):
    """A mutation, and the case in which it is seen.

    :param violation: what the explorer says.
    """

    violation: str
    case: Case


READ_FENCE = "yield from _stat_of_fence(d, (yield from ask(d.mirror.ensemble, Exists(d.fence, None))))"
READ_ACL_AGAIN = "    acl = yield from _acl_of(d, known, answer)"


def in_steps(*steps: Request | list[Request]) -> Callable[[], Asking]:
    """A program of requests, one after the other, and lists of requests that are issued at once."""

    def program() -> Asking:
        for step in steps:  # noqa: UP028 - a tuple cannot be sent the results
            yield step

    return program


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
        Past.is_behind,
        ["if self._count <= written:", "if True:"],
        WRONG,
        in_case("empty", [RMDIR, LIST], [RMDIR, MKDIR], troubles=LAG, bounds=Bounds(most=1500)),
    ),
    "reads are not behind own changes above": Mutant(
        Past.is_behind,
        ['path.rpartition("/")[0]', '""'],
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
        Past.is_behind,
        ["self._below.get(path)", "None"],
        WRONG,
        in_case(
            "missing", [create(X), GetData(D, None)], [MKDIR, create(Y)], troubles=LAG, bounds=Bounds(most=1500)
        ),
    ),
    "reads are not behind changes that failed": Mutant(
        Change.__exit__,
        [
            "self._past.end(self, error is None or isinstance(error, self._failures))",
            "self._past._named.pop(self.paths[0]) if error else self._past.end(self, True)",
        ],
        WRONG,
        in_case("empty", [RMDIR, LIST], [RMDIR], troubles=LAG, bounds=Bounds(most=1500)),
    ),
    "a change counts from its begin alone": Mutant(
        Past.end,
        ["self._count = change.count = self._count + 1", "pass"],
        WRONG,
        in_case(
            "with a child",
            in_steps([MKDIR, LIST], LIST),
            [Delete(X, -1), RMDIR],
            troubles=LAG,
            bounds=Bounds(most=1500),
            opening=[Requests(0, 2), Requests(1, 9)],
        ),
    ),
    "a directory that was made again is known by its earlier life": Mutant(
        operations.create,
        ["    resolver.forget(path)", "    pass", "resolver.forget_all(path)", "pass"],
        WRONG,
        in_case(
            "missing",
            in_steps(MKDIR, create(X), MKDIR, PIPELINE),
            [Delete(X, -1), RMDIR],
            opening=[Turn(0, 2), Turn(1), Turn(0, 1)],
            promises=Promises(observe=LOOK, is_in_order=True),
        ),
    ),
    "the earlier life is forgotten when the create has ended": Mutant(
        operations.create,
        ["    resolver.forget(path)", "    pass"],
        WRONG,
        in_case(
            "missing",
            in_steps(MKDIR, create(X), [MKDIR, *PIPELINE]),
            [Delete(X, -1), RMDIR],
            opening=[Turn(0, 2), Turn(1)],
            promises=Promises(observe=LOOK, is_in_order=True),
        ),
    ),
    "what trusts a memory is overtaken": Mutant(
        Order.enter,
        ["if mode == WRITE and (", "if False and ("],
        WRONG,
        in_case(
            "with a child",
            in_steps(LIST, [create(Y), MKDIR]),
            [Delete(X, -1), RMDIR],
            opening=[Turn(0, 1), Turn(1)],
            promises=Promises(observe=LOOK, is_in_order=True),
        ),
    ),
    "a promotion does not check the fence": Mutant(
        directory.try_promote,
        ['SetData(d.fence, b"", fence.version)', 'SetData(d.fence, b"", -1)'],
        ORPHAN,
        in_case("leaf", [create(X)], [RMDIR]),
    ),
    "a pin names the ensemble of the home": Mutant(
        directory.try_promote,
        ["context.names[mirror]", "context.names[home]"],
        "names another ensemble",
        in_case("leaf", [create(X)], [RMDIR]),
    ),
    "a promotion reads the fence after the marks": Mutant(
        directory.try_promote,
        [READ_ACL_AGAIN, f"    fence = {READ_FENCE}\n{READ_ACL_AGAIN}"],
        ORPHAN,
        in_case("promotion abandoned", [create(X)], [RMDIR]),
    ),
    "a promotion does not look at the marks": Mutant(
        directory.try_promote,
        ["if marks:", "if False:"],
        TWICE,
        in_case("empty", [create(X)], [RMDIR], opening=[Requests(1, 7)]),
    ),
    "a promotion believes the ACL that it read before the pin": Mutant(
        directory.try_promote,
        [READ_ACL_AGAIN, "    acl = expected"],
        ACLS,
        in_case(
            "leaf", [create(X)], [SetACL(D, CLOSED, -1)], promises=Promises(observe=LOOK, at_end=acls_are_alike)
        ),
    ),
    "a delete does not bump the fence": Mutant(
        directory.remove_mirror,
        ["yield from bump_fence(d)", f"({READ_FENCE}).version"],
        ORPHAN,
        in_case("leaf", [create(X)], [RMDIR]),
    ),
    "a delete does not check the fence": Mutant(
        directory.remove_mirror,
        ["CheckVersion(d.fence, fence)", "CheckVersion(d.fence, -1)"],
        TWICE,
        in_case("empty", [RMDIR], AGAIN, bounds=Bounds((11, 40)), opening=[Requests(0, 6)]),
    ),
    "the home goes before the mirror": Mutant(
        directory.remove_mirror, [", Delete(d.mirror.path, -1)]", "]"], ORPHAN, in_case("empty", [RMDIR])
    ),
    "a mark's name is used again": Mutant(
        directory.leave_mark,
        [
            "{context.new_mark()}",
            "mark",
            "READ_ACL_UNSAFE, 0))\n    except NoNodeError:",
            "READ_ACL_UNSAFE, 0))\n    except NodeExistsError:\n        pass\n    except NoNodeError:",
        ],
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
        directory.delete_marked,
        [
            "operations = last_step(d, marks, version)",
            "for each in marks:\n            yield from take_mark(d, each)\n"
            "        operations = last_step(d, [], version)",
        ],
        TWICE,
        in_case("empty", [RMDIR], [create(X)], opening=[Requests(0, 7)]),
    ),
    "a helper does not look for the mirror": Mutant(
        directory.help_delete,
        ["is not None:\n        return", "is not None:\n        pass"],
        ORPHAN,
        in_case("leaf", [create(X)], [RMDIR], [LIST], opening=[Requests(0, 4), Requests(1, 4), Stop(1)]),
    ),
    "a helper does not bump the fence": Mutant(
        directory.help_delete,
        ["yield from bump_fence(d)", "pass"],
        ORPHAN,
        in_case("leaf", [create(X)], [RMDIR], [LIST], opening=[Requests(0, 4), Requests(1, 4), Stop(1)]),
    ),
    "a helper does not tell whose delete it has finished": Mutant(
        directory.help_delete,
        ["[*operations, announce]", "operations"],
        WRONG,
        in_case("empty", [RMDIR], [LIST], opening=[Requests(0, 7)]),
    ),
    "a helper does not know the version": Mutant(
        directory._version_of,
        ["min(int(version), IMPOSSIBLE) if VERSION.fullmatch(version) else ANY_VERSION", "ANY_VERSION"],
        WRONG,
        in_case("empty", [RMDIR_V0], [SET, LIST], opening=[Requests(0, 7), Stop(0)]),
    ),
    "a helper finishes a transaction's delete": Mutant(
        directory.help_delete,
        ['[mark for mark in marks if mark.endswith(f".{IN_TRANSACTION}")]', "[]"],
        WRONG,
        in_case(
            "empty",
            [Transaction([create("/other"), RMDIR])],
            [LIST],
            troubles=A_CRASH,
            promises=Promises(observe=[Exists("/other", None), LIST]),
        ),
    ),
    "set_acls does not bump the fence": Mutant(
        operations.set_acl_of_mirror,
        ["yield from bump_fence(d)", "pass"],
        ACLS,
        in_case(
            "leaf", [create(X)], [SetACL(D, CLOSED, -1)], promises=Promises(observe=LOOK, at_end=acls_are_alike)
        ),
    ),
    "set_acls does not look whether it was overtaken": Mutant(
        operations.set_acl_of_mirror,
        ["if now.aversion == version or is_masked(acl):", "if True:"],
        ACLS,
        in_case(
            "empty",
            [SetACL(D, OPEN, -1)],
            [SetACL(D, CLOSED, -1)],
            promises=Promises(observe=LOOK, at_end=acls_are_alike),
        ),
    ),
    "the watch is left on the data": Mutant(
        operations._no_children,
        [
            "names, stat = yield from context.ask(d.path, d.home.ensemble, GetChildren2(d.home.path, watch))",
            "names, stat = yield from ask(d.home.ensemble, GetChildren2(d.home.path, None))\n"
            "    yield from ask(d.home.ensemble, Exists(d.home.path, watch))",
        ],
        WRONG,
        in_case("leaf", [GetChildren(D, WATCH)], [create(X)]),
    ),
    "the mirror is not watched after the pin": Mutant(
        operations._no_children,
        ["if watch and (yield", "if False and (yield"],
        WRONG,
        in_case("promotion abandoned", [GetChildren(D, WATCH)], [create(X)]),
    ),
    "a mirror is taken for a child": Mutant(
        operations.look_again,
        ['return "CHILD" if mirror.cversion else None', 'return "CHILD"'],
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
