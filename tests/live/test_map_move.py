"""`parkazoo map move`: the children of a directory go to another ensemble while clients work."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any
from unittest import mock

from kazoo.exceptions import NoNodeError
from kazoo.security import READ_ACL_UNSAFE, make_digest_acl

from parkazoo import CrossEnsembleError, DeferredError, ParKazooClient
from parkazoo.admin import (
    RegisteredClient,
    Rule,
    abort_move,
    add_rule,
    directory_move,
    find_whereabouts,
    init_map,
    list_clients,
    move_directory,
    read_history,
    read_map,
)
from parkazoo.admin.looking import Looker
from parkazoo.admin.moving.at_home import MovingHome
from parkazoo.admin.moving.copying import MovingCopy
from parkazoo.admin.recursive_watch import Followers
from parkazoo.errors import ClusterMapError
from parkazoo.fsck import check
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.findings import DIFFERING_PROOFS, UNFINISHED_MOVES
from parkazoo.protocol.moving import MOVES
from parkazoo.protocol.placement import MIRRORS, PROOF, escape
from parkazoo.protocol.registration import format_session
from parkazoo.types.znodes import ZnodeStat
from tests.aio.aio_case import needs_aio
from tests.live.copies_case import CrashError
from tests.live.grow_case import GrowCase, end_at_sleep
from tests.live.map_case import IDENTITY, MapCase, dump, error_of, output_of, run_command
from tests.live.test_client_waits import Outcome, cut, is_waiting
from tests.live.world import DEADLINE_S, Seen, wait_until

PATH = "/d"
RUN = """
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # shells have some ignored
signal.signal(signal.SIGHUP, signal.SIG_DFL)
runpy.run_module("parkazoo", run_name="__main__", alter_sys=True)
"""  # a process that signals end as one that was begun by hand


class MoveCase(GrowCase):
    """The children of /d are on one ensemble, `here`, and are to go to another, `there`."""

    def setUp(self) -> None:
        MapCase.setUp(self)
        self.map = init_map(self.a, self.all, form="grown")
        self.worker, self.states = self.client()
        self.worker.create(f"{PATH}/x", b"1", makepath=True)
        self.here = self.place(PATH)
        self.there = next(name for name in "abc" if name != self.here)

    def move(self, to: str | None = None, **options: Any) -> ClusterMap:
        return move_directory(self.a, PATH, to or self.there, **{"strangers_gone": True, **options})

    def assert_moved(self, to: str) -> None:
        """All is there, and nothing is left over."""
        self.assertEqual(self.place(PATH), to)
        self.assert_published("a", "b", "c")
        self.assertIsNone(read_map(self.a).move)
        for name, client in zip("abc", self.plain, strict=True):
            mirrors = [each for each in client.get_children(MIRRORS) if each.partition("%~")[0] == escape(PATH)]
            self.assertEqual(len(mirrors), name == to, (name, mirrors))
            self.assertEqual(client.get_children(MOVES) if client.exists(MOVES) else [], [])
        home = find_whereabouts(read_map(self.a), PATH).d
        self.assertEqual(self.plain[home.home.ensemble].get_children(home.pin), [])


class MoveTest(MoveCase):
    def test_it_moves(self) -> None:
        """With all that is below."""
        client = self.worker
        for number in range(5):
            client.create(f"{PATH}/s-", sequence=True)
            client.set(f"{PATH}/x", b"%d" % number)
        client.create(f"{PATH}/e/f/g", b"deep", makepath=True)
        client.delete(f"{PATH}/s-0000000002")
        stat = client.get(f"{PATH}/x")[1]
        steps: list[str] = []
        moved = self.move(tell=steps.append)
        self.assert_moved(self.there)
        self.assertEqual(moved.epoch, self.map.epoch + 3)
        self.assertRegex(
            "\n".join(steps),
            rf"^copied \d+ znodes from {self.here} to {self.there}\n/d has moved to {self.there}: operations "
            rf"there have waited for \d+ ms\ndeleted what was on {self.here}$",
        )
        names = ["e", "s-0000000001", "s-0000000003", "s-0000000004", "s-0000000005", "x"]
        for each in (client, self.client()[0]):
            self.assertEqual(sorted(each.get_children(PATH)), names)
            self.assertEqual(each.get(f"{PATH}/e/f/g")[0], b"deep")
            data, now = each.get(f"{PATH}/x")
            self.assertEqual((data, now.version, now.aversion), (b"4", stat.version, stat.aversion))
        self.assertEqual(client.create(f"{PATH}/s-", sequence=True), f"{PATH}/s-0000000007")
        self.assertEqual(self.states, [])
        told = [each.what for each in read_history(self.a)][-3:]
        about = f"move of {PATH} from {self.here} to {self.there}"
        self.assertEqual(told, [f"{about}: begun", f"{about}: the children are there", f"{about}: done"])
        steps.clear()
        self.assertEqual(self.move(tell=steps.append), moved)
        self.assertEqual(steps, [])
        out = output_of("map", "move", PATH, "--to", self.there, "--hosts", self.a)
        self.assertEqual(out, f"nothing to do: the children of {PATH} are there already\n")

    @needs_aio
    def test_ephemerals_of_unknown_names(self) -> None:
        """A session that another client has begun: its owner looks for them."""
        from parkazoo.aio import ParKazooClient as AsyncClient  # noqa: PLC0415 - Python 3.11

        async def main() -> tuple[list[str], ZnodeStat | None]:
            first = AsyncClient(self.a)
            await first.start()
            await first.create(f"{PATH}/e", b"mine", ephemeral=True)
            session = first.client_id
            await first.leave()
            async with AsyncClient(self.a, client_id=session) as second:
                await asyncio.to_thread(self.move)
                self.assertEqual(second.client_id, session)
                return await second.get_children(PATH), await second.exists(f"{PATH}/e")

        names, stat = asyncio.run(main())
        assert stat is not None
        self.assertEqual(sorted(names), ["e", "x"])
        self.assertTrue(stat.ephemeralOwner)
        self.assert_moved(self.there)
        wait_until(lambda: self.worker.get_children(PATH) == ["x"], "the end of the session")

    def test_its_own_place(self) -> None:
        """Without --to it goes where the map puts new directories."""
        add_rule(self.a, Rule(PATH, (self.there,)))
        out = output_of("map", "move", PATH, "--hosts", self.a, "--strangers-gone")
        self.assertRegex(out, rf"(?s)copied 1 znode from {self.here} to {self.there}\n.* have waited for \d+ ms\n")
        self.assert_moved(self.there)

    def test_below_a_chroot(self) -> None:
        self.worker.create(f"{PATH}/e/f", makepath=True)
        on = self.place(f"{PATH}/e")
        to = next(name for name in "abc" if name != on)
        output_of("map", "move", "/e", "--to", to, "--hosts", f"{self.a}{PATH}", "--strangers-gone")
        self.assertEqual((self.place(f"{PATH}/e"), self.place(PATH)), (to, self.here))

    def test_its_first_child_never_came(self) -> None:
        """A pin without a mirror: it moves all the same."""
        self.worker.delete(f"{PATH}/x")
        mirror = find_whereabouts(read_map(self.a), PATH).d.mirror.path
        self.plain["abc".index(self.here)].delete(mirror)
        self.move()
        self.assert_moved(self.there)
        self.worker.create(f"{PATH}/y")
        self.assertEqual(self.client()[0].get_children(PATH), ["y"])

    def test_deleted_and_made_anew(self) -> None:
        self.move()
        self.worker.delete(PATH, recursive=True)
        self.worker.create(f"{PATH}/y", makepath=True)
        self.assertEqual(self.place(PATH), self.here)
        self.move()
        self.assert_moved(self.there)
        self.assertEqual(self.worker.get_children(PATH), ["y"])


class HeldTest(MoveCase):
    """What clients hold in the directory follows it."""

    def test_watches(self) -> None:
        client, other = self.worker, self.client()[0]
        seen, listed, data = list[Any](), list[Any](), list[Any]()
        client.get(f"{PATH}/x", seen.append)
        client.get_children(PATH, listed.append)
        client.DataWatch(f"{PATH}/x")(lambda found, stat: data.append(found))
        self.move()
        self.assertEqual((seen, listed, data), ([], [], [b"1"]))
        other.set(f"{PATH}/x", b"2")
        other.create(f"{PATH}/y")
        wait_until(lambda: (len(seen), len(listed), data) == (1, 1, [b"1", b"2"]), "each is told once")
        self.assert_moved(self.there)
        self.assertEqual(self.states, [])

    def test_locks_and_ephemerals(self) -> None:
        """The lock is held all the time, and they end with their client."""
        client, (other, states) = self.worker, self.client()
        lock = other.Lock(PATH, "me")
        self.assertTrue(lock.acquire(timeout=DEADLINE_S))
        other.create(f"{PATH}/e", b"mine", ephemeral=True)
        for to in (self.there, self.here, self.there):
            self.move(to)
            self.assert_moved(to)
            self.assertFalse(client.Lock(PATH, "you").acquire(blocking=False))
            self.assertEqual(client.get(f"{PATH}/e")[0], b"mine")
        self.assertEqual(states, [])
        other.stop()
        wait_until(lambda: client.get_children(PATH) == ["x"], "they end with their client")
        with client.Lock(PATH, "you"):
            pass
        self.assertEqual(self.states, [])

    def test_a_double_barrier(self) -> None:
        """It moves while its members enter and leave: they do so together, though all czxids are new."""
        folder, clients = f"{PATH}/barrier", [self.client()[0] for _ in range(3)]
        killed = self.client()[0]
        killed.DoubleBarrier(folder, 1).enter()
        killed.stop()  # its `ready` stays, and is older than who comes now
        members = [client.DoubleBarrier(folder, 3) for client in clients]
        entered = [self.begin(members[0], "enter")]
        self.move_on(folder)
        cut(clients[0])
        wait_until(lambda: len(entered[0]) or is_waiting(clients[0]), "it has looked again")
        self.assertEqual([*entered[0]], [])
        entered += [self.begin(each, "enter") for each in members[1:]]
        for outcome in entered:
            self.assertEqual(outcome.wait(), [None])
        self.assertEqual([each.participating for each in members], [True] * 3)
        left = list[Outcome]()
        for each in members:
            self.move_on(folder)
            self.assertEqual([*map(list, left)], [[]] * len(left))
            left.append(self.begin(each, "leave"))
        for outcome in left:
            self.assertEqual(outcome.wait(), [None])
        self.assertEqual(self.worker.get_children(folder), [])

    def test_a_dictionary(self) -> None:
        """Nothing is told of a move of its entries, nor of one of the directory with those beside it."""
        path, client = f"{PATH}/settings", self.client()[0]
        mine, told = client.DistributedDict(path), Seen()
        mine.update(x=1, y=2)
        mine.on_change(lambda *change: told(change))
        keeper = mine._keeper
        assert keeper is not None
        for moved in (path, PATH):
            self.move_on(moved)
            loads = keeper._generation
            cut(client)
            wait_until(lambda loads=loads: keeper._generation > loads and not mine.is_stale, "it is read again")
        self.worker.set(f"{path}/x", b"3")
        self.assertEqual(told.wait(), [("x", 1, 3, 1)])
        self.assertEqual(mine.copy(), {"x": 3, "y": 2})

    def test_watches_that_are_withdrawn(self) -> None:
        """While it moves: none is left, in the old place or in the new one."""
        client, seen = self.client()[0], Seen()
        client.create(f"{PATH}/y/z", makepath=True)
        watched = {client.exists: f"{PATH}/x", client.get: f"{PATH}/y", client.get_children: PATH}
        for read, path in watched.items():
            read(path, seen)
        with mock.patch.object(MovingCopy, "take_over", side_effect=CrashError), suppress(CrashError):
            self.move()
        wait_until(lambda: client._session.driver.context.moving, "it holds")
        self.assertTrue(is_waiting(client))
        for path in watched.values():
            client.withdraw_watch(path, seen)
        wait_until(lambda: not is_waiting(client), "none is left")
        self.move()
        self.assert_moved(self.there)
        self.worker.set(f"{PATH}/x", b"2")
        self.worker.delete(f"{PATH}/y", recursive=True)
        client.sync(PATH)
        self.assertEqual(seen, [])

    def test_deferred_writes_with_a_guard(self) -> None:
        """They go on in the new place, as long as it is there. What has not moved with it is apart from it."""
        lock = self.worker.Lock(PATH)
        lock.acquire()
        guard = f"{PATH}/{lock.node}"
        later = self.worker.deferred(guard=guard, on_error="skip")
        self.worker.create("/e/x", makepath=True)
        move_directory(self.a, "/e", self.here, strangers_gone=True)
        tickets = [later.put(f"{PATH}/x", b"1"), later.put("/e/x", b"1")]
        later.barrier(DEADLINE_S)
        self.move()
        tickets += [later.put("/e/x", b"2"), later.put(f"{PATH}/x", b"2")]
        with self.assertRaises(DeferredError):
            later.barrier(DEADLINE_S)
        self.assertEqual([each.state for each in tickets], ["committed", "committed", "failed", "committed"])
        self.assertIsInstance(tickets[2].error, CrossEnsembleError)
        self.assertEqual([self.worker.get(each)[0] for each in (f"{PATH}/x", "/e/x")], [b"2", b"1"])
        self.worker.create("/f/x", makepath=True)
        move_directory(self.a, "/f", self.there, strangers_gone=True)
        later.put("/f/x", b"1")
        later.barrier(DEADLINE_S)
        self.move(self.here)
        lock.release()
        ticket = later.put(f"{PATH}/x", b"3")
        with self.assertRaises(DeferredError):
            later.close(DEADLINE_S)
        self.assertEqual((ticket.state, type(ticket.error)), ("dropped", NoNodeError))

    def begin(self, barrier: Any, call: str) -> Outcome:
        """Returns when it waits, or has ended."""
        outcome = Outcome(barrier.client, getattr(barrier, call))
        wait_until(lambda: len(outcome) or is_waiting(barrier.client), call)
        return outcome

    def move_on(self, path: str) -> None:
        to = next(name for name in "abc" if name != self.place(path))
        move_directory(self.a, path, to, strangers_gone=True)


class NativeTest(MoveCase):
    """The children are below the home itself, as a single ZooKeeper has left them."""

    def test_it_moves(self) -> None:
        root = "abc".index(self.place("/"))
        there = next(name for name in "abc" if name != "abc"[root])
        for has_pin in (True, False):
            with self.subTest(has_pin):
                path = f"/n{has_pin}"
                self.plain[root].create(f"{path}/x/y", b"1", makepath=True)
                if has_pin:
                    self.worker.create(f"{path}/z")
                else:
                    self.assertEqual(self.worker.get_children(path), ["x"])
                move_directory(self.a, path, there, strangers_gone=True)
                self.assertEqual(self.place(path), there)
                self.assertEqual(self.plain[root].get_children(path), [".parkazoo"])
                for client in (self.worker, self.client()[0]):
                    self.assertEqual(client.get(f"{path}/x/y")[0], b"1")
                    client.create(f"{path}/new", ephemeral=True)
                    client.delete(f"{path}/new")
                self.worker.delete(path, recursive=True)
                self.assertIsNone(self.plain[root].exists(path))
        self.assertEqual(self.states, [])


class WorkTest(MoveCase):
    def test_under_load(self) -> None:
        """Three clients use the directory all the time, while it goes round. Each answer is one tree's."""
        clients = [self.client() for _ in range(3)]
        stop, wrong = threading.Event(), list[object]()
        numbers: list[list[int]] = [[] for _ in clients]

        def work_once(at: int, client: ParKazooClient, version: int) -> None:
            own = f"{PATH}/own{at}"
            made = client.create(f"{PATH}/s-", sequence=True)
            numbers[at].append(int(made[-10:]))
            stat = client.set(own, b"%d" % version)
            data, _ = client.get(own)
            if (stat.version, data) != (version, b"%d" % version):
                wrong.append((own, stat, data, version))
            names = client.get_children(PATH)
            if made[len(PATH) + 1 :] not in names:
                wrong.append((made, names))
            client.delete(made)
            client.create(f"{own}-{version % 3}/f", makepath=True)
            client.delete(f"{own}-{version % 3}", recursive=True)

        def work(at: int, client: ParKazooClient) -> None:
            try:
                client.create(f"{PATH}/own{at}")
                for version in itertools.count(1):
                    work_once(at, client, version)
                    if stop.is_set():
                        return
            except Exception as error:
                wrong.append(error)

        threads = [threading.Thread(target=work, args=(at, client)) for at, (client, _) in enumerate(clients)]
        for thread in threads:
            thread.start()
        for to in ("abc".replace(self.here, "") + self.here) * 2:
            least = [len(each) + 1 for each in numbers]
            wait_until(partial(self.are_there, numbers, least), "all work")
            self.move(to)
        stop.set()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        self.assert_moved(self.here)
        all_numbers = [number for each in numbers for number in each]
        self.assertEqual(len({*all_numbers}), len(all_numbers))
        self.assertEqual([each == sorted(each) for each in numbers], [True] * 3)
        self.assertEqual([states for _, states in clients], [[]] * 3)

    def are_there(self, numbers: list[list[int]], least: list[int]) -> bool:
        return all(len(each) >= number for each, number in zip(numbers, least, strict=True))


