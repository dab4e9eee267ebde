"""What the requests of a run say together, and what its repetitions do."""

from __future__ import annotations

import unittest
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bench.lab import Ensembles, Server, Shape
from bench.load.plan import Plan
from bench.load.record import ANSWERED, FAILED, UNANSWERED
from bench.load.requests import CREATE, GET, SET
from bench.load.result import Result
from bench.loopback import Loopback
from bench.report.text import rate_of
from bench.scenarios import curves, elections, ensembles_added, failing_followers, failures, noticing
from bench.scenarios.evaluation import Evaluation
from bench.scenarios.repetitions import fold, times_of
from bench.scenarios.summary import latency_s, name_limits, summarise
from bench.statistics import decode, encode, make_histogram, range_of

S = 1_000_000_000  # in ns


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
    return Result(Plan.from_json({**base, **entries}), columns, 100.0, 100.0, 0.5, Counter(), {})


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
        self.assertEqual(name_limits(0.5, 0.0, 0.2, {"m": 0.9}), [])
        of_n = name_limits(0.95, 0.0, 0.0, {"m": 0.5, "n": 0.95})
        self.assertEqual(of_n, ["load generator", "processors of n"])
        self.assertEqual(name_limits(0.5, 0.06, 0.0, {}), ["load generator"])
        self.assertEqual(name_limits(0.5, 0.0, 0.6, {}), ["load generator"], "a process began too late")

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

    def test_rates_while_followers_die(self) -> None:
        """By whole buckets of a quarter of a second; a death that follows too soon has none."""
        flow = {"accepted": [2] * 8, "committed": [2, 2, 2, 2, 0, 0, 0, 2]}
        self.assertEqual(
            failing_followers.rates_by_servers(flow, 5, [0.9, 0.95, 1.0], 1.7),
            [
                {"servers": 5, "accepted": 8.0, "committed": 8.0},
                {"servers": 2, "accepted": 8.0, "committed": 0.0},
            ],
        )

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

    def test_elections_with_two_rounds(self) -> None:
        """They are told of; results that do not say how many there were have none."""
        trial = {"group": "1x5, killed", "took_s": 0.5, "elected_s": 0.3}
        once, twice = trial | {"rounds": 1}, trial | {"took_s": 40.86, "rounds": 2}
        about = {"is_one_machine": True, "lab": {"kind": "emulated"}}
        for trials, told in (([trial, once], []), ([trial, once, twice], ["1 of 3 trials", "40.86 s"])):
            section = elections.show({"about": about, "runs": [], "trials": trials, "not_measured": []})
            said = [each for each in section.caveats if "ZOOKEEPER-3109" in each]
            self.assertEqual(len(said), bool(told))
            for each in told:
                self.assertIn(each, said[0])

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
            repetition(30, 0, 0.01, name="first", limits=["m"], failed=1),
            repetition(7, 1, name="another"),
            repetition(10, 0, 0.03, name="second", failed=2),
            repetition(20, 0, 0.02, name="third"),
        ]
        both = fold(runs)
        self.assertEqual([(run["name"], run.get("times")) for run in both], [("third", 3), ("another", None)])
        folded = both[0]
        self.assertEqual((folded["rates"]["all"], range_of(folded["rates"]["all"])), (20, (10, 30)))
        self.assertEqual((folded["limits"], folded["failed"]), (["m"], 3))
        latency = latency_s(folded, "reads", 50)
        assert latency is not None
        for found, wanted in zip((latency, *range_of(latency)), (0.02, 0.01, 0.03), strict=True):
            self.assertAlmostEqual(found, wanted, delta=0.0001)
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


class Asked(Evaluation):
    """Of which a system answers so many requests/s, whatever is asked for."""

    def __init__(self, capacity_s: float, on_time_s: float) -> None:
        super().__init__(Loopback(1), "x", Path("/nowhere"), "small")
        self.capacity_s = capacity_s
        self.on_time_s = on_time_s  # what is more comes so late that it has no figure

    def run(self, ensembles: Any, plan: Plan, label: dict[str, Any], *_: Any, **__: Any) -> dict[str, Any]:
        rate_s = min(plan.rate_s, self.capacity_s)
        late_s = 1.0 if plan.rate_s <= self.on_time_s else 500.0
        latency = {"writes": encode(make_histogram([int(late_s * S)]))}
        plan_of = {"measure_s": 1000.0}
        return {"target": label["target"], "rates": {"all": rate_s}, "plan": plan_of, "latency": latency}


class TestCurves(unittest.TestCase):
    def raise_it(
        self, capacity_s: float, targets: curves.Targets, again: Sequence[float] = (), on_time_s: float = 1e9
    ) -> Sequence[float]:
        ensembles = Ensembles(Shape(1, 1), [Server("a1", "a", "h", "h", 1)])
        settings = {"write": "set", "measure_s": 1.0}
        return curves.raise_target(Asked(capacity_s, on_time_s), ensembles, "kazoo", targets, {}, settings, again)

    def test_finer_and_finer(self) -> None:
        """First twice as much each time; then between what was achieved and what was not."""
        targets = curves.Targets(20, 2, 1000, 3)
        self.assertEqual(self.raise_it(90, targets), [20, 40, 80, 160, 113, 95, 104])
        self.assertEqual(self.raise_it(50, targets, [20, 160, 113]), [20, 160, 113])
        self.assertEqual(self.raise_it(5000, targets), [20, 40, 80, 160, 320, 640])
        self.assertEqual(self.raise_it(5, targets), [20])
        self.assertEqual(self.raise_it(5000, targets, on_time_s=90), [20, 40, 80, 160, 113, 95, 87])

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
        self.assertEqual(curves.make_distribution_table("x", []), [])

    def test_in_the_order_of_targets(self) -> None:
        """However they were asked for; subjects stay as they come."""
        asked = [("1x3", 20), ("1x3", 40), ("1x3", 28), ("1x1", 10)]
        runs = [{"system": "kazoo", "shape": shape, "target": target} for shape, target in asked]
        found = [(run["shape"], run["target"]) for run in curves.in_order(runs)]
        self.assertEqual(found, [("1x3", 20), ("1x3", 28), ("1x3", 40), ("1x1", 10)])

    def test_chance(self) -> None:
        """Of 150 requests that were to come in 3 s, 126 did: that happens. Of 15,000 in 300 s, 12,600 do not."""
        for measure_s, expected in ((3.0, True), (300.0, False)):
            run = {"target": 50, "rates": {"all": 42.0}, "plan": {"measure_s": measure_s}}
            self.assertEqual(curves.is_achieved(run), expected)
