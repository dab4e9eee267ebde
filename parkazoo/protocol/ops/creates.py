"""Creates. The first child of a directory decides, by the pin, where the children of this life are."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from kazoo.exceptions import (
    BadVersionError,
    ConnectionLoss,
    NoAuthError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
)
from kazoo.security import ACL, READ_ACL_UNSAFE

from parkazoo.kazoo_private import CheckVersion, Create, Create2, Exists, Transaction
from parkazoo.protocol.context import Context
from parkazoo.protocol.directory import AGAIN, UNPROMOTED, Again, KnownACL, try_promote
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.newer_requests import CreateContainer, CreateTTL, multi
from parkazoo.protocol.ops.whole_stat import complete_stat
from parkazoo.protocol.pin import NATIVE_PIN
from parkazoo.protocol.placement import CERTAIN, GUESS, HINT, PINNED, Directory, Place, join, split
from parkazoo.protocol.rights import is_secret
from parkazoo.protocol.steps import Operation, Question, WriteRequest, ask, failure, placed
from parkazoo.protocol.where.lookup import as_pinned, contradiction, locate, verify_whole
from parkazoo.protocol.where.places import NATIVE, directory
from parkazoo.types.znodes import ZnodeStat

Creation = Create | Create2 | CreateTTL | CreateContainer
Made = str | tuple[str, ZnodeStat]  # the answer to one
EPHEMERAL, SEQUENCE = 1, 2  # in a create's flags
# These errors come from the ensemble itself: it has refused a create or delete of one request.
REFUSALS = (
    BadVersionError,
    NoChildrenForEphemeralsError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
)


def create(context: Context, request: Creation) -> Operation[object]:
    """Create, Create2 and CreateTTL, and what :func:`create_container` lets pass."""
    path, places = request.path, context.places
    parent, name = split(path)
    places.forget(path)
    d = places.known(parent)
    is_below_home = d.certainty == CERTAIN and d.is_native
    own = REFUSALS if is_below_home else (NodeExistsError,)
    with context.past.begin((path,), d.mirror.ensemble, own) as change:
        if is_below_home or (d.is_decided and not d.is_native):
            ensemble, above = d.mirror
            physical = f"{above if above != '/' else ''}/{name}"  # as join(), without its call
            (result,) = yield ((ensemble, request if physical == path else placed(request, physical)),)
            if context.away or isinstance(result, ConnectionLoss):
                context.answered(ensemble, result)
            if isinstance(result, NoNodeError) and not is_below_home:
                change.ensemble = -1  # another may answer
                d, result = yield from _create(context, request, d, name, has_failed=True)
            elif isinstance(result, Exception):
                raise result
        else:
            change.ensemble = -1
            d, result = yield from _create(context, request, d, name)
        change.ensemble = d.mirror.ensemble
        if request.flags & SEQUENCE:
            path = join(parent, split(result[0] if isinstance(result, tuple) else result)[1])
            change.paths = (path,)
    places.forget(path)
    if not request.flags & EPHEMERAL and not isinstance(request, CreateTTL):  # which a pin would keep for ever
        if is_secret(request.acl):
            yield from promote_secret(context, path, request.acl, 0)
        else:
            places.remember_childless(path)
    if request.type != Create2.type or isinstance(result, str):
        return result
    made = directory(path, d.mirror, NATIVE)._replace(home=d.mirror)
    return result[0], (yield from complete_stat(context, made, result[1]))


def _create(
    context: Context, request: Creation, d: Directory, name: str, has_failed: bool = False
) -> Operation[tuple[Directory, Made]]:
    """Create a child for which one request may not do; return its parent as it is, and the server's answer.

    :param d: the parent, as it is known. :param has_failed: its children are not there.
    """
    places, parent = context.places, d.path
    if has_failed:
        places.drop(parent)
    is_worth_a_try = not has_failed and _is_worth_a_try(context, d)
    tried: Place | None = d.mirror if has_failed else None
    lacks_proof: Place | None = None
    while True:
        if is_worth_a_try:
            since = places.count
            physical = placed(request, join(d.mirror.path, name))
            may_pin = _may_pin(context, d)
            if d.is_native and d.certainty < CERTAIN and context.form >= Form.GUARDED:
                result = yield from _create_native(d, physical, native_marks(d) if may_pin else ())
            else:
                (result,) = yield ((d.mirror.ensemble, physical),)
                if context.away or isinstance(result, ConnectionLoss):
                    context.answered(d.mirror.ensemble, result)
            if not isinstance(result, NoNodeError) or (d.is_native and d.certainty == CERTAIN):
                if may_pin:  # there is a proof now, whatever became of the child
                    places.remember(d, since)
                    places.remember_found(places.above(d), since)
                if isinstance(result, Exception):
                    raise result
                places.remember(d, since, certainty_by_child(context, d))
                return d, result
            places.drop(parent)
            if d.is_native and d.home == lacks_proof:  # again, though a pin has said so
                yield from verify_whole(d)
            lacks_proof = d.home if d.is_native else None
            tried = d.mirror
        d, first = yield from decide(context, parent, request, tried=tried)
        if first is not AGAIN:
            return d, first
        is_worth_a_try = True


def certainty_by_child(context: Context, d: Directory) -> int:
    """Return how certain the place of `d`'s children is if there is a child: whether there is a pin, too."""
    return PINNED if not d.is_native or context.form >= Form.GUARDED else HINT


