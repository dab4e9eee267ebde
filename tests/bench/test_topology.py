"""Unequal links: what a file may say, and what is done to the hosts."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path
from typing import Any

from bench.lab import Faults, NotPossible, Server
from bench.scenarios.topology import EXAMPLE, Link, TopologyError, applied, read_topology


class RecordingFaults(Faults):
    def __init__(self) -> None:
        super().__init__("this lab")
        self.done: list[tuple[Any, ...]] = []

    def limit(self, host: str, rate_bytes_s: float) -> None:
        self.done.append(("limit", host, rate_bytes_s))

    def lift(self, host: str) -> None:
        self.done.append(("lift", host))


class TestTopology(unittest.TestCase):
    servers = (Server("a1", "a", "h1", "h1", 2181), Server("a2", "a", "h2", "h2", 2181))

    def read(self, text: str) -> dict[str, Link]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "t.json")
            path.write_text(text)
            return read_topology(path)

    def test_read(self) -> None:
        found = self.read('{"a1": {"rate_mbit_s": 2, "delay_ms": 10, "loss": 0.01}, "a2": {}}')
        self.assertEqual(found, {"a1": Link(250_000, 0.01, 0.01), "a2": Link()})
        self.assertEqual([str(each) for each in found.values()], ["2 Mbit/s, 10 ms, 1% lost", "as it is"])
        self.assertEqual(list(read_topology(EXAMPLE)), ["a1", "a2", "a3"])

    def test_mistakes(self) -> None:
        for text, said in (
            ("{", "is no JSON"),
            ("[]", "must be an object of servers"),
            ('{"a1": 3}', "a1 must be an object with rate_mbit_s, delay_ms, loss"),
            ('{"a1": {"rate": 1}}', "a1 has no 'rate'; there are rate_mbit_s, delay_ms, loss"),
            ('{"a1": {"loss": 5}}', "loss of a1 is 5; it must be a share, 0 to 1"),
            ('{"a1": {"rate_mbit_s": "1"}}', "rate_mbit_s of a1 is '1'; it must be a number above 0"),
        ):
            with self.subTest(text), self.assertRaisesRegex(TopologyError, said):
                self.read(text)
        self.assertRaisesRegex(TopologyError, "cannot be read", read_topology, Path("/nowhere.json"))

    def test_applied(self) -> None:
        faults = RecordingFaults()
        with applied(faults, self.servers, {"a1": Link(1000.0)}):
            self.assertEqual(faults.done, [("limit", "h1", 1000.0)])
        self.assertEqual(faults.done[1:], [("lift", "h1")])
        with (
            self.assertRaisesRegex(TopologyError, "names a9; the servers are a1, a2"),
            applied(faults, self.servers, {"a9": Link()}),
        ):
            self.fail("unreachable")
        with (
            self.assertRaisesRegex(NotPossible, "this lab cannot delay packets"),
            applied(faults, self.servers, {"a1": Link(delay_s=1)}),
        ):
            self.fail("unreachable")


if __name__ == "__main__":
    unittest.main()
