"""Mutations of lanes of deferred writes, each of which breaks a promise in the explorer's sight."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kazoo.exceptions import ConnectionLoss, SessionExpiredError

from parkazoo.engine.deferred.lanes import Lane
from parkazoo.engine.deferred.marker import LaneMarker
from parkazoo.engine.deferred.own_operations import OwnOperations
from parkazoo.engine.deferred.writes import COMMITTED, Batch, Write
from parkazoo.kazoo_private import Delete, GetData, SetData, Transaction
from parkazoo.protocol import plans
from parkazoo.protocol.chain import BASE, ChainedBatch, Landed, replace_marker
from parkazoo.protocol.context import Context
from parkazoo.protocol.ops import batch
from parkazoo.protocol.ops.transaction import Attempt
from parkazoo.protocol.order import Claims
from parkazoo.protocol.placement import CERTAIN, DEFERRED, Directory, Place, split
from parkazoo.protocol.steps import Operation, Request, Step
from tests.explore.edits import Between, saying, through, without
from tests.explore.lanes import World
from tests.explore.mutation import Mutation, in_calls, instead
from tests.explore.znodes import path_of

Right = Callable[..., Any]


@dataclass(frozen=True)
class LaneMutant(Mutation):
    """:param program: in which it is seen. :param violation: what the explorer says."""

    program: str
    violation: str


def marker_first(steps: tuple[Step, ...]) -> Operation[list[Any]]:
    """A batch's step of the chain goes in a multi of its own, before the others."""
    answers: list[Any] = []
    for ensemble, request in steps:
        if isinstance(request, Transaction) and split(path_of(request.operations[0]))[0] == DEFERRED:
            (first,) = yield ((ensemble, Transaction(request.operations[:1])),)
            (rest,) = yield ((ensemble, type(request)(request.operations[1:])),)
            answers.append(rest if isinstance(rest, Exception) else [*first, *rest])
        else:
            answers += yield ((ensemble, request),)
    return answers


def fget(owned: Any) -> Right:
    """The function of a property."""
    found: Right = owned.fget
    return found


def at_once(right: Right) -> Right:
    """Unless operations wait already."""

    def call(own: OwnOperations, request: Request, reply: Any) -> None:
        for lanes in own.lanes:
            lanes.flush()
        if own._kept is None:
            own.session.call(request, reply)
        else:
            right(own, request, reply)

    return call


def never(right: Right) -> Any:
    return property(lambda lane: False)


def for_any_version(right: Right) -> Any:
    return property(lambda batch: SetData(batch.marker.path, batch.data, -1))


def without_guard(right: Right) -> Any:
    return property(lambda batch: [*batch.writes])


def from_the_batch_before(right: Right) -> Right:
    def settled(lane: Lane, count: int, error: Exception | None = None) -> None:
        lane.marker.base = max(count - 1, 0)
        right(lane, lane.marker.base, error)

    return settled


def from_the_batch_behind(right: Right) -> Right:
    def settled(lane: Lane, count: int, error: Exception | None = None) -> None:
        while lane._flight and lane._flight[0].number <= count:
            lane._end(lane._flight.popleft().writes, COMMITTED)
        right(lane, count, error)

    return settled


def in_the_next_session(right: Right) -> Right:
    def settled(lane: Lane, count: int, error: Exception | None = None) -> None:
        if isinstance(error, SessionExpiredError):
            lane._lanes.client, error = lane._lanes.own.session.number, None
        right(lane, count, error)

    return settled


def lost_is_refused(right: Right) -> Right:
    def answered(lane: Lane, batch: Batch, answer: Landed | Exception) -> None:
        right(lane, batch, Landed(0, answer) if isinstance(answer, ConnectionLoss) else answer)

    return answered


def elsewhere_is_refused(right: Right) -> Right:
    def answered(lane: Lane, batch: Batch, answer: Landed | Exception) -> None:
        right(lane, batch, answer._replace(elsewhere=-1) if isinstance(answer, Landed) else answer)

    return answered


def without_those_in_front(right: Right) -> Right:
    def leave_out(lane: Lane, batch: Batch, at: int, error: Exception) -> None:
        del batch.writes[:at]
        right(lane, batch, 0, error)

    return leave_out


def without_the_first(right: Right) -> Right:
    def take_in(lane: Lane, writes: list[Write]) -> None:
        right(lane, writes[1:])

    return take_in


def left_in_place(right: Right) -> Right:
    def move(lane: Lane, directory: str, ensemble: int) -> None:
        before = [Batch(batch.writes) for batch in lane._again]
        right(lane, directory, ensemble)
        lane._again = deque(before)

    return move


def only_the_first(right: Right) -> Right:
    def move(lane: Lane, directory: str, ensemble: int) -> None:
        again, waiting, size = lane._again, lane._waiting, lane._waiting_bytes
        lane._again, lane._waiting = deque([Batch(again[0].writes[:1])]), deque()
        right(lane, directory, ensemble)
        del again[0].writes[0]
        lane._again = deque(batch for batch in again if batch.writes)
        lane._waiting, lane._waiting_bytes = waiting, size

    return move


def is_delete(request: Request) -> bool:
    return isinstance(request, Delete)


