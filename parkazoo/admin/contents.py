"""What an ensemble has below ``/parkazoo``."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from kazoo.exceptions import NoNodeError
from kazoo.security import ACL, OPEN_ACL_UNSAFE

from parkazoo.admin.clients import AdminClient
from parkazoo.errors import ClusterMapError
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.moving import MOVES
from parkazoo.protocol.placement import (
    CLIENTS,
    DEFERRED,
    DONE,
    ENSEMBLE,
    FENCE_COUNT,
    FENCES,
    HISTORY,
    MAP,
    MARKER,
    MIRRORS,
    PROBE,
    ROOT,
    join,
    split,
)

DRAFT = ROOT + "/draft"
# Of a map that is made.
PARTS = frozenset({MAP, HISTORY, ENSEMBLE, CLIENTS, DEFERRED, MIRRORS, FENCES, DONE, MOVES})
DELETE_ALL = f"`deleteall {ROOT}` in ZooKeeper's zkCli.sh"


class Contents(NamedTuple):
    """What an ensemble holds below ``/parkazoo``, whose children are `parts`; None for a missing znode."""

    hosts: str
    map: bytes | None
    draft: bytes | None
    record: bytes | None
    is_open: bool | None
    strange: tuple[str, ...]
    has_mirrors: bool
    parts: frozenset[str]
    acl: tuple[ACL, ...] = ()

    @classmethod
    def read(cls, client: AdminClient) -> Contents:
        client.read(ROOT)
        try:
            acl = client.call("get_acls", ROOT)[0]
        except NoNodeError:
            return cls(client.hosts, None, None, None, None, (), False, frozenset())
        own = {split(path)[1] for path in (DRAFT, *PARTS)}
        names = client.children(ROOT)
        return cls(
            hosts=client.hosts,
            map=client.read(MAP),
            draft=client.read(DRAFT),
            record=client.read(ENSEMBLE),
            is_open=acl == OPEN_ACL_UNSAFE,
            strange=tuple(name for name in names if name not in own and not name.startswith((MARKER, PROBE))),
            has_mirrors=bool(client.children(MIRRORS)),
            parts=frozenset(join(ROOT, name) for name in names),
            acl=tuple(acl),
        )


def parse_map(data: bytes, path: str, hosts: str) -> ClusterMap:
    try:
        return ClusterMap.from_json(data)
    except ClusterMapError as error:
        raise ClusterMapError(f"cannot use the cluster map at {path} on {hosts}: {error}") from None


def parts_of(client: AdminClient) -> frozenset[str]:
    return frozenset(join(ROOT, name) for name in client.children(ROOT))


def has_mirrors(cluster_map: ClusterMap, name: str) -> bool:
    """Whether the ensemble needs mirrors and what belongs to them: with one ensemble all is native."""
    return len(cluster_map.placement) > 1 and name in cluster_map.placement


def lost_parts(cluster_map: ClusterMap, name: str, parts: Collection[str]) -> list[str]:
    """Of what an ensemble has below ``/parkazoo``, that which cannot be made again without losing something."""
    needed = [MAP] if name == cluster_map.bootstrap else [ENSEMBLE]  # the map marks its ensemble too
    if has_mirrors(cluster_map, name):
        needed.append(MIRRORS)
    return [path for path in needed if path not in parts]


def missing_fences(client: AdminClient) -> list[str]:
    there = set(client.children(FENCES))
    return [f"{FENCES}/{number}" for number in range(FENCE_COUNT) if str(number) not in there]
