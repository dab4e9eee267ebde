"""Mutations of what a client does while a directory moves, each of which breaks a promise in sight."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any
from unittest.mock import PropertyMock, patch

from parkazoo.engine.carrying import Carrying
from parkazoo.engine.driver import Driver
from parkazoo.engine.following import Following
from parkazoo.engine.form_change import FormChange
from parkazoo.engine.moves import Moves
from parkazoo.engine.owning import Owning
from parkazoo.protocol import old_place
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.context import Context
from parkazoo.protocol.hold import Hold
from parkazoo.protocol.moving import MOVES
from parkazoo.protocol.past import CATCH_UP
from parkazoo.protocol.placement import Directory
from parkazoo.protocol.steps import Operation
from parkazoo.protocol.where import move_end
from parkazoo.protocol.where.lookup import decided, named_by
from parkazoo.protocol.where.places import Places
from parkazoo.types.znodes import ZnodeStat
from tests.explore.mutation import Fault, Right, instead, left_out, nothing
from tests.explore.sessions.families import ALIKE, Sessions
from tests.explore.sessions.mutants import SessionMutant, acknowledging_at_once

NOT_THERE = "the children are not there|the copy is not as the original|one ZooKeeper answers"
SET, MAKE = "mirrored moves, set, get", "mirrored moves, make, list"
HOLDS, LATE_COPY = "mirrored moves, hold", "and the children are not there"


def seen_in(program: str, troubles: str = "", *, other: str = ALIKE, start: str = "a") -> Sessions:
    return Sessions(program, other, troubles, start, "apart")


# ---- what is wrong -----------------------------------------------------------------------------


def with_places(change: Any) -> Fault:
    """Each memory of places is changed when it has been made."""

    def wrong(right: Right) -> Right:
        def begin(places: Places, *arguments: Any, **named: Any) -> None:
            right(places, *arguments, **named)
            change(places)

        return begin

    return instead(Places.__init__, wrong)


def guessing(right: Right) -> Right:
    def wrong(places: Places) -> None:
        right(places)
        places.guess_again()

    return wrong


def reading_no_pin_again(right: Right) -> Right:
    def wrong(context: Context, d: Directory, data: bytes) -> Operation[Directory]:
        if context.hold is not None and context.hold.concerns(d.path):
            yield ()
        return (yield from named_by(context, d, data))

    return wrong


def only_patiently(right: Right) -> Right:
    """Who has lost patience goes on, and leaves the mark."""

    def wrong(context: Context, moving: Any, before: Any, is_impatient: bool) -> Operation[Any]:
        if is_impatient:
            return True, before
        return (yield from right(context, moving, before, is_impatient))

    return wrong


def leaving_it(right: Right) -> Right:
    def wrong(*arguments: Any) -> Operation[bool]:
        return True
        yield

    return wrong


def carrying_nothing(right: Right) -> Right:
    def wrong(carrying: Any) -> list[Any]:
        return []

    return wrong


def comparing_nothing(right: Right) -> Right:
    def wrong(carrying: Any, stat: Any) -> None:
        right(carrying, stat._replace(mzxid=1 << 40) if isinstance(stat, ZnodeStat) else stat)

    return wrong


def asking_for_the_guard(right: Right) -> Right:
    return lambda owning, *arguments: right(
        owning, *arguments[:6], arguments[6].removesuffix(".open"), arguments[7]
    )


def asking_for_nothing(right: Right) -> Right:
    def wrong(owning: Owning, *arguments: Any) -> None:
        right(owning, *arguments[:6], MOVES, arguments[7])

    return wrong


def hearing_nothing(right: Right) -> Right:
    """The server where the children were is not asked."""

    def ask(carrying: Carrying, port: Any, request: Any, then: Any) -> None:
        if request == CATCH_UP:
            carrying._runtime.call(partial(then, None))
        else:
            right(carrying, port, request, then)

    return ask


TOLD, WATCH = "and that is not so", "mirrored moves, watch"
MUTANTS: Mapping[str, SessionMutant] = {
    "nobody holds": SessionMutant(
        instead(Hold.concerns, lambda _: lambda hold, directory: False), NOT_THERE, seen_in(SET)
    ),
    "a hold ends before the mark is gone": SessionMutant(
        instead(move_end._is_there, lambda _: _not_there), NOT_THERE, seen_in("mirrored moves, at once")
    ),
    "a holder reads no pin again": SessionMutant(instead(decided, reading_no_pin_again), NOT_THERE, seen_in(SET)),
    "a holder keeps what it remembers": SessionMutant(
        with_places(Places.guess_again), NOT_THERE, seen_in(SET, start="ab")
    ),
    "a holder remembers what it sees before the end": SessionMutant(
        with_places(Places.trust_pin), NOT_THERE, seen_in("mirrored moves, read elsewhere", start="ab")
    ),
    "a directory that has moved is guessed": SessionMutant(
        instead(Places.trust_pin, guessing), NOT_THERE, seen_in("mirrored moves, delete in vain", "y", start="ab")
    ),
    "a client says at once that a directory moves": SessionMutant(
        instead(Following.go_on, acknowledging_at_once), NOT_THERE, seen_in(MAKE, start="ab")
    ),
    "a directory moves while what is older is under way": SessionMutant(
        lambda: patch.object(Driver, "has_older", PropertyMock(return_value=False)), NOT_THERE, seen_in(MAKE)
    ),
    "a directory moves, and what waits for a join goes on": SessionMutant(
        left_out(Following._fail_waiting, FormChange._await_threads, FormChange._await_older),
        NOT_THERE,
        seen_in(MAKE),
    ),
    "a session that begins as a directory moves is used": SessionMutant(
        instead(Following.unready, nothing), NOT_THERE, seen_in(MAKE, other="nothing")
    ),
    "a move that was slept through does not count": SessionMutant(
        lambda: patch.object(ClusterMap, "last_move", property(_active)),
        NOT_THERE,
        seen_in("mirrored moves, in groups", other="nothing"),
    ),
    "a holder goes on without taking the mark away": SessionMutant(
        instead(move_end.look_at_mark, only_patiently), NOT_THERE, seen_in(SET, "i", start="ab")
    ),
    "who deletes a directory leaves its old place": SessionMutant(
        instead(old_place._delete_old_place, leaving_it),
        "its place from before the move has not",
        seen_in("mirrored moves, delete", "x", other="nothing", start="ab"),
    ),
    "watches stay where the children were": SessionMutant(
        instead(Carrying._left, carrying_nothing),
        f"{TOLD}|on no server",
        seen_in(WATCH, other="nothing", start="b"),
    ),
    "a moved watch is not compared with the seal": SessionMutant(
        instead(Carrying._have_seal, comparing_nothing), TOLD, seen_in(WATCH, other="changes it", start="b")
    ),
    "owners do not copy their ephemerals": SessionMutant(
        instead(Moves.have_copies, lambda _: lambda moves: True),
        "nothing is in its way",
        seen_in(HOLDS, other="nothing"),
    ),
    "owners copy whenever they come to it": SessionMutant(
        instead(Owning.__init__, asking_for_nothing), LATE_COPY, seen_in(HOLDS, "e", other="nothing", start="ab")
    ),
    "owners copy until the copy is sealed": SessionMutant(
        instead(Owning.__init__, asking_for_the_guard), LATE_COPY, seen_in(HOLDS, "e", other="nothing", start="ab")
    ),
    "events that are on their way are not waited for": SessionMutant(
        instead(Carrying._ask, hearing_nothing), TOLD, seen_in(WATCH, other="changes it", start="b"), late=(1,)
    ),
    "a client says that all has moved before it has looked": SessionMutant(
        instead(Moves.have_ended, lambda _: lambda moves, cluster_map: True),
        f"{TOLD}|on no server",
        seen_in(WATCH, other="nothing", start="b"),
    ),
}


def _not_there(*arguments: Any) -> Operation[bool]:
    return False
    yield


def _active(cluster_map: ClusterMap) -> str:
    return "" if cluster_map.move is None else cluster_map.move.name
