"""Visits the worlds that a game can come to: all of them, or those on one way."""

from __future__ import annotations

import gc
import sys
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

from tests.explore.scenario import Bounds, Violation

W = TypeVar("W")
M = TypeVar("M")
ANYTHING = Bounds()
UNBOUNDED = Bounds(sys.maxsize)


class Dice(Protocol[M]):
    """What a walk goes by, such as :class:`random.Random`."""

    def choice(self, moves: Sequence[M], /) -> M: ...


class Game(Protocol[W, M]):
    """What can happen."""

    def key(self, world: W) -> Hashable:
        """What tells a world from others."""

    def moves(self, world: W, bounds: Bounds) -> list[M]:
        """All that can happen next."""

    def make(self, move: M, world: W) -> W:
        """The world after a move.

        :raises Violation: what must hold in every state does not.
        """


class Visitor(ABC, Generic[W, M]):
    """What all violations say: what happened, a line each, and the command that lets it happen again.

    :ivar states: worlds visited. :ivar ends: of them, those in which nothing can happen any more.
    """

    def __init__(self, game: Game[W, M], bounds: Bounds) -> None:
        self.bounds = bounds
        self.states = 0
        self.moves = 0
        self.ends = 0
        self._game = game

    @abstractmethod
    def _begin(self) -> W:
        """:raises Violation: it may not be so."""

    @abstractmethod
    def _judge_end(self, world: W) -> None:
        """:raises Violation: something does not hold in a world in which nothing can happen."""

    @abstractmethod
    def _moves_to(self, world: W) -> list[M]:
        """How it came to be, since the beginning."""

    @abstractmethod
    def _report(self, moves: Sequence[M], violation: str) -> str:
        """What happened."""

    def explore(self) -> None:
        """Visit every world, up to the bounds.

        :raises Violation: something does not hold.
        """
        with _rare_collection():
            start = self._begin()
            stack = [start]
            seen = {self._game.key(start)}
            while stack and self.states != self.bounds.most:
                world = stack.pop()
                self.states += 1
                moves = self._game.moves(world, self.bounds)
                for move in moves:
                    after = self._make(move, world)
                    key = self._game.key(after)
                    if key not in seen:
                        seen.add(key)
                        stack.append(after)
                if not moves:
                    self._end(world)

    def walk(self, dice: Dice[M]) -> None:
        """One way at random.

        :raises Violation: something does not hold.
        """
        world = self._begin()
        while moves := self._game.moves(world, self.bounds):
            self.states += 1
            world = self._make(dice.choice(moves), world)
        self._end(world)

    def replay(self, moves: Sequence[M]) -> None:
        """One way.

        :raises Violation: something does not hold.
        :raises ValueError: a move cannot happen there.
        """
        world = self._begin()
        for move in moves:
            if str(move) not in map(str, self._game.moves(world, UNBOUNDED)):
                before = ",".join(map(str, self._moves_to(world))) or "nothing"
                raise ValueError(f"{move} cannot happen behind {before}")
            world = self._make(move, world)
        self._end(world)

    def _make(self, move: M, world: W) -> W:
        self.moves += 1
        try:
            return self._game.make(move, world)
        except Violation as violation:
            raise self._reported(violation, [*self._moves_to(world), move]) from None

    def _end(self, world: W) -> None:
        self.ends += 1
        try:
            self._judge_end(world)
        except Violation as violation:
            raise self._reported(violation, self._moves_to(world)) from None

    def _reported(self, violation: Violation, moves: Sequence[M]) -> Violation:
        return Violation(self._report(moves, str(violation)))


@contextmanager
def _rare_collection() -> Iterator[None]:
    """The search for cycles of references looks at young objects only: all worlds are kept to the end anyway."""
    before = gc.get_threshold()
    gc.set_threshold(50_000, 20, 1_000_000)
    try:
        yield
    finally:
        gc.set_threshold(*before)
