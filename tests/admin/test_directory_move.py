"""The steps of a directory's move, over ensembles in memory, while a client works and commands end anywhere."""

from __future__ import annotations

import itertools
import math
import random
import unittest
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import Any
from unittest import mock

from kazoo.exceptions import KazooException, NoNodeError
from kazoo.security import OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from parkazoo.admin.all_znodes import Pace
from parkazoo.admin.clients import AdminClient, LostError
from parkazoo.admin.directory_move import ATTEMPTS, DirectoryMove
from parkazoo.admin.history import parse_history
from parkazoo.admin.identity import encode_identity
from parkazoo.admin.moving.multi_read import MultiRead
from parkazoo.admin.rise import Rise
from parkazoo.errors import ClusterMapError
from parkazoo.kazoo_private import CheckVersion, Create, Delete, SetData
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.epochs import Form, Rule
from parkazoo.protocol.moving import MOVES, Moving, mark_of, opening
from parkazoo.protocol.ops.creates import native_marks
from parkazoo.protocol.pin import Pin, decode_pin, encode_pin
from parkazoo.protocol.placement import (
    CLIENTS,
    ENSEMBLE,
    FENCES,
    HISTORY,
    MAP,
    MIRRORS,
    ROOT,
    Place,
    fence_of,
    mirror_path,
)
from parkazoo.protocol.registration import encode_registration, registration_path
from parkazoo.protocol.rights import pin_acl
from parkazoo.protocol.where.places import NATIVE, directory
from tests.explore.znodes import EPHEMERAL, SEQUENCE
from tests.fakes.ensemble import FakeAdminClient, FakeEnsemble

NAMES = "a", "b", "h"
GROWN = ClusterMap("5d3c", {name: f"{name}:1" for name in NAMES}, NAMES, "h", form=Form.GROWN)
ROOT_AT = GROWN.names[GROWN.make_placement().of_children("/")]
PATH, HOME, PIN = "/d", "/d", "/d/.parkazoo"
OLD = mirror_path(PATH)
D = directory(PATH, Place(0, HOME), NATIVE)
WORKER = 77
FOLLOWS = 0.5  # of the looks at the map
SESSIONS = itertools.count(1000)
MOST_WRITES = 200  # more than a move takes


class CrashError(Exception):
    """The process of the command ends here."""


class StuckError(Exception):
    """A command waits for another one, or for a client."""


class Worker:
    """A client with sessions on a and b, which follows the map and obeys holds; and what it has done.

    :ivar is_ready: whether it says the map. :ivar known: what the tree must be like.
    :ivar may_skip: so many numbers, for pins below the home.
    """

    hears_on: tuple[str, ...] = ("a", "b")

    def __init__(self, ensembles: dict[str, FakeEnsemble], chance: random.Random) -> None:
        self.ensembles = ensembles
        self.chance = chance
        self.is_ready = self.is_patient = self.copies_ephemerals = True
        self.known: dict[str, tuple[bytes, int]] = {}
        self.count = 0
        self.says = self.may_skip = 0
        self.map = GROWN
        self.in_mind: tuple[FakeEnsemble, str] | None = None
        for name in ("a", "b"):
            self._register(name)

    def _register(self, name: str) -> None:
        path, ensemble = registration_path(WORKER), self.ensembles[name]
        data = encode_registration(WORKER, {"epoch": self.says, "host": "web7", "pid": 4711})
        if path in ensemble.znodes:
            ensemble.write(SetData(path, data, -1))
        else:
            ensemble.write(Create(path, data, OPEN_ACL_UNSAFE, EPHEMERAL), session=WORKER)

    def goes_on(self) -> None:
        """Follows the newest map, sooner or later, and does something, unless it holds.

        It has a place in mind as long as a client may, which its registration ends.
        """
        if self.is_ready and self.chance.random() < FOLLOWS:
            self.map = max((self.map_on(name) for name in self.hears_on), key=lambda each: each.epoch)
        move = self.map.move
        if self.says != self.map.epoch and not (move is not None and move.has_switched and self.is_held(move)):
            if move is not None and not move.has_switched and self.copies_ephemerals:
                self.copy_ephemerals(move)
            self.says = self.map.epoch
            self.in_mind = None
            for name in ("a", "b"):
                self._register(name)
        if move is not None and not move.has_switched and self.is_held(move):
            if self.is_patient:
                return
            self.home.write(Delete(f"{PIN}/{mark_of(move.name)}", -1))
            self.is_patient = True  # once is enough
        if HOME in self.home.znodes:
            try:
                self.works()
            except KazooException as error:  # else the command, which is in the middle of a request, might take it
                raise AssertionError(f"a client is answered {error!r}") from error

    def copy_ephemerals(self, move: Moving) -> None:
        ensemble, top = self.place()
        for path, znode in ensemble.znodes.items():
            if znode.owner == WORKER and path.startswith(f"{top}/"):
                copy = f"{mirror_path(PATH, move.name)}{path[len(top) :]}"
                with suppress(KazooException):
                    self.ensembles[move.target].write(
                        CheckVersion(opening(move.name), -1),
                        Create(copy, znode.data, znode.acl, EPHEMERAL),
                        session=WORKER,
                    )

    def is_held(self, move: Moving) -> bool:
        return f"{PIN}/{mark_of(move.name)}" in self.home.znodes

    def map_on(self, name: str) -> ClusterMap:
        return ClusterMap.from_json(self.ensembles[name].znodes[MAP].data)

    @property
    def home(self) -> FakeEnsemble:
        return self.ensembles[ROOT_AT]

    def place(self) -> tuple[FakeEnsemble, str]:
        pin = decode_pin(self.home.znodes[PIN].data or b"") if PIN in self.home.znodes else None
        if pin is None or pin.is_native:
            return self.home, HOME
        return self.ensembles[pin.on], mirror_path(PATH, pin.generation)

    def works(self) -> None:
        """One operation, whose answer is what one tree would answer."""
        ensemble, mirror = self.in_mind = self.in_mind or self.place()
        what, data = self.chance.random(), b"%d" % self.chance.randrange(9)
        if what < 0.4 or not self.known:
            (path,) = ensemble.write(Create(f"{mirror}/s-", data, OPEN_ACL_UNSAFE, SEQUENCE))
            name = path[len(mirror) :]
            skipped = int(name[-10:]) - self.count
            assert 0 <= skipped <= self.may_skip, f"{path}: {self.count} was to come"
            self.may_skip -= skipped
            self.count += skipped + 1
            self.known[name] = data, 0
        elif what < 0.8:
            name = self.chance.choice([*self.known])
            (stat,) = ensemble.write(SetData(mirror + name, data, -1))
            self.known[name] = data, self.known[name][1] + 1
            assert stat.version == self.known[name][1], f"{name}: {stat.version}, not {self.known[name]}"
        else:
            name = self.chance.choice([*self.known])
            ensemble.write(Delete(mirror + name, -1))
            del self.known[name]


