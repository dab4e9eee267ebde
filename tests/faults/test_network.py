"""The network of a run: ways that are cut, one of them or both, or lossy; and which ways a fault is of."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import unittest
from contextlib import suppress
from typing import Any

from bench import ROOT
from tests.faults.nemesis import ways_of
from tests.faults.network import CLIENTS, Network, NetworkError, both_ways
from tests.faults.schedule import HEARING_KINDS, MANNERS, Plan

MANY = 200
SILENCE_S = 0.3
ANSWER_TIMEOUT_S = 10.0
TIMEOUT_S = 100
# In a machine: sends back what it hears, and says on stdout how much that has been when its stdin says so.
ECHO = """
import contextlib, selectors, socket, sys
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.bind((sys.argv[1], 7777))
server.setblocking(False)
print(0, flush=True)
ways, heard = selectors.DefaultSelector(), 0
for each in (server, sys.stdin):
    ways.register(each, selectors.EVENT_READ)
while True:
    ready = [key.fileobj for key, _ in ways.select()]
    with contextlib.suppress(BlockingIOError):
        while True:
            data, sender = server.recvfrom(100)
            heard += 1
            server.sendto(data, sender)
    if sys.stdin in ready:
        if not sys.stdin.readline():
            sys.exit()
        print(heard, flush=True)
        heard = 0
"""


class Wire:
    """Datagrams from this process to a machine, and back."""

    def __init__(self, network: Network) -> None:
        self._machine = network.machine_of("a1")
        network.machine_of("a2")
        self._echo = subprocess.Popen(
            [*self._machine.argv, sys.executable, "-c", ECHO, self._machine.address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._asked = 0
        self._read()

    def _read(self) -> int:
        assert self._echo.stdout is not None
        return int(self._echo.stdout.readline())

    def ask(self, count: int = 5, timeout_s: float = ANSWER_TIMEOUT_S) -> tuple[int, int]:
        """How many it has heard, and how many answers have come."""
        answered, first = 0, self._asked
        self._socket.settimeout(timeout_s)
        for number in range(first, first + count):
            self._socket.sendto(str(number).encode(), (self._machine.address, 7777))
            with suppress(TimeoutError):
                while (found := int(self._socket.recv(100))) != number:  # it has come late
                    answered += found >= first
                answered += 1
        self._asked += count
        assert self._echo.stdin is not None
        print(file=self._echo.stdin, flush=True)
        return self._read(), answered

    def end(self) -> None:
        self._echo.communicate()
        self._socket.close()


def main() -> None:
    """In a process of its own, which leaves the machine's networks."""
    found: dict[str, Any] = {}
    try:
        with Network() as network:
            wire = Wire(network)
            found["before"] = wire.ask()
            with network.hushed([(CLIENTS, "a1")]):
                found["mute"] = wire.ask(timeout_s=SILENCE_S)
            with network.hushed([("a1", CLIENTS)]):
                found["deaf"] = wire.ask(timeout_s=SILENCE_S)
            with network.hushed([*both_ways("a1", ["a2"]), ("a2", CLIENTS)]):
                found["others"] = wire.ask()
            if not network.no_loss:
                with network.lossy(both_ways("a1", [CLIENTS, "a2"]), 0.5):
                    found["lossy"] = wire.ask(MANY, 0.02)
                with network.lossy([("a2", "a1")], 0.9):
                    found["lossy elsewhere"] = wire.ask()
            found["after"] = wire.ask()
            wire.end()
    except NetworkError as error:
        found = {"no network": str(error)}
    print(json.dumps(found))


class TestNetwork(unittest.TestCase):
    def test_ways(self) -> None:
        program = "from tests.faults.test_network import main; main()"
        ran = subprocess.run(
            [sys.executable, "-c", program],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        self.assertEqual(ran.returncode, 0, ran.stderr)
        found = json.loads(ran.stdout)
        if why := found.pop("no network", ""):
            self.skipTest(why)
        if lossy := found.pop("lossy", None):
            heard, answered = lossy
            self.assertIn(heard, range(MANY // 4, 3 * MANY // 4))
            self.assertIn(answered, range(heard // 4, 3 * heard // 4))
            self.assertEqual(found.pop("lossy elsewhere"), [5, 5])
        self.assertEqual(
            found, {"before": [5, 5], "mute": [0, 0], "deaf": [5, 0], "others": [5, 5], "after": [5, 5]}
        )


class TestWays(unittest.TestCase):
    def test_each_manner(self) -> None:
        for kind in HEARING_KINDS:
            for manner in MANNERS[kind]:
                for pick in (0.0, 0.99):
                    with self.subTest(kind, manner=manner):
                        ways = ways_of(Plan(kind, manner, 0, pick, 1), "a2", ["a1", "a3"])
                        backwards = {way[::-1] for way in ways}
                        self.assertEqual(len({*ways}), len(ways))
                        self.assertEqual({*ways} & backwards, set() if kind == "one-way cut" else {*ways})
                        self.assertEqual("a2" in {end for way in ways for end in way}, manner != "followers")
                        self.assertEqual(
                            CLIENTS in {end for way in ways for end in way},
                            "clients" in manner or (kind, manner) == ("lossy", "leader"),
                        )
