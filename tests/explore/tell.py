"""A violation as people read it: one line for each event, and the command that lets it happen again."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeGuard

from tests.explore.history import Called, Event, Returned
from tests.explore.judge import Judge
from tests.explore.scenario import Scenario, Violation
from tests.explore.scheduler import Scheduler
from tests.explore.words import answer_in_words, in_words
from tests.explore.world import CallBack, Crash, Deliver, GiveUp, Lose, Move, Serve, Take, World, moves_to

applied: list[str] = []
"""The names of the mutants that are applied now: a command to repeat a violation has to name them."""


def report(name: str, events: Iterable[str], moves: Sequence[object], violation: str) -> str:
    """What happened in a scenario, and the command that lets it happen again."""
    lines = [f"{violation}: {name or 'a scenario of its own'}", *(f"  {line}" for line in events)]
    if name:
        lines.append(f"to replay it: {command(name, moves)}")
    return "\n".join(lines)


def command(name: str, moves: Sequence[object]) -> str:
    words = ["python", "-m", "tests.explore", "--replay", name]
    if moves:
        words.append(",".join(map(str, moves)))
    for mutant in applied:
        words += ["--mutant", mutant]
    return shlex.join(words)


def events_of(scenario: Scenario, moves: Sequence[Move]) -> Iterator[str]:
    """Client, request, ensemble and answer of each event, up to that which is a violation."""
    scheduler = Scheduler(scenario)
    world = scheduler.begin()
    try:
        opening = moves_to(scheduler.opened())
    except Violation as violation:
        yield f"the opening ends with: {violation}"
        return
    for move in (*opening, *moves):
        said = _told(scheduler, world, move)
        try:
            after = scheduler.make(move, world)
        except Violation:
            yield said
            return
        since = [*after.history][world.history.length :]
        yield from (f"client {each.client}  issues {in_words(each.request)}" for each in since if _is_call(each))
        yield said
        yield from _consequences(since, world, after, move.client)
        world = after
    try:
        observed = Judge(scenario).observe(world.model)
    except Violation:
        return
    for request, result in observed:
        yield f"then      {in_words(request)} -> {result}"


def _told(scheduler: Scheduler, world: World, move: Move) -> str:
    who = f"client {move.client}"
    if isinstance(move, Serve):
        late = "" if move.at is None else f" (as of state {move.at})"
        answer = answer_in_words(scheduler.answer(world, move))
        return f"{who}    ensemble {move.ensemble}: {in_words(scheduler.request(world, move))} -> {answer}{late}"
    if isinstance(move, Deliver):
        arrival = world.clients[move.client].inboxes[move.ensemble][0]
        return f"{who}    reads from ensemble {move.ensemble}: {answer_in_words(arrival.what)}"
    if isinstance(move, CallBack):
        return f"{who}    watch thread makes its next call"
    if isinstance(move, GiveUp):
        given_up = world.clients[move.client].position.calls[move.operation]
        return f"{who}    gives up {in_words(given_up)}"
    if isinstance(move, Take):
        return f"{who}    connection to ensemble {move.ensemble} takes a request"
    if isinstance(move, Crash):
        return f"{who}    crashes"
    assert isinstance(move, Lose)
    lost = ", ".join(map(in_words, world.clients[move.client].position.outboxes[move.ensemble]))
    return f"{who}    connection to ensemble {move.ensemble} lost {'behind' if move.is_done else 'before'} {lost}"


def _is_call(event: Event) -> TypeGuard[Called]:
    return isinstance(event, Called)


def _consequences(since: Sequence[Event], before: World, after: World, client: int) -> Iterator[str]:
    """What a client's program notices."""
    position = after.clients[client].position
    for event in since:
        if isinstance(event, Returned):
            request = in_words(position.calls[event.operation])
            yield f"client {client}  is answered {event.result} to {request}"
    for told in position.told[len(before.clients[client].position.told) :]:
        yield f"client {client}  watch of operation {told.operation} gets {told.event}"
