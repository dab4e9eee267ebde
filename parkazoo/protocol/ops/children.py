"""The children of a directory."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from kazoo.exceptions import ConnectionLoss, NoAuthError, NoNodeError, NotReadOnlyCallError

from parkazoo.kazoo_private import Exists, GetChildren, GetChildren2
from parkazoo.protocol.context import Context
from parkazoo.protocol.directory import help_delete
from parkazoo.protocol.moving import under_way
from parkazoo.protocol.ops.brief import exists_for
from parkazoo.protocol.ops.whole_stat import (
    complete_stat,
    less_marks,
    with_mirror,
    with_owner,
)
from parkazoo.protocol.order import children
from parkazoo.protocol.placement import (
    CERTAIN,
    GUESS,
    OURS,
    PIN,
    PINNED,
    PROOF,
    ROOT,
    Directory,
    Place,
)
from parkazoo.protocol.steps import Operation, ask, placed
from parkazoo.protocol.watches import DirectoryWatch
from parkazoo.protocol.where.lookup import as_pinned, at, verify_whole
from parkazoo.protocol.where.places import NATIVE, directory

Listing = GetChildren | GetChildren2


def get_children(context: Context, request: Listing) -> Operation[Any]:
    """GetChildren and GetChildren2."""
    d = context.known(request.path)
    if d.certainty == CERTAIN and d.is_native:
        return (yield from _list_below_home(context, request))
    watch: DirectoryWatch | None = None
    has_succeeded = False
    try:
        while True:
            d = context.known(request.path)
            asked: Place | None = None
            may_be_there = d.certainty > GUESS or context.may_ask_guess(d)
            if not d.is_native and may_be_there and not isinstance(request, GetChildren2):
                asked = d.mirror
                names = yield from _list_mirror(context, request, d)
                if names is not None:
                    if context.proofs:
                        yield from _behind_proofs(context, request)
                    return names
            if request.watcher and watch is None:
                watch = context.watch(children(request.path), request.watcher)
            answer, is_left = yield from _list(context, request, asked, watch)
            if answer is not None:
                if context.proofs:
                    yield from _behind_proofs(context, request)
                has_succeeded = is_left
                return answer if isinstance(request, GetChildren2) else answer[0]
    finally:
        if watch:
            context.settle(watch, has_succeeded)


def _behind_proofs(context: Context, request: Listing) -> Operation[None]:
    """If a child was not found, and that is being proved, ask behind the proof: NoNode is told before the list.

    kazoo's TreeCache expects that. Else it would take out, for good, a child that has come before the list.
    """
    if request.path in [*context.proofs.values()]:  # other threads change it
        place = context.places.known(request.path).mirror
        with suppress(NoAuthError):
            yield from context.ask(request.path, place.ensemble, exists_for(request)(place.path, None))


def _list_below_home(context: Context, request: Listing) -> Operation[object]:
    """The listing of a directory that has its children below its home for ever."""
    answers, d = yield from at(context, request)
    if isinstance(answers[0], Exception):
        raise answers[0]
    names, stat = answers[0] if isinstance(request, GetChildren2) else (answers[0], None)
    if d.path == "/":
        names = [name for name in names if name != ROOT[1:]]
    return names if stat is None else (names, (yield from complete_stat(context, d, stat)))


def _list(
    context: Context, request: Listing, asked: Place | None, watch: DirectoryWatch | None
) -> Operation[tuple[Any, bool]]:
    """The names and, if that is asked for, the stat; None to begin again. And whether `watch` has been left.

    Else the user's own watch has been left, on the mirror.

    :param asked: where there was no mirror.
    """
    path, places, has_stat = request.path, context.places, isinstance(request, GetChildren2)
    since = places.count
    answers, d = yield from at(context, GetChildren2(path, watch))
    if isinstance(answers[0], Exception):
        raise answers[0]
    names, stat = answers[0]
    if watch:
        watch.seen_at, watch.home_czxid, watch.home_cversion = d.home, stat.czxid, stat.cversion
    is_native = PROOF in names
    if d.certainty == CERTAIN and PIN not in names:  # it has never had a child
        return ([], (yield from with_owner(context, d.home.ensemble, with_mirror(stat, None)))), True
    if is_native or PIN not in names:
        stat = yield from with_owner(context, d.home.ensemble, stat)
        if is_native:
            places.remember(directory(path, d.home, NATIVE), since)
            stat = less_marks(stat, stat._replace(czxid=0))
        return ([name for name in names if name not in OURS], stat), True
    if has_stat and not d.is_native and d.certainty >= PINNED:
        asked = d.mirror
        listed = yield from _list_mirror(context, request, d)
        if listed is not None:
            return (listed[0], with_mirror(stat, listed[1])), False
    try:
        marks = yield from ask(d.home.ensemble, GetChildren(d.pin, None))
        d = yield from as_pinned(context, d)
    except NoNodeError:
        return None, False
    if d.is_native:
        yield from verify_whole(d)
        return None, False
    if d.certainty < CERTAIN:
        places.remember(d, since)
    if d.mirror != asked:
        listed = yield from _list_mirror(context, request, d)
        if listed is not None:
            return ((listed[0], with_mirror(stat, listed[1])) if has_stat else (listed,)), False
    if under_way(marks):
        try:
            yield from help_delete(context, d, marks)
        except (NoAuthError, NotReadOnlyCallError):
            pass  # we may not finish the delete; the directory is empty
        else:
            return None, False
    if watch:
        watch.places.add(d.mirror)
        if (yield from ask(d.mirror.ensemble, Exists(d.mirror.path, watch))) is not None:
            return None, False
    return ([], with_mirror(stat, None)), True


def _list_mirror(context: Context, request: Listing, d: Directory) -> Operation[Any]:
    """The list below the mirror, with the user's watch; None if there is no mirror."""
    since = context.places.count
    (listed,) = yield from context.read(d.path, (d.mirror.ensemble, placed(request, d.mirror.path)))
    if context.away or isinstance(listed, ConnectionLoss):
        context.answered(d.mirror.ensemble, listed)
    if isinstance(listed, NoNodeError):
        return None
    if isinstance(listed, Exception):
        raise listed
    if not d.is_decided:
        context.places.remember(d, since)
    return listed
