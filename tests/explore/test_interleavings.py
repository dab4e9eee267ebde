"""Two clients on one directory, in every order of their requests, with a crash at every step.

In every state: no mirror without a home that has a pin, and at most one mirror in a directory's life. At the end:
all results, and what a third client then sees, are those of one ZooKeeper.
"""

from __future__ import annotations

import itertools
import unittest
from collections.abc import Sequence
from typing import Any

from kazoo.security import ACL, OPEN_ACL_UNSAFE, Id, Permissions

from parkazoo.kazoo_private import (
    Create,
    Create2,
    Delete,
    Exists,
    GetACL,
    GetChildren,
    GetChildren2,
    GetData,
    SetACL,
    SetData,
    Sync,
    Transaction,
)
from parkazoo.protocol.placement import Placement
from tests.explore.explorer import Explorer, Violation, issue
from tests.explore.families import judge
from tests.explore.model import SEQUENCE, WORLD, Model, Who, find_directory, must, prepared

PLACEMENT = Placement(2)
D = find_directory(PLACEMENT, False)
X, Y = D + "/x", D + "/y"
ALICE, BOB = Id("digest", "alice:YWxpY2U="), Id("digest", "bob:Ym9i")
CLOSED = [ACL(Permissions.ALL & ~Permissions.WRITE, WORLD)]


def create(path: str, flags: int = 0) -> Create:
    return Create(path, b"", OPEN_ACL_UNSAFE, flags)


MKDIR, RMDIR, RMDIR_V0 = create(D), Delete(D, -1), Delete(D, 0)
# The requests that make a state, and after how many steps the last one is abandoned.
STATES: dict[str, tuple[Sequence[Any], int | None]] = {
    "missing": ([], None),
    "leaf": ([MKDIR], None),
    "promotion abandoned": ([MKDIR, create(X)], 2),
    "empty": ([MKDIR, create(X), Delete(X, -1)], None),
    "with a child": ([MKDIR, create(X)], None),
    "delete abandoned early": ([MKDIR, create(X), Delete(X, -1), RMDIR], 4),
    "delete abandoned late": ([MKDIR, create(X), Delete(X, -1), RMDIR], 7),
    "made again": ([MKDIR, create(X), Delete(X, -1), RMDIR, MKDIR], None),
}


def explore(
    state: str, *programs: Sequence[Any], crashes: int = 1, has_lag: bool = False, **others: Any
) -> Explorer:
    requests, steps = STATES[state]
    model, specification = prepared(PLACEMENT, [D]), Model(1)
    issue(PLACEMENT, model, *requests, steps=steps)
    for request in requests if steps is None else requests[:-1]:
        must(specification.execute(0, request))
    explorer = Explorer(
        PLACEMENT,
        model.remembering() if has_lag else model,
        specification,
        programs,
        judge,
        crashes,
        observe=[GetChildren(D, None), Exists(D, None)],
        abandoned=[] if steps is None else [requests[-1]],
        **others,
    )
    explorer.explore()
    return explorer


