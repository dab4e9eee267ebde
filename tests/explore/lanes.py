"""A lane of deferred writes, explored: losses, late batches, an expiry and refusals, in every order.

The production driver and lane run over the model. A connection that breaks loses the answers that are under way;
the requests that the server has not seen may still reach it, late. That is more than ZooKeeper allows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple
from unittest.mock import patch

from kazoo.exceptions import ConnectionLoss, SessionExpiredError
from kazoo.security import OPEN_ACL_UNSAFE

from parkazoo.engine.deferring import PAUSE_S, Deferrals, RunningLane
from parkazoo.engine.driver import Driver
from parkazoo.kazoo_private import Create, Delete, GetData, SetData, Transaction
from parkazoo.protocol import deferral
from parkazoo.protocol.deferral import COMMITTED, DROPPED, FAILED, Lane, Write
from parkazoo.protocol.placement import ROOT, Placement
from parkazoo.protocol.steps import Request
from tests.explore.alone import Marks, find_directory, make_context, must, prepared
from tests.explore.client import Result
from tests.explore.model import Model
from tests.explore.znodes import Answer

PATIENCE_S = 1000.0
MIRRORED = find_directory(Placement(2), is_native=False)


class Program(NamedTuple):
    """What is written, and what may happen meanwhile.

    :param refused: the indexes of the writes that the server refuses.
    :param losses: of connections. :param meddling: what another client does at some time.
    """

    writes: tuple[Request, ...]
    refused: tuple[int, ...] = ()
    skips: bool = False
    losses: int = 1
    expires: bool = False
    batch: int = 1
    guard: str | None = None
    meddling: Request | None = None
    ensembles: int = 1
    reads: str | None = None


def _put(path: str, value: int) -> Request:
    return SetData(path, b"%d" % value, -1)


PUTS = tuple(_put("/x", number) for number in range(3))
BROKEN = (_put("/x", 0), _put("/missing", 1), _put("/x", 2))
PROGRAMS = {
    "puts": Program(PUTS, reads="/x"),
    "two losses": Program(PUTS[:2], losses=2),
    "expiry": Program(PUTS[:2], expires=True),
    "refused": Program(BROKEN, refused=(1,)),
    "refused, skipped": Program(BROKEN, refused=(1,), skips=True),
    "refused in a batch": Program((*BROKEN, _put("/x", 3)), refused=(1,), skips=True, batch=2),
    "refused in a batch, stop": Program((*BROKEN, _put("/x", 3)), refused=(1,), batch=2),
    "guard": Program(PUTS, guard="/guard", meddling=Delete("/guard", -1)),
    "first child": Program(
        (
            Create(f"{MIRRORED}/c", b"0", OPEN_ACL_UNSAFE, 0),
            _put(f"{MIRRORED}/c", 1),
            Delete(f"{MIRRORED}/c", -1),
        ),
        ensembles=2,
    ),
}


class Violation(AssertionError):
    """What was promised does not hold."""


class _Port:
    """A connection to one ensemble."""

    session_id = 7

    def __init__(self) -> None:
        self.unserved: deque[tuple[Request, Any]] = deque()
        self.unanswered: deque[tuple[Answer, Any]] = deque()
        self.late: deque[Request] = deque()
        self.submitted = 0
        self.has_expired = self.is_wrong = False

    def submit(self, request: Request, reply: Any) -> None:
        self.submitted += 1
        is_batch = isinstance(request, Transaction) and any(
            isinstance(each, SetData) for each in request.operations
        )
        self.is_wrong = self.is_wrong or (is_batch and self.has_expired)
        self.unserved.append((request, reply))

    def forget_watch(self, path: str, watch: Any) -> bool:
        return False

    def data_watches(self) -> list[tuple[str, Any]]:
        return []

    def break_off(self, error: type[Exception]) -> None:
        replies = [reply for _, reply in (*self.unanswered, *self.unserved)]
        self.late += [request for request, _ in self.unserved]
        self.unserved.clear()
        self.unanswered.clear()
        for reply in replies:
            reply.set_exception(error())


class _Session:
    """What a lane needs of a session."""

    is_stopping = False

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.number = 1
        self.call = driver.call


class _Runtime:
    def __init__(self) -> None:
        self.timers: deque[Callable[[], None]] = deque()
        self.new_mark = Marks()

    def call(self, call: Callable[[], None]) -> None:
        call()

    def call_later(self, delay_s: float, call: Callable[[], None]) -> None:
        if delay_s == PAUSE_S:
            self.timers.append(call)

    def make_lock(self) -> Any:
        return nullcontext()


class World:
    """One run of a program, move by move."""

    def __init__(self, program: Program) -> None:
        self.program = program
        placement = Placement(program.ensembles)
        self.model: Model = prepared(placement, [MIRRORED])
        for path in ("/x", "/guard"):
            must(self.model.execute(placement.of(path), Create(path, b"", OPEN_ACL_UNSAFE, 0)))
        if program.ensembles > 1:
            must(self.model.execute(placement.of(MIRRORED), Create(MIRRORED, b"", OPEN_ACL_UNSAFE, 0)))
        self.ports = [_Port() for _ in range(program.ensembles)]
        self.runtime = _Runtime()
        driver = Driver(make_context(placement), self.ports, nullcontext)
        self.session = _Session(driver)
        self.losses = program.losses
        self.has_expired = self.has_meddled = False
        self.applied: list[int] = []
        self.guarded = 0  # so many had landed when the guard went
        self.ensemble = (
            placement.of_children(MIRRORED) if program.ensembles > 1 else placement.of(program.writes[0].path)
        )
        session: Any = self.session
        self.deferrals = Deferrals(session, self.runtime, PATIENCE_S)  # type: ignore[arg-type]
        self.writes = [Write(request, len(request.path)) for request in program.writes]
        self.read = Result()
        self.lane = Lane(program.skips)
        running = RunningLane(
            self.deferrals, self.lane, nullcontext(), self.ensemble, program.guard, 0.0, lambda: None
        )
        for write in self.writes:
            running.add(write)
        running.flush()
        if program.reads:
            self.deferrals.call(GetData(program.reads, None), self.read)

    # ---- moves -------------------------------------------------------------------------------------

    def moves(self) -> dict[str, Callable[[], None]]:
        """What may happen next, by name."""
        found: dict[str, Callable[[], None]] = {}
        for number, port in enumerate(self.ports):
            if port.unserved:
                found[f"serve{number}"] = partial(self._serve, number)
            if port.unanswered:
                found[f"answer{number}"] = partial(self._answer, port)
            if port.late:
                found[f"late{number}"] = partial(self._late, number)
            if self.losses and (port.unserved or port.unanswered):
                found[f"cut{number}"] = partial(self._cut, port)
        if self.runtime.timers:
            found["timer"] = self._time
        if self.program.expires and not self.has_expired:
            found["expire"] = self._expire
        if self.program.meddling is not None and not self.has_meddled:
            found["meddle"] = self._meddle
        return found

    def _serve(self, ensemble: int) -> None:
        request, reply = self.ports[ensemble].unserved.popleft()
        self.ports[ensemble].unanswered.append((self._execute(ensemble, request), reply))

    def _answer(self, port: _Port) -> None:
        answer, reply = port.unanswered.popleft()
        (reply.set_exception if isinstance(answer, Exception) else reply.set)(answer)

    def _late(self, ensemble: int) -> None:
        self._execute(ensemble, self.ports[ensemble].late.popleft())

    def _cut(self, port: _Port) -> None:
        self.losses -= 1
        port.break_off(ConnectionLoss)

    def _time(self) -> None:
        self.runtime.timers.popleft()()

    def _expire(self) -> None:
        self.has_expired = True
        self.session.driver.fail_all(SessionExpiredError)
        self.session.number += 1
        for port in self.ports:
            port.has_expired = True
            port.break_off(SessionExpiredError)
        for lane in self.deferrals.lanes:
            lane.flush()

    def _meddle(self) -> None:
        self.has_meddled = True
        self.guarded = len(self.applied)
        assert self.program.meddling is not None
        self.model.execute(self.ensemble, self.program.meddling)

    def _execute(self, ensemble: int, request: Request) -> Answer:
        answer: Any = self.model.execute(ensemble, request)
        if isinstance(request, Transaction) and not any(isinstance(each, Exception) for each in answer):
            for step in request.operations:
                self.applied += self._writes_of(step)
        found: Answer = answer
        return found

    def _writes_of(self, step: Request) -> list[int]:
        """Which of the program's writes a step does."""
        if step.path.startswith(ROOT) and not step.path.startswith(f"{ROOT}/mirrors/%2F{MIRRORED[1:]}/"):
            return []
        kind, data = type(step), getattr(step, "data", None)
        return [
            number
            for number, each in enumerate(self.program.writes)
            if type(each) is kind and getattr(each, "data", None) == data
        ]

    # ---- what must hold ----------------------------------------------------------------------------

    def judge(self) -> None:
        """:raises Violation: what has landed is no prefix of what was issued, or has landed twice."""
        wanted = [number for number in range(len(self.writes)) if number not in self.program.refused]
        if self.program.refused and not self.program.skips:
            wanted = wanted[: self.program.refused[0]]
        if self.applied != wanted[: len(self.applied)]:
            raise Violation(f"landed: {self.applied}")
        if self.has_meddled and len(self.applied) > self.guarded:
            raise Violation(f"landed without its guard: {self.applied}")
        if any(port.is_wrong for port in self.ports):
            raise Violation("sent after the expiry")

    def judge_end(self) -> None:
        """Nothing is under way.

        :raises Violation: a ticket says something else than what has landed, or nothing.
        """
        for number, write in enumerate(self.writes):
            is_in = number in self.applied
            allowed = (COMMITTED,) if is_in else (FAILED,) if number in self.program.refused else (DROPPED,)
            if write.state not in ((*allowed, DROPPED) if self.has_expired and not is_in else allowed):
                raise Violation(f"write {number} is {write.state}; landed: {self.applied}")
        is_whole = not (self.has_expired or self.has_meddled or self.program.refused)
        if is_whole and len(self.applied) < len(self.writes):
            raise Violation(f"only these have landed: {self.applied}")
        if self.program.reads:
            (value,) = self.read.told
            if not isinstance(value, Exception) and value[0] != self.writes[-1].request.data:  # type: ignore[index]
                raise Violation(f"its own read does not see its writes: {value}")

    def key(self) -> Hashable:
        ports = tuple(
            (
                repr([request for request, _ in port.unserved]),
                repr([answer for answer, _ in port.unanswered]),
                repr(port.late),
                port.submitted,
            )
            for port in self.ports
        )
        states = tuple(write.state for write in self.writes)
        told = self.lane.phase, self.session.number, self.losses, self.has_meddled, len(self.runtime.timers)
        flight = tuple((batch.number, batch.outcome) for batch in self.lane._flight)
        return self.model.key(), ports, states, told, flight, repr(self.read.told), tuple(self.applied)


class LaneExplorer:
    """Plays a program in every order, each state once.

    :ivar states: how many there were. :ivar ends: those in which nothing is under way.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._seen: set[Hashable] = set()
        self.states = self.ends = 0

    def explore(self) -> None:
        """:raises Violation: with the moves that lead to it."""
        with patch.object(deferral, "MOST_WRITES", self._program.batch):
            waiting: list[tuple[str, ...]] = [()]
            while waiting:
                waiting += self._visit(waiting.pop())

    def _visit(self, path: Sequence[str]) -> list[tuple[str, ...]]:
        try:
            world = self._play(path)
        except Violation as violation:
            raise Violation(f"{violation}; by {','.join(path)}") from violation
        key = world.key()
        if key in self._seen:
            return []
        self._seen.add(key)
        self.states += 1
        return [(*path, name) for name in world.moves()]

    def _play(self, path: Sequence[str]) -> World:
        world = World(self._program)
        for name in path:
            world.moves()[name]()
        world.judge()
        if not any(name.startswith(("serve", "answer", "timer")) for name in world.moves()):
            self.ends += 1
            world.judge_end()
        return world
