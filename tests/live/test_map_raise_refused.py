"""`parkazoo map grow` on a plain map that is given up meanwhile, or where it is not seen who is connected."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

from kazoo.client import KazooClient
from kazoo.security import READ_ACL_UNSAFE

from parkazoo import ParKazooClient
from parkazoo.admin import (
    Waiting,
    abort_growth,
    change_hosts,
    change_weights,
    describe_client,
    grow_map,
    init_map,
    list_clients,
    read_map,
)
from parkazoo.admin.clients import AdminClient
from parkazoo.admin.registrations import Registrations, read_registered
from parkazoo.admin.rise import DOES
from parkazoo.admin.strangers import Lookout, Stranger, Strangers
from parkazoo.errors import ClusterMapError
from parkazoo.local import LocalCluster
from parkazoo.protocol.epochs import Form
from parkazoo.protocol.placement import CLIENTS, MIRRORS, escape
from parkazoo.protocol.registration import format_session
from tests.entered import entered
from tests.live.copies_case import CrashError, crash_when
from tests.live.map_case import (
    assert_found,
    check_but_strangers,
    error_of,
    other_spelling,
    output_of,
    run_command,
    wipe,
)
from tests.live.test_map_raise import RaiseCase
from tests.live.world import DEADLINE_S, LiveTest, connected, end_session, wait_until

CROWD = 110  # `cons` has more than 8,192 bytes then
CRASH = mock.Mock(side_effect=CrashError)


class GivenUpTest(RaiseCase):
    """`parkazoo map abort` while `parkazoo map grow` is at work: it does not go on to a form that stays."""

    def abort_at(self, words: str) -> Callable[[str], None]:
        """Behind the first such step."""
        done: list[str] = []

        def step(told: str) -> None:
            if words in told and not done:
                done.append(told)
                abort_growth(self.a)

        return step

    def assert_plain_again(self) -> None:
        self.assertEqual((read_map(self.a).form, read_map(self.a).placement), (Form.PLAIN, ("a",)))
        self.assert_published("a")
        self.rise("b")
        self.assert_grown("ab")

    def test_while_it_waits(self) -> None:
        end = self.stay_behind()

        def abort(waiting: Waiting) -> None:
            abort_growth(self.a)
            end()

        with self.assertRaisesRegex(ClusterMapError, "map abort` has given this up .*: map [0-9], without b, is"):
            self.rise("b", on_wait=abort)
        self.assert_plain_again()

    def test_before_the_form_has_risen(self) -> None:
        with self.assertRaisesRegex(ClusterMapError, "map abort` has given this up .*: map [0-9], without b, is"):
            self.rise("b", tell=self.abort_at("which names b"))
        self.assert_plain_again()

    def test_between_two_forms(self) -> None:
        with self.assertRaisesRegex(ClusterMapError, "map abort` has given this up .*: map [0-9], without b, is"):
            self.rise("b", tell=self.abort_at(DOES[Form.TOLERANT]))
        self.assert_plain_again()

    def test_a_form_that_stays(self) -> None:
        with self.assertRaisesRegex(ClusterMapError, "map abort` has given this up .*: map [0-9], without b, is"):
            self.rise("b", tell=self.abort_at(DOES[Form.GUARDED]))
        self.assertEqual((read_map(self.a).form, read_map(self.a).placement), (Form.GUARDED, ("a",)))
        self.rise("b")
        self.assert_grown("ab")


class WaitTest(RaiseCase):
    def test_another_session(self) -> None:
        """The list is read on a session that begins behind the copy, from a server that lags."""
        end, seen, lagged = self.stay_behind(), list[Form](), list[str]()

        def read_and_lag(client: AdminClient, sessions: Sequence[str]) -> Registrations:
            if client.name != "a" or lagged:
                return read_registered(client, sessions)
            lagged.append(client.name)
            self.end_session(client)
            return []

        def wait(waiting: Waiting) -> None:
            seen.append(waiting.form)
            end()

        with mock.patch("parkazoo.admin.rise.read_registered", read_and_lag):
            self.rise("b", on_wait=wait)
        self.assertEqual((seen, lagged), ([Form.TOLERANT], ["a"]))
        self.assert_grown("ab")

    def end_session(self, client: AdminClient) -> None:
        """As if it had expired; the client has another one when this returns."""
        before = client.zk.client_id
        end_session(before, client.hosts)
        wait_until(lambda: client.zk.client_id not in {None, before}, "another session")

    def test_a_damaged_registration(self) -> None:
        """It holds the command up like any other, and can be found by its session."""
        self.plain[0].create(f"{CLIENTS}/0xabc", b"{")
        found: list[Waiting] = []

        def wait(waiting: Waiting) -> None:
            found.append(waiting)
            self.plain[0].delete(f"{CLIENTS}/0xabc")

        self.rise("b", on_wait=wait)
        self.assertEqual(
            [describe_client(each) for each in found[0].behind],
            ["session 0xabc on None, pid None, since None: on a it says no map"],
        )
        self.assert_grown("ab")


class StrangerTest(RaiseCase):
    def test_no_answer(self) -> None:
        for error in (OSError("reset"), TimeoutError("timed out")):
            with self.subTest(error), mock.patch.object(AdminClient, "ask", side_effect=error):
                err = error_of("map", "grow", "--ensemble", f"b={self.b}", "--hosts", self.a)
                self.assertRegex(err, f"does not answer `cons`: {error}.*--strangers-gone")
        self.assertEqual(read_map(self.a), self.map)

    def test_addresses(self) -> None:
        """As servers write them: of IPv6, and with the name that a server has looked up."""
        lines = {
            " /127.0.0.1:1[1](queued=0,recved=1,sent=1,sid=0xa1,lop=PING)": "127.0.0.1:1",
            " /[0:0:0:0:0:0:0:1]:2[1](queued=0,recved=1,sent=1,sid=0xa2,lop=PING)": "[0:0:0:0:0:0:0:1]:2",
            " web7.example/10.0.0.7:3[1](queued=0,recved=1,sent=1,sid=0xa3,lop=PING)": "10.0.0.7:3",
            " /127.0.0.1:4[0](queued=0,recved=1,sent=0)": "",
        }
        expected = [f"\n  {address} on 127.0.0.1:" for address in lines.values() if address]
        with (
            mock.patch.object(AdminClient, "ask", return_value="\n".join(lines)),
            self.assertRaises(ClusterMapError) as caught,
        ):
            grow_map(self.a, {"b": self.b})
        told = str(caught.exception)
        self.assertIn("6 sessions are not registered", told)  # three of each ensemble
        self.assertEqual([each for each in expected if each not in told], [])

    def test_in_a_crowd(self) -> None:
        """One session among many that are registered: a server lists them all, in any order."""
        clients = [ParKazooClient(self.a) for _ in range(CROWD)]
        for client in clients:
            self.addCleanup(client.close)
            self.addCleanup(client.stop)
            client.start_async()
        wait_until(lambda: len(list_clients(self.a).clients) == CROWD, "all are registered")
        with connected(KazooClient(self.a)) as program:
            session = format_session(program.client_id[0])
            err = error_of("map", "grow", "--ensemble", f"b={self.b}", "--hosts", self.a)
            self.assertRegex(err, rf"(?s)3 sessions are not registered:.* on {self.a}, session {session}\n")
            self.assertEqual(read_map(self.a), self.map)
            self.rise("b")
            own = [format_session(each.client_id[0]) for each in self.plain]
            assert_found(
                self,
                self.a,
                ("a", rf"^2 sessions are not registered:(\n  127.* session ({session}|{own[0]}))+$", True),
                ("b", f"^1 session is not registered:\n  127.* session {own[1]}$", True),
            )

    def test_a_session_that_is_on_its_way(self) -> None:
        """It leaves one server before that is asked, and comes to another after that: the next look sees it."""
        there = Stranger("0x1", "127.0.0.1:1", self.a, "a")
        for looks, found in (("-xxxx", 1), ("x-xxx", 1), ("xx-x-", 1), ("x--", 0), ("--", 0), ("----x", 0)):
            with self.subTest(looks):
                seen = iter([Strangers({("a", "0x1"): there} if each == "x" else {}, {}) for each in looks])
                lookout = Lookout({}, {}, {}, 1.0)
                with mock.patch.object(lookout, "look", lambda seen=seen: next(seen)):
                    self.assertEqual(len(lookout.look_again().found), found)


class FrozenTest(RaiseCase):
    def test_a_client_that_does_not_follow(self) -> None:
        self.rise("b")
        user = subprocess.Popen(
            [sys.executable, "-m", "tests.live.waiting_user", self.a],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(user.wait)
        self.addCleanup(user.kill)
        assert user.stdout is not None
        client = user.stdout.readline().strip()
        self.assertEqual(check_but_strangers(self.a), [])
        user.send_signal(signal.SIGSTOP)
        change_weights(self.a, {"b": 2})
        (finding,) = check_but_strangers(self.a)
        self.assertFalse(finding.is_warning)
        self.assertRegex(finding.problem, f"^1 client works by an older map than 6:\n  {client} on .* says map 5$")
        self.assertEqual(run_command("map", "check", "--hosts", self.a)[0], 1)
        user.send_signal(signal.SIGCONT)
        self.assertEqual(check_but_strangers(self.a), [])


class MembersTest(RaiseCase):
    def test_a_server_that_the_map_does_not_name(self) -> None:
        """A plain kazoo program is connected to it. The ensemble says that it is one of its servers."""
        with LocalCluster(ensembles=2, servers=3, make_map=False) as cluster:
            a, b = (each.hosts for each in cluster.ensembles)
            first, second, _ = a.split(",")
            init_map(first, {"a": first})
            with contextlib.closing(KazooClient(second)) as program:
                program.start(30)
                with self.assertRaisesRegex(
                    ClusterMapError,
                    rf"(?s)1 session is not registered.*127.0.0.1:\d+ on {second}, session 0x",
                ):
                    grow_map(first, {"b": b})
                program.stop()
            self.assertEqual(grow_map(first, {"b": b}).form, Form.GROWN)


class CommandTest(RaiseCase):
    def run_on_a(self, *arguments: str) -> tuple[int, str, str]:
        return run_command("map", *arguments, "--hosts", self.a)

    def test_a_dry_run(self) -> None:
        grow = ("grow", "--ensemble", f"b={self.b}", "--dry-run")
        self.client()
        end = self.stay_behind()
        behind = "0xabc on web7, pid 4711, since 2026-11-20T10:00:00Z: on a it says map 1"
        code, out, _ = self.run_on_a(*grow)
        self.assertEqual(code, 1)  # the sessions of this test are strangers
        self.assertRegex(out, f"(?s)clients, for which it would wait: 2\n.*{behind}.*would be refused: 2 sessions")
        self.assertEqual(read_map(self.a), self.map)
        with contextlib.suppress(CrashError):
            self.rise("b", on_wait=CRASH)
        wait_until(lambda: {each.map for each in list_clients(self.a).clients} == {1, 3}, "it is registered so")
        self.assertRegex(
            self.run_on_a(*grow)[1],
            f"(?s)would publish map 4 .*map 5 .*clients, for which it would wait: 2\n.*{behind}.*says map 3",
        )
        end()
        self.rise("b")
        self.assertNotIn("would", self.run_on_a(*grow)[1])

    def test_on_the_way(self) -> None:
        """What the other commands say of a map whose form has not risen to its end."""
        end = self.stay_behind()
        for form in (Form.TOLERANT, Form.GUARDED):
            with self.subTest(form):
                with contextlib.suppress(CrashError):
                    self.rise("b", on_wait=CRASH)
                if form is Form.GUARDED:  # all have followed; then one comes that is behind
                    end()
                    with contextlib.suppress(CrashError):
                        self.rise("b", tell=self.behind_at(DOES[Form.GUARDED]), on_wait=CRASH)
                self.assertEqual(read_map(self.a).form, form)
                self.init_again(form)
                for command in (("show",), ("epochs",)):
                    self.assertEqual(self.run_on_a(*command)[0], 0)
                (finding,) = check_but_strangers(self.a)
                self.assertRegex(
                    finding.problem, r"^1 client works by an older map than \d:\n  .* on web7, pid 4711"
                )
                self.assertIn(f"form {form.word}", " ".join(self.run_on_a("show")[1].split()))
                self.assertEqual(run_command("where", "/old/d", "--hosts", self.a)[0], 0)

    def behind_at(self, words: str) -> Callable[[str], Any]:
        return lambda told: self.stay_behind() if words in told else None

    def init_again(self, form: Form) -> None:
        init = "map", "init", "--bootstrap", self.a, "--ensemble", f"a={self.a}", "--ensemble", f"b={self.b}"
        err = error_of(*init, "--form", "grown")
        self.assertRegex(err, rf"form is {form.word}, not grown \(`parkazoo map grow` was begun: run it again")
        out = output_of(*init)
        self.assertIn(f"form {form.word}", " ".join(out.split()))


class TakenOutTest(RaiseCase):
    """An ensemble that `parkazoo map abort` has taken out. Clients may be connected there."""

    def test_its_name(self) -> None:
        """None but the same ensemble gets it."""
        with contextlib.suppress(CrashError):
            self.rise("b", tell=crash_when("names b"))
        abort_growth(self.a)
        for dry_run in (True, False):
            with self.assertRaisesRegex(
                ClusterMapError, "has taken an ensemble b out .* give the new one another"
            ):
                grow_map(self.a, {"b": self.c}, strangers_gone=True, dry_run=dry_run)
        self.assertEqual(self.plain[2].get_children("/"), ["zookeeper"])
        self.rise("b")
        self.assert_grown("ab")

    def test_its_name_without_its_data(self) -> None:
        with contextlib.suppress(CrashError):
            self.rise("b", tell=crash_when("names b"))
        abort_growth(self.a)
        wipe(self.plain[1])
        with self.assertRaisesRegex(ClusterMapError, "it has no copy of the map. Clients may"):
            self.rise("b")
        grow_map(self.a, {"c": self.b}, strangers_gone=True)
        self.assertEqual(check_but_strangers(self.a), [])

    def test_with_directories(self) -> None:
        """By a map that was lost."""
        with contextlib.suppress(CrashError):
            self.rise("b", tell=crash_when("names b"))
        self.plain[1].create(f"{MIRRORS}/{escape('/d')}")
        with self.assertRaisesRegex(ClusterMapError, "has children of directories.* `parkazoo map grow` again"):
            abort_growth(self.a)


class UnregisteredTest(LiveTest):
    """Clients of ours that could not register: they are not waited for, so nobody may go on without them."""

    def setUp(self) -> None:
        self.cluster = entered(self, LocalCluster(ensembles=3, servers=1, make_map=False))
        self.hosts = {each.name: each.hosts for each in self.cluster.ensembles}
        init_map(self.hosts["a"], {name: self.hosts[name] for name in "ab"})

    def change_room(self, change: Callable[[KazooClient], Any]) -> None:
        """Do something about /parkazoo/clients on each ensemble."""
        for name in "ab":
            with contextlib.closing(KazooClient(self.hosts[name])) as client:
                client.start(30)
                change(client)
                client.stop()

    def test_there_was_no_room(self) -> None:
        """Somebody had deleted it. Clients register when they see the next map."""
        self.change_room(lambda client: client.delete(CLIENTS, recursive=True))
        clients = [self.parkazoo() for _ in range(2)]
        for client in clients:
            client.join(timeout=DEADLINE_S)
        init_map(self.hosts["a"], {name: self.hosts[name] for name in "ab"})
        self.assertEqual(list_clients(self.hosts["a"]).clients, [])
        with self.assertRaisesRegex(ClusterMapError, "^the map is not changed: 4 sessions are not registered"):
            grow_map(self.hosts["a"], {"c": self.hosts["c"]})
        change_hosts(self.hosts["a"], {"b": other_spelling(self.hosts["b"])})

        def sessions() -> list[set[str]]:
            return [{*each.sessions} for each in list_clients(self.hosts["a"]).clients]

        wait_until(lambda: sessions() == [{"a", "b"}] * 2, "they are registered on both")
        self.assertEqual(grow_map(self.hosts["a"], {"c": self.hosts["c"]}).form, Form.GROWN)
        found = list_clients(self.hosts["a"]).clients
        self.assertEqual({each.client for each in found}, {format_session(each.client_id[0]) for each in clients})
        self.assertTrue(all({"a", "b"} <= each.sessions.keys() for each in found))

    def test_it_has_no_right_to(self) -> None:
        self.change_room(lambda client: client.set_acls(CLIENTS, READ_ACL_UNSAFE))
        client = self.parkazoo()
        client.join(timeout=DEADLINE_S)
        client.create("/d/x", makepath=True)
        for _ in range(2):
            with self.assertRaisesRegex(ClusterMapError, f"(?s)2 sessions are not registered.*write to {CLIENTS}"):
                grow_map(self.hosts["a"], {"c": self.hosts["c"]})
            self.assertEqual(read_map(self.hosts["a"]).form, Form.PLAIN)
        client.stop()
        self.assertEqual(grow_map(self.hosts["a"], {"c": self.hosts["c"]}).form, Form.GROWN)

    def test_the_room_goes(self) -> None:
        def step(told: str) -> None:
            if DOES[Form.TOLERANT] in told:
                self.change_room(lambda client: client.delete(CLIENTS, recursive=True))

        for tell in (step, print):
            with self.assertRaisesRegex(ClusterMapError, f"{CLIENTS} is gone on .* map init` .* same command"):
                grow_map(self.hosts["a"], {"c": self.hosts["c"]}, tell=tell)
        init_map(self.hosts["a"], self.hosts)
        self.assertEqual(grow_map(self.hosts["a"], {"c": self.hosts["c"]}).form, Form.GROWN)