class MoveCase(unittest.TestCase):
    """/d is in h's tree, or wherever / is; its children are on a, and are to go to b."""

    def setUp(self) -> None:
        self.begin(random.Random(1))
        self.is_stuck, self.ended_at_sleep = False, list[int]()
        for name, value in (
            ("parkazoo.admin.clients.THREADS_MOST", 1),  # the worker is asked by one after the other
            ("parkazoo.admin.clients.AGAIN_S", 0.0),
            ("parkazoo.admin.directory_move.time.sleep", self.sleeps),
        ):
            patched = mock.patch(name, value)
            patched.start()
            self.addCleanup(patched.stop)

    def sleeps(self, seconds: float) -> None:
        """Meanwhile the worker goes on, and sessions end."""
        if self.is_stuck:
            raise StuckError
        while self.ended_at_sleep:
            self.end_session(self.ended_at_sleep.pop())
        self.worker.goes_on()

    def begin(self, chance: random.Random, known: ClusterMap = GROWN) -> None:
        self.begin_empty(chance, known)
        self.home.write(Create(PIN, encode_pin(Pin(0, 0), "a"), OPEN_ACL_UNSAFE, 0))
        self.ensembles["a"].write(Create(OLD, b"", OPEN_ACL_UNSAFE, 0))
        for _ in range(12):
            self.worker.goes_on()

    def begin_empty(self, chance: random.Random, known: ClusterMap = GROWN) -> None:
        self.chance = chance
        structure = ROOT, MIRRORS, FENCES, CLIENTS, fence_of(PATH)
        self.ensembles = {name: FakeEnsemble(chance, *structure) for name in NAMES}
        for name, ensemble in self.ensembles.items():
            ensemble.write(Create(ENSEMBLE, encode_identity(known, name), OPEN_ACL_UNSAFE, 0))
            ensemble.write(Create(MAP, known.to_json(), OPEN_ACL_UNSAFE, 0))
        self.home = self.ensembles[ROOT_AT]
        self.home.write(Create(HOME, b"", OPEN_ACL_UNSAFE, 0))
        self.worker = Worker(self.ensembles, chance)
        self.told: list[str] = []

    def command(self, to: str | None = "b", **options: Any) -> Any:
        """A new one, in sessions of its own; call it."""
        session = next(SESSIONS)
        clients = {name: FakeAdminClient(each, name, session) for name, each in self.ensembles.items()}
        for client in clients.values():
            client.zk.before_write = options.get("before_write", lambda: None)
        rise = Rise({}, 5.0, self.told.append, lambda waiting: None, options.get("dry_run", False), True, True)
        path, per_second = options.get("path", PATH), options.get("per_second", math.inf)
        progress = options.get("progress", lambda done, total: None)
        move = DirectoryMove(path, to, rise, progress, per_second)
        run = move.abort if options.get("aborts") else move.run
        return session, lambda: run(self.published(), clients)

    def move(self, to: str | None = "b", **options: Any) -> Any:
        return self.command(to, **options)[1]()

    def crash_behind_the_switch(self) -> None:
        """A command dies at its first write after the directory has moved; its session ends."""

        def crash_if_switched() -> None:
            move = self.published().move
            if move is not None and move.has_switched:
                raise CrashError

        for each in self.ensembles.values():
            each.before_write = crash_if_switched
        session, run = self.command()
        with self.worker_works(), self.assertRaises(CrashError):
            run()
        self.end_session(session)
        for each in self.ensembles.values():
            each.before_write = lambda: None

    def published(self) -> ClusterMap:
        return ClusterMap.from_json(self.ensembles["h"].znodes[MAP].data)

    @contextmanager
    def worker_works(self, share: float = 0.3) -> Iterator[None]:
        def between() -> None:
            if self.chance.random() < share:
                self.worker.goes_on()

        for ensemble in self.ensembles.values():
            ensemble.between = between
        yield
        for ensemble in self.ensembles.values():
            ensemble.between = lambda: None

    @contextmanager
    def before_write(self, number: int, does: Callable[[], None]) -> Iterator[list[int]]:
        """Calls it once, before that write of a command. Yields how many there are."""
        count = [0]

        def note() -> None:
            count[0] += 1
            if count[0] == number + 1:
                does()

        for ensemble in self.ensembles.values():
            ensemble.before_write = note
        yield count
        for ensemble in self.ensembles.values():
            ensemble.before_write = lambda: None

    def come(self) -> None:
        """Ensemble c, which no epoch names."""
        newer = self.published().with_ensembles({"c": "c:1"})
        came = FakeEnsemble(self.chance, ROOT, MIRRORS, FENCES, CLIENTS, fence_of(PATH))
        self.ensembles["c"] = came
        came.write(Create(ENSEMBLE, encode_identity(newer, "c"), OPEN_ACL_UNSAFE, 0))
        came.write(Create(MAP, b"", OPEN_ACL_UNSAFE, 0))
        for each in self.ensembles.values():
            each.write(SetData(MAP, newer.to_json(), -1))

    def register_an_old_client(self) -> None:
        data = encode_registration(WORKER + 1, {"version": "0.0.1", "host": "web8", "pid": 4712})
        registered = Create(registration_path(WORKER + 1), data, OPEN_ACL_UNSAFE, EPHEMERAL)
        self.ensembles["b"].write(registered, session=WORKER + 1)

    def end_session(self, session: int) -> None:
        for ensemble in self.ensembles.values():
            ensemble.end_session(session)

    def crash(self) -> None:
        raise CrashError

    def delete_directory(self) -> None:
        """With its old place, if there is one."""
        marks = [f"{PIN}/{name}" for name in self.home.znodes[PIN].children]
        ensemble, mirror = self.worker.place()
        places = [(ensemble, mirror)]
        if any(mark.endswith(".old") for mark in marks):
            places.append((self.ensembles["a"], OLD))
        for each, top in places:
            for path in sorted((path for path in each.znodes if path.startswith(top)), key=len, reverse=True):
                with suppress(NoNodeError):
                    if path == top or path.startswith(f"{top}/"):
                        each.write(Delete(path, -1))
        self.home.write(*(Delete(path, -1) for path in (*marks, PIN, HOME)))

    def assert_whole(self, on: str) -> None:
        """All that the worker knows is there, and nothing is left of any move."""
        for _ in range(5):
            self.worker.goes_on()
        ensemble, mirror = self.worker.place()
        self.assertIs(ensemble, self.ensembles[on])
        found = {
            path[len(mirror) :]: (znode.data, znode.version)
            for path, znode in ensemble.znodes.items()
            if path.startswith(f"{mirror}/")
        }
        self.assertEqual(found, self.worker.known)
        skipped = ensemble.znodes[mirror].created - self.worker.count
        self.assertIn(skipped, range(self.worker.may_skip + 1))
        self.assertEqual(self.mirrors(), [(on, mirror)])
        for each in self.ensembles.values():
            self.assertEqual([path for path in each.znodes if path.startswith(f"{MOVES}/")], [])
            self.assertEqual(ClusterMap.from_json(each.znodes[MAP].data), self.published())
        self.assertEqual(sorted(self.home.znodes[PIN].children), [])
        self.assertIsNone(self.published().move)

    def mirrors(self) -> list[tuple[str, str]]:
        return [
            (name, f"{MIRRORS}/{child}")
            for name, each in self.ensembles.items()
            for child in each.znodes[MIRRORS].children
        ]


