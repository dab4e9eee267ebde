"""A violation of sessions as people read it: a line for each event."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tests.explore.scenario import Violation
from tests.explore.sessions.beginning import NAMES
from tests.explore.sessions.client import Tell
from tests.explore.sessions.scenario import SessionScenario
from tests.explore.sessions.scheduler import Scheduler
from tests.explore.sessions.world import KINDS, OF_COMMAND, Move, World
from tests.explore.words import answer_in_words, in_words


def events_of(scenario: SessionScenario, moves: Sequence[Move]) -> Iterator[str]:
    """A line for each event, up to that which is a violation."""
    scheduler = Scheduler(scenario)
    world = scheduler.begin()
    for move in moves:
        yield _told(world, move)
        try:
            after = scheduler.make(move, world)
        except Violation:
            return
        for index in range(len(world.clients)):
            yield from _consequences(world, after, index)
        world = after


def _told(world: World, move: Move) -> str:
    name = NAMES[move.ensemble]
    if move.kind == "m":
        return f"ensemble {name} gets the next map"
    if move.kind == "k":
        return f"the command sees that all on ensemble {name} work by the map of epoch {world.copies[0]}"
    if move.kind in OF_COMMAND:
        return f"{KINDS[move.kind].removesuffix(' on')}, behind: {world.command}"
    said = f"client {move.client} {KINDS[move.kind]}"
    if move.kind in "gwfhin":
        return said
    port = world.clients[move.client].position.ports[move.ensemble]
    outbox = ", ".join(map(in_words, port.outbox))
    return f"{said} ensemble {name}" + (f": {outbox}" if outbox else "")


def _consequences(before: World, after: World, index: int) -> Iterator[str]:
    """What a client notices."""
    old, new = before.clients[index], after.clients[index]
    was, now = old.position, new.position
    who = f"client {index}  "
    item = new.received.item
    if new.received is not old.received and isinstance(item, Tell):
        yield f"{who}reads {answer_in_words(item.what)}"
    for ended in now.ended[len(was.ended) :]:
        yield f"{who}is answered {answer_in_words(ended.result)} to {in_words(now.calls[ended.number])}"
    for told in now.told[len(was.told) :]:
        yield f"{who}watch of operation {told.operation} gets {told.event}"
    if now.losts > was.losts:
        yield f"{who}is LOST"
    if now.state != was.state or now.suspensions > was.suspensions:
        yield f"{who}is {now.state}"
    if now.epoch != was.epoch:
        yield f"{who}works by the map of epoch {now.epoch}"
    for request in now.calls[len(was.calls) :]:
        yield f"{who}issues {in_words(request)}"
