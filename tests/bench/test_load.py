"""bench.load on a real server: each way of asking, and what is said when it cannot work."""

from __future__ import annotations

import json
import resource
import tempfile
import unittest
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

from kazoo.exceptions import ConnectionLoss, SessionExpiredError

from bench.lab import Ensembles, LabError, Shape
from bench.load.meeting import MeetingError
from bench.load.plan import Plan, PlanError
from bench.load.process import Clients, allow_all_files
from bench.load.record import ANSWERED
from bench.load.requests import CREATE, DELETE, GET, SESSION, SET, name_directories
from bench.load.result import Result, read_result
from bench.loopback import Loopback
from bench.scenarios.evaluation import UNSEEN, Evaluation, LoadError
from bench.scenarios.roles import find_line
from parkazoo import ParKazooClient

SHAPE = Shape(2, 1)


class TestConnecting(unittest.TestCase):
    def connect(self, *answers: Any, within_s: float) -> mock.Mock:
        client = mock.Mock()
        client.exists.side_effect = answers
        plan = Plan("parkazoo", "h:1", "/bench", "x", ensembles=2, connect_timeout_s=within_s)
        with mock.patch("bench.load.process.make_client", return_value=client):
            Clients(plan, 0)._connect(0)
        return client

    def test_a_connection_that_is_lost_before_all_are_there(self) -> None:
        client = self.connect(ConnectionLoss, SessionExpiredError, None, None, within_s=60.0)
        self.assertEqual(client.exists.call_count, 4)

    def test_one_that_does_not_come_back(self) -> None:
        with self.assertRaisesRegex(MeetingError, "not connected to all ensembles within 0 s"):
            self.connect(ConnectionLoss, within_s=0.01)


