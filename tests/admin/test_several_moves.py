"""Several directories move one after the other, over ensembles in memory; commands end anywhere."""

from __future__ import annotations

import math
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from typing import Any
from unittest import TestCase, mock

from kazoo.security import OPEN_ACL_UNSAFE

from parkazoo.admin import several_moves
from parkazoo.admin.all_znodes import Pace
from parkazoo.admin.clients import LostError, NoRightError
from parkazoo.admin.directory_move import DirectoryMove
from parkazoo.admin.moving import at_work
from parkazoo.admin.moving.at_home import MovingHome
from parkazoo.admin.moving.at_work import find_work
from parkazoo.admin.moving.copying import MovingCopy
from parkazoo.admin.rise import Rise, StrangersError
from parkazoo.admin.several_moves import MovesInTurn, SeveralMoves, find_on
from parkazoo.admin.strangers import Stranger, Strangers
from parkazoo.errors import ClusterMapError
from parkazoo.kazoo_private import Create, Delete, SetData
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.epochs import Form, Rule
from parkazoo.protocol.pin import Pin, decode_pin, encode_pin
from parkazoo.protocol.placement import MAP, OF_GENERATION, mirror_path
from tests.admin.test_directory_move import GROWN, MOST_WRITES, NAMES, OLD, SESSIONS, CrashError, MoveCase
from tests.fakes.ensemble import FakeAdminClient

DRAINED = GROWN.with_epoch({"a": 0, "b": 1, "h": 1}, ())
STUCK = "/stuck"
MOST_WAITS = 200
LOST = 3
LATE_STEP = 3
DIED_BEFORE = range(4, 40, 6)
NOBODYS = 0x17  # a session that is not registered


class SeveralCase(MoveCase):
    """/d, /d/x and /e are on a, which has weight 0."""

    def begin(self, chance: random.Random, known: ClusterMap = DRAINED) -> None:
        self.begin_empty(chance, known)
        self.pins = {"/d": "/d", "/d/x": f"{OLD}/x", "/e": "/e"}
        for path, home in self.pins.items():
            self.make(path, home)

    def make(self, path: str, home: str) -> None:
        """A directory with one child, on a."""
        at = self.ensembles["a"] if home.startswith("/parkazoo") else self.home
        if home not in at.znodes:
            at.write(Create(home, b"", OPEN_ACL_UNSAFE, 0))
        at.write(Create(f"{home}/.parkazoo", encode_pin(Pin(0, 0), "a"), OPEN_ACL_UNSAFE, 0))
        mirror, name = mirror_path(path), "x" if path == "/d" else "child"
        self.ensembles["a"].write(Create(mirror, b"", OPEN_ACL_UNSAFE, 0))
        self.ensembles["a"].write(Create(f"{mirror}/{name}", b"data", OPEN_ACL_UNSAFE, 0))

    @contextmanager
    def worker_works(self, share: float = 0.3) -> Iterator[None]:
        """It follows, and does nothing."""
        with mock.patch.object(self.worker, "works", lambda: None), super().worker_works(share):
            yield

    def several(
        self, to: str | None = None, *, below: str = "", dry_run: bool = False, per_second: float = math.inf
    ) -> SeveralMoves:
        session = next(SESSIONS)
        clients = {name: FakeAdminClient(each, name, session) for name, each in self.ensembles.items()}
        rise = Rise({}, 5.0, self.told.append, lambda waiting: None, dry_run, True, True)

        @contextmanager
        def connected(rise: Rise, known: ClusterMap) -> Iterator[object]:
            yield clients

        moves = MovesInTurn(rise, lambda done, total: None, per_second)
        find = partial(moves.find_below, below, to) if below else partial(find_on, "a")
        with mock.patch.object(Rise, "connected", connected):
            try:
                return moves.run(self.published(), self.published(), find)
            except CrashError:
                self.ended_at_sleep.append(session)
                raise

    def places(self) -> dict[str, str]:
        """The ensemble of the children of each directory, by its pin."""
        found = {}
        for path in self.pins:
            above, _, name = path.rpartition("/")
            at, home = self.home, path
            if above:
                pin = decode_pin(self.home.znodes[f"{above}/.parkazoo"].data or b"")
                assert pin is not None
                at, home = self.ensembles[pin.on], f"{mirror_path(above, pin.generation)}/{name}"
            pin = decode_pin(at.znodes[f"{home}/.parkazoo"].data or b"")
            assert pin is not None
            found[path] = pin.on
        return found

    def assert_empty(self) -> None:
        self.assertNotIn("a", self.places().values())
        self.assertEqual([on for on, _ in self.mirrors() if on == "a"], [])
        self.assertEqual(len(self.mirrors()), len(self.pins))
        self.assertIsNone(self.published().move)


