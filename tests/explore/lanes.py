"""A lane of deferred writes, explored: losses, late batches, an expiry and refusals, in every order.

The production driver and lanes run over the model. A connection that breaks loses the answers that are under way;
the requests that the server has not seen may still reach it, late. That is more than ZooKeeper allows. The user
may go on before those who wait for an answer are told.

Where pins decide, another client makes a directory again elsewhere, or decides first where its children are; or
the form of the map rises meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import nullcontext
from functools import partial
from typing import Any
from unittest.mock import patch

from kazoo.exceptions import ConnectionLoss, SessionExpiredError
from kazoo.security import OPEN_ACL_UNSAFE

from parkazoo.engine.deferred import lanes
from parkazoo.engine.deferred.lanes import Lanes
from parkazoo.engine.deferred.marker import DISCONNECTED
from parkazoo.engine.deferred.own_operations import OwnOperations
from parkazoo.engine.deferred.writes import COMMITTED, DROPPED, FAILED, Write, directory_of
from parkazoo.engine.driver import Driver
from parkazoo.engine.ports import OnAnswer
from parkazoo.kazoo_private import Create, GetData, Transaction
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.ops import batch
from parkazoo.protocol.placement import DEFERRED, Place, Placement, logical, split
from parkazoo.protocol.plans import PLANS
from parkazoo.protocol.steps import Request, WriteRequest
from parkazoo.protocol.where.places import by_first
from tests.explore.alone import make_context, make_grown, must, outcome, prepared
from tests.explore.grown import ADOPTED, Maps, brought, guess
from tests.explore.lane_parts import Port, Runtime, Session
from tests.explore.lane_programs import DC, MIRRORED, E, Pins, Program
from tests.explore.model import Model
from tests.explore.pinned import home_by_pins
from tests.explore.scenario import Knows
from tests.explore.znodes import Answer
from tests.fakes.result import Result
from tests.where_is import where_is

PATIENCE_S = 1000.0


class Violation(AssertionError):
    """What was promised does not hold."""


class World:
    """One run of a program, move by move.

    :param first: the ensembles at its beginning, of :func:`first_model`.
    """

    def __init__(self, program: Program, first: Model) -> None:
        self.program = program
        placement = self.placement = _placement(program)
        self.model = first.copy()
        self.ports = [Port() for _ in range(placement.ensembles)]
        self.runtime = Runtime()
        self.driver = driver = Driver(make_context(placement), self.ports, nullcontext)
        self.session = Session(driver)
        self.losses = program.losses
        self.has_expired = self.has_meddled = False
        self.again = list(program.pins.again) if program.pins else []
        self.applied: list[int] = []
        self.late_markers: set[str] = set()
        self.guarded = 0  # so many had landed when the guard went
        self.is_misplaced = False
        if program.pins and program.pins.form is not Form.PLAIN:
            self._begin_form(program.pins.form)
        session: Any = self.session
        self.own = OwnOperations(session, self.runtime, PATIENCE_S, OPEN_ACL_UNSAFE, nullcontext())  # type: ignore[arg-type]
        self.writes = [Write(request, len(request.path)) for request in program.writes]
        self.read = Result()
        self.lanes = Lanes(self.own, program.skips, program.guard, 0.0, self._go_on)
        self.reads = 2 if program.reads and program.later and program.pins else 1 if program.reads else 0
        self.issued, self.may_issue = 0, len(self.writes) - program.later
        self.is_asking = self.waits_for_all = False
        self._issue()
        self.runtime.make_calls()

    # ---- the user's thread -------------------------------------------------------------------------

    def _go_on(self) -> None:
        """Writes have ended."""
        if self.waits_for_all and not self.lanes.pending:
            self.waits_for_all = False
            self._issue()

    def _issue(self, more: int = 0) -> None:
        """What :class:`Deferred` does, but that no thread waits here."""
        self.may_issue += more
        while self.issued < self.may_issue:
            write, context = self.writes[self.issued], self.driver.context
            directory = directory_of(write.request.path)
            if directory not in self.lanes.of:
                if context.form is not Form.PLAIN:
                    self._flush()
                    self.is_asking = True
                    self.driver.run(batch.find_children(context, directory), OnAnswer(self._found))
                    return
                self.lanes.enter(self.lanes.assign, directory, context.known(directory).mirror.ensemble)
            self.issued += 1
            self.lanes.enter(self.lanes.of[directory].put, directory, write)
        self._flush()
        if self.program.reads and not self.program.later:
            self._read()

    def _read(self) -> None:
        """The last one is judged. Where pins decide, one before it tells the client where its directory is."""
        self.reads -= 1
        path, reply = (DC, Result()) if self.reads else (str(self.program.reads), self.read)
        self.own.call(GetData(path, None), reply)

    def _found(self, ensemble: int | Exception | None) -> None:
        self.is_asking = False
        directory = split(self.writes[self.issued].request.path)[0]
        if isinstance(ensemble, DISCONNECTED):
            self.runtime.timers.append(self._issue)
        elif ensemble is None and self.lanes.pending:
            self.waits_for_all = True
        else:
            assert not isinstance(ensemble, Exception), ensemble
            where = self.driver.context.known(directory).mirror.ensemble if ensemble is None else ensemble
            self.lanes.enter(self.lanes.assign, directory, where)
            self._issue()

    def _flush(self) -> None:
        self.lanes.flush()

    # ---- moves -------------------------------------------------------------------------------------

    def moves(self) -> dict[str, Callable[[], None]]:
        """What may happen next, by name."""
        lost = {f"fail{number}": port for number, port in enumerate(self.ports) if port.is_lost}
        if lost:  # the loop is busy with it
            found = {name: partial(port.break_off, ConnectionLoss) for name, port in lost.items()} | self._users()
        else:
            found = self._all_moves()
        return {name: partial(self._move, move) for name, move in found.items()}

    def _move(self, move: Callable[[], None]) -> None:
        move()
        if not any(port.is_lost for port in self.ports):
            self.runtime.make_calls()

    def _users(self) -> dict[str, Callable[[], None]]:
        """What the user may do."""
        found: dict[str, Callable[[], None]] = {}
        if self.issued == self.may_issue < len(self.writes):
            found["put"] = partial(self._issue, 1)
        if self.program.later and self.reads > (self.issued < len(self.writes)):
            found["read"] = self._read
        return found

    def _all_moves(self) -> dict[str, Callable[[], None]]:
        found = self._users()
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
        if self.again and self._form is Form.GROWN:
            found["again"] = self._make_again
        if self.program.closes and not (self.lanes.ended or self.lanes.pending):
            found["close"] = self._close
        if self._may_rise():
            found["rise"] = self._rise
        return found

    @property
    def _form(self) -> Form:
        return self.driver.context.form

    def _may_rise(self) -> bool:
        """The command waits for all that the client does by the form before."""
        rises = self.program.pins is not None and self.program.pins.rises
        return rises and self._form is not Form.GROWN and not self.driver.has_older

    def _rise(self) -> None:
        self._begin_form(Form(self._form + 1))

    def _begin_form(self, form: Form) -> None:
        pins = self.program.pins
        assert pins is not None
        where = guess(pins.guess) if form is Form.GROWN else by_first(ADOPTED)
        knows = Knows(where, pins.hints, form)
        self.driver.begin_form(make_grown(self.driver.context, ADOPTED, knows))

    def _close(self) -> None:
        self.lanes.ended = "closed"
        self.lanes.enter(self.lanes.remove)

    def _make_again(self) -> None:
        """By another client, at once; or one request after the other, if that may be seen."""
        assert self.program.pins is not None
        count = 1 if self.program.pins.may_refuse else len(self.again)
        marks = f"other{len(self.again)}-"
        other = make_grown(make_context(ADOPTED, marks), ADOPTED, Knows(guess(self.program.pins.other)))
        for request in self.again[:count]:
            answer = outcome(self.model, PLANS[request.type].operation(other, request))
            if isinstance(answer, Exception):  # there is a child that the client has made
                self.again.clear()
                return
        del self.again[:count]

    def _serve(self, ensemble: int) -> None:
        request, reply = self.ports[ensemble].unserved.popleft()
        self.ports[ensemble].unanswered.append((self._execute(ensemble, request), reply))

    def _answer(self, port: Port) -> None:
        answer, reply = port.unanswered.popleft()
        (reply.set_exception if isinstance(answer, Exception) else reply.set)(answer)

    def _late(self, ensemble: int) -> None:
        request = self.ports[ensemble].late.popleft()
        if isinstance(request, Create):
            self.late_markers.add(request.path)
        self._execute(ensemble, request)

    def _cut(self, port: Port) -> None:
        self.losses -= 1
        if self._users():
            port.is_lost = True
        else:
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
        for lanes_of_one in self.own.lanes:
            lanes_of_one.flush()

    def _meddle(self) -> None:
        self.has_meddled = True
        self.guarded = len(self.applied)
        assert self.program.meddling is not None
        self.model.execute(self.placement.of(self.program.meddling.path), self.program.meddling)

    def _execute(self, ensemble: int, request: Request) -> Answer:
        before = self.model.copy()
        answer: Any = self.model.execute(ensemble, request)
        if isinstance(request, Transaction) and not any(isinstance(each, Exception) for each in answer):
            for step in request.operations:
                for number in self._writes_of(step):
                    self.applied.append(number)
                    self.is_misplaced |= not self._is_in_place(Place(ensemble, step.path), before)
        found: Answer = answer
        return found

    def _writes_of(self, step: WriteRequest) -> list[int]:
        """Which of the program's writes a step does."""
        kind, data, path = type(step), getattr(step, "data", None), logical(step.path)
        return [
            number
            for number, each in enumerate(self.program.writes)
            if type(each) is kind and each.path == path and getattr(each, "data", None) == data
        ]

    def _is_in_place(self, place: Place, before: Model) -> bool:
        """Whether the pins say so, when a write has been done there. One that was deleted had its place before."""
        if self.program.pins is None:
            return True
        path = logical(place.path)
        return place in (home_by_pins(each, 0, path) for each in (before, self.model))

    # ---- what must hold ----------------------------------------------------------------------------

    def judge(self) -> None:
        """:raises Violation: what has landed is no prefix of what was issued, or has landed twice."""
        wanted = [number for number in range(len(self.writes)) if number not in self.program.refused]
        if self.program.refused and not self.program.skips:
            wanted = wanted[: self.program.refused[0]]
        for some in self._orders(wanted):
            applied = [number for number in self.applied if number in some]
            left = [number for number in some if self.writes[number].state != FAILED or number in applied]
            if applied != (left if self._may_refuse else some)[: len(applied)]:
                raise Violation(f"landed: {self.applied}")
        if not set(self.applied) <= set(wanted):
            raise Violation(f"landed: {self.applied}")
        if self.is_misplaced:
            raise Violation(f"landed where it does not belong: {self.applied}")
        if self.has_meddled and len(self.applied) > self.guarded:
            raise Violation(f"landed without its guard: {self.applied}")
        if any(port.is_wrong for port in self.ports):
            raise Violation("sent after the expiry")

    @property
    def _may_refuse(self) -> bool:
        return self.program.pins is not None and self.program.pins.may_refuse

    def _orders(self, wanted: list[int]) -> list[list[int]]:
        """Those that are in order among themselves: of one ensemble, or of a directory that may have moved."""
        pins = self.program.pins
        if pins is None:
            return [wanted]
        orders: dict[str | int, list[int]] = {}
        for number in wanted:
            directory = split(self.writes[number].request.path)[0]
            home = home_by_pins(self.model, 0, f"{directory}/any").ensemble
            orders.setdefault(directory if directory in pins.moves or self.again else home, []).append(number)
        return list(orders.values())

    def judge_end(self) -> None:
        """Nothing is under way.

        :raises Violation: a ticket says something else than what has landed, or nothing.
        """
        for number, write in enumerate(self.writes):
            is_in, is_refused = number in self.applied, number in self.program.refused or self._may_refuse
            allowed = (COMMITTED,) if is_in else (FAILED,) if is_refused else (DROPPED,)
            if write.state not in ((*allowed, DROPPED) if self.has_expired and not is_in else allowed):
                raise Violation(f"write {number} is {write.state}; landed: {self.applied}")
        is_whole = not (self.has_expired or self.has_meddled or self.program.refused or self._may_refuse)
        if is_whole and len(self.applied) < len(self.writes):
            raise Violation(f"only these have landed: {self.applied}")
        if self.lanes.ended:
            left = {path for path in self.model.nodes[0] if split(path)[0] == DEFERRED}
            if not left <= self.late_markers:
                raise Violation(f"markers are left: {left}")
        if self.program.reads:
            (value,) = self.read.told
            last = [each for each in self.program.writes if each.path == self.program.reads][-1]
            if not isinstance(value, Exception) and value[0] != getattr(last, "data", None):  # type: ignore[index]
                raise Violation(f"its own read does not see its writes: {value}")

    def key(self) -> Hashable:
        ports = tuple(
            (
                repr([request for request, _ in port.unserved]),
                repr([answer for answer, _ in port.unanswered]),
                repr(port.late),
                repr([request for request, _ in port.queued]),
                (port.is_lost, port.submitted),
            )
            for port in self.ports
        )
        states = tuple(write.state for write in self.writes)
        told = self.session.number, self.losses, self.has_meddled, len(self.again), len(self.runtime.timers)
        closed = self.lanes.ended, frozenset(self.late_markers)
        user = self.issued, self.reads, self.is_asking, self.waits_for_all, self._form, len(self.runtime.calls)
        lanes = tuple(
            (each.ensemble, each.phase, repr([(batch.number, batch.answer) for batch in each._flight]))
            for each in self.lanes.all
        )
        of = tuple((directory, lane.ensemble) for directory, lane in self.lanes.of.items())
        hints = repr(vars(getattr(self.driver.context, "places", self.driver)).get("_hints"))
        asked = self.model.key(), ports, hints
        return asked, states, told, closed, user, lanes, of, repr(self.read.told), tuple(self.applied)


