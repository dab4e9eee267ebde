"""Scenarios that are chosen by hand: what clients that meet on one directory may do to each other."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

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
from tests.explore.alone import issue, must, prepared
from tests.explore.directories import CLOSED, PLACEMENT, STATES, D, acls_are_alike, beginning, create
from tests.explore.families import X, Y, looked_at, name_of
from tests.explore.model import Model
from tests.explore.scenario import Beginning, Bounds, Program, Promises, Requests, Scenario, Stop, Troubles, Turn
from tests.explore.znodes import SEQUENCE, Request, Who

MKDIR, RMDIR, RMDIR_V0 = create(D), Delete(D, -1), Delete(D, 0)
LIST = GetChildren(D, None)
SET = SetData(D, b"new", -1)
A_CRASH, NO_TROUBLE, LAG = Troubles(crashes=1), Troubles(), Troubles(has_lag=True)
MIRRORED = tuple(state for state in STATES if state != "native")
LOOK = looked_at(D)
DEFAULT = Promises(observe=LOOK)


@dataclass(frozen=True)
class Case:
    """Programs of clients on the directory D, in each of some states."""

    programs: Sequence[Program]
    states: Sequence[str] = MIRRORED
    troubles: Troubles = A_CRASH
    bounds: Bounds = Bounds()  # noqa: RUF009 - frozen
    promises: Promises = DEFAULT
    opening: Sequence[Requests | Turn | Stop] = ()

    def scenario(self, name: str, state: str) -> Scenario:
        return Scenario(name, beginning(state), self.programs, self.troubles, self.opening, self.promises)


def mirror_is_alike(model: Model, has_crashed: bool) -> None:
    """The mirror ends up with the home's ACL, unless a client crashed."""
    if not has_crashed:
        acls_are_alike(model, has_crashed)


def _each(
    *pairs: Sequence[Program],
    longest: int | Sequence[int] = 24,
    troubles: Troubles = A_CRASH,
    promises: Promises = DEFAULT,
) -> list[Case]:
    return [Case(pair, troubles=troubles, bounds=Bounds(longest), promises=promises) for pair in pairs]


def _promote_and_delete_and_create_again() -> list[Case]:
    longer: list[Program] = [[create(X), GetData(X, None)], [RMDIR, MKDIR, create(Y)]]
    return [
        Case([[create(X)], [RMDIR, MKDIR]], troubles=NO_TROUBLE),
        Case(longer, ("leaf", "empty"), NO_TROUBLE, Bounds(14)),
    ]


def _listing() -> Iterator[Case]:
    """Also with deletes that were begun and abandoned."""
    for request in (LIST, GetChildren2(D, None)):
        yield Case([[request], [create(X)]])
        yield Case([[request], [RMDIR]], bounds=Bounds(16))
        yield Case([[request], [request]])
    yield Case([[LIST], [Delete(X, -1), RMDIR, MKDIR]], troubles=NO_TROUBLE)


def _transaction_that_deletes() -> Iterator[Case]:
    """It is never half done; but what it finds empty may get another mirror (documented)."""
    transaction, gap = Transaction([create("/other"), RMDIR]), Promises(observe=LOOK, mirrors_per_life=None)
    for request in (create(X), RMDIR, LIST, SET):
        yield Case([[transaction], [request]], troubles=NO_TROUBLE, bounds=Bounds(13), promises=gap)
    by_version = Transaction([RMDIR_V0])
    yield Case([[by_version], [SET, create(X)]], ("empty",), NO_TROUBLE, Bounds(13), gap)
    yield Case([[transaction], []], promises=gap)


def _single_requests() -> Iterator[Case]:
    requests: list[Request] = [
        create(X),
        RMDIR,
        MKDIR,
        SetData(D, b"new", 0),
        GetData(D, None),
        Exists(D, None),
        LIST,
        SetACL(D, CLOSED, -1),
        GetACL(D),
        Delete(X, -1),
        Sync(D),
    ]
    for one, other in itertools.combinations(requests, 2):
        yield Case([[one], [other]], troubles=NO_TROUBLE, bounds=Bounds(12))


def _promotion_delete_and_help() -> Iterator[Case]:
    """The promotion has seen no mark; then the delete left its own and stopped; the third one helps."""
    for state, promotion in (("leaf", 4), ("promotion abandoned", 6)):
        for marked, request in itertools.product(range(4, 8), (LIST, create(Y), RMDIR)):
            opening: list[Requests | Stop] = [Requests(0, promotion), Requests(1, marked), Stop(1)]
            programs: list[Program] = [[create(X)], [RMDIR], [request]]
            yield Case(programs, (state,), NO_TROUBLE, Bounds(18), opening=opening)


AGAIN = (RMDIR, MKDIR, create(X), Delete(X, -1), create(D + "/s", SEQUENCE), Delete(D + "/s0000000001", -1))


def _a_delete_that_comes_late() -> Iterator[Case]:
    """It is about to delete the mirror when another deletes the directory, and makes it again."""
    for steps in range(4, 8):
        opening = [Requests(0, steps)]
        yield Case([[RMDIR], AGAIN], ("empty",), NO_TROUBLE, Bounds((11, 40)), opening=opening)


