"""What a machine lacks: each of it, all of it at once, and nothing begins."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

from matplotlib import font_manager

from bench import ROOT
from bench.hosts.preflight import (
    FONT,
    LEAST_FREE_BYTES,
    SERVER_BYTES,
    TOOLS,
    Lack,
    Machine,
    Needs,
    find_lacks,
    find_lacks_of_host,
    how_to_go_on,
    install,
    packages_of,
)
from bench.lab import LabError
from bench.scenarios.catalogue import PROGRAMS, SCENARIOS, most_servers

GIB = 1 << 30
NEEDS = Needs(emulates=True, memory_bytes=8 * GIB, disk_bytes=GIB, folder=Path("/results"))


class Fake(Machine):
    """One that has everything, but for what a test takes away.

    :param missing: tools.
    :param failing: of each command that fails, a part of it and what it says; it fails so often.
    """

    def __init__(
        self,
        missing: tuple[str, ...] = (),
        failing: dict[str, str] | None = None,
        *,
        system: str = "linux",
        root: bool = True,
        memory_bytes: int = 8 * GIB,
        disk_bytes: int = GIB,
        font: bool = True,
    ) -> None:
        self.missing, self.failing = missing, failing or {}
        self.system, self.root, self.font = system, root, font
        self.memory_bytes, self.disk_bytes = memory_bytes, disk_bytes
        self.ran: list[str] = []

    def is_root(self) -> bool:
        return self.root

    def find(self, tool: str) -> str | None:
        return None if tool in self.missing else f"/usr/sbin/{tool}"

    def fails(self, *command: str) -> str:
        self.ran.append(" ".join(command))
        return next((said for part, said in self.failing.items() if part in self.ran[-1]), "")

    def available_bytes(self) -> int:
        return self.memory_bytes

    def free_bytes(self, folder: Path) -> int:
        return self.disk_bytes

    def has_font(self) -> bool:
        return self.font


class TestLacks(unittest.TestCase):
    def check(self, machine: Fake, *expected: str) -> None:
        self.assertEqual([str(each) for each in find_lacks(NEEDS, machine)], list(expected))

    def test_nothing(self) -> None:
        machine = Fake()
        self.check(machine)
        self.assertEqual(len(machine.ran), 4)  # namespaces, and three things in one

    def test_each_tool(self) -> None:
        for tool, package in TOOLS.items():
            with self.subTest(tool):
                self.check(Fake((tool,)), f"there is no {tool}: apt-get install {package}")

    def test_a_program_of_one_scenario(self) -> None:
        """With its remedy; on loopback too. The other scenarios do not need it."""
        for emulates in (True, False):
            needs = NEEDS._replace(emulates=emulates, programs=PROGRAMS["second-system"])
            (lack,) = find_lacks(needs, Fake(("etcd",)))
            self.assertEqual(str(lack), "there is no etcd: apt-get install etcd-server")
            self.assertEqual(packages_of([lack]), ["etcd-server"])
        self.check(Fake(("etcd",)))

    def test_root(self) -> None:
        machine = Fake(root=False)
        self.check(machine, "emulated hosts need root: put sudo before the command")
        self.assertEqual(machine.ran, [])  # what only root can try

    def test_system(self) -> None:
        self.check(
            Fake(system="darwin", memory_bytes=0),
            "hosts can be emulated on Linux alone: take a Linux machine, or leave --emulate out",
        )

    def test_namespaces(self) -> None:
        machine = Fake(failing={"--mount": "Operation not permitted"})
        self.check(
            machine,
            "root may make no namespaces here (Operation not permitted): in a container: docker run --privileged; "
            "else take a machine of its own",
        )
        self.assertEqual(len(machine.ran), 1)

    def test_kernel(self) -> None:
        for part, name in (
            ("veth", "virtual links"),
            ("tbf", "limits of bandwidth"),
            ("nft", "rules for packets"),
        ):
            with self.subTest(name):
                (lack,) = find_lacks(NEEDS, Fake(failing={part: "no"}))
                self.assertIn(f"the kernel has no {name}", lack.what)
                self.assertIn("(no)", lack.what)

    def test_memory(self) -> None:
        self.check(
            Fake(memory_bytes=3 * GIB),
            "memory: 3.0 GiB is available, 8.0 GiB is needed: end other programs, or take a larger machine",
        )

    def test_disk(self) -> None:
        self.check(
            Fake(disk_bytes=GIB // 2),
            "disk: 0.5 GiB is free at /results, 1.0 GiB is needed: remove something there, or name another folder",
        )

    def test_font(self) -> None:
        self.check(Fake(font=False), "there is no font DejaVu Sans for plots: apt-get install fonts-dejavu-core")

    def test_all_at_once(self) -> None:
        """Each has its line, and what is missing is not tried."""
        machine = Fake(("sshd", "nft", "tc"), {"veth": "no"}, memory_bytes=0, disk_bytes=0, font=False)
        found = [each.what.partition(" (")[0].partition(":")[0] for each in find_lacks(NEEDS, machine)]
        self.assertEqual(
            found,
            [
                *("there is no tc", "there is no nft", "there is no sshd", "the kernel has no virtual links"),
                *("there is no font DejaVu Sans for plots", "memory", "disk"),
            ],
        )
        self.assertFalse([command for command in machine.ran if "tc " in command or "nft " in command])
        self.assertEqual(
            how_to_go_on(find_lacks(NEEDS, machine)),
            "nothing was begun. The packages, all at once: apt-get install iproute2 nftables openssh-server "
            "fonts-dejavu-core, or --install (as root)",
        )

    def test_on_loopback_less_is_needed(self) -> None:
        machine = Fake(tuple(TOOLS), root=False, font=False)
        (lack,) = find_lacks(NEEDS._replace(emulates=False), machine)
        self.assertIn("font", lack.what)

    def test_memory_for_the_largest_shape_of_all(self) -> None:
        self.assertEqual(most_servers([*SCENARIOS], "medium"), 27)
        self.assertEqual(most_servers(["failures"], "medium"), 9)
        self.assertEqual(most_servers(["scaling"], "large"), 60)
        self.assertEqual(most_servers([*SCENARIOS], "full"), 27)
        for size in ("small", "medium", "full"):
            for name in SCENARIOS:
                self.assertGreater(most_servers([name], size), 0, name)


class TestInstall(unittest.TestCase):
    lacks = (Lack("a", "b", ("nftables",)), Lack("c", "d"), Lack("e", "f", ("nftables", "iproute2")))
    COMMAND = "apt-get install -y --no-install-recommends nftables iproute2"

    def install(self, machine: Fake) -> list[str]:
        self.told: list[str] = []
        install(self.lacks, self.told.append, machine)
        return machine.ran

    def test_each_package_once(self) -> None:
        self.assertEqual(self.install(Fake()), [self.COMMAND])
        self.assertEqual(self.told, ["installing nftables, iproute2"])

    def test_with_old_lists(self) -> None:
        """They are fetched, and then it is tried again."""
        machine = Fake(failing={"install": "E: 404"})
        with self.assertRaisesRegex(LabError, "^apt-get install nftables iproute2: E: 404$"):
            self.install(machine)
        self.assertEqual(machine.ran, [self.COMMAND, "apt-get update", self.COMMAND])

    def test_not_here(self) -> None:
        for machine, said in ((Fake(("apt-get",)), "for Debian and Ubuntu"), (Fake(root=False), "needs root")):
            with self.assertRaisesRegex(LabError, said):
                self.install(machine)
            self.assertEqual(machine.ran, [])

    def test_nothing_that_a_package_puts_right(self) -> None:
        machine = Fake(("apt-get",))
        install([Lack("memory", "more")], print, machine)
        self.assertEqual(machine.ran, [])


class TestHosts(unittest.TestCase):
    GOOD: ClassVar[dict[str, Any]] = {
        "unwritable": "",
        "free_bytes": LEAST_FREE_BYTES,
        "available_bytes": SERVER_BYTES,
        "glibc": "2.36",
        "taken_ports": [],
        "server": "",
    }

    def test_each_and_all_at_once(self) -> None:
        changes: dict[str, Any] = {
            "unwritable": "/srv",
            "free_bytes": 112 << 20,
            "available_bytes": 100 << 20,
            "glibc": "",
            "taken_ports": [2181, 2182],
        }
        said = [
            "this user cannot write to /srv: set folder",
            "the disk is full: 112 MB are free, 500 MB are needed: remove something, or set folder",
            f"memory: 100 MB are available, {SERVER_BYTES >> 20} MB are needed: end other programs",
            "it has no glibc (is it Alpine?): the packages are made for that",
            "port 2181, 2182 is taken: end the program that has it, or set zookeeper_port",
        ]
        self.assertEqual(find_lacks_of_host(self.GOOD, 0.0, is_server=True), [])
        for (name, value), expected in zip(changes.items(), said, strict=True):
            found = find_lacks_of_host({**self.GOOD, name: value}, 0.0, is_server=True)
            self.assertEqual([str(each) for each in found], [expected])
        found = find_lacks_of_host({**self.GOOD, **changes}, 3.0, is_server=True)
        late = "its clock is 3.0 s off, and times of hosts are compared: does it run NTP?"
        self.assertEqual([str(each) for each in found], [*said, late])

    def test_memory_is_for_a_server_that_does_not_run_yet(self) -> None:
        short = {**self.GOOD, "available_bytes": 0}
        self.assertEqual(find_lacks_of_host(short, 0.0, is_server=False), [])
        self.assertEqual(find_lacks_of_host({**short, "server": "a1"}, 0.0, is_server=True), [])


class TestHere(unittest.TestCase):
    """The real machine."""

    def test_a_command_that_fails(self) -> None:
        machine = Machine()
        self.assertEqual(machine.fails("true"), "")
        self.assertEqual(machine.fails("sh", "-c", "echo first >&2; echo E: second >&2; exit 1"), "E: second")
        self.assertEqual(machine.fails("sh", "-c", "echo first >&2; echo second >&2; exit 1"), "first")
        self.assertEqual(machine.fails("false"), "status 1")

    def test_what_there_is(self) -> None:
        machine = Machine()
        self.assertTrue(machine.find("sh"))
        self.assertIsNone(machine.find("no-such-tool"))
        self.assertTrue(machine.has_font())  # matplotlib brings it
        self.assertGreater(machine.available_bytes(), 0)
        with tempfile.TemporaryDirectory() as folder:
            self.assertGreater(machine.free_bytes(Path(folder, "not", "yet")), 0)

    def test_a_font_that_came_since(self) -> None:
        own = font_manager.findfont(FONT)
        for there, is_there in (([], False), ([own], True)):
            with (
                mock.patch.object(font_manager.fontManager, "ttflist", []),
                mock.patch.object(font_manager, "findSystemFonts", return_value=there),
            ):
                self.assertEqual(Machine().has_font(), is_there)

    def test_nothing_begins(self) -> None:
        """A user who is not root, and has neither ip nor sshd: both are told, with the folder not even made."""
        program = (
            "import os, sys; from bench.hosts import preflight; from bench.scenarios.__main__ import main\n"
            "os.geteuid() or os.seteuid(65534)\n"
            "preflight.Machine.find = lambda self, tool: None if tool in ('ip', 'sshd') else tool\n"
            "sys.argv = ['x', 'all', '--emulate', '--out', sys.argv[1]]; sys.exit(main())"
        )
        with tempfile.TemporaryDirectory() as folder:
            Path(folder).chmod(0o777)
            ran = subprocess.run(
                [sys.executable, "-c", program, f"{folder}/out"],
                cwd=ROOT,
                capture_output=True,
                text=True,
                check=False,
            )
            self.assertFalse(Path(folder, "out").exists())
        self.assertEqual((ran.returncode, ran.stderr), (1, ""), ran.stdout)
        for said in ("emulated hosts need root", "there is no ip", "there is no sshd", "nothing was begun"):
            self.assertIn(said, ran.stdout)
        self.assertIn("apt-get install iproute2 openssh-server", " ".join(ran.stdout.split()))
