"""What a watch waits for that was left where it may never come: looked at again."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from kazoo.exceptions import NoAuthError, NoNodeError
from kazoo.protocol.states import EventType

from parkazoo.kazoo_private import Exists, GetChildren2
from parkazoo.protocol.context import Context
from parkazoo.protocol.order import node
from parkazoo.protocol.placement import CERTAIN, PIN, PROOF, Directory, generation_of, mirror_of
from parkazoo.protocol.steps import Operation, ask
from parkazoo.protocol.watches import DirectoryWatch
from parkazoo.protocol.where.lookup import as_pinned, at
from parkazoo.types.znodes import Watch, ZnodeStat

NO_CVERSION = -1


def stand_in(context: Context, path: str, watcher: Watch, take: Callable[[], bool]) -> Operation[None]:
    """Replace a watch on a znode that was left when its map was plain, if the znode is not there.

    :param take: takes that watch out of the tables; False if it is not there any more: it has been called.
    """
    watch = context.watch(node(path), watcher)
    is_replaced = False
    try:
        is_replaced = (yield from _look_for(context, watch)) is None and take()
    finally:
        context.settle(watch, is_replaced)


def look(context: Context, watch: DirectoryWatch) -> Operation[str | None]:
    """Something that a watch waits for has changed: the event to report, or None after watching on."""
    return (yield from (_look_at_children if watch.is_of_children else _look_for)(context, watch))


def _look_for(context: Context, watch: DirectoryWatch) -> Operation[str | None]:
    """A znode that is not there."""
    (stat, *_), _ = yield from at(context, Exists(watch.path, watch), watch=watch)
    if isinstance(stat, NoAuthError):  # one ZooKeeper does not tell of what may not be read
        return None
    if isinstance(stat, Exception):
        raise stat
    return EventType.CREATED if stat is not None else None


def _look_at_children(context: Context, watch: DirectoryWatch) -> Operation[str | None]:
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
    if not (yield from _is_same_life(watch, d, stat)):  # deleted, and made again since
        return EventType.DELETED
    if d.certainty < CERTAIN and (PROOF in names or PIN not in names):
        if stat.cversion == watch.home_cversion:  # the server lags; the watch is left again
            return None
        return EventType.CHILD
    try:
        d = yield from as_pinned(context, d)
    except NoNodeError:
        return EventType.DELETED
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


def _is_same_life(watch: DirectoryWatch, d: Directory, stat: ZnodeStat) -> Operation[bool]:
    """Whether a directory is the one that was seen. If the one above has moved since, its numbers are others.

    What the move has copied is older than the last set of the new mirror, the seal.
    """
    if d.home != watch.seen_at:
        mirror = mirror_of(d.home.path)
        seal = (yield from ask(d.home.ensemble, Exists(mirror, None))) if generation_of(mirror) else None
        if seal is None or stat.czxid > seal.mzxid:
            return False
        watch.seen_at, watch.home_czxid = d.home, stat.czxid
        watch.home_cversion = stat.cversion if stat.pzxid <= seal.mzxid else NO_CVERSION
    return stat.czxid == watch.home_czxid
