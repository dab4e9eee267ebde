"""A caller of ``once`` is interrupted at each point, and its write goes on: those behind it are done once."""

from __future__ import annotations

import gc
import logging
import unittest
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from types import FrameType
from unittest.mock import patch

from kazoo.exceptions import ConnectionLoss
from kazoo.security import OPEN_ACL_UNSAFE

from parkazoo.engine import driver
from parkazoo.engine.driver import Driver
from parkazoo.engine.ports import Reply
from parkazoo.kazoo_private import Create, SetData, Transaction
from parkazoo.protocol import once, order
from parkazoo.protocol.once import Marker, Once
from parkazoo.protocol.placement import Placement
from parkazoo.recipe import exactly_once, transaction
from parkazoo.recipe.exactly_once import ExactlyOnce
from parkazoo.recipe.transaction import RetriableTransaction
from tests.explore.alone import make_context, must, prepared
from tests.explore.lane_parts import Port
from tests.explore.lanes import Violation
from tests.explore.mutation import Mutation, instead
from tests.explore.znodes import Answer, Request
from tests.fakes.result import Result
from tests.interruption import Interruption, interrupted, where_signals_come

FILES = {str(module.__file__) for module in (driver, exactly_once, once, order, transaction)}
INTERRUPT, WAKE = "interrupt", "wake"
LOSSES = 1
MOST_MOVES = 200


def drops_what_is_left(right: Callable[[Marker, Once], None]) -> Callable[[Marker, Once], None]:
    def wrong(marker: Marker, user: Once) -> None:
        marker.attempt = None
        right(marker, user)

    return wrong


MUTANTS = {
    "the marker is given back while the operation is under way": Mutation(
        partial(patch.object, Once, "is_over", property(lambda request: request.is_left))
    ),
    "nobody settles what an interrupted caller has left": Mutation(instead(Marker.use, drops_what_is_left)),
    "a lost connection is an answer": Mutation(instead(ExactlyOnce._until_answered, lambda _: ExactlyOnce._ask)),
}


class Unfinished(Exception):
    """Somebody waits, and it is not said what happens next.

    :ivar moves: what may.
    """

    def __init__(self, moves: list[str]) -> None:
        super().__init__(moves)
        self.moves = moves


