"""Gets and sets, which one request answers as a rule; whether a znode is there; sync."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from kazoo.exceptions import ConnectionLoss, NoNodeError

from parkazoo.kazoo_private import Exists, GetACL, GetData, SetData, Sync
from parkazoo.protocol.context import Context
from parkazoo.protocol.ops.whole_stat import (
    NOT_ASKED,
    Beside,
    complete_stat,
    of_children,
)
from parkazoo.protocol.order import COUNT, READ, WRITE, node
from parkazoo.protocol.placement import (
    CERTAIN,
    GUESS,
    Directory,
)
from parkazoo.protocol.presence import Presence, at_both, is_enough, is_proved_by
from parkazoo.protocol.steps import ExistsForWatch, Operation, placed, resumed
from parkazoo.protocol.where.lookup import at, decided, is_missing
from parkazoo.types.znodes import Watch

Read = Exists | GetACL | GetData
Brief = Read | SetData
WITH_STAT = (Exists, SetData)  # their answers are stats; GetData's and GetACL's are pairs


def exists_for(request: object) -> type[Exists]:
    """What asks for the stat where the children are."""
    return ExistsForWatch if getattr(request, "watcher", None) else Exists


# ---- a get or set ------------------------------------------------------------------------------


# How a get or set begins, a bare tuple because each makes one:
# the directory at whose home it begins,
# the request that is enough if the znode is there and has no children elsewhere, or None: it begins otherwise,
# what it claims until it ends: READ or WRITE of the node, and COUNT; COUNT; or 0,
# the directory above if its place is a guess, and the count of the places before it.
First = tuple[Directory, Brief | None, int, Directory | None, int]


def first_of(context: Context, request: Brief) -> First:
    """Return how a get or set begins: as a rule with the one request that is enough.

    :raises ValueError: a path that has no UTF-8.
    """
    path, places, is_set = request.path, context.places, request.type == SetData.type
    since, guess = places.count, None
    d = places.known(path)
    home = d.home
    if d.certainty == CERTAIN:
        mode = 0 if d.is_native else COUNT
        is_enough = d.is_native or is_set or not d.is_decided
    else:
        above, d = places.both(path)
        home = d.home
        mode = WRITE if is_set else READ
        is_enough = is_set or not (d.certainty > GUESS or (isinstance(request, Exists) and request.watcher))
        if above.certainty == GUESS:
            guess, is_enough = above, is_enough and context.may_ask_guess(above)
    if not is_enough or (not is_set and context.past.is_behind(home.ensemble, path)):
        return d, None, mode, None, since
    if path != home.path:
        # As placed(), which would be one more call.
        request = tuple.__new__(type(request), (home.path, *request[1:]))
    return d, request, mode, guess, since


def known_first(context: Context, kind: int, path: str) -> tuple[Directory, int] | None:
    """Return how a get, exists or set without a watch begins, if the place of the znode is known.

    :param kind: the type of the request.
    :returns: the directory at whose home it begins, and what it claims: see :data:`First`. None: it takes what
        :func:`first_of` says.
    """
    places = context.places
    d = places.known(path)
    if d.certainty == CERTAIN:
        mode = 0 if d.is_native else COUNT
        is_enough = d.is_native or kind == SetData.type or not d.is_decided
    else:
        above, d = places.both(path)
        mode = WRITE if kind == SetData.type else READ
        is_enough = above.certainty > GUESS and (kind == SetData.type or d.certainty == GUESS)
    if not is_enough or (kind != SetData.type and context.past.is_behind(d.home.ensemble, path)):
        return None
    return d, mode


def is_whole(d: Directory, request: Brief, answer: Any) -> bool:
    """Whether the answer to that request is the result; else :func:`rest_of` goes on with it."""
    stat = answer if isinstance(request, WITH_STAT) else answer[1]
    if stat is None:
        return d.certainty == CERTAIN
    if not (stat.numChildren or stat.ephemeralOwner):
        return True
    return not stat.ephemeralOwner and d.is_native and d.certainty == CERTAIN and d.path != "/"


def rest_of(context: Context, request: Brief, d: Directory, answer: Any) -> Operation[object]:
    """What an operation takes beside its first request. If that has found the znode it may have left a watch.

    :param answer: to it; NoNodeError too.
    """
    if is_missing(answer):
        return resumed(beginning(context, request), (d.home.ensemble, placed(request, d.home.path)), answer)
    known = context.known(request.path)
    known = known._replace(home=d.home, mirror=d.home if known.is_native else known.mirror)
    return complete(context, known, request, answer)


def beginning(context: Context, request: Brief) -> Operation[object]:
    """Run a get or set that has sent nothing yet."""
    return set_data(context, request) if isinstance(request, SetData) else read(context, request)


def set_data(context: Context, request: SetData) -> Operation[object]:
    answers, d = yield from at(context, request)
    return (yield from complete(context, d, request, *answers))


def read(context: Context, request: Read) -> Operation[Any]:
    """GetData, GetACL, Exists: asks for what concerns the children at the same time, if it is known where."""
    above, known = context.places.both(request.path)
    if isinstance(request, Exists) and request.watcher and above.certainty < CERTAIN:
        return (yield from _exists_with_watch(context, request, request.watcher))
    is_elsewhere = known.is_decided and not (known.certainty == CERTAIN and known.is_native)
    beside = [of_children(known, exists_for(request))] if is_elsewhere else []
    if above.certainty == CERTAIN:
        d = known
        home = d.home.ensemble, placed(request, d.home.path)
        answers = yield from context.read(d.path, home, *beside)
    else:
        answers, d = yield from at(context, request, *beside)
        if d.mirror != known.mirror:  # another thread has learned meanwhile: what was asked beside is of no use
            del answers[1:]
    return (yield from complete(context, d, request, *answers))


def is_there(context: Context, request: Presence) -> Operation[bool]:
    """Whether a znode is there, as soon as its home or its mirror says so. A guess of the mirror may be joined."""
    path, places = request.path, context.places
    since, exists = places.count, Exists(path, None)
    above, d = places.both(path)
    if d.is_native:
        looking = at(context, exists)
    else:
        steps = at_both(d)
        home, mirror = yield from context.read(path, *steps, is_enough=is_enough)
        context.answered(d.home.ensemble, home)
        if is_proved_by(mirror):
            places.remember(d, since)
            return True
        if not isinstance(home, ConnectionLoss):
            looking = resumed(at(context, exists), steps[0], home)
        elif above.certainty > GUESS:
            raise home
        else:  # a guess: the pin may name another ensemble
            looking = at(context, exists)
    (answer, *_), _ = yield from looking
    if isinstance(answer, Exception) and not isinstance(answer, NoNodeError):
        raise answer
    return not is_missing(answer)


def complete(
    context: Context, d: Directory, request: Brief, answer: Any, beside: Beside = NOT_ASKED
) -> Operation[Any]:
    """A home's answer with the stat of the directory."""
    if isinstance(answer, Exception):
        raise answer
    if answer is None:
        return None
    if isinstance(request, WITH_STAT):
        return (yield from complete_stat(context, d, answer, beside, exists_for(request)))
    return answer[0], (yield from complete_stat(context, d, answer[1], beside, exists_for(request)))


