"""Which servers an ensemble has, as it says itself at ``/zookeeper/config``, and which of them its clients use.

ZooKeeper's reconfiguration changes its lines:

    server.1=h1:2888:3888:participant;0.0.0.0:2181       its own port for clients, on all of its addresses
    server.2=h2:2888:3888:observer;[2001:db8::2]:2181    or on this one
    server.3=h3:2888:3888|h4:2888:3888:participant;2181  a server with two addresses for the other servers
    version=100000000                                    hexadecimal; it grows with each change
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import NamedTuple

from parkazoo.errors import ClusterMapError
from parkazoo.protocol.cluster_map import format_hosts, parse_hosts

CONFIG = "/zookeeper/config"
Server = tuple[str, int]  # host and port, as parse_hosts returns them
NEVER = -1
ALL_ADDRESSES = ("0.0.0.0", "::")
HOST = r"\[[^\[\]]+\]|[\w.-]+"
PORTS = r"[0-9]+:[0-9]+"
SERVER = re.compile(
    rf"(?P<host>{HOST}):{PORTS}(?:\|(?:{HOST}):{PORTS})*(?::participant|:observer)?"
    rf";(?:(?P<client>{HOST}):)?(?P<port>[0-9]+)"
)
VERSION = re.compile(r"[0-9a-f]{1,16}")


class ServerList(NamedTuple):
    """The servers of an ensemble that its clients use, at least one.

    :param version: of ZooKeeper's configuration that names them; NEVER if the cluster map or the user does.
    """

    version: int
    servers: tuple[Server, ...]


def parse_config(data: bytes | None) -> ServerList | None:
    """What ``/zookeeper/config`` says; None if it does not say where clients connect to each of the servers.

    It does not if it is damaged or empty (a standalone server has no configuration), or if a server's address or
    port for clients is missing: the port may stand in that server's own ``zoo.cfg``.
    """
    try:
        lines = [line.partition("=") for line in (data or b"").decode().splitlines()]
        values = {key.strip(): value.strip() for key, _, value in lines}
        servers = [_parse_server(value) for key, value in values.items() if key.startswith("server.")]
        hosts = parse_hosts(",".join(servers))
    except (ValueError, ClusterMapError):
        return None
    version = VERSION.fullmatch(values.get("version", ""))
    return version and ServerList(int(version[0], 16), hosts)


def parse_voters(data: bytes | None) -> ServerList | None:
    """As :func:`parse_config`, without the observers."""
    return parse_config(b"\n".join(line for line in (data or b"").splitlines() if b":observer" not in line))


def _parse_server(value: str) -> str:
    """Where clients connect to a server, as ``"host:port"``; ValueError if that is not known."""
    match = SERVER.fullmatch(value)
    if match is None:
        raise ValueError(value)
    for host in (match["client"] or "0.0.0.0", match["host"]):
        server = f"{host}:{match['port']}"
        ((address, _),) = parse_hosts(server)
        if address not in ALL_ADDRESSES:
            return server
    raise ValueError(value)


def follow(current: ServerList, config: ServerList | None) -> ServerList:
    """The servers to use from now on: `config`'s, or `current` itself.

    A configuration names servers as they call each other. Clients may not reach them by these names: they may come
    from outside a network of containers, or through NAT. So the first one is taken only if it names one of the
    servers that the client uses by the same host and port: then the clients' names are the servers' names. That
    stays so; each newer one is taken, even if all servers have changed while the client was away.

    An older one comes from a server that lags.
    """
    if config is None or config.version <= current.version:
        return current
    if current.version == NEVER and not {*current.servers} & {*config.servers}:
        return current
    return config


class Servers:
    """Which servers a client uses: as a rule the cluster map's, until an ensemble names its own."""

    def __init__(self) -> None:
        self._in_map: dict[str, str] = {}
        self._used: dict[str, ServerList] = {}
        self._said: dict[str, ServerList] = {}  # by the ensembles, at last

    def hosts(self, name: str, in_map: str) -> str:
        """Of an ensemble, as ``"h:p,h:p"``.

        :param in_map: the cluster map's. If they have changed there, that counts as a new beginning.
        """
        if self._in_map.get(name) != in_map:
            self._in_map[name] = in_map
            self._used[name] = follow(ServerList(NEVER, parse_hosts(in_map)), self._said.get(name))
        return format_hosts(self._used[name].servers)

    def begin(self, name: str, in_map: str, hosts: str) -> None:
        """An ensemble is known by other hosts than the map's: they are used until it or the map names others.

        :raises ClusterMapError: no map could have these.
        """
        self._used[name] = ServerList(NEVER, parse_hosts(hosts))
        self._in_map[name] = in_map

    def spare(self, name: str) -> list[Server]:
        """The others that the map names, for when none of `hosts` can be reached."""
        return [each for each in parse_hosts(self._in_map[name]) if each not in self._used[name].servers]

    def take(self, name: str, config: ServerList | None) -> bool:
        """Take what an ensemble says whose hosts have been asked for. Returns whether it has other servers now."""
        if config is None or (name in self._said and config.version < self._said[name].version):
            return False
        self._said[name] = config
        before = self._used[name]
        used = follow(before, config)
        is_other = {*used.servers} != {*before.servers}
        self._used[name] = used if is_other else ServerList(used.version, before.servers)
        return is_other


def spread(server: Server, old: Collection[Server], new: Collection[Server]) -> dict[Server, float]:
    """Where a client of `server` should be when an ensemble's servers change: the probability of each of `new`.

    If clients are spread evenly over `old`, and each draws its server, they are spread evenly over `new`, and no
    more of them move than must: from servers that leave, and from each that has more than its share now; to those
    that have less, in proportion to what they lack. Those who draw `server` stay.

    :param old: different servers, at least one; so is `new`.
    """
    before, after = 1 / len(old), 1 / len(new)  # a server's share of the clients
    stays = 0.0 if server not in new else min(1.0, after / before) if server in old else 1.0
    lacking = {each: after - (before if each in old else 0.0) for each in new}
    lacking = {each: share for each, share in lacking.items() if share > 0} or dict.fromkeys(new, after)
    total = sum(lacking.values())
    chances = {each: (1 - stays) * share / total for each, share in lacking.items()}
    return {each: chances.get(each, 0.0) + (stays if each == server else 0.0) for each in new}
