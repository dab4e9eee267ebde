"""The judge of histories says what porcupine says, and why."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
import unittest
import uuid
from typing import Any

from tests.faults.judges.registers import LEADER_LAG_S
from tests.faults.judges.registers import judge as judge_registers
from tests.faults.linearizable import Operation, TooManyOrdersError, find_refusal
from tests.faults.load import Fault, Judgement, Record, Run
from tests.faults.porcupine.__main__ import VERDICTS, digest, judge
from tests.faults.porcupine.corpus import FLAWS, make_corpus


class PorcupineTest(unittest.TestCase):
    def test_verdicts_on_the_corpus(self) -> None:
        kept = json.loads(VERDICTS.read_text())
        corpus = make_corpus(kept["histories of each kind"])
        histories = [history for _, history in corpus]
        self.assertEqual(digest(histories), kept["SHA-256 of the corpus"], f"another corpus: {kept['made by']}")
        verdicts = [find_refusal(history) is None for history in histories]
        self.assertEqual("".join("01"[verdict] for verdict in verdicts), kept["accepted"])
        refused = {kind for (kind, _), verdict in zip(corpus, verdicts, strict=True) if not verdict}
        self.assertEqual(refused, set(FLAWS))

    def test_verdicts_on_new_histories(self) -> None:
        if not shutil.which("go"):
            self.skipTest("there is no go to run porcupine; its verdicts on the corpus are kept")
        seed = uuid.uuid4().hex[:8]
        corpus = make_corpus(60, seed)
        try:
            theirs = judge([history for _, history in corpus])
        except subprocess.CalledProcessError as error:
            if "dial tcp" not in error.stderr and "lookup" not in error.stderr:
                raise AssertionError(error.stderr) from error
            self.skipTest("there is no network to fetch porcupine; its verdicts on the corpus are kept")
        for number, (kind, history) in enumerate(corpus):
            with self.subTest(kind=kind, seed=seed, number=number):
                self.assertEqual(find_refusal(history) is None, theirs[number])


class RefusalTest(unittest.TestCase):
    def test_it_names_the_operation_and_what_there_was(self) -> None:
        refusal = find_refusal(
            [
                Operation(1, 2, ("create", "d", "old"), "ok"),
                Operation(3, None, ("set", "d", "new", -1), None),
                Operation(3, 4, ("get", "d"), ("lost", 1)),
            ]
        )
        self.assertEqual(
            str(refusal),
            "('get', 'd') cannot have been answered ('lost', 1) between 3 and 4: "
            "before it there was [('d', 'old', 0)]",
        )

    def test_unknown_outcome_comes_true_late_or_never_but_once(self) -> None:
        begun = [Operation(1, 2, ("create", "d", ""), "ok"), Operation(3, None, ("delete", "d", -1), None)]
        gone = Operation(7, 8, ("exists", "d"), "NoNodeError")
        self.assertIsNone(find_refusal(begun))
        self.assertIsNone(find_refusal([*begun, Operation(5, 6, ("get", "d"), ("", 0)), gone]))
        again = [*begun, gone, Operation(9, 10, ("create", "d", ""), "ok"), gone._replace(called=11, returned=12)]
        self.assertIsNotNone(find_refusal(again))

    def test_many_of_unknown_outcome(self) -> None:
        """Each may have come true at any time after, which must not make as many configurations."""
        history = [Operation(0, 1, ("create", "d", ""), "ok")]
        for number in range(1, 2001):
            at = 10 * number
            if number % 100 == 0:
                history.append(Operation(at, None, ("set", "d", f"u{number}", 0), None))
                history.append(Operation(at, None, ("delete", "d", 0), None))
            history.append(Operation(at + 1, at + 2, ("set", "d", str(number), number - 1), number))
            history.append(Operation(at + 3, at + 4, ("get", "d"), (str(number), number)))
        self.assertIsNone(find_refusal(history))
        self.assertIsNotNone(find_refusal([*history, Operation(10**6, 10**6, ("get", "d"), ("1", 1))]))

    def test_too_much_to_judge_is_no_verdict(self) -> None:
        history = [Operation(0, 1, ("create", "d", ""), "ok")]
        history += [Operation(2, None, ("set", "d", str(number), -1), None) for number in range(30)]
        with self.assertRaises(TooManyOrdersError):
            find_refusal([*history, Operation(3, 4, ("get", "d"), ("no such", 15))], configurations_max=10_000)


class Journal:
    """What clients of the registers load would have recorded, one second apart."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self._numbers = itertools.count()
        self._later_s = 0.0

    def call(self, worker: int, *call: Any) -> tuple[int, int]:
        number = next(self._numbers)
        self._add(worker, "call", number=number, call=list(call))
        return worker, number

    def pass_time(self, seconds: float) -> None:
        self._later_s += seconds

    def answer(self, called: tuple[int, int], result: Any) -> None:
        worker, number = called
        self._add(worker, "answer", number=number, result=result)

    def did(self, worker: int, *call: Any, result: Any) -> None:
        self.answer(self.call(worker, *call), result)

    def _add(self, worker: int, what: str, **fields: Any) -> None:
        self.records.append(Record(len(self.records) + self._later_s, worker, 0, what, fields))

    def judge(self, *faults: Fault) -> Judgement:
        return judge_registers(Run(self.records, faults, 4.0))


