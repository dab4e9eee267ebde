"""The stat of a directory: its home's, with cversion, pzxid and number of the children from where these are."""

from __future__ import annotations

from typing import Any

from kazoo.exceptions import NoAuthError, NoNodeError

from parkazoo.kazoo_private import Exists, GetData
from parkazoo.protocol.context import Context
from parkazoo.protocol.placement import CERTAIN, PINNED, Directory
from parkazoo.protocol.steps import Operation, Step
from parkazoo.protocol.where.lookup import decided
from parkazoo.types.znodes import ZnodeStat

NOT_ASKED: Any = object()
Beside = ZnodeStat | Exception | None


def of_children(d: Directory, exists: type[Exists] = Exists) -> Step:
    """Asks for the znode that tells more of the children: the mirror, or the proof that there is none."""
    return d.mirror.ensemble, exists(d.proof if d.is_native else d.mirror.path, None)


def less_marks(stat: ZnodeStat, proof: ZnodeStat) -> ZnodeStat:
    """The stat of a native home without its pin and proof, which were made at once; and the proof's."""
    if stat.pzxid < proof.czxid:  # they came later
        return stat
    return stat._replace(cversion=stat.cversion - 2, numChildren=stat.numChildren - 2)


def complete_stat(
    context: Context, d: Directory, stat: ZnodeStat, beside: Beside = NOT_ASKED, exists: type[Exists] = Exists
) -> Operation[ZnodeStat]:
    """The stat of a znode, from its home's.

    :param beside: the answer to :func:`of_children` of `d`, if that was asked at the same time.
    """
    if stat.ephemeralOwner:
        return (yield from with_owner(context, d.home.ensemble, stat))
    if not stat.numChildren:
        return stat
    if d.path == "/":
        return stat._replace(numChildren=stat.numChildren - 1)  # less /parkazoo
    if d.certainty == CERTAIN and d.is_native:
        return stat
    places, since = context.places, context.places.count
    may_be_there = d.certainty == CERTAIN or places.known(d.path).certainty == PINNED
    asked = d.mirror if beside is not NOT_ASKED or may_be_there else None
    if beside is NOT_ASKED or (beside is None and d.certainty < CERTAIN):
        beside = None
        if asked is not None:
            (beside,) = yield from context.read(d.path, of_children(d, exists))
    if d.certainty == CERTAIN:
        if beside is None:
            places.drop(d.path)
        elif not d.is_decided and not isinstance(beside, Exception):
            places.remember(d, since)
    elif beside is None:
        places.drop(d.path)
        since = places.count
        home = d.home.ensemble
        pin, now = yield from context.read(d.path, (home, GetData(d.pin, None)), (home, Exists(d.home.path, None)))
        if isinstance(now, Exception) and not isinstance(now, NoAuthError):  # a set needs no READ
            raise now
        if isinstance(pin, NoNodeError):
            is_same = isinstance(now, NoAuthError) or (now is not None and now.czxid == stat.czxid)
            return stat if is_same else with_mirror(stat, None)  # gone since: it was empty before
        if isinstance(pin, Exception):
            raise pin
        try:
            d = yield from decided(context, d, pin[0])
        except NoNodeError:
            return with_mirror(stat, None)
        places.remember(d, since)
        if d.mirror != asked:
            (beside,) = yield from context.read(d.path, of_children(d, exists))
    if isinstance(beside, NoAuthError):  # a set or get_acls needs no READ: it must not fail for this
        beside = None
    if isinstance(beside, Exception):
        raise beside
    return less_marks(stat, beside) if d.is_native and beside is not None else with_mirror(stat, beside)


def with_owner(context: Context, ensemble: int, stat: ZnodeStat) -> Operation[ZnodeStat]:
    """The stat of a znode on an ensemble. Its owner, if any, is a client, and not that client's session there."""
    if not stat.ephemeralOwner:
        return stat
    owner = yield from context.owners.find(ensemble, stat.ephemeralOwner)
    return stat._replace(ephemeralOwner=owner)


def with_mirror(stat: ZnodeStat, mirror: ZnodeStat | None) -> ZnodeStat:
    """A home's stat and its mirror's. Without a mirror there was never a child: the pin alone was counted."""
    if mirror is None:
        return stat._replace(cversion=0, pzxid=stat.czxid, numChildren=0)
    return stat._replace(cversion=mirror.cversion, pzxid=mirror.pzxid, numChildren=mirror.numChildren)
