"""The fence of a directory, a znode beside its mirror: its version orders promotions against deletes."""

from __future__ import annotations

from kazoo.exceptions import NodeExistsError, NoNodeError
from kazoo.security import OPEN_ACL_UNSAFE

from parkazoo.errors import ClusterMapError
from parkazoo.kazoo_private import Create, Exists, SetData
from parkazoo.protocol.placement import Directory
from parkazoo.protocol.steps import Operation, ask
from parkazoo.types.znodes import ZnodeStat


def make_fence(d: Directory) -> Operation[ZnodeStat]:
    """The fence's stat; it is made if it is not there."""
    (seen,) = yield ((d.mirror.ensemble, Exists(d.fence, None)),)
    return (yield from stat_of_fence(d, seen))


def stat_of_fence(d: Directory, seen: ZnodeStat | Exception | None) -> Operation[ZnodeStat]:
    """The fence's stat, from the answer to an Exists."""
    while seen is None:
        yield from _make_fence(d)
        seen = yield from ask(d.mirror.ensemble, Exists(d.fence, None))
    if isinstance(seen, Exception):
        raise seen
    return seen


def bump_fence(d: Directory) -> Operation[int]:
    """From here on no promotion that began earlier can land; returns the fence's new version."""
    try:
        stat = yield from ask(d.mirror.ensemble, SetData(d.fence, b"", -1))
    except NoNodeError:
        yield from _make_fence(d)
        return (yield from bump_fence(d))
    return stat.version


def _make_fence(d: Directory) -> Operation[None]:
    try:
        yield from ask(d.mirror.ensemble, Create(d.fence, b"", OPEN_ACL_UNSAFE, 0))
    except NodeExistsError:
        pass
    except NoNodeError:
        raise unprepared(d) from None


def unprepared(d: Directory) -> ClusterMapError:
    return ClusterMapError(
        f"an ensemble lost its /parkazoo structure ({d.fence} or {d.mirror.path} cannot be created): "
        "see `parkazoo map check`"
    )