class TestSeveral(SeveralCase):
    def test_all_move_off_an_ensemble(self) -> None:
        """Those furthest down first, each to where new ones go."""
        with self.worker_works():
            self.assertEqual(self.several(), SeveralMoves(3, {}))
        self.assert_empty()
        guess = DRAINED.make_guess().of_children
        self.assertEqual(self.places(), {path: NAMES[guess(path)] for path in self.pins})
        moved = [each for each in self.told if "has moved" in each]
        self.assertEqual([each.split()[3] for each in moved], ["/d/x", "/d", "/e"])
        self.assertEqual([each.partition(":")[0] for each in moved], ["1 of 3", "2 of 3", "3 of 3"])

    def test_one_stays(self) -> None:
        self.make(STUCK, STUCK)
        path = f"{mirror_path(STUCK)}/child"
        self.ensembles["a"].znodes[path] = self.ensembles["a"].znodes[path]._replace(owner=NOBODYS)
        with self.worker_works():
            moved, stayed = self.several()
        self.assertEqual((moved, [*stayed]), (3, [STUCK]))
        self.assertRegex(stayed[STUCK], f"not registered.*{STUCK}/child")
        self.assertEqual([on for on, _ in self.mirrors()].count("a"), 1)

    def test_the_next_command_goes_on(self) -> None:
        for number in range(3, MOST_WRITES, 7):
            with self.subTest(number):
                self.begin(random.Random(number))
                with self.worker_works(), self.before_write(number, self.crash):
                    try:
                        self.several()
                    except CrashError:
                        pass
                    else:
                        break
                with self.worker_works():
                    self.assertEqual(self.several().stayed, {})
                self.assert_empty()
        self.assertGreater(number, 60)

    def test_interrupted(self) -> None:
        """What has moved stays moved, and nothing is half done, or the next command deletes what is left."""
        for number in range(5, MOST_WRITES, 17):
            with self.subTest(number):
                self.begin(random.Random(number))
                with self.worker_works(), self.before_write(number, self.interrupt):
                    try:
                        self.several()
                    except KeyboardInterrupt:
                        pass
                    else:
                        break
                if "has moved, and" not in self.told[-1]:
                    self.assertEqual(len(self.mirrors()), len(self.pins))
                    self.assertIsNone(self.published().move)
                with self.worker_works():
                    self.assertEqual(self.several().stayed, {})
                self.assert_empty()
        self.assertGreater(number, 60)

    def interrupt(self) -> None:
        raise KeyboardInterrupt

    def test_a_copy_of_the_map_that_is_not_written_at_once(self) -> None:
        """Its connection is lost each time, for a while; the command that loses it goes on."""
        for phase in ("hold", "moved", "over"):
            with self.subTest(phase):
                self.begin(random.Random(1))
                losses = [0]

                def phase_is(wanted: str) -> bool:
                    published, copy = self.published(), ClusterMap.from_json(self.ensembles["b"].znodes[MAP].data)
                    move = published.move
                    now = "over" if move is None else "moved" if move.has_switched else "hold"
                    return copy.epoch < published.epoch and now == wanted

                def before_write(phase: str = phase, losses: list[int] = losses) -> None:
                    is_to_be_lost = losses[0] < LOST and phase_is(phase)
                    losses[0] += is_to_be_lost
                    self.ensembles["b"].lost = float(is_to_be_lost)

                self.ensembles["b"].before_write = before_write
                with self.worker_works():
                    self.ensembles["b"].between = lambda: setattr(self.ensembles["b"], "lost", 0.0)
                    self.assertEqual(self.several(), SeveralMoves(3, {}))
                self.ensembles["b"].before_write = lambda: None
                self.assertGreater(losses[0], 0)
                self.assert_empty()

    def test_another_command_moves_a_directory(self) -> None:
        """It ends in the hold, after this one has begun: that move comes to its end first."""
        crash = mock.patch.object(MovingCopy, "seal", side_effect=CrashError)
        with self.worker_works(), crash, suppress(CrashError):
            self.several(below="/e")
        left = self.published().move
        assert left is not None
        real = several_moves.read_primary
        before = [real(self.admin_client("h"))._replace(map=self.published().with_move(None))]
        with (
            mock.patch.object(
                several_moves, "read_primary", lambda client: before.pop() if before else real(client)
            ),
            self.worker_works(),
        ):
            self.assertEqual(self.several().stayed, {})
        self.assert_empty()
        self.assertIn(f"going on with a move: /e moves to {left.target}", self.told)

    def admin_client(self, name: str) -> FakeAdminClient:
        return FakeAdminClient(self.ensembles[name], name, next(SESSIONS))

    def test_who_is_at_work(self) -> None:
        """Others see it until the command ends, by whatever: its session."""
        crash = mock.patch.object(MovingHome, "leave_mark", side_effect=CrashError)
        with self.worker_works(), crash, suppress(CrashError):
            self.several()
        clients = {name: self.admin_client(name) for name in self.ensembles}
        with mock.patch.object(at_work, "count_below", lambda client, paths, pace: {paths[0]: 7}):
            (found,) = find_work(clients)
            self.assertRegex(found.by.what, "^move of /d/x from a to . \\(1 of 3\\)$")
            self.assertEqual((found.by.pid, found.copied), (os.getpid(), 7))
            self.end_session(self.ended_at_sleep.pop())
            self.assertEqual(find_work(clients), [])

    def test_below_a_path(self) -> None:
        with self.worker_works():
            self.assertEqual(self.several("h", below="/d"), SeveralMoves(2, {}))
        self.assertEqual(self.places(), {"/d": "h", "/d/x": "h", "/e": "a"})
        self.assertEqual(self.several("h", below="/d"), SeveralMoves(0, {}))
        with self.assertRaisesRegex(ClusterMapError, "^there is no znode /none$"):
            self.several("h", below="/none")

    def test_a_dry_run(self) -> None:
        before = {name: each.znodes for name, each in self.ensembles.items()}
        with mock.patch("parkazoo.admin.moving.place.Pace", wraps=Pace) as pace:
            found = self.several("b", below="/d", dry_run=True, per_second=1e6)
        self.assertEqual(found, SeveralMoves(2, {}))
        self.assertIn(mock.call(per_second=1e7), pace.mock_calls)  # looks keep to the rate
        self.assertEqual({name: each.znodes for name, each in self.ensembles.items()}, before)
        told = [("/d/x", "1 znode"), ("/d", "2 znodes")]
        self.assertEqual(self.told, [f"{path}: would copy {number} from a to b" for path, number in told])

    def test_a_dry_run_of_an_old_queue(self) -> None:
        """Its counter is raised by a create and a delete each."""
        mirror = mirror_path("/e")
        for _ in range(50):
            self.ensembles["a"].write(Create(f"{mirror}/item", b"", OPEN_ACL_UNSAFE, 0))
            self.ensembles["a"].write(Delete(f"{mirror}/item", -1))
        self.several("b", below="/e", dry_run=True)
        self.assertEqual(self.told, ["/e: would copy 1 znode by 101 writes from a to b"])

    def test_wrong_arguments(self) -> None:
        """They are refused before anything is connected, and the whole command with them."""
        leaving = GROWN.with_leaving("b")
        tolerant = replace(GROWN, form=Form.TOLERANT)
        below: list[tuple[ClusterMap, str, str, str]] = [
            (GROWN, "/", "b", "^/ has its place for ever: move directories below it$"),
            (GROWN, "/zookeeper", "b", "is ZooKeeper's own"),
            (GROWN, "/parkazoo/map", "b", "is ParKazoo's own"),
            (GROWN, "/d", "x", "^no ensemble of the map is called 'x': there are a, b, h$"),
            (leaving, "/d", "b", "^ensemble b is leaving, and takes no directory: "),
            (leaving.without("b"), "/d", "b", "^ensemble b has left the map"),
            (tolerant, "/d", "b", "paths say where directories are"),
        ]
        for known, path, to, words in below:
            with (
                self.subTest(words),
                mock.patch.object(several_moves, "read_map", return_value=known),
                self.assertRaisesRegex(ClusterMapError, words),
            ):
                several_moves.move_below("a:1", path, to)
        for known, name, words in (
            (GROWN, "x", "^no ensemble of the map is called 'x'"),
            (tolerant, "a", "paths say where directories are"),
        ):
            with (
                self.subTest(words),
                mock.patch.object(several_moves, "read_map", return_value=known),
                self.assertRaisesRegex(ClusterMapError, words),
            ):
                several_moves.move_off("a:1", name)
        with self.assertRaisesRegex(ClusterMapError, "^0 writes/s are none$"):
            several_moves.move_below("a:1", "/d", per_second=0)

    def test_an_old_client(self) -> None:
        """No directory moves; a dry run goes on behind it."""
        self.register_an_old_client()
        before = {name: each.znodes for name, each in self.ensembles.items()}
        with self.assertRaisesRegex(ClusterMapError, "^the map is not changed: 1 client is too old"):
            self.several()
        self.several(dry_run=True)
        self.assertRegex(self.told[0], "^would be refused: the map is not changed: 1 client is too old")
        self.assertEqual({name: each.znodes for name, each in self.ensembles.items()}, before)

    def test_a_rule(self) -> None:
        """What it binds stays; the others move."""
        bound = DRAINED.with_epoch({"a": 1, "b": 1, "h": 1}, (Rule("/d/x", ("a",)),))
        for ensemble in self.ensembles.values():
            ensemble.write(SetData(MAP, bound.to_json(), -1))
        with self.worker_works():
            moved, stayed = self.several("h", below="/d")
        self.assertEqual((moved, [*stayed]), (1, ["/d/x"]))
        self.assertRegex(stayed["/d/x"], "^the rule for /d/x keeps directories together, there on a")
        self.assertEqual(self.places(), {"/d": "h", "/d/x": "a", "/e": "a"})

    def test_what_may_not_be_read(self) -> None:
        """It stays; the others move."""
        real = DirectoryMove.run

        def run(move: DirectoryMove, known: ClusterMap, clients: Any) -> ClusterMap:
            if move.path == "/d":
                raise NoRightError("no right to use /d")
            return real(move, known, clients)

        with self.worker_works(), mock.patch.object(DirectoryMove, "run", run):
            self.assertEqual(self.several(), SeveralMoves(2, {"/d": "no right to use /d"}))

    def test_an_ensemble_that_is_no_place(self) -> None:
        with self.worker_works():
            moved, stayed = self.several("x", below="/e")
        self.assertEqual((moved, [*stayed]), (0, ["/e"]))
        self.assertRegex(stayed["/e"], "no ensemble of the map is called")

    def test_an_ensemble_that_does_not_answer(self) -> None:
        """None can move then: it does not go on to the next."""
        lost = mock.Mock(side_effect=LostError("the connection was lost"))
        with mock.patch.object(DirectoryMove, "run", lost), self.assertRaises(LostError):
            self.several()
        lost.assert_called_once()


