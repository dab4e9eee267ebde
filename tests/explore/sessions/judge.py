"""What must hold of sessions: see docs/design/protocol.md, "How this is checked"."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kazoo.exceptions import ConnectionLoss, KazooException, NoNodeError, SessionExpiredError
from kazoo.protocol.states import KeeperState, WatchedEvent

from parkazoo.kazoo_private import Close, Create, Create2, Delete, GetData, SetData, Transaction
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.placement import CLIENTS, ENSEMBLE, MAP, Placement, logical
from parkazoo.protocol.registration import decode_registration, format_session, registration_path
from parkazoo.wire.own_read import OwnRead
from tests.explore.scenario import Violation
from tests.explore.sessions.client import LOOKING, OPEN, Accept, Input, Join, Lose, Port, Tell, Unknown, Wait
from tests.explore.sessions.world import ClientState, Ledger, Move, Position, ServerSession, World, replaced
from tests.explore.znodes import EPHEMERAL, SEQUENCE, Answer, Request, has_watch, path_of

MANY = "?"  # an ephemeral of unknown name
LOSING = "arbp"  # the moves by which a request may fail with ConnectionLoss
FIRST = (ENSEMBLE, MAP)


# ---- what a client sends -------------------------------------------------------------------------


def is_registration(request: Request) -> bool:
    return isinstance(request, (Create, SetData)) and request.path.startswith(CLIENTS)


def check_request(position: Position, session: ServerSession, request: Request, *, is_greeting: bool) -> None:
    """A server executes a request.

    :raises Violation: it comes before the registration; or that says what it must not.
    """
    if is_registration(request):
        said = decode_registration(request.data)  # type: ignore[attr-defined]
        if said["epoch"] > position.epoch:
            raise Violation("a registration says an epoch that its client does not know")
        if session.losts == position.losts and said["client"] != _id_of(position, session.number):
            raise Violation("a registration is another client's")
        return
    if is_greeting and isinstance(request, GetData) and request.path in FIRST:
        return
    if isinstance(request, Close):
        return
    if not session.has_registered:
        raise Violation("a request before the registration")
    if not session.has_read_copy:
        raise Violation("a request before the copy of the map")


def _id_of(position: Position, session: int) -> str:
    """The id with which a client registers a session."""
    return format_session(session if position.ensembles == 1 else position.number)


def check_past(placement: Placement, world: World, session: ServerSession, request: Request) -> None:
    """A server executes a request of a program.

    :raises Violation: it may show a state from before what this client has made or deleted.
    """
    position = world.clients[session.client].position
    if not isinstance(request, GetData) or request.path != ENSEMBLE:
        return
    joined = min(n for n, each in enumerate(position.calls) if each == Join(session.ensemble))
    ended = {each.number for each in position.ended}
    has_changed = any(
        n in ended and isinstance(part, (Create, Delete)) and _home(placement, part)[0] != session.ensemble
        for n, each in enumerate(position.calls[:joined])
        for part in _parts(each)
    )
    mine = (session.client, session.ensemble)
    if has_changed and not any(each.has_caught_up for each in world.sessions if each[1:3] == mine):
        raise Violation("a read of a new ensemble is not behind what the client has changed")


# ---- what is known of a client -------------------------------------------------------------------


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
                if _place(placement, old, n) == (item.ensemble, item.what.path)
            ]
            ledger = ledger._replace(due=ledger.due.union(fired))
    if isinstance(item, (Lose, Wait)):
        ledger = _lost(placement, ledger, before, index, item)
    if isinstance(item, Accept) and item.session and not old.ports[item.ensemble].session:
        ledger = ledger._replace(held=replaced(ledger.held, item.ensemble, frozenset()))
    if now.losts > old.losts:
        nothing = (frozenset[str](),) * len(ledger.held)
        ledger = ledger._replace(awaited=frozenset(), held=nothing, made=frozenset())
    present = {e for e, port in enumerate(now.ports) if port.phase == OPEN and _is_present(world, index, e)}
    ledger = ledger._replace(awaited=ledger.awaited - present)
    if now.state == KeeperState.CONNECTED:
        ledger = ledger._replace(last_id=(now.losts, now.number))
    ledger = _ended(ledger, old, now)
    if (now.losts, now.suspensions) != (old.losts, old.suspensions):
        ledger = ledger._replace(due=ledger.due.union(live_watches(placement, was)))
    return world.with_client(index, client._replace(ledger=ledger))


def _is_present(world: World, index: int, ensemble: int) -> bool:
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
        is_dropped = port.phase == OPEN and not _is_present(before, index, tell.ensemble)
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
    if _is_ephemeral(request) and not isinstance(answer, Exception):
        return held | {_made_path(request, answer)}
    return held


def _made_path(create: Request, answer: Answer) -> str:
    path = path_of(create)
    name = answer[0] if isinstance(answer, tuple) else answer
    assert isinstance(name, str)
    return path + name[-10:] if create.flags & SEQUENCE else path  # type: ignore[attr-defined]


def _is_ephemeral(request: Request) -> bool:
    return isinstance(request, (Create, Create2)) and bool(request.flags & EPHEMERAL)


def _parts(request: Request) -> Iterator[Request]:
    yield from request.operations if isinstance(request, Transaction) else [request]


def _lost(placement: Placement, ledger: Ledger, before: World, index: int, item: Lose | Wait) -> Ledger:
    """A connection is lost: the client waits for it if it may have anything there."""
    was, e = before.clients[index], item.ensemble
    port = was.position.ports[e]
    watches = [n for n in live_watches(placement, was) if _place(placement, was.position, n)[0] == e]
    if isinstance(item, Wait):
        return ledger._replace(awaited=ledger.awaited | {e}) if any(map(has_watch, port.queue)) else ledger
    if port.phase == OPEN:
        ledger = ledger._replace(due=ledger.due.union(watches))
    if port.phase != OPEN or not _is_present(before, index, e):
        return ledger
    unknown = {
        MANY if part.flags & SEQUENCE else path_of(part)  # type: ignore[attr-defined]
        for request in port.outbox
        for part in _parts(request)
        if _is_ephemeral(part)
    }
    held = ledger.held[e] | unknown
    ledger = ledger._replace(held=replaced(ledger.held, e, held))
    if held or watches or any(map(has_watch, (*port.outbox, *port.queue))):
        return ledger._replace(awaited=ledger.awaited | {e})
    return ledger


def _ended(ledger: Ledger, old: Position, now: Position) -> Ledger:
    """Which ephemerals there are, as the client was told."""
    made = set(ledger.made)
    for ended in now.ended[len(old.ended) :]:
        request, result = now.calls[ended.number], ended.result
        results = result if isinstance(result, list) else [result]
        for part, answer in zip(_parts(request), results, strict=False):
            if _is_ephemeral(part) and not isinstance(answer, Exception):
                made.add(logical(_made_path(part, answer)))
    made -= {path_of(part) for request in now.calls for part in _parts(request) if isinstance(part, Delete)}
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
        and (number in results or not _is_unanswered(position, *_place(placement, position, number)))
    ]


def _is_unanswered(position: Position, ensemble: int, path: str) -> bool:
    """Whether the read of a znode with a watch waits for its answer."""
    port = position.ports[ensemble]
    return any(has_watch(request) and path_of(request) == path for request in (*port.outbox, *port.queue))


def _place(placement: Placement, position: Position, number: int) -> tuple[int, str]:
    return _home(placement, position.calls[number])


def _home(placement: Placement, request: Request) -> tuple[int, str]:
    return placement.directory(path_of(request)).home


# ---- what must hold ------------------------------------------------------------------------------


def check(placement: Placement, before: World, world: World, index: int, move: Move) -> None:
    """Of a client, after each move.

    :raises Violation: something does not hold.
    """
    old, client = before.clients[index].position, world.clients[index]
    now, ledger = client.position, client.ledger
    has_greeted = not any(port.phase not in ("", "looking", "asking", OPEN) for port in now.ports)
    if now.epoch < old.epoch:
        raise Violation("the client went back to an older map")
    if has_greeted and now.epoch < ledger.seen:
        raise Violation("the client does not work by the newest map that it has read")
    if not now.has_right_hosts:
        raise Violation("a member does not look for the servers that the map names")
    _check_number(before.clients[index], client)
    if any(count > 1 for count in now.counts):
        raise Violation("an operation got two answers")
    for ended in now.ended[len(old.ended) :]:
        if isinstance(ended.result, ConnectionLoss) and (move.kind not in LOSING or move.client != index):
            raise Violation("an operation got ConnectionLoss, though no request of it was lost")
        if isinstance(ended.result, Exception) and not isinstance(ended.result, (KazooException, Unknown)):
            raise Violation(f"an operation failed: {ended.result!r}")
        call = now.calls[ended.number]
        if isinstance(call, Join) and isinstance(ended.result, Unknown) and call.ensemble < old.ensembles:
            raise Violation("the client does not know an ensemble that its map names")
        if isinstance(ended.result, SessionExpiredError) and now.losts == old.losts:
            raise Violation("an operation expired, but the client was not LOST")
    if any(
        (was.phase, port.phase, port.is_patient) == (OPEN, LOOKING, True) and now.ensembles > 1
        for was, port in zip(old.ports, now.ports, strict=True)
    ):
        raise Violation("what waits for an ensemble would wait for ever")
    told = [each.operation for each in now.told]
    if len(set(told)) < len(told):
        raise Violation("a watch was told twice")
    may_expire = old.ensembles == 1 or before.clients[index].ledger.held[move.ensemble]
    if now.losts > old.losts and move.kind != "g" and not may_expire:
        raise Violation("the client was LOST, though it had no ephemeral where its session expired")
    _check_state(world, index)
    _check_shock(before, world, index, move)
    if now.state == KeeperState.CONNECTED:
        _check_ephemerals(placement, world, index)


def _check_number(before: ClientState, client: ClientState) -> None:
    """It changes with LOST, and only then. With one ensemble it is the session's: the client may have none."""
    old, now, last = before.position, client.position, before.ledger.last_id
    has_changed = False
    if 1 not in (old.ensembles, now.ensembles):
        has_changed = (now.losts == old.losts) != (now.number == old.number)
    if last is not None and now.state == KeeperState.CONNECTED:
        has_changed = has_changed or (now.losts == last[0]) != (now.number == last[1])
    if has_changed:
        raise Violation("the client's number did not change with LOST, and only then")