def _is_worth_a_try(context: Context, d: Directory) -> bool:
    """Whether to send a create at once to where the children of `d` are thought to be."""
    if d.certainty == CERTAIN:
        return d.is_native or not context.places.is_childless(d.path)
    if d.certainty > GUESS:
        return d.is_decided or context.form < Form.GUARDED or _may_pin(context, d)
    # A look costs the ensemble of the home less than a create in vain, behind which another one would wait.
    if d.is_native:
        is_likely = context.form < Form.GROWN
    else:
        is_likely = d.mirror.ensemble != d.home.ensemble and context.may_ask_guess(d)
    return is_likely and not context.places.is_childless(d.path)


def _may_pin(context: Context, d: Directory) -> bool:
    """Whether to pin a directory as native without a look: no pin is known, and nothing else could be decided."""
    if context.form is not Form.GUARDED or d.certainty > HINT:
        return False
    return d.is_native and context.places.guess(d.path) == NATIVE


def _create_native(d: Directory, request: Creation, marks: Sequence[WriteRequest]) -> Operation[Made | Exception]:
    """The answer to a create below the home of a native directory; NoNodeError if it is not, or is no more.

    :param marks: pin and proof, to be made first unless there is a pin.
    """
    guarded = multi([CheckVersion(d.proof, -1), _in_multi(request, request.path)])
    before = [Transaction(marks)] if marks else []
    *_, results = yield tuple((d.home.ensemble, each) for each in (*before, guarded))
    if isinstance(results, Exception):
        raise results
    index, error = failure(results)
    if error is not None:
        return NoNodeError() if index == 0 else error
    return (yield from _as_answer(d, request, results[1]))


def _in_multi(request: Creation, path: str) -> Create | CreateTTL:
    """A create as part of a multi: without its stat, which kazoo cannot read there."""
    return placed(request, path) if isinstance(request, CreateTTL) else Create(path, *request[1:4])


def _as_answer(d: Directory, request: Creation, made: str) -> Operation[Made]:
    """What a create in a multi would have been answered alone; kazoo cannot read a Create2 there."""
    if not isinstance(request, Create2):
        return made
    stat = yield from ask(d.home.ensemble, Exists(join(d.home.path, split(made)[1]), None))
    if stat is None:  # deleted again
        raise NoNodeError
    return made, stat


# ---- decide ------------------------------------------------------------------------------------


