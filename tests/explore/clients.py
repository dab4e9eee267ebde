"""The clients of a scenario: production code, run with what a client has received.

What comes of that is a position; it is found once for each way to be in it. A client runs on from its last
position if it has received more since, and else again from its beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Protocol

from kazoo.protocol.states import WatchedEvent

from tests.explore.answers import freeze, freeze_exactly, stats_in
from tests.explore.client import Client
from tests.explore.model import Model
from tests.explore.scenario import Asking, Knows, Program, Rise, Scenario
from tests.explore.world import Arrival, ClientState, Ended, Position, Received, Told
from tests.explore.znodes import Answer, Request, has_watch, path_of
from tests.fakes.result import Result

NOTHING = Received(None, 0, None, 0)


class Clients:
    """All clients of a scenario, in all their states."""

    def __init__(self, scenario: Scenario) -> None:
        self._beginning = scenario.beginning
        self._placement = scenario.beginning.placement
        self._sessions = scenario.sessions
        self._programs = scenario.programs
        self._has_total_order = scenario.has_total_order
        self._plain: dict[tuple[int, int, Hashable], int] = {}
        self._exact: dict[tuple[int, int, Hashable], int] = {}
        self._positions: dict[tuple[int, int], Position] = {}
        self._watching: dict[tuple[int, int], Position] = {}
        self._last: dict[int, tuple[Received, Client, Run]] = {}

    def new(self, index: int) -> ClientState:
        """A client that has received nothing."""
        inboxes = tuple(() for _ in range(self._placement.ensembles))
        return ClientState(NOTHING, self._position(index, NOTHING), inboxes)

    def receive(self, index: int, client: ClientState, ensemble: int, arrival: Arrival) -> ClientState:
        """The client when it has read that."""
        before = client.received
        plain = self._plain.setdefault((before.plain, ensemble, arrival.plain), len(self._plain) + 1)
        received = Received(before, ensemble, arrival.what, plain)
        return ClientState(
            received, self._position(index, received), client.inboxes, client.called, client.is_alive
        )

    def _position(self, index: int, received: Received) -> Position:
        found = self._positions.get((index, received.plain))
        if found is None:
            found = self._positions[index, received.plain] = self._replay(index, received)
        if found.is_watching:  # which tells lives of a directory by zxids
            key = index, self._exact_number(received)
            if key not in self._watching:
                self._watching[key] = self._replay(index, received)
            found = self._watching[key]
        return found

    def _exact_number(self, received: Received) -> int:
        number = 0
        for each in received.all():
            if each.exact < 0:
                key = number, each.ensemble, freeze_exactly(each.what)
                each.exact = self._exact.setdefault(key, len(self._exact) + 1)
            number = each.exact
        return number

    def _replay(self, index: int, received: Received) -> Position:
        last, client, run = self._last.pop(index) if index in self._last else self._begin(index)
        if not received.is_after(last):
            last, client, run = self._begin(index)
        for each in received.all()[last.length :]:
            member = client.members[each.ensemble]
            if each.ensemble < 0:
                client.callbacks.popleft()()
            elif isinstance(each.what, WatchedEvent):
                member.tell(each.what)
            else:
                run.heard.add(each.ensemble)
                member.answer(*member.outbox.popleft(), each.what)
            run.advance()
        self._last[index] = received, client, run
        outboxes = tuple(tuple(request for request, _ in member.outbox) for member in client.members)
        return Position(
            outboxes,
            tuple(run.calls),
            tuple(run.ended),
            len(client.callbacks),
            tuple(run.told),
            any(outboxes),
            any(has_watch(request) for request in run.calls),
        )

    def _begin(self, index: int) -> tuple[Received, Client, Run]:
        model, knows = Model(self._placement.ensembles), self._beginning.knows
        who, mine = self._sessions[index], knows[index] if knows else None
        client = Client(self._placement, model, who, f"p{index}-", mine, has_total_order=self._has_total_order)
        run = Run(client, self._programs[index])
        run.advance()
        return NOTHING, client, run

    def key(self, client: ClientState, model: Model) -> Hashable:
        """What tells a client's states apart: no zxids; but a watch knows the life of a directory by one."""
        plain: tuple[Hashable, ...] = (client.received.plain, client.is_alive)
        if any(client.inboxes):
            plain += tuple(tuple(arrival.plain for arrival in inbox) for inbox in client.inboxes)
        return (plain, self._lives(client, model)) if client.position.is_watching else plain

    def _lives(self, client: ClientState, model: Model) -> tuple[int, ...]:
        """The lives of directories that a client has heard of, numbered as it heard of them."""
        names: dict[tuple[int, int], int] = {}
        heard = [(each.ensemble, each.what) for each in client.received.all()]
        heard += [(e, arrival.what) for e, inbox in enumerate(client.inboxes) for arrival in inbox]
        lives = [
            names.setdefault((ensemble, stat.czxid), len(names))
            for ensemble, what in heard
            for stat in stats_in(what)
        ]
        for request in client.position.calls:
            home = self._beginning.home(model, path_of(request) or "/")
            znode = model.nodes[home.ensemble].get(home.path)
            lives.append(names.get((home.ensemble, znode.czxid), -1) if znode else -2)
        return tuple(lives)


