"""Unequal links: what a file may say, and what is done to the hosts."""

from __future__ import annotations

import tempfile
import unittest
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

from bench.lab import Ensembles, Faults, Matrix, NotPossible, Server, Shape, Way
from bench.loopback import Loopback
from bench.scenarios import topologies
from bench.scenarios.topology import EXAMPLE, Link, TopologyError, applied, read_topology


class RecordingFaults(Faults):
    def __init__(self) -> None:
        super().__init__("this lab")
        self.done: list[tuple[Any, ...]] = []

    def limit(self, host: str, rate_bytes_s: float) -> None:
        self.done.append(("limit", host, rate_bytes_s))

    def limit_processors(self, host: str, count: float) -> None:
        self.done.append(("limit_processors", host, count))

    def delay(self, host: str, ways: Mapping[str, Way]) -> None:
        self.done.append(("delay", host, {**ways}))

    def drop(self, matrix: Matrix, *, one_by_one: bool = False) -> None:
        self.done.append(("drop", {sender: {**row} for sender, row in matrix.items()}))

    def lift(self, host: str) -> None:
        self.done.append(("lift", host))


class TestTopology(unittest.TestCase):
    servers = (Server("a1", "a", "h1", "h1", 2181), Server("a2", "a", "h2", "h2", 2181))
    clients = ("h8", "h9")

    def read(self, text: str) -> dict[str, Link]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "t.json")
            path.write_text(text)
            return read_topology(path)

    def test_read(self) -> None:
        found = self.read('{"a1": {"rate_mbit_s": 2, "delay_ms": 10, "loss": 0.01, "cpu": 0.5}, "a2": {}}')
        self.assertEqual(found, {"a1": Link(250_000, 0.01, 0.01, cpu=0.5), "a2": Link()})
        self.assertEqual(
            [str(each) for each in found.values()], ["2 Mbit/s, 10 ms, 1% lost, 0.5 processors", "as it is"]
        )
        found = self.read('{"a1 to a2": {"delay_ms": 10, "jitter_ms": 2}, "clients to a1": {"loss": 1}}')
        self.assertEqual(found, {"a1 to a2": Link(delay_s=0.01, jitter_s=0.002), "clients to a1": Link(loss=1)})
        self.assertEqual(str(found["a1 to a2"]), "10 ± 2 ms")
        self.assertEqual(list(read_topology(EXAMPLE)), ["a1", "a2", "a3"])

    def test_presets(self) -> None:
        hop = '"delay_ms": 2, "jitter_ms": 1, "loss": 0.5'
        hosts = '"hosts": ["a1", "a2", "a3", "a4", "clients"]'
        ring = self.read(f'{{"preset": "ring", {hosts}, {hop}}}')
        self.assertEqual(len(ring), 20)
        self.assertEqual(ring["a1 to a2"], Link(delay_s=0.002, jitter_s=0.001, loss=0.5))
        self.assertEqual(ring["a1 to a3"], Link(delay_s=0.004, jitter_s=0.002, loss=0.75))
        self.assertEqual(ring["clients to a1"], ring["a1 to clients"])
        self.assertEqual(ring["clients to a1"], ring["a1 to a2"])
        tree = self.read(f'{{"preset": "tree", {hosts}, {hop}}}')  # a1 above a2 and a3, a2 above a4 and clients
        hops = {name: round(link.delay_s / 0.002) for name, link in tree.items()}
        self.assertEqual([hops[f"a4 to {each}"] for each in ("a2", "clients", "a1", "a3")], [1, 2, 2, 3])
        simple = self.read(f'{{"preset": "simple", {hosts}, {hop}}}')
        self.assertEqual({*simple.values()}, {ring["a1 to a2"]})
        wan = self.read('{"preset": "wan", "regions": [["a1", "clients"], ["a2", "a3"]], "delay_ms": 40}')
        self.assertEqual(len(wan), 8)
        self.assertNotIn("a2 to a3", wan)
        self.assertEqual(wan["a3 to clients"], Link(delay_s=0.04))

    def test_mistakes(self) -> None:
        for text, said in (
            ("{", "is no JSON"),
            ("[]", "must be an object of hosts"),
            ('{"a1": 3}', "a1 must be an object with rate_mbit_s, delay_ms, loss, cpu"),
            ('{"a1": {"rate": 1}}', "a1 has no 'rate'; there are rate_mbit_s, delay_ms, loss, cpu"),
            ('{"a1": {"loss": 5}}', "loss of a1 is 5; it must be a share, 0 to 1"),
            ('{"a1": {"rate_mbit_s": "1"}}', "rate_mbit_s of a1 is '1'; it must be a number above 0"),
            ('{"a1": {"delay_ms": Infinity}}', "delay_ms of a1 is inf; it must be a number of at least 0"),
            ('{"a1": {"cpu": 0}}', "cpu of a1 is 0; it must be a number of processors above 0"),
            ('{"a1": {"jitter_ms": 1}}', "a1 has no 'jitter_ms'"),
            (
                '{"a1 to a2": {"cpu": 1}}',
                "a1 to a2 has no 'cpu'; there are rate_mbit_s, delay_ms, jitter_ms, loss",
            ),
            (
                '{"a1 to a2": {"jitter_ms": 1}}',
                "jitter_ms of a1 to a2 is 1; it must be a number of at least 0, and at",
            ),
            ('{"a1 a2": {}}', "'a1 a2' is neither a host"),
            ('{"a1 to a2 to a3": {}}', "'a1 to a2 to a3' is neither a host"),
            ('{"a1 to a1": {}}', "'a1 to a1': what a host sends to itself does not leave it"),
            ('{"preset": "star"}', "there is no preset 'star'; there are simple, ring, tree, wan"),
            (
                '{"preset": "ring", "hosts": ["a1", "a2"]}',
                "the preset ring has no link: it needs some of rate_mbit_s",
            ),
            ('{"preset": "ring", "delay_ms": 1}', "hosts of the preset ring must be a list of hosts"),
            ('{"preset": "wan", "regions": ["a1"], "delay_ms": 1}', "must be a list of lists of hosts"),
            ('{"preset": "ring", "hosts": ["a1"], "delay_ms": 1}', "the preset ring takes at least two hosts"),
            ('{"preset": "wan", "regions": [["a1"], ["a1"]], "delay_ms": 1}', "the preset wan names a host twice"),
        ):
            with self.subTest(text), self.assertRaises(TopologyError) as caught:
                self.read(text)
            self.assertIn(said, str(caught.exception))
            self.assertRegex(str(caught.exception), "^the topology /.*t.json")
        self.assertRaisesRegex(TopologyError, "cannot be read", read_topology, Path("/nowhere.json"))

    def test_applied(self) -> None:
        faults = RecordingFaults()
        with applied(faults, self.servers, self.clients, {"a1": Link(1000.0, cpu=0.5)}):
            self.assertEqual(faults.done, [("limit", "h1", 1000.0), ("limit_processors", "h1", 0.5)])
        self.assertEqual(faults.done[2:], [("lift", "h1")])
        with (
            self.assertRaisesRegex(TopologyError, "names a9; the hosts are a1, a2, clients"),
            applied(faults, self.servers, self.clients, {"a1 to a9": Link()}),
        ):
            self.fail("unreachable")
        with (
            self.assertRaisesRegex(NotPossible, "this lab cannot lose packets"),
            applied(faults, self.servers, self.clients, {"a1": Link(loss=1)}),
        ):
            self.fail("unreachable")

    def test_pairs_applied(self) -> None:
        """A delay of a pair stands in place of the host's, and clients are all of them."""
        faults = RecordingFaults()
        topology = {
            "a1": Link(delay_s=0.1),
            "a1 to a2": Link(5000.0, 0.2, jitter_s=0.05),
            "clients to a2": Link(loss=0.5),
            "clients to clients": Link(delay_s=0.3),
        }
        with applied(faults, self.servers, self.clients, topology):
            self.assertEqual(
                faults.done,
                [
                    ("delay", "h1", {"": Way(0.1), "h2": Way(0.2, 0.05, 5000.0)}),
                    ("delay", "h8", {"h9": Way(0.3)}),
                    ("delay", "h9", {"h8": Way(0.3)}),
                    ("drop", {"h8": {"h2": 0.5}, "h9": {"h2": 0.5}}),
                ],
            )
            faults.done.clear()
        self.assertEqual(faults.done, [("drop", {}), ("lift", "h1"), ("lift", "h8"), ("lift", "h9")])

    def test_networks_of_all_hosts(self) -> None:
        """Each ensemble has its servers in all regions."""
        shape = Shape(2, 3)
        names = [f"{ensemble}{number}" for ensemble in shape.names for number in (1, 2, 3)]
        ensembles = Ensembles(shape, [Server(name, name[0], name, name, 1) for name in names])
        wan = topologies.make_network("wan", Loopback(1), ensembles)
        for one, other in (("a1", "a2"), ("b1", "b3"), ("clients", "b2"), ("a1", "b2")):
            self.assertEqual(wan[f"{one} to {other}"].delay_s, 0.02)
        for one, other in (("a1", "b1"), ("a1", "clients")):
            self.assertNotIn(f"{one} to {other}", wan)
        for preset in topologies.HOPS:
            self.assertEqual(
                {
                    end
                    for name in topologies.make_network(preset, Loopback(1), ensembles)
                    for end in name.split(" to ")
                },
                {*names, "clients"},
            )

    def test_unequal_processors(self) -> None:
        """One server of ensemble a is slow: the leader, or another."""
        ensembles = Ensembles(
            Shape(2, 2), [Server(name, name[0], name, name, 1) for name in ("a1", "a2", "b1", "b2")]
        )
        with mock.patch.object(topologies, "wait_leader", return_value=ensembles.servers[1]):
            made = {each: topologies.make_network(each, Loopback(1), ensembles) for each in topologies.PROCESSORS}
        for network in made.values():
            self.assertEqual([*network], ["a1", "a2", "b1", "b2"])
        slow = [
            [name for name, link in network.items() if link.cpu == topologies.SLOW_SHARE]
            for network in made.values()
        ]
        self.assertEqual(slow, [[], ["a2"], ["a1"]])
