"""Servers of any ensembles lead to the map; `parkazoo map hosts` changes their addresses in it."""

from __future__ import annotations

import dataclasses
import json
import threading
import time
from typing import Any
from unittest import mock

from parkazoo.admin import change_hosts, check_map, init_map, list_clients, read_map, read_status
from parkazoo.admin.clients import AdminClient
from parkazoo.errors import ClusterMapError
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.placement import ENSEMBLE, MAP
from tests.live.copies_case import CopiesCase, CrashError, crash_at_write, overtaken_at
from tests.live.map_case import (
    COMMAND_TIMEOUT_S,
    IDENTITY,
    UNREACHABLE_TIMEOUT_S,
    dump,
    error_of,
    free_port,
    other_spelling,
    output_of,
    run_command,
    run_on_a_terminal,
    wipe,
)


class ReadTest(CopiesCase):
    def test_any_servers(self) -> None:
        for hosts in (self.a, self.b, f"{self.c},{self.b}", f"{self.a},{self.b},{self.c}"):
            self.assertEqual(read_map(hosts), self.map)
            self.assertEqual(check_map(hosts), [])

    def test_the_newest_counts(self) -> None:
        self.write(b=self.epoch(3), c=self.epoch(2))
        self.assertEqual(read_map(f"{self.a},{self.b},{self.c}"), self.epoch(3))
        self.assertEqual(read_map(self.c), self.epoch(2))  # of what it was given
        self.assertEqual(read_status(self.c).cluster_map, self.epoch(3))  # it asks all

    def test_some_servers_are_down_or_have_no_map(self) -> None:
        closed_port = f"127.0.0.1:{free_port()}"
        self.write(b=None)
        began = time.monotonic()
        self.assertEqual(read_map(f"{closed_port},{self.b},{self.c}", timeout_s=COMMAND_TIMEOUT_S), self.map)
        self.assertLess(time.monotonic() - began, COMMAND_TIMEOUT_S / 2)
        with self.refused(f"no cluster map at {MAP} on {self.b}: these servers are ensemble b of cluster "):
            read_map(self.b)

    def test_wrong_copies_are_named(self) -> None:
        everywhere = f"{self.a},{self.b},{self.c}"
        self.write(b=b"{")
        with self.refused(f"cannot use the cluster map at {MAP} on {self.b}: it is damaged"):
            read_map(everywhere)
        self.write(b=dataclasses.replace(self.map, cluster="other"))
        with self.refused(
            f"the map at {MAP} on server {self.b} is of cluster other, but this is ensemble b of cluster "
        ):
            read_map(everywhere)

    def test_servers_of_two_clusters(self) -> None:
        for client in self.plain[1:]:
            wipe(client)
        init_map(self.c, {"c": self.c})
        with self.refused(f"^server {self.a} is of cluster .*, server {self.c} of .*: give those of one$"):
            read_map(f"{self.a},{self.c}")

    def test_the_bootstrap_ensemble_is_down(self) -> None:
        closed_port = f"127.0.0.1:{free_port()}"
        self.publish(self.epoch(2, a=closed_port))
        found = read_status(self.b)
        self.assertEqual([each.ensemble for each in found.findings], ["a"])
        self.assertRegex(found.findings[0].problem, f"^cannot be reached: {closed_port}")
        self.assertEqual([*list_clients(self.c).absent], ["a"])
        for command in (("map", "show"), ("where", "/x")):
            self.assertEqual(run_command(*command, "--hosts", f"{closed_port},{self.c}")[0], 0)


