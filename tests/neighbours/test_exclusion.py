"""Programs in several languages lock each other out from two hosts, while gateways and a server are killed."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

from bench import ROOT
from parkazoo.local import LocalCluster, Machine
from tests.faults.network import NetworkError, network_meanwhile
from tests.live.gateway_process import GatewayProcess
from tests.live.world import wait_until
from tests.neighbours.builds import go_program, java_program, node_program, zkcli_program
from tests.neighbours.neighbour_case import RUN_S, ZOO_CFG, NeighbourTest

TURNS = 5  # of each program, before a kill and after it
CURATOR, GO, NODE, ZKCLI = "curator", "go", "node", "zkcli"
HOSTS = ("h1", "h2")


class TestExclusion(NeighbourTest):
    """Each of two hosts has a gateway on loopback. Where there can be no networks, both are this machine."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.programs = {CURATOR: java_program(), GO: go_program(), NODE: node_program(), ZKCLI: zkcli_program()}
        stack = ExitStack()
        cls.addClassCleanup(stack.close)
        machine_of: Callable[[str], Machine] = lambda _: Machine()  # noqa: E731
        with suppress(NetworkError):
            machine_of = stack.enter_context(network_meanwhile()).machine_of
        cls.hosts = [machine_of(name) for name in HOSTS]
        cls.cluster = stack.enter_context(LocalCluster(3, 1, zoo_cfg=ZOO_CFG, machine_of=machine_of))

    def setUp(self) -> None:
        super().setUp()
        client = self.parkazoo()
        self.directory = f"{self.new_root(client)}/lock"
        client.create(self.directory)
        self.file = self.folder / "turns"
        self.file.touch()

    def test_kills(self) -> None:
        """Curator's InterProcessMutex, go-zookeeper's Lock, and their znodes made by Node and zkCli."""
        one, other = (self.new_gateway(name, host) for name, host in zip(HOSTS, self.hosts, strict=True))
        (server,) = self.cluster.ensembles[self.placement.of_children(self.directory)].servers
        places = {CURATOR: (self.hosts[0], one), ZKCLI: (self.hosts[0], one)}
        places |= {GO: (self.hosts[1], other), NODE: (self.hosts[1], other)}
        running = {name: self.begin(name, *place) for name, place in places.items()}
        self.wait_for_turns(running)
        server.kill()
        server.start()
        self.wait_for_turns(running)
        other.end()
        other.start()
        self.wait_for_turns(running)
        one.end()
        server.kill()
        server.start()
        one.start()
        self.wait_for_turns(running)
        for process in running.values():
            process.communicate(timeout=RUN_S)  # its input ends
        self.assertEqual({name: process.returncode for name, process in running.items()}, dict.fromkeys(places, 0))
        self.judge()

    def begin(self, name: str, machine: Machine, gateway: GatewayProcess) -> subprocess.Popen[bytes]:
        """Start a program that takes the lock again and again, until its input ends."""
        arguments = ["turns", f"127.0.0.1:{gateway.port}", self.directory, str(self.file), name]
        command = [*machine.argv, *self.programs[name], *arguments]
        with self.said(name).open("w") as said:
            process = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.PIPE, stdout=said, stderr=subprocess.STDOUT
            )
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def said(self, name: str) -> Path:
        return self.folder / f"{name}.out"

    def turns(self) -> Counter[str]:
        """How often each has let the lock go."""
        return Counter(line.partition(" ")[0] for line in self.file.read_text().splitlines()[1::2])

    def judge(self) -> None:
        """Whoever has the lock is alone until it lets it go."""
        lines = self.file.read_text().splitlines()
        for entered, left in zip(lines[::2], lines[1::2], strict=False):
            name, _, word = entered.partition(" ")
            self.assertEqual((word, left), ("in", f"{name} out"))

    def wait_for_turns(self, running: dict[str, subprocess.Popen[bytes]]) -> None:
        """Wait until each has had some more."""
        before = self.turns()

        def ended() -> list[str]:
            return [name for name, process in running.items() if process.poll() is not None]

        def have_had() -> bool:
            now = self.turns()
            return bool(ended()) or all(now[name] >= before[name] + TURNS for name in running)

        wait_until(have_had, "each has the lock again and again", RUN_S)
        self.assertEqual({name: self.said(name).read_text() for name in ended()}, {})
        self.judge()
