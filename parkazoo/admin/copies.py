"""The map on every ensemble: the primary on the bootstrap ensemble, copies on the others.

A map is published when it is set on the primary. Only then it is written to the copies, each with the version that
was read, so that no copy goes back, however slow a command is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kazoo.security import ACL

from parkazoo.admin.clients import AdminClient, LostError
from parkazoo.admin.contents import parse_map
from parkazoo.errors import ClusterMapError
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.map_copies import Copy, CopyKind, judge_copy
from parkazoo.protocol.placement import MAP

AGAIN = "run `parkazoo map init` again with the arguments of the map"
MEND_PRIMARY = (
    "It has gone back to a backup, or was set by hand: set it to what the newest copy holds, as "
    "docs/operations/map.md says"
)


class Primary(NamedTuple):
    """The published map.

    :param data: the bytes of the map.
    :param version: of the znode.
    """

    map: ClusterMap
    data: bytes
    version: int


def read_primary(client: AdminClient) -> Primary:
    """:raises ClusterMapError: it is missing, or cannot be used."""
    found = client.read_with_version(MAP)
    if found is None:
        raise ClusterMapError(f"{MAP} on {client} is missing: see `parkazoo map check`")
    data, version = found
    return Primary(parse_map(data, MAP, client.hosts), data, version)


def update_copies(clients: Mapping[str, AdminClient], bootstrap: str) -> Primary:
    """Bring the copies on the ensembles of `clients` to the published map, and return it.

    :param bootstrap: the ensemble of the primary, one of `clients`.
    :raises ClusterMapError: a copy is wrong, or cannot be written. The others are written.
    :raises LostError: nothing but lost connections was in the way.
    """
    primary = read_primary(clients[bootstrap])
    acl = clients[bootstrap].call("get_acls", MAP)[0]
    troubles: list[ClusterMapError] = []
    for name, client in clients.items():
        if name != bootstrap:
            try:
                _update(client, clients[bootstrap], primary, acl)
            except ClusterMapError as error:
                troubles.append(error)
    if troubles:
        are_lost = all(isinstance(each, LostError) for each in troubles)
        raise (LostError if are_lost else ClusterMapError)("; ".join(map(str, troubles)))
    return primary


def _update(client: AdminClient, bootstrap: AdminClient, primary: Primary, acl: Sequence[ACL]) -> None:
    while True:
        found = client.read_with_version(MAP)
        copy = judge_copy(found and found[0], primary.map)
        if copy.is_wrong:
            raise ClusterMapError(
                f"the copy of the map on {client} is wrong: {copy.about}. {mend_copy(client.name)}"
            )
        if copy.kind is CopyKind.NEWER:
            _verify_published(bootstrap, client, copy)
        if copy.kind in {CopyKind.SAME, CopyKind.NEWER}:
            return
        if found is None:
            is_written = client.make(MAP, primary.data, acl)
        else:
            is_written = client.set(MAP, primary.data, found[1])
        if is_written:
            return


def _verify_published(bootstrap: AdminClient, client: AdminClient, copy: Copy) -> None:
    """A copy is newer than the map that was read: another command has published it, if the primary has it now."""
    published = read_primary(bootstrap).map
    if copy.map is not None and copy.map.epoch > published.epoch:
        raise ClusterMapError(
            f"the map on {bootstrap} is behind its copy on {client}: {copy.about}. {MEND_PRIMARY}"
        )


def mend_copy(name: str) -> str:
    """What to do about a wrong copy."""
    return f"If it is not the right one, delete {MAP} on ensemble {name} with a plain client, and {AGAIN}"
