"""What can happen next in a world, and the world after it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from kazoo.exceptions import ConnectionLoss

from parkazoo.engine.ports import AbandonedError
from tests.explore.answers import result_of
from tests.explore.clients import GAVE_UP, TOOK, WATCH_THREAD, Clients, arrival
from tests.explore.history import Called, Chain, Returned
from tests.explore.lives import Lives
from tests.explore.scenario import Bounds, Requests, Scenario, Stop, Turn
from tests.explore.world import (
    Arrival,
    CallBack,
    ClientState,
    Crash,
    Deliver,
    GiveUp,
    Lose,
    Move,
    Path,
    Serve,
    Take,
    World,
)
from tests.explore.znodes import READS, Answer, Request, has_watch

LOST = arrival(ConnectionLoss())
NOTHING = arrival(None)


class Scheduler:
    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.clients = Clients(scenario)
        self._beginning = scenario.beginning
        self._sessions = list(scenario.sessions)
        self._most_mirrors = scenario.promises.mirrors_per_life

    # ---- worlds --------------------------------------------------------------------------------

    def begin(self) -> World:
        """Before anything has happened.

        :raises Violation: it may not be so.
        """
        model = self.scenario.beginning.model
        if self.scenario.troubles.has_lag:
            model = model.remembering()
        lives = Lives({}).after(self._beginning, model, self._most_mirrors)
        clients = (self.clients.new(index) for index in range(len(self.scenario.programs)))
        return World(model, tuple(clients), Chain(), lives)

    def opened(self) -> World:
        """After the scenario's opening.

        :raises Violation: something does not hold.
        """
        world = self.begin()
        for step in self.scenario.opening:
            if isinstance(step, Stop):
                world = self.make(Crash(step.client), world)
            elif isinstance(step, Requests):
                for _ in range(step.answered):
                    world = self._serve_first(world, step.client)
            else:
                world = self._take_turn(world, step)
        return world

    def _take_turn(self, world: World, turn: Turn) -> World:
        ended = len(world.clients[turn.client].position.ended)
        while (position := world.clients[turn.client].position).is_waiting:
            if turn.operations is not None and len(position.ended) >= ended + turn.operations:
                break
            world = self._serve_first(world, turn.client)
        return world

    def _serve_first(self, world: World, index: int) -> World:
        position = world.clients[index].position
        ensemble = next((e for e, outbox in enumerate(position.outboxes) if outbox), None)
        if ensemble is None:
            return self.make(Take(index, next(e for e, kept in enumerate(position.kept) if kept)), world)
        return self.make(Serve(index, ensemble), world)

    def key(self, world: World) -> Hashable:
        """What tells a world from others."""
        clients = [self.clients.key(client, world.model) for client in world.clients]
        return world.model.key(), tuple(clients), world.history.number, world.lives.key

    # ---- moves ---------------------------------------------------------------------------------

    def moves(self, world: World, bounds: Bounds) -> list[Move]:
        """All that can happen next."""
        moves: list[Move] = []
        may_crash = world.crashes < self.scenario.troubles.crashes
        may_lose = world.losses < self.scenario.troubles.losses
        for index, client in enumerate(world.clients):
            position = client.position
            if not client.is_alive:
                continue
            if position.callbacks:
                moves.append(CallBack(index))
            moves += [Deliver(index, ensemble) for ensemble, inbox in enumerate(client.inboxes) if inbox]
            if not position.is_waiting or client.received.length >= bounds.of(index):
                continue
            if may_crash and client.called > len(position.ended):
                moves.append(Crash(index))
            moves += [Take(index, ensemble) for ensemble, kept in enumerate(position.kept) if kept]
            for ensemble, outbox in enumerate(position.outboxes):
                if not outbox:
                    continue
                if (answered := client.answered(ensemble)) < len(outbox):
                    moments = world.model.moments(ensemble, outbox[answered], self._sessions[index])
                    moves += [Serve(index, ensemble, at) for at in moments]
                if may_lose:
                    moves += [Lose(index, ensemble, True), Lose(index, ensemble, False)]
            if world.given_up < self.scenario.troubles.given_up and not index:
                moves += [GiveUp(index, operation) for operation in position.awaited]
        return moves

    def is_cut(self, world: World, bounds: Bounds) -> bool:
        """Whether a client is left alone: two that undo each other's work could go on for ever."""
        return any(
            client.is_alive and client.position.is_waiting and client.received.length >= bounds.of(index)
            for index, client in enumerate(world.clients)
        )

    def make(self, move: Move, world: World) -> World:
        """The world after a move.

        :raises Violation: what must hold in every state does not.
        """
        path = Path(world.path, move)
        if isinstance(move, Serve):
            world = self._serve(world, move)
        elif isinstance(move, Deliver):
            world = self._deliver(world, move.client, move.ensemble)
        elif isinstance(move, CallBack):
            world = self._receive(world, move.client, world.clients[move.client], WATCH_THREAD, NOTHING)
        elif isinstance(move, GiveUp):
            given_up = world._replace(given_up=world.given_up + 1)
            client, operation = world.clients[move.client], arrival(move.operation)
            world = self._receive(given_up, move.client, client, GAVE_UP, operation)
        elif isinstance(move, Take):
            client = world.clients[move.client]
            world = self._receive(world, move.client, client, TOOK - move.ensemble, NOTHING)
        elif isinstance(move, Crash):
            crashed = world.clients[move.client]._replace(is_alive=False)
            world = world.with_client(move.client, crashed)._replace(crashes=world.crashes + 1)
        else:
            world = self._lose(world, move)
        return World(*world[:-1], path)

    def request(self, world: World, move: Serve) -> Request:
        """What the server executes."""
        client = world.clients[move.client]
        return client.position.outboxes[move.ensemble][client.answered(move.ensemble)]

    def answer(self, world: World, move: Serve) -> Answer:
        """What the server says, without a world that comes of it."""
        model = world.model.copy()
        model.on_event = lambda who, ensemble, event: None
        return model.execute(move.ensemble, self.request(world, move), self._sessions[move.client], move.at)

    def _serve(self, world: World, move: Serve) -> World:
        """Without watches the answer is read at once: no event can overtake it."""
        index, ensemble = move.client, move.ensemble
        world, answer, events = self._execute(world, move)
        if world.clients[index].position.is_watching:
            arrived = [*events, (index, answer)]
            if isinstance(self.request(world, move), READS):  # a lagging server tells later what it hears of then
                arrived = [(index, answer), *events]
            return _arrive(world, ensemble, arrived)
        world = _arrive(world, ensemble, events)
        return self._receive(world, index, world.clients[index], ensemble, answer)

    def _execute(self, world: World, move: Serve) -> tuple[World, Arrival, list[tuple[int, Arrival]]]:
        """The world that is done to, the answer, and events with those whom they are for."""
        index, ensemble = move.client, move.ensemble
        client, who = world.clients[index], self._sessions[index]
        request = self.request(world, move)
        if client.called < len(client.position.calls):
            world = _with_calls(world, index)
        is_read = isinstance(request, READS)
        if is_read and not has_watch(request) and not world.model.has_lag:
            return world, arrival(world.model.execute(ensemble, request, who)), []
        model, events = world.model.copy(), list[tuple[int, Arrival]]()
        model.on_event = lambda who, _, event: events.append((self._sessions.index(who), arrival(event)))
        answer = arrival(model.execute(ensemble, request, who, move.at))
        lives = world.lives if is_read else world.lives.after(self._beginning, model, self._most_mirrors)
        return World(model, world.clients, world.history, lives, *world[4:]), answer, events

    def _deliver(self, world: World, index: int, ensemble: int) -> World:
        client = world.clients[index]
        first, *left = client.inboxes[ensemble]
        return self._receive(world, index, client.with_inbox(ensemble, tuple(left)), ensemble, first)

    def _lose(self, world: World, move: Lose) -> World:
        """Events come after the connection is back."""
        index, ensemble = move.client, move.ensemble
        position = world.clients[index].position
        count = len(position.outboxes[ensemble])
        while move.is_done and world.clients[index].answered(ensemble) < count:
            world, answer, events = self._execute(world, Serve(index, ensemble))
            world = _arrive(world, ensemble, [*events, (index, answer)])
        if world.clients[index].called < len(position.calls):
            world = _with_calls(world, index)
        client = world.clients[index]
        events_left = tuple(each for each in client.inboxes[ensemble] if not each.is_answer)
        client = client.with_inbox(ensemble, events_left)
        for _ in range(count):
            client = self.clients.receive(index, client, ensemble, LOST)
        world = world._replace(losses=world.losses + count)
        return self._note(world.with_client(index, client), index, len(position.ended))

    def _receive(self, world: World, index: int, client: ClientState, ensemble: int, what: Arrival) -> World:
        after = self.clients.receive(index, client, ensemble, what)
        return self._note(world.with_client(index, after), index, len(client.position.ended))

    def _note(self, world: World, index: int, before: int) -> World:
        """Write into the history which operations have ended since then."""
        position = world.clients[index].position
        for number, result, ensemble in position.ended[before:]:
            if number >= world.clients[index].called:  # it ended without a request
                world = _with_calls(world, index)
            if isinstance(result, AbandonedError) or not isinstance(
                result, ConnectionLoss
            ):  # else it may yet be done
                request = position.calls[number]
                judged = self.scenario.promises.judge(request, result_of(request, result))
                returned = Returned(index, number, judged, ensemble)
                world = world._replace(history=world.history.then(returned, returned))
        return world


def _arrive(world: World, ensemble: int, arrived: Sequence[tuple[int, Arrival]]) -> World:
    """With that in the inboxes."""
    for to, what in arrived:
        client = world.clients[to]
        world = world.with_client(to, client.with_inbox(ensemble, (*client.inboxes[ensemble], what)))
    return world


def _with_calls(world: World, index: int) -> World:
    """With all that a client has issued in the history."""
    client, history = world.clients[index], world.history
    calls = client.position.calls
    for number in range(client.called, len(calls)):
        history = history.then(Called(index, number, calls[number]), (index, number))
    return world.with_client(index, client._replace(called=len(calls)), history)
