"""What must hold of sessions: see tests/explore/README.md."""

from __future__ import annotations

from collections.abc import Hashable

from kazoo.exceptions import ConnectionLoss, KazooException, SessionExpiredError
from kazoo.protocol.states import EventType, KeeperState, ZnodeStat

from parkazoo.kazoo_private import Close, Create, Delete, GetData, SetData
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.pin import decode_pin
from parkazoo.protocol.placement import CLIENTS, ENSEMBLE, MAP, PIN, ROOT, Placement, logical
from parkazoo.protocol.registration import decode_registration, format_session, registration_path
from parkazoo.wire.own_read import OwnRead
from tests.explore.scenario import Violation
from tests.explore.sessions.beginning import NAMES
from tests.explore.sessions.client import LOOKING, OPEN, Join, Port, Unknown
from tests.explore.sessions.ledger import home_of, is_present, live_watches, parts, place_of
from tests.explore.sessions.world import ClientState, Move, Position, ServerSession, World
from tests.explore.znodes import LISTINGS, Answer, Request, Znodes, has_watch, path_of

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
        if int(str(said["epoch"])) > position.epoch:
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


def check_form(form: Form | None, published: Form) -> None:
    """A server executes a request of an operation of that form.

    :raises Violation: others may work by one that is no neighbour of it.
    """
    if form is not None and published > form + 1:
        raise Violation(f"a request of form {form.word} is executed when {published.word} is published")


def oldest_registered(world: World, ensemble: int) -> int:
    """The oldest epoch that any session says there."""
    return min(_said(world, ensemble).values(), default=world.copies[0])


def oldest_used(world: World, ensemble: int) -> int:
    """The same, of the sessions that clients have. Others end some time."""
    used = {registration_path(client.position.ports[ensemble].session) for client in world.clients}
    said = _said(world, ensemble)
    return min((said[path] for path in said.keys() & used), default=world.copies[0])


def _said(world: World, ensemble: int) -> dict[str, int]:
    """The epochs of registrations, by path."""
    nodes = world.model.nodes[ensemble]
    return {
        path: int(str(decode_registration(znode.data)["epoch"]))
        for path, znode in nodes.items()
        if path.startswith(f"{CLIENTS}/")
    }


def names_in_pins(world: World) -> set[str]:
    """The ensembles that pins name."""
    pins = [
        decode_pin(znode.data or b"")
        for nodes in world.model.nodes
        for path, znode in nodes.items()
        if path.endswith(f"/{PIN}")
    ]
    return {pin.on for pin in pins if pin is not None}


def check_pins(world: World, published: ClusterMap) -> None:
    """:raises Violation: the children of a directory are where nobody looks for them."""
    if names_in_pins(world) & published.gone.keys():
        raise Violation("a pin names an ensemble that has left")


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
        n in ended and isinstance(part, (Create, Delete)) and home_of(placement, part)[0] != session.ensemble
        for n, each in enumerate(position.calls[:joined])
        for part in parts(each)
    )
    mine = (session.client, session.ensemble)
    if has_changed and not any(each.has_caught_up for each in world.sessions if each[1:3] == mine):
        raise Violation("a read of a new ensemble is not behind what the client has changed")


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
        has_lost = move.kind in LOSING and move.client == index
        if isinstance(ended.result, ConnectionLoss) and not has_lost and ended.number not in ledger.overtaken:
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
    if any(each.event == EventType.NONE for each in now.told) and not (now.suspensions or now.losts):
        raise Violation("a watch was told NONE, though the client was CONNECTED")
    held = before.clients[index].ledger.held
    may_expire = old.ensembles == 1 or held[move.ensemble] or any(held[each] for each in now.parted - old.parted)
    if now.losts > old.losts and move.kind != "g" and not may_expire:
        raise Violation("the client was LOST, though it had no ephemeral where its session expired")
    _check_state(world, index)
    _check_shock(before, world, index, move)
    if now.state == KeeperState.CONNECTED:
        _check_ephemerals(world, index)


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
    present = [e for e, port in enumerate(now.ports) if port.phase == OPEN and is_present(world, index, e)]
    is_connected = bool(present) and not ledger.awaited and not now.is_failing
    if is_connected != (now.state == KeeperState.CONNECTED):
        where = ", ".join(map(str, sorted(ledger.awaited))) or "nothing"
        raise Violation(f"the client is {now.state}; it waits for {where}, and is connected to {present}")


