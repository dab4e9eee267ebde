"""What a machine lacks for an evaluation: all of it at once, and before anything has begun.

`Machine` looks; `find_lacks` judges what it has seen, so that each judgement has a test on every machine.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from rich.table import Table
from rich.text import Text

from bench.lab import LabError

TOOLS = {
    "ip": "iproute2",
    "tc": "iproute2",
    "bridge": "iproute2",
    "unshare": "util-linux",
    "pivot_root": "util-linux",
    "nft": "nftables",
    "sshd": "openssh-server",
    "ssh-keygen": "openssh-client",
}
SYSTEM_PATH = "/usr/sbin:/sbin:/usr/local/sbin"
FONT, FONT_PACKAGE = "DejaVu Sans", "fonts-dejavu-core"  # matplotlib's own, which some packages leave out
# What emulation.py and links.py do, tried in a network namespace that ends with the command: its tool, and itself.
NAMESPACES = ("unshare", "--net", "--mount", "--pid", "--fork", "true")
IN_A_NAMESPACE = ("unshare", "--net", "sh", "-c")
TRIED = {
    "virtual links (veth, bridge)": (
        "ip",
        "ip link add left type veth peer name right && ip link add middle type bridge",
    ),
    "limits of bandwidth (tbf)": ("tc", "tc qdisc add dev lo root tbf rate 1mbit burst 16384 limit 100000"),
    "rules for packets (nftables)": (
        "nft",
        "nft 'table inet t { chain in { type filter hook input priority 0; "
        "iifname lo numgen random mod 100 < 1 drop; }; }'",
    ),
}
APT = "apt-get"
LEAST_FREE_BYTES = 500 << 20  # of a host's disk
SERVER_BYTES = 192 << 20  # of memory: an idle server takes 80 MB, and its heap may grow to this
CLOCK_TOLERANCE_S = 0.2


class Lack(NamedTuple):
    """
    :param what: is missing.
    :param remedy: a command, or what else is to be done.
    :param packages: of Debian, that put it right.
    """

    what: str
    remedy: str
    packages: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.what}: {self.remedy}"


class Needs(NamedTuple):
    """What is going to be done here.

    :param emulates: hosts.
    :param memory_bytes: that must be available; `disk_bytes`, in `folder`.
    :param programs: beside TOOLS, each with its package.
    """

    emulates: bool
    memory_bytes: int
    disk_bytes: int
    folder: Path
    programs: Mapping[str, str] = MappingProxyType({})


class Machine:
    """This one."""

    system = sys.platform

    def is_root(self) -> bool:
        return os.geteuid() == 0

    def find(self, tool: str) -> str | None:
        return shutil.which(tool, path=f"{os.environ.get('PATH', '')}:{SYSTEM_PATH}")

    def fails(self, *command: str) -> str:
        """The first error that a command tells when it fails; empty if it does not."""
        path = f"{os.environ.get('PATH', '')}:{SYSTEM_PATH}"
        entries = {**os.environ, "PATH": path, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
        ended = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, env=entries
        )
        lines = ended.stderr.strip().splitlines()
        told = [line for line in lines if line.startswith("E: ")] + lines + [f"status {ended.returncode}"]
        return told[0] if ended.returncode else ""

    def available_bytes(self) -> int:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")

    def free_bytes(self, folder: Path) -> int:
        return shutil.disk_usage(next(each for each in (folder, *folder.parents) if each.exists())).free

    def has_font(self) -> bool:
        from matplotlib import font_manager  # noqa: PLC0415 - it takes its time

        def is_known() -> bool:
            known = [each for each in font_manager.fontManager.ttflist if (each.name, each.weight) == (FONT, 400)]
            return any(Path(each.fname).exists() for each in known)

        if not is_known():  # it remembers what there was once
            for path in font_manager.findSystemFonts():
                with contextlib.suppress(OSError, RuntimeError):  # what it cannot read is no font for it
                    font_manager.fontManager.addfont(path)
        return is_known()


def find_lacks(needs: Needs, machine: Machine | None = None) -> list[Lack]:
    """All that is missing. What cannot be looked at because something else is missing is not in it."""
    machine = machine or Machine()
    lacks = find_obstacles(machine) if needs.emulates else []
    lacks += _find_missing(machine, needs.programs)
    if not machine.has_font():
        lacks.append(Lack(f"there is no font {FONT} for plots", install_command([FONT_PACKAGE]), (FONT_PACKAGE,)))
    if machine.system == "linux" and (free := machine.available_bytes()) < needs.memory_bytes:
        what = f"memory: {_gib(free)} is available, {_gib(needs.memory_bytes)} is needed"
        lacks.append(Lack(what, "end other programs, or take a larger machine"))
    if (free := machine.free_bytes(needs.folder)) < needs.disk_bytes:
        what = f"disk: {_gib(free)} is free at {needs.folder}, {_gib(needs.disk_bytes)} is needed"
        lacks.append(Lack(what, "remove something there, or name another folder"))
    return lacks


def find_obstacles(machine: Machine | None = None) -> list[Lack]:
    """Why no hosts can be emulated here."""
    machine = machine or Machine()
    if machine.system != "linux":
        return [Lack("hosts can be emulated on Linux alone", "take a Linux machine, or leave --emulate out")]
    lacks = [] if machine.is_root() else [Lack("emulated hosts need root", "put sudo before the command")]
    lacks += _find_missing(machine, TOOLS)
    missing = [tool for tool in TOOLS if machine.find(tool) is None]
    if machine.is_root() and "unshare" not in missing:
        lacks += _try_namespaces(machine, missing)
    return lacks


def _find_missing(machine: Machine, programs: Mapping[str, str]) -> list[Lack]:
    return [
        Lack(f"there is no {program}", install_command([package]), (package,))
        for program, package in programs.items()
        if machine.find(program) is None
    ]


def _try_namespaces(machine: Machine, missing: Sequence[str]) -> list[Lack]:
    if said := machine.fails(*NAMESPACES):
        what = f"root may make no namespaces here ({said})"
        return [Lack(what, "in a container: docker run --privileged; else take a machine of its own")]
    lacks = []
    for name, (tool, command) in TRIED.items():
        if tool not in missing and (said := machine.fails(*IN_A_NAMESPACE, command)):
            lacks.append(Lack(f"the kernel has no {name} ({said})", "take another kernel, or load its module"))
    return lacks


def find_lacks_of_host(about: Mapping[str, Any], late_s: float, *, is_server: bool) -> list[Lack]:
    """Why a host cannot be used.

    :param about: what agent.probe says of it.
    :param late_s: by how much its clock differs from this machine's, at least.
    """
    lacks = []
    if about["unwritable"]:
        lacks.append(Lack(f"this user cannot write to {about['unwritable']}", "set folder"))
    if (free := about["free_bytes"]) < LEAST_FREE_BYTES:
        what = f"the disk is full: {free >> 20} MB are free, {LEAST_FREE_BYTES >> 20} MB are needed"
        lacks.append(Lack(what, "remove something, or set folder"))
    if is_server and not about["server"] and (free := about["available_bytes"]) < SERVER_BYTES:
        what = f"memory: {free >> 20} MB are available, {SERVER_BYTES >> 20} MB are needed"
        lacks.append(Lack(what, "end other programs"))
    if not about["glibc"]:
        lacks.append(Lack("it has no glibc (is it Alpine?)", "the packages are made for that"))
    if about["taken_ports"]:
        ports = ", ".join(map(str, about["taken_ports"]))
        lacks.append(Lack(f"port {ports} is taken", "end the program that has it, or set zookeeper_port"))
    if late_s > CLOCK_TOLERANCE_S:
        what = f"its clock is {late_s:.1f} s off, and times of hosts are compared"
        lacks.append(Lack(what, "does it run NTP?"))
    return lacks


def _gib(count: int) -> str:
    return f"{count / 2**30:.1f} GiB"


def packages_of(lacks: Iterable[Lack]) -> list[str]:
    return list(dict.fromkeys(package for each in lacks for package in each.packages))


def as_table(lacks: Iterable[Lack]) -> Table:
    table = Table("missing", "to put that right")
    for each in lacks:
        table.add_row(Text(each.what), Text(each.remedy))
    return table


def how_to_go_on(lacks: Iterable[Lack]) -> str:
    """In a line. Nothing has begun."""
    packages = packages_of(lacks)
    if not packages:
        return "nothing was begun"
    return f"nothing was begun. The packages, all at once: {install_command(packages)}, or --install (as root)"


def install_command(packages: Sequence[str]) -> str:
    return f"apt-get install {' '.join(packages)}"


def install(lacks: Sequence[Lack], tell: Callable[[str], None], machine: Machine | None = None) -> None:
    """Install what packages of Debian put right.

    :raises LabError: it is not possible here, or it fails.
    """
    machine = machine or Machine()
    packages = packages_of(lacks)
    if not packages:
        return
    if machine.find(APT) is None:
        raise LabError("there is no apt-get: --install is for Debian and Ubuntu; install these by hand")
    if not machine.is_root():
        raise LabError("--install needs root: put sudo before the command")
    tell(f"installing {', '.join(packages)}")
    command = APT, "install", "-y", "--no-install-recommends", *packages
    if machine.fails(*command):  # its lists may be old, or none
        machine.fails(APT, "update")
        if said := machine.fails(*command):
            raise LabError(f"{install_command(packages)}: {said}")
