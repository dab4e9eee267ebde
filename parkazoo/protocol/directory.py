"""Promote, delete and help: the life of a directory over two ensembles.

The protocol, and why it holds, is in docs/design/protocol.md. In short: the pin below the home says that a mirror
may exist. A delete leaves a mark below the pin, under a name that is never used twice. The version of the fence,
beside the mirror, orders promotions against deletes. So a promotion that read the fence before it saw a pin
without marks cannot land after a delete that bumped the fence. A multi that deletes a mark proves that the
directory is the one in which the mark was seen.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from enum import Enum
from typing import Any, Final, NamedTuple

from kazoo.exceptions import (
    BadVersionError,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
)
from kazoo.security import ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from parkazoo.kazoo_private import (
    CheckVersion,
    Create,
    Delete,
    Exists,
    GetACL,
    GetChildren,
    SetACL,
    SetData,
    Transaction,
)
from parkazoo.protocol.context import Context
from parkazoo.protocol.fence import bump_fence, make_fence, stat_of_fence, unprepared
from parkazoo.protocol.moving import is_move_mark, under_way
from parkazoo.protocol.old_place import clear_moves
from parkazoo.protocol.pin import encode_pin
from parkazoo.protocol.placement import DONE, PIN, Directory
from parkazoo.protocol.presence import is_proved_by, mirror_is_enough
from parkazoo.protocol.rights import is_masked, pin_acl
from parkazoo.protocol.steps import IMPOSSIBLE, Either, Operation, Step, WriteRequest, ask, commit, failure
from parkazoo.types.znodes import ZnodeStat

ANY_VERSION = -1
IN_TRANSACTION = "transaction"
VERSION = re.compile("[0-9]{1,10}")
UNPROMOTED = (NoAuthError, NoChildrenForEphemeralsError, NoNodeError)  # a promotion is refused
LOST = (BadVersionError, NotEmptyError)  # a delete's last step, to a concurrent set or a foreign child


class Again(Enum):
    """In place of a result: begin again."""

    AGAIN = "begin again"


AGAIN: Final = Again.AGAIN


# ---- who may do what --------------------------------------------------------------------------


class KnownACL(NamedTuple):
    """The home's ACL as we set it, and the aversion that it had then."""

    acl: Sequence[ACL]
    aversion: int


def _acl_request(d: Directory, known: KnownACL | None) -> Step:
    """Asks for the home's ACL; or only for its aversion, which needs READ where GetACL would need ADMIN."""
    return d.home.ensemble, Exists(d.home.path, None) if known else GetACL(d.home.path)


def _acl_of(d: Directory, known: KnownACL | None, answer: Any) -> Operation[Sequence[ACL]]:
    """The home's ACL, from the answer to :func:`_acl_request`."""
    if known and not isinstance(answer, Exception):
        if answer is None:
            raise NoNodeError
        if answer.aversion == known.aversion:
            return known.acl
        (answer,) = yield (_acl_request(d, None),)
    if isinstance(answer, Exception) and not isinstance(answer, NoAuthError):
        raise answer
    if isinstance(answer, NoAuthError) or is_masked(answer[0]):
        raise NoAuthError(
            f"{d.path} has no child yet, and the first one needs an identity that may read the directory's "
            "whole ACL (ADMIN): let one create it, or set the ACL again"
        )
    acl: Sequence[ACL] = answer[0]
    return acl


# ---- promote ----------------------------------------------------------------------------------