class RegistersTest(unittest.TestCase):
    """What the load's journals are taken for."""

    def setUp(self) -> None:
        self.journal = Journal()
        self.journal.did(1, "create", "0.1.d", "old", result="ok")

    def refusals(self, *faults: Fault) -> int:
        return len(self.journal.judge(*faults).problems)

    def freeze(self) -> Fault:
        return Fault(0.0, 9.0, "freeze", "a1", "leader", 0.0, 9.0)

    def test_acknowledged_write_that_is_not_there(self) -> None:
        self.journal.did(-1, "sync", "", result="ok")
        self.journal.did(-1, "children", "", result=["0.2.d"])
        self.assertEqual(self.refusals(), 2)  # and no client has created the other

    def test_stale_read_behind_the_sync_of_a_leader(self) -> None:
        """A leader may be behind its followers for a moment, but not for longer."""
        for late_s, refusals in ((LEADER_LAG_S / 2, 0), (LEADER_LAG_S * 2, 1)):
            journal = self.journal = Journal()
            journal.did(1, "create", "0.1.d", "old", result="ok")
            journal.did(1, "set", "0.1.d", "new", -1, result=1)
            journal.pass_time(late_s - 1)  # from the answer to the sync
            journal.did(2, "sync", "0.1.d", result="ok")
            journal.did(2, "get", "0.1.d", result=["old", 0])
            judgement = journal.judge()
            self.assertEqual(len(judgement.problems), refusals)
            self.assertEqual(judgement.figures["groups stale behind a leader's sync"], 1 - refusals)

    def test_stale_read_behind_a_sync(self) -> None:
        self.journal.did(1, "set", "0.1.d", "new", -1, result=1)
        self.journal.did(2, "sync", "0.1.d", result="ok")
        self.journal.did(2, "get", "0.1.d", result=["old", 0])
        self.assertEqual(self.refusals(), 1)
        judgement = self.journal.judge(self.freeze())
        self.assertEqual(judgement.problems, [])
        self.assertEqual(judgement.figures["groups stale behind a deposed leader"], 1)

    def test_stale_read_behind_a_write(self) -> None:
        self.journal.did(1, "set", "0.1.d", "new", -1, result=1)
        self.journal.did(2, "set", "0.1.e", "", -1, result="NoNodeError")
        self.journal.did(2, "create", "0.1.e", "", result="ok")
        self.journal.did(2, "get", "0.1.d", result=["old", 0])
        self.assertEqual(self.refusals(self.freeze()), 1)

    def test_sync_that_is_not_awaited(self) -> None:
        self.journal.did(1, "set", "0.1.d", "new", -1, result=1)
        sync = self.journal.call(2, "sync", "0.1.d")
        get = self.journal.call(2, "get", "0.1.d")
        self.journal.answer(sync, "ok")
        self.journal.answer(get, ["old", 0])
        self.assertEqual(self.refusals(), 1)

    def test_read_that_need_not_be_new(self) -> None:
        self.journal.did(2, "sync", "0.1.d", result="ok")
        self.journal.did(1, "set", "0.1.d", "new", -1, result=1)
        self.journal.did(2, "get", "0.1.d", result=["old", 0])
        self.journal.did(3, "get", "0.1.d", result=["old", 0])
        judgement = self.journal.judge()
        self.assertEqual(judgement.problems, [])
        self.assertEqual(judgement.figures["reads not judged"], 1)

    def test_error_that_no_zookeeper_raises(self) -> None:
        self.journal.did(1, "set", "0.1.d", "new", -1, result="APIError")
        self.assertEqual(self.journal.judge().problems, ["('set', '0.1.d', 'new', -1) raised APIError"])
