"""The explorer finds what it is there to find: each mutation of the protocol breaks a promise in its sight.

A mutant is a production function with a piece of its source replaced. The same scenario without it is clean.
"""

from __future__ import annotations
import __future__

import inspect
import sys
import textwrap
import unittest
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple
from unittest.mock import patch

from parkazoo.kazoo_private import Delete, Exists, GetChildren, GetData, SetACL, SetData, Transaction
from parkazoo.protocol import directory, operations
from parkazoo.protocol.past import Change, Past
from parkazoo.protocol.plans import PLANS
from tests.explore.explorer import Program, Violation
from tests.explore.families import CLOSED, WATCH, D, acls_are_alike, create, scenario
from tests.explore.model import SEQUENCE

X, Y = D + "/x", D + "/y"
OPEN = create(X).acl
LIST = GetChildren(D, None)
MKDIR, RMDIR, RMDIR_V0 = create(D), Delete(D, -1), Delete(D, 0)
AGAIN = [RMDIR, MKDIR, create(X), Delete(X, -1), create(D + "/s", SEQUENCE), Delete(D + "/s0000000001", -1)]
ORPHAN, TWICE, WRONG, ACLS = "orphan", "2 mirrors in one life", "not linearizable", "another ACL"


class Mutant(NamedTuple):
    """What is changed in which function, and the scenario in which it is seen.

    :param pieces: old and new, alternating. :param violation: what the explorer says.
    """

    function: Callable[..., Any]
    pieces: Sequence[str]
    violation: str
    state: str
    programs: Sequence[Program]
    others: dict[str, Any] = {}  # noqa: RUF012 - never changed

    def explore(self) -> None:
        explorer = scenario(self.state, self.programs, **({"crashes": 0} | self.others))
        explorer.explore()
        assert explorer.ends

    def applied(self) -> ExitStack:
        """The mutation, as long as it is entered, wherever the function is used."""
        source, name = textwrap.dedent(inspect.getsource(self.function)), self.function.__name__
        for old, new in zip(self.pieces[::2], self.pieces[1::2], strict=True):
            assert source.count(old) == 1, f"{name} has changed: {old!r} is in it {source.count(old)} times"
            source = source.replace(old, new)
        module = inspect.getmodule(self.function)
        made: dict[str, Any] = {}
        flags = __future__.annotations.compiler_flag
        exec(compile(source, f"<mutant of {name}>", "exec", flags), vars(module), made)
        stack = ExitStack()
        owner, _, _ = self.function.__qualname__.rpartition(".")  # of a method, its class
        if owner:
            stack.enter_context(patch.object(getattr(module, owner), name, made[name]))
        for user in list(sys.modules.values()):
            if user.__name__.startswith("parkazoo.") and vars(user).get(name) is self.function:
                stack.enter_context(patch.object(user, name, made[name]))
        for kind, plan in PLANS.items():
            if plan.operation is self.function:
                stack.enter_context(patch.dict(PLANS, {kind: plan._replace(operation=made[name])}))
        return stack


READ_FENCE = "yield from _stat_of_fence(d, (yield from ask(d.mirror.ensemble, Exists(d.fence, None))))"
READ_ACL_AGAIN = "        acl = yield from _acl_of(d, known, answer)"
LAG = {"has_lag": True, "most": 1500}


def in_steps(*steps: Any) -> Callable[[], Generator[Any, Any, None]]:
    """A program of requests, one after the other, and lists of requests that are issued at once."""

    def program() -> Generator[Any, Any, None]:
        for step in steps:  # noqa: UP028 - a tuple cannot be sent the results
            yield step

    return program


