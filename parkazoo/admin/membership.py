"""Which servers an ensemble says it has, compared with the servers that a map or a command names."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Sequence

from parkazoo.admin.clients import AdminClient
from parkazoo.errors import ClusterMapError
from parkazoo.protocol.cluster_map import format_hosts
from parkazoo.protocol.server_list import CONFIG, Server, ServerList, parse_config, parse_voters


def strangers(
    servers: Iterable[Server], known: Iterable[Server], clients: Iterable[AdminClient]
) -> tuple[list[str], str]:
    """Servers that are not in their ensemble's configuration: they may serve its data, but not vote.

    :param known: all by which clients know the ensemble. If its configuration has none of them, its servers have
        other names for each other, and nothing can be said.
    :param clients: of its servers: the newest configuration counts.
    :returns: some of `servers`, as ``"h:p"``, and what the configuration has instead.
    """
    configs = [config for config in map(read_config, clients) if config is not None]
    if not configs:
        return [], ""
    config = max(configs)
    members = {address for each in config.servers for address in _addresses(each)}
    if not any(members & _addresses(each) for each in known):
        return [], ""
    found = [format_hosts([each]) for each in servers if not members & _addresses(each)]
    return found, format_hosts(config.servers)


def unnamed_voters(known: Sequence[Server], clients: Iterable[AdminClient]) -> list[str]:
    """Voting members of an ensemble that are not among `known`, as ``"h:p"``.

    None if its configuration names none of those: then its servers have other names for each other.
    """
    configs = [config for config in (read_config(each, parse_voters) for each in clients) if config is not None]
    if not configs:
        return []
    addresses = [_addresses(each) for each in known]
    is_known = {each: any(_addresses(each) & those for those in addresses) for each in max(configs).servers}
    return (
        [format_hosts([each]) for each, known in is_known.items() if not known] if any(is_known.values()) else []
    )


def read_config(
    client: AdminClient, parse: Callable[[bytes | None], ServerList | None] = parse_config
) -> ServerList | None:
    """What the ensemble says; None if it does not say it, or not to this client."""
    try:
        return parse(client.read(CONFIG))
    except ClusterMapError:  # it may not be read
        return None


def _addresses(server: Server) -> set[Server]:
    """By name and by IP address."""
    host, port = server
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        found = []
    return {server, *((str(address[0]), port) for *_, address in found)}