class TestMove(MoveCase):
    def test_it_moves_and_moves_back(self) -> None:
        with self.worker_works():
            self.move()
            self.assert_whole("b")
            self.assertEqual(self.worker.says, GROWN.epoch + 3)
            self.move("a")
            self.assert_whole("a")
        found = parse_history(self.ensembles["h"].znodes[HISTORY].data)
        about = f"move of {PATH} from a to b: "
        self.assertEqual(
            [each.what for each in found[:3]],
            [f"{about}begun", f"{about}the children are there", f"{about}done"],
        )

    def test_its_rate(self) -> None:
        """Copy and delete keep to it, and what they read. What clients wait for does not."""
        rates: dict[str, set[tuple[float, bool]]] = {"place": set(), "term_writes": set()}

        def pace(of: str, per_second: float) -> Pace:
            move = self.published().move
            rates[of].add((per_second, move is not None and not move.has_switched))
            return Pace(per_second=per_second)

        self.worker.goes_on()
        with ExitStack() as patches:
            for of in rates:
                patches.enter_context(mock.patch(f"parkazoo.admin.moving.{of}.Pace", partial(pace, of)))
            patches.enter_context(self.worker_works())
            self.move(per_second=1e6)
        self.assert_whole("b")
        self.assertEqual(rates["term_writes"], {(1e6, False), (math.inf, True)})
        self.assertEqual(rates["place"] - {(math.inf, False)}, {(1e7, False), (math.inf, True)})

    def test_who_takes_turns(self) -> None:
        """The map says how many clients had a session on the source, until the move has ended."""
        counts: list[int] = []

        def between() -> None:
            self.worker.goes_on()
            move = self.worker.map_on("a").move
            if move is not None:
                counts.append(move.clients)

        data = encode_registration(WORKER + 1, {"epoch": GROWN.epoch + 9})
        registered = Create(registration_path(WORKER + 1), data, OPEN_ACL_UNSAFE, EPHEMERAL)
        for ensemble in self.ensembles.values():
            ensemble.between = between
        self.move("b")
        self.assertEqual(set(counts), {1})
        counts.clear()
        self.ensembles["b"].write(registered, session=WORKER + 1)
        self.move("a")
        self.assertEqual(set(counts), {2})
        for ensemble in self.ensembles.values():
            ensemble.between = lambda: None
        self.assert_whole("a")

    def test_steps(self) -> None:
        with self.worker_works():
            self.move()
        copied, moved, deleted = self.told
        self.assertRegex(copied, r"^copied \d+ znodes from a to b$")
        self.assertRegex(moved, rf"^{PATH} has moved to b: operations there have waited for \d+ ms$")
        self.assertEqual(deleted, "deleted what was on a")

    def test_nothing_to_do(self) -> None:
        before = {name: each.znodes for name, each in self.ensembles.items()}
        self.assertEqual(self.move("a"), GROWN)
        self.assertEqual((self.told, {name: each.znodes for name, each in self.ensembles.items()}), ([], before))

    def test_a_pin_keeps_its_acl(self) -> None:
        self.home.write(Delete(PIN, -1))
        self.home.write(Create(PIN, encode_pin(Pin(0, 0), "a"), [*OPEN_ACL_UNSAFE, *READ_ACL_UNSAFE], 0))
        acl = self.home.znodes[PIN].acl
        with self.worker_works():
            self.move()
        self.assertEqual(self.home.znodes[PIN].acl, acl)
        pin = decode_pin(self.home.znodes[PIN].data or b"")
        fence = self.ensembles["b"].znodes[fence_of(PATH)]
        assert pin is not None
        self.assertEqual((pin.ctime, pin.version), (fence.czxid, fence.version - 1))


