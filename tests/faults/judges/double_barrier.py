"""What the journals of loads/double_barrier.py must say.

The judge checks: no enter() returns before as many as the barrier is for have begun to enter; no leave()
returns while another worker has entered and not begun to leave, as long as that one's session provably lived
(tests/faults/judges/holding.py).
"""

from __future__ import annotations

from collections import Counter, defaultdict

from tests.faults.judges.holding import lives
from tests.faults.load import Judgement, Record, Run
from tests.faults.loads.double_barrier import CLIENTS


def judge(run: Run) -> Judgement:
    by_life = lives(run)
    rounds: dict[int, dict[str, dict[tuple[int, int], Record]]] = defaultdict(lambda: defaultdict(dict))
    for record in run.records:
        if "round" in record.fields:
            rounds[record.fields["round"]][record.what][record.worker, record.life] = record
    problems = []
    for number, records in rounds.items():
        begun = sorted(record.at_s for record in records["entering"].values())
        for who, record in records["entered"].items():
            if sum(at_s < record.at_s for at_s in begun) < CLIENTS:
                problems.append(
                    f"round {number}: {by_life[who].name} entered at {record.at_s:.3f} s, before all came"
                )
            end = records["leaving"].get(who) or records["given up"].get(who)
            until_s = by_life[who].trusted_until(
                records["entering"][who].at_s, record.at_s, end.at_s if end else by_life[who].last_s
            )
            problems += [
                f"round {number}: {by_life[other].name} left at {left.at_s:.3f} s, but {by_life[who].name} "
                f"was inside until {until_s:.3f} s"
                for other, left in records["left"].items()
                if record.at_s < left.at_s < until_s
            ]
    what = Counter(record.what for record in run.records)
    if not what["left"]:
        problems.append("no worker left a barrier")
    figures = {
        "rounds": len(rounds),
        "entered": what["entered"],
        "left": what["left"],
        "given up": what["given up"],
    }
    return Judgement(problems, figures)
