"""What clients come to by what they get: production code, run again from its beginning, once for each way."""

from __future__ import annotations

from collections.abc import Hashable

from kazoo.protocol.states import KeeperState

from tests.explore.clients import Run
from tests.explore.sessions.beginning import NAMES
from tests.explore.sessions.client import Client, Input, exact, plain
from tests.explore.sessions.scenario import SessionScenario
from tests.explore.sessions.world import ClientState, Ledger, Position, Received

NOTHING = Received(None, None, 0)


class Positions:
    """All clients of a scenario, in all that they have come to."""

    def __init__(self, scenario: SessionScenario) -> None:
        self._scenario = scenario
        self._names = NAMES[: scenario.ensembles]
        self._numbers: dict[tuple[int, int, Hashable], int] = {}
        self._positions: dict[tuple[int, int], Position] = {}
        self._live: dict[int, tuple[int, Client, Run]] = {}  # each client, as it was run last

    def new(self, index: int) -> ClientState:
        """A client that has got nothing."""
        count = self._scenario.ensembles
        ledger = Ledger(frozenset(), (frozenset(),) * count)
        return ClientState(NOTHING, self._position(index, NOTHING), ((),) * count, ledger)

    def receive(self, index: int, client: ClientState, item: Input) -> ClientState:
        """The client when it has got that."""
        key = index, client.received.number, exact(item) if self._scenario.is_exact else plain(item)
        number = self._numbers.setdefault(key, len(self._numbers) + 1)
        received = Received(client.received, item, number)
        return client._replace(received=received, position=self._position(index, received))

    def _position(self, index: int, received: Received) -> Position:
        key = index, received.number
        found = self._positions.get(key)
        if found is None:
            found = self._positions[key] = self._replay(index, received)
        return found

    def _replay(self, index: int, received: Received) -> Position:
        """By the client that has just come to what was before, or else by a new one."""
        at, client, run = self._live.pop(index, (-1, None, None))
        if client is None or run is None or received.previous is None or received.previous.number != at:
            hosts = ",".join(f"{name}1:1" for name in self._scenario.start)
            give_up_after_s = 1.0 if "g" in self._scenario.troubles else None
            client = Client(index, self._names, hosts, give_up_after_s)
            run = Run(client, self._scenario.programs[index])
            _advance(client, run)
            items = received.all()
        else:
            items = received.all()[-1:]
        for item in items:
            client.take(item)
            _advance(client, run)
        self._live[index] = received.number, client, run
        return self._look(client, run)

    def _look(self, client: Client, run: Run) -> Position:
        session = client.session
        return Position(
            tuple(client.port(ensemble) for ensemble in range(self._scenario.ensembles)),
            client.client_state,
            KeeperState.CONNECTED in client.states,
            client.states.count(KeeperState.EXPIRED_SESSION),
            client.states.count(KeeperState.CONNECTING),
            session.number,
            session.roster.cluster_map.epoch if session.roster.cluster_map else 0,
            len(session.roster.cluster_map.names) if session.roster.cluster_map else 0,
            tuple(run.calls),
            tuple(run.ended),
            tuple(run.told),
            tuple(run.counts()),
            len(run.ended) < len(run.calls),
            client.callbacks,
            session.driver is not None and bool(session.driver.order),
            client.may_give_up,
            client.form,
            client.is_changing,
            client.session._standing.is_failing,
            client.has_right_hosts(),
            client.parting,
            client.is_holding,
            client.parted(),
            client.later,
        )


def _advance(client: Client, run: Run) -> None:
    """Let the program go on as far as it can."""
    before = -1
    while before != len(run.calls) + len(run.ended):
        before = len(run.calls) + len(run.ended)
        client.settle()
        run.advance()
