"""Emulated hosts, as long as an evaluation."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from bench.lab import Lab, LabError
from bench.scenarios.catalogue import CLIENTS, PROGRAMS, most_servers

EMULATION = "evaluation"
SERVERS = 27
HOSTS_BYTES = 3 << 29  # of memory: for all hosts and what is brought to them, which takes 1 GiB, and the load
DISK_BYTES = 500 << 20  # for raw results, and packages that are fetched


def see_that_it_can(
    names: Collection[str], size: str, folder: Path, console: Console, *, emulates: bool, installs: bool
) -> None:
    """See, before anything begins, that this machine has all that the scenarios need.

    :param installs: whether packages that are missing are to be installed.
    :raises LabError: it has not. What is missing was printed, all of it.
    """
    from bench.hosts import preflight  # noqa: PLC0415

    memory_bytes = HOSTS_BYTES * emulates + most_servers(names, size) * preflight.SERVER_BYTES
    programs = {program: package for name in names for program, package in PROGRAMS.get(name, {}).items()}
    needs = preflight.Needs(emulates, memory_bytes, DISK_BYTES, folder.absolute(), programs)
    lacks = preflight.find_lacks(needs)
    if installs and lacks:
        preflight.install(lacks, console.print)
        lacks = preflight.find_lacks(needs)
    if lacks:
        console.print(preflight.as_table(lacks))
        raise LabError(preflight.how_to_go_on(lacks))


@contextmanager
def emulated(
    folder: Path,
    console: Console,
    tell: Callable[[str], None],
    servers: int = SERVERS,
    clients: int = CLIENTS,
) -> Iterator[Lab]:
    """Hosts on this machine, as long as the context.

    :param folder: for their inventory.
    :param servers: hosts for so many of them.
    :param clients: hosts that produce load.
    :raises LabError: it is not possible here. The message says what is missing.
    """
    from bench.hosts.emulation import Emulation  # noqa: PLC0415 - Fabric is not needed for loopback
    from bench.hosts.fleet import Fleet  # noqa: PLC0415
    from bench.hosts.host_lab import HostLab  # noqa: PLC0415
    from bench.hosts.inventory import read_inventory  # noqa: PLC0415

    folder.mkdir(parents=True, exist_ok=True)
    inventory = folder / "hosts.toml"
    emulation = Emulation(EMULATION, inventory)
    emulation.up(servers + clients, servers)
    try:
        with Fleet(read_inventory(inventory), console) as fleet:
            yield HostLab(fleet, tell)
    finally:
        emulation.down()