class TestLoad(unittest.TestCase):
    lab: Loopback
    ensembles: Ensembles
    folder: Path
    runs = 0

    @classmethod
    def setUpClass(cls) -> None:
        cls.lab = Loopback(2)
        with ExitStack() as stack:
            cls.ensembles = stack.enter_context(cls.lab.ensembles(SHAPE))
            cls.folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            cls.addClassCleanup(stack.pop_all().close)

    def plan(self, **entries: Any) -> Plan:
        TestLoad.runs += 1
        base = {"nodes": 2, "threads": 2, "ensembles": 2, "warm_up_s": 0.1, "measure_s": 0.4, "size": 10}
        entries = {**base, **entries}
        name = f"run{TestLoad.runs}"
        return Plan(system="parkazoo", hosts=self.ensembles.hosts(), root="/bench", name=name, **entries)

    def run_plan(self, plan: Plan) -> list[Result]:
        self.told: list[str] = []
        plans = {
            host: replace(plan, node=node).as_json() for node, host in enumerate(self.lab.clients[: plan.nodes])
        }
        paths = self.lab.run_load(plans, self.folder / plan.name, lambda _, line: self.told.append(line))
        return [read_result(path) for path in paths.values()]

    def kinds(self, results: list[Result]) -> Counter[int]:
        return Counter(kind for each in results for kind in each.columns["kind"].tolist())

    def see_all_answered(self, results: list[Result]) -> None:
        for each in results:
            self.assertLessEqual(set(each.columns["outcome"].tolist()), {ANSWERED})
            self.assertEqual(each.errors, {})

    def test_closed_loop(self) -> None:
        """Processes meet by znodes; each create has its delete."""
        plan = self.plan(processes=2)
        results = self.run_plan(plan)
        self.see_all_answered(results)
        kinds = self.kinds(results)
        self.assertLessEqual(set(kinds), {CREATE, DELETE})
        self.assertLessEqual(kinds[CREATE] - kinds[DELETE], plan.clients)
        self.assertEqual([list(json.loads(line)) for line in self.told], [["begun_s"]])
        client = ParKazooClient(self.ensembles.hosts())
        client.start()
        self.addCleanup(client.close)
        self.addCleanup(client.stop)
        ready = client.get_children(f"{plan.root}/{plan.name}/ready")
        self.assertEqual(sorted(ready), ["0", "1", "2", "3"])
        self.assertIsNotNone(client.exists(f"{plan.root}/{plan.name}/begin"))
        self.assertGreaterEqual(min(each.begun_s for each in results), json.loads(self.told[0])["begun_s"] - 1)

    def test_many_in_flight_on_pinned_directories(self) -> None:
        results = self.run_plan(self.plan(nodes=1, in_flight=4, is_pinned=True, directories=4, read_share=0.5))
        self.see_all_answered(results)
        self.assertLessEqual(set(self.kinds(results)), {CREATE, DELETE, GET})
        self.assertEqual(
            {each for result in results for each in result.columns["directory"].tolist()}, {0, 1, 2, 3}
        )

    def test_open_loop(self) -> None:
        """Requests begin when they were meant to, and what is late is said."""
        results = self.run_plan(self.plan(rate_s=200.0, write="set", nodes=1, threads=1))
        self.see_all_answered(results)
        self.assertLessEqual(set(self.kinds(results)), {SET})
        columns = results[0].columns
        self.assertEqual(len(set(columns["begun_ns"].tolist())), len(columns["begun_ns"]))
        self.assertTrue((columns["late_ns"] >= 0).all())

    def test_deferred_writes(self) -> None:
        """Calls return before their writes are committed. A read and a barrier are waited for."""
        for entries in ({"read_share": 0.1}, {"barrier_each": 10}, {"rate_s": 200.0}, {"max_pending": 8}):
            results = self.run_plan(self.plan(write="set", is_deferred=True, **entries))
            self.see_all_answered(results)
            self.assertLessEqual(set(self.kinds(results)), {SET, GET})
            for each in results:
                is_set = each.columns["kind"] == SET
                self.assertTrue((each.columns["call_ns"] > 0)[is_set].all())
                self.assertTrue((each.columns["took_ns"] >= each.columns["call_ns"]).all())

    def test_chains(self) -> None:
        """A chain is one record: what was set has been set five times as often."""
        plan = self.plan(rate_s=50.0, write="set", nodes=1, threads=1, chain=5, directories=2)
        results = self.run_plan(plan)
        self.see_all_answered(results)
        self.assertLessEqual(set(self.kinds(results)), {SET})
        client = ParKazooClient(self.ensembles.hosts())
        client.start()
        self.addCleanup(client.close)
        self.addCleanup(client.stop)
        leaves = [
            f"{directory}/{leaf}"
            for directory in name_directories(plan)
            for leaf in client.get_children(directory)
        ]
        versions = sum(client.exists(leaf).version for leaf in leaves)
        chains = len(results[0].columns["kind"])
        self.assertIn(versions, range(5 * chains, 5 * chains + 5))  # the last one may have been cut short

    def test_pool(self) -> None:
        """Far more is asked for than a pool of one for each client can send: it goes on, one after the other."""
        results = self.run_plan(self.plan(rate_s=100_000.0, write="set", nodes=1, threads=2, pool=2))
        self.see_all_answered(results)
        columns = results[0].columns
        self.assertLess(len(columns["kind"]), 20_000)
        self.assertGreater(columns["took_ns"].max(), columns["late_ns"].max())

    def test_sessions(self) -> None:
        """Each is known to the server, and has been ended: none is left but those of the clients themselves."""
        results = self.run_plan(self.plan(nodes=1, threads=2, write="sessions"))
        self.see_all_answered(results)
        self.assertEqual(set(self.kinds(results)), {SESSION})
        (count,) = self.kinds(results).values()
        answers = [self.lab.ask(server, "mntr") for server in self.ensembles.of("a")]
        sessions = sum(int(find_line(answer, "zk_global_sessions")) for answer in answers)
        self.assertGreater(count, 10)
        self.assertLess(sessions, 10)

    def test_gevent(self) -> None:
        results = self.run_plan(self.plan(nodes=1, handler="gevent", read_share=1.0, is_hashed=True, zipf=1.0))
        self.see_all_answered(results)
        self.assertLessEqual(set(self.kinds(results)), {GET})

    def test_a_mistaken_plan(self) -> None:
        plan = {**self.plan(nodes=1).as_json(), "threads": 0}
        with self.assertRaisesRegex(LabError, "client1: the load failed: .*threads is 0; it must be at least 1"):
            self.lab.run_load({"client1": plan}, self.folder / "mistaken")

    def test_sessions_take_the_closed_loop(self) -> None:
        for entries in ({"rate_s": 1.0}, {"read_share": 0.5}, {"handler": "gevent"}):
            with self.assertRaisesRegex(PlanError, "sessions are for the closed loop"):
                self.plan(write="sessions", **entries)

    def test_pool_and_chain_take_the_open_loop(self) -> None:
        for entries in ({"pool": 8}, {"chain": 2}):
            with self.assertRaisesRegex(PlanError, "pool and chain are for the open loop"):
                self.plan(**entries)
        with self.assertRaisesRegex(PlanError, "pool is 3; it must be 0, or at least 1 for each of 4 clients"):
            self.plan(rate_s=1.0, pool=3)
        with self.assertRaisesRegex(PlanError, "chain is 0; it must be at least 1"):
            self.plan(rate_s=1.0, chain=0)

    def test_no_server(self) -> None:
        plan = replace(self.plan(nodes=1, connect_timeout_s=0.5), hosts="127.0.0.1:1")
        with self.assertRaisesRegex(LabError, "client1: the load failed: .*Connection time-out"):
            self.run_plan(plan)

    def test_a_client_is_missing(self) -> None:
        plan = self.plan(nodes=2, begin_timeout_s=1.0)
        with self.assertRaisesRegex(LabError, "1 of 2 processes are ready after 1 s"):
            self.lab.run_load({"client1": plan.as_json()}, self.folder / "missing")

    def test_a_load_that_fails_is_named(self) -> None:
        """By its label, and the next one can be run. So is a warm-up."""
        evaluation = Evaluation(self.lab, "thesis", self.folder / "evaluation")
        mistaken = replace(self.plan(nodes=1, connect_timeout_s=0.5), hosts="127.0.0.1:1")
        evaluation.warm_up(mistaken)
        with self.assertRaisesRegex(LoadError, "client1: the load failed: .*Connection time-out"):
            evaluation.run(self.ensembles, mistaken, {"load": "writes"})
        evaluation.run(self.ensembles, self.plan(nodes=1), {"load": "reads"})
        warm_up, load = evaluation.document["not_measured"]
        self.assertEqual(warm_up["what"], "parkazoo, after a warm-up")
        self.assertEqual(load["what"], "parkazoo on 2x1, 1 x 1 x 2 clients: writes")
        self.assertEqual(load["load"], "writes")
        self.assertEqual([run["load"] for run in evaluation.document["runs"]], ["reads"])

    def test_a_machine_that_is_too_busy_to_say_so(self) -> None:
        evaluation = Evaluation(self.lab, "thesis", self.folder / "busy")
        with mock.patch.object(self.lab, "processor_times", side_effect=LabError("h1: no answer")):
            run = evaluation.run(self.ensembles, self.plan(nodes=1), {"load": "reads"})
        self.assertEqual(run["limits"][-1], UNSEEN)
        self.assertGreater(run["rates"]["all"], 0)
        self.assertEqual(
            evaluation.document["not_measured"],
            [{"what": "how busy the machines were: reads", "why": "h1: no answer"}],
        )


class TestFiles(unittest.TestCase):
    def test_as_many_as_it_may(self) -> None:
        """Not as few as the user's shell allows: a client has a socket for each ensemble."""
        soft, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, most))
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft - 1, most))
        allow_all_files()
        self.assertEqual(resource.getrlimit(resource.RLIMIT_NOFILE), (most, most))


class TestShape(unittest.TestCase):
    def test_shapes(self) -> None:
        self.assertEqual(Shape.parse("3x5"), Shape(3, 5))
        self.assertEqual((str(Shape(9, 3)), Shape(9, 3).size, list(Shape(2, 3).names)), ("9x3", 27, ["a", "b"]))
        for text in ("3", "3x", "x3", "0x3", "27x3", "3X3", "3x3x3"):
            with self.subTest(text), self.assertRaisesRegex(LabError, "is no shape: write ensembles x servers"):
                Shape.parse(text)
