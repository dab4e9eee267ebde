"""Every scenario at its small size, on this machine; and what is known of the scenarios without servers."""

from __future__ import annotations

import json
import subprocess
import tempfile
import unittest
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from rich.console import Console

from bench.hosts.preflight import find_obstacles
from bench.lab import Faults, LabError, NotPossible, Server
from bench.load.plan import Plan
from bench.load.record import ANSWERED, FAILED, UNANSWERED
from bench.load.requests import CREATE, GET, SET
from bench.load.result import Result
from bench.loopback import Loopback
from bench.report.text import rate_of
from bench.scenarios import accounts, elections, ensembles_added, failing_followers, failures, writes_deferred
from bench.scenarios.catalogue import SCENARIOS, run_scenario, verify_topology
from bench.scenarios.catching_up import count_entries
from bench.scenarios.emulated import emulated
from bench.scenarios.evaluation import SIZES, Evaluation
from bench.scenarios.repetitions import fold, times_of
from bench.scenarios.results import show
from bench.scenarios.roles import find_line
from bench.scenarios.summary import latency_s, name_limits, summarise
from bench.scenarios.topology import EXAMPLE, Link, TopologyError, applied, read_topology
from bench.statistics import decode, range_of
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
        document = self.check("thesis", {"1x1"})
        again = [run for run in document["runs"] if run["step"] == "best"]
        self.assertEqual([run["plan"]["read_share"] for run in again], [0, 0, 1, 1])
        for run in again:
            counts = sum(run["trace"]["answered"])
            self.assertLessEqual(counts, run["rates"]["all"] * run["plan"]["measure_s"] + 1)
            (server,) = run["servers"]
            kind = "received_bytes" if run["rates"]["writes"] else "sent_bytes"
            self.assertGreater(server[kind], counts * run["plan"]["size"] / 2)
            self.assertGreater(server["files_bytes"], 0)

    def test_scaling(self) -> None:
        document = self.check("scaling", {"1x1", "2x1"})
        self.assertIn("cannot limit bandwidth", document["not_measured"][0]["why"])
        loads = [run for run in document["runs"] if run["part"] == "scaling"]
        self.assertEqual([run["repeats"] for run in loads], [0, 0, 2, 2])  # its size says twice
        self.assertEqual(len({run["plan"]["seed"] for run in loads}), 4)

    def test_repeated_by_command(self) -> None:
        """What is not repeated by default is, too."""
        ran = self.run_command("scaling", "--small", "--repeat", "3", "--out", str(self.folder))
        self.assertEqual((ran.returncode, ran.stderr), (0, ""), ran.stdout)
        self.assertIn("repetition 3 of 3", ran.stdout)
        document = self.check("scaling", {"1x1", "2x1"})
        self.assertEqual([run["repeats"] for run in document["runs"]], [0, 0, 0, 3, 3, 3, 6, 6, 6])
        self.assertRegex(ran.stdout, r"3 times each, in turns, on the same servers; skewed ones,\s+3 times each")
        self.assertRegex(ran.stdout, r"\d to \d")

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

    def test_raft(self) -> None:
        document = self.check("raft", {"1x3"})
        self.assertEqual([list(each) for each in document["trials"]], [["missed", "took_s", "missed_s"]])

    def test_deferred(self) -> None:
        document = self.check("deferred", {"1x3"})
        self.assertEqual({run["part"] for run in document["runs"]}, {*writes_deferred.PARTS})
        flows = [run["flow"] for run in document["runs"] if "flow" in run]
        self.assertTrue(all(sum(flow["committed"]) for flow in flows))

    def test_networks_by_command(self) -> None:
        ran = self.run_command("networks", "--small", "--out", str(self.folder))
        self.assertEqual((ran.returncode, ran.stderr), (0, ""), ran.stdout)
        self.assertIn("target/s", ran.stdout)
        self.assertIn(str(self.folder / "report.html"), ran.stdout)
        section = show(self.check("networks", {"1x1"}))
        for plot in section.plots:
            self.assertTrue((self.folder / f"{plot.name}.png").read_bytes().startswith(PNG))

    def test_a_mistyped_name(self) -> None:
        ran = self.run_command("scalling")
        self.assertEqual(ran.returncode, 2)
        self.assertIn("there is no scenario scalling; there are thesis, scaling,", ran.stderr)

    def test_no_repetition_at_all(self) -> None:
        ran = self.run_command("scaling", "--repeat", "0")
        self.assertEqual(ran.returncode, 2)
        self.assertIn("--repeat is 0; it must be at least 1", ran.stderr)

    def run_command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return run_module("bench.scenarios", *arguments, timeout_s=RUN_TIMEOUT_S)

    def test_each_has_every_size(self) -> None:
        for name, scenario in SCENARIOS.items():
            self.assertEqual(tuple(scenario.SIZES), SIZES, name)


