"""What is read, where pins decide."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from kazoo.exceptions import ConnectionLoss, NoAuthError, NoNodeError, NotReadOnlyCallError
from kazoo.protocol.states import EventType

from parkazoo.kazoo_private import Exists, GetChildren, GetChildren2, GetData, Sync
from parkazoo.protocol.directory import help_delete
from parkazoo.protocol.grown.common import GrownContext
from parkazoo.protocol.grown.lookup import at, decided, is_missing, verify_whole
from parkazoo.protocol.grown.places import NATIVE, directory, is_fixed
from parkazoo.protocol.grown.whole_stat import complete_stat, less_marks, of_children
from parkazoo.protocol.operations import WITH_STAT, exists_for
from parkazoo.protocol.order import children, node
from parkazoo.protocol.placement import OURS, PIN, PROOF, ROOT, Directory, Place, split
from parkazoo.protocol.presence import Presence, at_both, is_enough, is_proved_by
from parkazoo.protocol.stats import with_mirror, with_owner
from parkazoo.protocol.steps import Operation, Request, Step, ask, placed, resumed
from parkazoo.protocol.watches import DirectoryWatch


def one_request(context: GrownContext, request: Request) -> Step | None:
    """The request that is enough for a read if the znode is there and has no child. None: see :func:`read`."""
    path, places = request.path, context.places
    if places.is_known(path) or path == "/" or (isinstance(request, Exists) and request.watcher):
        return None
    parent = split(path)[0]
    if not places.is_known(parent) and not is_fixed(parent):
        return None
    home = places.home(path)
    return None if context.past.is_behind(home.ensemble, path) else (home.ensemble, placed(request, home.path))


def is_whole(request: Request, answer: Any) -> bool:
    """Whether the answer to that request is the result; else :func:`rest_of_read` goes on with it."""
    stat = answer if isinstance(request, WITH_STAT) else answer[1]
    return stat is not None and not stat.numChildren and not stat.ephemeralOwner


def rest_of_read(context: GrownContext, request: Request, step: Step, answer: Any) -> Operation[Any]:
    """What a read takes beside that request. If it has found the znode it may have left a watch: once is enough.

    :param step: that request. :param answer: to it; NoNodeError too.
    """
    if is_missing(answer):
        return resumed(read(context, request), step, answer)
    ensemble, physical = step
    d = directory(request.path, Place(ensemble, physical.path), context.places.where(request.path))
    return complete(context, d, request, answer)


def read(context: GrownContext, request: Request) -> Operation[Any]:
    """GetData, GetACL, Exists: asks for what concerns the children at the same time, if it is known where."""
    if isinstance(request, Exists) and request.watcher:
        return (yield from _exists_with_watch(context, request))
    path, places, exists = request.path, context.places, exists_for(request)
    is_known = places.is_pinned(path)
    beside = [of_children(places.known(path), exists)] if is_known else []
    answers, d = yield from at(context, request, *beside)
    return (yield from complete(context, d, request, *answers))


def is_there(context: GrownContext, request: Presence) -> Operation[bool]:
    """Whether a znode is there, as soon as its home or its mirror says so. A guess of the mirror may be joined."""
    path, places = request.path, context.places
    since, d, exists, parent = places.count, places.known(path), Exists(path, None), split(path)[0]
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
        elif is_fixed(parent) or places.is_known(parent):
            raise home
        else:  # a guess: the pin may name another ensemble
            looking = at(context, exists)
    (answer, *_), _ = yield from looking
    if isinstance(answer, Exception) and not isinstance(answer, NoNodeError):
        raise answer
    return not is_missing(answer)


def complete(
    context: GrownContext, d: Directory, request: Request, answer: Any, beside: Any = None
) -> Operation[Any]:
    """A home's answer with the stat of the directory."""
    if isinstance(answer, Exception):
        raise answer
    if answer is None:
        return None
    if isinstance(request, WITH_STAT):
        return (yield from complete_stat(context, d, answer, beside, exists_for(request)))
    return answer[0], (yield from complete_stat(context, d, answer[1], beside, exists_for(request)))