ALIKE = Promises(observe=LOOK, at_end=mirror_is_alike)
CASES: Mapping[str, Sequence[Case]] = {
    "promote and delete": _each([[create(X)], [RMDIR]], longest=18),
    "promote and delete and create again": _promote_and_delete_and_create_again(),
    "delete and delete": _each([[RMDIR], [RMDIR]], longest=13),
    "promote and promote": [
        *_each([[create(X)], [create(X)]], [[create(X)], [create(Y)]]),
        *_each([[Create2(X, b"", OPEN_ACL_UNSAFE, 0)], [create(D + "/s", SEQUENCE)]], longest=13),
    ],
    "delete and set": [
        *_each([[RMDIR], [SET]]),
        *_each([[RMDIR, MKDIR], [SetData(D, b"new", 0)]], troubles=NO_TROUBLE),
    ],
    # the documented gap: a set that slips in leaves the directory empty, to be promoted again
    "delete with version": [
        *_each([[RMDIR_V0], [SET]], promises=Promises(observe=LOOK, mirrors_per_life=2)),
        *_each([[RMDIR_V0], [create(X)]], longest=16),
    ],
    "set_acls": [
        *_each(
            [[SetACL(D, CLOSED, -1)], [create(X)]],
            [[SetACL(D, CLOSED, -1)], [SetACL(D, OPEN_ACL_UNSAFE, -1)]],
            promises=ALIKE,
        ),
        *_each([[SetACL(D, CLOSED, -1)], [RMDIR]], longest=14, promises=ALIKE),
    ],
    "listing": [*_listing()],
    "transactions": [
        *_each([[Transaction([create(X), create(Y)])], [RMDIR]], longest=16),
        *_each([[Transaction([create(X), create(Y)])], [create(X)]]),
    ],
    "transaction that deletes": [*_transaction_that_deletes()],
    "single requests": [*_single_requests()],
    "promotion delete and help": [*_promotion_delete_and_help()],
    "a delete that comes late": [*_a_delete_that_comes_late()],
    # a server may answer a read from the past, as far as the session's own requests allow
    "a parent that lags": [
        Case([[MKDIR], [create(X)]], ("missing",), LAG),
        Case([[RMDIR, MKDIR], [create(X)]], ("leaf",), LAG, Bounds(14)),
    ],
    "writers and lag": [
        *_each([[create(X)], [create(Y)]], longest=12, troubles=LAG),
        *_each([[create(X)], [RMDIR]], longest=10, troubles=LAG),
    ],
    # an ACL that was read from a lagging server does not stay on the mirror
    "ACLs and lag": [
        Case(
            [[SetACL(D, CLOSED, -1)], [create(X)]],
            ("leaf", "promotion abandoned", "empty"),
            LAG,
            promises=ALIKE,
        ),
    ],
}


@dataclass(frozen=True)
class Chosen:
    """:param number: of the case among those of `about`."""

    about: str
    number: str
    state: str
    family: ClassVar[str] = "chosen"

    def scenario(self) -> Scenario:
        return self.case.scenario(name_of(self), self.state)

    @property
    def case(self) -> Case:
        return CASES[self.about][int(self.number)]

    @classmethod
    def members(cls, about: str) -> Iterator[Chosen]:
        for number, case in enumerate(CASES[about]):
            for state in case.states:
                yield cls(about, str(number), state)


# ---- rights that are taken away ----------------------------------------------------------------

ALICE, BOB = Id("digest", "alice:YWxpY2U="), Id("digest", "bob:Ym9i")
BOTH = [ACL(Permissions.ALL, ALICE), ACL(Permissions.ALL, BOB)]
ACLS: Mapping[str, tuple[Sequence[ACL], Sequence[ACL]]] = {
    "alice leaves bob ADMIN": (
        [ACL(Permissions.ALL, ALICE), ACL(Permissions.ADMIN, BOB)],
        [ACL(Permissions.ALL, BOB)],
    ),
    "bob leaves alice READ": (BOTH, [ACL(Permissions.ALL, BOB), ACL(Permissions.READ, ALICE)]),
    "both leave nothing": ([ACL(Permissions.ALL, ALICE)], [ACL(Permissions.ALL, BOB)]),
}


@dataclass(frozen=True)
class Rights:
    """Two set ACLs that take the other's rights: who is overtaken neither fails nor writes the hidden digests of
    the other's ACL to the mirror."""

    acls: str
    family: ClassVar[str] = "rights"

    def scenario(self) -> Scenario:
        model, specification = prepared(PLACEMENT, [D]), Model(1)
        for request in (Create(D, b"", BOTH, 0), create(X)):
            issue(PLACEMENT, model, request)
            must(specification.execute(0, request))
        return Scenario(
            name_of(self),
            Beginning(PLACEMENT, model, specification),
            [[SetACL(D, acl, -1)] for acl in ACLS[self.acls]],
            promises=Promises(at_end=acls_are_alike),
            whos=[
                Who((number,) * 5, frozenset([user]), has_all=False) for number, user in ((70, ALICE), (80, BOB))
            ],
        )
