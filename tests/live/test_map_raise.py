"""`parkazoo map grow` on a plain map: its form rises while clients work, and one ZooKeeper becomes several."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest import mock

from kazoo.client import KazooClient
from kazoo.recipe.queue import LockingQueue as KazooLockingQueue

from parkazoo import ParKazooClient
from parkazoo.admin import Rule, Waiting, abort_growth, add_rule, grow_map, init_map, read_map
from parkazoo.admin.clients import AdminClient, connect_to
from parkazoo.admin.rise import Rise
from parkazoo.errors import ClusterMapError, CrossEnsembleError
from parkazoo.fsck import check
from parkazoo.protocol.audit_ensemble import audit_ensemble
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.placement import split
from parkazoo.structures.deferred import Ticket
from tests.live.copies_case import CrashError
from tests.live.grow_case import GrowCase, crash_after, end_at_sleep
from tests.live.map_case import (
    COMMAND_TIMEOUT_S,
    UNREACHABLE_TIMEOUT_S,
    MapCase,
    error_of,
    free_port,
    output_of,
    run_command,
    run_on_a_terminal,
    wipe,
)
from tests.live.world import Seen, wait_until

NEW_DIRECTORIES = 40


class RaiseCase(GrowCase):
    """A plain ZooKeeper with data, a, that was made a cluster of one ensemble."""

    def setUp(self) -> None:
        MapCase.setUp(self)
        old = self.plain[0]
        old.create("/old/d/x", b"data", makepath=True)
        old.create("/old/d/n-", sequence=True)
        old.set("/old/d", b"set")
        self.map = init_map(self.a, {"a": self.a})

    def rise(self, *names: str, **options: Any) -> ClusterMap:
        """The sessions of the tests' own plain clients are no programs that write."""
        ensembles = {name: self.all[name] for name in names}
        return grow_map(self.a, ensembles, yes=True, strangers_gone=True, **options)


