"""Changes the addresses of ensembles in the map."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from parkazoo.admin.clients import TIMEOUT_S, Auth, Options, connect_to, connect_to_all, unreachable
from parkazoo.admin.identity import is_identity, verify_distinct
from parkazoo.admin.membership import strangers
from parkazoo.admin.publish import change_map, verify_identity
from parkazoo.admin.read import read_map
from parkazoo.admin.unconfirmed import UnconfirmedError
from parkazoo.admin.verify import verify_names
from parkazoo.errors import ClusterMapError
from parkazoo.protocol.cluster_map import ClusterMap, format_hosts, parse_hosts
from parkazoo.protocol.placement import ENSEMBLE
from parkazoo.protocol.server_list import CONFIG


def change_hosts(
    hosts: str,
    changes: Mapping[str, str],
    *,
    fewer: bool = False,
    dry_run: bool = False,
    tell: Callable[[str], None] = lambda step: None,
    auth: Auth = (),
    timeout_s: float = TIMEOUT_S,
    **client_options: Any,
) -> ClusterMap:
    """Changes the addresses of ensembles in the map, and nothing else; returns the map.

    Before it writes anything, it verifies that each new server answers and is in its ensemble. Then it brings all
    copies to the present map, publishes the new one, and writes the copies. It may be repeated, interrupted
    anywhere, and run several times at once.

    :param hosts: servers of any ensembles of the cluster, by their old or new addresses.
    :param changes: hosts (``"h:p,h:p"``) by name of the ensemble. Other ensembles keep theirs.
    :param fewer: allow an ensemble to get fewer servers than it has in the map.
    :param dry_run: write nothing; return the map that would be published. It cannot verify that the servers of an
        ensemble share their data, because that takes a write.
    :param tell: called by a dry run with each step that it would take.
    :param auth: identities as ``(scheme, credential)``.
    :param client_options: as for `init_map`.
    :raises UnconfirmedError: an ensemble would have fewer servers, and `fewer` is not set.
    :raises ClusterMapError: a server is not in its ensemble, an ensemble cannot be reached, or a copy cannot be
        written. The message says what to do.
    """
    options = {**client_options, "auth_data": list(auth)}
    known = read_map(hosts, auth=auth, timeout_s=timeout_s, **client_options)

    def change(known: ClusterMap) -> ClusterMap:
        verify_names(changes, known)
        wanted = known.with_hosts(changes)
        for name, servers in wanted.ensembles.items():
            if servers != known.ensembles[name]:
                _verify_servers(known, name, servers, options, timeout_s, dry_run)
        if not fewer and not dry_run and (losses := [*_losses(known, wanted)]):
            raise UnconfirmedError(
                f"{'; '.join(losses)}: while the others are away, clients do not use a server that is left out",
                "fewer",
            )
        return wanted

    if not dry_run:
        return change_map(known, change, options, timeout_s)
    wanted = change(known)
    _tell_changes(known, wanted, options, timeout_s, tell)
    return wanted


def _losses(known: ClusterMap, wanted: ClusterMap) -> Iterator[str]:
    """For each ensemble that would have fewer servers: which would be left out."""
    for name, hosts in wanted.ensembles.items():
        old, new = parse_hosts(known.ensembles[name]), parse_hosts(hosts)
        if len(new) < len(old):
            left_out = format_hosts([server for server in old if server not in new])
            many = "1 server" if len(new) == 1 else f"{len(new)} servers"
            yield f"ensemble {name} would have {many} instead of {len(old)}, without {left_out}"


def _tell_changes(
    known: ClusterMap,
    wanted: ClusterMap,
    options: Options,
    timeout_s: float,
    tell: Callable[[str], None],
) -> None:
    """:raises ClusterMapError: the change would be refused: an ensemble is away."""
    if wanted == known:
        return
    with connect_to(wanted.ensembles, options, timeout_s) as (_, absent):
        if absent:
            raise ClusterMapError(f"the map would not be changed: {unreachable(absent)}")
    for name, hosts in wanted.ensembles.items():
        if hosts != known.ensembles[name]:
            tell(f"would give ensemble {name} {hosts}, instead of {known.ensembles[name]}")
    for loss in _losses(known, wanted):
        tell(f"{loss}: that needs --fewer")
    tell(f"would publish map {wanted.epoch}")


def _verify_servers(
    known: ClusterMap, name: str, hosts: str, options: Options, timeout_s: float, dry_run: bool
) -> None:
    """Each of `hosts` answers, and is in one ensemble with the others and with the map's present servers.

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
        if dry_run:
            return
        verify_distinct(clients, options, timeout_s)