def try_promote(
    context: Context,
    d: Directory,
    child: Create | None,
    known: KnownACL | None,
    may_be_there: bool,
    names_mirror: Callable[[], Operation[bool]],
) -> Operation[str | Again | None]:
    """Make the mirror of `d`, and `child` (a Create with its physical path) with it, unless the directory changes.

    :param known: the home's ACL, if we have just set it and may not be able to read it.
    :param may_be_there: whether the mirror may be there: then nothing waits for the home, which may be away.
    :param names_mirror: whether the pin that is there names the mirror's ensemble.
    :returns: the created child's path; None without `child`, or if the mirror was there before it; AGAIN if the
        directory has changed meanwhile.
    :raises: what the create of a child raises on one ZooKeeper: NoNodeError, NoChildrenForEphemeralsError, ...
    """
    home, mirror = d.home.ensemble, d.mirror.ensemble
    # The fence before the marks; if it is stale, the last step fails.
    reads = (mirror, Exists(d.fence, None)), _acl_request(d, known)
    if may_be_there:
        there, seen, answer = yield Either.of([(mirror, Exists(d.mirror.path, None)), *reads], mirror_is_enough)
        if is_proved_by(there):
            return None
        if isinstance(there, Exception):
            raise there
    else:
        seen, answer = yield reads
    fence = yield from stat_of_fence(d, seen)
    try:
        expected = yield from _acl_of(d, known, answer)
    except (NoNodeError, NoAuthError):
        # The server may lag. Once it has answered a write, even one that fails, it has caught up.
        cannot: list[WriteRequest] = [Create(d.pin, b"", OPEN_ACL_UNSAFE, 0), CheckVersion(d.pin, IMPOSSIBLE)]
        _, _, error = yield from commit(home, cannot)
        if isinstance(error, NoChildrenForEphemeralsError):
            raise error from None
        (answer,) = yield (_acl_request(d, known),)
        expected = yield from _acl_of(d, known, answer)
    pin = Create(d.pin, encode_pin(fence, context.names[mirror]), pin_acl(expected), 0)
    first = [Create(d.mirror.path, b"", expected, 0), *([child] if child else ())]
    # A pin that names a generation, or an ensemble that leaves, is there, or the life in which it was seen is
    # over: it is not made again.
    is_kept = bool(d.generation) or mirror in context.places.leaving
    if home == mirror and not is_kept:
        with suppress(NodeExistsError):  # else there is a pin
            return (yield from _make_at_home(d, fence, pin, first))
    # A write, for a read may be stale. The ACL again after it: a set_acls from now on sees the pin, and bumps
    # the fence.
    written = Transaction([CheckVersion(d.pin, ANY_VERSION)]) if is_kept else pin
    pinned, answer = yield (home, written), _acl_request(d, known)
    if is_kept and not isinstance(pinned, Exception):
        pinned = failure(pinned)[1] or NodeExistsError()
    if is_kept and isinstance(pinned, NoNodeError):
        return AGAIN
    if isinstance(pinned, NodeExistsError):
        try:
            marks = yield from ask(home, GetChildren(d.pin, None))
            if not (yield from names_mirror()):
                return AGAIN
        except NoNodeError:
            return AGAIN
        if under_way(marks):
            yield from help_delete(context, d, marks)
            return AGAIN
    elif isinstance(pinned, Exception):
        raise pinned
    acl = yield from _acl_of(d, known, answer)
    if acl != expected:
        yield from ask(home, SetACL(d.pin, pin_acl(acl), -1))
    first[0] = Create(d.mirror.path, b"", acl, 0)
    results, index, error = yield from commit(mirror, [SetData(d.fence, b"", fence.version), *first])
    if error is None:
        return results[2] if child else None
    if index == 1 and isinstance(error, NodeExistsError):
        return None
    if index == 1 and isinstance(error, NoNodeError):
        raise unprepared(d)
    if index or not isinstance(error, (BadVersionError, NoNodeError)):
        raise error
    return AGAIN


def _make_at_home(
    d: Directory, fence: ZnodeStat, pin: Create, first: Sequence[Create]
) -> Operation[str | Again | None]:
    """All at once, on one ensemble. A set_acls that did not see this pin raises the fence: the ACL is the newest.

    :raises NodeExistsError: there is a pin, or a mirror.
    """
    operations: list[WriteRequest] = [SetData(d.fence, b"", fence.version), pin, *first]
    results, index, error = yield from commit(d.home.ensemble, operations)
    if error is None:
        return results[3] if len(first) > 1 else None
    if not index and isinstance(error, (BadVersionError, NoNodeError)):
        return AGAIN
    raise unprepared(d) if index == 2 and isinstance(error, NoNodeError) else error


# ---- delete -----------------------------------------------------------------------------------


def may_delete(d: Directory) -> Operation[bool]:
    """The plain delete of the home met the pin: check whether a delete may go on. Changes nothing.

    :returns: False if the directory has changed meanwhile: begin again.
    :raises NotEmptyError, NoAuthError: it may not.
    """
    probe: list[WriteRequest] = [Delete(d.mirror.path, -1), CheckVersion(d.fence, IMPOSSIBLE)]  # cannot succeed
    _, _, error = yield from commit(d.mirror.ensemble, probe)
    if isinstance(error, (NotEmptyError, NoAuthError)):
        raise error
    try:
        yield from ask(d.home.ensemble, Delete(d.pin, IMPOSSIBLE))  # may we do the last step?
    except BadVersionError:
        return True
    except NoNodeError:
        yield from verify_no_foreign_child(d)
    return False


def verify_no_foreign_child(d: Directory) -> Operation[None]:
    """A client that does not know ParKazoo may have made a child below the home: then this is no race.

    :raises NotEmptyError: there is one.
    """
    names: list[str] = []
    with suppress(NoNodeError):
        names = yield from ask(d.home.ensemble, GetChildren(d.home.path, None))
    if any(name != PIN for name in names):
        raise NotEmptyError


def leave_mark(context: Context, d: Directory, intent: str) -> Operation[str | None]:
    """The first step of a delete.

    :param intent: what other clients may do for us: finish the delete of this version or, if it is
        IN_TRANSACTION, call it off.
    :returns: the mark's name; None if the directory has changed meanwhile: begin again.
    """
    mark = f"{context.new_mark()}.{intent}"
    try:
        yield from ask(d.home.ensemble, Create(d.mark(mark), b"", READ_ACL_UNSAFE, 0))
    except NoNodeError:
        return None
    return mark


