"""Emulated hosts for tests: their inventory, fab, what is left of them, datagrams between two."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path
from typing import Any

from fabric.main import make_program
from rich.console import Console

from bench import ROOT
from bench.hosts.emulation import STATE, Emulation, find_obstacle
from bench.hosts.fleet import Fleet
from bench.hosts.inventory import read_inventory
from bench.hosts.namespaces import NAMES, inside, network_of

HOSTS = 6
OBSTACLE = find_obstacle()
NAME = f"test{os.getpid()}"
FOLDER = Path(tempfile.mkdtemp())
INVENTORY = FOLDER / "hosts.toml"
EMULATION = Emulation(NAME, INVENTORY)
WAIT_S = 60
SILENCE_S = 0.3
PORT = 7777


def wait(condition: Any) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("not within a minute")
        time.sleep(0.05)


def left_of(name: str) -> list[str]:
    """What there is of an emulation."""
    found = [str(path) for path in NAMES.glob(f"{name}-*")] + [str(path) for path in STATE.glob(name)]
    found += map(str, Path("/sys/fs/cgroup").glob(f"**/{name}-*"))
    mounts = Path("/proc/self/mounts").read_text()
    processes = "\n".join(map(command_line, (int(path.name) for path in Path("/proc").glob("[0-9]*"))))
    return found + re.findall(rf".*\b{name}[-/].*", mounts + processes)


def command_line(pid: int) -> str:
    """Empty if it has ended."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    return ""


def pids_of(network: str) -> list[int]:
    said = subprocess.run(["ip", "netns", "pids", network], capture_output=True, text=True, check=True).stdout
    return [int(pid) for pid in said.split()]


def is_first(pid: int) -> bool:
    """Whether it has the number 1 in its own namespace."""
    with contextlib.suppress(OSError):
        return bool(re.search(r"^NSpid:.*\s1$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE))
    return False


def processes_of(network: str) -> str:
    """Their command lines."""
    return "\n".join(map(command_line, pids_of(network)))


class Echo:
    """Datagrams from h3 to h2, which answers."""

    def __init__(self, name: str) -> None:
        self._address = "10.77.0.2"
        self._far = inside(network_of(name, "h2"), self._socket)
        self._near = inside(network_of(name, "h3"), self._socket)
        self._far.bind((self._address, PORT))
        self._thread = threading.Thread(target=self._answer)
        self._number = 0

    @staticmethod
    def _socket() -> socket.socket:
        return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

    def __enter__(self) -> Echo:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._far.sendto(b"", (self._address, PORT))
        self._thread.join()
        self._far.close()
        self._near.close()

    def _answer(self) -> None:
        while True:
            data, sender = self._far.recvfrom(100)
            if not data:
                return
            self._far.sendto(data, sender)

    def ask_all(self, count: int) -> list[float]:
        """Of those that all come, on a slow machine too."""
        return self.ask(count, WAIT_S / count)

    def ask(self, count: int, timeout_s: float = SILENCE_S) -> list[float]:
        """Seconds until the answers, of those that come."""
        times = []
        for _ in range(count):
            self._number += 1
            asked = str(self._number).encode()
            began_s = time.monotonic()
            self._near.settimeout(timeout_s)
            self._near.sendto(asked, (self._address, PORT))
            with contextlib.suppress(TimeoutError):
                while self._near.recv(100) != asked:
                    pass
                times.append(time.monotonic() - began_s)
        return times


def set_up_module(hosts: int, servers: int | None = None) -> None:
    """For a module with an `EmulatedCase`: hosts as long as its tests run, if there can be any."""
    if not OBSTACLE:
        FOLDER.mkdir(exist_ok=True)
        unittest.addModuleCleanup(shutil.rmtree, FOLDER)
        unittest.addModuleCleanup(EMULATION.down)
        EMULATION.up(hosts, servers)


def connected(inventory: Path = INVENTORY) -> Fleet:
    return Fleet(read_inventory(inventory), Console(file=sys.stderr))


@unittest.skipIf(OBSTACLE, f"no hosts can be emulated here: {OBSTACLE}")
class EmulatedCase(unittest.TestCase):
    """With the hosts of this module."""

    def fab(self, *arguments: str, inventory: Path = INVENTORY) -> tuple[int, str, str]:
        """Status, stdout and stderr, as of the command line; in this process, which has imported everything."""
        command = ["fab", "--search-root", str(ROOT), *arguments, "--inventory", str(inventory)]
        output, errors, status = io.StringIO(), io.StringIO(), 0
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            try:
                make_program().run(command)
            except SystemExit as error:
                status = error.code
        return status, output.getvalue(), errors.getvalue()

    def succeed(self, *arguments: str) -> str:
        status, output, errors = self.fab(*arguments)
        self.assertEqual((status, errors), (0, ""), output)
        return output

    def fail_with(self, pattern: str, *arguments: str, inventory: Path = INVENTORY) -> None:
        """What it says on stderr, and status 1."""
        status, output, errors = self.fab(*arguments, inventory=inventory)
        self.assertRegex(errors, f"^{pattern}\n$")
        self.assertEqual(status, 1, output)

    def changed(self, changes: dict[str, str]) -> Path:
        """Another inventory."""
        path = FOLDER / f"{self._testMethodName}.toml"
        text = INVENTORY.read_text()
        for pattern, new in changes.items():
            text, count = re.subn(pattern, new, text, flags=re.MULTILINE)
            self.assertTrue(count)
        path.write_text(text)
        return path