def check_joined(carrying: int, now: Position) -> None:
    """
    :param carrying: how many ensembles have znodes.
    :raises Violation: a client has joined another one, though no program wanted that.
    """
    wanted = {call.ensemble for call in now.calls if isinstance(call, Join)}
    for ensemble in range(carrying, len(now.ports)):
        if now.epoch and now.ports[ensemble] != Port() and ensemble not in wanted:
            raise Violation("a client has joined what it does not need")


def _check_state(world: World, index: int) -> None:
    client = world.clients[index]
    now, ledger = client.position, client.ledger
    if not now.was_open:
        return
    present = [e for e, port in enumerate(now.ports) if port.phase == OPEN and _is_present(world, index, e)]
    is_connected = bool(present) and not ledger.awaited
    if is_connected != (now.state == KeeperState.CONNECTED):
        where = ", ".join(map(str, sorted(ledger.awaited))) or "nothing"
        raise Violation(f"the client is {now.state}; it waits for {where}, and is connected to {present}")


def _check_shock(before: World, world: World, index: int, move: Move) -> None:
    """A client that stays CONNECTED is SUSPENDED for a moment if requests have failed, and only then."""
    old, now = before.clients[index].position, world.clients[index].position
    if old.state == now.state == KeeperState.CONNECTED and old.losts == now.losts:
        port = old.ports[move.ensemble]
        has_lost = (
            (move.client, move.kind in "ar", port.phase) == (index, True, OPEN)
            and _is_present(before, index, move.ensemble)
            and any(not isinstance(request, OwnRead) for request in port.outbox)
        )
        if has_lost != (now.suspensions > old.suspensions):
            raise Violation("the client was SUSPENDED for a moment without a reason, or not with one")


