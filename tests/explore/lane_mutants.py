"""Mutations of lanes of deferred writes, each of which breaks a promise in the explorer's sight."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from parkazoo.engine.deferring import Deferrals, RunningLane
from parkazoo.protocol import chain
from parkazoo.protocol.deferral import Lane
from tests.explore.mutation import Mutation


@dataclass(frozen=True)
class LaneMutant(Mutation):
    """:param program: in which it is seen. :param violation: what the explorer says."""

    program: str
    violation: str


LANDED, READS = "landed: ", "does not see"
SEND = "at, error = failure((yield from ask(ensemble, kind(multi))))"
LANE_MUTANTS: Mapping[str, LaneMutant] = {
    "no chain": LaneMutant(
        RunningLane._send, ["version = batch.number - self.lane.base", "version = -1"], "refused", LANDED
    ),
    "the marker is not in the same multi": LaneMutant(
        chain._chained,
        [SEND, "yield from commit(ensemble, multi[:1]); " + SEND.replace("multi)", "multi[1:])")],
        "puts",
        READS,
    ),
    "sent again from the batch before": LaneMutant(
        Lane.settled, ["self._flight[0].number < count", "self._flight[0].number < count - 1"], "puts", LANDED
    ),
    "sent again from the batch behind": LaneMutant(
        Lane.settled,
        ["self._flight[0].number < count", "self._flight[0].number <= count"],
        "puts",
        "write 2 is committed",
    ),
    "sent again after the expiry": LaneMutant(
        RunningLane._told,
        [
            "is_over = self._session.number != self._client",
            "is_over = False; self._client = self._session.number",
            "self._is_asking = False",
            "self._is_asking = self.lane._is_lost = False",
        ],
        "expiry",
        "sent after the expiry",
    ),
    "the old marker stays": LaneMutant(
        chain.replace_marker, ["[Delete(path, old[1].version), create]", "[create]"], "puts", LANDED
    ),
    "batches of earlier markers do not count": LaneMutant(
        chain.replace_marker, ["_base(old[0]) + old[1].version", "old[1].version"], "two losses", LANDED
    ),
    "a lost batch counts as refused": LaneMutant(
        Lane._resolve,
        [
            "any(each.outcome is Outcome.LOST for each in self._flight)",
            "False",
            "first is None or is_lost or first.outcome is not Outcome.FAILED",
            "first is None or is_lost",
        ],
        "puts",
        "only these have landed",
    ),
    "reads do not wait": LaneMutant(Deferrals.hold, ["if self._early is None:", "if False:"], "puts", READS),
    "a refused batch is left out whole": LaneMutant(
        Lane._leave_out, ["batch.writes[:at] + behind", "behind"], "refused in a batch", LANDED
    ),
    "no guard": LaneMutant(
        RunningLane._send, ["self._guard, requests", "None, requests"], "guard", "without its guard"
    ),
}
