"""A cluster at one moment: what is wrong, what its servers say of themselves, and its clients."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from parkazoo.admin.check import Finding, find_wrong
from parkazoo.admin.clients import TIMEOUT_S, AdminClient, Auth, Connections, for_each
from parkazoo.admin.read import connect_by_newest, read_map
from parkazoo.admin.registrations import RegisteredClient, read_registrations
from parkazoo.protocol.cluster_map import ClusterMap

LATENCY = re.compile(r"^Latency min/avg/max: [0-9.]+/([0-9.]+)/([0-9.]+)$", re.MULTILINE)


class ServerStatus(NamedTuple):
    """What a server says of itself, by ``srvr``; None for what it does not say.

    :param trouble: why it does not serve, or says nothing.
    :param role: ``leader``, ``follower``, ``observer``, ``standalone``, ``read-only``.
    :param latency_ms: of the requests since its start: in the mean, and the longest.
    :param connections: of clients, this command's included.
    :param znodes: ParKazoo's own included.
    """

    ensemble: str
    server: str
    serves: bool
    trouble: str | None = None
    role: str | None = None
    version: str | None = None
    latency_ms: tuple[float, float] | None = None
    connections: int | None = None
    znodes: int | None = None


class ClusterStatus(NamedTuple):
    """:param findings: as `check_map` returns them, and those that follow from what servers say of themselves.
    :param clients: those with a session on an ensemble that could be read.
    """

    cluster_map: ClusterMap
    findings: Sequence[Finding]
    servers: Sequence[ServerStatus]
    clients: Sequence[RegisteredClient]

    def to_json(self) -> dict[str, Any]:
        return {
            "cluster": self.cluster_map.cluster,
            "map": self.cluster_map.epoch,
            "findings": [finding._asdict() for finding in self.findings],
            "servers": [server._asdict() for server in self.servers],
            "clients": [client._asdict() for client in self.clients],
        }


def read_status(
    hosts: str, *, auth: Auth = (), timeout_s: float = TIMEOUT_S, **client_options: Any
) -> ClusterStatus:
    """Ask every server of the cluster at `hosts`; nothing is written. Arguments as for `init_map`.

    :raises ClusterMapError: as `read_map`. What is wrong elsewhere is in the findings.
    """
    cluster_map = read_map(hosts, auth=auth, timeout_s=timeout_s, **client_options)
    options = {**client_options, "auth_data": list(auth)}
    with connect_by_newest(cluster_map, options, timeout_s) as (cluster_map, connections):
        servers = _ask_servers(cluster_map, connections)
        findings = [*find_wrong(cluster_map, connections), *_leaderless(servers)]
        clients, _ = read_registrations(connections.clients)
        return ClusterStatus(cluster_map, findings, servers, clients)


def _leaderless(servers: Sequence[ServerStatus]) -> Iterator[Finding]:
    """Ensembles whose servers all follow one that the map does not name."""
    for name in dict.fromkeys(each.ensemble for each in servers):
        if {each.role for each in servers if each.ensemble == name} <= {"follower", "observer"}:
            yield Finding(
                name,
                "none of the servers that the map names leads it: they may have left it, or never joined it",
                "`parkazoo map hosts` with all of the ensemble's servers",
                is_warning=True,
            )


def _ask_servers(cluster_map: ClusterMap, connections: Connections) -> list[ServerStatus]:
    asked = [(server, name, client) for server, (name, client) in connections.servers.items()]
    found = for_each(asked, lambda each: _ask(*each))
    found += [
        ServerStatus(name, server, serves=False, trouble=why) for server, (name, why) in connections.failed.items()
    ]
    order = {name: at for at, name in enumerate(cluster_map.names)}
    return sorted(found, key=lambda each: (order[each.ensemble], each.server))


def _ask(server: str, ensemble: str, client: AdminClient) -> ServerStatus:
    try:
        said = client.ask("srvr")
    except OSError as error:  # it was lost meanwhile
        return ServerStatus(ensemble, server, serves=False, trouble=error.strerror or str(error))
    mode = _line(said, "Mode")
    if mode is None:
        return ServerStatus(ensemble, server, serves=True, trouble="srvr is not in its 4lw.commands.whitelist")
    latency = LATENCY.search(said)
    return ServerStatus(
        ensemble,
        server,
        serves=True,
        role=mode,
        version=(_line(said, "Zookeeper version") or "").partition("-")[0] or None,
        latency_ms=(float(latency[1]), float(latency[2])) if latency else None,
        connections=_number(said, "Connections"),
        znodes=_number(said, "Node count"),
    )


def _line(said: str, name: str) -> str | None:
    found = re.search(rf"^{name}: ([ -~]+)$", said, re.MULTILINE)
    return found[1] if found else None


def _number(said: str, name: str) -> int | None:
    found = _line(said, name)
    return int(found) if found and found.isdecimal() else None
