"""What the journals of loads/barrier.py must say.

The judge checks: no worker passes a barrier before its removal was begun; no worker waits at a removed one for
longer than a session timeout while its client is CONNECTED (if the run is not timed: and then in vain); no
removed barrier stands at the end.
"""

from __future__ import annotations

from collections import Counter

from tests.faults.judges.holding import lives
from tests.faults.load import Judgement, Record, Run


def judge(run: Run) -> Judgement:
    begun: dict[int, float] = {}  # the first attempt to remove it
    ended: dict[int, float] = {}
    for record in run.records:
        if record.what == "removing":
            begun.setdefault(record.fields["gate"], record.at_s)
        elif record.what == "removed":
            ended.setdefault(record.fields["gate"], record.at_s)
    problems = [
        f"{_who(record)} passed barrier {record.fields['gate']} at {record.at_s:.3f} s, before its removal"
        for record in run.records
        if record.what == "passed" and record.at_s < begun.get(record.fields["gate"], record.at_s + 1)
    ]
    problems += _held_up(run, ended)
    standing = [gate for record in run.records if record.what == "standing" for gate in record.fields["gates"]]
    problems += [f"barrier {gate} was removed and still stands" for gate in standing if gate in ended]
    what = Counter(record.what for record in run.records)
    if not what["passed"]:
        problems.append("no worker passed a barrier")
    if not standing:
        problems.append("no record says which barriers stand at the end")
    figures = {"removed": len(ended), "passed": what["passed"], "waits cut short": what["lost"]}
    return Judgement(problems, figures)


def _who(record: Record) -> str:
    return f"worker {record.worker}, life {record.life}"


def _held_up(run: Run, removed: dict[int, float]) -> list[str]:
    """Those who waited, CONNECTED all the time, at a barrier that had long been removed."""
    problems = []
    by_life = lives(run)
    waiting: dict[tuple[int, int], Record] = {}
    for record in run.records:
        who = record.worker, record.life
        if record.what == "waiting":
            waiting[who] = record
        elif record.what in ("passed", "not passed", "lost"):
            began = waiting.pop(who)
            gate = record.fields["gate"]
            since_s = max(began.at_s, removed.get(gate, record.at_s))
            is_late = record.at_s - since_s > run.session_timeout_s
            is_judged = run.is_timed or record.what == "not passed"  # then it has not just come late
            if is_late and is_judged and not by_life[who].is_broken(began.at_s, record.at_s):
                problems.append(
                    f"{_who(record)} waited at barrier {gate} until {record.at_s:.3f} s, "
                    f"{record.at_s - since_s:.3f} s after its removal"
                )
    return problems
