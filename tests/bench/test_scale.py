"""bench.scale: its arithmetic and simulations by known answers, and all of it once, small."""

from __future__ import annotations

import json
import random
import tempfile
import unittest
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.scale.costs import (
    ALONE,
    CLIENT,
    HOME,
    LEADER,
    OF_THREE,
    OTHER,
    STEPS,
    Cost,
    listing_bytes,
    medians,
    registration,
)
from bench.scale.outages import Assumed, simulate_year
from bench.scale.paper import ENSEMBLES, MIXED, ONE, OWN, USES, Measured, Use, load, ping_interval_s
from bench.scale.policy import Policy
from bench.scale.program import extrapolate
from bench.scale.reconnect import END_S, Comeback, Outage, Rates, simulate
from bench.scale.storm import Storm
from tests.bench.command import run_module

RATES = Rates(resumed=1000, opened=500, watches=5000)
RUN_TIMEOUT_S = 280


def costs(heap_bytes: float = 1000, per_s: float = 100) -> list[Cost]:
    roles = (HOME, LEADER, OTHER)
    return [
        *(Cost(ALONE, step, HOME, 10, 50, heap_bytes, per_s, 0.5) for step in STEPS),
        *(
            Cost(OF_THREE, step, role, 10, 50, heap_bytes * (1 if role == HOME else 0.25), per_s, 0.5)
            for step in STEPS
            for role in roles
        ),
    ]


def comeback(sessions: int, outage: Outage, watches: int = 0) -> Comeback:
    return simulate(sessions, 3, watches, RATES, outage, Policy(10.0), seed=1)


class TestComeback(unittest.TestCase):
    def test_few_are_back_after_a_pause(self) -> None:
        """The pause is two seconds at most, and the servers are fast."""
        back = comeback(30, Outage(10.0))
        self.assertEqual((back.expired, back.missing, back.abandoned, back.attempts), (0, 0, 0, 30))
        self.assertLess(back.all_s, 2.1)
        self.assertLessEqual(back.half_s, back.all_s)

    def test_servers_take_their_time(self) -> None:
        """All of 3,000 need three seconds of each server at least, and a watch each adds to it."""
        back = comeback(3000, Outage(10.0))
        self.assertGreater(back.all_s, 3.0)
        self.assertEqual((back.expired, back.missing), (0, 0))
        self.assertGreater(comeback(3000, Outage(10.0), watches=1).at_work_s, back.at_work_s)

    def test_time_runs_only_while_the_ensemble_serves_after_a_restart(self) -> None:
        self.assertEqual(comeback(30, Outage(100.0)).expired, 0)
        self.assertEqual(comeback(30, Outage(5.0, is_silent=True)).expired, 0)
        cut = comeback(30, Outage(30.0, is_silent=True))
        self.assertEqual((cut.expired, cut.missing), (30, 0))

    def test_too_many_are_not_all_back_in_time(self) -> None:
        """They need 20 seconds. A client that has waited too long asks again, and is served twice."""
        back, again, other = (
            simulate(4000, 3, 0, Rates(200, 100, 1000), Outage(10.0), Policy(10.0), seed) for seed in (1, 1, 2)
        )
        self.assertGreater(back.expired, 0)
        self.assertGreater(back.abandoned, 0)
        self.assertLessEqual(back.all_s, END_S)
        self.assertEqual(back, again)
        self.assertNotEqual(back, other)

    def test_each_client_is_back_once(self) -> None:
        for sessions in (1, 2, 500):
            for is_silent in (False, True):
                back = comeback(sessions, Outage(12.0, is_silent), watches=2)
                self.assertGreaterEqual(back.missing, 0)
                self.assertLessEqual(back.expired, sessions)
                self.assertGreaterEqual(back.attempts, sessions - back.missing)


class TestPolicy(unittest.TestCase):
    def test_pauses(self) -> None:
        policy, chance = Policy(10.0), random.Random(1)
        for rounds in range(1, 40):
            pause_s = policy.pause_s(rounds, chance)
            self.assertGreater(pause_s, 0.05)
            self.assertLessEqual(pause_s, 2.0)
        self.assertLessEqual(max(policy.pause_s(1, chance) for _ in range(100)), 0.14)
        self.assertLessEqual(Policy(3.0).pause_s(30, chance), 1.0)

    def test_patience(self) -> None:
        self.assertEqual([Policy(10.0).patience_s(slow) for slow in range(5)], [0.5, 2.0, 8.0, 10.0, 10.0])


