"""What the journals of loads/counter.py must say.

The judge checks: no two acknowledged adds saw the same number before; after each add its worker's digits are
what it knows; the sum at the end is exact. Only an add that was cut short by the KILL of its process, or lost
with its session and not yet read again, may count or not.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass

from tests.faults.load import Judgement, Run
from tests.faults.loads.counter import DIGITS


def judge(run: Run) -> Judgement:
    problems = []
    known: dict[int, Known] = defaultdict(Known)
    seen: dict[int, str] = {}
    what = Counter(record.what for record in run.records)
    for record in run.records:
        who = f"worker {record.worker}, life {record.life}"
        when = f"{who} at {record.at_s:.3f} s"
        mine = known[record.worker]
        if record.what == "adding":
            mine.cut_short += mine.is_adding  # by a KILL
            mine.is_adding = True
        elif record.what == "added":
            before, after = record.fields["before"], record.fields["after"]
            mine.is_adding = False
            if before in seen:
                problems.append(f"{who} and {seen[before]} have both added to {before}")
            seen[before] = who
            if after != before + 10 ** (DIGITS * record.worker):
                problems.append(f"{who} added to {before} and made it {after}")
            mine.adds += 1
            problems += mine.compare(when, record.worker, after)
        elif record.what == "lost":
            mine.is_lost = True
        elif record.what == "read":
            problems += mine.compare(when, record.worker, record.fields["after"], lost=mine.is_lost)
            mine.is_adding = mine.is_lost = False
        elif record.what == "sum":
            for worker, theirs in known.items():
                if worker >= 0:
                    problems += theirs.compare("at the end", worker, record.fields["after"], theirs.is_adding)
    if not what["added"]:
        problems.append("nothing was added")
    if not what["sum"]:
        problems.append("no record has the sum at the end")
    figures = {
        "added": what["added"],
        "lost, then read": what["read"],
        "cut short": what["adding"] - what["added"] - what["read"],
    }
    return Judgement(problems, figures)


@dataclass
class Known:
    """What is known of a worker's adds.

    :param adds: as many have happened,
    :param cut_short: and perhaps some of these.
    """

    adds: int = 0
    cut_short: int = 0
    is_adding: bool = False
    is_lost: bool = False

    def compare(self, when: str, worker: int, value: int, lost: int = 0) -> list[str]:
        """Whether the counter says the same; it is believed from then on.

        :param lost: 1 if the last add may have happened as well.
        """
        found = value // 10 ** (DIGITS * worker) % 10**DIGITS
        most = self.adds + self.cut_short + lost
        problems = []
        if not self.adds <= found <= most:
            allowed = f"{self.adds}" if most == self.adds else f"{self.adds} to {most}"
            problems.append(f"{when}: the counter holds {found} adds of worker {worker}, not {allowed}")
        self.adds, self.cut_short = found, max(0, min(self.cut_short, most - found))
        return problems
