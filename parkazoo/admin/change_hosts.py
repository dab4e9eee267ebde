"""The addresses of ensembles, changed in the map."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from parkazoo.admin.clients import TIMEOUT_S, Auth, connect_to, connect_to_all, unreachable
from parkazoo.admin.identity import is_identity, verify_distinct
from parkazoo.admin.membership import strangers
from parkazoo.admin.publish import change_map, verify_identity
from parkazoo.admin.read import read_map
from parkazoo.admin.verify import verify_names
from parkazoo.errors import ClusterMapError
from parkazoo.protocol.cluster_map import ClusterMap, format_hosts, parse_hosts
from parkazoo.protocol.placement import ENSEMBLE
from parkazoo.protocol.server_list import CONFIG


def change_hosts(
    hosts: str,
    changes: Mapping[str, str],
    *,
    auth: Auth = (),
    timeout_s: float = TIMEOUT_S,
    **client_options: Any,
) -> ClusterMap:
    """Change the addresses of ensembles in the map, and nothing else; return the map.

    Before it writes anything, it verifies that each new server answers and is in that very ensemble. Then all
    copies get the present map, the new one is published with the next epoch, and the copies get that. It may be
    repeated, interrupted anywhere, and run by several at once.

    :param hosts: servers of any ensembles of the cluster, by their old or new addresses.
    :param changes: hosts (``"h:p,h:p"``) by name of the ensemble. An ensemble that is not named keeps its own.
    :param auth: identities as ``(scheme, credential)``.
    :param client_options: as for `init_map`.
    :raises ClusterMapError: a server is not as it must be, an ensemble cannot be reached, or a copy cannot be
        written. It says what to do.
    """
    options = {**client_options, "auth_data": list(auth)}
    known = read_map(hosts, auth=auth, timeout_s=timeout_s, **client_options)

    def change(known: ClusterMap) -> ClusterMap:
        verify_names(changes, known)
        wanted = known.with_hosts(changes)
        for name, servers in wanted.ensembles.items():
            if servers != known.ensembles[name]:
                _verify_servers(known, name, servers, options, timeout_s)
        return wanted

    return change_map(known, change, options, timeout_s)


def _verify_servers(
    known: ClusterMap, name: str, hosts: str, options: Mapping[str, Any], timeout_s: float
) -> None:
    """Each of `hosts` answers, and is in one ensemble with the others and with those that the map names now.

    Of these, only those count that say that they are this ensemble: another one may have got an old address.
    """
    new = [format_hosts([server]) for server in parse_hosts(hosts)]
    old = [format_hosts([server]) for server in parse_hosts(known.ensembles[name])]
    both = ",".join(dict.fromkeys([*new, *old]))
    with connect_to_all({name: both}, options, timeout_s, has_ensembles=False) as connections:
        servers = {server: client for server, (_, client) in connections.servers.items()}
        for server in new:
            if server not in servers:
                raise ClusterMapError(
                    f"server {server} does not answer as one of ensemble {name}: {connections.failed[server][1]}. "
                    "Start it, correct its address, or leave it out until it runs"
                )
            verify_identity(servers[server], known, name)
        members = [
            server
            for server, client in servers.items()
            if server in new or is_identity(client.read(ENSEMBLE) or b"", known, name)
        ]
        asked = [servers[each] for each in members]
        outside, inside = strangers(parse_hosts(hosts), parse_hosts(both), asked)
        if len(outside) == len(new):
            raise ClusterMapError(
                f"{hosts} are no members of ensemble {name}: {CONFIG} has {inside}. They may serve its data, but "
                "not without the others: add them by ZooKeeper's reconfiguration first"
            )
    with connect_to({name: ",".join(members)}, options, timeout_s) as (clients, absent):
        if absent:
            raise ClusterMapError(unreachable(absent))
        verify_distinct(clients, options, timeout_s)
