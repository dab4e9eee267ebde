"""Creates. The first child of a directory decides, by the pin, where the children of this life are."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from kazoo.exceptions import NoAuthError, NodeExistsError, NoNodeError
from kazoo.security import ACL, READ_ACL_UNSAFE

from parkazoo.kazoo_private import CheckVersion, Create, Create2, Exists, GetData, Transaction
from parkazoo.protocol.directory import (
    AGAIN,
    UNPROMOTED,
    KnownACL,
    try_promote,
)
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.grown.common import GrownContext
from parkazoo.protocol.grown.lookup import Located, contradiction, decided, locate, verify_whole
from parkazoo.protocol.grown.places import NATIVE, above, directory, is_fixed
from parkazoo.protocol.grown.whole_stat import complete_stat
from parkazoo.protocol.operations import EPHEMERAL, SEQUENCE
from parkazoo.protocol.pin import NATIVE_PIN
from parkazoo.protocol.placement import Directory, Place, join, split
from parkazoo.protocol.rights import is_secret
from parkazoo.protocol.steps import Operation, Request, ask, commit, failure, placed


def create(context: GrownContext, request: Request) -> Operation[Any]:
    """Create and Create2."""
    path, places = request.path, context.places
    parent = split(path)[0]
    places.forget(path)
    with context.past.begin((path,), places.known(parent).mirror.ensemble, (NodeExistsError,)) as change:
        d, result = yield from _create(context, request)
        change.ensemble = d.mirror.ensemble
        if request.flags & SEQUENCE:
            path = join(parent, split(result[0] if isinstance(result, tuple) else result)[1])
            change.paths = (path,)
    places.forget(path)
    if not request.flags & EPHEMERAL:
        if is_secret(request.acl):
            yield from promote_secret(context, path, request.acl, 0)
        else:
            places.remember_childless(path)
    if not isinstance(request, Create2):
        return result
    made = directory(path, d.mirror, NATIVE)._replace(home=d.mirror)
    return result[0], (yield from complete_stat(context, made, result[1]))


def _create(context: GrownContext, request: Request) -> Operation[tuple[Directory, Any]]:
    """The parent, where the child has been made, and the server's answer."""
    parent, name = split(request.path)
    places = context.places
    d = places.known(parent)
    is_worth_a_try = _is_worth_a_try(context, d)
    lacks_proof: Directory | None = None
    while True:
        if is_worth_a_try:
            since = places.count
            physical = placed(request, join(d.mirror.path, name))
            may_pin = _may_pin(context, d)
            if d.is_native and not is_fixed(parent) and context.form >= Form.GUARDED:
                result = yield from _create_native(d, physical, native_marks(d) if may_pin else ())
            else:
                (result,) = yield ((d.mirror.ensemble, physical),)
                context.answered(d.mirror.ensemble, result)
            if not isinstance(result, NoNodeError) or is_fixed(parent):
                if may_pin:  # there is a proof now, whatever became of the child
                    places.remember(d, since)
                    places.remember_found(above(d), since)
                if isinstance(result, Exception):
                    raise result
                places.remember(d, since, is_pinned=is_pinned_by_child(context, d))
                return d, result
            places.drop(parent)
            if d.is_native and d == lacks_proof:  # again, though a pin has said so
                yield from verify_whole(d)
            lacks_proof = d
        d, result = yield from decide(context, parent, request, tried=d.mirror if is_worth_a_try else None)
        if result is not AGAIN:
            return d, result
        is_worth_a_try = True


def is_pinned_by_child(context: GrownContext, d: Directory) -> bool:
    """Whether there is a pin if there is a child."""
    return not d.is_native or context.form >= Form.GUARDED


def _is_worth_a_try(context: GrownContext, d: Directory) -> bool:
    """Whether to send a create at once to where the children of `d` are thought to be."""
    places = context.places
    if places.is_known(d.path):
        is_unpinned = d.is_native and context.form < Form.GUARDED
        return is_unpinned or places.is_pinned(d.path) or _may_pin(context, d)
    if is_fixed(d.path):
        return True
    # A look costs the ensemble of the home less than a create in vain, behind which another one would wait.
    is_elsewhere = d.mirror.ensemble != d.home.ensemble and context.may_ask_guess(d)
    return (d.is_native or is_elsewhere) and not places.is_childless(d.path)


def _may_pin(context: GrownContext, d: Directory) -> bool:
    """Whether to pin a directory as native without a look: no pin is known, and nothing else could be decided."""
    if context.form is not Form.GUARDED or is_fixed(d.path):
        return False
    places = context.places
    return d.is_native and places.guess(d.path) == NATIVE and not places.is_pinned(d.path)


def _create_native(d: Directory, request: Request, marks: Sequence[Request]) -> Operation[Any]:
    """The answer to a create below the home of a native directory; NoNodeError if it is not, or is no more.

    :param marks: pin and proof, to be made first unless there is a pin.
    """
    guarded = Transaction([CheckVersion(d.proof, -1), Create(*request[:4])])
    before = [Transaction(marks)] if marks else []
    *_, results = yield tuple((d.home.ensemble, each) for each in (*before, guarded))
    if isinstance(results, Exception):
        raise results
    index, error = failure(results)
    if error is not None:
        return NoNodeError() if index == 0 else error
    return (yield from _as_answer(d, request, results[1]))


def _as_answer(d: Directory, request: Request, made: str) -> Operation[Any]:
    """What a create in a multi would have been answered alone; kazoo cannot read a Create2 there."""
    if not isinstance(request, Create2):
        return made
    stat = yield from ask(d.home.ensemble, Exists(join(d.home.path, split(made)[1]), None))
    if stat is None:  # deleted again
        raise NoNodeError
    return made, stat