def _exists_with_watch(context: GrownContext, request: Request) -> Operation[Any]:
    """What is not there may come elsewhere than where it was looked for."""
    path = request.path
    watch = context.watch(node(path), request.watcher)
    has_succeeded = False
    try:
        answers, d = yield from at(context, request._replace(watcher=watch), watch=watch)
        watch.home = d.home if answers[0] is not None else None
        result = yield from complete(context, d, request, *answers)
        has_succeeded = True
        return result
    finally:
        context.settle(watch, has_succeeded)


def stand_in(context: GrownContext, path: str, watcher: Any, take: Callable[[], bool]) -> Operation[None]:
    """Replace a watch on a znode that was left when its map was plain, if the znode is not there.

    :param take: takes that watch out of the tables; False if it is not there any more: it has been called.
    """
    watch = context.watch(node(path), watcher)
    is_replaced = False
    try:
        is_replaced = (yield from _look_for(context, watch)) is None and take()
    finally:
        context.settle(watch, is_replaced)


def look(context: GrownContext, watch: DirectoryWatch) -> Operation[str | None]:
    """Something that a watch waits for has changed: the event to report, or None after watching on."""
    return (yield from (_look_at_children if watch.is_of_children else _look_for)(context, watch))


def _look_for(context: GrownContext, watch: DirectoryWatch) -> Operation[str | None]:
    """A znode that is not there."""
    (stat, *_), _ = yield from at(context, Exists(watch.path, watch), watch=watch)
    if isinstance(stat, NoAuthError):  # one ZooKeeper does not tell of what may not be read
        return None
    if isinstance(stat, Exception):
        raise stat
    return EventType.CREATED if stat is not None else None


# ---- listings ----------------------------------------------------------------------------------


def get_children(context: GrownContext, request: Request) -> Operation[Any]:
    """GetChildren and GetChildren2."""
    if is_fixed(request.path):
        return (yield from _list_fixed(context, request))
    watch: DirectoryWatch | None = None
    has_succeeded = False
    if request.watcher:
        watch = context.watch(children(request.path), request.watcher)
    try:
        while True:
            answer, is_left = yield from _list(context, request, watch)
            if answer is not None:
                if context.proofs:
                    yield from _behind_proofs(context, request)
                has_succeeded = is_left
                return answer if isinstance(request, GetChildren2) else answer[0]
    finally:
        if watch:
            context.settle(watch, has_succeeded)


def _behind_proofs(context: GrownContext, request: Request) -> Operation[None]:
    """If a child was not found, and that is being proved, ask behind the proof: NoNode is told before the list.

    kazoo's TreeCache expects that. Else it would take out, for good, a child that has come before the list.
    """
    if request.path in [*context.proofs.values()]:  # other threads change it
        place = context.places.known(request.path).mirror
        with suppress(NoAuthError):
            yield from context.ask(request.path, place.ensemble, exists_for(request)(place.path, None))


def _list_fixed(context: GrownContext, request: Request) -> Operation[Any]:
    """The listing of a directory that has no pin."""
    answers, d = yield from at(context, request)
    if isinstance(answers[0], Exception):
        raise answers[0]
    has_stat = isinstance(request, GetChildren2)
    names, stat = answers[0] if has_stat else (answers[0], None)
    if d.path == "/":
        names = [name for name in names if name != ROOT[1:]]
    return (names, (yield from complete_stat(context, d, stat))) if has_stat else names


