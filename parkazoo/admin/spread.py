"""How far the newest map has come: to which copies, and to which clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from parkazoo.admin.clients import TIMEOUT_S, Auth, try_each
from parkazoo.admin.read import connect_by_newest, read_map
from parkazoo.admin.registrations import RegisteredClient, read_registrations
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.map_copies import Copy, judge_copy
from parkazoo.protocol.placement import MAP


class MapSpread(NamedTuple):
    """:param copies: by ensemble; the bootstrap ensemble's is the primary.
    :param clients: those with a session on an ensemble that could be reached.
    :param absent: ensembles that cannot be reached or read, and why.
    """

    cluster_map: ClusterMap
    copies: Mapping[str, Copy]
    clients: Sequence[RegisteredClient]
    absent: Mapping[str, str]


def read_spread(hosts: str, *, auth: Auth = (), timeout_s: float = TIMEOUT_S, **client_options: Any) -> MapSpread:
    """Asks all ensembles of the cluster at `hosts` for their maps. It writes nothing. Arguments as for `init_map`.

    :raises ClusterMapError: as `read_map`.
    """
    cluster_map = read_map(hosts, auth=auth, timeout_s=timeout_s, **client_options)
    options = {**client_options, "auth_data": list(auth)}
    with connect_by_newest(cluster_map, options, timeout_s) as (newest, connections):
        copies, unread = try_each(connections.clients, lambda client: client.read(MAP))
        clients, unlisted = read_registrations(connections.clients)
        return MapSpread(
            newest,
            {name: judge_copy(data, newest) for name, data in copies.items()},
            clients,
            {**unlisted, **unread, **connections.away},
        )
