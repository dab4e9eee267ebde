"""Makes a copy of a cluster's data a cluster of its own, with another id and the addresses of its servers."""

from __future__ import annotations

import json
import socket
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from parkazoo.admin.arguments import arguments_alone
from parkazoo.admin.clients import (
    TIMEOUT_S,
    AdminClient,
    Auth,
    Options,
    connect_to,
    for_each,
    reasons,
    try_each,
    unreachable,
)
from parkazoo.admin.contents import DRAFT, parse_map
from parkazoo.admin.copied import LIMIT_S, know_session
from parkazoo.admin.history import add_to_history
from parkazoo.admin.identity import encode_identity, is_identity, name_of, verify_distinct
from parkazoo.admin.membership import unnamed_voters
from parkazoo.admin.rise import Tell
from parkazoo.admin.unconfirmed import UnconfirmedError
from parkazoo.errors import ClusterMapError
from parkazoo.protocol.cluster_map import ClusterMap, describe_record, format_hosts, no_map_error, parse_hosts
from parkazoo.protocol.placement import CLIENTS, ENSEMBLE, MAP
from parkazoo.protocol.server_list import Server


def give_new_identity(
    ensembles: Mapping[str, str],
    *,
    dry_run: bool = False,
    yes: bool = False,
    tell: Tell = lambda step: None,
    auth: Auth = (),
    timeout_s: float = TIMEOUT_S,
    **client_options: Any,
) -> ClusterMap:
    """Makes a copy of a cluster's data a cluster of its own. Returns its map.

    It changes the given servers alone; the original is only asked whether it answers. One transaction on each
    ensemble gives identity and map a new id, and the map these addresses. The id follows from the old id and the
    addresses, so a call may be interrupted and repeated. After a lost connection some ensembles may have the
    new id; until a repeated call has ended, clients refuse the copy.

    :param ensembles: hosts (``"h:p,h:p"``) of the copy, by name, for each ensemble of the map.
    :param dry_run: verify all but whether each ensemble's servers belong together, and write nothing.
    :param yes: also while the original answers, or if a voting member was not given.
    :param tell: called after each ensemble, with a sentence about it; never, if the map names these servers
        already.
    :param auth: identities as ``(scheme, credential)``.
    :param timeout_s: seconds to wait for the connections, and for each answer.
    :param client_options: as for `init_map`.
    :raises ClusterMapError: the map names one of these servers, they are not a copy of all its ensembles, or one
        is unreachable. The text has the remedy.
    :raises UnconfirmedError: one of these, and `yes` is false.
    """
    given = _verified(ensembles)
    options = {**client_options, "auth_data": list(auth)}
    with connect_to(given, options, timeout_s) as (clients, absent):
        if absent:
            raise ClusterMapError(unreachable(absent))
        maps = {name: _read_map(client) for name, client in clients.items()}
        original, own = _plan(given, maps)
        for client in clients.values():
            _verify_client(client, original, own)
        doubts = [] if original == own else [*_doubts(given, original, clients, options, timeout_s)]
        if dry_run:
            for client in () if original == own else clients.values():
                tell(f"{client} would be of cluster {own.cluster}")
            for each in doubts:
                tell(each)
            return own
        if doubts and not yes:
            raise UnconfirmedError("; ".join(doubts), "yes")
        verify_distinct(clients, options, timeout_s)
        for client in sorted(clients.values(), key=lambda each: each.name == own.bootstrap):
            if _write(client, own):
                tell(f"ensemble {client.name} is of cluster {own.cluster} now")
    return own