def _check_shock(before: World, world: World, index: int, move: Move) -> None:
    """A client that stays CONNECTED is SUSPENDED for a moment if requests have failed, and only then."""
    old, now = before.clients[index].position, world.clients[index].position
    failed = [each for each in now.ended[len(old.ended) :] if isinstance(each.result, ConnectionLoss)]
    is_of_steps = bool(world.command) or old.form is not Form.PLAIN
    if is_of_steps and any(has_watch(now.calls[each.number]) for each in failed):
        return  # perhaps: it depends on where the older operation was
    if old.state == now.state == KeeperState.CONNECTED and old.losts == now.losts:
        port = old.ports[move.ensemble]
        has_lost = (
            (move.client, move.kind in "ar", port.phase) == (index, True, OPEN)
            and is_present(before, index, move.ensemble)
            and any(not isinstance(request, OwnRead) for request in port.outbox)
        )
        has_lost = has_lost or any(
            old.ports[each].phase != OPEN and any(map(has_watch, old.ports[each].queue))
            for each in now.parted - old.parted
        )
        if has_lost != (now.suspensions > old.suspensions):
            raise Violation("the client was SUSPENDED for a moment without a reason, or not with one")


def deleted(world: World) -> set[str]:
    """What any client deletes."""
    return {
        path_of(part)
        for other in world.clients
        for request in other.position.calls
        for part in parts(request)
        if isinstance(part, Delete)
    }


def _check_ephemerals(world: World, index: int) -> None:
    client = world.clients[index]
    if client.position.losts < client.ledger.owed:
        raise Violation("an ephemeral is gone with its session, and the client was not LOST")
    owners = {each.number for each in world.sessions if each.client == index}
    for path in client.ledger.made - deleted(world):
        znodes = (nodes.get(place) for nodes in world.model.nodes for place in nodes if logical(place) == path)
        if not any(znode.owner in owners for znode in znodes if znode is not None):
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
    if world.command:
        _check_sessions(world, index)  # what watches are told is judged otherwise
        return
    told = {each.operation for each in now.told}
    if ledger.due - told:
        raise Violation("a watch was never told")
    live = live_watches(placement, client)
    if told - ledger.due - ledger.unsure:
        raise Violation("a watch was told, though nothing has happened")
    watches = {(each.who.owners[-1], each.ensemble, each.path, each.kind) for each in world.model.watches}
    results = {each.number: each.result for each in now.ended}
    for number in live:
        request, home = now.calls[number], place_of(placement, now, number)
        kind = "child" if isinstance(request, LISTINGS) else "data"
        if (now.ports[home[0]].session, *home, kind) not in watches:
            raise Violation("a watch was dropped in silence")
        if _seen(request, results[number]) != _shown(world.model.nodes[home[0]], home[1], kind):
            raise Violation("a watch has missed a change")
    _check_sessions(world, index)


def _seen(request: Request, result: Answer) -> Hashable:
    """What a read has shown of what it watches: the version, or the names."""
    if isinstance(request, LISTINGS):
        names = result[0] if isinstance(result, tuple) else result
        assert isinstance(names, list)
        return frozenset(names)
    stat = result if isinstance(result, ZnodeStat) or not isinstance(result, tuple) else result[1]
    return stat.version if isinstance(stat, ZnodeStat) else None


def _shown(nodes: Znodes, path: str, kind: str) -> Hashable:
    """The same, as it is now."""
    znode = nodes.get(path)
    if znode is None:
        return None
    return znode.children - {ROOT[1:]} if kind == "child" else znode.version


def _check_sessions(world: World, index: int) -> None:
    now = world.clients[index].position
    mine = {port.session for port in now.ports}
    if any(each.ensemble in now.parted and each.is_connected for each in world.sessions if each.client == index):
        raise Violation("a session lives on where an ensemble has left")
    names = NAMES[: len(now.ports)]
    if any(NAMES.index(name) not in now.parted for name, since in now.parting if not since and name in names):
        raise Violation("a client does not part with an ensemble that has left")
    for session in world.sessions:
        if session.client != index or not session.is_alive or not session.is_known:
            continue
        if session.losts < now.losts or session.number not in mine:
            raise Violation("a session of a client that was LOST lives on")
        found = world.model.nodes[session.ensemble].get(registration_path(session.number))
        said = decode_registration(found.data if found else b"")
        if (said.get("client"), said.get("epoch")) != (_id_of(now, session.number), now.epoch):
            raise Violation("a session is not registered with the client's number and newest map")