class ChangeTest(CopiesCase):
    def setUp(self) -> None:
        super().setUp()
        self.moved = other_spelling(self.b)

    def change(self, hosts: str = "", **changes: str) -> ClusterMap:
        return change_hosts(hosts or self.a, changes, timeout_s=UNREACHABLE_TIMEOUT_S)

    def test_change(self) -> None:
        self.assertEqual(self.change(b=self.moved), self.epoch(2, b=self.moved))
        self.assert_stored(self.epoch(2, b=self.moved))
        self.assertEqual(check_map(self.a), [])
        before = [dump(client) for client in self.plain]
        self.assertEqual(self.change(b=self.moved), self.epoch(2, b=self.moved))  # again
        self.assertEqual([dump(client) for client in self.plain], before)
        self.assertEqual(self.change(self.moved, b=f"{self.moved},{self.b}").epoch, 3)
        self.assertEqual(self.change(self.moved, b=f"{self.b},{self.moved}").epoch, 3)  # the same servers

    def test_several_and_the_bootstrap_ensemble(self) -> None:
        """It has one way to be reached: by an address that the map does not have yet."""
        closed_port = f"127.0.0.1:{free_port()}"
        self.publish(self.epoch(1, a=closed_port))
        moved = {"a": self.a, "c": other_spelling(self.c)}
        self.assertEqual(self.change(self.b, **moved), self.epoch(2, **moved))
        self.assert_stored(self.epoch(2, **moved))

    def test_copies_that_were_missing_or_behind_come_first(self) -> None:
        self.write(a=self.epoch(5), b=self.epoch(4), c=None)
        with crash_at_write(2), self.assertRaises(CrashError):
            self.change(b=self.moved)
        self.assert_stored(self.epoch(5))
        self.assertEqual(self.change(b=self.moved), self.epoch(6, b=self.moved))
        self.assert_stored(self.epoch(6, b=self.moved))

    def test_crash_at_each_write(self) -> None:
        for number in range(3):
            with self.subTest(number):
                self.publish(self.map)
                with crash_at_write(number), self.assertRaises(CrashError):
                    self.change(b=self.moved)
                changed = sum(data == self.epoch(2, b=self.moved).to_json() for data in self.stored())
                self.assertEqual(changed, number)
                self.assertEqual(self.change(b=self.moved), self.epoch(2, b=self.moved))
                self.assert_stored(self.epoch(2, b=self.moved))

    def test_a_crash_and_then_another_change(self) -> None:
        with crash_at_write(1), self.assertRaises(CrashError):
            self.change(b=self.moved)
        both = {"b": self.moved, "c": other_spelling(self.c)}
        self.assertEqual(self.change(c=both["c"]), self.epoch(3, **both))
        self.assert_stored(self.epoch(3, **both))

    def test_overtaken(self) -> None:
        """Another command changes the map between this one's read of the primary and its set."""
        both = {"b": self.moved, "c": other_spelling(self.c)}
        for name in "abc":
            with self.subTest(name):
                self.publish(self.map)
                with overtaken_at(name, lambda: self.publish(self.epoch(2, c=both["c"]))):
                    self.assertEqual(self.change(b=self.moved), self.epoch(3, **both))
                self.assert_stored(self.epoch(3, **both))

    def test_at_once(self) -> None:
        changes = [{"b": self.moved}, {"c": other_spelling(self.c)}, {"b": self.moved}]
        barrier = threading.Barrier(len(changes))
        errors: list[Exception] = []

        def run(wanted: dict[str, str]) -> None:
            barrier.wait()
            try:
                change_hosts(self.a, wanted)
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=run, args=(wanted,)) for wanted in changes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(COMMAND_TIMEOUT_S)
        self.assertEqual(errors, [])
        self.assert_stored(self.epoch(3, **changes[0], **changes[1]))

    def test_an_ensemble_is_down(self) -> None:
        closed_port = f"127.0.0.1:{free_port()}"
        self.publish(self.epoch(2, c=closed_port))
        with self.refused(rf"^the map is not changed: .*\n  ensemble c: {closed_port}: .*\nBefore a change"):
            self.change(b=self.moved)
        self.assertEqual(self.change(b=self.moved, c=self.c), self.epoch(3, b=self.moved))
        self.assert_stored(self.epoch(3, b=self.moved))

    def test_an_ensemble_goes_down_before_it_has_its_copy(self) -> None:
        """Its copy is behind: the same command finishes it, and none may change the map until then."""
        closed_port = f"127.0.0.1:{free_port()}"
        changed = self.epoch(2, b=self.moved, c=closed_port)
        self.write(a=changed, b=changed, c=self.map)
        told = r"^nothing was to change in map 2, but not every copy could be checked: "
        with self.refused(told + r".*\n  ensemble c: .*\nClients that"):
            self.change(b=self.moved)
        with self.refused("^the map is not changed: "):
            self.change(b=self.b)

    def test_a_copy_goes_wrong_after_the_map_was_published(self) -> None:
        commit = AdminClient.commit

        def commit_and_damage(client: AdminClient, path: str, *rest: Any) -> bool:
            is_set = commit(client, path, *rest)
            if path == MAP and client.name == "a":
                self.write(c=b"{")
            return is_set

        with (
            mock.patch.object(AdminClient, "commit", commit_and_damage),
            self.assertRaisesRegex(
                ClusterMapError, r"^map 2 is published, but not every copy has it: .* ensemble c .*\nClients that"
            ),
        ):
            self.change(b=self.moved)

    def test_the_bootstrap_ensemble_is_down(self) -> None:
        closed_port = f"127.0.0.1:{free_port()}"
        self.publish(self.epoch(2, a=closed_port))
        with self.refused(rf"^the map is not changed: .*\n  ensemble a: {closed_port}: .*\nA change begins"):
            self.change(self.b, b=self.moved)

    def test_refused(self) -> None:
        closed_port = f"127.0.0.1:{free_port()}"
        for changes, pattern in (
            ({"x": self.moved}, "no ensemble of the map is called 'x': there are a, b, c"),
            ({"b": ""}, "names no server"),
            ({"b": "h"}, "is not host:port"),
            ({"b": self.c}, f"server {self.c} would be in ensemble b and in c"),
            (
                {"b": f"{self.b},{closed_port}"},
                f"^server {closed_port} does not answer as one of ensemble b: Connection refused. Start it",
            ),
            (
                {"b": f"{self.b},{other_spelling(self.c)}"},
                f"^server {other_spelling(self.c)} is ensemble c of cluster .*, not ensemble b of",
            ),
        ):
            with self.subTest(pattern), self.refused(pattern):
                self.change(**changes)

    def test_servers_without_data(self) -> None:
        wipe(self.plain[2])
        with self.refused(f"^server {other_spelling(self.c)} is not ensemble b .*{ENSEMBLE} is missing there"):
            self.change(b=other_spelling(self.c))
        with self.refused(f"^ensemble c .* is not ensemble c .*has lost its data: {ENSEMBLE} is missing there"):
            self.change(b=self.moved)

    def test_an_ensemble_with_a_copied_identity(self) -> None:
        """As one that was restored from b's backup, while b runs."""
        self.plain[2].set(ENSEMBLE, json.dumps(self.map.identity("b")).encode())
        with self.refused("is not in one ensemble with the other servers of b"):
            self.change(b=other_spelling(self.c))

    def test_another_ensemble_has_an_old_address(self) -> None:
        self.publish(self.epoch(1, b=f"{self.b},{other_spelling(self.c)}"))
        self.assertEqual(change_hosts(self.a, {"b": self.b}, fewer=True), self.epoch(2))

    def test_closed(self) -> None:
        for client in self.plain:
            wipe(client)
        made = init_map(self.a, self.all, auth=[IDENTITY], closed=True)
        self.write(c=None)
        with self.refused(f"no right to use {MAP}"):
            change_hosts(self.a, {"b": self.moved})
        changed = change_hosts(self.a, {"b": self.moved}, auth=[IDENTITY])
        self.assertEqual(changed, dataclasses.replace(made, ensembles={**self.all, "b": self.moved}, epoch=2))
        self.assert_stored(changed)
        self.assertEqual(self.plain[2].get_acls(MAP)[0], self.plain[0].get_acls(MAP)[0])

    def test_command(self) -> None:
        out = output_of("map", "hosts", f"b={self.moved}", "--hosts", self.c)
        self.assertRegex(out, rf"b\s.*{self.moved}.*znodes")
        self.assertIn("map 2,", out)
        self.assertEqual(run_command("map", "show", "--hosts", self.a)[1], out)
        for arguments in (("b",), (f"b={self.b}", f"b={self.b}"), ()):
            self.assertEqual(run_command("map", "hosts", *arguments, "--hosts", self.a)[0], 2)
        err = error_of("map", "hosts", f"x={self.b}", "--hosts", self.a)
        self.assertRegex(err, "^error: no ensemble of the map is called 'x'")


