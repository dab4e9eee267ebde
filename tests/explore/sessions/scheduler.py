"""What can happen next to clients and their sessions, and the world after it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from kazoo.protocol.states import WatchedEvent
from kazoo.security import OPEN_ACL_UNSAFE

from parkazoo.kazoo_private import Close, Create, Delete, GetData, SetData
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.past import CATCH_UP
from parkazoo.protocol.placement import CLIENTS, MAP, Placement
from parkazoo.wire.own_read import OwnRead
from tests.explore.scenario import Bounds, Violation
from tests.explore.sessions import judge, ledger
from tests.explore.sessions.beginning import NAMES, beginning, directories, map_of
from tests.explore.sessions.client import (
    ASKING,
    GREETING,
    LOOKING,
    OPEN,
    Accept,
    CallBack,
    GiveUp,
    Hurry,
    Idle,
    Input,
    Look,
    Lose,
    Tell,
    Try,
    Wait,
    exact,
    plain,
)
from tests.explore.sessions.command import DEAD, ENDED, EXACT, MARKED, NOTHING, OFF, SWITCHED, Command
from tests.explore.sessions.positions import Positions
from tests.explore.sessions.results import check_results
from tests.explore.sessions.scenario import SessionScenario
from tests.explore.sessions.world import (
    OF_COMMAND,
    PROGRESS,
    ClientState,
    Move,
    Path,
    ServerSession,
    World,
    replaced,
)
from tests.explore.znodes import READS, Answer, Request, Who, has_watch

OPERATOR = Who()
SPENT = {"a": "l", "r": "l", "b": "l"}  # which trouble a move is, if not that of its own letter


class Scheduler:
    def __init__(self, scenario: SessionScenario) -> None:
        self.scenario = scenario
        self._names = NAMES[: scenario.ensembles]
        self.placement: Placement = map_of(scenario, 1 + scenario.come).make_placement()
        self._positions = Positions(scenario)
        self._command = Command.of(self.placement, scenario.moves) if scenario.moves else None

    @property
    def _directories(self) -> list[str]:
        """Those with a znode w; empty for `/`."""
        return list(dict.fromkeys([*directories(self.placement, self.scenario.ensembles), self.scenario.moves]))

    @property
    def _is_deleted(self) -> bool:
        """Whether a client may delete the directory that moves."""
        programs = [program for program in self.scenario.programs if not callable(program)]
        return any(
            isinstance(part, Delete) and part.path == self.scenario.moves
            for program in programs
            for request in program
            for part in ledger.parts(request)
        )

    # ---- worlds ----------------------------------------------------------------------------------

    def begin(self) -> World:
        """Before anything has happened."""
        count = self.scenario.ensembles
        model = beginning(self.scenario)
        clients = tuple(self._positions.new(index) for index in range(len(self.scenario.programs)))
        come = self.scenario.come
        done = NOTHING if self._command is not None else ""
        return World(model, clients, (), (1,) * (count - come) + (0,) * come, command=done)

    def key(self, world: World) -> Hashable:
        """What tells a world from others."""
        clients = tuple(
            (each.received.number, tuple(tuple(map(plain, inbox)) for inbox in each.inboxes), each.ledger)
            for each in world.clients
        )
        spent = "".join(sorted(world.spent))
        model = (world.model.key(), self._zxids(world) if self.scenario.is_exact else ())
        return model, clients, world.sessions, world.copies, world.looked, world.command, spent

    def _zxids(self, world: World) -> Hashable:
        inboxes = tuple(tuple(map(exact, inbox)) for each in world.clients for inbox in each.inboxes)
        znodes = tuple((znode.mzxid, znode.pzxid) for nodes in world.model.nodes for znode in nodes.values())
        return tuple(world.model.zxids), inboxes, znodes

    # ---- moves -----------------------------------------------------------------------------------

    def moves(self, world: World, bounds: Bounds) -> list[Move]:
        """All that can happen next."""
        moves: list[Move] = []
        troubles = self.scenario.troubles
        left = {each: troubles.count(each) > world.spent.count(each) for each in "lempgfoxiz"}
        if self._command is not None:
            moves += self._of_command(self._command, world, left)
        elif left["m"]:
            moves += [Move(0, "m", each) for each in self._changeable(world)]
            moves += [Move(0, "k", each) for each in self._to_look_at(world)]
        for index, client in enumerate(world.clients):
            if client.position.may_give_up and left["g"]:
                moves.append(Move(index, "g"))
            if client.position.is_holding and self._command is not None:
                if not self._command.has_mark(world.model):
                    moves.append(Move(index, "h"))
                elif left["i"] or world.command == DEAD:
                    moves.append(Move(index, "i"))
            if client.position.is_changing and left["f"]:
                moves.append(Move(index, "f"))
            for ensemble in range(self.scenario.ensembles):
                kinds = self._kinds(world, client, ensemble, left)
                moves += [Move(index, kind, ensemble) for kind in kinds]
            if client.position.later:
                moves.append(Move(index, "n"))
            if client.position.callbacks:
                moves.append(Move(index, "w"))
        return moves

    def _of_command(self, command: Command, world: World, left: dict[str, bool]) -> list[Move]:
        """What the command that moves a directory may do next, and what may become of it."""
        done, published = world.command, world.copies[0]
        if done == DEAD:
            return []
        behind = [each for each, epoch in enumerate(world.copies) if epoch < published]
        moves = [Move(0, "m", each) for each in behind]
        source = command.source.ensemble
        is_acknowledged = source not in behind and judge.oldest_used(world, source) >= published
        if done == SWITCHED and "y" in self.scenario.troubles:
            is_acknowledged = False
        if command.next_step(world.model, done, published, is_acknowledged):
            moves.append(Move(0, "t"))
        elif not behind and command.may_publish(done, published):
            moves.append(Move(0, "m"))
        if left["o"] and done in (MARKED, EXACT):
            moves.append(Move(0, "o"))
        if left["x"] and done not in (NOTHING, ENDED):
            moves.append(Move(0, "x"))
        return moves

    def _by_command(self, command: Command, move: Move, world: World) -> World:
        if move.kind == "x":
            return world._replace(command=DEAD)
        model, events = world.model.copy(), list[tuple[int, Tell]]()
        model.on_event = lambda who, at, event: events.append((who.owners[-1], Tell(at, event)))
        done = world.command
        if move.kind == "o":
            done = command.call_off(model)
        else:
            done = command.make(model, done, command.next_step(model, done, world.copies[0], True))
            if done == OFF and not (self.scenario.troubles or self._is_deleted):
                raise Violation("the move is called off, and nothing is in its way")
        command.check_switch(world.model, model)
        return _send(world._replace(model=model, command=done), events)

    def _kinds(self, world: World, client: ClientState, ensemble: int, left: dict[str, bool]) -> str:
        port, inbox = client.position.ports[ensemble], client.inboxes[ensemble]
        kinds = ""
        if port.phase == OPEN:
            unserved = len(port.outbox) > _answers(inbox)
            if left["l"]:
                kinds += "ra" if unserved else "r"
            if unserved:
                kinds += "s"
                kinds += "z" if left["z"] and self._earliest(world, client, ensemble) is not None else ""
            return kinds + "d" if inbox else kinds
        if left["p"] and port.queue and client.position.epoch and not port.is_patient:
            kinds += "p"
        if port.phase == LOOKING:
            if client.position.epoch == 0 and self._names[ensemble] not in self.scenario.start:
                return kinds
            is_alive = port.session and world.session(port.session).is_alive
            if left["e"] and is_alive:
                kinds += "e"
            if left["l"] and not port.session:
                kinds += "b"
            kinds += "c"
        elif port.phase in (ASKING, GREETING):
            kinds += "rs" if left["l"] and port.phase == GREETING else "s"
        return kinds

    def _earliest(self, world: World, client: ClientState, ensemble: int) -> int | None:
        """The earliest state that the oldest request may be shown; None: the newest."""
        port = client.position.ports[ensemble]
        request = port.outbox[_answers(client.inboxes[ensemble])]
        if not isinstance(request, READS) or isinstance(request, OwnRead) or has_watch(request):
            return None
        moments = world.model.moments(ensemble, request, world.session(port.session).who)
        return moments[0] if len(moments) > 1 else None

    def is_quiet(self, world: World) -> bool:
        """Whether nothing happens any more, if there is no more trouble."""
        return not any(move.kind in PROGRESS for move in self.moves(world, Bounds()))

    def make(self, move: Move, world: World) -> World:
        """The world after a move.

        :raises Violation: something does not hold.
        """
        before = world
        trouble = SPENT.get(move.kind, move.kind)
        if move.kind not in PROGRESS and move.kind not in "kt":
            world = world._replace(spent=world.spent + trouble)
        world, count = self._made(move, world), self.scenario.ensembles
        for each in range(len(world.clients)):
            judge.check(self.placement, before, world, each, move)
            judge.check_joined(count - self.scenario.come, world.clients[each].position)
        if self._command is not None:
            self._command.check_places(world.model)
        judge.check_pins(world, map_of(self.scenario, world.copies[0]))
        world = World(*world[:-1], Path(before.path, move))
        if self.is_quiet(world) and not self._is_held(world):
            for each in range(len(world.clients)):
                judge.check_quiet(self.placement, world, each)
            if self._command is not None:
                self._check_watches(self._command, world)
            if self._command is not None and len(world.clients) == 1:
                counts = not self._command.d.is_native
                check_results(self._directories, world.clients[0].position, counts=counts)
        return world

    def _check_watches(self, command: Command, world: World) -> None:
        for index, client in enumerate(world.clients):
            now = client.position
            command.check_ephemerals(world.model, client.ledger.made - judge.deleted(world), index)
            if not (now.suspensions or now.losts or now.callbacks):
                command.check_watches(world.model, now, [port.session for port in now.ports])

    def _is_held(self, world: World) -> bool:
        """Whether an operation may wait for what the command does."""
        if self._command is None or not self._command.has_mark(world.model):
            return False
        return any(client.position.is_holding for client in world.clients)

    def _made(self, move: Move, world: World) -> World:
        index, ensemble = move.client, move.ensemble
        if move.kind == "m":
            return self._change(world, ensemble)
        if move.kind == "k":
            return world._replace(looked=world.looked | {ensemble})
        if move.kind in OF_COMMAND:
            assert self._command is not None
            return self._by_command(self._command, move, world)
        if move.kind == "e":
            session = world.session(world.clients[index].position.ports[ensemble].session)
            return self._expire(world, session)
        if move.kind == "c":
            world = self._take(world, index, Try(ensemble))
            while not self.scenario.is_slow and self._is_greeting(world, index, ensemble):
                world = self._go_on(world, index, ensemble)
            return world
        if move.kind == "b":
            return self._break(world, index, ensemble)
        if move.kind == "s":
            return self._go_on(world, index, ensemble)
        if move.kind == "z":
            return self._go_on(world, index, ensemble, self._earliest(world, world.clients[index], ensemble))
        if move.kind == "d":
            return self._deliver(world, index, ensemble)
        if move.kind in "ar":
            return self._lose(world, index, ensemble, is_done=move.kind == "a")
        items: dict[str, Input] = {"p": Wait(ensemble), "f": Hurry(), "g": GiveUp(), "w": CallBack()}
        items |= {"h": Look(False), "i": Look(True), "n": Idle()}
        return self._take(world, index, items[move.kind])

    # ---- connections -----------------------------------------------------------------------------

    def _is_greeting(self, world: World, index: int, ensemble: int) -> bool:
        return world.clients[index].position.ports[ensemble].phase in (ASKING, GREETING)

    def _go_on(self, world: World, index: int, ensemble: int, at: int | None = None) -> World:
        """The server answers to what is next.

        :param at: see :meth:`Model.execute`.
        """
        port = world.clients[index].position.ports[ensemble]
        if port.phase == ASKING:
            return self._accept(world, index, ensemble)
        world, events, answer = self._execute(world, index, ensemble, at)
        world = _send(world, events)
        inbox = world.clients[index].inboxes[ensemble]
        if port.phase == OPEN and (self.scenario.is_apart or inbox):
            return world.with_client(index, world.clients[index].with_inbox(ensemble, (*inbox, answer)))
        return self._take(world, index, answer)

    def _accept(self, world: World, index: int, ensemble: int) -> World:
        client = world.clients[index]
        number = client.position.ports[ensemble].session
        if not number:
            count = sum((each.client, each.ensemble) == (index, ensemble) for each in world.sessions)
            number = 100 * (index + 1) + 10 * ensemble + count + 1
            session = ServerSession(number, index, ensemble, client.position.losts)
            if world.model.has_lag:  # it begins with a write
                model = world.model.copy()
                model.seen[session.who, ensemble] = len(model.past[ensemble]) - 1
                world = world._replace(model=model)
        elif not world.session(number).is_alive:
            return self._take(world, index, Accept(ensemble, 0))
        else:
            session = world.session(number)._replace(is_connected=True)
        return self._take(world.with_session(session), index, Accept(ensemble, number))

    def _session(self, world: World, index: int, ensemble: int) -> ServerSession:
        """That of the present connection."""
        return next(
            each
            for each in world.sessions
            if (each.client, each.ensemble, each.is_connected) == (index, ensemble, True)
        )

    def _execute(
        self, world: World, index: int, ensemble: int, at: int | None = None
    ) -> tuple[World, list[tuple[int, Tell]], Tell]:
        """The oldest request that has not been executed; the events with the sessions that get them."""
        client, session = world.clients[index], self._session(world, index, ensemble)
        port = client.position.ports[ensemble]
        request = port.outbox[_answers(client.inboxes[ensemble])]
        judge.check_request(client.position, session, request, is_greeting=port.phase == GREETING)
        if port.phase == OPEN:
            form = port.forms[_answers(client.inboxes[ensemble])]
            judge.check_form(form, map_of(self.scenario, world.copies[0]).form)
            judge.check_past(self.placement, world, session, request)
            if self._command is not None:
                self._command.check_request(world.model, ensemble, request, self._is_deleted)
        if isinstance(request, Close):
            world, events = self._without(world, session)
            return world, events, Tell(ensemble, True)
        world, events, answer = self._run(world, ensemble, request, session.who, at)
        session = _learned(session, request, answer)
        return world.with_session(session), events, Tell(ensemble, answer, world.model.zxids[ensemble])

    def _run(
        self, world: World, ensemble: int, request: Request, who: Who, at: int | None = None
    ) -> tuple[World, list[tuple[int, Tell]], Answer]:
        model, events = world.model.copy(), list[tuple[int, Tell]]()
        model.on_event = lambda who, at, event: events.append((who.owners[-1], Tell(at, event)))
        answer = model.execute(ensemble, request, who, at)
        return world._replace(model=model), events, answer

    def _deliver(self, world: World, index: int, ensemble: int) -> World:
        client = world.clients[index]
        first, *left = client.inboxes[ensemble]
        return self._take(world.with_client(index, client.with_inbox(ensemble, tuple(left))), index, first)

    def _lose(self, world: World, index: int, ensemble: int, *, is_done: bool) -> World:
        session = self._session(world, index, ensemble)
        port = world.clients[index].position.ports[ensemble]
        while is_done and _answers(world.clients[index].inboxes[ensemble]) < len(port.outbox):
            world, events, answer = self._execute(world, index, ensemble)
            world = _send(world, events)
            client = world.clients[index]
            world = world.with_client(index, client.with_inbox(ensemble, (*client.inboxes[ensemble], answer)))
        return self._take(self._disconnect(world, session.number), index, Lose(ensemble))

    def _disconnect(self, world: World, number: int) -> World:
        """The server forgets the connection, and with it the watches."""
        session = world.session(number)
        client = world.clients[session.client].with_inbox(session.ensemble, ())
        model = world.model.copy()
        model.watches = frozenset(each for each in model.watches if each.who != session.who)
        world = world._replace(model=model).with_session(session._replace(is_connected=False))
        return world.with_client(session.client, client)

    def _break(self, world: World, index: int, ensemble: int) -> World:
        """The connection breaks when the server has registered the session, before it can say so."""
        world = self._take(world, index, Try(ensemble))
        while self._is_greeting(world, index, ensemble):
            port = world.clients[index].position.ports[ensemble]
            if port.phase == GREETING and isinstance(port.outbox[0], (Create, SetData)):
                world, _, _ = self._execute(world, index, ensemble)
                session = self._session(world, index, ensemble)
                return self._take(self._disconnect(world, session.number), index, Lose(ensemble))
            world = self._go_on(world, index, ensemble)
        return world

    def _take(self, world: World, index: int, item: Input) -> World:
        """A client gets something from outside."""
        before = world
        world = world.with_client(index, self._positions.receive(index, world.clients[index], item))
        world = ledger.noted(self.placement, before, world, index, item)
        for each in [each for each in world.sessions if each.client == index]:
            port = world.clients[index].position.ports[each.ensemble]
            if not each.is_known and port.session == each.number:
                world = world.with_session(each._replace(is_known=True))
            if each.is_connected and port.phase not in (GREETING, OPEN):
                world = self._disconnect(world, each.number)
        return world

    # ---- servers ---------------------------------------------------------------------------------

    def _changeable(self, world: World) -> list[int]:
        """The ensembles whose copy may be the next to change: of those that the published map has.

        Before guarded, before grown, and before an ensemble has left the command waits until it has seen
        everywhere that all work by the present map.
        """
        published = map_of(self.scenario, world.copies[0])
        behind = [
            each for each, epoch in enumerate(world.copies[: len(published.names)]) if epoch < published.epoch
        ]
        if not behind and self._must_wait(published) and len(world.looked) < len(published.names):
            return []
        if not behind and published.leaving and judge.names_in_pins(world) & published.leaving.keys():
            return []  # the command's walk finds them
        return behind or ([] if published.gone else [0])

    def _must_wait(self, published: ClusterMap) -> bool:
        if published.leaving:
            return True
        following = map_of(self.scenario, published.epoch + 1)
        return published.form is not Form.PLAIN and following.form is not published.form

    def _to_look_at(self, world: World) -> list[int]:
        """The ensembles where the command would see that it need not wait."""
        published = map_of(self.scenario, world.copies[0])
        return [
            each
            for each in range(len(published.names))
            if self._must_wait(published)
            and each not in world.looked
            and world.copies[each] == published.epoch
            and judge.oldest_registered(world, each) >= published.epoch
        ]

    def _without(self, world: World, session: ServerSession) -> tuple[World, list[tuple[int, Tell]]]:
        """A session ends: its ephemerals go."""
        nodes = world.model.nodes[session.ensemble]
        events: list[tuple[int, Tell]] = []
        for path in sorted(path for path, znode in nodes.items() if znode.owner == session.number):
            world, more, _ = self._run(world, session.ensemble, Delete(path, -1), OPERATOR)
            events += more
        return world.with_session(session._replace(is_alive=False)), events

    def _expire(self, world: World, session: ServerSession) -> World:
        nodes = world.model.nodes[session.ensemble]
        client = world.clients[session.client]
        if session.losts == client.position.losts and any(
            znode.owner == session.number and not path.startswith(CLIENTS) for path, znode in nodes.items()
        ):
            owing = client.ledger._replace(owed=client.position.losts + 1)
            world = world.with_client(session.client, client._replace(ledger=owing))
        world, events = self._without(world, session)
        return _send(world, events)

    def _change(self, world: World, ensemble: int) -> World:
        epoch = next_epoch(world.copies, ensemble)
        if self._command is not None and not ensemble:
            epoch = self._command.may_publish(world.command, world.copies[0])
        data = map_of(self.scenario, epoch).to_json()
        is_there = bool(world.copies[ensemble])
        changed = SetData(MAP, data, -1) if is_there else Create(MAP, data, OPEN_ACL_UNSAFE, 0)
        world, events, _ = self._run(world, ensemble, changed, OPERATOR)
        looked = frozenset[int]() if ensemble == 0 else world.looked
        return _send(world._replace(copies=replaced(world.copies, ensemble, epoch), looked=looked), events)


def next_epoch(copies: Sequence[int], ensemble: int) -> int:
    """Of the map that an ensemble gets next: the first one has the primary."""
    return copies[0] + (ensemble == 0)


def _answers(inbox: Sequence[Tell]) -> int:
    return sum(not isinstance(each.what, WatchedEvent) for each in inbox)


def _send(world: World, events: Sequence[tuple[int, Tell]]) -> World:
    """To those whose connection is there."""
    for number, told in events:
        session = world.session(number)
        if session.is_connected:
            client = world.clients[session.client]
            inbox = (*client.inboxes[told.ensemble], told)
            world = world.with_client(session.client, client.with_inbox(told.ensemble, inbox))
    return world


def _learned(session: ServerSession, request: Request, answer: Answer) -> ServerSession:
    """What a session has done of what it must do first."""
    if judge.is_registration(request):
        return session._replace(has_registered=session.has_registered or not isinstance(answer, Exception))
    if isinstance(request, GetData) and request.path == MAP and session.has_registered:
        return session._replace(has_read_copy=True)
    if request == CATCH_UP:
        return session._replace(has_caught_up=True)
    return session