class TestInterleavings(unittest.TestCase):
    def explore_all(self, *programs: Sequence[Any], states: Sequence[str] = tuple(STATES), **others: Any) -> None:
        for state in states:
            with self.subTest(state):
                explorer = explore(state, *programs, **others)
                self.assertGreater(explorer.ends, 0)

    def test_promote_and_delete(self) -> None:
        self.explore_all([create(X)], [RMDIR], longest=18)

    def test_promote_and_delete_and_create_again(self) -> None:
        self.explore_all([create(X)], [RMDIR, MKDIR], crashes=0)
        self.explore_all(
            [create(X), GetData(X, None)],
            [RMDIR, MKDIR, create(Y)],
            states=["leaf", "empty"],
            crashes=0,
            longest=14,
        )

    def test_delete_and_delete(self) -> None:
        self.explore_all([RMDIR], [RMDIR], longest=13)

    def test_promote_and_promote(self) -> None:
        self.explore_all([create(X)], [create(X)])
        self.explore_all([create(X)], [create(Y)])
        self.explore_all([Create2(X, b"", OPEN_ACL_UNSAFE, 0)], [create(D + "/s", SEQUENCE)], longest=13)

    def test_delete_and_set(self) -> None:
        self.explore_all([RMDIR], [SetData(D, b"new", -1)])
        self.explore_all([RMDIR, MKDIR], [SetData(D, b"new", 0)], crashes=0)

    def test_delete_with_version_and_set(self) -> None:
        """The documented gap: a set that slips in leaves the directory empty, to be promoted again."""
        self.explore_all([RMDIR_V0], [SetData(D, b"new", -1)], mirrors_per_life=2)
        self.explore_all([RMDIR_V0], [create(X)], longest=16)
        with self.assertRaisesRegex(Violation, "2 mirrors in one life"):
            explore("empty", [RMDIR_V0, create(Y)], [SetData(D, b"new", -1)])

    def test_set_acls_and_promote(self) -> None:
        """The mirror ends up with the home's ACL, unless a client crashed."""

        def mirror_is_alike(model: Model, has_crashed: bool) -> None:
            home, mirror = PLACEMENT.home(D), PLACEMENT.directory(D).mirror
            if not has_crashed and mirror.path in model.nodes[mirror.ensemble]:
                expected = model.nodes[home.ensemble][home.path].acl
                if model.nodes[mirror.ensemble][mirror.path].acl != expected:
                    raise Violation("the mirror has another ACL than the home")

        self.explore_all([SetACL(D, CLOSED, -1)], [create(X)], at_end=mirror_is_alike)
        self.explore_all([SetACL(D, CLOSED, -1)], [RMDIR], longest=14, at_end=mirror_is_alike)
        self.explore_all([SetACL(D, CLOSED, -1)], [SetACL(D, OPEN_ACL_UNSAFE, -1)], at_end=mirror_is_alike)

    def test_set_acls_that_takes_the_others_rights(self) -> None:
        """Whoever is overtaken neither fails nor writes the hidden digests of the other's ACL to the mirror."""
        both = [ACL(Permissions.ALL, ALICE), ACL(Permissions.ALL, BOB)]
        pairs = (
            ([ACL(Permissions.ALL, ALICE), ACL(Permissions.ADMIN, BOB)], [ACL(Permissions.ALL, BOB)]),
            (both, [ACL(Permissions.ALL, BOB), ACL(Permissions.READ, ALICE)]),
            ([ACL(Permissions.ALL, ALICE)], [ACL(Permissions.ALL, BOB)]),
        )
        whos = [Who((number,) * 5, frozenset([user]), has_all=False) for number, user in ((70, ALICE), (80, BOB))]

        def mirror_is_alike(model: Model, has_crashed: bool) -> None:
            home, mirror = PLACEMENT.home(D), PLACEMENT.directory(D).mirror
            acls = [model.nodes[place.ensemble][place.path].acl for place in (home, mirror)]
            if acls[0] != acls[1]:
                raise Violation(f"the home has {acls[0]}, the mirror {acls[1]}")

        for of_alice, of_bob in pairs:
            model, specification = prepared(PLACEMENT, [D]), Model(1)
            for request in (Create(D, b"", both, 0), create(X)):
                issue(PLACEMENT, model, request)
                must(specification.execute(0, request))
            programs = [[SetACL(D, of_alice, -1)], [SetACL(D, of_bob, -1)]]
            Explorer(
                PLACEMENT, model, specification, programs, judge, crashes=0, whos=whos, at_end=mirror_is_alike
            ).explore()

    def test_listing(self) -> None:
        """Also with deletes that were begun and abandoned."""
        for request in (GetChildren(D, None), GetChildren2(D, None)):
            self.explore_all([request], [create(X)])
            self.explore_all([request], [RMDIR], longest=16)
            self.explore_all([request], [request])
        self.explore_all([GetChildren(D, None)], [Delete(X, -1), RMDIR, MKDIR], crashes=0)

    def test_transactions(self) -> None:
        self.explore_all([Transaction([create(X), create(Y)])], [RMDIR], longest=16)
        self.explore_all([Transaction([create(X), create(Y)])], [create(X)])

    def test_transaction_that_deletes(self) -> None:
        """It is never half done; but what it finds empty may get another mirror (documented)."""
        transaction = Transaction([create("/other"), RMDIR])
        for request in (create(X), RMDIR, GetChildren(D, None), SetData(D, b"new", -1)):
            self.explore_all([transaction], [request], crashes=0, mirrors_per_life=None, longest=13)
        self.explore_all([transaction], [], mirrors_per_life=None)

    def test_every_other_pair(self) -> None:
        requests = [
            create(X),
            RMDIR,
            MKDIR,
            SetData(D, b"new", 0),
            GetData(D, None),
            Exists(D, None),
            GetChildren(D, None),
            SetACL(D, CLOSED, -1),
            GetACL(D),
            Delete(X, -1),
            Sync(D),
        ]
        for first, second in itertools.combinations(requests, 2):
            with self.subTest(first=first, second=second):
                self.explore_all([first], [second], crashes=0, longest=12)


