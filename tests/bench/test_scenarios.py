"""Every scenario at its small size, on this machine; and what is known of the scenarios without servers."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import unittest
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from rich.console import Console

from bench.hosts.emulation import find_obstacle
from bench.lab import Ensembles, Faults, LabError, Matrix, NotPossible, Server, Shape, Way
from bench.load.plan import Plan
from bench.load.record import ANSWERED, FAILED, UNANSWERED
from bench.load.requests import CREATE, GET
from bench.load.result import Result
from bench.loopback import Loopback
from bench.scenarios import curves, elections, ensembles_added, failures, noticing, topologies
from bench.scenarios.catalogue import SCENARIOS, run_scenario, verify_topology
from bench.scenarios.catching_up import count_entries
from bench.scenarios.emulated import emulated
from bench.scenarios.evaluation import SIZES
from bench.scenarios.results import show
from bench.scenarios.roles import find_line
from bench.scenarios.summary import latency_s, name_limits, summarise
from bench.scenarios.topology import EXAMPLE, Link, TopologyError, applied, read_topology
from tests.bench.command import run_module

RUN_TIMEOUT_S = 240
PNG = b"\x89PNG\r\n"
S = 1_000_000_000  # in ns


class TestSmall(unittest.TestCase):
    """Nothing that is measured decides: only that it is there."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def check(self, name: str, shapes: set[str]) -> dict[str, Any]:
        if not (self.folder / f"{name}.json").exists():
            run_scenario(name, Loopback(1), self.folder, "small", seed=1)
        document: dict[str, Any] = json.loads((self.folder / f"{name}.json").read_text())
        self.assertEqual({run["shape"] for run in document["runs"]}, shapes)
        for run in document["runs"]:
            self.assertEqual(list(run["rates"]), ["all", "writes", "reads"])
            self.assertEqual(len(run["raw"]), run["plan"]["nodes"])
            self.assertTrue(all((self.folder / raw).exists() for raw in run["raw"]))
            self.assertEqual(len(run["busy"]), 1)
        self.assertEqual(document["about"]["seed"], 1)
        section = show(document)
        self.assertTrue(section.tables and section.plots and section.caveats)
        return document

    def test_thesis(self) -> None:
        self.check("thesis", {"1x1"})

    def test_scaling(self) -> None:
        document = self.check("scaling", {"1x1", "2x1"})
        self.assertIn("cannot limit bandwidth", document["not_measured"][0]["why"])

    def test_growth(self) -> None:
        document = self.check("growth", {"2x1"})
        for run in document["runs"]:
            self.assertEqual([each["ensembles"] for each in run["stages"]], [1, 2])
            self.assertEqual(len(run["commands"]), 1)
            self.assertEqual(run["failed"], 0, run["errors"])
            self.assertTrue(all(each["writes"]["requests"] for each in run["felt"]))

    def test_failures(self) -> None:
        document = self.check("failures", {"1x3"})
        self.assertTrue(document["runs"][0]["noticed"])

    def test_chaos(self) -> None:
        """Of what loopback can do there is the run in which nothing is dropped."""
        document = self.check("chaos", {"1x3"})
        self.assertEqual([run["p"] for run in document["runs"]], [0])
        self.assertGreater(document["runs"][0]["silence_s"], 0)
        self.assertEqual(len(document["not_measured"]), 2)

    def test_cuts(self) -> None:
        self.see_impossible("cuts", "cannot drop packets between two hosts")

    def test_topologies(self) -> None:
        self.see_impossible("topologies", "cannot limit bandwidth")

    def test_elections(self) -> None:
        document = self.check("elections", {"1x3"})
        self.assertEqual(
            [each["group"] for each in document["trials"]], ["1x3, killed", "1x3, frozen, given up after 1 s"]
        )
        for trial in document["trials"]:
            self.assertGreater(trial["took_s"], 0)
            self.assertGreaterEqual(trial["elected_s"], 0)

    def see_impossible(self, name: str, why: str) -> None:
        run_scenario(name, Loopback(1), self.folder, "small")
        document = json.loads((self.folder / f"{name}.json").read_text())
        self.assertIn(why, document["not_measured"][0]["why"])
        self.assertEqual(show(document).about, "Nothing was measured.")

    def test_raft(self) -> None:
        document = self.check("raft", {"1x3"})
        entries, snapshot = document["trials"]
        self.assertEqual((entries["snapshots"], snapshot["snapshots"]), (0, 1))
        self.assertEqual([each["followers"] for each in document["trials"]], [1, 1])
        self.assertEqual(document["compared"], {"loads": 7, "replicas": 19})
        for run in document["runs"]:
            is_replicated = run["of"] in ("servers", "crashed", "connects") and run["load"] == "writes"
            self.assertEqual(run.get("replicated_s") is not None, is_replicated, run)

    def test_networks_by_command(self) -> None:
        ran = self.run_command("networks", "--small", "--out", str(self.folder))
        self.assertEqual((ran.returncode, ran.stderr), (0, ""), ran.stdout)
        self.assertIn("target/s", ran.stdout)
        self.assertIn(str(self.folder / "report.html"), ran.stdout)
        section = show(self.check("networks", {"1x1"}))
        self.assertEqual(
            [table.title.partition(":")[0] for table in section.tables][1:], ["A pool of 1,000 clients", "Chains"]
        )
        for plot in section.plots:
            self.assertTrue((self.folder / f"{plot.name}.png").read_bytes().startswith(PNG))

    def test_a_mistyped_name(self) -> None:
        ran = self.run_command("scalling")
        self.assertEqual(ran.returncode, 2)
        self.assertIn("there is no scenario scalling; there are thesis, scaling,", ran.stderr)

    def run_command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return run_module("bench.scenarios", *arguments, timeout_s=RUN_TIMEOUT_S)

    def test_each_has_every_size(self) -> None:
        for name, scenario in SCENARIOS.items():
            self.assertEqual(tuple(scenario.SIZES), SIZES, name)  # type: ignore[attr-defined]