def counting_from_zero(marker: Place, *_: object) -> Between:
    """The old marker says that no batch had landed before it."""

    def between(steps: tuple[Step, ...]) -> Operation[list[Any]]:
        answers = yield steps
        return [
            (json.dumps({BASE: 0}).encode(), answer[1])
            if isinstance(request, GetData) and request.path == marker.path and not isinstance(answer, Exception)
            else answer
            for (_, request), answer in zip(steps, answers, strict=True)
        ]

    return between


def as_if_certain(right: Right) -> Right:
    """The places of a batch that makes and deletes nothing need no proof."""

    def of_sets(context: Context, request: ChainedBatch, above: dict[str, Directory]) -> list[Request] | None:
        multi: list[Request] | None = right(context, request, above)
        above.update({path: d._replace(certainty=CERTAIN) for path, d in above.items()})
        return multi

    return of_sets


def where_it_is_thought_to_be(right: Right) -> Right:
    return lambda context, path: saying(context.known(path).mirror.ensemble)()


def without_sets(right: Right) -> Right:
    """As if the sets of a batch took one request wherever they go."""

    def lasting(context: Context, request: ChainedBatch) -> Claims | None:
        others = [write for write in request.writes if not isinstance(write, SetData)]
        claims: Claims | None = right(context, request._replace(writes=others))
        return claims

    return lasting


def at_its_guess(right: Right) -> Right:
    def found(world: World, ensemble: int | Exception | None) -> None:
        directory = world.writes[world.issued].request.path.rpartition("/")[0]
        guessed = world.driver.context.known(directory).mirror.ensemble
        right(world, guessed if ensemble is None else ensemble)

    return found


def unless_asked(right: Right) -> Right:
    def remove(marker: LaneMarker) -> None:
        if not marker.is_asked:
            right(marker)

    return remove


def of_the_last_alone(right: Right) -> Right:
    def remove_all(marker: LaneMarker) -> None:
        del marker._left[:-1]
        right(marker)

    return remove_all


def nothing(right: Right) -> Right:
    return lambda *_: None


LANDED, READS = "landed: ", "does not see"
LANE_MUTANTS: Mapping[str, LaneMutant] = {
    "no chain": LaneMutant(instead(fget(ChainedBatch.step), for_any_version), "refused", LANDED),
    "the marker is not in the same multi": LaneMutant(
        in_calls(ChainedBatch, through(lambda *_: marker_first)),
        "puts",
        READS,
    ),
    "sent again from the batch before": LaneMutant(instead(Lane.settled, from_the_batch_before), "puts", LANDED),
    "sent again from the batch behind": LaneMutant(
        instead(Lane.settled, from_the_batch_behind), "puts", "write 2 is committed"
    ),
    "sent again after the expiry": LaneMutant(
        instead(Lane.settled, in_the_next_session), "expiry", "sent after the expiry"
    ),
    "the old marker stays": LaneMutant(
        instead(replace_marker, through(lambda *_: without(is_delete))), "puts", LANDED
    ),
    "batches of earlier markers do not count": LaneMutant(
        instead(replace_marker, through(counting_from_zero)), "two losses", LANDED
    ),
    "a lost batch counts as refused": LaneMutant(
        instead(Lane.answered, lost_is_refused), "puts", "write 0 is failed"
    ),
    "reads do not wait": LaneMutant(instead(fget(Lane.is_in_doubt), never), "puts", READS),
    "reads overtake a lost connection": LaneMutant(
        instead(OwnOperations.call, at_once), "puts, and own reads", READS
    ),
    "a refused batch is left out whole": LaneMutant(
        instead(Lane._leave_out, without_those_in_front), "refused in a batch", LANDED
    ),
    "no guard": LaneMutant(instead(fget(ChainedBatch.operations), without_guard), "guard", "without its guard"),
    "what is not found is not proved": LaneMutant(
        instead(batch._of_sets, as_if_certain),
        "a wrong hint",
        "write 0 is failed",
    ),
    "what is elsewhere is refused": LaneMutant(
        instead(Lane.answered, elsewhere_is_refused), "another life", "write 0 is failed"
    ),
    "what is elsewhere is lost": LaneMutant(instead(Lane._take_in, without_the_first), "another life", LANDED),
    "what is elsewhere is left in place too": LaneMutant(
        instead(Lane._move, left_in_place), "a wrong hint", LANDED
    ),
    "only what is in front goes elsewhere": LaneMutant(
        instead(Lane._move, only_the_first), "another life, and more is written", LANDED
    ),
    "a create does not ask for the proof": LaneMutant(
        instead(Attempt._proof_of, nothing),
        "another life, below its home",
        "does not belong",
    ),
    "a place is guessed": LaneMutant(
        instead(batch.find_children, where_it_is_thought_to_be),
        "a place that is not known",
        LANDED,
    ),
    "a batch that has to look for a place is overtaken": LaneMutant(
        instead(plans._chained_lasting, without_sets),
        "a form that rises, own reads",
        READS,
    ),
    "a directory that is still to be made is not waited for": LaneMutant(
        instead(World._found, at_its_guess), "a directory of its own", "is failed"
    ),
    "a marker that comes behind the end stays": LaneMutant(
        instead(LaneMarker.remove, unless_asked), "closed after the expiry", "markers are left"
    ),
    "a marker's delete is lost": LaneMutant(instead(LaneMarker._removed, nothing), "closed", "markers are left"),
    "a marker whose answer was lost is forgotten": LaneMutant(
        instead(LaneMarker._remove_all, of_the_last_alone), "closed", "markers are left"
    ),
}
