"""Which ensemble this is: the mark at ``/parkazoo/ensemble``, and whether two names are one ensemble."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from contextlib import suppress

from kazoo.exceptions import NoNodeError
from kazoo.security import OPEN_ACL_UNSAFE

from parkazoo.admin.clients import AdminClient, Options, connect_to_each_server
from parkazoo.errors import ClusterMapError
from parkazoo.protocol.cluster_map import ClusterMap, parse_hosts
from parkazoo.protocol.placement import PROBE, ROOT, join


def encode_identity(cluster_map: ClusterMap, name: str) -> bytes:
    return json.dumps(cluster_map.identity(name)).encode()


def is_identity(data: bytes, cluster_map: ClusterMap, name: str) -> bool:
    with suppress(ValueError, RecursionError):
        return bool(json.loads(data) == cluster_map.identity(name))
    return False


def cluster_of(record: bytes) -> str:
    """The cluster's id in what ``/parkazoo/ensemble`` holds; empty if it is damaged."""
    with suppress(ValueError, RecursionError, TypeError, KeyError):
        return str(json.loads(record)["cluster"])
    return ""


def name_of(record: bytes) -> str:
    """The ensemble's name in what ``/parkazoo/ensemble`` holds; empty if it is damaged."""
    with suppress(ValueError, RecursionError, TypeError, KeyError):
        name = json.loads(record)["name"]
        return name if isinstance(name, str) else ""
    return ""


def verify_distinct(clients: Mapping[str, AdminClient], options: Options, timeout_s: float) -> None:
    """Each name is an ensemble of its own, and all its servers are in it.

    Host names prove nothing, nor do the servers' own lists of members, in which each may call itself 0.0.0.0.
    So this creates an ephemeral on every ensemble, and asks every server which ones it has.
    """
    servers = {name: parse_hosts(client.hosts) for name, client in clients.items()}
    if sum(map(len, servers.values())) == 1:
        return
    parents = {name: ROOT if client.call("exists", ROOT) else "/" for name, client in clients.items()}
    run = PROBE + uuid.uuid4().hex
    probes = {f"{run}-{index}": name for index, name in enumerate(clients)}
    for probe, name in probes.items():
        clients[name].call("create", join(parents[name], probe), b"", OPEN_ACL_UNSAFE, True)

    def look(client: AdminClient, parent: str) -> set[str]:
        client.patiently(client.catch_up)
        return {probes[child] for child in client.children(parent) if child in probes}

    try:
        with connect_to_each_server(clients, options, timeout_s) as (connected, _):
            for server, (name, client) in connected.items():
                seen = look(client, parents[name])
                if seen == {name}:
                    continue
                if name not in seen:
                    raise ClusterMapError(
                        f"server {server} is not in one ensemble with the other servers of {name} "
                        f"({clients[name].hosts})"
                        + (f", but in {', '.join(sorted(seen))}" if seen else "")
                        + f": give {name} the servers of one ensemble"
                    )
                raise ClusterMapError(f"{' and '.join(sorted(seen))} are one ensemble: {server} belongs to both")
    finally:
        for probe, name in probes.items():
            with suppress(NoNodeError, ClusterMapError):  # it ends with the session anyway
                clients[name].call("delete", join(parents[name], probe))