class TestEnds(MoveCase):
    """Commands that end before each of their writes."""

    def test_the_next_one_goes_on(self) -> None:
        for loses_patience in (False, True):
            for number in range(MOST_WRITES):
                with self.subTest(number=number, loses_patience=loses_patience):
                    self.begin(random.Random(number))
                    if not self.ends_before(number):
                        break
                    self.worker.is_patient = not loses_patience
                    with self.worker_works():
                        self.move()
                    self.assert_whole("b")
            self.assertGreater(number, 20)

    def ends_before(self, number: int) -> bool:
        session, run = self.command()
        with self.worker_works(), self.before_write(number, self.crash):
            try:
                run()
            except CrashError:
                self.ended_at_sleep.append(session)
                return True
        return False

    def test_abort(self) -> None:
        for number in range(MOST_WRITES):
            with self.subTest(number):
                self.begin(random.Random(number))
                if not self.ends_before(number):
                    break
                self.told.clear()
                with self.worker_works():
                    try:
                        self.move(None, aborts=True)
                    except ClusterMapError as error:
                        self.assertRegex(str(error), "has moved to b already|nothing to abort")
                        self.move()
                        self.assert_whole("b")
                        continue
                self.assert_whole("a")
        self.assertGreater(number, 20)

    def test_interrupted(self) -> None:
        """What has not switched is taken back; else the next command deletes what is left. Another's is let be."""
        ends = {"stays where it is": 0, "has moved, and": 0}
        for number in range(MOST_WRITES):
            with self.subTest(number):
                self.begin(random.Random(number))
                with self.worker_works(), self.before_write(number, self.interrupt):
                    try:
                        self.move()
                    except KeyboardInterrupt:
                        pass
                    else:
                        break
                last = self.told[-1] if self.told else "/d stays where it is"
                (end,) = (each for each in ends if each in last)
                ends[end] += 1
                move = self.published().move
                if end == "stays where it is":
                    self.assert_whole("a")
                elif move is not None:  # clients take their watches there
                    self.assertTrue(move.has_switched)
                with self.worker_works():
                    self.move()
                self.assert_whole("b")
        self.assertGreater(min(ends.values()), 3)

    def interrupt(self) -> None:
        raise KeyboardInterrupt

    def test_interrupted_while_it_waits(self) -> None:
        """What another command has begun is let be."""
        waited = 0
        for number in range(MOST_WRITES):
            with self.subTest(number):
                self.begin(random.Random(number))
                if not self.ends_before(number):
                    break
                self.ended_at_sleep.clear()  # it is at work
                begun = self.begun()
                with (
                    mock.patch("parkazoo.admin.directory_move.time.sleep", side_effect=KeyboardInterrupt),
                    suppress(KeyboardInterrupt),
                ):
                    self.move()
                if any("waiting for its end" in each for each in self.told):
                    waited += 1
                    self.assertEqual(self.begun(), begun)
        self.assertGreater(waited, 5)

    def begun(self) -> list[tuple[str, str]]:
        """The znodes of moves, copies and marks."""
        tops = f"{MOVES}/", f"{MIRRORS}/", f"{PIN}/"
        znodes = ((name, path) for name, each in self.ensembles.items() for path in each.znodes)
        return [each for each in znodes if each[1].startswith(tops)]

    def test_a_map_made_anew(self) -> None:
        """It does not name a move that has switched: the old place goes all the same."""
        self.crash_behind_the_switch()
        for ensemble in self.ensembles.values():
            ensemble.write(SetData(MAP, self.published().with_move(None).to_json(), -1))
        with self.worker_works():
            self.move()
        self.assertEqual(self.told[-1], "deleted what an earlier move had left on a")
        self.assert_whole("b")

    def test_while_connections_are_lost(self) -> None:
        for seed in range(40):
            with self.subTest(seed):
                self.begin(random.Random(seed))
                for ensemble in self.ensembles.values():
                    ensemble.lost = 0.01
                with self.worker_works():
                    while not self.comes_to_its_end():
                        pass
                for ensemble in self.ensembles.values():
                    ensemble.lost = 0.0
                with self.worker_works():
                    self.move()
                self.assert_whole("b")

    def test_the_map_was_not_published(self) -> None:
        """The connection was lost before: it begins again, for nobody has called the move off."""
        lost: list[int] = []
        bootstrap = self.ensembles["h"]

        def lose() -> None:
            is_next = any(name.endswith(".move") for name in self.home.znodes[PIN].children)
            if is_next and self.published().move is None and not lost:
                lost.append(1)
                bootstrap.lost = 1.0

        def between() -> None:
            bootstrap.lost = 0.0

        with self.worker_works(), mock.patch.object(bootstrap, "chance", mock.Mock(random=lambda: 0.0)):
            bootstrap.before_write, bootstrap.between = lose, between
            self.move()
        self.assertEqual(lost, [1])
        self.assert_whole("b")

    def comes_to_its_end(self) -> bool:
        try:
            self.move()
        except ClusterMapError as error:
            self.assertRegex(str(error), "safe to try again|called off")
            return False
        return True


