"""The cluster map, read from its bootstrap ensemble."""

from __future__ import annotations

from typing import Any

from parkazoo.admin.clients import TIMEOUT_S, Auth, connect_to, reasons
from parkazoo.admin.contents import parse_map
from parkazoo.errors import ClusterMapError
from parkazoo.protocol.cluster_map import ClusterMap, no_map_error, parse_hosts
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
