"""Visits the worlds that a scenario can come to, and judges each end."""

from __future__ import annotations

import gc
import random
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from kazoo.protocol.states import EventType

from tests.explore.judge import Judge
from tests.explore.scenario import Bounds, Scenario, Violation
from tests.explore.scheduler import Scheduler
from tests.explore.tell import report
from tests.explore.world import Move, Told, World, moves_to

ANYTHING = Bounds()
UNBOUNDED = Bounds(sys.maxsize)


class Explorer:
    """What all violations say: what happened, a line each, and the command that lets it happen again.

    :ivar states: worlds visited. :ivar ends: of them, those in which nothing can happen any more.
    :ivar is_cut: whether a client was left alone, so that not all has been visited.
    """

    def __init__(self, scenario: Scenario, bounds: Bounds = ANYTHING) -> None:
        self.scenario = scenario
        self.bounds = bounds
        self.states = 0
        self.moves = 0
        self.ends = 0
        self.is_cut = False
        self._scheduler = Scheduler(scenario)
        self._judge = Judge(scenario)

    def explore(self) -> None:
        """Visit every world, up to the bounds.

        :raises Violation: something does not hold.
        """
        with _rare_collection():
            start = self._begin()
            stack = [start]
            seen = {self._scheduler.key(start)}
            while stack and self.states != self.bounds.most:
                world = stack.pop()
                self.states += 1
                moves = self._scheduler.moves(world, self.bounds)
                for move in moves:
                    after = self._make(move, world)
                    key = self._scheduler.key(after)
                    if key not in seen:
                        seen.add(key)
                        stack.append(after)
                if not moves:
                    self._end(world)

    def walk(self, dice: random.Random) -> None:
        """One way at random.

        :raises Violation: something does not hold.
        """
        world = self._begin()
        while moves := self._scheduler.moves(world, self.bounds):
            self.states += 1
            world = self._make(dice.choice(moves), world)
        self._end(world)

    def replay(self, moves: Sequence[Move]) -> None:
        """One way.

        :raises Violation: something does not hold.
        :raises ValueError: a move cannot happen there.
        """
        world = self._begin()
        for move in moves:
            if str(move) not in map(str, self._scheduler.moves(world, UNBOUNDED)):
                raise ValueError(f"{move} cannot happen behind {','.join(map(str, moves_to(world))) or 'nothing'}")
            world = self._make(move, world)
        self._end(world)

    def _begin(self) -> World:
        try:
            return self._scheduler.opened()._replace(path=None)
        except Violation as violation:
            raise self._reported(violation, []) from None

    def _make(self, move: Move, world: World) -> World:
        self.moves += 1
        try:
            return self._scheduler.make(move, world)
        except Violation as violation:
            raise self._reported(violation, [*moves_to(world), move]) from None

    def _end(self, world: World) -> None:
        self.ends += 1
        self.is_cut = self.is_cut or self._scheduler.is_cut(world, self.bounds)
        try:
            self.scenario.promises.at_end(world.model, world.crashes > 0)
            self._judge.judge(world.model, world.history, self._told(world))
        except Violation as violation:
            raise self._reported(violation, moves_to(world)) from None

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

    def _reported(self, violation: Violation, moves: Sequence[Move]) -> Violation:
        return Violation(report(self.scenario, moves, str(violation)))


@contextmanager
def _rare_collection() -> Iterator[None]:
    """The search for cycles of references looks at young objects only: all worlds are kept to the end anyway."""
    before = gc.get_threshold()
    gc.set_threshold(50_000, 20, 1_000_000)
    try:
        yield
    finally:
        gc.set_threshold(*before)