PIPELINE = [create(Y), GetData(D, None), LIST]
MUTANTS = {
    "reads are not behind own changes": Mutant(
        Past.is_behind,
        ["if self._count <= written:", "if True:"],
        WRONG,
        "empty",
        [[RMDIR, LIST], [RMDIR, MKDIR]],
        LAG,
    ),
    "reads are not behind own changes above": Mutant(
        Past.is_behind,
        ['path.rpartition("/")[0]', '""'],
        WRONG,
        "with a child",
        [[MKDIR, GetData(X, None)], [Delete(X, -1), RMDIR]],
        LAG,
    ),
    "reads are not behind own changes below": Mutant(
        Past.is_behind,
        ["self._below.get(path)", "None"],
        WRONG,
        "missing",
        [[create(X), GetData(D, None)], [MKDIR, create(Y)]],
        LAG,
    ),
    "reads are not behind changes that failed": Mutant(
        Change.__exit__,
        [
            "self._past.end(self, error is None or isinstance(error, self._failures))",
            "self._past._named.pop(self.paths[0]) if error else self._past.end(self, True)",
        ],
        WRONG,
        "empty",
        [[RMDIR, LIST], [RMDIR]],
        LAG,
    ),
    "a change counts from its begin alone": Mutant(
        Past.end,
        ["self._count = change.count = self._count + 1", "pass"],
        WRONG,
        "with a child",
        [in_steps([MKDIR, LIST], LIST), [Delete(X, -1), RMDIR]],
        {**LAG, "first": [0, 0] + [1] * 9},
    ),
    "a directory that was made again is known by its earlier life": Mutant(
        operations.create,
        ["    resolver.forget(path)", "    pass", "resolver.forget_all(path)", "pass"],
        WRONG,
        "missing",
        [in_steps(MKDIR, create(X), MKDIR, PIPELINE), [Delete(X, -1), RMDIR]],
        {"turns": [(0, 2), (1, None), (0, 1)], "is_in_order": True},
    ),
    "the earlier life is forgotten when the create has ended": Mutant(
        operations.create,
        ["    resolver.forget(path)", "    pass"],
        WRONG,
        "missing",
        [in_steps(MKDIR, create(X), [MKDIR, *PIPELINE]), [Delete(X, -1), RMDIR]],
        {"turns": [(0, 2), (1, None)], "is_in_order": True},
    ),
    "a promotion does not check the fence": Mutant(
        directory.promote,
        ['SetData(d.fence, b"", fence.version)', 'SetData(d.fence, b"", -1)'],
        ORPHAN,
        "leaf",
        [[create(X)], [RMDIR]],
    ),
    "a promotion reads the fence after the marks": Mutant(
        directory.promote,
        [READ_ACL_AGAIN, f"        fence = {READ_FENCE}\n{READ_ACL_AGAIN}"],
        ORPHAN,
        "promotion abandoned",
        [[create(X)], [RMDIR]],
    ),
    "a promotion does not look at the marks": Mutant(
        directory.promote, ["if marks:", "if False:"], TWICE, "empty", [[create(X)], [RMDIR]], {"first": [1] * 7}
    ),
    "a promotion believes the ACL that it read before the pin": Mutant(
        directory.promote,
        [READ_ACL_AGAIN, "        acl = expected"],
        ACLS,
        "leaf",
        [[create(X)], [SetACL(D, CLOSED, -1)]],
        {"at_end": acls_are_alike},
    ),
    "a delete does not bump the fence": Mutant(
        directory.remove_mirror,
        ["yield from bump_fence(d)", f"({READ_FENCE}).version"],
        ORPHAN,
        "leaf",
        [[create(X)], [RMDIR]],
    ),
    "a delete does not check the fence": Mutant(
        directory.remove_mirror,
        ["CheckVersion(d.fence, fence)", "CheckVersion(d.fence, -1)"],
        TWICE,
        "empty",
        [[RMDIR], AGAIN],
        {"first": [0] * 6, "longest": [11, 40]},
    ),
    "the home goes before the mirror": Mutant(
        directory.remove_mirror, [", Delete(d.mirror.path, -1)]", "]"], ORPHAN, "empty", [[RMDIR]]
    ),
    "a mark's name is used again": Mutant(
        directory.leave_mark,
        [
            "{tree.new_mark()}",
            "mark",
            "READ_ACL_UNSAFE, 0))\n    except NoNodeError:",
            "READ_ACL_UNSAFE, 0))\n    except NodeExistsError:\n        pass\n    except NoNodeError:",
        ],
        ORPHAN,
        "empty",
        [[RMDIR], [RMDIR, MKDIR, create(X), Delete(X, -1), RMDIR]],
        {"first": [0] * 7, "longest": [8, 40]},
    ),
    "the last step does not hold the marks": Mutant(
        directory.delete_directory,
        [
            "operations = last_step(d, marks, version)",
            "for each in marks:\n                    yield from take_mark(d, each)\n"
            "                operations = last_step(d, [], version)",
        ],
        TWICE,
        "empty",
        [[RMDIR], [create(X)]],
        {"first": [0] * 7},
    ),
    "a helper does not look for the mirror": Mutant(
        directory.help_delete,
        ["is not None:\n        return", "is not None:\n        pass"],
        ORPHAN,
        "leaf",
        [[create(X)], [RMDIR], [LIST]],
        {"first": [0] * 4 + [1] * 4, "stopped": [1]},
    ),
    "a helper does not bump the fence": Mutant(
        directory.help_delete,
        ["yield from bump_fence(d)", "pass"],
        ORPHAN,
        "leaf",
        [[create(X)], [RMDIR], [LIST]],
        {"first": [0] * 4 + [1] * 4, "stopped": [1]},
    ),
    "a helper does not tell whose delete it has finished": Mutant(
        directory.help_delete,
        ["[*operations, announce]", "operations"],
        WRONG,
        "empty",
        [[RMDIR], [LIST]],
        {"first": [0] * 7},
    ),
    "a helper does not know the version": Mutant(
        directory._version_of,
        ["min(int(version), IMPOSSIBLE) if VERSION.fullmatch(version) else ANY_VERSION", "ANY_VERSION"],
        WRONG,
        "empty",
        [[RMDIR_V0], [SetData(D, b"new", -1), LIST]],
        {"first": [0] * 7, "stopped": [0]},
    ),
    "a helper finishes a transaction's delete": Mutant(
        directory.help_delete,
        ['[mark for mark in marks if mark.endswith(f".{IN_TRANSACTION}")]', "[]"],
        WRONG,
        "empty",
        [[Transaction([create("/other"), RMDIR])], [LIST]],
        {"crashes": 1, "observe": [Exists("/other", None), LIST]},
    ),
    "set_acls does not bump the fence": Mutant(
        operations.set_acls,
        ["yield from bump_fence(d)", "pass"],
        ACLS,
        "leaf",
        [[create(X)], [SetACL(D, CLOSED, -1)]],
        {"at_end": acls_are_alike},
    ),
    "set_acls does not look whether it was overtaken": Mutant(
        operations.set_acls,
        ["if now.aversion == version or is_masked(acl):", "if True:"],
        ACLS,
        "empty",
        [[SetACL(D, OPEN, -1)], [SetACL(D, CLOSED, -1)]],
        {"at_end": acls_are_alike},
    ),
    "the watch is left on the data": Mutant(
        operations._no_children,
        [
            "names, stat = yield from tree.ask(d.path, d.home.ensemble, GetChildren2(d.home.path, watch))",
            "names, stat = yield from ask(d.home.ensemble, GetChildren2(d.home.path, None))\n"
            "    yield from ask(d.home.ensemble, Exists(d.home.path, watch))",
        ],
        WRONG,
        "leaf",
        [[GetChildren(D, WATCH)], [create(X)]],
    ),
    "the mirror is not watched after the pin": Mutant(
        operations._no_children,
        ["if watch and (yield", "if False and (yield"],
        WRONG,
        "promotion abandoned",
        [[GetChildren(D, WATCH)], [create(X)]],
    ),
    "a mirror is taken for a child": Mutant(
        operations.look_again,
        ['return "CHILD" if mirror.cversion else None', 'return "CHILD"'],
        WRONG,
        "leaf",
        [[GetChildren(D, WATCH)], [Transaction([create(X), Delete(Y, -1)])]],
    ),
}


class TestMutants(unittest.TestCase):
    def test_each_is_caught(self) -> None:
        for name, mutant in MUTANTS.items():
            with self.subTest(name), mutant.applied(), self.assertRaisesRegex(Violation, mutant.violation):
                mutant.explore()

    def test_without_them_all_is_well(self) -> None:
        for name, mutant in MUTANTS.items():
            with self.subTest(name):
                mutant.explore()