class TestNative(MoveCase):
    """The children are below the home itself, on a; by a pin that clients have made, or by none."""

    def begin_native(self, number: int, *, has_pin: bool) -> None:
        self.begin_empty(random.Random(number))
        for each in native_marks(D) if has_pin else ():
            self.home.write(each)
        self.worker.count = self.home.znodes[HOME].created
        for _ in range(12):
            self.worker.goes_on()
        self.worker.may_skip = 2

    def test_it_moves(self) -> None:
        for has_pin in (True, False):
            with self.subTest(has_pin):
                self.begin_native(1, has_pin=has_pin)
                with self.worker_works():
                    self.move()
                self.assert_whole("b")
                self.assertEqual(self.home.znodes[HOME].children, {".parkazoo"})
                self.assertEqual(self.home.znodes[PIN].acl, tuple(pin_acl(OPEN_ACL_UNSAFE)))

    def test_a_dry_run_changes_nothing(self) -> None:
        for has_pin in (True, False):
            self.begin_native(1, has_pin=has_pin)
            before = {name: each.znodes for name, each in self.ensembles.items()}
            self.move(dry_run=True)
            self.assertEqual({name: each.znodes for name, each in self.ensembles.items()}, before)

    def test_the_next_command_goes_on(self) -> None:
        for number in range(MOST_WRITES):
            with self.subTest(number=number):
                self.begin_native(number, has_pin=number % 2 == 0)
                session, run = self.command()
                with self.worker_works(), self.before_write(number, self.crash):
                    try:
                        run()
                    except CrashError:
                        self.ended_at_sleep.append(session)
                    else:
                        break
                with self.worker_works():
                    self.move()
                self.assert_whole("b")
        self.assertGreater(number, 20)


class TestSeveral(MoveCase):
    """Another command that comes before each write of the first one."""

    def run_without_waiting(self) -> None:
        """The process of a command that would have to wait ends."""
        session, run = self.command()
        self.is_stuck = True
        with suppress(StuckError):
            run()
        self.is_stuck = False
        self.ended_at_sleep.append(session)

    def test_two_moves(self) -> None:
        for number in range(MOST_WRITES):
            with self.subTest(number):
                self.begin(random.Random(number))
                came = []

                def another(came: list[int] = came) -> None:
                    came.append(1)
                    self.run_without_waiting()

                with self.worker_works(), self.before_write(number, another):
                    self.move()
                if not came:
                    break
                self.assert_whole("b")
        self.assertGreater(number, 20)

    def test_the_session_of_the_first_has_ended(self) -> None:
        for number in range(MOST_WRITES):
            with self.subTest(number):
                self.begin(random.Random(number))
                session, run = self.command()
                came = []

                def another(session: int = session, came: list[int] = came) -> None:
                    came.append(1)
                    self.end_session(session)
                    self.move()

                with self.worker_works(), self.before_write(number, another):
                    try:
                        run()
                    except ClusterMapError as error:
                        self.assertIn("called off meanwhile", str(error))
                if not came:
                    break
                self.assert_whole("b")
        self.assertGreater(number, 20)

    def test_abort(self) -> None:
        for number in range(MOST_WRITES):
            with self.subTest(number):
                self.begin(random.Random(number))
                came, ends = [], []

                def abort(came: list[int] = came, ends: list[str] = ends) -> None:
                    came.append(1)
                    try:
                        self.move(None, aborts=True)
                    except ClusterMapError as error:
                        ends.append(str(error))

                with self.worker_works(), self.before_write(number, abort):
                    try:
                        self.move()
                    except ClusterMapError as error:
                        self.assertIn("called off", str(error))
                        self.assertEqual(ends, [])
                        self.assert_whole("a")
                        continue
                if not came:
                    break
                self.assert_whole("b")
        self.assertGreater(number, 20)

    def test_abort_in_the_middle(self) -> None:
        """It has just taken the mark away: whatever the command does then, it does not begin again."""
        paused = 0
        for number in range(MOST_WRITES):
            self.begin(random.Random(number))
            came = []

            def abort(came: list[int] = came) -> None:
                came.append(1)
                move = self.published().move

                def pause() -> None:
                    if move is not None and not self.worker.is_held(move):
                        raise CrashError

                if move is not None and self.worker.is_held(move):
                    for ensemble in self.ensembles.values():
                        ensemble.before_write = pause
                    with self.assertRaises(CrashError):
                        self.move(None, aborts=True)
                    for ensemble in self.ensembles.values():
                        ensemble.before_write = lambda: None
                    came.append(2)

            with self.subTest(number), self.worker_works(), self.before_write(number, abort):
                if not came:
                    with suppress(ClusterMapError):
                        self.move()
                if came[1:]:
                    paused += 1
                    self.assertNotIn("has moved", "".join(self.told))
                    with suppress(ClusterMapError):
                        self.move(None, aborts=True)
                    self.assert_whole("a")
            if not came:
                break
        self.assertGreater(paused, 3)


