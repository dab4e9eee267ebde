"""Sets and deletes, where pins decide."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from kazoo.exceptions import BadVersionError, NoAuthError, NoNodeError, NotEmptyError

from parkazoo.kazoo_private import Delete, GetChildren, GetData
from parkazoo.protocol.directory import (
    bump_fence,
    delete_again,
    delete_marked,
    leave_mark,
    may_delete,
    take_done,
    take_mark,
)
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.grown.common import GrownContext
from parkazoo.protocol.grown.lookup import at, decided, verify_whole
from parkazoo.protocol.grown.making import names_mirror, promote_secret
from parkazoo.protocol.grown.places import directory, is_fixed
from parkazoo.protocol.grown.reading import complete
from parkazoo.protocol.grown.whole_stat import complete_stat
from parkazoo.protocol.operations import set_acl_of_mirror
from parkazoo.protocol.placement import OURS, PROOF, Directory, split
from parkazoo.protocol.rights import is_secret
from parkazoo.protocol.stats import with_mirror
from parkazoo.protocol.steps import IMPOSSIBLE, Operation, Request, ask, commit


def set_data(context: GrownContext, request: Request) -> Operation[Any]:
    answers, d = yield from at(context, request)
    return (yield from complete(context, d, request, *answers))


def set_acls(context: GrownContext, request: Request) -> Operation[Any]:
    """Home, and what carries the home's ACL for the children: fence, mirror and pin."""
    path = request.path
    (stat, *_), d = yield from at(context, request)
    if isinstance(stat, Exception):
        raise stat
    if stat.ephemeralOwner or is_fixed(path):
        return (yield from complete_stat(context, d, stat))
    data = None
    if not stat.numChildren and context.form >= Form.GUARDED:
        # A first child that another client makes at home, by the old ACL, is there now or comes to nothing.
        yield from bump_fence(directory(path, d.home, d.home.ensemble))
    if stat.numChildren or context.form >= Form.GUARDED:
        with suppress(NoNodeError):
            data, _ = yield from ask(d.home.ensemble, GetData(d.pin, None))
    if data is None:
        if stat.numChildren:
            return (yield from complete_stat(context, d, stat))
        if is_secret(request.acls) and (not stat.cversion or context.form < Form.GROWN):  # else it will be native
            yield from promote_secret(context, path, request.acls, stat.aversion)
        return stat
    d = directory(path, d.home, (yield from decided(context, d, data)))
    if d.is_native:
        return (yield from complete_stat(context, d, stat))
    return with_mirror(stat, (yield from set_acl_of_mirror(d, request.acls, stat.aversion)))


# ---- delete ------------------------------------------------------------------------------------


def delete(context: GrownContext, request: Request) -> Operation[Any]:
    path, places = request.path, context.places
    places.forget(path)
    with context.past.begin((path,), places.home(path).ensemble) as change:
        try:
            d = yield from _delete(context, request)
        except NoNodeError:
            yield from verify_may_delete_in(context, split(path)[0])
            raise
        change.ensemble = d.home.ensemble
    places.forget(path)
    return True


def _delete(context: GrownContext, request: Request) -> Operation[Directory]:
    """Where the home was."""
    path: str = request.path
    while True:
        answers, d = yield from at(context, request)
        result = answers[0]
        if not isinstance(result, Exception):
            return d
        if not isinstance(result, NotEmptyError) or is_fixed(path):
            raise result
        try:
            if (pinned := (yield from look_at_pin(context, d))) is None:
                continue
            if pinned.is_native:
                is_done = yield from _delete_native(pinned, request.version)
            else:
                is_done = yield from _delete_mirrored(context, pinned, request.version)
        except NotEmptyError:
            yield from delete_again(d, request.version)
            return d
        if is_done:
            return pinned


def look_at_pin(context: GrownContext, d: Directory) -> Operation[Directory | None]:
    """A delete of the home has met children: where they are, by the pin. None: the directory has changed since.

    :raises NotEmptyError: some are below the home.
    """
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
    found = directory(d.path, d.home, (yield from decided(context, d, pin[0])))
    if found.is_native and not isinstance(names, Exception):
        if set(names) - OURS:
            raise NotEmptyError
        if PROOF not in names:
            yield from verify_whole(d)
    return found


def last_of_native(d: Directory, version: int) -> list[Request]:
    """Delete a directory whose children were below its home: it is empty, or this fails."""
    return [Delete(d.proof, -1), Delete(d.pin, -1), Delete(d.home.path, version)]


def _delete_native(d: Directory, version: int) -> Operation[bool]:
    """False: the directory has changed meanwhile."""
    _, index, error = yield from commit(d.home.ensemble, last_of_native(d, version))
    if error is None:
        return True
    if isinstance(error, (NoAuthError, NotEmptyError)) or (index == 2 and isinstance(error, BadVersionError)):
        raise error
    return False


def _delete_mirrored(context: GrownContext, d: Directory, version: int) -> Operation[bool]:
    """False: the directory has changed meanwhile."""
    mark = (yield from leave_mark(context, d, str(version))) if (yield from may_delete(d)) else None
    if mark is None:
        return False
    try:
        if (yield from names_mirror(context, d)):  # in the life that the mark holds
            return (yield from delete_marked(d, mark, version))
    except NoNodeError:
        return (yield from take_done(d, mark))
    return not (yield from take_mark(d, mark)) and (yield from take_done(d, mark))


def verify_may_delete_in(context: GrownContext, parent: str) -> Operation[None]:
    """A delete in `parent` found nothing. One ZooKeeper checks the right first; without a mirror, ours cannot.

    If it is known where the children are, that has just been proved, and the right was checked there.

    :raises NoAuthError: there is a parent, and no right to delete in it.
    """
    d = context.places.known(parent)
    if not d.is_native and not context.places.is_known(parent):
        with suppress(NoNodeError, NotEmptyError, BadVersionError):
            yield from ask(d.home.ensemble, Delete(d.pin, IMPOSSIBLE))
