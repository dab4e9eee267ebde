"""The stat of a znode whose home and children are on different ensembles."""

from __future__ import annotations

from typing import Any

from kazoo.exceptions import NoAuthError

from parkazoo.kazoo_private import Exists
from parkazoo.protocol.context import Context
from parkazoo.protocol.steps import Operation


def complete_stat(context: Context, path: str, stat: Any, exists: type[Exists] = Exists) -> Operation[Any]:
    """The stat of a home, with cversion, pzxid and numChildren of the znode that its children live under.

    :param exists: the request for those.
    """
    if stat.ephemeralOwner:
        return (yield from with_owner(context, context.resolver.known(path).home.ensemble, stat))
    if not stat.numChildren:
        return stat
    d = context.resolver.known(path)
    if d.is_native:
        return stat._replace(numChildren=stat.numChildren - 1) if path == "/" else stat  # less /parkazoo
    try:
        mirror = yield from context.ask(path, d.mirror.ensemble, exists(d.mirror.path, None))
    except NoAuthError:  # a set or get_acls needs no READ: it has been done, and must not fail for this
        mirror = None
    if mirror is not None:
        context.resolver.remember_promoted(path)
    return with_mirror(stat, mirror)


def with_owner(context: Context, ensemble: int, stat: Any) -> Operation[Any]:
    """The stat of a znode on an ensemble. Its owner, if any, is a client, and not that client's session there."""
    if not stat.ephemeralOwner:
        return stat
    owner = yield from context.owners.find(ensemble, stat.ephemeralOwner)
    return stat._replace(ephemeralOwner=owner)


def with_mirror(stat: Any, mirror: Any) -> Any:
    """A home's stat and its mirror's. Without a mirror there was never a child: the pin alone was counted."""
    if mirror is None:
        return stat._replace(cversion=0, pzxid=stat.czxid, numChildren=0)
    return stat._replace(cversion=mirror.cversion, pzxid=mirror.pzxid, numChildren=mirror.numChildren)