def result(*requests: tuple[float, float, int, int], **entries: Any) -> Result:
    """Requests as (begun, took, kind, outcome), in seconds; the load began at 100."""
    begun, took, kinds, outcomes = zip(*requests, strict=True)
    columns = {
        "begun_ns": np.array([int(each * S) for each in begun]),
        "took_ns": np.array([int(each * S) for each in took]),
        "late_ns": np.zeros(len(requests), int),
        "call_ns": np.zeros(len(requests), int),
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

    def test_what_is_accepted_while_followers_die(self) -> None:
        """Ten writes, each 0.1 s after the other; none is committed from 101.5 to 102.5, as seen by the clock."""
        requests = [
            (101.05 + n / 10, max(0.01, 1.55 - n / 10 if n >= 5 else 0.01), SET, ANSWERED) for n in range(10)
        ]
        one = result(*requests, is_deferred=True, system="parkazoo", write="set", measure_s=2)
        flow, found = failing_followers.find_flow([one], 0.3, 1.5)
        self.assertEqual(sum(flow["accepted"][:4]), 10)
        self.assertEqual(sum(flow["committed"][:4]), 5)
        self.assertEqual(flow["backlog"][-1], 0)
        self.assertAlmostEqual(found.pop("drained_s") or 0, 0.1)
        self.assertEqual(found, {"accepted": 5, "committed": 0, "backlog": 5, "lost": 0})

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
        (found,) = failures.what_is_noticed(several, 101.0, 103.0)
        self.assertAlmostEqual(found["answered_share"], 1 / 3)
        self.assertAlmostEqual(found["silence_s"], 1.8)
        self.assertAlmostEqual(found["before_s"], 0.1)

    def test_elections(self) -> None:
        """A write that was begun before the leader was dead does not count, however late its answer."""
        several = [
            result((99.9, 0.3, CREATE, ANSWERED), (100.1, 0.1, CREATE, FAILED), (100.2, 0.5, CREATE, ANSWERED))
        ]
        kills = [elections.Kill("a1", 100.0), elections.Kill("a2", 101.0)]
        (trial,) = elections.times_to_serve(several, kills)
        self.assertEqual(trial["server"], "a1")
        self.assertAlmostEqual(trial["took_s"], 0.7)


def repetition(rate_s: float, repeats: int | None = None, took_s: float = 0.1, **entries: Any) -> dict[str, Any]:
    """A run with so many answers a second, or so."""
    count = int(rate_s * 2)
    requests = [(101 + number / count, took_s, GET, ANSWERED) for number in range(count)]
    run = {"shape": "1x3", "system": "kazoo", **summarise([result(*requests)], {"m": 0.5}, 1.0), **entries}
    return run if repeats is None else {**run, "repeats": repeats}


class TestRepetitions(unittest.TestCase):
    def test_folded(self) -> None:
        """The median with the range; all else is of the run in the middle."""
        runs = [
            repetition(30, 0, 0.1, name="first", limits=["m"], failed=1),
            repetition(7, 1, name="another"),
            repetition(10, 0, 0.3, name="second", failed=2),
            repetition(20, 0, 0.2, name="third"),
        ]
        both = fold(runs)
        self.assertEqual([(run["name"], run.get("times")) for run in both], [("third", 3), ("another", None)])
        folded = both[0]
        self.assertEqual((folded["rates"]["all"], range_of(folded["rates"]["all"])), (20, (10, 30)))
        self.assertEqual((folded["limits"], folded["failed"]), (["m"], 3))
        latency = latency_s(folded, "reads", 50)
        assert latency is not None
        for found, wanted in zip((latency, *range_of(latency)), (0.2, 0.1, 0.3), strict=True):
            self.assertAlmostEqual(found, wanted, delta=0.001)
        self.assertEqual(decode(folded["latency"]["reads"]).get_total_count(), 2 * (30 + 10 + 20))
        self.assertEqual(rate_of(folded), "20 *\n10 to 30")
        self.assertEqual(rate_of(both[1]), "7")

    def test_old_results_have_none(self) -> None:
        runs = [repetition(30), repetition(10)]
        self.assertEqual(fold(runs), runs)
        self.assertEqual(times_of(fold(runs)), "each once")

    def test_an_even_number(self) -> None:
        (folded,) = fold([repetition(10, 0), repetition(20, 0)])
        self.assertEqual((folded["rates"]["all"], range_of(folded["rates"]["all"])), (15, (10, 20)))
        self.assertEqual(times_of([folded]), "2 times each")

    def test_figures_in_lists_of_objects(self) -> None:
        """What one of them does not have, and what is no figure, stays as it is in the first."""
        some = [
            repetition(10, 0, stages=[{"rate": 1.0, "reached_s": None, "what": "x"}]),
            repetition(10, 0, stages=[{"rate": 3.0, "reached_s": 5.0, "what": "x"}]),
            repetition(10, 0, stages=[{"rate": 2.0, "reached_s": 4.0, "what": "x", "more": 1}]),
        ]
        ((stage,),) = [run["stages"] for run in fold(some)]
        self.assertEqual((stage["rate"], range_of(stage["rate"])), (2, (1, 3)))
        self.assertEqual((stage["reached_s"], range_of(stage["reached_s"])), (4.5, (4, 5)))
        self.assertEqual(stage["what"], "x")

    def test_labels_tell_what_repeats_what(self) -> None:
        evaluation = Evaluation(Loopback(1), "x", Path("/nowhere"), "small")
        runs = evaluation.document["runs"]
        for _ in evaluation.rounds(2):
            for load in ("a", "b"):
                runs.append({"load": load, "repeats": evaluation._repeats({"load": load})})
        for load in ("a", "b", "b"):  # later, and not in rounds: each is one of its own
            runs.append({"load": load, "repeats": evaluation._repeats({"load": load})})
        self.assertEqual([run["repeats"] for run in runs], [0, 1, 0, 1, 4, 5, 6])
        self.assertEqual(len(fold([repetition(7, **run) for run in runs])), 5)


class RecordingFaults(Faults):
    def __init__(self) -> None:
        super().__init__("this lab")
        self.done: list[tuple[Any, ...]] = []

    def limit(self, host: str, rate_bytes_s: float) -> None:
        self.done.append(("limit", host, rate_bytes_s))

    def lift(self, host: str) -> None:
        self.done.append(("lift", host))


class TestAccounts(unittest.TestCase):
    MNTR = (
        "zk_bytes_received_count\t{}\nzk_response_bytes\t{}\nzk_approximate_data_size\t{}\nzk_avg_latency\t0.5\n"
    )
    DIRS = "datadir_size: {}\nlogdir_size: 9\n"

    def test_between(self) -> None:
        """What is counted, from one answer to the next; what is there, as it is at last."""
        before = accounts.read(self.MNTR.format(100, 20, 3000) + self.DIRS.format(64))
        after = accounts.read(self.MNTR.format(175, 26, 5000) + self.DIRS.format(67))
        self.assertEqual(
            accounts.between({"a1": before}, {"a1": after, "a2": after}),
            [{"server": "a1", "received_bytes": 75, "sent_bytes": 6, "data_bytes": 5000, "files_bytes": 67}],
        )

    def test_no_answer(self) -> None:
        self.assertEqual(accounts.read(""), {})
        self.assertEqual(accounts.read(self.MNTR.format(1, 2, 3)), {})


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
        with (
            mock.patch("os.geteuid", return_value=1000),
            self.assertRaisesRegex(LabError, "emulated hosts need root"),
            tempfile.TemporaryDirectory() as folder,
            emulated(Path(folder), Console(), print),
        ):
            self.fail("unreachable")

    def test_emulate_by_command(self) -> None:
        if obstacles := find_obstacles():  # where there is none, tests/bench/test_hosts.py emulates hosts
            self.assertIn(obstacles[0].what, self.refused("scaling", "--small", "--emulate", status=1))

    def test_topology(self) -> None:
        good = self.topology('{"a1": {"delay_ms": 1}}')
        for arguments, said in (
            (("scaling", "--emulate", "--topology", good), "is for the scenario networks, which is not asked for"),
            (("networks", "--topology", good), "takes emulated hosts"),
            (("networks", "--emulate", "--topology", "/nowhere.json"), "cannot be read"),
            (("networks", "--emulate", "--topology", self.topology("{")), "is no JSON"),
            (("networks", "--emulate", "--topology", self.topology('{"d1": {}}')), "names d1; no shape"),
            (("networks", "--small", "--emulate", "--topology", good), "the size small has no unequal links"),
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
