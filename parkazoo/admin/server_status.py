"""What servers say of themselves, and how they treat a request."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from parkazoo.admin.clients import AdminClient, Connections, for_each
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.wire.report import words_of
from parkazoo.wire.sizes import DEFAULT_LIMIT

LATENCY = re.compile(r"^Latency min/avg/max: [0-9.]+/([0-9.]+)/([0-9.]+)$", re.MULTILINE)


class ServerStatus(NamedTuple):
    """What a server says of itself, by ``srvr``; None for what it does not say.

    :param trouble: why it does not serve, or says nothing.
    :param role: ``leader``, ``follower``, ``observer``, ``standalone``, ``read-only``.
    :param latency_ms: of the requests since its start: in the mean, and the longest.
    :param connections: of clients, this command's included.
    :param znodes: ParKazoo's own included.
    :param takes_default: whether it takes requests as large as ZooKeeper's default allows; by its doing.
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
    takes_default: bool | None = None


def ask_servers(cluster_map: ClusterMap, connections: Connections) -> Sequence[ServerStatus]:
    """Ask each server of the cluster, in the order of the map."""
    asked = [(server, name, client) for server, (name, client) in connections.servers.items()]
    found = for_each(asked, lambda each: ask(*each))
    found += [
        ServerStatus(name, server, serves=False, trouble=why) for server, (name, why) in connections.failed.items()
    ]
    order = {name: at for at, name in enumerate(cluster_map.names)}
    return sorted(found, key=lambda each: (order[each.ensemble], each.server))


def ask(server: str, ensemble: str, client: AdminClient) -> ServerStatus:
    try:
        said = client.ask("srvr")
    except OSError as error:  # it was lost meanwhile
        return ServerStatus(ensemble, server, serves=False, trouble=words_of(error))
    mode = _line(said, "Mode")
    if mode is None and "whitelist" in said:
        return ServerStatus(ensemble, server, serves=True, trouble="srvr is not in its 4lw.commands.whitelist")
    if mode is None:
        trouble = f"its answer to srvr: {' '.join(said.split())[:80] or 'none'}"
        return ServerStatus(ensemble, server, serves=False, trouble=trouble)
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
        takes_default=client.takes(DEFAULT_LIMIT),
    )


def _line(said: str, name: str) -> str | None:
    found = re.search(rf"^{name}: ([ -~]+)$", said, re.MULTILINE)
    return found[1] if found else None


def _number(said: str, name: str) -> int | None:
    found = _line(said, name)
    return int(found) if found and found.isdecimal() else None
