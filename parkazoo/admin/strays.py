"""All that an ensemble carries: listed, and whether it is where the map looks for it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import suppress

from kazoo.exceptions import NoNodeError

from parkazoo.admin.clients import AdminClient, NoRightError
from parkazoo.errors import ClusterMapError
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.placement import MIRRORS, PIN, PROBE, ROOT, Place, join, logical
from parkazoo.protocol.resolver import Resolver

READS_AT_ONCE = 64
SHOWN = 5


def verify_no_strays(cluster_map: ClusterMap, clients: Mapping[str, AdminClient]) -> None:
    """No ensemble has a znode at a place where this map would not look for it."""
    if strays := _all_strays(cluster_map, clients):
        raise ClusterMapError(
            f"{strays}Begin with empty ensembles and copy the znodes with a ParKazooClient, or make a map of the "
            "one ensemble that has data"
        )


def agree_with_znodes(cluster_map: ClusterMap, clients: Mapping[str, AdminClient], is_told: bool) -> ClusterMap:
    """The map to go on with where ensembles are of a cluster already, whose map is lost.

    :param is_told: whether a copy or draft tells its format; otherwise it is that by which the znodes were placed.
    """
    strays = _all_strays(cluster_map, clients)
    if not strays:
        return cluster_map
    if not is_told:
        old = dataclasses.replace(cluster_map, weights={}, format=1)
        if not _all_strays(old, clients):
            return old
    raise ClusterMapError(
        f"{strays}There are marks of cluster {cluster_map.cluster}, but no map: to make it again, give all its "
        "ensembles in their old order"
    )


def _all_strays(cluster_map: ClusterMap, clients: Mapping[str, AdminClient]) -> str:
    """Some znodes at places where this map would not look for them, for a message; nothing if there are none."""
    if len(cluster_map.names) == 1:
        return ""
    resolver = Resolver(cluster_map.make_placement())
    strays = []
    for index, name in enumerate(cluster_map.names):
        if found := _strays(clients[name], index, resolver):
            strays.append(f"{', '.join(found)}{', ...' if len(found) == SHOWN else ''} on {clients[name]}")
    told = f"znodes would be out of reach with these ensembles in this order: {'; '.join(strays)}. "
    return told if strays else ""


def _strays(client: AdminClient, index: int, resolver: Resolver) -> list[str]:
    """Some znodes on ensemble `index` whose place is elsewhere; goes through the whole tree if there are none."""
    found = [
        path
        for path in (join(MIRRORS, name) for name in client.children(MIRRORS))
        if resolver.known(logical(path)).mirror != Place(index, path)
    ]
    to_list = ["/"]
    for path, names in listings(client, to_list):
        for name in names:
            child = join(path, name)
            if child in {"/zookeeper", ROOT} or child.startswith(f"/{PROBE}"):
                continue
            if name == PIN:  # its directory has a mirror, perhaps on an ensemble that the map does not name
                if resolver.known(path).is_native:
                    found.append(child)
            elif resolver.known(child).home == Place(index, child):
                to_list.append(child)
            else:
                found.append(child)
        if len(found) >= SHOWN:
            break
    return found[:SHOWN]


def listings(
    client: AdminClient, to_list: list[str], hidden: list[str] | None = None
) -> Iterator[tuple[str, list[str]]]:
    """The paths in `to_list`, to which the caller adds while it goes on, with the names of their children.

    :param hidden: gets the paths that may not be listed, which else is an error.
    """
    while to_list:
        batch = to_list[-READS_AT_ONCE:]
        del to_list[-READS_AT_ONCE:]
        for path, answer in [(path, client.zk.get_children_async(path)) for path in batch]:
            with suppress(NoNodeError):  # deleted meanwhile
                try:
                    names = client.wait(path, answer)
                except NoRightError:
                    if hidden is None:
                        raise
                    hidden.append(path)
                else:
                    yield path, names