def decide(
    context: Context,
    path: str,
    child: Creation | None = None,
    known: KnownACL | None = None,
    tried: Place | None = None,
) -> Operation[tuple[Directory, Made | Again]]:
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
            found = places.known(path)
            found = found if found.certainty == CERTAIN else directory(path, found.home, NATIVE, GUESS)
            places.drop(path)
        else:
            found = yield from locate_or_raise(context, path)
        if found.is_decided and (found.is_native or (yield from _may_be_there(found, child, tried))):
            return found, AGAIN
        d = to_be(context, found)
        try:
            looks = is_guess and not context.is_connected(d.home.ensemble)  # else the home says so as soon
            made = yield from _make_first(context, d, child, known, looks)
        except UNPROMOTED as error:
            if is_guess and d.certainty == CERTAIN:
                # Another may have promoted or deleted it since. And an error of the create itself comes first.
                return d, AGAIN
            if is_guess or (isinstance(error, NoNodeError) and d.certainty < CERTAIN):
                made = AGAIN  # it has been decided since, or deleted; or its home was, and the server was behind
            elif isinstance(error, NoAuthError) and may_be_native(context, found) and child is not None:
                # A mirror would need the whole ACL of the home. Below the home that holds as it is.
                d = found
                made = yield from _make_first(context, d, child)
            else:
                raise
        is_guess, tried = False, None
        if made is not AGAIN:
            is_certain = made is not None or not d.is_native
            places.remember(d, since, certainty_by_child(context, d) if is_certain else HINT)
            return d, AGAIN if made is None else made


def to_be(context: Context, found: Directory) -> Directory:
    """A directory with its children where they are, or are to be."""
    if found.certainty == GUESS or (found.certainty == HINT and context.form < Form.GROWN):
        return directory(found.path, found.home, context.places.guess(found.path), found.certainty)
    return found


def may_be_native(context: Context, found: Directory) -> bool:
    """Whether an undecided directory may have its children below its home, though it would not."""
    return found.certainty == GUESS and context.form is Form.GROWN


def locate_or_raise(context: Context, path: str) -> Operation[Directory]:
    """:raises NoNodeError: there is no such directory, and the server that says so is not behind."""
    found = yield from locate(context, path, may_lag=True)
    if found is None:
        found = yield from locate(context, path, is_fresh=True)
    if found is None:
        raise NoNodeError
    return found


def _may_be_there(d: Directory, child: Creation | None, tried: Place | None) -> Operation[bool]:
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
    context: Context,
    d: Directory,
    child: Creation | None,
    known: KnownACL | None = None,
    may_be_there: bool = False,
) -> Operation[Made | Again | None]:
    """What the create of the child was answered; None if it was not sent; AGAIN if the directory has changed."""
    if not d.is_native:
        first = None
        if isinstance(child, Create):
            first = placed(child, join(d.mirror.path, split(child.path)[1]))
        names = partial(names_mirror, context, d)
        return (yield from try_promote(context, d, first, known, may_be_there, names))
    if child is None:
        return None
    if context.form < Form.GUARDED:
        physical: Question[Made] = placed(child, join(d.home.path, split(child.path)[1]))
        try:
            return (yield from ask(d.home.ensemble, physical))
        except NoNodeError:
            return AGAIN
    whole = [*native_marks(d), _in_multi(child, join(d.home.path, split(child.path)[1]))]
    (results,) = yield ((d.home.ensemble, multi(whole)),)
    if isinstance(results, Exception):
        raise results
    index, error = failure(results)
    if index == 0 and isinstance(error, (NodeExistsError, NoNodeError)):
        return AGAIN
    if index == 1 and isinstance(error, NodeExistsError):
        raise contradiction(d)
    if error is not None:
        raise error
    return (yield from _as_answer(d, child, results[2]))


def native_marks(d: Directory) -> list[WriteRequest]:
    """Say for the life of a directory that its children are below its home. The right to create is enough."""
    return [Create(d.pin, NATIVE_PIN, READ_ACL_UNSAFE, 0), Create(d.proof, b"", READ_ACL_UNSAFE, 0)]


def names_mirror(context: Context, d: Directory) -> Operation[bool]:
    """Whether the pin that is there is the mirror's; where the place is certain, any is.

    :raises NoNodeError: there is none.
    """
    return (yield from as_pinned(context, d)).mirror == d.mirror


def promote_secret(context: Context, path: str, acl: Sequence[ACL], aversion: int) -> Operation[None]:
    """Others may create children here but could not copy the ACL for the mirror: make it while we know the ACL."""
    with suppress(NoAuthError, NoNodeError):  # we may not, or it is gone already
        yield from decide(context, path, known=KnownACL(acl, aversion))
