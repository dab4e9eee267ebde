"""The chaos matrix: what a file may say, presets, and packets between emulated hosts that are dropped."""

from __future__ import annotations

import json
import tempfile
import unittest
from itertools import product
from pathlib import Path
from typing import Any

from bench import ROOT
from bench.chaos import ChaosError, bridge, crash, flap, one_way, read_matrix, read_pair, uniform
from bench.hosts.dropping import Dropping
from bench.hosts.faults import EmulatedFaults
from bench.hosts.host_lab import HostLab
from bench.hosts.namespaces import network_of, run
from bench.lab import Faults, NotPossible
from bench.loopback import LoopbackFaults
from bench.scenarios.catalogue import run_scenario
from bench.scenarios.dropped_packets import ALL, LEADERS
from bench.scenarios.results import show
from bench.scenarios.summary import latency_s
from tests.bench.emulated import FOLDER, NAME, SILENCE_S, Echo, EmulatedCase, connected, set_up_module
from tests.entered import entered

HOSTS = ("h1", "h2", "h3", "h4", "h5")
MANY = 200


def setUpModule() -> None:
    set_up_module(4, servers=3)


def rules(host: str) -> str:
    """Of what the host drops; empty if there are none."""
    return run("ip", "netns", "exec", network_of(NAME, host), "nft", "list", "ruleset")


