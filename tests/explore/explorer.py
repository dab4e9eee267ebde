"""Visits the worlds that a scenario can come to, and judges each end."""

from __future__ import annotations

from collections.abc import Sequence

from kazoo.exceptions import ConnectionLoss
from kazoo.protocol.states import EventType

from tests.explore.judge import Judge
from tests.explore.scenario import Bounds, Scenario, Violation
from tests.explore.scheduler import Scheduler
from tests.explore.tell import events_of, report
from tests.explore.visitor import ANYTHING, Visitor
from tests.explore.world import Move, Position, Told, World, moves_to


class Explorer(Visitor[World, Move]):
    """
    :ivar is_cut: whether a client was left alone, so that not all has been visited.
    """

    def __init__(self, scenario: Scenario, bounds: Bounds = ANYTHING) -> None:
        self.scenario = scenario
        self.is_cut = False
        self._scheduler = Scheduler(scenario)
        self._judge = Judge(scenario)
        super().__init__(self._scheduler, bounds)

    def _begin(self) -> World:
        try:
            return self._scheduler.opened()._replace(path=None)
        except Violation as violation:
            raise self._reported(violation, []) from None

    def _judge_end(self, world: World) -> None:
        self.is_cut = self.is_cut or self._scheduler.is_cut(world, self.bounds)
        self.scenario.promises.at_end(world.model, world.crashes > 0)
        for client in world.clients:
            if client.is_alive and not client.position.is_waiting:
                verify_nothing_is_left(client.position)
        self._judge.judge(world.model, world.history, self._told(world))

    def _moves_to(self, world: World) -> list[Move]:
        return moves_to(world)

    def _report(self, moves: Sequence[Move], violation: str) -> str:
        return report(self.scenario.name, events_of(self.scenario, moves), moves, violation)

    def _told(self, world: World) -> dict[int, tuple[Told, ...]]:
        """By client, the events of its watches; without clients that may not know yet."""
        if not self.scenario.promises.of_watches:
            return {}
        told = [each for client in world.clients for each in client.position.told]
        if not world.losses and any(each.event == EventType.NONE for each in told):
            raise Violation("a watch is called with NONE, and no connection was lost")
        return {
            index: client.position.told
            for index, client in enumerate(world.clients)
            if client.is_alive and not client.position.is_waiting
        }


def verify_nothing_is_left(position: Position) -> None:
    """:raises Violation: by a client to which nothing can happen any more."""
    if not position.is_idle:
        raise Violation("an operation has not ended, or holds something")
    ended = {each.number: each.result for each in position.ended}
    failed = [number for number in position.watching if isinstance(ended[number], Exception)]
    if any(type(ended[number]) is not ConnectionLoss for number in failed):
        raise Violation("a watch is left by an operation that has failed")