class EndsTest(MoveCase):
    """Commands whose process ends behind a step; in admin/test_directory_move.py at each write."""

    # What makes the step, and which of its calls.
    COPIED = MovingCopy, "bring", 1
    MARKED = MovingHome, "leave_mark", 1
    HELD = directory_move, "publish_on", 1
    EXACT = MovingCopy, "make_exact", 1
    SEALED = MovingCopy, "seal", 1
    SWITCHED = MovingHome, "switch", 1
    MOVED = directory_move, "publish_on", 2
    DELETED = directory_move, "delete_place", 1
    OVER = directory_move, "publish_on", 3

    def setUp(self) -> None:
        super().setUp()
        impatient = mock.patch("parkazoo.engine.holding.MOST_LOOKS", 3)
        impatient.start()
        self.addCleanup(impatient.stop)

    @contextmanager
    def ends_behind(self, owner: Any, name: str, number: int) -> Iterator[None]:
        step, count = getattr(owner, name), itertools.count(1)

        def step_and_end(*arguments: Any, **options: Any) -> Any:
            found = step(*arguments, **options)
            if next(count) == number:
                raise CrashError
            return found

        with mock.patch.object(owner, name, step_and_end), self.assertRaises(CrashError):
            yield

    def test_the_next_one_goes_on(self) -> None:
        """A client that has waited long enough takes the mark away."""
        steps = (
            self.COPIED,
            self.MARKED,
            self.HELD,
            self.EXACT,
            self.SEALED,
            self.SWITCHED,
            self.MOVED,
            self.DELETED,
            self.OVER,
        )
        for step in steps:
            with self.subTest(step[1:]):
                with self.ends_behind(*step):
                    self.move()
                self.worker.create(f"{PATH}/{step[1]}{step[2]}")
                self.move()
                self.assert_moved(self.there)
                self.here, self.there = self.there, self.here
        self.assertEqual(len(self.worker.get_children(PATH)), 1 + len(steps))
        self.assertEqual(self.states, [])

    def test_abort(self) -> None:
        """fsck finds what the dead command has left, but what the map knows; `where` tells of that."""
        for step in (self.COPIED, self.HELD, self.SWITCHED):
            with self.subTest(step[1:]):
                with self.ends_behind(*step):
                    self.move()
                is_known = read_map(self.a).move is not None
                wrong = [] if is_known else [(self.there, PATH)]
                self.assertEqual(self.unfinished(), wrong)
                out = output_of("where", PATH, "--hosts", self.a)
                self.assertEqual("the children of /d move: " in out, is_known)
                try:
                    abort_move(self.a, PATH)
                except ClusterMapError as error:
                    self.assertEqual(step, self.SWITCHED)
                    self.assertRegex(str(error), "^/d has moved to . already: .* --to . moves it back$")
                    self.move()
                    self.assert_moved(self.there)
                    self.here, self.there = self.there, self.here
                else:
                    self.assert_moved(self.here)
                self.assertEqual(self.worker.get_children(PATH), ["x"])
        with self.assertRaisesRegex(ClusterMapError, "^there is nothing to abort: /d does not move[.] "):
            abort_move(self.a, PATH)
        self.assertEqual((self.unfinished(), self.states), ([], []))

    def unfinished(self) -> list[tuple[str, str]]:
        """All that fsck finds, but for fences."""
        found = check(self.a, grace_s=0).tallies
        self.assertLessEqual(
            {kind.name for kind, tally in found.items() if tally.found}, {"missing-structure", "unfinished-moves"}
        )
        return [(each.ensemble, each.path) for each in found[UNFINISHED_MOVES].paths]