def _exists_with_watch(context: Context, request: Exists, watcher: Watch) -> Operation[object]:
    """A missing znode may come elsewhere than where it was looked for."""
    path = request.path
    watch = context.watch(node(path), watcher)
    has_succeeded = False
    try:
        answers, d = yield from at(context, request._replace(watcher=watch), watch=watch)
        watch.home = d.home if answers[0] is not None else None
        result = yield from complete(context, d, request, *answers)
        has_succeeded = True
        return result
    finally:
        context.settle(watch, has_succeeded)


def sync(context: Context, request: Sync) -> Operation[str]:
    """The ensembles at which the znode and its children are looked for next catch up with their leaders."""
    path, places = request.path, context.places
    above, d = places.both(path)
    if above.certainty == GUESS:
        _, d = yield from at(context, Exists(path, None))
    ensembles = [d.home.ensemble]
    if d.certainty == CERTAIN:
        ensembles = sorted({d.home.ensemble, d.mirror.ensemble})
    elif d.mirror.ensemble != d.home.ensemble and (d.certainty > GUESS or context.may_ask_guess(d)):
        ensembles.append(d.mirror.ensemble)
    pin = [] if d.certainty == CERTAIN else [(d.home.ensemble, GetData(d.pin, None))]
    *answers, said = yield (*((ensemble, Sync("/")) for ensemble in ensembles), *pin)
    if not pin:
        answers.append(said)
    elif not isinstance(said, Exception):
        with suppress(NoNodeError):
            where = (yield from decided(context, d, said[0])).mirror.ensemble
            if where not in ensembles:
                answers += yield ((where, Sync("/")),)
    for ensemble, answer in zip(ensembles, answers, strict=False):
        context.answered(ensemble, answer)
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
    return path