def arrival(what: Answer) -> Arrival:
    return Arrival(what, freeze(what))


class Issuing(Protocol):
    def call(self, request: Request) -> Result:
        """Issue an operation."""

    def rise(self, knows: Knows) -> None:
        """Go on to the next form of the map."""


class Run:
    """A program at work on a client."""

    def __init__(self, client: Issuing, program: Program) -> None:
        self.client = client
        self.calls: list[Request] = []
        self.ended: list[Ended] = []
        self.heard: set[int] = set()  # the ensembles that have answered since an operation was issued alone
        self.told: list[Told] = []
        self._program: Asking = program() if callable(program) else one_by_one(program)
        self._results: list[Result] = []
        self._awaited: list[Result] = []
        self._is_many = False
        self._left: set[int] = set()  # operations that have not ended

    def advance(self) -> None:
        """Issue what the program wants to, after what it waits for."""
        self._note()
        while all(result.told for result in self._awaited):
            values = [result.value for result in self._awaited]
            try:
                if not self.calls:
                    asked = next(self._program)
                else:
                    asked = self._program.send(values if self._is_many else values[0])
            except StopIteration:
                return
            self._is_many = isinstance(asked, list)
            self.heard.clear()
            self._awaited = []
            for each in asked if isinstance(asked, list) else [asked]:
                if isinstance(each, Rise):
                    self.client.rise(each.knows)
                else:
                    self._awaited.append(self._issue(each))
            self._note()

    def _issue(self, request: Request) -> Result:
        number = len(self.calls)
        self.calls.append(request)
        self._left.add(number)
        if has_watch(request):
            request = _with_watcher(request, lambda event: self.told.append(Told(number, event.type)))
        self._results.append(self.client.call(request))
        return self._results[-1]

    def counts(self) -> list[int]:
        """How many answers each operation has got."""
        return [len(result.told) for result in self._results]

    def _note(self) -> None:
        for number in sorted(self._left):
            if self._results[number].told:
                self._left.remove(number)
                ensemble = next(iter(self.heard)) if len(self.heard) == 1 and not self._is_many else -1
                self.ended.append(Ended(number, self._results[number].value, ensemble))


def one_by_one(requests: Sequence[Request]) -> Asking:
    for request in requests:  # noqa: UP028 - a list cannot be sent the results
        yield request


def _with_watcher(request: Request, watcher: Callable[[WatchedEvent], None]) -> Request:
    replaced: Request = request._replace(watcher=watcher)  # type: ignore[attr-defined]
    return replaced