class FsckTest(MoveCase):
    def test_it_looks_again(self) -> None:
        """At a directory that moves while it is at work: what is wrong below that is found."""
        there = self.plain["abc".index(self.here)]
        mirror = find_whereabouts(read_map(self.a), PATH).d.mirror.path
        there.create(f"{mirror}/x/{PROOF}")
        places = iter([self.there, self.here])

        def move_on(looked_at: int, found: int) -> None:
            if (to := next(places, None)) is not None:
                self.move(to)

        with mock.patch("parkazoo.admin.walk.PROGRESS_EVERY_S", 0.0):
            tallies = check(self.a, grace_s=0, progress=move_on).tallies
        self.assertIsNone(next(places, None))
        self.assertEqual({each.path for each in tallies[DIFFERING_PROOFS].paths}, {f"{PATH}/x"})
        wrong = {kind.name for kind, tally in tallies.items() if tally.found}
        self.assertLessEqual(wrong, {"missing-structure", DIFFERING_PROOFS.name})
        self.assert_moved(self.here)


class SeveralDirectoriesTest(MoveCase):
    def test_off_an_ensemble_that_leaves(self) -> None:
        """One has a container: it stays, and is told. When that is gone, the rest goes."""
        root = self.place("/")
        name = next(each for each in "bc" if each != root)
        add_rule(self.a, Rule("/r", (name,)))
        self.follows(self.worker, read_map(self.a))
        for path in ("/r/d/e", "/r/stuck"):
            self.worker.create(f"{path}/x", b"1", makepath=True)
        output_of("map", "rule", "remove", "/r", "--hosts", self.a)
        mirror = find_whereabouts(read_map(self.a), "/r/stuck").d.mirror.path
        plain = self.plain["abc".index(name)]
        plain.delete(f"{mirror}/x")
        plain.create(f"{mirror}/x", ephemeral=True)
        options = "--hosts", self.a, "--strangers-gone"
        error = error_of("map", "remove", name, *options)
        self.assertIn(f"`parkazoo map drain {name} --move` takes the children", " ".join(error.split()))
        before = [dump(client) for client in self.plain]
        out = self.output_of_some_left("map", "drain", name, "--move", "--dry-run", *options)
        self.assertEqual([dump(client) for client in self.plain], before)
        self.assertIn("/r/d/e: would copy 1 znode", out)
        out = self.output_of_some_left("map", "drain", name, "--move", *options)
        self.assertRegex(
            out, r"(?s)of \d+: /r/d/e has moved to .*of \d+: /r has moved .*1 stayed:.*  /r/stuck: ephem"
        )
        plain.delete(f"{mirror}/x")
        self.assertRegex(output_of("map", "drain", name, "--move", *options), "(?s)1 directory moved")
        for path in ("/r/d/e", "/r/d", "/r/stuck", "/r"):
            self.assertNotEqual(self.place(path), name)
        self.worker.set("/r/d/e/x", b"2")
        output_of("map", "remove", name, *options)
        self.assertEqual(self.states, [])

    def output_of_some_left(self, *arguments: str) -> str:
        status, out, err = run_command(*arguments)
        self.assertEqual((status, err), (1, ""), out)
        return out

    def test_below(self) -> None:
        for path in (f"{PATH}/e/f", f"{PATH}/g"):
            self.worker.create(f"{path}/x", makepath=True)
        out = output_of("map", "move", PATH, "--below", "--to", self.there, "--hosts", self.a, "--strangers-gone")
        self.assertRegex(out, r"\d director(y|ies) moved\n$")
        paths = (PATH, f"{PATH}/e", f"{PATH}/e/f", f"{PATH}/g")
        self.assertEqual({self.place(path) for path in paths}, {self.there})
        self.assertEqual(self.worker.get_children(f"{PATH}/e/f"), ["x"])