class Waited(Result):
    """An async result. Its wait lets the world go on."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def get(self) -> Answer:
        while not self.told:
            self._world.go_on()
        return self.value


class Client:
    """What ``once`` needs of a client, its handler and its waits. The lock is free whenever anybody asks."""

    chroot, default_acl = "", None
    auth_data: frozenset[object] = frozenset()
    lock_object = staticmethod(nullcontext)
    unchroot = staticmethod(str)
    logger = logging.getLogger(__name__)

    def __init__(self, world: World) -> None:
        self.handler = self.waits = self
        self._world = world
        self.async_result = partial(Waited, world)

    def pause(self, seconds: float) -> None:
        self._world.sleep()

    def _call(self, request: Request, reply: Reply) -> None:
        """If a signal handler raises in here, the connections are dropped."""
        try:
            self._world.driver.call(request, reply)
        except BaseException:
            self._world.drop()
            raise


class World:
    """One ensemble, and a client: two plain sets are under way, of /p and /q.

    The first caller sets /p by ``once``, and may be interrupted. The next two set /q, one after the other.

    :param moves: what happens while somebody waits. :param is_late_first: when these have come to their end, what
        is late comes before everything else, or last; None: ask.
    """

    def __init__(self, moves: Sequence[str], is_late_first: bool | None) -> None:
        placement = Placement(1)
        self.model = prepared(placement)
        for path in ("/p", "/q"):
            must(self.model.execute(0, Create(path, b"", OPEN_ACL_UNSAFE, 0)))
        self.port = Port()
        self.driver = Driver(make_context(placement), [self.port], nullcontext)
        self.once = ExactlyOnce(Client(self))
        self.applied: list[bytes] = []
        self.acknowledged: list[bytes] = []
        self._moves = list(moves)
        self._is_late_first = is_late_first
        self._may_interrupt = is_late_first is None
        self._losses = LOSSES if is_late_first is None else 0
        for path in ("/p", "/q"):
            self.driver.call(SetData(path, b"plain", -1), Result())

    # ---- moves -------------------------------------------------------------------------------------

    def moves(self) -> dict[str, Callable[[], None]]:
        port, found = self.port, dict[str, Callable[[], None]]()
        if port.unanswered:
            found["answer"] = self._answer
        elif port.unserved:
            found["serve"] = self._serve
        if port.late:
            found["late"] = self._late
        if self._losses and (port.unserved or port.unanswered):
            found["cut"] = self._cut
        return found

    def go_on(self) -> None:
        """One move. In every order, a caller that is interrupted is interrupted here."""
        found: dict[str, Callable[[], None]] = self.moves()
        if self._moves:
            name = self._moves.pop(0)
            if name == INTERRUPT:
                self._may_interrupt = False
                raise Interruption
            found[name]()
        elif self._is_late_first is None:
            raise Unfinished([*found, *[INTERRUPT] * self._may_interrupt])
        elif not found:
            raise Violation("somebody waits for ever")
        else:
            found[min(found, key=lambda name: (name == "late") != self._is_late_first)]()

    def sleep(self) -> None:
        """Between two tries."""
        if self._may_interrupt:
            if not self._moves:
                raise Unfinished([WAKE, INTERRUPT])
            if self._moves.pop(0) == INTERRUPT:
                raise Interruption

    def _serve(self) -> None:
        request, reply = self.port.unserved.popleft()
        self.port.unanswered.append((self._execute(request), reply))

    def _answer(self) -> None:
        answer, reply = self.port.unanswered.popleft()
        (reply.set_exception if isinstance(answer, Exception) else reply.set)(answer)

    def _late(self) -> None:
        self._execute(self.port.late.popleft())

    def _cut(self) -> None:
        self._losses -= 1
        self.port.break_off(ConnectionLoss)

    def drop(self) -> None:
        self.port.break_off(ConnectionLoss)
        self.driver.fail_all(ConnectionLoss)

    def _execute(self, request: Request) -> Answer:
        answer = self.model.execute(0, request)
        is_done = isinstance(answer, list) and not any(isinstance(each, Exception) for each in answer)
        if isinstance(request, Transaction) and is_done:
            first = request.operations[0]
            assert isinstance(first, SetData) and first.data is not None
            self.applied.append(first.data)
        return answer

    # ---- callers -----------------------------------------------------------------------------------

    def set(self, path: str, value: bytes) -> None:
        """:raises Violation: it is answered otherwise than a set that is alone."""
        request = RetriableTransaction(self.once._client)
        request.set_data(path, value)
        try:
            ((stat,), _) = self.once.commit(request)
        except Unfinished:
            raise
        except Exception as error:
            raise Violation(f"{value.decode()} raised {error!r}") from error
        if isinstance(stat, Exception):
            raise Violation(f"{value.decode()} was answered {stat!r}")
        self.acknowledged.append(value)

    def the_others(self) -> None:
        """They are not interrupted. At the end nothing is under way."""
        self._may_interrupt = False
        self.set("/q", b"second")
        self._is_late_first = self._is_late_first or False  # the last one tells whether its marker is in order
        self.set("/q", b"third")
        for _ in range(MOST_MOVES):
            if not (found := self.moves()):
                return
            found[min(found)]()
        raise Violation("it goes on for ever")

    def judge(self) -> None:
        """:raises Violation: what was acknowledged is not there, something is there twice, or a marker is lost."""
        if any(self.applied.count(each) != 1 for each in self.acknowledged):
            raise Violation(f"acknowledged: {self.acknowledged}; done: {self.applied}")
        if len(set(self.applied)) < len(self.applied):
            raise Violation(f"done: {self.applied}")
        if not all(marker.is_free for marker in self.once._markers._markers):
            raise Violation("a marker is lost")


def but_in_a_wait(frame: FrameType, event: str) -> bool:
    """The loop does what is done there."""
    each: FrameType | None = frame
    while each is not None:
        if each.f_code is World.go_on.__code__:
            return False
        each = each.f_back
    return where_signals_come(frame, event)


def in_every_order() -> Iterator[World]:
    """Play each order of moves, the interruption among them, to its end."""
    waiting: list[tuple[str, ...]] = [()]
    while waiting:
        moves = waiting.pop()
        world = World(moves, None)
        try:
            with suppress(Interruption):
                world.set("/p", b"first")
            world.the_others()
            world.judge()
        except Unfinished as unfinished:
            waiting += [(*moves, each) for each in unfinished.moves]
        except Violation as violation:
            raise Violation(f"{violation}; by {','.join(moves)}") from violation
        else:
            yield world


class TestInterrupted(unittest.TestCase):
    def test_at_each_point(self) -> None:
        gc.disable()  # it would end generators of earlier worlds in the middle of a call, and count points there
        self.addCleanup(gc.enable)
        for is_late_first in (True, False):
            point = 1
            while True:
                world = World((), is_late_first)
                if not interrupted(partial(world.set, "/p", b"first"), point, FILES, but_in_a_wait):
                    break
                with self.subTest(point=point, is_late_first=is_late_first):
                    world.the_others()
                    world.judge()
                point += 1
            self.assertGreater(point, 50)

    def test_in_every_order(self) -> None:
        worlds = list(in_every_order())
        self.assertGreater(len(worlds), 100)
        self.assertGreater(sum(b"first" in world.acknowledged for world in worlds), 10)
        self.assertGreater(sum(b"first" in {*world.applied} - {*world.acknowledged} for world in worlds), 10)

    def test_each_mutant_is_found(self) -> None:
        for name, mutant in MUTANTS.items():
            with self.subTest(name), mutant.applied(name), self.assertRaises(Violation):
                list(in_every_order())