class FewerTest(CopiesCase):
    """Ensemble b has two servers, which are one by two names; it would lose one."""

    def setUp(self) -> None:
        super().setUp()
        self.both = f"{self.b},{other_spelling(self.b)}"
        self.publish(self.epoch(1, b=self.both))
        self.command = ("map", "hosts", f"b={self.b}", "--hosts", self.a)

    def test_a_word(self) -> None:
        loss = f"ensemble b would have 1 server instead of 2, without {other_spelling(self.b)}"
        with self.refused(rf"^{loss}: .*\. If that is meant, give fewer=True$"):
            change_hosts(self.a, {"b": self.b})
        err = error_of(*self.command)
        self.assertIn(loss, err)
        self.assertRegex(err, r"If that is meant, give --fewer\n$")
        self.assert_stored(self.epoch(1, b=self.both))
        self.assertEqual(run_command(*self.command, "--fewer")[0], 0)
        self.assert_stored(self.epoch(2))

    def test_what_would_be(self) -> None:
        before = [dump(client) for client in self.plain]
        out = output_of(*self.command, "--dry-run")
        self.assertIn(f"would give ensemble b {self.b}, instead of {self.both}\n", out)
        self.assertRegex(out, "(?s)without .*: that needs --fewer\n.*would publish map 2\n.*dry run: nothing was")
        out = output_of("map", "hosts", f"b={self.both}", "--hosts", self.a, "--dry-run")
        self.assertRegex(out, "^nothing to do: the map has these servers already")
        self.assertEqual([dump(client) for client in self.plain], before)
        closed_port = f"127.0.0.1:{free_port()}"
        self.publish(self.epoch(1, b=self.both, c=closed_port))
        err = error_of(*self.command, "--dry-run", f"--timeout={UNREACHABLE_TIMEOUT_S:g}")
        self.assertRegex(err, f"(?s)the map would not be changed: .*ensemble c: {closed_port}: Connection refused")

    def test_on_a_terminal_it_asks(self) -> None:
        for answer, said, epoch in (("n", "nothing was changed", 1), ("y", "map 2, format", 2)):
            with self.subTest(answer):
                out = run_on_a_terminal(f"{answer}\n", *self.command)
                self.assertIn("ensemble b would have 1 server instead of 2", out)
                self.assertRegex(out, rf"(?s)Go on\? \[y/N\]: .*{said}")
                self.assertEqual(read_map(self.a).epoch, epoch)
