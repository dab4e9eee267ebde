"""Hosts on one Linux machine, each with its own network, processes, files and SSH server, driven as real ones are.

A host is a set of namespaces. It has two links: eth0, by which the hosts know each other and which can be limited
and cut (links.py), and eth1 for SSH alone, so that no command waits for a throttled network. Both end at bridges
in a namespace of their own, the switch: in the machine's own one, firewall rules would see their packets. Nothing
is written down that `down` would need: it finds what there is by the names of the network namespaces.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from bench.hosts import processors
from bench.hosts.inventory import CLIENT, EMULATED, ORCHESTRATOR, SERVER
from bench.hosts.namespaces import NAMES, connect, network_of, run, switch_of
from bench.hosts.preflight import Machine, find_obstacles
from bench.lab import QUIET_JVM_FLAGS, LabError

NAME = "parkazoo"
MOST_HOSTS = 200
SERVERS_SHARE = 0.6
STATE = Path("/run/parkazoo-emulated")
BOOT = Path(__file__).with_name("boot.sh")
PYTHON = Path(sys.base_prefix, "bin", "python{}.{}".format(*sys.version_info))
USER = "parkazoo"
DATA, CONTROL = "data", "control"  # bridges
ADDRESS, CONTROL_ADDRESS = "10.77.0.{}", "10.78.0.{}"
MAC = "02:00:00:00:00:{:02x}"  # of eth0
SWITCH_NUMBER = 254
PREFIX = 24
BOOT_TIMEOUT_S = 60.0
SSH_TIMEOUT_S = 1.0
END_TIMEOUT_S = 20.0
POLL_S = 0.05


class Emulation:
    """Emulated hosts: h1, h2, h3, ...

    :param name: of the emulation, letters and digits. There may be several at a time.
    :param inventory: where it is written.
    """

    def __init__(self, name: str = NAME, inventory: Path = EMULATED) -> None:
        self._name = name
        self._inventory = inventory
        self._folder = STATE / name
        self._children: list[subprocess.Popen[bytes]] = []

    def up(self, hosts: int, servers: int | None = None) -> None:
        """Make hosts and their inventory. On failure nothing is left.

        :param servers: how many of them are servers; the others are clients, the first of those the orchestrator.
        :raises LabError: it is not possible here, or there are some already.
        """
        servers = round(hosts * SERVERS_SHARE) if servers is None else servers
        if not 2 <= hosts <= MOST_HOSTS:
            raise LabError(f"there can be 2 to {MOST_HOSTS} emulated hosts, not {hosts}")
        if not 1 <= servers < hosts:
            raise LabError(f"of {hosts} hosts, 1 to {hosts - 1} can be servers, not {servers}")
        if obstacle := find_obstacle():
            raise LabError(obstacle)
        self._claim()
        names = [f"h{number}" for number in range(1, hosts + 1)]
        try:
            self._prepare(names)
            self._wire(names)
            for name in names:
                self._boot(name)
            self._wait_up()
            self._inventory.write_text(self._describe(names, servers))
        except BaseException:
            self.down()
            raise

    def down(self) -> int:
        """End all of it, whatever there is, also of an `up` that was killed.

        :returns: how many hosts there were.
        :raises LabError: this user may not, or a process does not end.
        """
        networks = self._networks()
        if networks and os.geteuid() != 0:
            raise LabError("emulated hosts were made by root: sudo fab emulate.down")
        deadline = time.monotonic() + END_TIMEOUT_S
        while pids := [int(pid) for each in networks for pid in run("ip", "netns", "pids", each).split()]:
            if time.monotonic() > deadline:
                raise LabError(f"a process of an emulated host does not end: {pids[0]}")
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(POLL_S)
        for child in self._children:
            child.wait()
        self._children.clear()
        processors.remove_all(self._name)
        for each in networks:
            run("ip", "netns", "delete", each)
        shutil.rmtree(self._folder, ignore_errors=True)
        with contextlib.suppress(OSError):  # another emulation's is there
            STATE.rmdir()
        if self._inventory.exists() and self._line_of_name in self._inventory.read_text():
            self._inventory.unlink()
        return sum(each != switch_of(self._name) for each in networks)

    @property
    def _line_of_name(self) -> str:
        """In its inventory."""
        return f'emulation = "{self._name}"'

    def _networks(self) -> list[str]:
        prefix = network_of(self._name, "")
        return sorted(path.name for path in NAMES.glob(f"{prefix}*")) if NAMES.exists() else []

    def _claim(self) -> None:
        try:
            STATE.mkdir(mode=0o700, exist_ok=True)
            self._folder.mkdir()
        except FileExistsError:
            of_these = "" if self._name == NAME else f" --name {self._name}"
            raise LabError(f"emulated hosts are up already: fab emulate.down{of_these}") from None

    def _prepare(self, names: list[str]) -> None:
        """What hosts read when they boot."""
        for name in names:
            (self._folder / name).mkdir()
        lines = [f"{ADDRESS.format(number)} {name}" for number, name in enumerate(names, 1)]
        (self._folder / "hosts").write_text("\n".join(["127.0.0.1 localhost", *lines, ""]))
        for key in ("key", "host_key"):
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", self._name, "-f", str(self._folder / key))

    def _wire(self, names: list[str]) -> None:
        switch = switch_of(self._name)
        lines = [f"netns add {each}" for each in (switch, *map(self._network, names))]
        run("ip", "-batch", "-", stdin="\n".join(lines))
        lines = []
        for bridge in (DATA, CONTROL):
            lines += [f"link add {bridge} type bridge", f"link set {bridge} up"]
        lines.append(f"address add {CONTROL_ADDRESS.format(SWITCH_NUMBER)}/{PREFIX} dev {CONTROL}")
        for number, name in enumerate(names, 1):
            peer = f"netns {self._network(name)}"
            lines += [
                f"link add {name} type veth peer name eth0 address {MAC.format(number)} {peer}",
                f"link add {control_port(name)} type veth peer name eth1 {peer}",
                f"link set {name} master {DATA} up",
                f"link set {control_port(name)} master {CONTROL} up",
            ]
        run("ip", "-n", switch, "-batch", "-", stdin="\n".join(lines))
        for number, name in enumerate(names, 1):
            lines = ["link set lo up"]
            for device, address in (("eth0", ADDRESS), ("eth1", CONTROL_ADDRESS)):
                lines.append(f"address add {address.format(number)}/{PREFIX} dev {device}")
                lines.append(f"link set {device} up")
            # Known from the beginning: all namespaces share one table of what was learnt, and fifty hosts fill it.
            lines += [
                f"neighbour add {ADDRESS.format(other)} lladdr {MAC.format(other)} nud permanent dev eth0"
                for other in range(1, len(names) + 1)
                if other != number
            ]
            run("ip", "-n", self._network(name), "-batch", "-", stdin="\n".join(lines))

    def _network(self, host: str) -> str:
        return network_of(self._name, host)

    def _boot(self, name: str) -> None:
        inside = ["ip", "netns", "exec", self._network(name)]
        apart = ["unshare", "--mount", "--uts", "--ipc", "--pid", "--fork", "--mount-proc", "--kill-child"]
        boot = [
            "sh",
            str(BOOT),
            name,
            str(self._folder),
            str(Machine().find("sshd")),
            str(PYTHON),
            sys.base_prefix,
        ]
        with self._log(name).open("wb") as log:
            host = subprocess.Popen(
                [*inside, *apart, *boot],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # it outlives this program
            )
        self._children.append(host)

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def _wait_up(self) -> None:
        deadline = time.monotonic() + BOOT_TIMEOUT_S
        for number, host in enumerate(self._children, 1):
            while not self._has_sshd(CONTROL_ADDRESS.format(number)):
                if host.poll() is not None or time.monotonic() > deadline:
                    said = self._log(f"h{number}").read_text(errors="replace").splitlines()
                    why = said[-1] if said else "no answer"
                    raise LabError(f"the emulated host h{number} does not boot: {why}")
                time.sleep(POLL_S)

    def _has_sshd(self, address: str) -> bool:
        try:
            with connect(switch_of(self._name), address, 22, SSH_TIMEOUT_S) as connection:
                connection.settimeout(SSH_TIMEOUT_S)
                return connection.recv(4) == b"SSH-"
        except OSError:
            return False

    def _describe(self, names: list[str], servers: int) -> str:
        """Its inventory."""
        lines = [
            "# Hosts on this machine, made by fab emulate.up; fab emulate.down removes them, and this file.",
            f"# To look around in one: ip netns exec {switch_of(self._name)} "
            f"ssh -i {self._folder / 'key'} {USER}@{CONTROL_ADDRESS.format(1)}",
            self._line_of_name,
            f'user = "{USER}"',
            f'key = "{self._folder / "key"}"',
            f'python = "{PYTHON}"',
            f"jvm_flags = {json.dumps(QUIET_JVM_FLAGS)}",
            "",
            "[hosts]",
        ]
        for number, name in enumerate(names, 1):
            roles = [SERVER if number <= servers else CLIENT]
            if number == servers + 1:
                roles.append(ORCHESTRATOR)
            address, inside = CONTROL_ADDRESS.format(number), ADDRESS.format(number)
            lines.append(f'{name} = {{ address = "{address}", inside = "{inside}", roles = {json.dumps(roles)} }}')
        return "\n".join([*lines, ""])


def control_port(host: str) -> str:
    """The switch's end of a host's eth1; that of its eth0 has the host's name."""
    return f"{host}-ssh"


def mac_of(host: str) -> str:
    """Of its eth0."""
    return MAC.format(int(host.removeprefix("h")))


def find_obstacle() -> str:
    """Why there can be no emulated hosts here, a line for each reason; empty if there can."""
    return "\n".join(map(str, find_obstacles()))
