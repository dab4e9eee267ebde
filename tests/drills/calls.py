"""Calls of all clients while something was done to the servers, beside the goal. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from parkazoo.monitoring import NO_ERROR
from tests.faults.call_count import CALLS
from tests.faults.load import Record

ANSWERS = frozenset({NO_ERROR, "no_node", "node_exists", "bad_version", "not_empty"})  # which servers give


class Goal(NamedTuple):
    """:param allowed: outcomes that are errors, of which there may be some.
    :param most_share: of the calls. :param longest_s: that a call may take.
    """

    allowed: frozenset[str]
    most_share: float
    longest_s: float


class Calls(NamedTuple):
    """:param errors: by outcome. :param longest: the operation that took `longest_s`."""

    total: int
    errors: Mapping[str, int]
    longest_s: float
    longest: str

    @property
    def error_share(self) -> float:
        """Returns how many of the calls ended with an error, 0 to 1."""
        return sum(self.errors.values()) / self.total if self.total else 0.0

    def problems(self, goal: Goal) -> list[str]:
        """Returns where the goal is missed, in words."""
        found = [f"{count} calls: {name}" for name, count in self.errors.items() if name not in goal.allowed]
        if not self.total:
            found.append("no call was counted")
        if self.error_share > goal.most_share:
            found.append(f"{self.error_share:.2%} of the calls failed, more than {goal.most_share:.2%}")
        if self.longest_s > goal.longest_s:
            found.append(f"a {self.longest} took {self.longest_s:.2f} s, longer than {goal.longest_s:g} s")
        return found


def count_calls(records: Iterable[Record], since_s: float, until_s: float) -> Calls:
    """Returns the calls that journals counted between two times."""
    outcomes = Counter[str]()
    longest: tuple[float, str] = (0.0, "")
    for record in records:
        if record.what == CALLS and since_s <= record.at_s <= until_s:
            outcomes.update(record.fields["outcomes"])
            longest = max(longest, (record.fields["longest_s"], record.fields["longest"]))
    errors = {name: count for name, count in sorted(outcomes.items()) if name not in ANSWERS}
    return Calls(outcomes.total(), errors, *longest)
