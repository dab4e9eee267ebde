"""Hosts as real ones are, without root: this machine, by an SSH server of this user's own on loopback."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.hosts.emulation import PYTHON
from bench.hosts.fleet import Fleet, FleetError
from bench.hosts.host_lab import HostLab
from bench.hosts.inventory import read_inventory
from bench.hosts.preflight import SYSTEM_PATH
from bench.lab import LabError, NotPossible, Shape
from bench.load.plan import Plan
from bench.load.result import read_result
from bench.sampler import COLUMNS
from parkazoo.local import HOST, free_ports
from tests.bench.emulated import wait

SSHD = shutil.which("sshd", path=SYSTEM_PATH)
PRIVILEGES = Path("/run/sshd")  # sshd wants that folder when root starts it
WAIT_S = 30


@unittest.skipIf(SSHD is None, "there is no sshd: apt-get install openssh-server")
class TestRealHosts(unittest.TestCase):
    """Two hosts, which are this machine by two ports: a server and a client."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.ssh_ports = free_ports(2)
        cls.start_sshd()
        cls.inventory = cls.folder / "hosts.toml"
        zookeeper = cls.find_zookeeper_port()
        cls.inventory.write_text(
            f'key = "{cls.folder}/key"\n'
            f'python = "{PYTHON}"\n'
            f"zookeeper_port = {zookeeper}\n"
            "[hosts.s1]\n"
            f'address = "{HOST}"\n'
            f"ssh_port = {cls.ssh_ports[0]}\n"
            f'folder = "{cls.folder}/s1"\n'
            'roles = ["server"]\n'
            "[hosts.c1]\n"
            f'address = "{HOST}"\n'
            f"ssh_port = {cls.ssh_ports[1]}\n"
            f'folder = "{cls.folder}/c1"\n'
            'roles = ["client", "orchestrator"]\n'
        )

    @classmethod
    def start_sshd(cls) -> None:
        for name in ("key", "host_key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", cls.folder / name], check=True)
        if os.geteuid() == 0 and not PRIVILEGES.exists():
            PRIVILEGES.mkdir()
            cls.addClassCleanup(PRIVILEGES.rmdir)
        options = {
            "AuthorizedKeysFile": cls.folder / "key.pub",
            "HostKey": cls.folder / "host_key",
            "ListenAddress": HOST,
            "PidFile": "none",
            "StrictModes": "no",
            "UsePAM": "no",
            "Subsystem": "sftp internal-sftp",
        }
        command = [SSHD, "-D", "-e", "-f", "/dev/null"]
        command += [part for port in cls.ssh_ports for part in ("-p", str(port))]
        command += [part for name, value in options.items() for part in ("-o", f"{name}={value}")]
        sshd = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=(cls.folder / "sshd.log").open("wb"))
        cls.addClassCleanup(sshd.wait)
        cls.addClassCleanup(sshd.terminate)
        deadline = time.monotonic() + WAIT_S
        while not all(map(cls.is_answered, cls.ssh_ports)):
            if sshd.poll() is not None or time.monotonic() > deadline:
                raise AssertionError((cls.folder / "sshd.log").read_text())
            time.sleep(0.05)

    @staticmethod
    def is_answered(port: int) -> bool:
        with contextlib.suppress(OSError), socket.create_connection((HOST, port), 1):
            return True
        return False

    @staticmethod
    def find_zookeeper_port() -> int:
        """With two more closed ones behind it."""
        while True:
            (first,) = free_ports(1)
            if not any(map(TestRealHosts.is_answered, (first + 1, first + 2))):
                return first

    def test_lab(self) -> None:
        with Fleet(read_inventory(self.inventory), Console(file=sys.stderr)) as fleet:
            lab = HostLab(fleet)
            self.assertEqual((lab.describe()["kind"], lab.clients, lab.is_one_machine), ("hosts", ["c1"], True))
            with lab.ensembles(Shape.parse("1x1")) as ensembles:
                (server,) = ensembles.servers
                for cannot in (lab.faults.cut_off, lab.faults.join, lab.faults.lift):
                    with self.assertRaisesRegex(
                        NotPossible, "^a lab of real hosts, which does nothing as root, cannot"
                    ):
                        cannot("s1")
                lab.faults.freeze(server)
                lab.faults.thaw(server)
                plan = Plan("parkazoo", ensembles.hosts(), "/bench", "run", warm_up_s=0.1, measure_s=0.5)
                files = lab.run_load({"c1": plan.as_json()}, self.folder / "results")
                self.assertGreater(len(read_result(files["c1"]).columns["took_ns"]), 0)
                self.see_watched(lab)
            self.assertEqual(lab.ask(server, "srvr"), "")
            self.assertEqual(fleet.each("", lambda remote: remote.ask("clean")), {"s1": True, "c1": True})
        self.assertFalse((self.folder / "s1").exists() or (self.folder / "c1").exists())

    def see_watched(self, lab: HostLab) -> None:
        """Each sees itself, until this program has enough."""
        heard: list[Mapping[str, Any]] = []
        with lab.watch(heard.append, self.fail):
            wait(lambda: len({host for each in heard for host in each["hosts"]}) == 2)
        (row,) = heard[0]["hosts"].values()
        self.assertEqual(len(row), len(COLUMNS))

    def test_a_folder_that_is_not_ours(self) -> None:
        precious = self.folder / "s1" / "precious"
        precious.mkdir(parents=True)
        self.addCleanup(shutil.rmtree, self.folder / "s1")
        line = f"^s1: {self.folder}/s1 was not made by fab deploy, so it is left as it is$"
        with Fleet(read_inventory(self.inventory), Console(file=sys.stderr)) as fleet:
            self.assertRaisesRegex(LabError, line, fleet.ask, "s1", "clean")
        self.assertTrue(precious.exists())

    def test_no_ssh_server(self) -> None:
        """Something else listens there, and speaks first."""
        with socket.create_server((HOST, 0)) as other, ThreadPoolExecutor(1) as pool:
            greeted = pool.submit(self.greet, other)
            port = other.getsockname()[1]
            path = self.folder / "other.toml"
            path.write_text(self.inventory.read_text().replace(str(self.ssh_ports[0]), str(port)))
            line = f"^s1: what answers at {HOST} port {port} is no SSH server$"
            with Fleet(read_inventory(path), Console(file=sys.stderr)) as fleet:
                self.assertRaisesRegex(FleetError, line, fleet.ask, "s1", "probe", [])
            greeted.result(WAIT_S).close()

    @staticmethod
    def greet(server: socket.socket) -> socket.socket:
        connection, _ = server.accept()
        connection.sendall(b"220 mail.example.org ESMTP\r\n")
        return connection
