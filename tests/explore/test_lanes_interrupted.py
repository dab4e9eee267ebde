"""A signal handler raises at each point of a deferred write: tickets tell what has landed, which is a prefix."""

from __future__ import annotations

import unittest
from collections.abc import Hashable, Iterator, Sequence
from functools import partial
from unittest.mock import patch

from kazoo.exceptions import ConnectionLoss

from parkazoo.engine import driver
from parkazoo.engine.deferred import lanes, marker, own_operations, writes
from parkazoo.engine.deferred.lanes import Lane, Lanes, Phase
from parkazoo.engine.deferred.writes import COMMITTED, DROPPED, FAILED, PENDING, Batch
from parkazoo.protocol import chain
from tests.explore.lane_mutants import LaneMutant, Right, nothing
from tests.explore.lane_programs import PROGRAMS, Program
from tests.explore.lanes import Violation, World, first_model
from tests.explore.model import Model
from tests.explore.mutation import instead
from tests.interruption import Interruption, interrupted, where_signals_come

FILES = {str(module.__file__) for module in (lanes, marker, own_operations, writes, driver, chain)}
MOST_MOVES = 1000
MOST_SECOND, STEP = 30, 7


def opened(right: Right) -> Right:
    def break_off(lane: Lane, error: Exception) -> None:
        right(lane, error)
        if lane.phase is Phase.SETTLING:
            lane.phase = Phase.OPEN

    return break_off


def asked_once(right: Right) -> Right:
    def settle(lane: Lane) -> None:
        if not lane.marker.is_asked:
            right(lane)

    return settle


def out_first(right: Right) -> Right:
    def take(lane: Lane) -> Batch | None:
        is_ready = lane.phase is Phase.OPEN and lane.error is None and lane._waiting
        if lane._again or not (is_ready and (lane._is_urgent or lane._is_full)):
            found: Batch | None = right(lane)
            return found
        batch = Batch(lane._first_waiting())
        for write in batch.writes:
            lane._waiting.popleft()
            lane._waiting_bytes -= write.size
        lane._begin_flight(batch)
        return batch

    return take


MUTANTS = {
    "the lane goes on": LaneMutant(instead(Lanes.mend, nothing), "puts", "in doubt"),
    "the marker is not asked": LaneMutant(instead(Lane.break_off, opened), "puts", "pending"),
    "the marker is not asked again": LaneMutant(instead(Lane.settle, asked_once), "puts", "in doubt"),
    "out of the queue before it is in flight": LaneMutant(
        instead(Lane._take, out_first), "refused in a batch, stop", "write 0 is pending"
    ),
}


class Interrupted(World):
    """The user puts one write after the other. The last is interrupted, and the client drops its connections."""

    is_interrupted = False

    def __init__(self, program: Program, first: Model, moves: Sequence[str]) -> None:
        super().__init__(program._replace(later=len(program.writes), losses=0), first)
        for name in moves:
            self.moves()[name]()

    def interrupt(self, point: int) -> bool:
        """Whether the put has so many points."""
        if not interrupted(self._users()["put"], point, FILES, where_signals_come):
            return False
        self.is_interrupted = True
        self.writes = self.writes[: self.issued]
        self.may_issue = self.issued
        for port in self.ports:
            port.break_off(ConnectionLoss)
        self.driver.fail_all(ConnectionLoss)
        self.runtime.make_calls()
        return True

    def _flush(self) -> None:
        """Also behind each third put. The others wait until a batch is full."""
        if self.is_interrupted or self.issued % 3 == 0:
            super()._flush()

    def _found(self, ensemble: int | Exception | None) -> None:
        if not self.is_interrupted:
            super()._found(ensemble)

    def finish(self, *, is_late_first: bool) -> None:
        """The user closes. What the servers have not seen of the old connections comes at once, or at the end."""
        self._flush()
        self.runtime.make_calls()
        for _ in range(MOST_MOVES):
            moves = [name for name in self.moves() if not name.startswith("put")]
            if not moves:
                return
            self.moves()[min(moves, key=lambda name: name.startswith("late") != is_late_first)]()
            self.judge()
        raise Violation("it goes on for ever")

    def judge_end(self) -> None:
        if self.lanes.pending:
            raise Violation(f"{self.lanes.pending} are pending")
        if self.lanes.is_in_doubt or self.own._kept is not None:
            raise Violation("a lane is in doubt, or operations wait")
        for number, write in enumerate(self.writes):
            is_in, is_refused = number in self.applied, number in self.program.refused
            allowed = {COMMITTED} if is_in else {DROPPED, FAILED} if is_refused else {DROPPED}
            if number == len(self.writes) - 1 and not is_in:
                allowed.add(PENDING)  # nobody has its ticket; perhaps no lane has it either
            if write.state not in allowed:
                raise Violation(f"write {number} is {write.state}; landed: {self.applied}")