def find_copied(
    hosts: str, *, auth: Auth = (), timeout_s: float = TIMEOUT_S, **client_options: Any
) -> dict[str, str]:
    """Returns the servers by the names of their ensembles, as `give_new_identity` takes them.

    :param hosts: of all servers of a copy.
    :raises ClusterMapError: one is unreachable, or is no ensemble's.
    """
    servers = {each: each for each in (format_hosts([server]) for server in parse_hosts(hosts))}
    with connect_to(servers, {**client_options, "auth_data": list(auth)}, timeout_s) as (clients, absent):
        if absent:
            told = ", ".join(for_each(absent, reasons))
            raise ClusterMapError(f"not all servers of the copy answer within {timeout_s:g} s: {told}")
        found: dict[str, list[str]] = {}
        for server, client in clients.items():
            name = name_of(client.read(ENSEMBLE) or b"")
            if not name:
                raise ClusterMapError(f"{client} is no copy of an ensemble: {ENSEMBLE} does not name one there")
            found.setdefault(name, []).append(server)
    return {name: ",".join(each) for name, each in found.items()}


def _doubts(
    given: Mapping[str, str],
    original: ClusterMap,
    clients: Mapping[str, AdminClient],
    options: Options,
    timeout_s: float,
) -> Iterator[str]:
    """What the caller may not know, in the words of an `UnconfirmedError`."""
    if living := _living(original, clients, options, timeout_s):
        yield (
            f"the original, cluster {original.cluster}, still answers at {', '.join(living)}: there would be two "
            "clusters with the same znodes"
        )
    for name, hosts in given.items():
        if left_out := unnamed_voters(parse_hosts(hosts), [clients[name]]):
            yield (
                f"ensemble {name} has voting members that were not given, {', '.join(left_out)}: the new map "
                "would not name them"
            )


def _living(
    original: ClusterMap, clients: Mapping[str, AdminClient], options: Options, timeout_s: float
) -> list[str]:
    """Returns the original's servers that answer as its ensembles.

    :param clients: of the copy.
    :raises ClusterMapError: one of these has its session on the original, by whatever address that was given.
    """

    def look(name: str) -> list[str]:
        hosts = parse_hosts(original.ensembles[name])
        servers = {each: each for each in (format_hosts([server]) for server in hosts)}
        session, within_s = clients[name].zk.client_id, min(timeout_s, LIMIT_S)
        with connect_to(servers, {**options, "client_id": session}, within_s, gives_up=True) as (others, _):
            if session is not None and know_session(others.values(), session):
                raise ClusterMapError(
                    f"{clients[name]} is the original's, by another address, and nothing was changed. Give the "
                    "servers of the copy alone"
                )
            found, _ = try_each(others, lambda other: other.read(ENSEMBLE))
        return [server for server, record in found.items() if is_identity(record or b"", original, name)]

    names = [name for name in original.names if name in clients]
    return [server for each in for_each(names, look) for server in each]


@arguments_alone()
def _verified(ensembles: Mapping[str, str]) -> dict[str, str]:
    return {name: format_hosts(parse_hosts(hosts)) for name, hosts in ensembles.items()}


def _read_map(client: AdminClient) -> ClusterMap | None:
    if client.is_there(DRAFT):
        raise ClusterMapError(f"`parkazoo map init` has not ended on {client}: finish it on the original")
    data = client.read(MAP)
    return None if data is None else parse_map(data, MAP, client.hosts)


def _plan(given: Mapping[str, str], maps: Mapping[str, ClusterMap | None]) -> tuple[ClusterMap, ClusterMap]:
    """Returns the newest map of the original, and the copy's own.

    :raises ClusterMapError: these are not all ensembles of one copy.
    """
    found = [each for each in maps.values() if each is not None]
    if not found:
        raise no_map_error(",".join(given.values()), None)
    ours = [each for each in found if _was_given(each.cluster) and _names(each, given)]
    originals = [each for each in found if each not in ours]
    if not originals:
        return ours[0], ours[0]
    original, newest = (max(each, key=lambda known: known.epoch) for each in (originals, found))
    if given.keys() != newest.ensembles.keys():
        raise ClusterMapError(
            f"the map has the ensembles {', '.join(newest.ensembles)}: give the copy's servers for each of them, "
            f"not for {', '.join(given)}"
        )
    _verify_apart(original, given)
    own = replace(newest, ensembles={name: given[name] for name in newest.ensembles})
    cluster = id_of_copy(original.cluster, own)
    own = replace(own, cluster=cluster)
    if {each.cluster for each in found} - {original.cluster, cluster}:
        told = ", ".join(f"{name}: {each.cluster}" for name, each in maps.items() if each is not None)
        raise ClusterMapError(f"these are of several clusters: {told}")
    return original, own


