"""A plan: which directories move so that the ensembles' loads come near to their weights. Pure.

A load is writes/s, or znodes. A directory moves as a branch: with all that is below it on its ensemble.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from parkazoo.admin.write_counts import DirectoryWrites
from parkazoo.protocol.placement import MIRRORS, above, is_of_zookeeper, is_reserved, logical

# Judgement, not measured.
NEAR = 0.1  # of a share: a load that is so little off has it
WORTH = 0.001  # of all load: a move that brings less is not worth its pause
A_MOVE = 1_000  # so many znodes to copy are as much trouble as one move more
MOST_MOVES = 100
# Estimates, beyond measured ones.
PAUSE_MS = 100.0
PAUSE_MS_OF_A_ZNODE = 0.05


class Branch(NamedTuple):
    """A directory with all that is below it on its ensemble.

    :param directory: as clients name it. :param place: its path on the ensemble.
    :param load: of its children, and of all below. :param own: of its children alone.
    :param znodes: below it on the ensemble.
    :param below: the directories in it that have a load, and itself.
    """

    directory: str
    ensemble: str
    place: str
    load: float
    own: float
    znodes: int
    below: tuple[str, ...]


class PlannedMove(NamedTuple):
    branch: Branch
    to: str


MayGo = Callable[[Branch, str], bool]


@dataclass(frozen=True)
class RebalancePlan:
    """Moves to make one after the other, and what they bring.

    :param unit: of the loads. :param before: by ensemble. :param weights: by ensemble, of one at least.
    :param indivisible: directories whose children alone are more than the largest share; a move spreads none.
    :param too_large: branches of ensembles with too much load, whose pause would be too long.
    :param is_whole: whether no further move would bring anything.
    :param is_too_little: whether there is so little load that there is no plan.
    """

    unit: str
    before: Mapping[str, float]
    weights: Mapping[str, int]
    moves: Sequence[PlannedMove] = ()
    indivisible: Sequence[Branch] = ()
    too_large: Sequence[Branch] = ()
    is_whole: bool = True
    is_too_little: bool = False

    @cached_property
    def shares(self) -> Mapping[str, float]:
        """The load that each ensemble should have, by its weight."""
        total, weights = sum(self.before.values()), sum(self.weights[name] for name in self.before)
        return {name: total * self.weights[name] / weights for name in self.before}

    @cached_property
    def after(self) -> Mapping[str, float]:
        """The load of each ensemble when all moves are made."""
        now = dict(self.before)
        for branch, to in self.moves:
            now[branch.ensemble] -= branch.load
            now[to] += branch.load
        return now

    def is_even(self) -> bool:
        """Whether all loads are near their shares after the moves."""
        least = NEAR * sum(self.before.values()) / len(self.before)
        return all(
            abs(load - share) <= max(NEAR * share, 0.0 if share else least)
            for load, share in ((self.after[name], self.shares[name]) for name in self.before)
        )


def branches_of(directories: Iterable[DirectoryWrites], *, worth: float) -> list[Branch]:
    """Returns the directories with so much load at least that can move, the heaviest first; without znodes."""
    loads: dict[tuple[str, str], float] = defaultdict(float)
    own: dict[tuple[str, str], float] = defaultdict(float)
    below: dict[tuple[str, str], set[str]] = defaultdict(set)
    for each in directories:
        own[each.ensemble, each.path] += each.writes
        for place in (each.path, *above(each.path)):
            if place in (MIRRORS, "/"):
                break
            loads[each.ensemble, place] += each.writes
            below[each.ensemble, place].add(each.directory)
    found = [
        Branch(path, ensemble, place, load, own[ensemble, place], 0, tuple(sorted(below[ensemble, place])))
        for (ensemble, place), load in loads.items()
        if load >= worth and _can_move(path := logical(place))
    ]
    return sorted(found, key=lambda each: (-each.load, each.place, each.ensemble))


def _can_move(directory: str) -> bool:
    return directory != "/" and not is_reserved(directory) and not is_of_zookeeper(directory)


def pause_ms(znodes: int) -> float:
    """Returns how long operations in a branch may wait for its move, by estimate."""
    return PAUSE_MS + PAUSE_MS_OF_A_ZNODE * znodes


def make_plan(
    unit: str,
    loads: Mapping[str, float],
    weights: Mapping[str, int],
    branches: Sequence[Branch],
    may_go: MayGo = lambda branch, to: True,
    most_pause_ms: float = math.inf,
) -> RebalancePlan:
    """Chooses the moves that bring the most load to where it should be for the fewest znodes.

    No move brings less than it takes: the receiver is not fuller than the giver then, or both are near their
    shares. From an ensemble of weight 0 all goes. Of a branch, and of those in it and around it, one moves.

    :param loads: by ensemble, also what cannot move. :param branches: with their znodes.
    :param may_go: whether the rules of the map let a branch go to an ensemble.
    """
    bare = RebalancePlan(unit, loads, {name: weights.get(name, 0) for name in loads})
    largest = (1 + NEAR) * max(bare.shares.values())
    indivisible = [each for each in branches if each.own > largest]
    quick = [each for each in branches if pause_ms(each.znodes) <= most_pause_ms]
    state = _Shares(bare.shares, dict(loads))
    moves: list[PlannedMove] = []
    while best := min(_useful(state, quick, may_go), default=None):
        if len(moves) == MOST_MOVES:
            return RebalancePlan(unit, loads, bare.weights, moves, indivisible, is_whole=False)
        branch = quick[best.at]
        moves.append(PlannedMove(branch, best.to))
        state.move(branch, best.to)
        quick = [each for each in quick if not _are_one(each, branch)]
    slow = [each for each in branches if pause_ms(each.znodes) > most_pause_ms]
    slow = [each for each in slow if not any(_are_one(each, move.branch) for move in moves)]
    too_large = [slow[at] for at in sorted({each.at for each in _useful(state, slow, may_go)})]
    return RebalancePlan(unit, loads, bare.weights, moves, indivisible, too_large)


@dataclass(frozen=True)
class _Shares:
    """What each ensemble should have, and has."""

    shares: Mapping[str, float]
    now: dict[str, float]

    def fullness(self, name: str, more: float = 0.0) -> float:
        """1 if it has its share; an ensemble that should have nothing is always too full."""
        return (self.now[name] + more) / self.shares[name] if self.shares[name] else math.inf

    def brings(self, branch: Branch, to: str) -> float:
        """Returns how much load comes nearer to where it should be; 0.0 if the move is not to be."""
        giver, load = branch.ensemble, branch.load
        too_much, too_little = self.now[giver] - self.shares[giver], self.shares[to] - self.now[to]
        if too_much <= 0 or too_little <= 0:
            return 0.0
        if self.fullness(giver) <= 1 + NEAR and self.fullness(to) >= 1 - NEAR:
            return 0.0
        left, got = self.fullness(giver, -load), self.fullness(to, load)
        if got > left and not (got <= 1 + NEAR and left >= 1 - NEAR):
            return 0.0
        gain = min(load, too_much, too_little, too_much + too_little - load)
        return gain if gain >= WORTH * sum(self.now.values()) else 0.0

    def move(self, branch: Branch, to: str) -> None:
        self.now[branch.ensemble] -= branch.load
        self.now[to] += branch.load


class _Useful(NamedTuple):
    """A move that brings something; the smallest is the best. `at` is the index of its branch."""

    cost: float
    fullness: float
    directory: str
    to: str
    at: int


def _useful(state: _Shares, branches: Sequence[Branch], may_go: MayGo) -> Iterator[_Useful]:
    for at, each in enumerate(branches):
        for to in state.now:
            gain = state.brings(each, to)
            if gain and may_go(each, to):
                yield _Useful((A_MOVE + each.znodes) / gain, state.fullness(to), each.directory, to, at)


def _are_one(branch: Branch, other: Branch) -> bool:
    """Whether they have znodes in common."""
    one, two = f"{branch.place}/", f"{other.place}/"
    return branch.ensemble == other.ensemble and (one.startswith(two) or two.startswith(one))
