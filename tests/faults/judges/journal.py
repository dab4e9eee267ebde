"""Journals that are written by hand, line by line, for the tests of the judges."""

from __future__ import annotations

import unittest
from collections.abc import Sequence
from typing import Any

from tests.faults import judges
from tests.faults.load import Fault, Judgement, Record, Run

TIMEOUT_S = 10.0


Line = tuple[float, int, str, dict[str, Any]]  # when, which worker, what


def line(at_s: float, worker: int, what: str, **fields: Any) -> Line:
    return at_s, worker, what, fields


class JudgeTest(unittest.TestCase):
    """A history is lines. Every worker beats once a second from 0 to `until_s`, but for those in `silent`."""

    load: str

    def judge(
        self,
        *lines: Line,
        faults: Sequence[Fault] = (),
        until_s: float = 60.0,
        silent: dict[int, tuple[float, float]] | None = None,
        is_timed: bool = True,
        has_moves: bool = False,
    ) -> Judgement:
        lost = {worker: (began_s, ended_s) for worker, (began_s, ended_s) in (silent or {}).items()}
        records = [Record(at_s, worker, 0, what, fields) for at_s, worker, what, fields in lines]
        for worker in {each.worker for each in records if each.worker >= 0}:
            for at_s in range(int(until_s) + 1):
                began_s, ended_s = lost.get(worker, (-1.0, -1.0))
                if not began_s < at_s < ended_s:
                    records.append(Record(at_s, worker, 0, "beat", {}))
        records.sort(key=lambda each: each.at_s)
        return judges.judge(self.load, Run(records, faults, TIMEOUT_S, is_timed, has_moves))

    def accept(self, *lines: Line, **options: Any) -> Judgement:
        judgement = self.judge(*lines, **options)
        self.assertEqual(judgement.problems, [])
        return judgement

    def refuse(self, words: str, *lines: Line, **options: Any) -> None:
        problems = self.judge(*lines, **options).problems
        self.assertEqual(len(problems), 1, problems)
        self.assertIn(words, problems[0])
