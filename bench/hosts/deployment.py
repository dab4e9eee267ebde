"""Whether hosts can be used, what is brought to them, and what is left when they are cleaned."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.hosts.archives import Store, pack_disk_wait
from bench.hosts.fleet import Fleet, shorten
from bench.hosts.inventory import SERVER, Host
from bench.hosts.preflight import find_lacks_of_host
from bench.hosts.remote import HostError, Remote

LOGS = {SERVER: ("server/zookeeper.log", "server/zoo.cfg"), "": ("load/load.log",)}

About = dict[str, Any]


def probe(fleet: Fleet) -> dict[str, About]:
    """What agent.probe says of each host, and what it cannot know.

    :raises FleetError: a host cannot be used.
    """
    return fleet.each("looking at hosts", _probe)


def _probe(remote: Remote) -> About:
    remote.connect()
    before_s = time.time()
    about: About = remote.ask("probe", remote.host.ports if SERVER in remote.host.roles else [])
    after_s = time.time()
    late_s = max(before_s - about["time_s"], about["time_s"] - after_s, 0.0)
    if lacks := find_lacks_of_host(about, late_s, is_server=SERVER in remote.host.roles):
        raise HostError("; ".join(map(str, lacks)))
    return about


def see_reachable(fleet: Fleet) -> None:
    """
    :raises FleetError: a host does not reach a server by its inside address.
    """
    places = [(host.name, host.inside, host.zookeeper_port) for host in fleet.inventory.having(SERVER)]

    def look(remote: Remote) -> None:
        if missing := remote.ask("find_unreachable", places):
            raise HostError(f"from there {shorten(missing)} cannot be reached: is the inside address right?")

    fleet.each("looking at the network", look)


def deploy(fleet: Fleet, tell: Callable[[str], None]) -> dict[str, About]:
    """Bring what is missing or differs from what is here.

    :returns: as `probe`.
    :raises LabError: a host cannot be used, or something cannot be had.
    """
    about = probe(fleet)
    store = Store(tell)
    is_sampled = not fleet.inventory.emulation  # emulated hosts are seen from outside
    hosts = fleet.inventory.hosts
    archives = {host.name: store.of(host, about[host.name], is_sampled=is_sampled) for host in hosts}

    def bring(remote: Remote) -> None:
        name = remote.host.name
        for each in archives[name]:
            if about[name]["deployed"].get(each.name) != each.stamp:
                remote.ask("unpack", each.name, each.stamp, stdin=each.data)

    fleet.each("deploying", bring)
    return about


def bring_disk_wait(fleet: Fleet) -> None:
    """To each server's host, what makes servers wait for a disk; these hosts are this machine.

    :raises LabError: it cannot be compiled, or not brought.
    """
    archive = pack_disk_wait()
    fleet.each(
        "bringing disks",
        lambda remote: remote.ask("unpack", archive.name, archive.stamp, stdin=archive.data),
        fleet.inventory.having(SERVER),
    )


def collect(fleet: Fleet, folder: Path) -> int:
    """Bring logs home, those that there are.

    :returns: how many.
    """

    def bring(remote: Remote) -> int:
        names = [name for role, logs in LOGS.items() if not role or role in remote.host.roles for name in logs]
        found = remote.ask("find_files", names)
        for name, path in found.items():
            here = folder / remote.host.name / Path(name).name
            here.parent.mkdir(parents=True, exist_ok=True)
            remote.fetch(path, here)
        return len(found)

    return sum(fleet.each("collecting", bring).values())


def clean(fleet: Fleet) -> list[Host]:
    """End what runs and remove all that was brought.

    :returns: the hosts that had something.
    """
    removed = fleet.each("cleaning", lambda remote: remote.ask("clean"))
    return [host for host in fleet.inventory.hosts if removed[host.name]]
