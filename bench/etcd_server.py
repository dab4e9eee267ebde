"""An etcd server: its program, and the command that starts it as ZooKeeper's servers are started here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

PROGRAM, PACKAGE = "etcd", "etcd-server"  # Debian's name
# As ZOO_CFG has it: a leader is heard of twice a second, and given up after four seconds without that.
TIMES = ("--heartbeat-interval=500", "--election-timeout=4000")
QUIET = ("--logger=zap", "--log-outputs=stderr", "--log-level=warn")


class Member(NamedTuple):
    """Where a server of a cluster is.

    :param port: for clients; `peer_port`, for the other servers.
    """

    address: str
    port: int
    peer_port: int


def command_of(name: str, cluster: Mapping[str, Member]) -> list[str]:
    """
    :param cluster: all of its servers by their names; one alone is one too.
    """
    urls = {each: f"http://{member.address}:{member.peer_port}" for each, member in cluster.items()}
    for_clients = f"http://{cluster[name].address}:{cluster[name].port}"
    return [
        PROGRAM,
        f"--name={name}",
        "--data-dir=data",
        f"--listen-client-urls={for_clients}",
        f"--advertise-client-urls={for_clients}",
        f"--listen-peer-urls={urls[name]}",
        f"--initial-advertise-peer-urls={urls[name]}",
        f"--initial-cluster={','.join(f'{each}={url}' for each, url in urls.items())}",
        f"--initial-cluster-token={'-'.join(cluster)}",
        *TIMES,
        *QUIET,
    ]
