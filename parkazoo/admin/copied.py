"""Servers of a copy of the cluster: they have the data of an ensemble of the map, and are not in it."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from parkazoo.admin.clients import SOON_S, AdminClient, Options, UnreadableError, connect_to
from parkazoo.admin.identity import is_identity
from parkazoo.protocol.cluster_map import ClusterMap, format_hosts, parse_hosts
from parkazoo.protocol.placement import ENSEMBLE
from parkazoo.protocol.wrong_ensemble import copy_error

LIMIT_S = 3.0


def verify_not_copied(
    cluster_map: ClusterMap, client: AdminClient, record: bytes, options: Options, timeout_s: float
) -> None:
    """Ask the servers that the map names whether they know a client's session; nothing is written.

    All servers of an ensemble know it, by whatever address they are reached. If no server of the map answers,
    nothing can be said. The session ends with this, so it comes last.

    :param client: of one server, by an address of the user's own.
    :param record: which ensemble that server says that it is.
    :raises ClusterMapError: they do not know it.
    """
    name = next((each for each in cluster_map.names if is_identity(record, cluster_map, each)), None)
    session = client.zk.client_id
    if name is None or session is None:
        return
    named = cluster_map.ensembles[name]
    if {*parse_hosts(client.hosts)} <= {*parse_hosts(named)}:
        return
    # each by a client of its own: kazoo would ask one after the other, and a silent one takes all the time
    servers = {server: server for server in (format_hosts([each]) for each in parse_hosts(named))}
    with connect_to(servers, {**options, "client_id": session}, min(timeout_s, LIMIT_S), SOON_S) as (others, _):
        if know_session(others.values(), session):
            return
        if any(_is_ensemble(other, cluster_map, name) for other in others.values()):
            raise copy_error(cluster_map, name, client.hosts)


def know_session(others: Iterable[AdminClient], session: tuple[int, bytes]) -> bool:
    """Whether one of these has been given a session on which it was started: its server is of that ensemble.

    Ask as soon as they are connected: the session's first client takes it back.
    """
    return any((other.zk.client_id or (0,))[0] == session[0] for other in others)


def _is_ensemble(client: AdminClient, cluster_map: ClusterMap, name: str) -> bool:
    with suppress(UnreadableError):
        return is_identity(client.read(ENSEMBLE) or b"", cluster_map, name)
    return False