class SeveralTest(MoveCase):
    def test_at_once(self) -> None:
        found = self.at_once(self.move, self.move, self.move)
        self.assertEqual(found, [read_map(self.a)] * 3)
        self.assert_moved(self.there)
        self.assertEqual(self.states, [])

    def test_a_client_waits_too_long_for_one(self) -> None:
        """So it begins again, and another command waits for that: nobody has called it off."""
        in_hold, go_on = threading.Event(), threading.Event()
        make_exact = MovingCopy.make_exact

        def slow(copy: MovingCopy, *args: Any) -> Any:
            if not in_hold.is_set():
                in_hold.set()
                go_on.wait(DEADLINE_S)
            return make_exact(copy, *args)

        def first() -> ClusterMap:
            return self.move()

        def second() -> ClusterMap:
            in_hold.wait(DEADLINE_S)
            home = find_whereabouts(read_map(self.a), PATH).d
            client = self.plain[home.home.ensemble]
            (mark,) = client.get_children(home.pin)
            client.delete(f"{home.pin}/{mark}")  # as a client does
            try:
                return self.move(tell=lambda step: go_on.set() if "waiting for its end" in step else None)
            finally:
                go_on.set()

        with mock.patch.object(MovingCopy, "make_exact", slow):
            found = self.at_once(first, second)
        self.assertEqual(found, [read_map(self.a)] * 2)
        self.assert_moved(self.there)

    def test_of_another_directory(self) -> None:
        self.worker.create("/e/x", makepath=True)
        others = [name for name in "abc" if name != self.place("/e")]
        with (
            self.held(),
            self.refused("^/d moves to ., and one directory moves at a time: .*--abort takes it back"),
        ):
            move_directory(self.a, "/e", others[0], strangers_gone=True)
        about = f"the children of /d move: from {self.here} to {self.there}. `parkazoo map move` goes on if"
        self.assertIn(about, output_of("map", "show", "--hosts", self.a))
        with self.held(), self.refused(f"^/d moves to {self.there} already: "):
            self.move(next(name for name in "abc" if name not in (self.here, self.there)))
        self.move()
        self.assert_moved(self.there)

    @contextmanager
    def held(self) -> Iterator[None]:
        """By a command that has ended in the hold."""
        if read_map(self.a).move is None:
            with mock.patch.object(MovingCopy, "take_over", side_effect=CrashError), suppress(CrashError):
                self.move()
        yield

    def test_abort_of_a_command_at_work(self) -> None:
        """While it waits for a client; it does not begin again."""
        end = self.stay_behind("abc".index(self.here), epoch="none")
        waits, result = threading.Event(), list[Any]()

        def move() -> None:
            result.extend(self.at_once(lambda: self.move(on_wait=lambda waiting: waits.set())))

        moving = threading.Thread(target=move)
        moving.start()
        self.assertTrue(waits.wait(DEADLINE_S))
        with self.refused("nothing to abort"):
            abort_move(self.a, PATH)
        end()
        moving.join()
        self.assertEqual(result, [read_map(self.a)])
        self.assert_moved(self.there)