class TestLostHome(MoveCase):
    """A server's disk, or a person, has lost the directory's home. Its children may be joined to a new one."""

    def lose_home(self) -> None:
        for path in (*(f"{PIN}/{name}" for name in self.home.znodes[PIN].children), PIN, HOME):
            self.home.write(Delete(path, -1))

    def test_an_abort_leaves_the_children(self) -> None:
        with self.worker_works():
            self.move()
        self.lose_home()
        before = self.mirrors()
        with self.assertRaisesRegex(ClusterMapError, "/d is gone, and what is in .* may be all .*parkazoo fsck"):
            self.move(None, aborts=True)
        self.assertEqual(self.mirrors(), before)

    def test_an_abort_of_what_has_switched(self) -> None:
        self.crash_behind_the_switch()
        self.lose_home()
        before = self.mirrors()
        with self.assertRaisesRegex(ClusterMapError, "has moved to b already"):
            self.move(None, aborts=True)
        self.assertEqual(self.mirrors(), before)


class TestEndsSoon(MoveCase):
    """What a move that was called off still does: not much. Each request looks at one znode."""

    def setUp(self) -> None:
        super().setUp()
        for name, value in (("admin.moving.place.MOST_READS", 1), ("admin.directory_move.WANTED_S", 0.0)):
            patched = mock.patch(f"parkazoo.{name}", value)
            patched.start()
            self.addCleanup(patched.stop)
        for number in range(100):
            self.ensembles["a"].write(Create(f"{OLD}/n{number}", b"", OPEN_ACL_UNSAFE, 0))
            self.worker.known[f"/n{number}"] = b"", 0
        self.worker.count += 100

    def reads(self) -> int:
        return sum(isinstance(each, MultiRead) for each in self.ensembles["a"].requests)

    def test_in_the_hold(self) -> None:
        """Somebody deletes the mark, while original and copy are compared."""
        read: list[int] = []

        def between() -> None:
            self.worker.goes_on()
            move = self.published().move
            if move is not None and opening(move.name) not in self.ensembles["b"].znodes:
                with suppress(NoNodeError):
                    self.home.write(Delete(f"{PIN}/{mark_of(move.name)}", -1))
                    read.append(self.reads())

        self.ensembles["a"].between = between
        only_follows = mock.patch.object(self.worker, "works", lambda: None)
        with only_follows, self.assertRaisesRegex(ClusterMapError, "a client has waited too long, or deleted it"):
            self.move()
        self.ensembles["a"].between = lambda: None
        self.assertEqual(len(read), ATTEMPTS)
        self.assertLess(self.reads() - read[-1], 10)
        self.assert_whole("a")

    def test_before_the_hold(self) -> None:
        """It is aborted while it copies; while it waits for a client that is behind."""
        for waits in (False, True):
            with self.subTest(waits=waits):
                read: list[int] = []

                def abort(read: list[int] = read) -> None:
                    if not read:
                        read.append(self.reads())
                        self.move(None, aborts=True)

                def between(abort: Callable[[], None] = abort) -> None:
                    if any(path.startswith(f"{MOVES}/") for path in self.ensembles["b"].znodes):
                        abort()

                def fall_behind(abort: Callable[[], None] = abort) -> None:
                    self.worker.is_ready = False
                    newer = replace(self.published(), epoch=self.published().epoch + 1)
                    for ensemble in self.ensembles.values():
                        ensemble.write(SetData(MAP, newer.to_json(), -1))

                self.ensembles["a"].between = (lambda: None) if waits else between
                progress = mock.Mock(side_effect=lambda done, total: fall_behind()) if waits else mock.Mock()
                with (
                    mock.patch("time.sleep", lambda seconds, abort=abort: abort()),
                    self.assertRaisesRegex(ClusterMapError, "called off meanwhile, by --abort"),
                ):
                    self.move(progress=progress)
                self.ensembles["a"].between = lambda: None
                self.assertLess(self.reads() - read[0], 10)
                self.worker.is_ready = True
                self.assert_whole("a")


