"""The map as an ensemble holds it, compared with the one that is published."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from parkazoo.errors import ClusterMapError
from parkazoo.protocol.cluster_map import ClusterMap


class CopyKind(Enum):
    SAME = "same"
    MISSING = "missing"
    OLDER = "older"
    NEWER = "newer"
    DIFFERING = "differing"
    FOREIGN = "foreign"
    DAMAGED = "damaged"


class Copy(NamedTuple):
    """What an ensemble holds at ``/parkazoo/map``.

    :param about: a remark, as "it is of cluster 5d3c".
    :param map: None if it is missing or damaged.
    """

    kind: CopyKind
    about: str
    map: ClusterMap | None = None

    @property
    def is_wrong(self) -> bool:
        """Whether no command has written that: a copy holds a map that is published, or was."""
        return self.kind in {CopyKind.DIFFERING, CopyKind.FOREIGN, CopyKind.DAMAGED}


def judge_copy(data: bytes | None, published: ClusterMap) -> Copy:
    """:param data: of ``/parkazoo/map``; None if there is no such znode."""
    if data is None:
        return Copy(CopyKind.MISSING, "it is missing")
    try:
        found = ClusterMap.from_json(data)
    except ClusterMapError as error:
        return Copy(CopyKind.DAMAGED, str(error))
    kind = compare(found, published)
    if kind is CopyKind.OLDER and not published.continues(found):
        kind, about = CopyKind.DIFFERING, f"it is map {found.epoch}, which map {published.epoch} does not follow"
    elif kind is CopyKind.FOREIGN:
        about = f"it is of cluster {found.cluster}"
    elif kind is CopyKind.DIFFERING:
        about = f"it is map {found.epoch} too, and says something else"
    elif kind is CopyKind.SAME:
        about = "it is the published one"
    else:
        about = f"it is map {found.epoch}, {kind.value} than {published.epoch}"
    return Copy(kind, about, found)


def compare(copy: ClusterMap, known: ClusterMap) -> CopyKind:
    """What a copy is beside a map that is known."""
    if copy.cluster != known.cluster:
        return CopyKind.FOREIGN
    if copy.epoch != known.epoch:
        return CopyKind.OLDER if copy.epoch < known.epoch else CopyKind.NEWER
    return CopyKind.SAME if copy == known else CopyKind.DIFFERING


def newest(first: ClusterMap, *copies: bytes | None) -> ClusterMap:
    """The newest of a map and of its cluster's maps among `copies`, the data of ``/parkazoo/map``."""
    for data in copies:
        copy = judge_copy(data, first)
        if copy.map is not None and copy.kind is CopyKind.NEWER:
            first = copy.map
    return first
