"""A directory with a pin as fsck sees it, and what two looks at it prove."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kazoo.exceptions import NoAuthError, NoNodeError

from parkazoo.kazoo_private import GetACL, GetChildren, Sync
from parkazoo.protocol.findings import DIFFERING_ACLS, UNFINISHED_DELETES, UNFINISHED_MOVES, Finding, is_mark
from parkazoo.protocol.moving import is_old_mark, move_of
from parkazoo.protocol.placement import Directory
from parkazoo.protocol.rights import (
    is_masked,
    pin_acl,
)
from parkazoo.protocol.steps import Operation
from parkazoo.types.znodes import ACL, ZnodeStat

ACLAnswer = tuple[list[ACL], ZnodeStat] | Exception  # to a GetACL


class Snapshot(NamedTuple):
    """A directory with a pin, as it looked.

    :param versions: czxid and aversion of home, mirror and pin, so far as they may be seen.
    :param differing: of "mirror" and "pin", those whose ACL is not what the home's asks for.
    :param is_hidden: whether we may not see enough to tell.
    """

    marks: frozenset[str]
    has_mirror: bool
    versions: tuple[tuple[int, int] | None, ...]
    differing: tuple[str, ...]
    is_hidden: bool


def observe(d: Directory, *, is_fresh: bool = True) -> Operation[Snapshot | None]:
    """A directory as it is; None if it has no pin.

    :param is_fresh: whether all must be newer than this call. Else a server that lags may answer.
    """
    home, mirror = d.home.ensemble, d.mirror.ensemble
    sync = ((home, Sync("/")), (mirror, Sync("/"))) if is_fresh else ()
    answers = yield (
        *sync,
        (home, GetChildren(d.pin, None)),
        (home, GetACL(d.home.path)),
        (home, GetACL(d.pin)),
        (mirror, GetACL(d.mirror.path)),
    )
    for answer in answers:
        if isinstance(answer, Exception) and not isinstance(answer, (NoNodeError, NoAuthError)):
            raise answer
    marks, *acls = answers[len(sync) :]
    if isinstance(marks, NoNodeError):
        return None
    return _snapshot([] if isinstance(marks, NoAuthError) else marks, isinstance(marks, NoAuthError), *acls)


def _snapshot(
    marks: Iterable[str], has_hidden_marks: bool, home: ACLAnswer, pin: ACLAnswer, mirror: ACLAnswer
) -> Snapshot:
    """From the answers: each an ACL and a stat, or the error."""
    has_mirror = not isinstance(mirror, NoNodeError)
    is_hidden = has_hidden_marks or any(isinstance(each, NoAuthError) for each in (home, pin, mirror))
    differing = []
    if not isinstance(home, Exception):
        # One identity asks, so what a server hides it hides of equal ACLs alike.
        if not isinstance(mirror, Exception) and set(mirror[0]) != set(home[0]):
            differing.append("mirror")
        if not isinstance(pin, Exception) and set(pin[0]) != set(pin_acl(home[0])):
            differing.append("pin")
        is_hidden = is_hidden or (not differing and is_masked(home[0]))
    versions = tuple(
        None if isinstance(each, Exception) else (each[1].czxid, each[1].aversion) for each in (home, mirror, pin)
    )
    return Snapshot(frozenset(marks), has_mirror, versions, tuple(differing), is_hidden)


def judge(d: Directory, before: Snapshot, now: Snapshot | None) -> list[Finding]:
    """What two looks at a directory, with time in between, prove."""
    findings: list[Finding] = []
    if now is None:
        return findings
    marks = frozenset(filter(is_mark, before.marks & now.marks))
    if marks:
        detail = f"{len(marks)} begun" if len(marks) > 1 else ""
        findings.append(Finding(UNFINISHED_DELETES, d.home.ensemble, d.path, detail, d, marks))
    moves = [mark for mark in before.marks & now.marks if move_of(mark)]
    if moves:
        told = "the place before is still there" if any(map(is_old_mark, moves)) else "its mark is still there"
        findings.append(Finding(UNFINISHED_MOVES, d.home.ensemble, d.path, told))
    # The client that has set the ACL in between mends the mirror.
    if now.differing and now.differing == before.differing and now.versions == before.versions:
        findings.append(Finding(DIFFERING_ACLS, d.mirror.ensemble, d.path, " and ".join(now.differing), d))
    return findings