class TestCalledOff(MoveCase):
    def test_a_client_that_is_not_ready(self) -> None:
        """Each time it is waited for, and who it is is told."""
        holds = []

        def between() -> None:
            is_held = self.worker.map_on("a").move is not None
            if is_held and holds[-1:] != [True]:
                holds.append(True)
            if not is_held:
                holds.append(False)
                self.worker.goes_on()

        for ensemble in self.ensembles.values():
            ensemble.between = between
        at_once = mock.patch("parkazoo.admin.directory_move.HOLD_S", 0.0)
        with at_once, self.assertRaises(ClusterMapError) as caught:
            self.move()
        self.assertRegex(
            str(caught.exception),
            f"(?s)^{PATH} stays where it is: its move was called off {ATTEMPTS} times\n  1 client has not got "
            r"ready within 0 s:\n.*0x4d on web7, pid 4711, .*on a it says map",
        )
        self.assertEqual(holds.count(True), ATTEMPTS)
        self.assertEqual(sum("called off after" in each for each in self.told), ATTEMPTS)
        self.assert_whole("a")

    def test_the_map_that_says_so_is_not_everywhere_at_once(self) -> None:
        """A connection is lost while it is copied: the reasons are told all the same, and all attempts made."""
        b, losses = self.ensembles["b"], 0

        def between() -> None:
            b.lost = 0.0
            if self.worker.map_on("a").move is None:
                self.worker.goes_on()

        def before_write() -> None:
            nonlocal losses
            copy = ClusterMap.from_json(b.znodes[MAP].data)
            if copy.move is not None and self.published().move is None and losses < ATTEMPTS:
                losses += 1
                b.lost = 1.0

        for ensemble in self.ensembles.values():
            ensemble.between = between
        b.before_write = before_write
        at_once = mock.patch("parkazoo.admin.directory_move.HOLD_S", 0.0)
        with at_once, self.assertRaisesRegex(ClusterMapError, "called off 3 times\n  1 client has not got ready"):
            self.move()
        self.assertGreater(losses, 0)
        self.assertEqual(sum("called off after" in each for each in self.told), ATTEMPTS)
        self.assert_whole("a")

    def test_an_ensemble_that_goes_away_and_stays_away(self) -> None:
        """It has nothing of the directory. The copy is taken back."""
        self.come()
        c = self.ensembles["c"]

        def between() -> None:
            if any(each.startswith("copied") for each in self.told):
                c.lost = 1.0
            if self.chance.random() < 0.3:
                self.worker.goes_on()

        for ensemble in self.ensembles.values():
            ensemble.between = between
        c.between = lambda: None
        at_once = mock.patch.object(AdminClient, "patiently", lambda client, ask: ask())
        with at_once, self.assertRaises(LostError):
            self.move()
        self.assertEqual([on for on, _ in self.mirrors()], ["a"])

    def test_a_client_of_an_older_map(self) -> None:
        """It is waited for before anything is changed."""
        self.publish_epoch()
        self.is_stuck = True
        with self.assertRaises(StuckError):
            self.move()
        self.assertEqual(self.mirrors(), [("a", OLD)])
        self.is_stuck = False
        with self.worker_works():
            self.move()
        self.assert_whole("b")

    def publish_epoch(self) -> None:
        for ensemble in self.ensembles.values():
            ensemble.write(SetData(MAP, replace(GROWN, epoch=GROWN.epoch + 1).to_json(), -1))

    def test_ephemerals(self) -> None:
        """Of a client; of one that makes no copies; of a session that is not registered."""
        for session, copies, why in (
            (WORKER, True, ""),
            (
                WORKER,
                False,
                "(?s)called off 3 times.*1 ephemerals have no copy of their owner.* /e of client 0x4d",
            ),
            (999, True, "not registered.*: /d/e, of session 0x3e7 on ensemble a"),
        ):
            with self.subTest(why):
                self.begin(random.Random(1))
                self.worker.copies_ephemerals = copies
                self.ensembles["a"].write(Create(f"{OLD}/e", b"", OPEN_ACL_UNSAFE, EPHEMERAL), session=session)
                self.worker.count += 1
                refused = self.assertRaisesRegex(ClusterMapError, why) if why else nullcontext()
                with self.worker_works(), refused:
                    self.move()
                ensemble, mirror = self.worker.place()
                self.assertEqual(ensemble.znodes[f"{mirror}/e"].owner, session)
                ensemble.write(Delete(f"{mirror}/e", -1))
                self.assert_whole("a" if why else "b")

    def test_an_ephemeral_that_comes_later(self) -> None:
        def come() -> None:
            self.ensembles["a"].write(Create(f"{OLD}/e", b"", OPEN_ACL_UNSAFE, EPHEMERAL), session=WORKER)
            self.worker.count += 1

        with self.worker_works(), self.before_write(3, come):
            self.move()
        ensemble, mirror = self.worker.place()
        self.assertEqual(ensemble.znodes[f"{mirror}/e"].owner, WORKER)
        ensemble.write(Delete(f"{mirror}/e", -1))
        self.assert_whole("b")

    def test_a_directory_that_is_deleted_and_made_anew(self) -> None:
        """At any time; by a client that knows nothing of moves."""
        for number in range(MOST_WRITES):
            with self.subTest(number):
                self.begin(random.Random(number))
                came = []

                def delete(came: list[int] = came) -> None:
                    came.append(1)
                    self.delete_directory()

                with self.before_write(number, delete):
                    try:
                        self.move()
                    except ClusterMapError as error:
                        self.assertRegex(str(error), "^there is no znode /d$|deleted meanwhile|called off")
                if not came:
                    break
                with suppress(ClusterMapError):
                    self.move(None, aborts=True)
                self.assertIsNone(self.published().move)
                self.assertEqual(self.mirrors(), [])
        self.assertGreater(number, 20)


