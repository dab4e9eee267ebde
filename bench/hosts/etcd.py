"""etcd servers on hosts, in the place of ZooKeeper's: one on each, cluster by cluster."""

from __future__ import annotations

from bench.etcd_server import PACKAGE, Member, command_of
from bench.hosts import zookeeper
from bench.hosts.fleet import Fleet
from bench.hosts.preflight import install_command
from bench.lab import Ensembles, Shape


def start(fleet: Fleet, shape: Shape) -> Ensembles:
    """Start new, empty clusters, and wait until all serve. On failure, those that were started are stopped.

    :raises LabError: with the reason.
    """
    ensembles = zookeeper.place(shape, fleet.inventory)
    hosts = {host.name: host for host in fleet.inventory.hosts}
    about = {}
    for server in ensembles.servers:
        members = {
            each.name: Member(each.address, *hosts[each.host].ports[:2]) for each in ensembles.of(server.ensemble)
        }
        about[server.host] = {
            **zookeeper.describe(server, hosts[server.host], shape),
            "command": command_of(server.name, members),
            "remedy": install_command([PACKAGE]),
        }
    zookeeper.launch(fleet, ensembles, about, {server.host: {} for server in ensembles.servers})
    return ensembles
