"""The stat of a directory: its home's, with what concerns the children from where they are."""

from __future__ import annotations

from typing import Any

from kazoo.exceptions import NoAuthError, NoNodeError

from parkazoo.kazoo_private import Exists, GetData
from parkazoo.protocol.grown.common import GrownContext
from parkazoo.protocol.grown.lookup import decided
from parkazoo.protocol.grown.places import directory
from parkazoo.protocol.placement import Directory
from parkazoo.protocol.stats import with_mirror, with_owner
from parkazoo.protocol.steps import Operation, Request, Step


def of_children(d: Directory, exists: type[Exists] = Exists) -> Step:
    """Asks for the znode that tells more of the children: the mirror, or the proof that there is none."""
    return d.mirror.ensemble, exists(d.proof if d.is_native else d.mirror.path, None)


def less_marks(stat: Any, proof: Any) -> Any:
    """The stat of a native home without its pin and proof, which were made at once; and the proof's."""
    if stat.pzxid < proof.czxid:  # they came later
        return stat
    return stat._replace(cversion=stat.cversion - 2, numChildren=stat.numChildren - 2)


def complete_stat(
    context: GrownContext, d: Directory, stat: Any, beside: Request = None, exists: type[Exists] = Exists
) -> Operation[Any]:
    """The stat of a znode, from that of its home.

    :param beside: the answer to :func:`of_children` of `d`, if that was asked at the same time; or None.
    """
    if stat.ephemeralOwner:
        return (yield from with_owner(context, d.home.ensemble, stat))
    if not stat.numChildren:
        return stat
    if d.path == "/":
        return stat._replace(numChildren=stat.numChildren - 1)  # less /parkazoo
    places = context.places
    asked = d.mirror if beside is not None or places.is_pinned(d.path) else None
    if beside is None and asked is not None:
        (beside,) = yield from context.read(d.path, of_children(d, exists))
    if beside is None:
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
        d = directory(d.path, d.home, (yield from decided(context, d, pin[0])))
        places.remember(d, since)
        if d.mirror != asked:
            (beside,) = yield from context.read(d.path, of_children(d, exists))
    if isinstance(beside, NoAuthError):  # a set or get_acls needs no READ: it must not fail for this
        beside = None
    if isinstance(beside, Exception):
        raise beside
    return less_marks(stat, beside) if d.is_native and beside is not None else with_mirror(stat, beside)
