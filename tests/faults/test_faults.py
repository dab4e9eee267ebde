"""A short run of everything in tests/faults/, and what can be tested of it without servers."""

from __future__ import annotations

import itertools
import json
import random
import re
import subprocess
import sys
import unittest
from typing import Any

from bench import ROOT
from tests.faults.load import Fault, Record, Run
from tests.faults.loads.one_down import LOAD, NAMES, SAMPLES
from tests.faults.schedule import FULL, KINDS, MANNERS, SHORT, Plan, schedule
from tests.live.world import seed

RUN_TIMEOUT_S = 900.0
ENSEMBLES = 3
MANY = 100


class TestShortRun(unittest.TestCase):
    """The run is in setUpClass, because it takes longer than a test may."""

    said: str
    status: int
    summary: dict[str, Any]

    @classmethod
    def setUpClass(cls) -> None:
        command = [sys.executable, "-m", "tests.faults", "--short", "--seed", str(seed())]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
            try:
                cls.said, _ = process.communicate(timeout=RUN_TIMEOUT_S)
            finally:
                process.terminate()
        cls.status = process.returncode
        print(cls.said)
        folder = re.search(r"journals in (\S+)", cls.said)
        cls.summary = json.loads((ROOT / folder[1] / "summary.json").read_text()) if folder else {}

    def test_clean(self) -> None:
        self.assertEqual((self.said.splitlines()[-1], self.status), ("clean", 0), self.said)

    def test_each_kind_of_fault_has_been_there(self) -> None:
        counts = {kind: sum(manners.values()) for kind, manners in self.summary["faults"].items()}
        self.assertEqual([kind for kind in KINDS if not counts[kind]], [])

    def test_each_load_has_something_to_show(self) -> None:
        for name, judged in self.summary["promises"].items():
            with self.subTest(name):
                self.assertTrue(judged["figures"])


class TestSchedule(unittest.TestCase):
    def plans(self, number: int, pace: Any = FULL) -> list[Plan]:
        steps = schedule(random.Random(number), ENSEMBLES, pace)
        return [*itertools.islice((plan for step in steps for plan in step.plans), MANY)]

    def test_a_seed_is_a_schedule(self) -> None:
        self.assertEqual(self.plans(1), self.plans(1))
        self.assertNotEqual(self.plans(1), self.plans(2))

    def test_each_kind_comes_before_any_comes_again(self) -> None:
        for number in range(MANY):
            plans = self.plans(number, SHORT)
            for first in range(0, MANY - len(KINDS), len(KINDS)):
                kinds = [plan.kind for plan in plans[first : first + len(KINDS)]]
                self.assertEqual({*kinds}, {*KINDS})

    def test_each_manner_and_each_ensemble_of_a_kind_too(self) -> None:
        for number in range(MANY):
            plans = self.plans(number)
            for kind in KINDS:
                of_kind = [plan for plan in plans if plan.kind == kind]
                manners = MANNERS.get(kind, ("",))
                self.assertEqual({plan.manner for plan in of_kind[: len(manners)]}, {*manners})
                self.assertEqual({plan.ensemble for plan in of_kind[:ENSEMBLES]}, {*range(ENSEMBLES)})

    def test_two_at_once_are_on_two_ensembles(self) -> None:
        for number in range(MANY):
            for step in itertools.islice(schedule(random.Random(number), ENSEMBLES, FULL), MANY):
                self.assertIn(len(step.plans), (1, 2))
                self.assertEqual(len({plan.ensemble for plan in step.plans}), len(step.plans))

    def test_clients_are_frozen_for_less_and_for_more_than_their_sessions_live(self) -> None:
        for pace in (FULL, SHORT):
            plans = [plan for plan in self.plans(1, pace) if plan.kind == "freeze client"]
            self.assertEqual(
                {plan.manner: plan.lasts_s > pace.session_timeout_s for plan in plans},
                {"brief": False, "long": True},
            )


class TestOneDown(unittest.TestCase):
    """Journals made by hand: ensemble b is down from 100 s to 200 s."""

    FAULTS = (Fault(99.0, 205.0, "ensemble down", "b", "kill", 100.0, 200.0),)

    def journal(self, meanwhile_s: float, **changed: Any) -> list[Record]:
        """An operation on each ensemble ten times a second. Those on b, while it is down, wait until it is back.

        :param meanwhile_s: how long those on others take while b is down.
        :param changed: fields of the operation on c at 150 s.
        """
        records = []
        for number, name in itertools.product(range(3000), NAMES):
            began_s = number / 10
            is_down = 100 <= began_s < 200
            ended_s = 201.0 if is_down and name == "b" else began_s + (meanwhile_s if is_down else 0.005)
            fields = {"began_s": began_s, "ended_s": ended_s, "ensemble": name, "error": ""}
            if name == "c" and number == 1500:
                fields |= changed
            records.append(Record(ended_s, 0, 0, "done", fields))
        return records

    def problems(self, records: list[Record], *, is_timed: bool = True) -> list[str]:
        return [*LOAD.judge(Run(records, self.FAULTS, 6.0, is_timed)).problems]

    def test_as_fast_as_ever(self) -> None:
        judged = LOAD.judge(Run(self.journal(0.006), self.FAULTS, 6.0, is_timed=True))
        self.assertEqual(judged.problems, [])
        self.assertNotIn("times", judged.figures)
        self.assertGreater(int(judged.figures["operations on the others"]), SAMPLES)

    def test_too_slow(self) -> None:
        (problem,) = self.problems(self.journal(0.030))
        self.assertRegex(problem, "^5.0 ms, 30.0 ms with one down, which is more than 2 times as long")

    def test_no_time_is_judged_in_a_test_or_on_a_busy_machine(self) -> None:
        busy = Record(150.0, 0, 0, "busy", {"share": 1.0})
        for journal in (self.journal(0.030), self.journal(0.006, error="ConnectionLoss")):
            self.assertEqual(self.problems(journal, is_timed=False), [])
            self.assertEqual(self.problems([*journal, busy]), [])

    def test_failed_though_its_ensemble_is_up(self) -> None:
        (problem,) = self.problems(self.journal(0.006, error="ConnectionLoss"))
        self.assertRegex(problem, "ensemble='c', error='ConnectionLoss'.* has failed")

    def test_failed_as_kazoo_does_not(self) -> None:
        self.assertRegex(
            self.problems(self.journal(0.006, error="KeyError"), is_timed=False)[0], "KeyError.* is not what kazoo"
        )

    def test_answered_though_its_ensemble_is_down(self) -> None:
        (problem,) = self.problems(self.journal(0.006, ensemble="b"))
        self.assertRegex(problem, "was answered")

    def test_a_client_with_other_troubles_is_not_judged(self) -> None:
        lost = Record(140.0, 0, 0, "state", {"state": "LOST", "sessions": {}})
        self.assertEqual(self.problems([*self.journal(0.006, error="ConnectionLoss"), lost]), [])
