"""The cluster map, read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from parkazoo.admin.clients import TIMEOUT_S, Auth, Connections, connect_to, connect_to_all, reasons
from parkazoo.admin.contents import parse_map
from parkazoo.errors import ClusterMapError
from parkazoo.protocol.cluster_map import ClusterMap, no_map_error, parse_hosts
from parkazoo.protocol.map_copies import CopyKind, judge_copy, newest
from parkazoo.protocol.placement import ENSEMBLE, MAP


def read_map(hosts: str, *, auth: Auth = (), timeout_s: float = TIMEOUT_S, **client_options: Any) -> ClusterMap:
    """The cluster map on the bootstrap ensemble at `hosts`; arguments as for `init_map`.

    :raises ClusterMapError: if there is none, it can't be read or used, or no server answers at `hosts`.
    """
    parse_hosts(hosts)
    with connect_to({"": hosts}, {**client_options, "auth_data": list(auth)}, timeout_s) as (clients, absent):
        if absent:
            raise ClusterMapError(f"no ZooKeeper answers within {timeout_s:g} s: {reasons(absent[0])}")
        (client,) = clients.values()
        found = client.read(MAP)
        if found is None:
            raise no_map_error(hosts, client.read(ENSEMBLE))
        return parse_map(found, MAP, hosts)


@contextmanager
def connect_by_newest(
    cluster_map: ClusterMap, options: Mapping[str, Any], timeout_s: float
) -> Iterator[tuple[ClusterMap, Connections]]:
    """The newest map that an ensemble of `cluster_map` holds, and connections to the ensembles that it names.

    Of two maps with the same epoch, that on the bootstrap ensemble counts.
    """
    seen: list[ClusterMap] = []
    latest = cluster_map
    while True:
        seen.append(latest)
        with connect_to_all(latest.ensembles, options, timeout_s) as connections:
            found = {name: client.read(MAP) for name, client in connections.clients.items()}
            primary = judge_copy(found.get(latest.bootstrap), latest)
            first = latest if primary.map is None or primary.kind is CopyKind.FOREIGN else primary.map
            last, latest = latest, newest(first, latest.to_json(), *found.values())
            if latest in seen:  # mostly the one that led here
                yield last, connections
                return