class TestDeferred(RaiseCase):
    def test_writes_that_are_deferred_while_the_form_rises(self) -> None:
        """They go on, each once, in directories that were there before and in new ones."""
        client, states = self.client()
        is_over = threading.Event()
        old: list[Ticket] = []
        new: list[Ticket] = []
        later = client.deferred()

        def write() -> None:
            while not is_over.is_set():
                old.append(later.put("/old/d/x", b"%d" % len(old)))
                if len(old) % 100 == 0:
                    parent = client.create(f"/new{len(new)}")
                    new.append(later.add(f"{parent}/x"))

        worker = threading.Thread(target=write)
        worker.start()
        wait_until(lambda: len(new) > NEW_DIRECTORIES // 4, "puts")
        try:
            grown = self.rise("b", "c")
            self.follows(client, grown)
            reach = len(new) + NEW_DIRECTORIES
            wait_until(lambda: len(new) > reach or not worker.is_alive(), "more puts")
        finally:
            is_over.set()
            worker.join(COMMAND_TIMEOUT_S)
        later.close(COMMAND_TIMEOUT_S)
        self.assertEqual({each.state for each in (*old, *new)}, {"committed"})
        data, stat = client.get("/old/d/x")
        self.assertEqual((data, stat.version), (b"%d" % (len(old) - 1), len(old)))
        self.assertEqual(list(states), [])
        self.assertEqual({self.place(split(each.request.path)[0]) for each in new}, {*"abc"})
        self.assert_grown("abc")


class Worker(threading.Thread):
    """Makes directories and children, and looks at them, until it is stopped."""

    def __init__(self, client: ParKazooClient, name: str) -> None:
        super().__init__()
        self.client, self.prefix = client, f"/work-{name}"
        self.made: list[str] = []
        self.errors: list[Exception] = []
        self.is_stopped = threading.Event()

    def run(self) -> None:
        while not self.is_stopped.is_set():
            path = f"{self.prefix}/d{len(self.made)}/x"
            try:
                self.client.create(path, b"1", makepath=True)
                self.client.set(path, b"2")
                assert self.client.get(path)[0] == b"2"
                assert self.client.get_children(path.rpartition("/")[0]) == ["x"]
                assert self.client.exists("/old/d").numChildren == 2
            except Exception as error:
                self.errors.append(error)
            self.made.append(path)


class RaiseTest(RaiseCase):
    def test_one_becomes_three(self) -> None:
        before = self.plain[0].get("/old/d/x"), self.plain[0].get("/old/d")
        clients = [self.client() for _ in range(3)]
        events = Seen()
        first, others = clients[0][0], clients[1:]
        self.assertIsNone(first.exists("/later/d/x", events))
        self.assertEqual(sorted(first.get_children("/old/d", events)), ["n-0000000001", "x"])
        first.create("/old/e", ephemeral=True)
        lock = first.Lock("/old/lock", "me")
        self.assertTrue(lock.acquire(timeout=30))
        workers = [Worker(client, str(number)) for number, (client, _) in enumerate(others)]
        for worker in workers:
            worker.start()
        steps: list[str] = []
        try:
            grown = self.rise("b", "c", tell=steps.append)
            wait_until(lambda: all(each.client.cluster_map == grown for each in workers), "all follow")
            reach = [len(worker.made) + NEW_DIRECTORIES for worker in workers]
            wait_until(lambda: all(len(w.made) >= r for w, r in zip(workers, reach, strict=True)), "work goes on")
        finally:
            for worker in workers:
                worker.is_stopped.set()
            for worker in workers:
                worker.join(COMMAND_TIMEOUT_S)
        self.assertEqual([worker.errors for worker in workers], [[], []])
        self.assertEqual([list(states) for _, states in clients], [[], [], []])
        self.assertRegex("; ".join(steps), "read pins.*write pins.*with epoch 2: pins decide")
        self.assertEqual((self.plain[0].get("/old/d/x"), first.get("/old/d")), before)
        self.assertEqual(
            {self.place(worker.prefix + f"/d{n}") for worker in workers for n in range(len(worker.made))}, {*"abc"}
        )
        self.assertEqual(list(events), [])
        others[0][0].create("/later/d/x", makepath=True)
        wait_until(lambda: len(events) == 1, "the watch from before hears")
        self.assertGreater(others[0][0].create("/old/d/n-", sequence=True), "/old/d/n-0000000001")
        wait_until(lambda: len(events) == 2, "the other one too")
        self.assertFalse(others[0][0].Lock("/old/lock", "you").acquire(blocking=False))
        lock.release()
        self.assert_grown("abc")

    def test_step_by_step(self) -> None:
        """Each number of ensembles, with a client that was there all the time."""
        client, states = self.client()
        client.create("/d/x", makepath=True)
        for names in ("ab", "abc"):
            grown = self.rise(names[-1])
            self.follows(client, grown)
            self.assert_grown(names)
            for number in range(NEW_DIRECTORIES):
                client.create(f"/{names}{number}/x", makepath=True)
            self.assertEqual({self.place(f"/{names}{number}") for number in range(NEW_DIRECTORIES)}, {*names})
        self.assertEqual((client.get_children("/d"), list(states)), (["x"], []))
        self.assertEqual(self.rise("c"), read_map(self.a))

    def test_several_ensembles(self) -> None:
        self.begin_with_two()
        client, _ = self.client()
        for number in range(NEW_DIRECTORIES):
            client.create(f"/d{number}/x", makepath=True)
        self.rise("c")
        self.assert_grown("abc")
        self.assertEqual(
            [client.get_children(f"/d{number}") for number in range(NEW_DIRECTORIES)], [["x"]] * NEW_DIRECTORIES
        )

    def begin_with_two(self) -> None:
        MapCase.setUp(self)
        init_map(self.a, {"a": self.a, "b": self.b})

    def test_the_form_alone(self) -> None:
        self.begin_with_two()
        self.assertEqual(self.rise().form, Form.GROWN)
        self.assert_grown("ab")

    def test_a_crash_after_each_write(self) -> None:
        client, states = self.client()
        writes = 0
        while True:
            with self.subTest(writes=writes), crash_after(writes):
                try:
                    self.rise("b")
                except CrashError:
                    client.create(f"/w{writes}/x", makepath=True)
                    writes += 1
                    continue
            break
        self.assertGreater(writes, 8)
        self.assert_grown("ab")
        self.assertEqual(sorted(client.get_children("/old/d")), ["n-0000000001", "x"])
        self.assertEqual(list(states), [])

    def test_two_commands_at_once(self) -> None:
        client, _ = self.client()
        found = self.at_once(lambda: self.rise("b"), lambda: self.rise("b"), lambda: self.rise("b"))
        self.assertEqual(found, [found[0]] * 3)
        self.follows(client, found[0])
        self.assert_grown("ab")


class FsckTest(RaiseCase):
    def test_meanwhile(self) -> None:
        """It would go on by what is true no more."""
        rises = iter([partial(self.rise, "b")])

        def rise_first(*arguments: Any) -> Any:
            next(rises, lambda: None)()
            return audit_ensemble(*arguments)

        with (
            mock.patch("parkazoo.admin.walk.audit_ensemble", rise_first),
            self.assertRaisesRegex(ClusterMapError, "goes from one form to the next meanwhile"),
        ):
            check(self.a, repair=True)
        self.assert_grown("ab")


class LockingQueueTest(RaiseCase):
    """One layout for all that use a queue, whatever map they know, and though the ensembles are several by now."""

    def test_each(self) -> None:
        (old, _), (other, _) = self.client(), self.client()
        before = [old.LockingQueue(f"/before{number}") for number in range(10)]
        for queue in before:
            queue.put_all([b"1", b"2"])
            self.assertEqual(queue.get(30), b"1")
            self.assertTrue(queue.release())
        grown = self.rise("b")
        self.follows(old, grown)
        self.follows(other, grown)
        after = [other.LockingQueue(f"/after{number}") for number in range(10)]
        for queue in after:
            queue.put_all([b"1", b"2"])
        new, _ = self.client()
        for queue in (*before, *after):
            mine, others = new.LockingQueue(queue.path), old.LockingQueue(queue.path)
            self.assertEqual({mine.get(30), others.get(30)}, {b"1", b"2"})
            self.assertIsNone(queue.get(timeout=0.1))
            self.assertTrue(mine.consume())
            self.assertTrue(others.release())
            self.assertIsNotNone(queue.get(30))
            self.assertTrue(queue.consume())
            self.assertEqual(len(mine), 0)
        KazooLockingQueue(self.plain[0], "/before0").put(b"plain")
        self.assertEqual(before[0].get(30), b"plain")

    def test_never_taken_from(self) -> None:
        """Its locks are new: a rule keeps them beside its entries."""
        client, _ = self.client()
        for number in range(10):
            client.LockingQueue(f"/q{number}").put(b"1")
        self.follows(client, self.rise("b"))
        apart = 0
        for number in range(10):
            queue = client.LockingQueue(f"/q{number}")
            try:
                self.assertEqual(queue.get(30), b"1")
            except CrossEnsembleError:
                apart += 1
                add_rule(self.a, Rule(f"/q{number}", ("a",)))
                self.follows(client, read_map(self.a))
                self.assertEqual(queue.get(30), b"1")
            self.assertTrue(queue.consume())
        self.assertGreater(apart, 0)


class WaitTest(RaiseCase):
    def test_for_who_does_not_follow(self) -> None:
        end, seen = self.stay_behind(), list[Waiting]()

        def wait(waiting: Waiting) -> None:
            seen.append(waiting)
            if len(seen) == 3:
                end()

        self.rise("b", on_wait=wait)
        self.assert_grown("ab")
        (behind,) = seen[-1].behind
        self.assertEqual((seen[-1].form, behind.host, behind.pid, behind.map), (Form.TOLERANT, "web7", 4711, 1))
        self.assertEqual(len(seen), 3)

    def test_for_who_comes_back_behind(self) -> None:
        """On another ensemble, and in a later form."""
        forms: list[Form] = []
        ends: list[Callable[[], None]] = []

        def step(words: str) -> None:
            if "write pins" in words:
                ends.append(self.stay_behind(1))

        def wait(waiting: Waiting) -> None:
            forms.append(waiting.form)
            ends.pop()()

        self.rise("b", tell=step, on_wait=wait)
        self.assertEqual(forms, [Form.GUARDED])
        self.assert_grown("ab")

    def test_given_up(self) -> None:
        """The map becomes plain again, and grows later."""
        client, states = self.client()
        end = self.stay_behind()
        with self.assertRaises(CrashError):
            self.rise("b", on_wait=mock.Mock(side_effect=CrashError))
        self.assertEqual(read_map(self.a).form, Form.TOLERANT)
        client.create("/meanwhile/x", makepath=True)
        done = "; ".join(abort_growth(self.a))
        self.assertRegex(done, "^published map 4 without b: paths decide")
        self.assertEqual(read_map(self.a).placement, ("a",))
        client.create("/plain/x", makepath=True)
        end()
        self.rise("b")
        self.assertEqual((client.get_children("/plain"), client.get_children("/meanwhile")), (["x"], ["x"]))
        self.assert_grown("ab")
        self.assertEqual(list(states), [])

    def test_an_ensemble_is_away(self) -> None:
        """It goes when the form has begun to rise."""
        gone = f"127.0.0.1:{free_port()}"
        away = mock.Mock(timeout_s=UNREACHABLE_TIMEOUT_S, hosts=gone, zk=KazooClient(gone))
        away.name = "b"
        later = mock.MagicMock()
        later.__enter__.return_value = ({}, [away])

        def connect(*arguments: Any, **options: Any) -> Any:
            """To see whether clients have followed is the last step, and the only one that waits for all."""
            return connect_to(*arguments, **options) if "gives_up" in options else later

        with (
            mock.patch.object(Rise, "verify_ready"),
            mock.patch("parkazoo.admin.rise.connect_to", connect),
            self.assertRaisesRegex(ClusterMapError, "^stopped at map 3: an ensemble cannot be reached"),
        ):
            self.rise("b")
        self.rise("b")
        self.assert_grown("ab")


class StrangerTest(RaiseCase):
    """The tests' own kazoo clients do not register."""

    def test_seen(self) -> None:
        with self.refused("^the map is not changed: 3 sessions are not registered:"):
            grow_map(self.a, {"b": self.b, "c": self.c})

    def test_seen_later(self) -> None:
        """They come when the form has begun to rise."""
        with (
            mock.patch.object(Rise, "verify_ready"),
            self.assertRaisesRegex(
                ClusterMapError, "(?s)^stopped at map 3: 3 sessions are not registered:.*`parkazoo map abort`"
            ),
        ):
            grow_map(self.a, {"b": self.b, "c": self.c})
        self.assertEqual(read_map(self.a).form, Form.TOLERANT)

    def test_not_to_be_seen(self) -> None:
        words = "cons is not executed because it is not in the whitelist."
        with (
            mock.patch.object(AdminClient, "ask", return_value=words),
            self.refused("plain kazoo programs .* cannot be seen .* 4lw.commands.whitelist.*strangers-gone"),
        ):
            grow_map(self.a, {"b": self.b})


class CommandTest(RaiseCase):
    def test_output(self) -> None:
        command = ("map", "grow", "--ensemble", f"b={self.b}", "--hosts", self.a)
        status, out, err = run_command(*command, "--dry-run")
        self.assertEqual((status, err), (1, ""))
        self.assertRegex(
            out,
            "(?s)would publish map 2, which names b\nwould publish map 3: .*\n"
            "would publish map 4 when all clients work by map 3: .*no command takes that back\n"
            "would publish map 5 with epoch 2 when all clients work by map 4: .*dry run: nothing",
        )
        self.assertIn("would be refused: 2 sessions are not registered", out)
        status, out, err = run_command(*command)
        self.assertEqual((status, "--strangers-gone" in err), (1, True), err)
        end = self.stay_behind()
        with end_at_sleep(end):
            status, out, err = run_command(*command, "--strangers-gone")
        self.assertEqual((status, err), (0, ""))
        self.assertRegex(
            out,
            r"(?s)waiting for 1 client to work by map 3.*0xabc on web7, pid 4711.*map 4: .*map 5 with epoch 2",
        )
        self.assert_grown("ab")
        self.assertRegex(run_command(*command)[1], "^nothing to do: the map has b already")
        self.assertRegex(run_command("map", "abort", "--hosts", self.a)[2], "nothing to abort")

    def test_refused(self) -> None:
        err = error_of("map", "grow", "--hosts", self.a)
        self.assertIn("the map has one ensemble: give at least one new one", err)

    def test_the_form_alone(self) -> None:
        """It stays for good, so somebody must say so: by --form, or on the terminal."""
        wipe(self.plain[0])
        init_map(self.a, {"a": self.a, "b": self.b})
        command = ("map", "grow", "--hosts", self.a, "--strangers-gone")
        with self.refused(r"need pins to say so, for good: .* give yes=True$"):
            grow_map(self.a, {})
        status, _, err = run_command(*command)
        self.assertEqual((status, "for good: no command takes that back" in err), (1, True), err)
        self.assertRegex(err, r"give --yes\n$")
        self.assertIn("nothing was changed", run_on_a_terminal("\n", *command))
        self.assertEqual(read_map(self.a).epoch, 1)
        self.assertIn("no command takes that back", output_of(*command, "--dry-run"))
        self.assertIn("published map 4: pins decide", run_on_a_terminal("y\n", *command))
        self.assert_grown("ab")
        self.assertRegex(run_command(*command)[1], "^nothing to do: the map can gain ensembles already")