class SignalsTest(MoveCase):
    """A command in a process of its own, slow enough to be ended in the middle of its copy."""

    SLOW = "--rate", "4"

    def begin(self) -> subprocess.Popen[str]:
        argv = [sys.executable, "-c", RUN, "map", "move", PATH, "--to", self.there, "--hosts", self.a, *self.SLOW]
        process = subprocess.Popen([*argv, "--strangers-gone"], stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        at = self.plain["abc".index(self.there)]
        wait_until(lambda: at.exists(MOVES) and at.get_children(MOVES), "its copy is begun")
        return process

    def test_it_ends(self) -> None:
        """By ^C, SIGTERM or a terminal that goes it leaves nothing; killed, what the next command goes on with."""
        for number in range(60):
            self.worker.create(f"{PATH}/{number}")
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            process = self.begin()
            process.send_signal(number)
            out, _ = process.communicate(timeout=DEADLINE_S)
            self.assertIn("interrupted: /d stays where it is", out)
            self.assertEqual(process.returncode, 130)
            self.assert_moved(self.here)
        process = self.begin()
        _, out, _ = run_command("status", "--hosts", self.a)
        self.assertRegex(
            " ".join(out.split()),
            rf"move of /d from {self.here} to {self.there}, \d+ znodes copied: parkazoo map move {PATH}, \S+, "
            rf"process {process.pid}, since ",
        )
        process.kill()
        process.communicate()
        self.move()
        self.assert_moved(self.there)
        self.assertEqual((len(self.worker.get_children(PATH)), self.states), (61, []))


class CalledOffTest(MoveCase):
    def test_a_client_that_does_not_get_ready(self) -> None:
        """It works by the present map, and does not follow: it is told, and the others go on."""
        steps: list[str] = []
        real = directory_move.find_behind

        def find_behind(clients: Any, published: ClusterMap, *said: Any) -> Any:
            """It is behind as long as there is a move."""
            found = real(clients, published, *said)
            about = RegisteredClient(
                "0xabc", "web7", 4711, "0.1.0", published.epoch - 1, "now", {self.here: "0xabc"}
            )
            return found and found._replace(behind=[*found.behind, about] if published.move else found.behind)

        is_refused = self.assertRaisesRegex(
            ClusterMapError, r"(?s)^/d stays where it is: its move was called off 3 times\n.*on web7, pid 4711"
        )
        with mock.patch.object(directory_move, "find_behind", find_behind), is_refused:
            self.move(tell=steps.append)
        self.assertEqual(sum("called off after" in each for each in steps), 3)
        self.assert_moved(self.here)
        self.assertEqual(self.worker.get_children(PATH), ["x"])
        self.assertEqual(self.states, [])
        self.assertEqual(read_history(self.a)[-1].what, f"move of /d from {self.here} to {self.there}: called off")

    def test_a_client_of_an_older_map(self) -> None:
        """It is waited for before anybody is held."""
        end = self.stay_behind("abc".index(self.here), epoch="none")
        waiting: list[Any] = []
        with end_at_sleep(end, "parkazoo.admin.directory_move"):
            self.move(on_wait=waiting.append)
        self.assertEqual([each.map for each in waiting], [self.map.epoch])
        self.assert_moved(self.there)


class RefusedTest(MoveCase):
    def test_places(self) -> None:
        for path, why in (
            ("/", "^/ has its place for ever"),
            ("/zookeeper/config", "^/zookeeper/config is ZooKeeper's own"),
            ("/x", "^there is no znode /x$"),
            (f"{PATH}/x", "^/d/x has never had a child, so there is nothing to move"),
        ):
            with self.subTest(path), self.refused(why):
                move_directory(self.a, path, self.there, strangers_gone=True)
        with self.refused("^no ensemble of the map is called 'x': there are a, b, c$"):
            self.move("x")
        add_rule(self.a, Rule(PATH, (self.here,)))
        with self.refused(f"^the rule for /d keeps directories together, there on {self.here}"):
            self.move()

    def test_strangers(self) -> None:
        with self.refused("(?s)^stopped at map 1: .* not registered.*--strangers-gone"):
            self.move(strangers_gone=False)

    def test_other_commands_are_no_strangers(self) -> None:
        """Such as `parkazoo top`, which looks on."""
        plain = {(name, format_session(each.client_id[0])) for name, each in zip("abc", self.plain, strict=True)}
        with Looker(self.a) as looker, Followers((), {}) as followers:
            followers.follow(looker.map)
            wait_until(lambda: {*list_clients(self.a).unregistered.found} == plain, "their registrations")
            self.assertEqual([each.pid for each in list_clients(self.a).clients], [os.getpid()])
            self.move()
        self.assert_moved(self.there)

    def test_ephemerals_of_strangers(self) -> None:
        plain = self.plain["abc".index(self.here)]
        mirror = find_whereabouts(read_map(self.a), PATH).d.mirror.path
        for name in ("e", "f"):
            plain.create(f"{mirror}/{name}", ephemeral=True)
        session = format_session(plain.client_id[0])
        with self.refused(f"not registered, .*: /d/e and 1 more, of session {session} on ensemble {self.here} "):
            self.move()
        for name in ("e", "f"):
            plain.delete(f"{mirror}/{name}")
        self.move()
        self.assert_moved(self.there)

    def test_what_may_not_be_read(self) -> None:
        secret = [make_digest_acl("admin", "secret-of-admin", all=True)]
        owner = ParKazooClient(self.a, auth_data=[IDENTITY])
        self.addCleanup(owner.close)
        self.addCleanup(owner.stop)
        owner.start(DEADLINE_S)
        owner.create(f"{PATH}/secret", b"hush", acl=secret)
        with self.refused("^no right to use .*secret on ensemble .*--auth"):
            self.move()
        owner.set_acls(f"{PATH}/secret", [*secret, *READ_ACL_UNSAFE])
        with self.refused("^the servers hide the digests in the ACL of .*/secret on ensemble .*--auth"):
            self.move()
        self.move(auth=[IDENTITY])
        self.assert_moved(self.there)
        self.assertEqual(owner.get(f"{PATH}/secret")[0], b"hush")
        self.assertEqual(owner.get_acls(f"{PATH}/secret")[0], [*secret, *READ_ACL_UNSAFE])

    def test_an_ensemble_that_leaves(self) -> None:
        name = next(each for each in "bc" if each != self.here)
        leaving = self.map.with_leaving(name)
        self.publish(leaving)
        with self.refused(f"^ensemble {name} is leaving, and takes no directory"):
            self.move(name)
        error = error_of("map", "move", PATH, "--abort", "--below", "--hosts", self.a, status=2)
        self.assertIn("--abort goes without --below", error)
        error = error_of("map", "move", PATH, "--abort", "--to", "b", "--hosts", self.a)
        self.assertIn("there is nothing to abort: /d does not move", error)
        with self.refused("^0 writes/s are none"):
            self.move(per_second=0)
        error = error_of("map", "move", "/parkazoo/map", "--hosts", self.a, status=2)
        self.assertIn("reserved", error)

    def test_dry_run(self) -> None:
        before = [dump(client) for client in self.plain]
        out = output_of(
            "map", "move", PATH, "--to", self.there, "--hosts", self.a, "--dry-run", "--strangers-gone"
        )
        self.assertEqual([dump(client) for client in self.plain], before)
        self.assertRegex(
            out,
            rf"(?s)^would copy 1 znode from {self.here} to {self.there}\nA copied.*czxid.*\nwould publish map .*: "
            r"clients hold.*\nwould switch .*\nwould publish .*clients, for which it would wait: 1\n.*dry run",
        )