# ---- decide ------------------------------------------------------------------------------------


def decide(
    context: GrownContext,
    path: str,
    child: Request | None = None,
    known: KnownACL | None = None,
    tried: Place | None = None,
) -> Operation[tuple[Directory, Any]]:
    """Decide where the children of a directory are, unless that is decided, and make the first one.

    :param child: the user's Create; None for the mirror alone, if there is to be one.
    :param known: the home's ACL, if we have just set it and may not be able to read it.
    :param tried: where the children were looked for in vain. A place that is decided and was not tried comes
        first: a create there needs no right to read the ACL, and marks do not hold it up.
    :returns: the directory, and what the create of the child was answered; AGAIN if it was not sent: it is known
        now where to create it.
    :raises: what the create of a child raises on one ZooKeeper: NoNodeError, NoChildrenForEphemeralsError, ...
    """
    places = context.places
    is_guess = places.is_childless(path)  # this client has just made it
    while True:
        since = places.count
        if is_guess:
            found = Located(directory(path, places.home(path), NATIVE), False, True)
            places.drop(path)
        else:
            found = yield from locate_or_raise(context, path)
        d = found.d
        if found.is_decided and (d.is_native or (yield from _may_be_there(d, child, tried))):
            return d, AGAIN
        d = to_be(context, found)
        try:
            made = yield from _make_first(context, d, child, known, is_guess)
        except UNPROMOTED as error:
            if is_guess or isinstance(error, NoNodeError):
                made = AGAIN  # it has been decided since, or deleted; or its home was, and the server was behind
            elif isinstance(error, NoAuthError) and may_be_native(context, found) and child is not None:
                # A mirror would need the whole ACL of the home. Below the home that holds as it is.
                d = found.d
                made = yield from _make_first(context, d, child)
            else:
                raise
        is_guess, tried = False, None
        if made is not AGAIN:
            is_made = made is not None
            places.remember(d, since, is_pinned=is_pinned_by_child(context, d) and (is_made or not d.is_native))
            return d, made if is_made else AGAIN


def to_be(context: GrownContext, found: Located) -> Directory:
    """A directory with its children where they are, or are to be."""
    if found.may_be_guessed or (not found.is_decided and context.form < Form.GROWN):
        return directory(found.d.path, found.d.home, context.places.guess(found.d.path))
    return found.d


def may_be_native(context: GrownContext, found: Located) -> bool:
    """Whether an undecided directory may have its children below its home, though it would not."""
    return found.may_be_guessed and context.form is Form.GROWN


def locate_or_raise(context: GrownContext, path: str) -> Operation[Located]:
    """:raises NoNodeError: there is no such directory, and the server that says so is not behind."""
    found = yield from locate(context, path, may_lag=True)
    if found is None:
        found = yield from locate(context, path, is_fresh=True)
    if found is None:
        raise NoNodeError
    return found


def _may_be_there(d: Directory, child: Request | None, tried: Place | None) -> Operation[bool]:
    """Whether the mirror may be there; a child that is to be created will tell."""
    if d.mirror == tried:
        return False
    return child is not None or (yield from has_mirror(d))


def has_mirror(d: Directory) -> Operation[bool]:
    """Whether the mirror is there, which one may not be allowed to read."""
    try:
        return (yield from ask(d.mirror.ensemble, Exists(d.mirror.path, None))) is not None
    except NoAuthError:
        return True


def _make_first(
    context: GrownContext,
    d: Directory,
    child: Request | None,
    known: KnownACL | None = None,
    may_be_there: bool = False,
) -> Operation[Any]:
    """What the create of the child was answered; None if it was not sent; AGAIN if the directory has changed."""
    if not d.is_native:
        physical = None
        if isinstance(child, Create):
            physical = placed(child, join(d.mirror.path, split(child.path)[1]))
        names = partial(names_mirror, context, d)
        return (yield from try_promote(context, d, physical, known, may_be_there, names))
    if child is None:
        return None
    if context.form < Form.GUARDED:
        physical = placed(child, join(d.home.path, split(child.path)[1]))
        try:
            return (yield from ask(d.home.ensemble, physical))
        except NoNodeError:
            return AGAIN
    first = Create(*child._replace(path=join(d.home.path, split(child.path)[1]))[:4])
    results, index, error = yield from commit(d.home.ensemble, [*native_marks(d), first])
    if index == 0 and isinstance(error, (NodeExistsError, NoNodeError)):
        return AGAIN
    if index == 1 and isinstance(error, NodeExistsError):
        raise contradiction(d)
    if error is not None:
        raise error
    return (yield from _as_answer(d, child, results[2]))


def native_marks(d: Directory) -> list[Request]:
    """Say for the life of a directory that its children are below its home. Whoever may create there may do so."""
    return [Create(d.pin, NATIVE_PIN, READ_ACL_UNSAFE, 0), Create(d.proof, b"", READ_ACL_UNSAFE, 0)]


def names_mirror(context: GrownContext, d: Directory) -> Operation[bool]:
    """Whether the pin that is there is that of the mirror.

    :raises NoNodeError: there is none.
    """
    data, _ = yield from ask(d.home.ensemble, GetData(d.pin, None))
    return (yield from decided(context, d, data)) == d.mirror.ensemble


def promote_secret(context: GrownContext, path: str, acl: Sequence[ACL], aversion: int) -> Operation[None]:
    """Others may create children here but could not copy the ACL for the mirror: make it while we know the ACL."""
    with suppress(NoAuthError, NoNodeError):  # we may not, or it is gone already
        yield from decide(context, path, known=KnownACL(acl, aversion))
