"""The cluster map, read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from parkazoo.admin.clients import (
    SOON_S,
    TIMEOUT_S,
    AdminClient,
    Auth,
    Connections,
    Options,
    UnreadableError,
    attempt_each,
    connect_to,
    connect_to_all,
    for_each,
    reasons,
    try_each,
)
from parkazoo.admin.contents import parse_map
from parkazoo.admin.copied import verify_not_copied
from parkazoo.admin.identity import cluster_of
from parkazoo.errors import ClusterMapError
from parkazoo.protocol.cluster_map import ClusterMap, describe_record, format_hosts, no_map_error, parse_hosts
from parkazoo.protocol.map_copies import CopyKind, judge_copy, newest
from parkazoo.protocol.placement import ENSEMBLE, MAP


def read_map(hosts: str, *, auth: Auth = (), timeout_s: float = TIMEOUT_S, **client_options: Any) -> ClusterMap:
    """Returns the newest cluster map of the servers at `hosts`, which may be of any of its ensembles.

    It compares the servers that answer with the first one, or soon after it. Other arguments as for `init_map`.

    :raises UnreadableError: no server answers at `hosts`, or none lets this client read.
    :raises ClusterMapError: there is no map, one cannot be used, the maps are of several clusters, or a server
        belongs to a copy of the cluster.
    """
    servers = [format_hosts([server]) for server in parse_hosts(hosts)]
    options = {**client_options, "auth_data": list(auth)}
    with connect_to(dict(zip(servers, servers, strict=True)), options, timeout_s, SOON_S) as (clients, absent):
        if not clients:
            told = ", ".join(dict.fromkeys(for_each(absent, reasons)))
            raise UnreadableError(f"no ZooKeeper answers within {timeout_s:g} s: {told}")
        found, errors = attempt_each(clients, _read)
        if not any(cluster_map for cluster_map, _ in found.values()) and errors:
            raise next(iter(errors.values()))
        for_each([*found], partial(_verify_not_copied, clients, found, options, timeout_s))
    maps = {server: cluster_map for server, (cluster_map, _) in found.items() if cluster_map is not None}
    if not maps:
        raise no_map_error(hosts, next((record for _, record in found.values() if record is not None), None))
    first, *others = maps
    for server in others:
        if maps[server].cluster != maps[first].cluster:
            raise ClusterMapError(
                f"server {first} is of cluster {maps[first].cluster}, server {server} of {maps[server].cluster}: "
                "give those of one"
            )
    return max(maps.values(), key=lambda each: each.epoch)


def _verify_not_copied(
    clients: Mapping[str, AdminClient],
    found: Mapping[str, tuple[ClusterMap | None, bytes | None]],
    options: Options,
    timeout_s: float,
    server: str,
) -> None:
    cluster_map, record = found[server]
    if cluster_map is not None:
        verify_not_copied(cluster_map, clients[server], record or b"", options, timeout_s)


def _read(client: AdminClient) -> tuple[ClusterMap | None, bytes | None]:
    """The map there, and whose server it says that it is."""
    data, record = client.read(MAP), client.read(ENSEMBLE)
    if data is None:
        return None, record
    found = parse_map(data, MAP, client.hosts)
    cluster = cluster_of(record or b"")
    if cluster and cluster != found.cluster:
        raise ClusterMapError(
            f"the map at {MAP} on {client} is of cluster {found.cluster}, but this is "
            f"{describe_record(record or b'')}: see docs/operations/map.md"
        )
    return found, record


def find_away(cluster_map: ClusterMap, options: Options, timeout_s: float) -> dict[str, str]:
    """The ensembles that cannot be reached, or do not let this client read, and why."""
    with connect_to(cluster_map.ensembles, options, timeout_s, gives_up=True) as (clients, absent):
        _, unreadable = try_each(clients, lambda client: client.read(MAP))
        missing = dict(zip((client.name for client in absent), for_each(absent, reasons), strict=True))
        return {**missing, **unreadable}


@contextmanager
def connect_by_newest(
    cluster_map: ClusterMap, options: Options, timeout_s: float
) -> Iterator[tuple[ClusterMap, Connections]]:
    """The newest map that an ensemble of `cluster_map` holds, and connections to the ensembles that it names.

    Of two maps with the same epoch, that on the bootstrap ensemble counts. It does not wait for ensembles whose
    servers all refuse connections.
    """
    seen: list[ClusterMap] = []
    latest = cluster_map
    while True:
        seen.append(latest)
        with connect_to_all(latest.ensembles, options, timeout_s, gives_up=True) as connections:
            found, unreadable = try_each(connections.clients, lambda client: client.read(MAP))
            primary = judge_copy(found.get(latest.bootstrap), latest)
            first = latest if primary.map is None or primary.kind is CopyKind.FOREIGN else primary.map
            last, latest = latest, newest(first, latest.to_json(), *found.values())
            if latest in seen:  # mostly the one that led here
                yield last, connections.without(unreadable)
                return
