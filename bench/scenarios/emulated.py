"""Emulated hosts, as long as an evaluation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from bench.lab import Lab

EMULATION = "evaluation"
SERVERS, CLIENTS = 27, 2


@contextmanager
def emulated(folder: Path, console: Console, tell: Callable[[str], None]) -> Iterator[Lab]:
    """Hosts on this machine, as long as the context.

    :param folder: for their inventory.
    :raises LabError: it is not possible here. The message says what is missing.
    """
    from bench.hosts.emulation import Emulation  # noqa: PLC0415 - Fabric is not needed for loopback
    from bench.hosts.fleet import Fleet  # noqa: PLC0415
    from bench.hosts.host_lab import HostLab  # noqa: PLC0415
    from bench.hosts.inventory import read_inventory  # noqa: PLC0415

    folder.mkdir(parents=True, exist_ok=True)
    inventory = folder / "hosts.toml"
    emulation = Emulation(EMULATION, inventory)
    emulation.up(SERVERS + CLIENTS, SERVERS)
    try:
        with Fleet(read_inventory(inventory), console) as fleet:
            yield HostLab(fleet, tell)
    finally:
        emulation.down()
