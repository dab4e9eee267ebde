"""bench.hosts.inventory: what is wrong with a file is said in its user's terms, all of it, each with its line."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from bench import ROOT
from bench.hosts.inventory import EXAMPLE, Inventory, InventoryError, read_inventory
from bench.hosts.zookeeper import place
from bench.lab import LabError, Shape
from tests.bench.command import run_module
from tests.entered import entered

GOOD = """\
# machines
user = "ubuntu"

[hosts]
s1 = { address = "192.0.2.11", inside = "10.0.0.11", roles = ["server"] }
s2 = { address = "s2.example.org", roles = ["server"], zookeeper_port = 3181, ssh_port = 2222 }
c1 = { address = "192.0.2.21", roles = ["client", "orchestrator"], user = "debian" }
"""


class TestInventory(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = Path(entered(self, tempfile.TemporaryDirectory()))

    def read(self, text: str) -> Inventory:
        path = self.folder / "hosts.toml"
        path.write_text(text)
        return read_inventory(path)

    def mistakes(self, text: str) -> list[str]:
        with self.assertRaises(InventoryError) as caught:
            self.read(text)
        return [line.replace(f"{self.folder}/", "") for line in str(caught.exception).splitlines()]

    def check(self, old: str, new: str, *expected: str) -> None:
        """GOOD with a text replaced gives just these mistakes."""
        self.assertIn(old, GOOD)
        self.assertEqual(self.mistakes(GOOD.replace(old, new)), [f"hosts.toml{each}" for each in expected])

    def test_good(self) -> None:
        inventory = self.read(GOOD)
        s1, s2, c1 = inventory.hosts
        self.assertEqual(
            (s1.address, s1.inside, s1.login, s1.ports), ("192.0.2.11", "10.0.0.11", "ubuntu", [2181, 2182, 2183])
        )
        self.assertEqual((s2.inside, s2.ssh_port, s2.ports[0]), ("s2.example.org", 2222, 3181))
        self.assertEqual((c1.user, inventory.orchestrator), ("debian", c1))
        self.assertEqual(inventory.having("server"), [s1, s2])

    def test_example(self) -> None:
        """It is good, but for the key, which some users do not have."""
        text = (ROOT / EXAMPLE).read_text()
        inventory = self.read("\n".join(line for line in text.splitlines() if not line.startswith("key")))
        self.assertEqual(len(inventory.having("server")), 3)

    def test_not_there(self) -> None:
        with self.assertRaisesRegex(
            InventoryError, r"^there is no \S+none.toml: copy conf/hosts.example.toml there"
        ):
            read_inventory(self.folder / "none.toml")

    def test_no_toml(self) -> None:
        self.assertRegex(self.mistakes(GOOD.replace("}", ")", 1))[0], r"^hosts.toml: .*line 5")

    def test_words(self) -> None:
        self.check('user = "ub', 'usr = "ub', ':2: there is no setting "usr"; do you mean "user"?')
        self.check(
            'inside = "10', 'insde = "10', ':5: host s1: there is no setting "insde"; do you mean "inside"?'
        )
        self.check(
            's = ["server"], z',
            ' = ["server"], z',
            ':6: host s2: there is no setting "role"; do you mean "roles"?',
        )
        self.check('"server"], z', '"sever"], z', ':6: host s2: there is no role "sever"; do you mean "server"?')
        self.check(
            '["client", "orchestrator"]',
            '"client"',
            ':7: host c1: roles must be a list of some of orchestrator, server, client, not "client"',
        )
        self.check(
            'inside = "10.0.0.11", roles = ["server"] }',
            'inside = "10.0.0.11" }',
            ":5: host s1: roles must be a list of some of orchestrator, server, client",
        )

    def test_values(self) -> None:
        self.check(
            '"192.0.2.11"',
            '"me@192.0.2.11"',
            ':5: host s1: address must be an IP address or a host name, without user or port, not "me@192.0.2.11"',
        )
        self.check(
            '"192.0.2.11"',
            '"192.0.2.111.1"',
            ':5: host s1: address must be an IP address or a host name, without user or port, not "192.0.2.111.1"',
        )
        self.check("2222", "22222222", ":6: host s2: ssh_port must be a port, 22 for instance, not 22222222")
        self.check("3181", "65534", ":6: host s2: zookeeper_port must be a port, 2181 for instance, not 65534")
        self.check("2222", "true", ":6: host s2: ssh_port must be a port, 22 for instance, not true")
        for folder in ("/", "~", "/home", ".."):
            self.check(
                'user = "ubuntu"',
                f'folder = "{folder}"',
                f':2: folder must be a folder of its own, "parkazoo-evaluation" for instance, not "{folder}"',
            )

    def test_places(self) -> None:
        self.check(
            "s1 = { address",
            's1 = "192.0.2.11" #',
            ':5: host s1: it must be a table: { address = "...", roles = ["server"] }',
        )
        self.check(
            "[hosts]",
            '[hosts]\nkey = "k"',
            ":5: key is a setting of all hosts: it has to stand above [hosts]",
        )
        self.check('address = "192.0.2.11", ', "", ':5: host s1: it has no address: address = "192.0.2.11"')
        self.check("[hosts]", "[host]", ':4: there is no setting "host"; do you mean "hosts"?')
        self.assertEqual(
            self.mistakes("user = 'ubuntu'"),
            ["hosts.toml: it names no machines: it needs a table [hosts], as in conf/hosts.example.toml"],
        )

    def test_whole(self) -> None:
        self.check('"192.0.2.21"', '"192.0.2.11"', ":7: host c1: it has the address of s1, 192.0.2.11")
        self.check(', "orchestrator"', "", ": exactly one host must have the role orchestrator, not none")
        self.check(
            'roles = ["server"] }',
            'roles = ["server", "orchestrator"] }',
            ": exactly one host must have the role orchestrator, not s1, c1",
        )
        self.check('"client", ', "", ": at least one host must have the role client, not none")

    def test_keys(self) -> None:
        public = self.folder / "id.pub"
        public.write_text("")
        self.check('user = "ubuntu"', f'key = "{public}"', ":2: id.pub is a public key: name the private one, id")
        self.check('user = "ubuntu"', 'key = "/nowhere/id"', ":2: there is no key /nowhere/id")

    def test_all_at_once(self) -> None:
        text = GOOD.replace("user", "usr", 1).replace("inside", "insde").replace("2222", "0")
        self.assertEqual(
            [line.split(": ")[0] for line in self.mistakes(text)], [f"hosts.toml:{line}" for line in (2, 5, 6)]
        )

    def test_too_few_hosts(self) -> None:
        with self.assertRaisesRegex(LabError, "^3x3 needs 9 hosts with the role server; hosts.toml has 2$"):
            place(Shape.parse("3x3"), self.read(GOOD))

    def test_places_of_servers(self) -> None:
        ensembles = place(Shape.parse("2x1"), self.read(GOOD))
        self.assertEqual([server.name for server in ensembles.servers], ["a1", "b1"])
        self.assertEqual((ensembles.hosts("a"), ensembles.hosts("b")), ("10.0.0.11:2181", "s2.example.org:3181"))


class TestFab(unittest.TestCase):
    """What a user sees: the message on stderr, no traceback, status 1."""

    def fab(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return run_module("fabric", *arguments)

    def test_tasks(self) -> None:
        said = self.fab("--list").stdout
        for name in ("check", "deploy", "ensembles.start", "map.init", "run", "collect", "report", "emulate.up"):
            self.assertIn(f"  {name} ", said)

    def test_mistakes(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "hosts.toml")
            path.write_text(GOOD.replace("address", "adress", 1))
            ran = self.fab("check", "--inventory", str(path))
        lines = [f'{path}:5: host s1: there is no setting "adress"; do you mean "address"?']
        self.assertEqual((ran.returncode, ran.stdout, ran.stderr.splitlines()), (1, "", lines))

    def test_unknown_scenario(self) -> None:
        ran = self.fab("run", "scalin")
        self.assertEqual(
            (ran.returncode, ran.stderr), (1, "there is no scenario 'scalin': do you mean scaling?\n")
        )

    def test_what_is_no_number(self) -> None:
        for arguments, option in (
            (("run", "scaling", "--seed", "x"), "seed"),
            (("sweep", "--seed", "x"), "seed"),
            (("run", "scaling", "--repeat", "x"), "repeat"),
            (("emulate.up", "--hosts", "x"), "hosts"),
        ):
            ran = self.fab(*arguments)
            self.assertEqual((ran.returncode, ran.stderr), (1, f"--{option} is a whole number, not 'x'\n"))

    def test_no_repetition_at_all(self) -> None:
        ran = self.fab("run", "scaling", "--repeat", "0")
        self.assertEqual((ran.returncode, ran.stderr), (1, "--repeat is 0; it must be at least 1\n"))

    def test_emulation_without_root(self) -> None:
        program = "import os; from bench.hosts.emulation import *; os.geteuid() or os.seteuid(65534); "
        program += "print(find_obstacle())"
        ran = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
        self.assertEqual(ran.stdout, "emulated hosts need root: put sudo before the command\n")