class TestPromotions(MoveCase):
    """The first child of /d never came: its pin has no mirror."""

    def begin_without_mirror(self, version: int = 0) -> None:
        self.begin_empty(random.Random(1))
        fence = self.ensembles["a"].znodes[fence_of(PATH)]
        self.home.write(Create(PIN, encode_pin(Pin(fence.czxid, version), "a"), OPEN_ACL_UNSAFE, 0))

    def test_it_moves(self) -> None:
        self.begin_without_mirror()
        before = {name: each.znodes for name, each in self.ensembles.items()}
        self.move(dry_run=True)
        self.assertEqual({name: each.znodes for name, each in self.ensembles.items()}, before)
        with mock.patch.object(self.worker, "works", lambda: None), self.worker_works():
            self.move()
        self.assertEqual(self.worker.place()[0], self.ensembles["b"])
        self.assert_whole("b")

    def test_a_delete_in_between(self) -> None:
        """It raises the fence: the mirror is not made in another life."""
        self.begin_without_mirror()

        def delete() -> None:
            self.ensembles["a"].write(SetData(fence_of(PATH), b"", -1))
            self.home.write(Delete(PIN, -1), Delete(HOME, -1))

        refused = self.assertRaisesRegex(ClusterMapError, "^there is no znode /d$")
        with self.before_write(0, delete), refused:
            self.move()
        self.assertEqual(self.mirrors(), [])

    def test_a_mirror_that_is_lost(self) -> None:
        self.begin_without_mirror(version=7)
        with self.assertRaisesRegex(ClusterMapError, "^the children of /d were lost when ensemble a .*fsck"):
            self.move()
        self.assertEqual(self.mirrors(), [])


class TestRefused(MoveCase):
    def refuse(self, words: str, to: str | None = "b", **options: Any) -> None:
        before = {name: each.znodes for name, each in self.ensembles.items()}
        with self.assertRaisesRegex(ClusterMapError, words):
            self.move(to, **options)
        self.assertEqual({name: each.znodes for name, each in self.ensembles.items()}, before)

    def publish(self, known: ClusterMap) -> None:
        for ensemble in self.ensembles.values():
            ensemble.write(SetData(MAP, known.to_json(), -1))

    def test_ensembles(self) -> None:
        self.refuse("^no ensemble of the map is called 'x'", "x")
        self.come()
        self.refuse("^no epoch names ensemble c yet, .*`parkazoo map grow` again", "c")
        self.publish(self.published().with_epoch(dict.fromkeys([*NAMES, "c"], 1), ()))
        with self.worker_works():
            self.move("c")
        self.assert_whole("c")
        self.begin(random.Random(1))
        self.publish(GROWN.with_leaving("b"))
        self.refuse("^ensemble b is leaving, and takes no directory")
        self.publish(GROWN.with_leaving("b").without("b"))
        self.refuse("^ensemble b has left the map")

    def test_rules(self) -> None:
        weights = dict.fromkeys(NAMES, 1)
        self.publish(GROWN.with_epoch(weights, [Rule("/d", ("a", "h"))]))
        self.refuse("^the rule for /d keeps directories together")
        self.publish(GROWN.with_epoch(weights, [Rule("/d", ("a", "h"), together=False)]))
        self.refuse("^the rule for /d keeps directories on a or h: ")
        self.publish(GROWN.with_epoch(weights, [Rule("/d", ("b",))]))
        with self.worker_works():
            self.move(None)
        self.assert_whole("b")

    def test_directories(self) -> None:
        self.refuse("^there is no znode /x$", path="/x")
        self.refuse("^there is no znode /x/y$", path="/x/y")
        self.home.write(Create("/n", b"", OPEN_ACL_UNSAFE, 0))
        self.refuse("^/n has never had a child", path="/n")
        self.home.write(Create(f"{PIN}/1234.-1", b"", OPEN_ACL_UNSAFE, 0))
        self.refuse("^a delete of /d has not come to its end")

    def test_an_old_client(self) -> None:
        """It could not read a map with a move in it."""
        self.register_an_old_client()
        for dry_run in (False, True):
            self.refuse("(?s)^the map is not changed: 1 client is too old .* on web8, pid 4712", dry_run=dry_run)

    def test_the_pin_of_a_home_that_went_back(self) -> None:
        """It names the place before the last move: what looks like a copy has the children."""
        with self.worker_works():
            self.move()
        self.home.write(SetData(PIN, encode_pin(Pin(0, 0), "a"), -1))
        for options in ({}, {"aborts": True}):
            self.refuse(
                "^by its pin the children of /d are on a, and they are not; those in .* on b may", **options
            )

    def test_many_znodes(self) -> None:
        """Which clients would not wait for. A look that others have slowed down does not count."""
        looks = [3.0, 3.0, 3.0, 0.1]

        def walk(place: Any, before: Any) -> None:
            self.now_s += looks.pop(0)

        self.now_s = 0.0
        with (
            mock.patch.multiple("parkazoo.admin.moving.immovable", FEW=1, walk=walk),
            mock.patch("parkazoo.admin.moving.immovable.time.monotonic", lambda: self.now_s),
        ):
            self.refuse(r"^/d has \d+ znodes, and one look at them takes 3.0 s: .*Spread[^\n]*$")
            with self.worker_works():
                self.move()
        self.assertEqual(looks, [])
        self.assert_whole("b")

    def test_another_move(self) -> None:
        self.home.write(Create("/p", b"", OPEN_ACL_UNSAFE, 0))
        _, run = self.command()
        with self.before_write(8, self.crash), suppress(CrashError):
            run()
        while self.published().move is None:
            self.begin(random.Random(1))
            number = self.chance.randrange(40)
            with self.worker_works(), self.before_write(number, self.crash), suppress(CrashError):
                self.move()
        self.refuse("^/d moves to b, and one directory moves at a time", path="/p")
        self.refuse("^/d moves to b already", "h")

    def test_dry_run(self) -> None:
        before = {name: each.znodes for name, each in self.ensembles.items()}
        self.move(dry_run=True)
        self.assertEqual({name: each.znodes for name, each in self.ensembles.items()}, before)
        self.assertIn("czxid", self.told[1])
        self.assertEqual([each.split()[0] for each in self.told], ["would", "A", *["would"] * 3])
