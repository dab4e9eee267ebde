"""What is known of a client without asking it: see :class:`Ledger`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kazoo.exceptions import NoNodeError
from kazoo.protocol.states import KeeperState, WatchedEvent

from parkazoo.kazoo_private import Close, Create, Create2, Delete, GetData, Transaction
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.placement import MAP, Placement, logical
from tests.explore.sessions.client import OPEN, Accept, Hurry, Input, Lose, Tell, Wait
from tests.explore.sessions.world import ClientState, Ledger, Position, World, replaced
from tests.explore.znodes import EPHEMERAL, SEQUENCE, Answer, Request, has_watch, is_lasting, path_of
from tests.where_is import where_is

MANY = "?"  # an ephemeral of unknown name


def noted(placement: Placement, before: World, world: World, index: int, item: Input) -> World:
    """The client's ledger after it has got something from outside."""
    client, was = world.clients[index], before.clients[index]
    ledger, old, now = client.ledger, was.position, client.position
    if isinstance(item, Tell):
        ledger = _heard(ledger, before, index, item)
        if isinstance(item.what, WatchedEvent):
            fired = [
                n
                for n in live_watches(placement, was)
                if place_of(placement, old, n) == (item.ensemble, item.what.path)
            ]
            ledger = ledger._replace(due=ledger.due.union(fired))
    if isinstance(item, (Lose, Wait)):
        ledger = _lost(placement, ledger, before, index, item)
    if isinstance(item, Accept) and not item.session:  # it has expired
        gone = [n for n in live_watches(placement, was) if place_of(placement, old, n)[0] == item.ensemble]
        ledger = ledger._replace(due=ledger.due.union(gone))
    if isinstance(item, Accept) and item.session and not old.ports[item.ensemble].session:
        ledger = ledger._replace(held=replaced(ledger.held, item.ensemble, frozenset()))
    if now.losts > old.losts:
        nothing = (frozenset[str](),) * len(ledger.held)
        ledger = ledger._replace(awaited=frozenset(), held=nothing, made=frozenset())
    has_changed = now.form is not old.form or now.parting != old.parting
    has_shut = now.form is not old.form or _leaving(now) != _leaving(old)
    if has_shut or isinstance(item, Hurry):
        missed = {e for e, port in enumerate(old.ports) if port.phase != OPEN and any(map(has_watch, port.queue))}
        ledger = ledger._replace(awaited=ledger.awaited | missed)
    elif old.is_changing or has_changed:  # as a directory moves, but a session that begins hurries it
        missed = {
            e
            for e, (before_it, port) in enumerate(zip(old.ports, now.ports, strict=True))
            if port.phase != OPEN and any(map(has_watch, before_it.queue)) and not any(map(has_watch, port.queue))
        }
        ledger = ledger._replace(awaited=ledger.awaited | missed)
    present = {e for e, port in enumerate(now.ports) if port.phase == OPEN and is_present(world, index, e)}
    if now.losts == old.losts and any(ledger.held[each] for each in now.parted - old.parted):
        ledger = ledger._replace(owed=now.losts + 1)
    ledger = ledger._replace(awaited=ledger.awaited - present - now.parted)
    if now.state == KeeperState.CONNECTED:
        ledger = ledger._replace(last_id=(now.losts, now.number))
    ledger = _ended(ledger, old, now)
    if (now.losts, now.suspensions) != (old.losts, old.suspensions):
        live = live_watches(placement, was)
        ledger = ledger._replace(due=ledger.due.union(live if now.losts > old.losts else ending(old, live)))
    ledger = ledger._replace(unsure=ledger.unsure.union(_unsure_watches(now)))
    ended = {each.number for each in old.ended}
    left = {number for number in range(len(old.calls)) if number not in ended}
    if has_changed:
        ledger = ledger._replace(overtaken=ledger.overtaken | left)
    if isinstance(item, (Lose, Wait)):
        hurt = {number for number in left if _has_steps(old, old.calls[number])}
        ledger = ledger._replace(overtaken=ledger.overtaken | hurt)
    return world.with_client(index, client._replace(ledger=ledger))


def _leaving(position: Position) -> set[tuple[str, int]]:
    """The ensembles of which operations know that they leave, without a move."""
    return {each for each in position.parting if len(each[0]) == 1}


def is_present(world: World, index: int, ensemble: int) -> bool:
    """Whether the session of a connection is one of the client's present life, and not about to be closed."""
    client = world.clients[index]
    port = client.position.ports[ensemble]
    is_closing = any(isinstance(request, Close) for request in port.outbox)
    return world.session(port.session).losts == client.position.losts and not is_closing


def _heard(ledger: Ledger, before: World, index: int, tell: Tell) -> Ledger:
    port = before.clients[index].position.ports[tell.ensemble]
    if isinstance(tell.what, WatchedEvent) or not port.outbox:
        return ledger
    request, answer = port.outbox[0], tell.what
    if isinstance(request, GetData) and request.path == MAP and isinstance(answer, tuple):
        epoch = ClusterMap.from_json(answer[0]).epoch
        is_dropped = port.phase == OPEN and not is_present(before, index, tell.ensemble)
        return ledger if is_dropped else ledger._replace(seen=max(ledger.seen, epoch))
    if port.phase == OPEN:
        held = frozenset(_held_after(ledger.held[tell.ensemble], request, answer))
        return ledger._replace(held=replaced(ledger.held, tell.ensemble, held))
    return ledger


