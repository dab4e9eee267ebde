"""A cluster at one moment: its problems, its servers' own words, and its clients."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from parkazoo.admin.check import MapProblem, behind, find_wrong
from parkazoo.admin.clients import TIMEOUT_S, Auth, Connections, Options
from parkazoo.admin.moving.at_work import MoveAtWork, find_work
from parkazoo.admin.read import connect_by_newest, read_map
from parkazoo.admin.registrations import RegisteredClient, read_registrations
from parkazoo.admin.server_status import ServerStatus, ask_servers
from parkazoo.admin.strangers import Lookout, Strangers
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.epochs import Form

FOLLOW_S = 5.0  # a client follows a new map within moments
FOLLOW_POLL_S = 0.5


class ClusterStatus(NamedTuple):
    """:param findings: as `check_map` returns them.
    :param clients: those with a session on an ensemble that could be read.
    :param unregistered: the sessions of others, as servers list their connections.
    :param moves: of directories, whose commands are at work.
    """

    cluster_map: ClusterMap
    findings: Sequence[MapProblem]
    servers: Sequence[ServerStatus]
    clients: Sequence[RegisteredClient]
    unregistered: Strangers
    moves: Sequence[MoveAtWork] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "cluster": self.cluster_map.cluster,
            "map": self.cluster_map.epoch,
            "findings": [finding._asdict() for finding in self.findings],
            "servers": [server._asdict() for server in self.servers],
            "clients": [client._asdict() for client in self.clients],
            "unregistered": self.unregistered.to_json(),
            "moves": [move.to_json() for move in self.moves],
        }


def check_map(
    hosts: str, *, auth: Auth = (), timeout_s: float = TIMEOUT_S, **client_options: Any
) -> list[MapProblem]:
    """Compares the cluster map at `hosts` with the ensembles. It writes nothing. Arguments as for `init_map`.

    It asks every server by itself, because one wrong server among right ones would not be noticed.

    :returns: the problems; empty if there is none.
    :raises ClusterMapError: as `read_map`.
    """
    return [*read_status(hosts, auth=auth, timeout_s=timeout_s, **client_options).findings]


def read_status(
    hosts: str, *, auth: Auth = (), timeout_s: float = TIMEOUT_S, **client_options: Any
) -> ClusterStatus:
    """Asks every server of the cluster at `hosts`. It writes nothing. Arguments as for `init_map`.

    :raises ClusterMapError: as `read_map`. Other problems are in the findings.
    """
    cluster_map = read_map(hosts, auth=auth, timeout_s=timeout_s, **client_options)
    options = {**client_options, "auth_data": list(auth)}
    with connect_by_newest(cluster_map, options, timeout_s) as (cluster_map, connections):
        servers = ask_servers(cluster_map, connections)
        return status_of(cluster_map, connections, servers, options, timeout_s)


def status_of(
    cluster_map: ClusterMap,
    connections: Connections,
    servers: Sequence[ServerStatus],
    options: Options,
    timeout_s: float,
) -> ClusterStatus:
    """The same, by connections that there are, and servers that have been asked."""
    clients = _read_clients(cluster_map, connections)
    unregistered = _look_out(cluster_map, connections, options, timeout_s)
    findings = find_wrong(cluster_map, connections, servers, clients, unregistered)
    return ClusterStatus(cluster_map, findings, servers, clients, unregistered, find_work(connections.clients))


def _read_clients(cluster_map: ClusterMap, connections: Connections) -> Sequence[RegisteredClient]:
    """The registered clients. If some work by an older map, they get the time that it takes to follow."""
    deadline = time.monotonic() + FOLLOW_S
    while True:
        clients, _ = read_registrations(connections.clients)
        if not behind(clients, cluster_map) or time.monotonic() > deadline:
            return clients
        time.sleep(FOLLOW_POLL_S)


def _look_out(cluster_map: ClusterMap, connections: Connections, options: Options, timeout_s: float) -> Strangers:
    """Sessions that are not registered; where they could do harm, only if they stay."""
    servers = {server: name for server, (name, _) in connections.servers.items()}
    lookout = Lookout(connections.clients, servers, options, timeout_s, connections.servers.values())
    return lookout.look_again() if cluster_map.form >= Form.GUARDED else lookout.look()
