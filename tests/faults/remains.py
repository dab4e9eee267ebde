"""What the faults have left in the tree, as fsck sees it."""

from __future__ import annotations

from parkazoo.fsck import Report, Tally, check
from parkazoo.protocol.findings import DIFFERING_ACLS, STALE_DONE, UNFINISHED_DELETES
from tests.faults.load import Judgement

ABOUT = "parkazoo fsck finds nothing, once it has finished what killed clients had begun"
# A client that dies half way may leave these for the next client there, or for fsck: docs/design/protocol.md.
LEFT_HALF_WAY = (UNFINISHED_DELETES, STALE_DONE, DIFFERING_ACLS)
SHOWN = 3


def judge_tree(hosts: str) -> Judgement:
    """After all clients have ended."""
    before = check(hosts, repair=True)
    after = check(hosts)
    figures: dict[str, int | float | str] = {"znodes": before.looked_at}
    figures |= {each.name: before.tallies[each].found for each in LEFT_HALF_WAY}
    problems = _problems(before, "") + _problems(after, "still ", *LEFT_HALF_WAY)
    if not after.is_complete:
        problems.append(f"{after.hidden.found} znodes could not be looked at")
    return Judgement(problems, figures)


def _problems(report: Report, still: str, *also: object) -> list[str]:
    return [
        f"{still}{tally.found} {kind.name}, of them {_places(tally)}"
        for kind, tally in report.tallies.items()
        if tally.found and not kind.is_note and (kind not in LEFT_HALF_WAY or kind in also)
    ]


def _places(tally: Tally) -> str:
    return ", ".join(f"{each.ensemble} {each.path}" for each in tally.paths[:SHOWN])