def remove_mirror(context: Context, d: Directory, mark: str) -> Operation[list[str] | None]:
    """Delete the mirror, if the directory is empty, and first the place that a move has left behind.

    :returns: the marks under which it went, for :func:`last_step`; None if another client removed our mark.
    :raises NotEmptyError, NoAuthError: our mark is gone again.
    """
    fence = yield from bump_fence(d)
    while True:
        try:
            marks = yield from ask(d.home.ensemble, GetChildren(d.pin, None))
        except NoNodeError:
            return None
        if mark not in marks:
            return None
        try:
            marks = yield from clear_moves(context, d, marks)
        except NoAuthError:
            if not (yield from take_mark(d, mark)):
                return None
            raise
        operations: list[WriteRequest] = [CheckVersion(d.fence, fence), Delete(d.mirror.path, -1)]
        _, index, error = yield from commit(d.mirror.ensemble, operations)
        if error is None or (index == 1 and isinstance(error, NoNodeError)):
            return marks
        if index == 1:  # not empty, or not ours to delete
            if not (yield from take_mark(d, mark)):
                return None
            raise error
        if not isinstance(error, (BadVersionError, NoNodeError)):
            raise error
        # Another has raised the fence. It is not raised again: two deletes could do that in turn for ever.
        fence = (yield from make_fence(d)).version


def last_step(d: Directory, marks: Iterable[str], version: int) -> list[WriteRequest]:
    """With the mirror gone for good: marks, pin and home, in one multi on the home's ensemble."""
    return [
        *(Delete(d.mark(mark), -1) for mark in marks),
        Delete(d.pin, -1),
        Delete(d.home.path, version),
    ]


def take_mark(d: Directory, mark: str) -> Operation[bool]:
    """Remove our mark again; False if another client has done so already."""
    try:
        yield from ask(d.home.ensemble, Delete(d.mark(mark), -1))
    except NoNodeError:
        return False
    return True


def take_done(d: Directory, mark: str) -> Operation[bool]:
    """Another client removed our mark. Did it finish our delete for us? Only one deleter gets True."""
    try:
        yield from ask(d.home.ensemble, Delete(f"{DONE}/{mark}", -1))
    except NoNodeError:
        return False
    return True


def delete_again(d: Directory, version: int) -> Operation[bool]:
    """It had children after its version was seen. Seen again, the version was the same in between too."""
    if version == ANY_VERSION:
        raise NotEmptyError
    return bool((yield from ask(d.home.ensemble, Delete(d.home.path, version))))


def delete_marked(context: Context, d: Directory, mark: str, version: int) -> Operation[bool]:
    """What follows :func:`leave_mark`; False if the directory has changed meanwhile: begin again."""
    while marks := (yield from remove_mirror(context, d, mark)):
        operations = last_step(d, marks, version)
        _, index, error = yield from commit(d.home.ensemble, operations)
        if error is None:
            return True
        is_lost = index == len(operations) - 1 and isinstance(error, LOST)
        if is_lost or isinstance(error, NoAuthError):
            if not (yield from take_mark(d, mark)):
                break
            raise error
    return (yield from take_done(d, mark))


def help_delete(context: Context, d: Directory, marks: Sequence[str]) -> Operation[None]:
    """Finish a delete that was seen under way, if its mirror is gone; then the caller looks again.

    A transaction's delete is called off instead: it must not happen without the rest of the transaction. So is a
    move.

    :param marks: as read before this call.
    """
    called_off = [mark for mark in marks if mark.endswith(f".{IN_TRANSACTION}") or is_move_mark(mark)]
    for mark in called_off:
        yield from take_mark(d, mark)
    if called_off or not under_way(marks):
        return
    yield from bump_fence(d)
    if (yield from ask(d.mirror.ensemble, Exists(d.mirror.path, None))) is not None:
        return
    marks = yield from clear_moves(context, d, marks)
    winner = min(marks)
    operations = last_step(d, marks, _version_of(winner))
    announce = Create(f"{DONE}/{winner}", b"", READ_ACL_UNSAFE, 0)
    _, index, error = yield from commit(d.home.ensemble, [*operations, announce])
    if index == len(operations) - 1 and isinstance(error, LOST):
        yield from take_mark(d, winner)
    elif index == len(operations):
        raise unprepared(d)
    elif isinstance(error, NoAuthError):
        raise error


def _version_of(mark: str) -> int:
    """The version that a delete asked for; any (-1) for a mark that was made by hand."""
    version = mark.rpartition(".")[2]
    return min(int(version), IMPOSSIBLE) if VERSION.fullmatch(version) else ANY_VERSION