def first_model(program: Program) -> Model:
    """The ensembles at the beginning of a program."""
    placement = _placement(program)
    model = _grown_model(program.pins) if program.pins else prepared(placement, [MIRRORED])
    for path in ("/x", "/guard", *([MIRRORED] if program.ensembles > 1 else [])):
        must(model.execute(placement.of(path), Create(path, b"", OPEN_ACL_UNSAFE, 0)))
    return model


def _placement(program: Program) -> Placement:
    return ADOPTED if program.pins else Placement(program.ensembles)


def _grown_model(pins: Pins) -> Model:
    """What is there at the beginning, and the fences of all that may become a directory."""
    older = None if pins.form is Form.PLAIN else Knows(guess(pins.older))
    model = brought(pins.state, Maps(ADOPTED, older, Knows(guess(pins.guess))), ((), ())).model.copy()
    for ensemble in range(ADOPTED.ensembles):
        for directory in (E, "/f", "/n"):
            model.execute(ensemble, Create(where_is(ADOPTED, directory).fence, b"", OPEN_ACL_UNSAFE, 0))
    return model


class LaneExplorer:
    """Plays a program in every order, each state once.

    :ivar states: how many there were. :ivar ends: those in which nothing is under way.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._first = first_model(program)
        self._seen: set[Hashable] = set()
        self.states = self.ends = 0

    def explore(self) -> None:
        """:raises Violation: with the moves that lead to it."""
        with patch.object(lanes, "MOST_WRITES", self._program.batch):
            waiting: list[tuple[str, ...]] = [()]
            while waiting:
                self._descend(waiting)

    def _descend(self, waiting: list[tuple[str, ...]]) -> None:
        """Play the last path, and go on by the last move of each new state: the others wait."""
        path = waiting.pop()
        try:
            world = World(self._program, self._first)
            for name in path:
                world.moves()[name]()
            while moves := self._visit(world):
                waiting += [(*path, name) for name in moves]
                path = waiting.pop()
                moves[path[-1]]()
        except Violation as violation:
            raise Violation(f"{violation}; by {','.join(path)}") from violation

    def _visit(self, world: World) -> dict[str, Callable[[], None]]:
        """What may happen next; nothing, if this state has been visited."""
        world.judge()
        moves = world.moves()
        if not any(name.startswith(("serve", "answer", "timer", "put", "read", "fail")) for name in moves):
            self.ends += 1
            world.judge_end()
        key = world.key()
        if key in self._seen:
            return {}
        self._seen.add(key)
        self.states += 1
        return moves