def _check_ephemerals(placement: Placement, world: World, index: int) -> None:
    client = world.clients[index]
    if client.position.losts < client.ledger.owed:
        raise Violation("an ephemeral is gone with its session, and the client was not LOST")
    deleted = {
        path_of(part)
        for other in world.clients
        for request in other.position.calls
        for part in _parts(request)
        if isinstance(part, Delete)
    }
    owners = {each.number for each in world.sessions if each.client == index}
    for path in client.ledger.made - deleted:
        home = placement.home(path)
        znode = world.model.nodes[home.ensemble].get(home.path)
        if znode is None or znode.owner not in owners:
            raise Violation(f"the client is CONNECTED, and has lost its ephemeral {path}")


def check_quiet(placement: Placement, world: World, index: int) -> None:
    """Of a client, when all has come to an end.

    :raises Violation: something does not hold.
    """
    client = world.clients[index]
    now, ledger = client.position, client.ledger
    if now.is_waiting or set(now.counts) - {1}:
        raise Violation("an operation got no answer")
    if now.has_claims:
        raise Violation("the driver keeps a claim")
    told = {each.operation for each in now.told}
    if ledger.due - told:
        raise Violation("a watch was never told")
    live = live_watches(placement, client)
    if told - ledger.due:
        raise Violation("a watch was told, though nothing has happened")
    watches = {
        (each.who.owners[-1], each.ensemble, each.path) for each in world.model.watches if each.kind == "data"
    }
    for number in live:
        home = _place(placement, now, number)
        if (now.ports[home[0]].session, *home) not in watches:
            raise Violation("a watch was dropped in silence")
    _check_sessions(world, index)


def _check_sessions(world: World, index: int) -> None:
    now = world.clients[index].position
    mine = {port.session for port in now.ports}
    for session in world.sessions:
        if session.client != index or not session.is_alive or not session.is_known:
            continue
        if session.losts < now.losts or session.number not in mine:
            raise Violation("a session of a client that was LOST lives on")
        found = world.model.nodes[session.ensemble].get(registration_path(session.number))
        said = decode_registration(found.data if found else b"")
        if (said.get("client"), said.get("epoch")) != (_id_of(now, session.number), now.epoch):
            raise Violation("a session is not registered with the client's number and newest map")