def _list(context: GrownContext, request: Request, watch: DirectoryWatch | None) -> Operation[tuple[Any, bool]]:
    """The names and, if that is asked for, the stat; None to begin again. And whether `watch` has been left.

    Else the user's own watch has been left, on the mirror.
    """
    path, places, has_stat = request.path, context.places, isinstance(request, GetChildren2)
    since = places.count
    d = places.known(path)
    asked: Place | None = None
    if not has_stat and not d.is_native and (places.is_known(path) or context.may_ask_guess(d)):
        asked = d.mirror
        names = yield from _list_mirror(context, request, d)
        if names is not None:
            return (names,), False
    answers, d = yield from at(context, GetChildren2(path, watch))
    if isinstance(answers[0], Exception):
        raise answers[0]
    names, stat = answers[0]
    if watch:
        watch.home_czxid, watch.home_cversion = stat.czxid, stat.cversion
    is_native = PROOF in names
    if is_native or PIN not in names:
        stat = yield from with_owner(context, d.home.ensemble, stat)
        if is_native:
            places.remember(directory(path, d.home, NATIVE), since)
            stat = less_marks(stat, stat._replace(czxid=0))
        return ([name for name in names if name not in OURS], stat), True
    if has_stat and not d.is_native and places.is_known(path):
        asked = d.mirror
        listed = yield from _list_mirror(context, request, d)
        if listed is not None:
            return (listed[0], with_mirror(stat, listed[1])), False
    try:
        marks = yield from ask(d.home.ensemble, GetChildren(d.pin, None))
        data, _ = yield from ask(d.home.ensemble, GetData(d.pin, None))
    except NoNodeError:
        return None, False
    d = directory(path, d.home, (yield from decided(context, d, data)))
    if d.is_native:
        yield from verify_whole(d)
        return None, False
    places.remember(d, since)
    if d.mirror != asked:
        listed = yield from _list_mirror(context, request, d)
        if listed is not None:
            return ((listed[0], with_mirror(stat, listed[1])) if has_stat else (listed,)), False
    if marks:
        try:
            yield from help_delete(d, marks)
        except (NoAuthError, NotReadOnlyCallError):
            pass  # we may not finish the delete; the directory is empty
        else:
            return None, False
    if watch:
        watch.places.add(d.mirror)
        if (yield from ask(d.mirror.ensemble, Exists(d.mirror.path, watch))) is not None:
            return None, False
    return ([], with_mirror(stat, None)), True


def _list_mirror(context: GrownContext, request: Request, d: Directory) -> Operation[Any]:
    """What is listed below the mirror, with the user's watch; None if it is not there."""
    since = context.places.count
    (listed,) = yield from context.read(d.path, (d.mirror.ensemble, placed(request, d.mirror.path)))
    context.answered(d.mirror.ensemble, listed)
    if isinstance(listed, NoNodeError):
        return None
    if isinstance(listed, Exception):
        raise listed
    context.places.remember(d, since)
    return listed


def _look_at_children(context: GrownContext, watch: DirectoryWatch) -> Operation[str | None]:
    """What a watched directory had no children for.

    A mirror without a child is not reported: it may have been made for a transaction that then failed.
    """
    path = watch.path
    (answer, *_), d = yield from at(context, GetChildren2(path, watch))
    if isinstance(answer, NoNodeError):
        return EventType.DELETED
    if isinstance(answer, Exception):
        raise answer
    names, stat = answer
    if stat.czxid != watch.home_czxid:  # deleted, and made again since
        return EventType.DELETED
    if PROOF in names or PIN not in names:
        if stat.cversion == watch.home_cversion:  # the server lags; the watch is left again
            return None
        return EventType.CHILD
    try:
        data, _ = yield from ask(d.home.ensemble, GetData(d.pin, None))
    except NoNodeError:
        return EventType.DELETED
    d = directory(path, d.home, (yield from decided(context, d, data)))
    if d.is_native:
        return EventType.CHILD
    watch.places.add(d.mirror)
    mirror = None
    while mirror is None:
        with suppress(NoNodeError):
            _, mirror = yield from ask(d.mirror.ensemble, GetChildren2(d.mirror.path, watch))
        if mirror is None and (yield from ask(d.mirror.ensemble, Exists(d.mirror.path, watch))) is None:
            return None
    return EventType.CHILD if mirror.cversion else None


def sync(context: GrownContext, request: Request) -> Operation[str]:
    """The ensembles at which the znode and its children are looked for next catch up with their leaders."""
    path: str = request.path
    places, parent = context.places, split(path)[0]
    d = places.known(path)
    if not (is_fixed(parent) or places.is_known(parent)):
        _, d = yield from at(context, Exists(path, None))
    ensembles = [d.home.ensemble]
    if d.mirror.ensemble != d.home.ensemble and (places.is_known(path) or context.may_ask_guess(d)):
        ensembles.append(d.mirror.ensemble)
    pin = [] if is_fixed(path) else [(d.home.ensemble, GetData(d.pin, None))]
    *answers, said = yield (*((ensemble, Sync("/")) for ensemble in ensembles), *pin)
    if not pin:
        answers.append(said)
    elif not isinstance(said, Exception):
        where = yield from decided(context, d, said[0])
        if where not in (NATIVE, *ensembles):
            answers += yield ((where, Sync("/")),)
    for ensemble, answer in zip(ensembles, answers, strict=False):
        context.answered(ensemble, answer)
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
    return path
