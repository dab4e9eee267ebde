"""Visits the worlds that sessions can come to."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence

from tests.explore.scenario import Bounds
from tests.explore.sessions.scenario import SessionScenario
from tests.explore.sessions.scheduler import Scheduler
from tests.explore.sessions.tell import events_of
from tests.explore.sessions.world import Move, World, moves_to
from tests.explore.tell import report
from tests.explore.visitor import ANYTHING, Visitor


class Late:
    """Dice by which the first client reads from some ensembles only when nothing else can happen."""

    def __init__(self, dice: random.Random, ensembles: Collection[int]) -> None:
        self._dice = dice
        self._late = [Move(0, "d", each) for each in ensembles]

    def choice(self, moves: Sequence[Move], /) -> Move:
        return self._dice.choice([move for move in moves if move not in self._late] or moves)


class SessionExplorer(Visitor[World, Move]):
    """Each world is judged when a move has led to it."""

    is_cut = False

    def __init__(self, scenario: SessionScenario, bounds: Bounds = ANYTHING) -> None:
        self.scenario = scenario
        self._scheduler = Scheduler(scenario)
        super().__init__(self._scheduler, bounds)

    def _begin(self) -> World:
        return self._scheduler.begin()

    def _judge_end(self, world: World) -> None:
        """It has been judged."""

    def _moves_to(self, world: World) -> list[Move]:
        return moves_to(world)

    def _report(self, moves: Sequence[Move], violation: str) -> str:
        return report(self.scenario.name, events_of(self.scenario, moves), moves, violation)
