"""The first `parkazoo map rule add`, `weight` or `drain` of a cluster of three ensembles, while a client works."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from parkazoo import ParKazooClient
from parkazoo.admin import (
    Rule,
    UnconfirmedError,
    Waiting,
    abort_growth,
    add_rule,
    change_weights,
    grow_map,
    init_map,
    read_map,
    remove_rule,
)
from parkazoo.admin.rise import DOES
from parkazoo.errors import ClusterMapError
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.epochs import Form
from tests.live.copies_case import CrashError, crash_when
from tests.live.grow_case import GrowCase, crash_after, end_at_sleep
from tests.live.map_case import (
    COMMAND_TIMEOUT_S,
    IDENTITY,
    MapCase,
    error_of,
    free_port,
    output_of,
    run_command,
    run_on_a_terminal,
    wipe,
)
from tests.live.world import wait_until

DIRECTORIES = 12
COMMANDS = (("rule", "add", "/app", "--on", "b"), ("weight", "a=2"), ("drain", "c"))
WEIGHTS = {"weight": {"a": 2}, "drain": {"c": 0}}
STEPS = "(?s)map 2: clients read pins\n.*map 3: clients write pins.*\n.*map 4 with epoch 2: pins decide.*\n"
WOULD = (
    "(?s)^would publish map 2: clients read pins\nwould publish map 3 when all clients work by map 2: .*\n"
    "would publish map 4 with epoch 2 when all clients work by map 3: pins decide where directories are\n"
)
QUESTION = "for good: no command takes that back"


class FirstCase(GrowCase):
    def setUp(self) -> None:
        MapCase.setUp(self)
        self.begin()

    def begin(self) -> None:
        for each in self.plain:
            wipe(each)
        self.map = init_map(self.a, self.all)

    def run_on_a(self, *arguments: str) -> tuple[int, str, str]:
        return run_command("map", *arguments, "--hosts", self.a)

    def act(self, **options: Any) -> ClusterMap:
        return add_rule(self.a, Rule("/app", ("b",)), **{"yes": True, "strangers_gone": True} | options)


class CommandTest(FirstCase):
    def test_each_while_a_client_works(self) -> None:
        for command in COMMANDS:
            with self.subTest(command):
                self.begin()
                client, states = self.client()
                for number in range(DIRECTORIES):
                    client.create(f"/app/d{number}/x", makepath=True)
                before = {number: client.get(f"/app/d{number}/x") for number in range(DIRECTORIES)}
                self.assert_a_dry_run(*command)
                self.assert_asks(*command)
                self.assertRegex(output_of("map", *command, "--yes", "--strangers-gone", "--hosts", self.a), STEPS)
                found = self.assert_grown("abc")
                self.follows(client, found)
                self.assert_placed(client, found, command)
                after = {number: client.get(f"/app/d{number}/x") for number in range(DIRECTORIES)}
                self.assertEqual((after, list(states)), (before, []))
                self.assertRegex(self.run_on_a(*command)[1], "^nothing to do: ")
                self.assertEqual(read_map(self.a), found)
                client.stop()

    def assert_a_dry_run(self, *command: str) -> None:
        with self.nothing_written():
            status, out, err = self.run_on_a(*command, "--dry-run")
        self.assertEqual((status, err), (1, ""))
        self.assertRegex(
            out, WOULD + ".*clients, for which it would wait: 1\n  0x.*dry run: nothing was written\n$"
        )
        self.assertIn("would be refused: 3 sessions are not registered", out)

    def assert_asks(self, *command: str) -> None:
        """Without a terminal it ends with an error; an answer other than yes changes nothing."""
        with self.nothing_written():
            status, out, err = self.run_on_a(*command, "--strangers-gone")
            self.assertEqual((status, out, err.count("\n")), (1, "", 1))
            self.assertRegex(err, f"^error: so far .*{QUESTION}.*give --yes\n$")

    def assert_placed(self, client: ParKazooClient, found: ClusterMap, command: tuple[str, ...]) -> None:
        for number in range(DIRECTORIES):
            client.create(f"/app/n{number}/x", makepath=True)
        places = {self.place(f"/app/n{number}") for number in range(DIRECTORIES)}
        newest = found.epochs[-1]
        if command[0] == "rule":
            self.assertEqual((places, newest.rules), ({"b"}, (Rule("/app", ("b",)),)))
        else:
            self.assertEqual(
                newest.weights, {"a": 2, "b": 1, "c": 1} if command[0] == "weight" else {"a": 1, "b": 1, "c": 0}
            )
        if command[0] == "drain":
            self.assertLessEqual(places, {"a", "b"})

    @contextlib.contextmanager
    def nothing_written(self) -> Iterator[None]:
        before = [client.get("/parkazoo/map") for client in self.plain]
        yield
        self.assertEqual([client.get("/parkazoo/map") for client in self.plain], before)
        self.assertEqual(read_map(self.a), self.map)

    def test_on_a_terminal(self) -> None:
        asked = ("map", *COMMANDS[0], "--hosts", self.a, "--strangers-gone")
        for typed in ("\n", "n\n", "\x04"):
            out = run_on_a_terminal(typed, *asked)
            self.assertIn(QUESTION, " ".join(out.split()))
            self.assertEqual(read_map(self.a), self.map)
        self.assertIn("with epoch 2: pins decide", run_on_a_terminal("y\n", *asked))
        self.assert_grown("abc")

    def test_what_needs_no_rise(self) -> None:
        """Nothing is to do, or there is no such rule: nobody is asked, and the map stays as it is."""
        with self.nothing_written():
            self.assertRegex(self.run_on_a("weight", "a=1")[1], "^nothing to do: that is so already")
            self.assertRegex(self.run_on_a("rule", "remove", "/x")[2], "^error: there is no rule for '/x'")
            self.assertRegex(self.run_on_a("rule", "list")[1], "^epoch 1 has no rules")
            for act in (lambda: change_weights(self.a, {"b": 1}), lambda: grow_map(self.a, {"b": self.b})):
                self.assertEqual(act(), self.map)

    def test_wrong_arguments(self) -> None:
        """They are refused before anybody is asked, and nothing is begun."""
        for words, command in (
            ("no ensemble of the map is called 'x': there are a, b, c", ("drain", "x")),
            ("no ensemble of the map is called 'x': there are a, b, c", ("weight", "a=2", "x=1")),
            ("no ensemble of the map is called 'x': there are a, b, c", ("rule", "add", "/app", "--on", "x")),
            ("every ensemble would have weight 0", ("weight", "a=0", "b=0", "c=0")),
            ("a rule cannot be for", ("rule", "add", "app")),
            ("no terminal|give --yes", ("grow",)),
        ):
            for option in ((), ("--yes",), ("--dry-run",)):
                if command == ("grow",) and option:
                    continue
                with self.subTest(command, option=option), self.nothing_written():
                    status, out, err = self.run_on_a(*command, *option)
                    self.assertEqual((status > 0, out, err.count("\n")), (True, "", 1), err)
                    self.assertRegex(err, f"^error: .*{words}")

    def test_one_ensemble(self) -> None:
        for each in self.plain:
            wipe(each)
        init_map(self.a, {"a": self.a})
        for command in (("rule", "add", "/app"), ("weight", "a=2"), ("drain", "a")):
            status, _, err = self.run_on_a(*command, "--yes")
            self.assertEqual((status, read_map(self.a).epoch), (1, 1))
            self.assertRegex(err, "^error: the map has one ensemble, a, where .* `parkazoo map grow --ensemble")

    def test_closed(self) -> None:
        for each in self.plain:
            wipe(each)
        init_map(self.a, self.all, auth=[IDENTITY], closed=True)
        command = (*COMMANDS[0], "--yes", "--strangers-gone")
        self.assertRegex(self.run_on_a(*command)[2], "^error: no right to use ")
        self.assertRegex(output_of("map", *command, f"--auth={':'.join(IDENTITY)}", "--hosts", self.a), STEPS)
        self.assertIs(read_map(self.a, auth=[IDENTITY]).form, Form.GROWN)


class HeldUpTest(FirstCase):
    def test_strangers(self) -> None:
        for command in COMMANDS:
            with self.subTest(command), self.refused("^the map is not changed: 3 sessions are not registered:"):
                if command[0] == "rule":
                    self.act(strangers_gone=False)
                else:
                    change_weights(self.a, {"c": 0}, yes=True)
            err = error_of("map", *command, "--yes", "--hosts", self.a)
            self.assertRegex(err, "(?s)3 sessions are not registered.*--strangers-gone")
        self.assertEqual(read_map(self.a), self.map)

    def test_a_client_that_does_not_follow(self) -> None:
        """It is named; interrupted and taken back, the map is as before; run again, it goes on."""
        client, states = self.client()
        end, seen = self.stay_behind(1, version="0.0.9"), list[Waiting]()

        def interrupt(waiting: Waiting) -> None:
            seen.append(waiting)
            raise CrashError

        with self.assertRaises(CrashError):
            self.act(on_wait=interrupt)
        (behind,) = seen[0].behind
        self.assertEqual((seen[0].map, behind.host, behind.map), (2, "web7", 1))
        with self.assertRaises(UnconfirmedError):
            self.act(yes=False)
        self.assertEqual(abort_growth(self.a), ("published map 3: paths decide where directories are, as before",))
        self.assertIs(read_map(self.a).form, Form.PLAIN)
        with end_at_sleep(end):
            status, out, err = self.run_on_a(*COMMANDS[0], "--yes", "--strangers-gone")
        self.assertEqual((status, err), (0, ""))
        self.assertRegex(
            out,
            r"(?s)waiting for . clients? to work by map 4, .*\n  0xabc on web7, .*ParKazoo 0.0.9, .*says map 1\n",
        )
        self.follows(client, self.assert_grown("abc"))
        self.assertEqual(list(states), [])

    def test_taken_back_while_it_waits(self) -> None:
        end = self.stay_behind(1, version="0.0.9")

        def abort(waiting: Waiting) -> None:
            abort_growth(self.a)
            end()

        with self.assertRaisesRegex(ClusterMapError, "map abort` has given this up meanwhile: map 3 is published"):
            self.act(on_wait=abort)
        self.assertIs(self.assert_published("a", "b", "c").form, Form.PLAIN)

    def test_too_late_to_take_back(self) -> None:
        with self.assertRaises(CrashError):
            self.act(tell=crash_when(DOES[Form.GUARDED]))
        with self.refused("^there is nothing to abort: clients write pins already. `parkazoo map grow` goes on"):
            abort_growth(self.a)
        self.assertEqual(self.act(yes=False).epochs[-1].rules, (Rule("/app", ("b",)),))
        self.assert_grown("abc")

    def test_an_ensemble_is_away(self) -> None:
        closed_port = f"127.0.0.1:{free_port()}"
        self.publish(ClusterMap.from_json(self.map.to_json().replace(self.c.encode(), closed_port.encode())))
        before = [client.get("/parkazoo/map") for client in self.plain]
        for command in COMMANDS:
            with self.subTest(command):
                err = error_of("map", *command, "--yes", "--timeout", "3600", "--hosts", self.a)
                self.assertRegex(err, f"(?s)^error: the map is not changed: .*ensemble c: {closed_port}: ")
                err = error_of("map", *command, "--dry-run", "--timeout", "3600", "--hosts", self.a)
                self.assertIn("the clients that would be waited for cannot be seen", err)
        self.assertEqual([client.get("/parkazoo/map") for client in self.plain], before)


class InterruptedTest(FirstCase):
    def test_a_crash_after_each_write(self) -> None:
        client, states = self.client()
        for writes in itertools.count():
            client.stop()
            self.begin()
            client, states = self.client()
            has_crashed = False
            with crash_after(writes), contextlib.suppress(CrashError):
                has_crashed = True
                self.act()
                has_crashed = False
            with self.subTest(writes=writes):
                client.create("/app/meanwhile/x", makepath=True)
                found = self.act()
                self.assertEqual((self.assert_grown("abc"), found.epoch), (found, 4))
                self.assertEqual(found.epochs[-1].rules, (Rule("/app", ("b",)),))
                self.follows(client, found)
                self.assertEqual((client.get_children("/app/meanwhile"), list(states)), (["x"], []))
            if not has_crashed:
                break
        self.assertEqual(writes, 9)  # three maps, a primary and two copies of each

    def test_a_killed_process(self) -> None:
        """While it waits; run again it ends the same."""
        end = self.stay_behind(1, version="0.0.9")
        command = [sys.executable, "-m", "parkazoo", "map", *COMMANDS[2], "--hosts", self.a]
        process = subprocess.Popen(
            [*command, "--yes", "--strangers-gone"],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        wait_until(lambda: read_map(self.a).form is Form.TOLERANT, "it waits")
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=COMMAND_TIMEOUT_S)
        end()
        found = change_weights(self.a, {"c": 0}, yes=True, strangers_gone=True)
        self.assertEqual((self.assert_grown("abc"), found.epoch), (found, 4))
        self.assertEqual(found.epochs[-1].weights, {"a": 1, "b": 1, "c": 0})

    def test_two_commands_at_once(self) -> None:
        client, _ = self.client()
        results = self.at_once(
            self.act,
            self.act,
            lambda: change_weights(self.b, {"c": 0}, yes=True, strangers_gone=True),
            lambda: add_rule(self.c, Rule("/logs"), yes=True, strangers_gone=True),
        )
        self.assertEqual([each for each in results if not isinstance(each, ClusterMap)], [])
        found = self.assert_grown("abc")
        newest = found.epochs[-1]
        self.assertEqual((found.epoch, newest.weights), (6, {"a": 1, "b": 1, "c": 0}))
        self.assertEqual({rule.prefix for rule in newest.rules}, {"/app", "/logs"})
        self.follows(client, found)

    def test_two_that_exclude_each_other(self) -> None:
        results = self.at_once(
            self.act, lambda: add_rule(self.b, Rule("/app", ("c",)), yes=True, strangers_gone=True)
        )
        refused = [each for each in results if isinstance(each, Exception)]
        self.assertEqual([type(each) for each in refused], [ClusterMapError])
        self.assertRegex(str(refused[0]), "^there is another rule for /app, together, on [bc]: remove it first")
        self.assertEqual(len(self.assert_grown("abc").epochs[-1].rules), 1)
        remove_rule(self.a, "/app")

    def test_a_growth_that_was_begun(self) -> None:
        """Its ensemble gets no directory by the rule alone; the growth goes on."""
        for each in self.plain:
            wipe(each)
        init_map(self.a, {"a": self.a, "b": self.b})

        with self.assertRaises(CrashError):
            grow_map(self.a, {"c": self.c}, strangers_gone=True, tell=crash_when(DOES[Form.TOLERANT]))
        self.assertEqual(self.act().epochs[-1].weights, {"a": 1, "b": 1})
        found = grow_map(self.a, {"c": self.c})
        self.assertEqual(found.epochs[-1].weights, {"a": 1, "b": 1, "c": 1})
        self.assertEqual(found.epochs[-1].rules, (Rule("/app", ("b",)),))
        self.assert_grown("abc")
