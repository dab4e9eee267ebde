"""Mutations of lanes of deferred writes, each of which breaks a promise in the explorer's sight."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from parkazoo.engine.deferrals import Deferrals
from parkazoo.engine.deferring import Lanes, RunningLane
from parkazoo.protocol import chain
from parkazoo.protocol.deferral import Lane
from parkazoo.protocol.grown import batches, claims, multi
from tests.explore.lanes import World
from tests.explore.mutation import Mutation, reworded


@dataclass(frozen=True)
class LaneMutant(Mutation):
    """:param program: in which it is seen. :param violation: what the explorer says."""

    program: str
    violation: str


LANDED, READS = "landed: ", "does not see"
SEND = "at, error = failure((yield from ask(ensemble, kind(multi))))"
LANE_MUTANTS: Mapping[str, LaneMutant] = {
    "no chain": LaneMutant(
        reworded(RunningLane._send, ["version = batch.number - self.lane.base", "version = -1"]), "refused", LANDED
    ),
    "the marker is not in the same multi": LaneMutant(
        reworded(
            chain._chained,
            [SEND, "yield from commit(ensemble, multi[:1]); " + SEND.replace("multi)", "multi[1:])")],
        ),
        "puts",
        READS,
    ),
    "sent again from the batch before": LaneMutant(
        reworded(Lane.settled, ["self._flight[0].number < count", "self._flight[0].number < count - 1"]),
        "puts",
        LANDED,
    ),
    "sent again from the batch behind": LaneMutant(
        reworded(Lane.settled, ["self._flight[0].number < count", "self._flight[0].number <= count"]),
        "puts",
        "write 2 is committed",
    ),
    "sent again after the expiry": LaneMutant(
        reworded(
            RunningLane._told,
            [
                "is_over = self._session.number != self._client",
                "is_over = False; self._client = self._session.number",
                "self._question = None",
                "self._question = None; self.lane._is_lost = False",
            ],
        ),
        "expiry",
        "sent after the expiry",
    ),
    "the old marker stays": LaneMutant(
        reworded(chain.replace_marker, ["[Delete(path, old[1].version), create]", "[create]"]), "puts", LANDED
    ),
    "batches of earlier markers do not count": LaneMutant(
        reworded(chain.replace_marker, ["_base(old[0]) + old[1].version", "old[1].version"]), "two losses", LANDED
    ),
    "a lost batch counts as refused": LaneMutant(
        reworded(
            Lane._resolve,
            [
                "any(each.outcome is Outcome.LOST for each in self._flight)",
                "False",
                "first is None or is_lost or first.outcome not in (Outcome.FAILED, Outcome.APART)",
                "first is None or is_lost",
                "first.outcome is Outcome.FAILED",
                "first.outcome is not Outcome.APART",
            ],
        ),
        "puts",
        "only these have landed",
    ),
    "reads do not wait": LaneMutant(
        reworded(Deferrals.hold, ["if self._early is not self._opening:", "if True:"]), "puts", READS
    ),
    "a refused batch is left out whole": LaneMutant(
        reworded(Lane._leave_out, ["batch.writes[:at] + behind", "behind"]), "refused in a batch", LANDED
    ),
    "no guard": LaneMutant(
        reworded(RunningLane._send, ["self._guard, requests", "None, requests"]), "guard", "without its guard"
    ),
    "what is not found is not proved": LaneMutant(
        reworded(batches.chained, ["if not at or not isinstance(error, NoNodeError):", "if True:"]),
        "a wrong hint",
        "write 0 is failed",
    ),
    "what is elsewhere is refused": LaneMutant(
        reworded(Lane._resolve, ["first.outcome is Outcome.FAILED:", "True:"]), "another life", "write 0 is failed"
    ),
    "what is elsewhere is lost": LaneMutant(
        reworded(Lanes.move, ["take_in(writes)", "take_in(writes[1:])"]), "another life", LANDED
    ),
    "what is elsewhere is left in place too": LaneMutant(
        reworded(
            Lane._give_up_directory,
            ["batch.writes = [write for write in batch.writes if not is_inside(write)]", "pass"],
        ),
        "a wrong hint",
        LANDED,
    ),
    "only what is in front goes elsewhere": LaneMutant(
        reworded(
            Lane._give_up_directory,
            [
                "self.moved.append(Moved(directory, ensemble, inside))",
                "del inside[1:]; is_inside = inside.__contains__; "
                "self.moved.append(Moved(directory, ensemble, inside))",
            ],
        ),
        "another life, and more is written",
        LANDED,
    ),
    "a create does not ask for the proof": LaneMutant(
        reworded(
            multi.Attempt._multi,
            [
                "elif self._is_guarded and not is_fixed(parent) and self.context.places.known(parent).is_native:",
                "elif False:",
            ],
        ),
        "another life, below its home",
        "does not belong",
    ),
    "a place is guessed": LaneMutant(
        reworded(batches.find_children, ["if not is_fixed(path) and not places.is_pinned(path):", "if False:"]),
        "a place that is not known",
        LANDED,
    ),
    "a batch that has to look for a place is overtaken": LaneMutant(
        reworded(
            claims._chained_lasting,
            ["places.is_known(parent) and places.known(parent).mirror.ensemble == ensemble", "True"],
        ),
        "a form that rises, own reads",
        READS,
    ),
    "a directory that is still to be made is not waited for": LaneMutant(
        reworded(World._found, ["ensemble is None and self.lanes.pending", "False"]),
        "a directory of its own",
        "is failed",
    ),
    "a marker that comes behind the end stays": LaneMutant(
        reworded(RunningLane._told, ["if self._is_removed:", "if False:"]),
        "closed after the expiry",
        "markers are left",
    ),
    "a marker's delete is lost": LaneMutant(
        reworded(RunningLane._removed, ["if isinstance(answer, DISCONNECTED):", "if False:"]),
        "closed",
        "markers are left",
    ),
    "a marker whose answer was lost is forgotten": LaneMutant(
        reworded(RunningLane._remove_markers, ["for marker in self._left:", "for marker in self._left[-1:]:"]),
        "closed",
        "markers are left",
    ),
}