def id_of_copy(original: str, copy: ClusterMap) -> str:
    """Returns the id that a copy of a cluster gets at its servers."""
    servers = json.dumps({name: sorted(parse_hosts(copy.ensembles[name])) for name in copy.ensembles})
    return uuid.uuid5(uuid.NAMESPACE_OID, f"{original} {servers}").hex


def _was_given(cluster: str) -> bool:
    """Returns whether a copy got this id here: a UUID of version 5. `map init` makes UUIDs of version 4."""
    try:
        return uuid.UUID(cluster).version == 5
    except ValueError:
        return False


def _names(known: ClusterMap, given: Mapping[str, str]) -> bool:
    """Returns whether the map names exactly these servers."""
    sides = [{name: {*parse_hosts(each)} for name, each in side.items()} for side in (known.ensembles, given)]
    return sides[0] == sides[1]


def _verify_apart(original: ClusterMap, given: Mapping[str, str]) -> None:
    """Raises ClusterMapError if a given server is one of the original's, by name or by IP address."""
    named = {each: server for server in _servers(original.ensembles) for each in _spellings(server)}
    for server in _servers(given):
        for each in _spellings(server) & named.keys():
            raise ClusterMapError(
                f"server {format_hosts([server])} is one that the map names, {format_hosts([named[each]])}: it "
                "belongs to the original, and nothing was changed. Give the servers of the copy alone"
            )


def _servers(ensembles: Mapping[str, str]) -> list[Server]:
    return [server for hosts in ensembles.values() for server in parse_hosts(hosts)]


def _spellings(server: Server) -> set[Server]:
    host, port = server
    try:
        infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        infos = []
    return {server, *((str(info[4][0]), port) for info in infos)}


def _verify_client(client: AdminClient, original: ClusterMap, own: ClusterMap) -> None:
    """Raises ClusterMapError if the server lacks the ensemble's data, or if clients work there."""
    record = client.read(ENSEMBLE)
    if record is None:
        raise ClusterMapError(f"{client} is no copy of ensemble {client.name}: {ENSEMBLE} is missing there")
    if not any(is_identity(record, each, client.name) for each in (original, own)):
        raise ClusterMapError(
            f"{client} is {describe_record(record)}, not ensemble {client.name} of {original.cluster}"
        )
    if original != own and (clients := client.children(CLIENTS)):
        raise ClusterMapError(
            f"{len(clients)} sessions are registered on {client}, and nothing was changed. In a copy, those of "
            "the original end within their session timeout: try again then. Otherwise clients are at work there"
        )


def _write(client: AdminClient, own: ClusterMap) -> bool:
    """Writes map and identity in one transaction. Returns False if both are there already."""
    current, record = client.read_with_version(MAP), client.read_with_version(ENSEMBLE)
    assert record is not None
    if current is not None and current[0] == own.to_json() and is_identity(record[0], own, client.name):
        return False
    acls, _ = client.call("get_acls", ENSEMBLE)
    transaction = client.zk.transaction()
    transaction.set_data(ENSEMBLE, encode_identity(own, client.name), record[1])
    if current is None:
        transaction.create(MAP, own.to_json(), acls)
    else:
        transaction.set_data(MAP, own.to_json(), current[1])
        if client.name == own.bootstrap:
            add_to_history(client, transaction, parse_map(current[0], MAP, client.hosts), own)
    if not client.commit(MAP, transaction):
        raise ClusterMapError(f"somebody else is changing {client}: let one command run at a time, and repeat it")
    return True
