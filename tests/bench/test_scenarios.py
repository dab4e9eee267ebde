"""Every scenario at its small size, on this machine; and what is known of the scenarios without servers."""

from __future__ import annotations

import json
import subprocess
import tempfile
import unittest
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

from rich.console import Console

from bench.hosts.preflight import find_obstacles
from bench.lab import LabError
from bench.loopback import Loopback
from bench.sampler import Below
from bench.scenarios import accounts, evaluation, moves_sizes, writes_deferred
from bench.scenarios.catalogue import SCENARIOS, pieces, run_scenario, verify_topology
from bench.scenarios.catching_up import count_entries
from bench.scenarios.emulated import emulated
from bench.scenarios.evaluation import LARGE, SIZES, Evaluation, Parts, stem
from bench.scenarios.host_record import read_hosts
from bench.scenarios.networks import TEN, TITLES
from bench.scenarios.results import read_documents, show
from bench.scenarios.roles import find_line
from tests.bench.command import run_module

RUN_TIMEOUT_S = 240
PNG = b"\x89PNG\r\n"


class TestSmall(unittest.TestCase):
    """Nothing that is measured decides: only that it is there. So no load is run once more for a longer window;
    commands do that here too, and test_too_short.py tests it.
    """

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        once = mock.patch.object(evaluation, "MOST_WINDOW_S", 0.0)
        once.start()
        self.addCleanup(once.stop)

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
        self.assertEqual(document["hosts"]["seen"], 1)
        self.assertEqual([*read_hosts(self.folder / document["hosts"]["raw"])], [Below.HOST])
        section = show(document)
        self.assertTrue(section.tables and section.plots and section.caveats)
        return document

    def test_thesis(self) -> None:
        document = self.check("thesis", {"1x1"})
        self.assertEqual(
            {run["step"] for run in document["runs"]}, {"threads", "processes", "best", "one", "crowd"}
        )
        self.assertIn("there is 1 client host", {each["why"] for each in document["not_measured"]})
        again = [run for run in document["runs"] if run["step"] == "best"]
        self.assertEqual([run["plan"]["read_share"] for run in again], [0, 0, 1, 1] * 2)
        for run in again:
            counts = sum(run["trace"]["answered"])
            self.assertGreater(counts, 0)
            self.assertLessEqual(counts, run["rates"]["all"] * run["plan"]["measure_s"] + 1)
            (server,) = run["servers"]
            kind = "received_bytes" if run["rates"]["writes"] else "sent_bytes"
            self.assertGreater(server[kind], counts * run["plan"]["size"] / 2)
            self.assertGreater(server["files_bytes"], 0)
            self.assertGreater(server["memory_bytes"], 10_000_000)  # no Java virtual machine has less
            self.assertNotIn("from_servers_bytes", server)  # here all have one network card

    def test_repeated_by_command(self) -> None:
        """What is not repeated by default is, too."""
        ran = self.run_command("scaling", "--small", "--repeat", "3", "--out", str(self.folder))
        self.assertEqual((ran.returncode, ran.stderr), (0, ""), ran.stdout)
        self.assertIn("repetition 3 of 3", ran.stdout)
        document = self.check("scaling", {"1x1", "2x1"})
        self.assertIn("cannot limit bandwidth", document["not_measured"][0]["why"])
        self.assertEqual([run["repeats"] for run in document["runs"]], [0, 0, 0, 3, 3, 3, 6, 6, 6])
        seeds = [run["plan"]["seed"] for run in document["runs"] if run["part"] == "scaling"]
        self.assertEqual(len({*seeds}), len(seeds))
        self.assertRegex(ran.stdout, r"3 times each, in turns, on the same servers; skewed ones,\s+3 times each")
        self.assertRegex(ran.stdout, r"\d to \d")

    def test_growth(self) -> None:
        document = self.check("growth", {"2x1"})
        for run in document["runs"]:
            self.assertEqual([each["ensembles"] for each in run["stages"]], [1, 2])
            self.assertEqual(len(run["commands"]), 1)
            self.assertLessEqual(set(run["errors"]), {"ConnectionLoss"})  # what takes a second meanwhile
            before, *since = run["felt"]  # the command may take less than a request, or all the time that is left
            self.assertTrue(before["writes"]["requests"])
            self.assertTrue(sum(each["writes"]["requests"] for each in since if "writes" in each))

    def test_moves(self) -> None:
        document = self.check("moves", {"2x1"})
        rebalance, *others = document["runs"]
        self.assertEqual(
            [each["when"] for each in rebalance["felt"]], ["before", "map grow", "map rebalance", "after"]
        )
        self.assertTrue(rebalance["felt"][0]["writes"]["requests"])
        self.assertEqual(
            [run["part"] for run in document["runs"]], [size.part for size in moves_sizes.SIZES["small"]]
        )
        for run in others:
            self.assertEqual(len(run["moved"]), len(run["commands"]))
            for move, command in zip(run["moved"], run["commands"], strict=True):
                self.assertTrue(move["tries"])
                self.assertEqual(move["target"] == "", command["why"] != "")  # a slow machine calls moves off

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
        groups = [(each["group"], each["repetition"]) for each in document["trials"]]
        killed, frozen = "1x3, killed", "1x3, frozen, given up after 1 s"
        self.assertEqual(groups, [(killed, 0), (killed, 1), (frozen, 0), (frozen, 1)])  # its size says twice
        self.assertEqual([run["repeats"] for run in document["runs"]], [0, 0, 2, 2])
        self.assertIn("2 times each", show(document).about)
        for trial in document["trials"]:
            self.assertGreater(trial["took_s"], 0)
            self.assertGreaterEqual(trial["elected_s"], 0)
            self.assertGreaterEqual(trial["rounds"], 1)

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
        self.assertEqual(document["compared"], {"loads": 9, "replicas": 25})
        for run in document["runs"]:
            is_replicated = run["of"] in ("servers", "crashed", "connects") and run["load"] == "writes"
            self.assertEqual(run.get("replicated_s") is not None, is_replicated, run)

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
        titles = [table.title.partition(":")[0] for table in section.tables]
        self.assertEqual([*dict.fromkeys(titles)][1:], [TITLES[TEN], "Chains"])
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
            self.assertEqual([each for each in scenario.SIZES if each != LARGE], [*SIZES], name)

    def test_parts(self) -> None:
        """Of a size that has some, one alone or all; the name of each is that of a file."""
        self.assertEqual(pieces(["raft"], "medium"), [("raft", "")])
        self.assertEqual(pieces(["raft"], "full", "sizes"), [("raft", "sizes")])
        both = pieces(["thesis", "elections"], "full")
        self.assertEqual(both[-4:], [("elections", each) for each in ("servers", "timeouts", "many", "more")])
        for name, part in pieces([*SCENARIOS], "full"):
            self.assertRegex(stem(name, part), r"^[a-z0-9-]+$")
            size = Evaluation(Loopback(1), name, Path("/nowhere"), "full", part=part).chosen(SCENARIOS[name].SIZES)
            self.assertNotIsInstance(size, Parts)
        for wrong in (
            (["raft"], "full", "unheard-of"),
            (["raft"], "medium", "sizes"),
            (["raft", "chaos"], "full", "1x3"),
        ):
            with self.assertRaisesRegex(LabError, "^no part "):
                pieces(*wrong)

    def test_a_part_that_there_is_not(self) -> None:
        ran = self.run_command("raft", "--full", "--part", "unheard-of")
        self.assertEqual(ran.returncode, 2)
        self.assertIn("no part unheard-of of raft, size full; there are servers, sizes,", ran.stderr)

    def test_parts_of_one_scenario_in_one_folder(self) -> None:
        """Each has results and a section of its own."""
        small = SCENARIOS["elections"].SIZES["small"]
        parts = Parts(
            {str(number): replace(small, groups=[each], repeat=1) for number, each in enumerate(small.groups, 1)}
        )
        with mock.patch.dict(SCENARIOS["elections"].SIZES, {"small": parts}):
            for part in parts:
                run_scenario("elections", Loopback(1), self.folder, "small", part=part)
        found = [show(each) for each in read_documents(self.folder)]
        self.assertEqual([each.name for each in found], ["elections-1", "elections-2"])
        self.assertEqual([each.title[-3:] for each in found], [": 1", ": 2"])
        names = [plot.name for each in found for plot in each.plots]
        self.assertEqual(names, ["elections-1-elections", "elections-2-elections"])


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

    def test_among_servers(self) -> None:
        """What the card has carried, less what clients have sent and got."""
        before = accounts.read(self.MNTR.format(100, 20, 3000) + self.DIRS.format(64))
        after = accounts.read(self.MNTR.format(175, 26, 5000) + self.DIRS.format(67))
        cards = [
            {"card_received_bytes": received, "card_sent_bytes": sent, "memory_bytes": memory}
            for received, sent, memory in ((1000, 2000, 70), (1100, 2500, 71))
        ]
        (found,) = accounts.between({"a1": {**before, **cards[0]}}, {"a1": {**after, **cards[1]}})
        self.assertEqual(
            {name: found[name] for name in (*accounts.AMONG, accounts.MEMORY)},
            {"from_servers_bytes": 100 - 75, "to_servers_bytes": 500 - 6, "memory_bytes": 71},
        )

    def test_no_answer(self) -> None:
        self.assertEqual(accounts.read(""), {})
        self.assertEqual(accounts.read(self.MNTR.format(1, 2, 3)), {})


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
        self.assertIn("--large is a size of scaling alone", self.refused("scaling", "raft", "--large"))

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