def _held_after(held: frozenset[str], request: Request, answer: Answer) -> Iterable[str]:
    if isinstance(request, Transaction):
        assert isinstance(answer, list)
        if not any(isinstance(each, Exception) for each in answer):
            for operation, result in zip(request.operations, answer, strict=True):
                held = frozenset(_held_after(held, operation, result))
        return held
    if isinstance(request, Delete) and (answer is True or isinstance(answer, NoNodeError)):
        return held - {request.path}
    if is_ephemeral(request) and not isinstance(answer, Exception):
        return held | {_made_path(request, answer)}
    return held


def _made_path(create: Request, answer: Answer) -> str:
    path = path_of(create)
    name = answer[0] if isinstance(answer, tuple) else answer
    assert isinstance(name, str)
    return path + name[-10:] if create.flags & SEQUENCE else path  # type: ignore[attr-defined]


def is_ephemeral(request: Request) -> bool:
    return isinstance(request, (Create, Create2)) and bool(request.flags & EPHEMERAL)


def parts(request: Request) -> Iterator[Request]:
    yield from request.operations if isinstance(request, Transaction) else [request]


def _lost(placement: Placement, ledger: Ledger, before: World, index: int, item: Lose | Wait) -> Ledger:
    """A connection is lost: the client waits for it if it may have anything there."""
    was, e = before.clients[index], item.ensemble
    port = was.position.ports[e]
    watches = [n for n in live_watches(placement, was) if place_of(placement, was.position, n)[0] == e]
    if isinstance(item, Wait):
        return ledger._replace(awaited=ledger.awaited | {e}) if any(map(has_watch, port.queue)) else ledger
    if port.phase == OPEN:
        ledger = ledger._replace(due=ledger.due.union(ending(was.position, watches)))
    if port.phase != OPEN or not is_present(before, index, e):
        return ledger
    unknown = {
        MANY if part.flags & SEQUENCE else path_of(part)  # type: ignore[attr-defined]
        for request in port.outbox
        for part in parts(request)
        if is_ephemeral(part)
    }
    held = ledger.held[e] | unknown
    ledger = ledger._replace(held=replaced(ledger.held, e, held))
    if held or watches or any(map(has_watch, (*port.outbox, *port.queue))):
        return ledger._replace(awaited=ledger.awaited | {e})
    return ledger


def ending(position: Position, watches: Iterable[int]) -> list[int]:
    """Those that end with their connection."""
    return [number for number in watches if not is_lasting(position.calls[number])]


def _ended(ledger: Ledger, old: Position, now: Position) -> Ledger:
    """Which ephemerals there are, as the client was told."""
    made = set(ledger.made)
    for ended in now.ended[len(old.ended) :]:
        request, result = now.calls[ended.number], ended.result
        results = result if isinstance(result, list) else [result]
        for part, answer in zip(parts(request), results, strict=False):
            if is_ephemeral(part) and not isinstance(answer, Exception):
                made.add(logical(_made_path(part, answer)))
    made -= {path_of(part) for request in now.calls for part in parts(request) if isinstance(part, Delete)}
    return ledger._replace(made=frozenset(made))


def live_watches(placement: Placement, client: ClientState) -> list[int]:
    """Operations that have left a watch which has nothing to tell yet; also those whose read alone is answered."""
    position = client.position
    told = {each.operation for each in position.told}
    results = {each.number: each.result for each in position.ended}
    return [
        number
        for number, request in enumerate(position.calls)
        if has_watch(request)
        and number not in client.ledger.due | told
        and not isinstance(results.get(number), Exception)
        and (number in results or _is_read(placement, position, number))
    ]


def _is_read(placement: Placement, position: Position, number: int) -> bool:
    """Whether the read with the watch of an operation, which has not ended, is answered."""
    if position.form is not Form.PLAIN:  # it may not even have been sent
        return False
    ensemble, path = place_of(placement, position, number)
    port = position.ports[ensemble]
    return not any(has_watch(request) and path_of(request) == path for request in (*port.outbox, *port.queue))


def _has_steps(position: Position, request: Request) -> bool:
    """Whether an operation may send several requests: one may be lost, and another one answered behind that."""
    return position.form is not Form.PLAIN or (isinstance(request, Create) and not is_ephemeral(request))


def _unsure_watches(position: Position) -> Iterator[int]:
    """Operations of several steps, one of which leaves a watch."""
    ended = {each.number for each in position.ended}
    for number, request in enumerate(position.calls):
        if position.form is not Form.PLAIN and has_watch(request) and number not in ended:
            yield number


def place_of(placement: Placement, position: Position, number: int) -> tuple[int, str]:
    return home_of(placement, position.calls[number])


def home_of(placement: Placement, request: Request) -> tuple[int, str]:
    return where_is(placement, path_of(request)).home
