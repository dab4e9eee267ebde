"""Six emulated hosts, real SSH, real servers: the tasks of fabfile.py, what goes wrong, what can be done to hosts.

They need root and some tools, as `fab emulate.up` does. No time that is measured decides, but for what must have
been waited for at least.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import unittest
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

from bench import ROOT
from bench.etcd_server import PROGRAM
from bench.hosts import deployment, zookeeper
from bench.hosts.emulation import Emulation
from bench.hosts.fleet import FleetError
from bench.hosts.host_lab import HostLab
from bench.hosts.namespaces import NAMES, inside, network_of
from bench.lab import LabError, Shape, Way
from bench.load.plan import Plan
from bench.load.record import ANSWERED
from bench.load.result import read_result
from bench.sampler import COLUMNS
from bench.scenarios import accounts
from tests.bench.emulated import (
    EMULATION,
    FOLDER,
    HOSTS,
    INVENTORY,
    NAME,
    OBSTACLE,
    Echo,
    EmulatedCase,
    connected,
    is_first,
    left_of,
    pids_of,
    processes_of,
    set_up_module,
    wait,
)

FAB_TIMEOUT_S = 200


def setUpModule() -> None:
    set_up_module(HOSTS)
    if not OBSTACLE:
        with connected() as fleet:
            deployment.deploy(fleet, print)


class TestTasks(EmulatedCase):
    """What a user does, and does wrong."""

    def see_no_server(self) -> None:
        """What was started has been stopped."""
        with connected() as fleet:
            self.assertEqual([host for host, about in zookeeper.find(fleet).items() if about["is_running"]], [])

    def test_check(self) -> None:
        said = self.succeed("check")
        self.assertEqual(len(re.findall(r"10\.78\.0\.\d", said)), HOSTS)
        self.assertIn("6 hosts on 1 machine can be used", said)

    def test_deploy_again(self) -> None:
        """Nothing is brought that is there."""
        with connected() as fleet:
            before = deployment.probe(fleet)
            after = deployment.deploy(fleet, print)
        self.assertEqual(
            [set(each["deployed"]) - {"disk"} for each in before.values()],  # which another test may have brought
            [{"jars"}] * 4 + [{"code", "packages"}] * 2,
        )
        self.assertEqual(
            *(
                [each["deployed"]["jars"] for each in some.values() if "jars" in each["deployed"]]
                for some in (before, after)
            )
        )

    def test_ensembles(self) -> None:
        self.fail_with("no server runs: fab ensembles.start", "map.init")
        self.assertIn(
            "a: 10.77.0.1:2181,10.77.0.2:2181,10.77.0.3:2181", self.succeed("ensembles.start", "--shape", "1x3")
        )
        said = self.succeed("ensembles.status")
        self.assertEqual(sorted(re.findall("leader|follower|down", said)), ["follower", "follower", "leader"])
        self.fail_with(
            r"(h\d: server a\d is running already: fab ensembles.stop\n?){3}", "ensembles.start", "--shape", "1x3"
        )
        for _ in range(2):
            self.assertIn("the map of 1x3 is at 10.77.0.1:2181,", self.succeed("map.init"))
        self.assertIn("3 servers stopped", self.succeed("ensembles.stop"))
        self.assertEqual(len(re.findall("down", self.succeed("ensembles.status"))), 3)
        logs = FOLDER / "logs"
        self.succeed("collect", "--folder", str(logs))
        self.assertIn("LEADING", "".join(path.read_text() for path in logs.glob("h*/zookeeper.log")))
        self.see_no_server()

    def test_busy_port(self) -> None:
        """It is named, and the other servers are stopped."""
        listener = inside(network_of(NAME, "h2"), lambda: socket.create_server(("", 2182)))
        with listener:
            taken = "port 2182 is taken: end the program that has it, or set zookeeper_port"
            self.fail_with(f"h2: {taken}", "check")
            self.fail_with(f"h2: {taken}", "ensembles.start", "--shape", "1x3")
        self.see_no_server()

    def test_interrupted(self) -> None:
        """What was started is stopped."""
        command = [
            sys.executable,
            "-m",
            "fabric",
            "ensembles.start",
            "--shape",
            "1x3",
            "--inventory",
            str(INVENTORY),
        ]
        with subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            wait(lambda: "QuorumPeerMain" in processes_of(network_of(NAME, "h1")))
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=FAB_TIMEOUT_S)
        self.assertEqual((process.returncode, said), (130, "interrupted\n"))
        self.see_no_server()

    def test_hosts_that_cannot_be_used(self) -> None:
        """All are named, each with its reason."""
        key = FOLDER / "stranger"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
        inventory = self.changed(
            {
                r'"10\.78\.0\.1"': '"zk1.invalid"',
                r'"10\.78\.0\.2"': '"10.78.0.99"',
                r"^(h3 = \{)": r"\1 ssh_port = 2222,",
                r"^(h[45] = \{)": rf'\1 key = "{key}",',
                r"^(h6 = \{)": r'\1 python = "python9",',
            }
        )
        status, _, errors = self.fab("check", inventory=inventory)
        lines = errors.splitlines()
        self.assertEqual(
            lines[:4],
            [
                "h1: its address zk1.invalid is not known: is it spelled right?",
                "h2: no answer from 10.78.0.99 port 22: is it up, and is the address right?",
                "h3: 10.78.0.3 port 2222 is refused: does an SSH server run there?",
                f"h4, h5: it refuses the key {key} for user parkazoo",
            ],
        )
        self.assertRegex(lines[4], "^h6: python9 does not work there: .*python9.*not found$")
        self.assertEqual((status, len(lines)), (1, 5))

    def test_full_disk(self) -> None:
        mount = "mkdir -p /home/parkazoo/full && mount -t tmpfs -o size=2m,mode=777 tmpfs /home/parkazoo/full"
        pid = pids_of(network_of(NAME, "h6"))[0]
        subprocess.run(["nsenter", "--mount", "--target", str(pid), "sh", "-c", mount], check=True)
        inventory = self.changed({r"^(h6 = \{)": r'\1 folder = "full/here",'})
        self.fail_with(
            "h6: the disk is full: 2 MB are free, 500 MB are needed: remove something, or set folder",
            "check",
            inventory=inventory,
        )
        self.assertRegex(self.fab("check", inventory=inventory)[1], r"lacks(.|\n)*h5(.|\n)*h6(.|\n)*the disk is")
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w:gz", compresslevel=1) as archive:
            about = tarfile.TarInfo("noise")
            about.size = 4 << 20
            archive.addfile(about, io.BytesIO(os.urandom(about.size)))
        with connected(inventory) as fleet:
            with self.assertRaisesRegex(
                FleetError, "^h6: the disk is full: [0-9]+ MB are free at /home/parkazoo/full/here$"
            ):
                fleet.on("h6", lambda remote: remote.ask("unpack", "noise", "1", stdin=data.getvalue()))
            self.assertEqual(fleet.ask("h6", "probe", [])["deployed"], {"noise": ""})
            self.assertTrue(fleet.ask("h6", "clean"))

    def test_unreachable_inside(self) -> None:
        inventory = self.changed({r'"10\.77\.0\.2"': '"10.77.0.99"'})
        line = r"h1, h2, h3, h4, h5, h6: from there h2 cannot be reached: is the inside address right\?"
        self.fail_with(line, "check", inventory=inventory)


class TestLab(EmulatedCase):
    """The lab of scenarios."""

    @classmethod
    def setUpClass(cls) -> None:
        fleet = connected()
        cls.addClassCleanup(fleet.__exit__, None, None, None)
        cls.lab = HostLab(fleet)
        cls.results = FOLDER / "results"

    def plan(self, hosts: str, **settings: Any) -> dict[str, Any]:
        base = {"name": self._testMethodName, "root": "/bench", "nodes": 2, "warm_up_s": 0.1, "measure_s": 0.5}
        return Plan(hosts=hosts, **{"system": "parkazoo", **base, **settings}).as_json()

    def test_description(self) -> None:
        self.assertEqual((self.lab.clients, self.lab.is_one_machine), (["h5", "h6"], True))
        about = self.lab.describe()
        self.assertEqual(
            (about["kind"], about["hosts"]["h1"], [*about["machines"]]), ("emulated", ["server"], ["h1"])
        )
        before, after = self.lab.processor_times()["h1"], self.lab.processor_times()["h1"]
        self.assertGreater(after.total_s, before.total_s)
        self.assertGreaterEqual(after.busy_s, before.busy_s)

    def test_three_ensembles(self) -> None:
        said = []
        with self.lab.ensembles(Shape.parse("3x1")) as ensembles:
            plans = {
                host: self.plan(ensembles.hosts(), ensembles=3, node=node)
                for node, host in enumerate(["h5", "h6"])
            }
            files = self.lab.run_load(plans, self.results, lambda host, line: said.append((host, line)))
            count = [self.lab.ask(server, "srvr").count("Mode:") for server in ensembles.servers]
        self.assertEqual(count, [1, 1, 1])
        self.assertTrue(all(line.startswith("{") for _, line in said), said)
        for host in ("h5", "h6"):
            self.assertGreater(len(read_result(files[host]).columns["took_ns"]), 0)

    def test_replicas(self) -> None:
        """All servers of an ensemble have the same, here the cluster map; each is read from a client's host."""
        with self.lab.ensembles(Shape.parse("1x3")) as ensembles:
            found = {*self.lab.read_replicas(ensembles.servers, "/parkazoo")}
            ((znodes, digest),) = found
            self.assertGreater(znodes, 1)
            self.assertRegex(digest, "^[0-9a-f]{64}$")
            with self.assertRaisesRegex(LabError, "^h5: 10.77.0.1:2181 cannot be read: NoNodeError"):
                self.lab.read_replicas(ensembles.servers, "/nowhere")

    def test_weights(self) -> None:
        """A server's process, and the card that its clients and the other servers use, not that of SSH."""
        with self.lab.ensembles(Shape.parse("1x3")) as ensembles:
            leader = next(each for each in ensembles.servers if "Mode: leader" in self.lab.ask(each, "srvr"))
            before = self.lab.weigh(leader)
            plan = self.plan(ensembles.hosts(), nodes=1, write="set", size=10_000)
            columns = read_result(self.lab.run_load({"h5": plan}, self.results)["h5"]).columns
            after = self.lab.weigh(leader)
        self.assertGreater(after["memory_bytes"], 10_000_000)  # no Java virtual machine has less
        # to one follower, at least
        written = 10_000 * int((columns["outcome"] == ANSWERED).sum())
        self.assertGreater(after["card_sent_bytes"] - before["card_sent_bytes"], written)
        self.assertGreater(after["card_received_bytes"], before["card_received_bytes"])

    @unittest.skipIf(shutil.which(PROGRAM) is None, f"there is no {PROGRAM} here")
    def test_etcd(self) -> None:
        """A bare socket writes; what the servers use of processors and cards for that is seen."""
        with self.lab.etcd_clusters(Shape.parse("1x3")) as ensembles:
            before = [self.lab.weigh(server) for server in ensembles.servers]
            plan = self.plan(ensembles.hosts(), system="etcd", nodes=1, write="set", size=10_000)
            columns = read_result(self.lab.run_load({"h5": plan}, self.results)["h5"]).columns
            after = [self.lab.weigh(server) for server in ensembles.servers]
        self.assertEqual({*columns["outcome"].tolist()}, {ANSWERED})
        sent = sum(each["card_sent_bytes"] for each in after) - sum(each["card_sent_bytes"] for each in before)
        self.assertGreater(sent, 10_000 * len(columns["outcome"]))  # to one follower, at least
        self.assertGreater(sum(each["cpu_ms"] for each in after), sum(each["cpu_ms"] for each in before))

    def test_no_etcd(self) -> None:
        with (
            mock.patch("bench.etcd_server.PROGRAM", "no-such-program"),
            self.assertRaisesRegex(LabError, "there is no no-such-program: apt-get install etcd-server"),
            self.lab.etcd_clusters(Shape.parse("1x1")),
        ):
            self.fail("unreachable")

    def test_watch(self) -> None:
        """Each host is seen from the switch: its processes, its network card, its files."""
        heard: list[Mapping[str, Any]] = []
        with self.lab.ensembles(Shape.parse("1x1")) as ensembles, self.lab.watch(heard.append, self.fail):
            wait(lambda: heard)
            plan = self.plan(ensembles.hosts(), nodes=1, write="set", size=10_000)
            columns = read_result(self.lab.run_load({"h5": plan}, self.results)["h5"]).columns
            ended = len(heard)
            wait(lambda: len(heard) > ended)
        written = 10_000 * int((columns["outcome"] == ANSWERED).sum())
        first, last = (
            {host: dict(zip(COLUMNS, row, strict=True)) for host, row in each["hosts"].items()}
            for each in (heard[0], heard[-1])
        )
        self.assertEqual({*last}, {f"h{number}" for number in range(1, HOSTS + 1)})
        self.assertGreater(last["h1"]["received_bytes"] - first["h1"]["received_bytes"], written)
        self.assertGreater(last["h5"]["sent_bytes"] - first["h5"]["sent_bytes"], written)
        self.assertGreater(last["h1"]["disk_bytes"] - first["h1"]["disk_bytes"], 0)
        self.assertLess(last["h1"]["disk_bytes"], 1 << 30)  # not those of this machine
        self.assertGreater(last["h1"]["memory_bytes"], last["h2"]["memory_bytes"])
        for host in ("h1", "h5"):
            self.assertGreater(last[host]["cpu_s"], first[host]["cpu_s"])

    def test_settings(self) -> None:
        """Of the servers, over those that all have."""
        with self.lab.ensembles(Shape.parse("1x1"), settings={"tickTime": "700"}) as ensembles:
            self.assertIn("tickTime=700\n", self.lab.ask(ensembles.servers[0], "conf"))

    def test_disk_wait(self) -> None:
        """By the server's own count of what it forces."""
        with self.lab.ensembles(Shape.parse("1x1"), disk_wait_s=0.05) as ensembles:
            (took_ms,) = accounts.force_ms(self.lab, ensembles)
        self.assertGreaterEqual(took_ms, 50)

    def test_failing_load(self) -> None:
        """The other is ended, though it would wait for the first."""
        with self.lab.ensembles(Shape.parse("1x1")) as ensembles:
            hosts = ensembles.hosts()
            plans = {"h5": {**self.plan(hosts), "threads": 0}, "h6": self.plan(hosts, node=1)}
            with self.assertRaisesRegex(LabError, "^h5: bench.load: .*threads is 0; it must be at least 1$"):
                self.lab.run_load(plans, self.results)
        wait(lambda: "bench.load" not in processes_of(network_of(NAME, "h6")))

    def test_faults_of_servers(self) -> None:
        with self.lab.ensembles(Shape.parse("1x1")) as ensembles:
            (server,) = ensembles.servers
            faults = self.lab.faults
            faults.kill(server)
            self.assertEqual(self.lab.ask(server, "srvr"), "")
            with self.assertRaisesRegex(LabError, "^h1: server a1 is not running$"):
                faults.kill(server)
            faults.start(server)
            wait(lambda: "Mode: " in self.lab.ask(server, "srvr"))
            faults.freeze(server)
            self.assertEqual(self.lab.ask(server, "srvr"), "")
            faults.thaw(server)
            wait(lambda: "Mode: " in self.lab.ask(server, "srvr"))
            faults.freeze(server)  # and its end ends it

    def test_faults_are_undone(self) -> None:
        with self.assertRaises(ZeroDivisionError), self.lab.ensembles(Shape.parse("1x1")):
            self.lab.faults.cut_off("h2")
            self.lab.faults.limit("h2", 1000)
            self.lab.faults.delay("h2", {"": Way(10)})
            self.lab.faults.drop({"h1": {"h2": 1}})
            self.lab.faults.limit_processors("h2", 0.5)
            raise ZeroDivisionError
        self.assertTrue(self.is_answered(Echo(NAME)))

    def is_answered(self, echo: Echo) -> bool:
        with echo:
            return bool(echo.ask(20))