def batched(runs: list[dict[str, Any]]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Two at a time."""
    return [*zip(runs[::2], runs[1::2], strict=True)]


class TestMatrix(unittest.TestCase):
    def read(self, text: str, ending: str = "toml") -> object:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, f"m.{ending}")
            path.write_text(text)
            return read_matrix(path, HOSTS)

    def test_read(self) -> None:
        expected = {"h1": {"h2": 0.5, "h3": 1.0}, "h2": {}}
        self.assertEqual(self.read("[h1]\nh2 = 0.5\nh3 = 1\n[h2]\n"), expected)
        self.assertEqual(self.read('{"h1": {"h2": 0.5, "h3": 1}, "h2": {}}', "json"), expected)
        example = read_matrix(ROOT / "conf" / "chaos.example.toml", HOSTS)
        self.assertEqual(example, {"h1": {"h2": 0.1, "h3": 1.0}, "h2": {"h1": 0.1}})

    def test_presets(self) -> None:
        self.assertEqual(one_way(HOSTS[:2]), {"h1": {"h2": 1}})
        self.assertEqual(
            crash(HOSTS[:3], 0.5), {"h1": {"h2": 0.5, "h3": 0.5}, "h2": {"h1": 0.5}, "h3": {"h1": 0.5}}
        )
        of_bridge = bridge(HOSTS)
        self.assertEqual(of_bridge["h1"], {"h4": 1, "h5": 1})
        self.assertEqual(of_bridge["h5"], {"h1": 1, "h2": 1})
        self.assertNotIn("h3", of_bridge)
        self.assertEqual({each: {*row} for each, row in uniform("ab").items()}, {"a": {"b"}, "b": {"a"}})
        text = 'preset = "{}"\nhosts = ["h1", "h2"]\n'
        self.assertEqual(self.read(text.format("partial")), {"h1": {"h2": 1}, "h2": {"h1": 1}})
        self.assertEqual(self.read(text.format("uniform") + "p = 0.25"), {"h1": {"h2": 0.25}, "h2": {"h1": 0.25}})

    def test_mistakes(self) -> None:
        hosts = 'hosts = ["h1", "h2"]\n'
        for text, said in (
            ("[h1", "is no TOML: "),
            ("", "names no pair of hosts: to have no chaos any more, fab chaos.clear"),
            ("[h1]", "names no pair of hosts"),
            ("h1 = 3", "h1 must be a table of its receivers, not 3"),
            ("[h11]\nh2 = 1", "there is no host 'h11'; do you mean h1?"),
            ("[h1]\nzz = 1", "there is no host 'zz'; there are h1, h2, h3, h4, h5"),
            ("[h1]\nh1 = 1", "what h1 sends to itself does not leave it, and cannot be dropped"),
            ("[h1]\nh2 = 1.5", "h1 to h2 is 1.5; it must be a probability, 0 to 1"),
            ("[h1]\nh2 = -0.1", "h1 to h2 is -0.1; it must be"),
            ("[h1]\nh2 = nan", "h1 to h2 is nan; it must be"),
            ("[h1]\nh2 = true", "h1 to h2 is True; it must be"),
            ("[h1]\nh2 = '1'", "h1 to h2 is '1'; it must be"),
            ("[h1]\nh2 = 1\nh2 = 0", "is no TOML: "),
            ('preset = "brige"\n' + hosts, "there is no preset 'brige'; do you mean bridge?"),
            ('preset = "partial"\n', "hosts must be a list of names of hosts"),
            ('preset = "partial"\nhosts = ["h1", 2]', "hosts must be a list of names of hosts"),
            ('preset = "partial"\nhosts = ["h1"]', "the preset partial takes two hosts, not 1"),
            (
                'preset = "bridge"\n' + hosts,
                "the preset bridge takes an odd number of hosts, from three on, not 2",
            ),
            ('preset = "crash"\nhosts = ["h1", "h1"]', "hosts names h1 twice"),
            ('preset = "crash"\nhosts = ["h1", "h9"]', "there is no host 'h9'"),
            ('preset = "uniform"\np = 2\n' + hosts, "p is 2; it must be a probability, 0 to 1"),
            ('preset = "uniform"\nq = 1\n' + hosts, "a preset has no 'q'; it has preset, hosts, p"),
        ):
            with self.subTest(text), self.assertRaises(ChaosError) as caught:
                self.read(text)
            self.assertRegex(str(caught.exception), "^the chaos matrix /.*/m.toml(:| is no| names no) ")
            self.assertIn(said, str(caught.exception))
        for text, said in (
            ("{", "is no JSON: "),
            ("[]", r"must be an object of senders, not \[\]"),
            ('{"h1": {"h2": 1, "h2": 0}}', ": h2 is there twice"),
            ('{"h1": {"h2": Infinity}}', "h1 to h2 is inf; it must be"),
        ):
            with self.subTest(text), self.assertRaisesRegex(ChaosError, said):
                self.read(text, "json")
        with self.assertRaisesRegex(ChaosError, "/nowhere.toml cannot be read: No such file"):
            read_matrix(Path("/nowhere.toml"), HOSTS)

    def test_pair(self) -> None:
        self.assertEqual(read_pair("h1", "h2", "1e-2", HOSTS), 0.01)
        for pair, said in (
            (("h1", "h2", "often"), "^h1 to h2 is 'often'; it must be a probability, 0 to 1$"),
            (("h1", "h2", "nan"), "^h1 to h2 is nan; "),
            (("h0", "h2", "1"), "^there is no host 'h0'; there are h1, h2, h3, h4, h5$"),
        ):
            with self.subTest(pair), self.assertRaisesRegex(ChaosError, said):
                read_pair(*pair, HOSTS)

    def test_flap(self) -> None:
        """Ended as often as begun, and when the second beginning fails."""
        done: list[str] = []

        def begin() -> None:
            done.append("begin")
            if len(done) > 2:
                raise ZeroDivisionError

        with self.assertRaises(ZeroDivisionError):
            flap(begin, lambda: done.append("end"), 0.001, 60)
        self.assertEqual(done, ["begin", "end"] * 2)

    def test_a_lab_that_cannot(self) -> None:
        for faults in (LoopbackFaults(), Faults("this lab")):
            with self.assertRaisesRegex(NotPossible, "cannot drop packets between two hosts"):
                faults.drop({})
            with self.assertRaisesRegex(NotPossible, "cannot drop packets between two hosts"):
                faults.drop_between("a", "b", 1)
            with self.assertRaisesRegex(NotPossible, "cannot drop packets between two hosts"):
                len(faults.hosts)


class TestDropping(EmulatedCase):
    """Datagrams from h3 to h2, and their answers."""

    def setUp(self) -> None:
        fleet = connected()
        self.addCleanup(fleet.__exit__, None, None, None)
        self.faults = EmulatedFaults(fleet, NAME)
        self.dropping = Dropping(NAME, {f"h{number}": f"10.77.0.{number}" for number in range(1, 5)})
        self.addCleanup(self.dropping.clear)
        self.echo = entered(self, Echo(NAME))

    def answered(self, count: int = 2, timeout_s: float = SILENCE_S) -> int:
        return len(self.echo.ask(count, timeout_s))

    def answered_of_20(self) -> int:
        return len(self.echo.ask_all(20))

    def test_only_that_way(self) -> None:
        """A cut of what others send, or of others, takes nothing from these two."""
        self.assertEqual(self.faults.hosts, ["h1", "h2", "h3", "h4"])
        for matrix in ({"h1": {"h2": 1}}, {"h3": {"h1": 1, "h4": 1}}, {"h3": {"h2": 0}}):
            self.faults.drop(matrix)
            self.assertEqual(self.answered_of_20(), 20, matrix)
        for matrix in ({"h3": {"h2": 1}}, {"h2": {"h3": 1}}):
            self.faults.drop(matrix)
            self.assertEqual(self.answered(), 0, matrix)
        self.faults.drop({})
        self.assertEqual(self.answered_of_20(), 20)

    def test_one_way(self) -> None:
        """h2 hears h3, which does not hear it."""
        self.faults.drop(one_way(["h2", "h3"]))
        self.assertEqual(self.answered(), 0)
        self.assertIn("10.77.0.2", rules("h3"))
        self.assertNotIn("packets 0 ", rules("h3"))
        self.assertEqual(rules("h2"), "")

    def test_share(self) -> None:
        self.faults.drop({"h3": {"h2": 0.5}})
        self.assertIn(self.answered(MANY, 0.05), range(MANY // 4, 3 * MANY // 4))

    def test_live(self) -> None:
        """One probability is changed, others stay."""
        self.faults.drop({"h1": {"h2": 1}, "h3": {"h2": 1}})
        self.assertEqual(self.answered(), 0)
        self.faults.drop_between("h3", "h2", 0)
        self.assertEqual(self.answered_of_20(), 20)
        self.assertIn("10.77.0.1", rules("h2"))
        self.faults.drop_between("h2", "h3", 1)
        self.assertEqual(self.answered(), 0)
        self.faults.undo_all()
        self.assertEqual((self.answered_of_20(), rules("h2"), rules("h3")), (20, "", ""))

    def test_by_command(self) -> None:
        path = FOLDER / "chaos.toml"
        path.write_text('preset = "partial"\nhosts = ["h2", "h3"]\n')
        self.assertIn("2 ways on 4 hosts", self.succeed("chaos.set", str(path)))
        self.assertEqual(self.answered(), 0)
        for sender, receiver in (("h2", "h3"), ("h3", "h2")):
            self.assertEqual(self.answered(), 0)
            self.succeed("chaos.update", sender, receiver, "0")
        self.assertEqual(self.answered_of_20(), 20)
        self.succeed("chaos.flap", str(path), "--period", "0.01", "--lasts", "0.05")
        self.assertEqual(self.answered_of_20(), 20)
        self.succeed("chaos.set", str(path))
        self.succeed("chaos.clear")
        self.assertEqual(self.answered_of_20(), 20)

    def test_mistakes_by_command(self) -> None:
        path = FOLDER / "mistaken.toml"
        path.write_text("[h1]\nh9 = 1\n")
        self.fail_with(
            f"the chaos matrix {path}: there is no host 'h9'; there are h1, h2, h3, h4", "chaos.set", str(path)
        )
        self.fail_with("h1 to h2 is '2x'; it must be a probability, 0 to 1", "chaos.update", "h1", "h2", "2x")
        path.write_text("[h1]\nh2 = 1\n")
        self.fail_with(
            "--period is a number of seconds above 0, not '0'", "chaos.flap", str(path), "--period", "0"
        )
        real = self.changed({'^emulation = ".*"$': ""})
        self.fail_with("chaos takes root and so emulated hosts: .*", "chaos.clear", inventory=real)


class TestScenarios(EmulatedCase):
    """They run, and what was dropped is felt: no more than that is known of times."""

    @classmethod
    def setUpClass(cls) -> None:
        fleet = connected()
        cls.addClassCleanup(fleet.__exit__, None, None, None)
        cls.lab = HostLab(fleet)

    def run_small(self, name: str) -> dict[str, Any]:
        path = run_scenario(name, self.lab, FOLDER / name, "small")
        document: dict[str, Any] = json.loads(path.read_text())
        self.assertEqual(document["not_measured"], [])
        section = show(document)
        self.assertTrue(section.tables and section.plots)
        for host in ("h1", "h2", "h3", "h4"):
            self.assertEqual(rules(host), "")
        return document

    def test_chaos(self) -> None:
        document = self.run_small("chaos")
        self.assertEqual([(each["hosts"], each["entries"]) for each in document["uploads"]], [(2, 2), (3, 6)])
        self.assertEqual(
            [(run["where"], run["p"]) for run in document["runs"]], [*product((ALL, LEADERS), (0, 0.1))]
        )
        for before, dropped in batched(document["runs"]):
            self.assertLess(dropped["rates"]["writes"], before["rates"]["writes"])
            self.assertGreater(latency_s(dropped, "writes", 99), latency_s(before, "writes", 99))

    def test_cuts(self) -> None:
        document = self.run_small("cuts")
        mute, _ = document["runs"]
        self.assertLess(mute["noticed"][0]["answered_share"], 1)
        self.assertIn(mute["connections"], range(5))

    def test_topologies(self) -> None:
        """A chain of hosts each of which delays: latency is at least the way to a server and back."""
        document = self.run_small("topologies")
        networks = [run["network"] for run in document["runs"]]
        self.assertEqual(networks, ["simple", "wan", "tree", "ring", "a slow leader", "the topology"])
        latencies = {run["network"]: latency_s(run, "writes", 50) for run in document["runs"]}
        self.assertGreater(latencies["simple"], 0.002)
        self.assertGreater(latencies["wan"], latencies["simple"])
