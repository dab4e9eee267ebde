"""What others do beside a directory's move: clients that come or stay, new lives, commands, maps."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import Any
from unittest import mock

from kazoo.security import OPEN_ACL_UNSAFE

from parkazoo.admin import directory_move
from parkazoo.admin.directory_move import DirectoryMove, MoreEnsemblesError
from parkazoo.admin.rise import Rise
from parkazoo.errors import ClusterMapError
from parkazoo.kazoo_private import Create, Delete, SetData
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.pin import Pin, encode_pin
from parkazoo.protocol.placement import MAP, fence_of, mirror_path
from parkazoo.protocol.registration import registration_path
from tests.admin.test_directory_move import (
    GROWN,
    HOME,
    MOST_WRITES,
    NAMES,
    OLD,
    PATH,
    PIN,
    SESSIONS,
    WORKER,
    CrashError,
    MoveCase,
    StuckError,
    Worker,
)
from tests.fakes.ensemble import FakeAdminClient

PATIENCE = 2000  # sleeps of a command; no more are needed
NEVER = 10_000  # more writes than a command makes


class Newcomer(Worker):
    """A client without a session on a, which remembers that the children are there.

    :ivar has_come: it has a session there.
    :ivar hears_of_the_end: it follows a map by which the children have moved.
    """

    hears_on = NAMES
    has_come = hears_of_the_end = True

    def leaves(self) -> None:
        self.ensembles["a"].write(Delete(registration_path(WORKER), -1))
        self.in_mind, self.has_come = self.place(), False

    def comes(self) -> None:
        """It registers, then reads a's copy of the map."""
        self._register("a")
        self.map = max(self.map, self.map_on("a"), key=lambda each: each.epoch)
        self.has_come = True

    def map_on(self, name: str) -> ClusterMap:
        found = super().map_on(name)
        is_ignored = found.move is not None and found.move.has_switched and not self.hears_of_the_end
        return self.map if is_ignored else found

    def goes_on(self) -> None:
        if self.has_come:
            super().goes_on()


class BesideCase(MoveCase):
    worker: Newcomer

    def begin_empty(self, chance: random.Random, known: ClusterMap = GROWN) -> None:
        super().begin_empty(chance, known)
        self.worker = Newcomer(self.ensembles, chance)
        self.slept = 0

    def sleeps(self, seconds: float) -> None:
        self.slept += 1
        if self.slept > PATIENCE:
            raise StuckError
        super().sleeps(seconds)


class TestClients(BesideCase):
    def test_one_that_comes(self) -> None:
        """Before each write."""
        for number in range(MOST_WRITES):
            with self.subTest(number):
                self.begin(random.Random(number))
                self.worker.leaves()
                with self.worker_works(), self.before_write(number, self.worker.comes) as count:
                    self.move()
                if count[0] <= number:
                    break
                self.assert_whole("b")
        self.assertGreater(number, 20)

    def test_the_old_place_goes_when_all_have_left_it(self) -> None:
        """A client has watches there until it says that the children have moved."""
        self.worker.hears_of_the_end = False

        def sleep(seconds: float) -> None:
            move = self.published().move
            if move is not None and move.has_switched:
                raise StuckError  # the command waits for the client
            self.worker.goes_on()

        waits = mock.patch("parkazoo.admin.directory_move.time.sleep", sleep)
        with self.worker_works(), waits, self.assertRaises(StuckError):
            self.move()
        self.assertIn(("a", OLD), self.mirrors())
        self.worker.hears_of_the_end = True
        with self.worker_works():
            self.move()
        self.assert_whole("b")


class TestNewLives(BesideCase):
    def make_anew(self, on: str) -> None:
        """Clients delete the directory, with its old place, and make it anew; its children are there then."""
        self.delete_directory()
        ensemble = self.ensembles[on]
        ensemble.write(SetData(fence_of(PATH), b"", -1))
        self.home.write(Create(HOME, b"", OPEN_ACL_UNSAFE, 0))
        self.home.write(Create(PIN, encode_pin(Pin(0, 0), on), OPEN_ACL_UNSAFE, 0))
        ensemble.write(Create(mirror_path(PATH), b"", OPEN_ACL_UNSAFE, 0))
        self.worker.in_mind, self.worker.known, self.worker.count = None, {}, 0
        for _ in range(3):
            self.worker.works()

    def test_at_each_write(self) -> None:
        """Where the children were, or where they go; also of a directory that never had a child."""
        for on in ("a", "b"):
            for is_empty in (False, True):
                for number in range(MOST_WRITES):
                    with self.subTest(number, on=on, is_empty=is_empty):
                        self.begin_one(number, is_empty)
                        with (
                            self.before_write(number, partial(self.make_anew, on)) as count,
                            suppress(ClusterMapError),
                        ):
                            self.move()
                        if count[0] <= number:
                            break
                        self.move()
                        self.assert_whole("b")
                self.assertGreater(number, 20)

    def begin_one(self, number: int, is_empty: bool) -> None:
        if not is_empty:
            self.begin(random.Random(number))
            return
        self.begin_empty(random.Random(number))
        self.home.write(Create(PIN, encode_pin(Pin(0, 0), "a"), OPEN_ACL_UNSAFE, 0))
        self.ensembles["a"].write(Create(OLD, b"", OPEN_ACL_UNSAFE, 0))