class TestEmulation(EmulatedCase):
    """Up and down. That of the class itself stays up meanwhile."""

    def test_second_up(self) -> None:
        with self.assertRaisesRegex(LabError, f"^emulated hosts are up already: fab emulate.down --name {NAME}$"):
            EMULATION.up(HOSTS)
        self.assertIn("6 hosts", self.succeed("check"))

    def test_down(self) -> None:
        name = f"{NAME}down"
        emulation = Emulation(name, FOLDER / "down.toml")
        emulation.up(3, servers=1)
        self.assertNotEqual(left_of(name), [])
        self.assertEqual((emulation.down(), left_of(name), emulation.down()), (3, [], 0))
        self.assertFalse((FOLDER / "down.toml").exists())

    def test_up_was_killed(self) -> None:
        name = f"{NAME}kill"
        path = FOLDER / "kill.toml"
        program = f"from bench.hosts.emulation import *; Emulation({name!r}, Path({str(path)!r})).up(20)"
        with subprocess.Popen([sys.executable, "-c", program], cwd=ROOT) as process:
            wait(lambda: pids_of(network_of(name, "h1")) if (NAMES / network_of(name, "h1")).exists() else [])
            process.kill()
        Emulation(name, path).down()
        self.assertEqual(left_of(name), [])

    def test_up_fails(self) -> None:
        """Nothing is left."""
        name = f"{NAME}fail"
        with self.assertRaisesRegex(FileNotFoundError, "nowhere"):
            Emulation(name, Path("/nowhere/hosts.toml")).up(2)
        self.assertEqual(left_of(name), [])

    def test_numbers(self) -> None:
        emulation = Emulation(f"{NAME}none", FOLDER / "none.toml")
        for hosts, servers_, said in (
            (1, None, "2 to 200 emulated hosts, not 1"),
            (3, 3, "1 to 2 can be servers, not 3"),
        ):
            with self.assertRaisesRegex(LabError, said):
                emulation.up(hosts, servers_)

    def test_no_other_process_is_seen(self) -> None:
        """What a host writes, and its name, are its own."""
        with connected() as fleet:
            fleet.each("", lambda remote: remote.ask("find_files", []))
        (pid,) = (pid for pid in pids_of(network_of(NAME, "h1")) if is_first(pid))
        seen = subprocess.run(
            [
                "nsenter",
                "--target",
                str(pid),
                "--all",
                "sh",
                "-c",
                "hostname; touch /etc/touched; ls /proc | grep -c '^[0-9]'",
            ],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        self.assertEqual(seen[0], "h1")
        self.assertLess(int(seen[1]), 20)
        self.assertNotEqual(socket.gethostname(), "h1")
        self.assertFalse(Path("/etc/touched").exists())