class TestLate(SeveralCase):
    """A command is late before one of its requests. Meanwhile another one moves all off a. If it must wait for the
    late one, the sessions of that end meanwhile.

    When /d has moved, the home of /d/x is elsewhere.
    """

    waits: int | None = None  # of the other command

    def sleeps(self, seconds: float) -> None:
        if self.waits is not None:
            self.waits += 1
            if self.waits > MOST_WAITS:
                raise CrashError
        super().sleeps(seconds)

    @contextmanager
    def late(self, number: int, session: int) -> Iterator[list[int]]:
        """Yields how many requests there were.

        :param session: of the late command.
        """
        count = [0]

        def between() -> None:
            count[0] += 1
            if count[0] == number:
                self.waits = 0
                try:
                    self.several()
                except CrashError:
                    for each in (session, self.ended_at_sleep.pop()):
                        self.end_session(each)
                    self.waits = 0
                    with suppress(CrashError):
                        self.several()
                self.waits = None
            elif self.chance.random() < 0.1:
                self.worker.goes_on()

        with self.worker_works():
            for each in self.ensembles.values():
                each.between = between
            yield count

    def check(self) -> None:
        """Nothing is lost, and another command ends it all."""
        with self.worker_works():
            self.assertEqual(self.several().stayed, {})
        self.assert_empty()
        for path, on in self.places().items():
            name = "x" if path == "/d" else "child"
            top = mirror_path(path) + OF_GENERATION
            (mirror,) = [mirror for _, mirror in self.mirrors() if mirror.startswith(top)]
            self.assertIn(f"{mirror}/{name}", self.ensembles[on].znodes, f"the child of {path} is gone")

    def test_a_late_move(self) -> None:
        number = 1
        while True:
            with self.subTest(number):
                self.begin(random.Random(number))
                session, run = self.command("b", path="/d/x")
                with self.late(number, session) as count, suppress(ClusterMapError):
                    run()
                self.check()
            if count[0] < number:
                break
            number += LATE_STEP
        self.assertGreater(number, 100)

    def test_a_late_abort(self) -> None:
        """Of a move whose command has died before one of its writes."""
        for died in DIED_BEFORE:
            number = 1
            while True:
                with self.subTest(died=died, number=number):
                    self.begin(random.Random(number))
                    session, run = self.command("b", path="/d/x")
                    with self.worker_works(), self.before_write(died, self.crash), suppress(CrashError):
                        run()
                    self.end_session(session)
                    session, run = self.command(None, path="/d/x", aborts=True)
                    with self.late(number, session) as count, suppress(ClusterMapError):
                        run()
                    self.check()
                if count[0] < number:
                    break
                number += 1
            self.assertGreater(number, 5)


class TestLooks(TestCase):
    def test_one_look(self) -> None:
        """It is enough when a look not long ago has found nobody; if it finds somebody, others follow."""
        found = Strangers({("a", "0x1"): Stranger("0x1", "10.0.0.1:1", "a:1", "a")}, {})
        nobody, rise = Strangers({}, {}), Rise({}, 5.0, print, print, False, True, False)
        for one, more, is_refused in ((nobody, found, False), (found, nobody, False), (found, found, True)):
            with mock.patch("parkazoo.admin.rise.Lookout") as lookout:
                lookout.return_value.look.return_value = one
                lookout.return_value.look_again.return_value = more
                with self.assertRaises(StrangersError) if is_refused else nullcontext():
                    rise.verify_no_strangers(GROWN, {}, are_none=True)
                self.assertEqual(lookout.return_value.look_again.called, one is found)