class ByTurns:
    """A command that goes on only while it is let: it stops before writes.

    :param make: makes the command of what it is to call before each write.
    """

    def __init__(self, make: Callable[[Callable[[], None]], Callable[[], Any]]) -> None:
        self._run = make(self._before_write)
        self._left = 0  # writes, before it stops
        self._turn = threading.Semaphore(0)
        self._others_turn = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._go, daemon=True)
        self._thread.start()
        self.has_ended = False
        self.error: BaseException | None = None

    def go_on(self, writes: int = NEVER) -> None:
        """Let it make so many more; and come to its end, by default."""
        if not self.has_ended:
            self._left = writes
            self._turn.release()
            self._others_turn.acquire()

    def _before_write(self) -> None:
        if not self._left:
            self._others_turn.release()
            self._turn.acquire()
        self._left -= 1

    def _go(self) -> None:
        self._turn.acquire()
        try:
            self._run()
        except BaseException as error:
            self.error = error
        self.has_ended = True
        self._others_turn.release()


class TestByTurns(BesideCase):
    """A move, and an abort that comes in its middle, slowly."""

    def run_by_turns(self, *turns: int) -> list[BaseException | None]:
        """So many writes of the one, of the other, of the one ... and then all that is left."""
        both = [
            ByTurns(lambda before: self.command(before_write=before)[1]),
            ByTurns(lambda before: self.command(None, aborts=True, before_write=before)[1]),
        ]
        with self.worker_works():
            for number, writes in enumerate(turns):
                both[number % 2].go_on(writes)
            for each in both:
                each.go_on()
        return [each.error for each in both]

    def test_an_abort_in_its_middle(self) -> None:
        """The move goes on while the abort takes back what it has begun."""
        for turns in itertools.product((4, 5, 6), (0, 1, 2), (7, 8, 9), (1,)):
            with self.subTest(turns):
                self.begin(random.Random(1))
                of_move, of_abort = self.run_by_turns(*turns)
                for error in (of_move, of_abort):
                    self.assertIsInstance(error, (ClusterMapError, type(None)), error)
                if of_abort is None:
                    self.assert_whole("a")
                self.move()
                self.assert_whole("b")


class TestMaps(BesideCase):
    """The map changes before each request."""

    def test_an_abort(self) -> None:
        """It looks again; an ensemble that comes has to be connected first."""
        for comes in (False, True):
            for number in range(MOST_WRITES):
                with self.subTest(number, comes=comes):
                    self.begin_with_a_mark()
                    count = self.change_before(number, comes=comes)
                    with suppress(MoreEnsemblesError) if comes else nullcontext():
                        self.move(None, aborts=True)
                    if count[0] <= number:
                        break
                    if not comes:
                        self.assert_whole("a")
            self.assertGreater(number, 20)

    def begin_with_a_mark(self) -> None:
        """A command ends before it publishes."""
        self.begin(random.Random(1))
        session, run = self.command()
        with self.before_write(6, self.crash), suppress(CrashError):
            run()
        self.assertEqual(len(self.home.znodes[PIN].children), 1)
        self.end_session(session)

    def change_before(self, number: int, *, comes: bool) -> list[int]:
        """Returns how many requests there were."""
        count = [0]

        def between() -> None:
            count[0] += 1
            if count[0] == number + 1:
                newer = replace(GROWN, epoch=GROWN.epoch + 1)
                if comes:
                    ensembles, placement = {**GROWN.ensembles, "c": "c:1"}, (*GROWN.placement, "c")
                    newer = replace(newer, ensembles=ensembles, placement=placement, unweighted=("c",))
                for each in self.ensembles.values():
                    each.write(SetData(MAP, newer.to_json(), -1))

        for ensemble in self.ensembles.values():
            ensemble.between = between
        return count

    def test_a_move_that_connects_again(self) -> None:
        """An ensemble comes before each write."""
        for number in range(MOST_WRITES):
            with self.subTest(number):
                self.begin(random.Random(number))
                with self.worker_works(), self.before_write(number, self.come) as count:
                    self.move_with_all()
                if count[0] <= number:
                    break
                self.assert_whole("b")
        self.assertGreater(number, 20)

    def test_interrupted_when_an_ensemble_has_come(self) -> None:
        """It ends, and does not connect again."""

        def come() -> None:
            self.come()
            raise KeyboardInterrupt

        for number in range(MOST_WRITES):
            with self.subTest(number):
                self.begin(random.Random(number))
                has_ended = False
                with self.worker_works(), self.before_write(number, come) as count, suppress(KeyboardInterrupt):
                    self.move_with_all()
                    has_ended = True
                self.assertEqual(has_ended, count[0] <= number)
                if has_ended:
                    break
                with self.worker_works():
                    self.move_with_all()
                self.assert_whole("b")
        self.assertGreater(number, 20)

    def test_called_off_when_an_ensemble_has_come(self) -> None:
        """It tries again: it has called the move off itself, because a client was not ready."""
        came: list[int] = []

        def between() -> None:
            if self.published().move is None or came:
                self.worker.goes_on()

        def before_write() -> None:
            move = self.published().move
            if move is not None and not self.worker.is_held(move) and not came:
                came.append(1)
                directory_move.HOLD_S = 10.0
                self.come()

        for ensemble in self.ensembles.values():
            ensemble.between, ensemble.before_write = between, before_write
        with mock.patch.object(directory_move, "HOLD_S", 0.0):
            self.move_with_all()
        self.assertEqual(came, [1])
        self.assert_whole("b")

    def move_with_all(self) -> None:
        """As a command does: it connects again when ensembles have come."""
        rise = Rise({}, 5.0, self.told.append, lambda waiting: None, False, True, True)
        move = DirectoryMove(PATH, "b", rise, lambda done, total: None)
        while True:
            session, known = next(SESSIONS), self.published()
            clients = {name: FakeAdminClient(self.ensembles[name], name, session) for name in known.ensembles}
            try:
                move.run(known, clients)
            except MoreEnsemblesError:
                continue
            finally:
                self.end_session(session)
            return