class TestThree(unittest.TestCase):
    """Three clients, from the moment at which two of them are in each other's way."""

    def test_promotion_delete_and_help(self) -> None:
        """The promotion has seen no mark; then the delete left its own and stopped; the third one helps."""
        for state, promotion in (("leaf", 4), ("promotion abandoned", 6)):
            for marked, request in itertools.product(range(4, 8), (GetChildren(D, None), create(Y), RMDIR)):
                with self.subTest(state, marked=marked, request=request):
                    first = [0] * promotion + [1] * marked
                    explore(
                        state, [create(X)], [RMDIR], [request], crashes=0, first=first, stopped=[1], longest=18
                    )

    def test_a_delete_that_comes_late(self) -> None:
        """It is about to delete the mirror when another deletes the directory, and makes it again."""
        again = [
            RMDIR,
            MKDIR,
            create(X),
            Delete(X, -1),
            create(D + "/s", SEQUENCE),
            Delete(D + "/s0000000001", -1),
        ]
        for steps in range(4, 8):
            explore("empty", [RMDIR], again, crashes=0, longest=[11, 40], first=[0] * steps)


class TestLag(unittest.TestCase):
    """A server may answer a read from the past, as far as the session's own requests allow."""

    def test_a_create_does_not_believe_that_its_parent_is_missing(self) -> None:
        explore("missing", [MKDIR], [create(X)], crashes=0, has_lag=True)
        explore("leaf", [RMDIR, MKDIR], [create(X)], crashes=0, has_lag=True, longest=14)

    def test_writers(self) -> None:
        for state in STATES:
            with self.subTest(state):
                explore(state, [create(X)], [create(Y)], crashes=0, has_lag=True, longest=12)
                explore(state, [create(X)], [RMDIR], crashes=0, has_lag=True, longest=10)

    def test_acls(self) -> None:
        """An ACL that was read from a lagging server does not stay on the mirror."""
        for state in ("leaf", "promotion abandoned", "empty"):
            with self.subTest(state):
                explore(state, [SetACL(D, CLOSED, -1)], [create(X)], crashes=0, has_lag=True, at_end=self.is_alike)

    def is_alike(self, model: Model, has_crashed: bool) -> None:
        home, mirror = PLACEMENT.home(D), PLACEMENT.directory(D).mirror
        acl = model.nodes[home.ensemble][home.path].acl
        self.assertEqual(model.nodes[mirror.ensemble][mirror.path].acl, acl)


class TestExplorer(unittest.TestCase):
    """It must find what is wrong, or it proves nothing."""

    def test_a_result_that_no_zookeeper_gives(self) -> None:
        model, specification = prepared(PLACEMENT, [D]), Model(1)
        issue(PLACEMENT, model, MKDIR)  # but not in the specification
        with self.assertRaisesRegex(Violation, "not linearizable"):
            Explorer(PLACEMENT, model, specification, [[Exists(D, None)], []], judge).explore()

    def test_an_orphan(self) -> None:
        model = prepared(PLACEMENT, [D])
        issue(PLACEMENT, model, MKDIR, create(X))
        d = PLACEMENT.directory(D)
        for path in (d.pin, d.home.path):
            must(model.execute(d.home.ensemble, Delete(path, -1)))
        with self.assertRaisesRegex(Violation, "orphan"):
            Explorer(PLACEMENT, model, Model(1), [[Exists(D, None)]], judge).explore()
