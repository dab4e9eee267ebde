"""The judge of one_down: with one ensemble down the others are as fast as ever."""

from __future__ import annotations

import itertools
import unittest
from typing import Any

from tests.faults.judges.one_down import SAMPLES, judge
from tests.faults.load import Fault, Record, Run
from tests.faults.loads.one_down import NAMES


class TestOneDown(unittest.TestCase):
    """Journals made by hand: ensemble b is down from 100 s to 200 s."""

    FAULTS = (Fault(99.0, 205.0, "ensemble down", "b", "kill", 100.0, 200.0),)

    def journal(self, meanwhile_s: float, **changed: Any) -> list[Record]:
        """An operation on each ensemble ten times a second. Those on b fail after 7 s while it is down.

        :param meanwhile_s: how long those on others take while b is down.
        :param changed: fields of the operation on c at 150 s.
        """
        records = []
        for number, name in itertools.product(range(3000), NAMES):
            began_s = number / 10
            is_down = 100 <= began_s < 200
            is_dead = is_down and name == "b"
            ended_s = began_s + (7.0 if is_dead else meanwhile_s if is_down else 0.005)
            error = "ConnectionLoss" if is_dead else ""
            fields = {"began_s": began_s, "ended_s": ended_s, "ensemble": name, "error": error}
            if name == "c" and number == 1500:
                fields |= changed
            records.append(Record(ended_s, 0, 0, "done", fields))
        return records

    def problems(self, records: list[Record], *, is_timed: bool = True) -> list[str]:
        return [*judge(Run(records, self.FAULTS, 6.0, is_timed)).problems]

    def test_as_fast_as_ever(self) -> None:
        judged = judge(Run(self.journal(0.006), self.FAULTS, 6.0, is_timed=True))
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

    def test_waits_for_ever(self) -> None:
        (problem,) = self.problems(self.journal(0.006, ensemble="b", ended_s=201.0), is_timed=False)
        self.assertRegex(problem, "has waited for longer than 12 s")

    def test_answered_though_its_ensemble_is_down(self) -> None:
        (problem,) = self.problems(self.journal(0.006, ensemble="b"))
        self.assertRegex(problem, "was answered")

    def test_a_client_with_other_troubles_is_not_judged(self) -> None:
        lost = Record(140.0, 0, 0, "state", {"state": "LOST", "sessions": {}})
        self.assertEqual(self.problems([*self.journal(0.006, error="ConnectionLoss"), lost]), [])