class TestPaper(unittest.TestCase):
    def test_sessions(self) -> None:
        self.assertEqual(Use(3, OWN).of_ensemble, 3000)
        self.assertAlmostEqual(Use(3, MIXED).of_client, 3.97)
        self.assertAlmostEqual(Use(1, MIXED).of_ensemble, 1990)
        self.assertEqual(Use(1, ONE).of_ensemble, 100_000)
        self.assertEqual((Use(ENSEMBLES, OWN).of_client, Use(ENSEMBLES, OWN).of_ensemble), (100, 100_000))
        self.assertAlmostEqual(Use(ENSEMBLES, MIXED).of_client, 100)

    def test_pings(self) -> None:
        """Two thirds of ten seconds, halved, less 0 to 0.4 s."""
        self.assertAlmostEqual(ping_interval_s(), 10 / 3 - 0.2)

    def test_load_of_a_server(self) -> None:
        """3,000 sessions, 1,000 on each of three servers; all costs 1,000 bytes, 250 elsewhere, 50 us, 10 ms."""
        found = load(Use(3, OWN), 3, Measured(costs()))
        self.assertEqual((found.sessions, found.of_server, found.in_all), (3000, 1000, 300_000))
        self.assertAlmostEqual(found.pings_s, 1000 / ping_interval_s())
        self.assertAlmostEqual(found.ping_cpu, found.pings_s * 50e-6)
        # a connection and five watches of those that are here; session and registration of all
        self.assertAlmostEqual(found.heap_bytes, 1000 * (750 + 5000) + 3000 * (250 + 250))
        self.assertAlmostEqual(found.told_s, 3000 * 0.03)
        self.assertAlmostEqual(found.start, 3000 / 60 / 50)

    def test_one_server_alone_will_do(self) -> None:
        alone = [cost for cost in costs() if cost.layout == ALONE]
        found = load(Use(3, OWN), 3, Measured(alone))
        self.assertAlmostEqual(found.heap_bytes, 1000 * (1000 + 5000) + 3000 * 1000)

    def test_listing(self) -> None:
        self.assertEqual(listing_bytes(10), 10 * (4 + len(f"{CLIENT:#x}")))

    def test_registration(self) -> None:
        kind, body = registration(0x1234)
        self.assertEqual(kind, 1)
        self.assertIn(b"/parkazoo/clients/0x1234", body)
        self.assertTrue(body.endswith(b"\0\0\0\1"))

    def test_medians_of_rounds(self) -> None:
        (one, *_), low, high = costs(), costs(heap_bytes=1)[0], costs(heap_bytes=5000)[0]
        self.assertEqual(medians([high, one, low]), [one])
        other = replace(one, role=LEADER)
        self.assertEqual(medians([one, other]), [one, other])


class TestOutages(unittest.TestCase):
    def test_formula_and_simulation(self) -> None:
        for held in (1, 3, 10, ENSEMBLES):
            fate = simulate_year(held, ENSEMBLES, 2000, Assumed(), 1)
            self.assertAlmostEqual(fate.suspended / (4 * held), 1, delta=0.2)
            self.assertAlmostEqual(fate.month, fate.month_by_formula, delta=0.05)
            self.assertAlmostEqual(fate.lost_month, fate.lost_month_by_formula, delta=0.05)
            self.assertLess(fate.lost, fate.suspended)
            self.assertEqual(fate, simulate_year(held, ENSEMBLES, 2000, Assumed(), 1))

    def test_who_uses_all_meets_every_outage(self) -> None:
        fate = simulate_year(ENSEMBLES, ENSEMBLES, 100, Assumed(), 1)
        self.assertEqual((fate.at_once, fate.month), (1.0, 1.0))

    def test_hours(self) -> None:
        """Four outages of an hour in a year, on one ensemble."""
        hour = Assumed(long_share=1.0, long_s=3600.0)
        years = [simulate_year(1, 1, 1, hour, seed).hours for seed in range(100)]
        self.assertAlmostEqual(sum(years) / len(years), 4, delta=1)


class TestRun(unittest.TestCase):
    def test_the_same_costs_and_seed_give_the_same(self) -> None:
        few = [Storm(1, 20, 5.0, 0.5, 1.0, 0, 0)]
        fast = costs(per_s=1e6)
        found = extrapolate(fast, few, 1, is_small=True)
        self.assertEqual(found, extrapolate(fast, few, 1, is_small=True))
        self.assertEqual(len(found["loads"]), 2 * len(USES))
        self.assertTrue(all(not each["missing"] for each in found["comebacks"]))

    def test_small(self) -> None:
        """With real servers."""
        with tempfile.TemporaryDirectory() as folder:
            out, again = Path(folder, "new", "results.json"), Path(folder, "again.json")
            ran = run_module("bench.scale", "--small", "--out", str(out), timeout_s=RUN_TIMEOUT_S)
            self.assertEqual((ran.returncode, ran.stderr), (0, ""), ran.stdout)
            document: dict[str, Any] = json.loads(out.read_text())
            ran = run_module("bench.scale", "--measured", str(out), "--out", str(again), timeout_s=RUN_TIMEOUT_S)
            self.assertEqual((ran.returncode, ran.stderr), (0, ""), ran.stdout)
            self.assertEqual(json.loads(again.read_text()), document)
        self.assertEqual([each["step"] for each in document["costs"]], [*STEPS])
        self.assertTrue(all(each["per_s"] > 0 for each in document["costs"]))
        (storm,) = document["storms"]
        self.assertEqual((storm["sessions"], storm["servers"]), (50, 1))

    def test_what_is_no_result(self) -> None:
        ran = run_module("bench.scale", "--measured", __file__)
        self.assertEqual((ran.returncode, ran.stdout), (2, ""))
        self.assertIn("these are no results of bench.scale", ran.stderr)
