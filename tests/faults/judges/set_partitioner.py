"""What the journals of loads/set_partitioner.py must say.

The judge checks: while one member has acquired an item, and not begun to release it, no other member acquires
it, as long as the first one's session provably lived (tests/faults/judges/holding.py).
"""

from __future__ import annotations

from collections import Counter

from tests.faults.judges.holding import Holding, lives, overlaps
from tests.faults.load import Judgement, Record, Run


def judge(run: Run) -> Judgement:
    by_life = lives(run)
    holdings: list[Holding] = []
    has: dict[str, Record] = {}  # members

    def end(member: str, until_s: float) -> None:
        acquired = has.pop(member, None)
        if acquired is not None:
            since_s = acquired.fields["began"]
            until_s = by_life[acquired.worker, acquired.life].trusted_until(since_s, since_s, until_s)
            items = acquired.fields["items"]
            holdings.extend(Holding(item, f"member {member}", since_s, until_s) for item in items)

    for record in run.records:
        if record.what == "acquired":
            has.setdefault(record.fields["member"], record)
        elif record.what in ("releasing", "failed"):
            end(record.fields["member"], record.at_s)
    for member in [*has]:
        end(member, float("inf"))
    problems = overlaps(holdings)
    what = Counter(record.what for record in run.records)
    if not holdings:
        problems.append("nothing was assigned")
    figures = {
        "items assigned": len(holdings),
        "members": what["joining"],
        "failed": what["failed"],
    }
    return Judgement(problems, figures)
