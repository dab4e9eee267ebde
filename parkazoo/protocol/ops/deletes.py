"""Deletes."""

from __future__ import annotations

from contextlib import suppress

from kazoo.exceptions import BadVersionError, ConnectionLoss, NoAuthError, NoNodeError, NotEmptyError

from parkazoo.kazoo_private import Delete, Exists, GetChildren, GetData
from parkazoo.protocol.context import Context
from parkazoo.protocol.directory import (
    delete_again,
    delete_marked,
    leave_mark,
    may_delete,
    take_done,
    take_mark,
)
from parkazoo.protocol.old_place import clear_moves
from parkazoo.protocol.ops.creates import REFUSALS, names_mirror
from parkazoo.protocol.placement import CERTAIN, GUESS, OURS, PROOF, Directory, split
from parkazoo.protocol.presence import is_proved_by, mirror_is_enough
from parkazoo.protocol.steps import IMPOSSIBLE, Either, Operation, WriteRequest, ask, commit, placed
from parkazoo.protocol.where.lookup import at, decided, verify_whole


def delete(context: Context, request: Delete) -> Operation[bool]:
    path, places = request.path, context.places
    places.forget(path)
    above, d = places.both(path)
    own = () if d.certainty < CERTAIN else REFUSALS if d.is_native else (NoNodeError, BadVersionError)
    with context.past.begin((path,), d.home.ensemble, own) as change:
        try:
            result = None
            if above.certainty == CERTAIN:  # as at(), without its calls
                ensemble, physical = d.home
                (result,) = yield ((ensemble, request if physical == path else placed(request, physical)),)
                if context.away or isinstance(result, ConnectionLoss):
                    context.answered(ensemble, result)
            if result is not True:
                d = yield from _delete(context, request, d, result)
        except NoNodeError:
            yield from verify_may_delete_in(context, split(path)[0])
            raise
        change.ensemble = d.home.ensemble
    places.forget(path)
    return True


def _delete(
    context: Context, request: Delete, d: Directory, result: bool | Exception | None
) -> Operation[Directory]:
    """Where the home was.

    :param result: what it has been answered at the home of `d`; None: it has not been sent.
    """
    while True:
        if result is None:
            (result,), d = yield from at(context, request)
        if not isinstance(result, Exception):
            return d
        if not isinstance(result, NotEmptyError) or (d.certainty == CERTAIN and d.is_native):
            raise result
        result = None
        try:
            if (pinned := (yield from look_at_pin(context, d))) is None:
                continue
            if pinned.is_native:
                is_done = yield from _delete_native(context, pinned, request.version)
            else:
                is_done = yield from _delete_mirrored(context, pinned, request.version)
        except NotEmptyError:
            yield from delete_again(d, request.version)
            return d
        if is_done:
            return pinned


def look_at_pin(context: Context, d: Directory) -> Operation[Directory | None]:
    """A delete of the home has met children: where they are, by the pin. None: the directory has changed since.

    :raises NotEmptyError: some are below the home.
    """
    if d.certainty == CERTAIN:
        return d
    home = d.home.ensemble
    pin, names = yield (home, GetData(d.pin, None)), (home, GetChildren(d.home.path, None))
    for answer in (pin, names):
        if isinstance(answer, Exception) and not isinstance(answer, (NoNodeError, NoAuthError)):
            raise answer
    if isinstance(pin, NoNodeError):
        if isinstance(names, NoAuthError) or (not isinstance(names, Exception) and set(names) - OURS):
            raise NotEmptyError
        if not isinstance(names, Exception) and PROOF in names:
            yield from verify_whole(d)
        return None
    if isinstance(pin, Exception):
        raise pin
    try:
        found = yield from decided(context, d, pin[0])
    except NoNodeError:
        return None
    if found.is_native and not isinstance(names, Exception):
        if set(names) - OURS:
            raise NotEmptyError
        if PROOF not in names:
            yield from verify_whole(d)
    return found


def last_of_native(d: Directory, version: int) -> list[WriteRequest]:
    """Delete a directory whose children were below its home: it is empty, or this fails."""
    return [Delete(d.proof, -1), Delete(d.pin, -1), Delete(d.home.path, version)]


def _delete_native(context: Context, d: Directory, version: int) -> Operation[bool]:
    """False: the directory has changed meanwhile."""
    _, index, error = yield from commit(d.home.ensemble, last_of_native(d, version))
    if error is None:
        return True
    if index == 1 and isinstance(error, NotEmptyError):  # the pin has marks: it was about to move
        with suppress(NoNodeError):
            marks = yield from ask(d.home.ensemble, GetChildren(d.pin, None))
            if marks and not (yield from clear_moves(context, d, marks)):
                return False
    if isinstance(error, (NoAuthError, NotEmptyError)) or (index == 2 and isinstance(error, BadVersionError)):
        raise error
    return False


def _delete_mirrored(context: Context, d: Directory, version: int) -> Operation[bool]:
    """False: the directory has changed meanwhile."""
    mark = (yield from leave_mark(context, d, str(version))) if (yield from may_delete(d)) else None
    if mark is None:
        return False
    try:
        if (yield from names_mirror(context, d)):  # in the life that the mark holds
            return (yield from delete_marked(context, d, mark, version))
    except NoNodeError:
        return (yield from take_done(d, mark))
    return not (yield from take_mark(d, mark)) and (yield from take_done(d, mark))


def verify_may_delete_in(context: Context, parent: str) -> Operation[None]:
    """A delete in `parent` found nothing. One ZooKeeper checks the right first; without a mirror, ours cannot.

    If a mirror is there, the right was checked there. So where the place is certain, the home is not waited for if
    the mirror is there. Else that has just been proved if it is known where the children are.

    :raises NoAuthError: there is a parent, and no right to delete in it, as far as the home can be asked.
    """
    d = context.known(parent)
    if d.certainty == CERTAIN and not d.is_native:
        steps = (d.mirror.ensemble, Exists(d.mirror.path, None)), (d.home.ensemble, Delete(d.pin, IMPOSSIBLE))
        mirror, refused = yield Either.of(steps, mirror_is_enough)
        if isinstance(refused, NoAuthError) and not is_proved_by(mirror):
            raise refused
    elif not d.is_native and d.certainty == GUESS:
        with suppress(NoNodeError, NotEmptyError, BadVersionError):
            yield from ask(d.home.ensemble, Delete(d.pin, IMPOSSIBLE))