class TestInterrupted(unittest.TestCase):
    def test_each_point(self) -> None:
        for name in ("puts", "refused in a batch, stop", "a wrong hint"):
            program = PROGRAMS[name]._replace(reads=None)
            if program.pins is not None:
                program = program._replace(writes=program.writes[::2])
            with self.subTest(name), patch.object(lanes, "MOST_WRITES", program.batch):
                count = sum(self.check_each(program, moves) for moves in before_puts(program))
                self.assertGreater(count, 300)

    def test_a_second_one_while_the_first_is_handled(self) -> None:
        """At each point of the breaking off, for some points of the first."""
        mend, count, second = Lanes.mend, 0, 0
        seen: list[Lanes] = []

        def mend_and_be_interrupted(torn: Lanes) -> None:
            if torn in seen:
                mend(torn)
                return
            seen.append(torn)
            if interrupted(partial(mend, torn), second, FILES, where_signals_come):
                raise Interruption

        program = PROGRAMS["puts"]._replace(reads=None)
        with (
            patch.object(lanes, "MOST_WRITES", program.batch),
            patch.object(Lanes, "mend", mend_and_be_interrupted),
        ):
            for moves in before_puts(program):
                for second in range(1, MOST_SECOND):  # noqa: B007 - the function above reads it
                    count += self.check_each(program, moves, STEP)
                    seen.clear()
        self.assertGreater(count, 300)

    def test_each_mutant_is_found(self) -> None:
        for name, mutant in MUTANTS.items():
            program = PROGRAMS[mutant.program]._replace(reads=None)
            with (
                self.subTest(name),
                patch.object(lanes, "MOST_WRITES", program.batch),
                mutant.applied(name),
                self.assertRaisesRegex(Violation, mutant.violation),
            ):
                for moves in before_puts(program):
                    self.check_each(program, moves)

    def check_each(self, program: Program, moves: Sequence[str], step: int = 1) -> int:
        """Interrupt the put that comes behind these moves at each of its points; how many there are."""
        first, point = first_model(program), 1
        while True:
            for is_late_first in (True, False):
                world = Interrupted(program, first, moves)
                if not world.interrupt(point):
                    return point - 1
                try:
                    world.finish(is_late_first=is_late_first)
                    world.judge_end()
                except Violation as violation:
                    raise Violation(f"{violation}; by {','.join(moves)}, at point {point}") from violation
            point += step


def before_puts(program: Program) -> Iterator[tuple[str, ...]]:
    """The moves to each state in which the user may put."""
    first, seen = first_model(program), set[Hashable]()
    waiting: list[tuple[str, ...]] = [()]
    while waiting:
        moves = waiting.pop()
        world = Interrupted(program, first, moves)
        if (key := world.key()) in seen:
            continue
        seen.add(key)
        next_moves = world.moves()
        if any(lane.error for lane in world.lanes.all):
            next_moves.pop("put", None)  # it raises DeferredError
        waiting += [(*moves, name) for name in next_moves]
        if "put" in next_moves:
            yield moves
