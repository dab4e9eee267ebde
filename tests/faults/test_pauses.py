"""The judges of a growth, with journals made by hand: pauses, and the client that is cut off alone."""

from __future__ import annotations

import unittest
from collections.abc import Sequence
from typing import Any

from tests.faults import apart, pauses
from tests.faults.load import Fault, Judgement, Record

COMMANDS = ((100.0, 120.0),)
FAULT = Fault(200.0, 210.0, "kill", "a2")


def answered(began_s: float, ended_s: float, worker: int = 1) -> list[Record]:
    number = int(1000 * began_s)
    return [
        Record(began_s, worker, 0, "call", {"number": number, "call": ["get", "d"]}),
        Record(ended_s, worker, 0, "answer", {"number": number, "unknown": "ConnectionLoss"}),
    ]


class TestPauses(unittest.TestCase):
    def judge(self, began_s: float, ended_s: float, *faults: Fault, busy_share: float = 0.5) -> Judgement:
        records = sorted(answered(101.0, 101.1) + answered(began_s, ended_s), key=lambda each: each.at_s)
        return pauses.judge(records, faults, COMMANDS, busy_share)

    def test_long_while_a_command_runs(self) -> None:
        judged = self.judge(119.0, 120.5, FAULT)
        self.assertEqual([*judged.problems], ["get d of registers/1 took 1.5 s"])
        self.assertEqual(judged.figures["longest while a command runs, s"], "1.500")

    def test_short(self) -> None:
        self.assertEqual([*self.judge(119.0, 119.9).problems], [])

    def test_long_otherwise(self) -> None:
        judged = self.judge(150.0, 153.0)
        self.assertEqual([*judged.problems], [])
        self.assertEqual(judged.figures["longest otherwise, s"], "3.000")

    def test_explained(self) -> None:
        for fault in (
            Fault(110.0, 111.0, "kill", "a2"),
            Fault(100.0, 105.5, "ensemble down", "a"),
            Fault(110.0, 111.0, "freeze client", "registers/1"),
            Fault(110.0, 110.0, "expire", "registers/1 on a"),
        ):
            with self.subTest(fault.target):
                self.assertEqual([*self.judge(110.0, 119.0, fault).problems], [])

    def test_faults_of_other_clients_explain_nothing(self) -> None:
        for target in ("registers/2", "registers/11", "lock/1", "lock/1 on a"):
            with self.subTest(target):
                judged = self.judge(110.0, 119.0, Fault(109.0, 111.0, "freeze client", target))
                self.assertEqual(len(judged.problems), 1)

    def test_a_fault_long_before_explains_nothing(self) -> None:
        judged = self.judge(116.0, 119.0, Fault(100.0, 116.0 - pauses.AFTERMATH_S - 1, "kill", "a2"))
        self.assertEqual(len(judged.problems), 1)

    def test_a_busy_machine(self) -> None:
        judged = self.judge(119.0, 120.5, busy_share=0.9)
        self.assertEqual([*judged.problems], [])
        self.assertEqual(judged.figures["above the goal while a command runs"], 1)

    def test_no_answer(self) -> None:
        """Of a process that is killed: what it did last is nobody's pause."""
        self.assertEqual(pauses.judge(answered(101.0, 109.0)[:1], (), COMMANDS, 0.5).problems, [])


class TestApart(unittest.TestCase):
    CUT = Fault(100.0, 110.0, apart.KIND, apart.NAME, "from a", 100.0, 110.0)

    def judge(self, lines: Sequence[tuple[float, dict[str, Any]]], *others: Fault) -> Judgement:
        records = [Record(at_s, apart.NUMBER, 0, "sessions", {"sessions": found}) for at_s, found in lines]
        return apart.judge([self.CUT, *others], records, "a")

    def test_seen(self) -> None:
        judged = self.judge([(50.0, {"a": 1, "b": 2}), (105.0, {"b": 2}), (111.0, {"a": 1, "b": 2})])
        self.assertEqual(([*judged.problems], judged.figures["seen by the client"]), ([], 1))

    def test_never_seen(self) -> None:
        for lines in ([], [(50.0, {"a": 1, "b": 2})], [(105.0, {})], [(99.0, {"b": 2})], [(105.0, {"a": 1})]):
            with self.subTest(str(lines)):
                self.assertEqual(len(self.judge(lines).problems), 1)

    def test_another_fault_there_shows_nothing(self) -> None:
        for target in ("a", "a3", f"{apart.NAME}", f"{apart.NAME} on b"):
            with self.subTest(target):
                judged = self.judge([(105.0, {"b": 2})], Fault(99.0, 101.0, "kill", target))
                self.assertEqual(judged.figures["of them with no other fault there"], 0)

    def test_another_fault_elsewhere(self) -> None:
        for target in ("b", "b1", "counter/0", "registers/3"):
            with self.subTest(target):
                judged = self.judge([(105.0, {"b": 2})], Fault(99.0, 101.0, "kill", target))
                self.assertEqual(judged.figures["seen by the client"], 1)
