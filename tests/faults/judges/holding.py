"""Which client held something, and until when that can be proved.

A process that is frozen, or cut off for longer than its session lives, cannot know that it has lost a lock before
it hears of it. So for the judge a holding ends with the first of these: the release; the first moment at which the
client was not CONNECTED, or could have been late to notice (its journal has a gap, its session was expired on
purpose); the last line of a process that was killed. What a server has confirmed in between counts in any case.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tests.faults.load import Record, Run

# Kazoo notices silence after 2/3 of the session timeout: less than the other third. See also Pace.notice_s.
SHARE_OF_TIMEOUT = 0.2


class Life:
    """What one process wrote, from its start to its end or KILL."""

    def __init__(self, records: Sequence[Record], run: Run) -> None:
        self.name = f"worker {records[0].worker}, life {records[0].life}"
        times = [record.at_s for record in records]
        self.first_s, self.last_s = times[0], times[-1]
        longest_s = run.session_timeout_s * SHARE_OF_TIMEOUT
        self._gaps = [(before, after) for before, after in itertools.pairwise(times) if after - before > longest_s]
        self._breaks = [
            record.at_s for record in records if record.what == "state" and record.fields["state"] != "CONNECTED"
        ]
        states = [record for record in records if record.what == "state"]
        self._outages = [
            (lost.at_s, then.at_s)
            for lost, then in itertools.pairwise([*states, records[-1]])
            if lost.what == "state" and lost.fields["state"] != "CONNECTED"
        ]
        mine = f"/{records[0].worker} "
        self._expiries = [
            (fault.began_s, fault.ended_s)
            for fault in run.faults
            if fault.kind == "expire" and mine in fault.target
        ]

    def is_broken(self, since_s: float, until_s: float) -> bool:
        """Whether the session may have ended in that time, or was not CONNECTED all of it."""
        return (
            any(
                began_s <= until_s and since_s < ended_s
                for began_s, ended_s in (*self._outages, *self._gaps, *self._expiries)
            )
            or self.last_s < until_s
        )

    def trusted_until(self, asked_s: float, since_s: float, until_s: float) -> float:
        """Until when, at most `until_s`, it is provable that what was acquired at `since_s` was still held.

        :returns: less than `since_s` if nothing is provable.
        :param asked_s: when it was asked for.
        """
        at = bisect_right(self._breaks, since_s)
        ends = [until_s, self.last_s, *self._breaks[at : at + 1]]
        # A client that is SUSPENDED by one ensemble has no other state to tell when it loses the lock's.
        ends += [began_s for began_s, ended_s in self._outages if began_s <= since_s < ended_s]
        ends += [began_s for began_s, ended_s in (*self._gaps, *self._expiries) if ended_s > asked_s]
        return min(ends)


def lives(run: Run) -> dict[tuple[int, int], Life]:
    """By worker and life."""
    found: dict[tuple[int, int], list[Record]] = defaultdict(list)
    for record in run.records:
        if record.worker >= 0:
            found[record.worker, record.life].append(record)
    return {key: Life(records, run) for key, records in found.items()}


class Holding(NamedTuple):
    what: str
    who: str
    since_s: float
    until_s: float


def overlaps(holdings: Iterable[Holding]) -> list[str]:
    """What was held by two at once, in words."""
    problems = []
    latest: dict[str, Holding] = {}
    for holding in sorted(holdings, key=lambda each: each.since_s):
        before = latest.get(holding.what)
        if before is not None and holding.since_s < before.until_s:
            problems.append(
                f"{holding.what} was held by {before.who} from {before.since_s:.3f} to {before.until_s:.3f} s "
                f"and by {holding.who} from {holding.since_s:.3f} to {holding.until_s:.3f} s"
            )
        if before is None or holding.until_s > before.until_s:
            latest[holding.what] = holding
    return problems