def result(*requests: tuple[float, float, int, int], **entries: Any) -> Result:
    """Requests as (begun, took, kind, outcome), in seconds; the load began at 100."""
    begun, took, kinds, outcomes = zip(*requests, strict=True)
    columns = {
        "begun_ns": np.array([int(each * S) for each in begun]),
        "took_ns": np.array([int(each * S) for each in took]),
        "late_ns": np.zeros(len(requests), int),
        "kind": np.array(kinds, np.uint8),
        "directory": np.zeros(len(requests), np.uint16),
        "outcome": np.array(outcomes, np.uint8),
    }
    base = {"system": "kazoo", "hosts": "h:1", "root": "/r", "name": "n", "warm_up_s": 1, "measure_s": 2}
    return Result(Plan.from_json({**base, **entries}), columns, 100.0, 0.5, Counter(), {})


class TestSummary(unittest.TestCase):
    def test_rates_are_of_answers_within_the_time_of_measuring(self) -> None:
        """From 101 to 103."""
        run = summarise(
            [
                result(
                    (100.0, 0.9, CREATE, ANSWERED),  # too early
                    (100.9, 0.2, CREATE, ANSWERED),
                    (101.5, 0.1, GET, ANSWERED),
                    (101.6, 0.1, GET, FAILED),
                    (101.7, 0.3, GET, ANSWERED),
                ),
                result(
                    (102.5, 0.4, CREATE, ANSWERED), (102.9, 0.4, CREATE, ANSWERED), (102.0, 1.0, GET, UNANSWERED)
                ),
            ],
            {"m": 0.5},
            1.0,
        )
        self.assertEqual(run["rates"], {"all": 2.0, "writes": 1.0, "reads": 1.0})
        self.assertEqual((run["failed"], run["unanswered"], run["limits"]), (1, 1, []))
        self.assertEqual(run["over_time"]["ensembles"][0]["answered"], [1, 2, 2])
        self.assertEqual(run["over_time"]["ensembles"][0]["failed"], [0, 1, 0])

    def test_latencies_are_of_requests_that_were_meant_for_the_time_of_measuring(self) -> None:
        run = summarise(
            [
                result(
                    (100.9, 9.0, GET, ANSWERED),
                    (101.5, 0.1, GET, ANSWERED),
                    (102.9, 0.3, GET, ANSWERED),
                    (102.0, 2.0, GET, UNANSWERED),  # it took as long at least
                )
            ],
            {},
            1.0,
        )
        for percentile, seconds in ((1, 0.1), (50, 0.3), (99, 2.0)):
            self.assertAlmostEqual(latency_s(run, "reads", percentile) or 0, seconds, delta=0.001 * seconds)
        self.assertIsNone(latency_s(run, "writes", 50))

    def test_a_run_in_which_nothing_came_to_pass(self) -> None:
        """On a machine that is busy with other things."""
        some = result((101.5, 0.1, GET, ANSWERED))
        run = summarise([replace(some, columns={name: each[:0] for name, each in some.columns.items()})], {}, 1.0)
        self.assertEqual((run["rates"]["all"], run["latency"]), (0.0, {}))

    def test_limits(self) -> None:
        self.assertEqual(name_limits(0.5, 0.0, {"m": 0.9}), [])
        self.assertEqual(name_limits(0.95, 0.0, {"m": 0.5, "n": 0.95}), ["load generator", "processors of n"])
        self.assertEqual(name_limits(0.5, 0.06, {}), ["load generator"])

    def test_growth(self) -> None:
        """From 101 to 121; a command from 107 to 111. 2 answers/s before it, 1 meanwhile, 4 afterwards."""
        paces = [(101.0, 107.0, 2), (107.0, 111.0, 1), (111.0, 121.0, 4)]
        begun = [
            each + number / pace
            for first, last, pace in paces
            for each in np.arange(first, last)
            for number in range(pace)
        ]
        requests = [(each, 0.5 if 107 <= each < 111 else 0.01, CREATE, ANSWERED) for each in begun]
        several = [result(*requests, measure_s=20)]
        commands = [{"ensembles": 3, "began_s": 107.0, "ended_s": 111.0}]
        self.assertEqual(
            ensembles_added.find_rates(several, (1, 3), commands, 101.0),
            [
                {"ensembles": 1, "rate": 2.0, "reached_s": 3.0},
                {"ensembles": 3, "rate": 4.0, "reached_s": 7.0},  # the first three seconds with 4 are from 111
            ],
        )
        before, meanwhile, after = ensembles_added.find_latencies(several, commands, 101.0)
        self.assertEqual([each["writes"]["requests"] for each in (before, meanwhile, after)], [12, 4, 40])
        self.assertAlmostEqual(meanwhile["writes"]["p99_s"], 0.5)
        self.assertNotIn("reads", before)

    def test_what_is_noticed(self) -> None:
        """A fault from 101 to 103: one of three requests is answered in time; after 101.2 there is no answer."""
        several = [
            result(
                (100.5, 0.1, GET, ANSWERED),
                (101.1, 0.1, GET, ANSWERED),
                (101.5, 2.0, GET, ANSWERED),
                (102.0, 0.1, GET, FAILED),
                warm_up_s=0,
            )
        ]
        (found,) = noticing.what_is_noticed(several, 101.0, 103.0)
        self.assertAlmostEqual(found["answered_share"], 1 / 3)
        self.assertAlmostEqual(found["silence_s"], 1.8)
        self.assertAlmostEqual(found["before_s"], 0.1)

    def test_elections(self) -> None:
        """A write that was begun before the leader was dead does not count, however late its answer."""
        several = [
            result((99.9, 0.3, CREATE, ANSWERED), (100.1, 0.1, CREATE, FAILED), (100.2, 0.5, CREATE, ANSWERED))
        ]
        kills = [elections.Loss("a1", 100.0), elections.Loss("a2", 101.0)]
        (trial,) = elections.times_to_serve(several, kills)
        self.assertEqual(trial["server"], "a1")
        self.assertAlmostEqual(trial["took_s"], 0.7)

    def test_who_is_hit(self) -> None:
        """As many as can be spared, never more: the others are a quorum."""
        for count in (3, 5, 9):
            leader, *followers = (Server(f"a{number}", "a", "h", "h", 1) for number in range(count))
            hit = {name: fault.of(leader, followers) for name, fault in failures.FAULTS.items()}
            self.assertEqual(hit["leader frozen"], [leader])
            self.assertEqual(hit["follower cut off"], followers[:1])
            for name in ("followers killed", "minority frozen"):
                self.assertEqual(len({*hit[name]}), (count - 1) // 2)
                self.assertEqual(leader in hit[name], name.startswith("minority"))


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
        wan = topologies.make_network("wan", ensembles)
        for one, other in (("a1", "a2"), ("b1", "b3"), ("clients", "b2"), ("a1", "b2")):
            self.assertEqual(wan[f"{one} to {other}"].delay_s, 0.02)
        for one, other in (("a1", "b1"), ("a1", "clients")):
            self.assertNotIn(f"{one} to {other}", wan)
        for preset in topologies.HOPS:
            self.assertEqual(
                {end for name in topologies.make_network(preset, ensembles) for end in name.split(" to ")},
                {*names, "clients"},
            )


class TestCurves(unittest.TestCase):
    def test_the_highest_target_that_all_reach(self) -> None:
        def runs(shape: str, *rates: tuple[float, float]) -> list[dict[str, Any]]:
            about = {"system": "kazoo", "shape": shape, "plan": {"measure_s": 100.0}}
            return [about | {"target": target, "rates": {"all": rate}} for target, rate in rates]

        several = [
            *runs("1x1", (100, 100), (200, 198), (400, 400)),
            *runs("1x3", (100, 99), (200, 181), (400, 300)),
        ]
        self.assertEqual(curves.highest_reached(several), 200)
        self.assertEqual(curves.highest_reached([*several, *runs("1x5", (100, 80))]), None)
        self.assertEqual(curves.highest_reached([]), None)

    def test_chance(self) -> None:
        """Of 150 requests that were to come in 3 s, 126 did: that happens. Of 15,000 in 300 s, 12,600 do not."""
        for measure_s, expected in ((3.0, True), (300.0, False)):
            run = {"target": 50, "rates": {"all": 42.0}, "plan": {"measure_s": measure_s}}
            self.assertEqual(curves.is_achieved(run), expected)


class TestWishes(unittest.TestCase):
    """What cannot be done is an error at once, not a line in a log and a run without what was asked for."""

    def refused(self, *arguments: str, status: int = 2) -> str:
        with tempfile.TemporaryDirectory() as folder:
            ran = run_module("bench.scenarios", *arguments, "--out", f"{folder}/out")
            self.assertEqual(ran.returncode, status, ran.stdout + ran.stderr)
            self.assertNotIn("Traceback", ran.stderr)
            self.assertNotIn("starting", ran.stdout)
        return ran.stdout + ran.stderr

    def topology(self, text: str) -> str:
        file = tempfile.NamedTemporaryFile("w", suffix=".json")  # noqa: SIM115 - as long as the test
        self.addCleanup(file.close)
        file.write(text)
        file.flush()
        return file.name

    def test_emulate(self) -> None:
        with mock.patch("bench.hosts.emulation.SYSTEM_PATH", "/nowhere"), mock.patch("os.geteuid", return_value=0):
            with mock.patch.dict(os.environ, PATH="/nowhere"):
                self.assertEqual(find_obstacle(), "there is no ip: apt-get install iproute2")
            with mock.patch("bench.hosts.emulation._which", side_effect=lambda tool: tool != "sshd" or None):
                self.assertEqual(find_obstacle(), "there is no sshd: apt-get install openssh-server")
        with (
            mock.patch("os.geteuid", return_value=1000),
            self.assertRaisesRegex(LabError, "emulated hosts need root"),
            tempfile.TemporaryDirectory() as folder,
            emulated(Path(folder), Console(), print),
        ):
            self.fail("unreachable")

    def test_emulate_by_command(self) -> None:
        if obstacle := find_obstacle():  # where there is none, tests/bench/test_hosts.py emulates hosts
            self.assertIn(obstacle, self.refused("scaling", "--small", "--emulate", status=1))

    def test_topology(self) -> None:
        good = self.topology('{"a1": {"delay_ms": 1}}')
        for arguments, said in (
            (
                ("networks", "--emulate", "--topology", good),
                "is for the scenario topologies, which is not asked for",
            ),
            (("topologies", "--topology", good), "takes emulated hosts"),
            (("topologies", "--emulate", "--topology", "/nowhere.json"), "cannot be read"),
            (("topologies", "--emulate", "--topology", self.topology("{")), "is no JSON"),
            (("topologies", "--emulate", "--topology", self.topology('{"d1": {}}')), "names d1; no shape"),
        ):
            with self.subTest(said):
                self.assertIn(said, self.refused(*arguments))
        verify_topology(Path(good), [*SCENARIOS], "medium", can_limit=True)

    def test_sizes(self) -> None:
        self.assertIn("not allowed with argument", self.refused("scaling", "--small", "--full"))

    def test_folder(self) -> None:
        ran = run_module("bench.scenarios", "scaling", "--small", "--out", __file__)
        self.assertEqual((ran.returncode, ran.stderr), (1, ""))
        self.assertIn("File exists", ran.stdout)


class TestRoles(unittest.TestCase):
    def test_an_answer_to_srvr(self) -> None:
        answer = "Zookeeper version: 3.9\nLatency min/avg/max: 0/0.0/0\nZxid: 0x10000001f\nMode: follower\n"
        self.assertEqual(find_line(answer, "Mode:"), "follower")
        self.assertEqual(int(find_line(answer, "Zxid:"), 16), 0x10000001F)
        self.assertEqual(count_entries(0x10000001F, 0x100000030), 0x11)
        self.assertEqual(count_entries(0x10000001F, 0x200000030), 0x30)
        self.assertEqual(find_line("This ZooKeeper instance is not currently serving requests\n", "Mode:"), "")


if __name__ == "__main__":
    unittest.main()
