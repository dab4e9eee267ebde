"""Free ports of this machine."""

from __future__ import annotations

import random
import socket
from typing import NamedTuple

from parkazoo.local.cluster_error import LocalClusterError

HOST = "127.0.0.1"
# Below every common range of ephemeral ports: a client that tries a server that is down could otherwise be
# given the server's port, and be connected to itself.
PORTS = range(21000, 32000)
PORTS_OF_A_SERVER = 3  # for clients, for followers, for elections


class ServerPorts(NamedTuple):
    """Where a server listens. An ensemble of one needs only `client`."""

    client: int
    quorum: int = 0
    election: int = 0


def free_ports(count: int) -> list[int]:
    """Returns `count` ports of 127.0.0.1 on which no program listens at this moment.

    :raises LocalClusterError: there are not that many.
    """
    held: list[socket.socket] = []
    try:
        for port in random.sample(PORTS, len(PORTS)):
            if len(held) == count:
                break
            candidate = socket.socket()
            try:
                candidate.bind((HOST, port))
            except OSError:
                candidate.close()
            else:
                held.append(candidate)
        if len(held) < count:
            raise LocalClusterError(
                f"only {len(held)} of the {count} ports needed are free on {HOST} "
                f"({PORTS.start} to {PORTS.stop - 1}): stop some of what listens there"
            )
        return [each.getsockname()[1] for each in held]
    finally:
        for each in held:
            each.close()


def choose_ports(ensembles: int, servers: int) -> list[list[ServerPorts]]:
    """Free ports for so many ensembles of so many servers.

    :raises LocalClusterError: if there are not that many.
    """
    each = 1 if servers == 1 else PORTS_OF_A_SERVER
    ports = iter(free_ports(ensembles * servers * each))
    return [[ServerPorts(*(next(ports) for _ in range(each))) for _ in range(servers)] for _ in range(ensembles)]
