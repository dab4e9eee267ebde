"""Whether hosts can be used, what is brought to them, and what is left when they are cleaned."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.hosts.archives import Store
from bench.hosts.fleet import Fleet, shorten
from bench.hosts.inventory import SERVER, Host
from bench.hosts.remote import HostError, Remote

LEAST_FREE_BYTES = 500 << 20
CLOCK_TOLERANCE_S = 0.2
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
    if trouble := find_trouble(about, late_s):
        raise HostError(trouble)
    return about


def find_trouble(about: About, late_s: float) -> str:
    """Why a host cannot be used; empty if it can.

    :param late_s: by how much its clock differs from this machine's, at least.
    """
    if about["unwritable"]:
        return f"this user cannot write to {about['unwritable']}: set folder"
    if about["free_bytes"] < LEAST_FREE_BYTES:
        return f"the disk is full: {about['free_bytes'] >> 20} MB are free, {LEAST_FREE_BYTES >> 20} MB are needed"
    if not about["glibc"]:
        return "it has no glibc (is it Alpine?), and the packages are made for that"
    if about["taken_ports"]:
        ports = ", ".join(map(str, about["taken_ports"]))
        return f"port {ports} is taken: end the program that has it, or set zookeeper_port"
    if late_s > CLOCK_TOLERANCE_S:
        return f"its clock is {late_s:.1f} s off, and times of hosts are compared: does it run NTP?"
    return ""


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
    archives = {host.name: store.of(host, about[host.name]) for host in fleet.inventory.hosts}

    def bring(remote: Remote) -> None:
        name = remote.host.name
        for each in archives[name]:
            if about[name]["deployed"].get(each.name) != each.stamp:
                remote.ask("unpack", each.name, each.stamp, stdin=each.data)

    fleet.each("deploying", bring)
    return about


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
