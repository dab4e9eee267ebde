"""fsck beside clients that work, without rights, by the command, and on what is no cluster."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import signal
import subprocess
import sys
import threading
import unittest
from collections.abc import Callable
from typing import Any
from unittest import mock

from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError, NoNodeError, NotEmptyError
from kazoo.security import OPEN_ACL_UNSAFE, READ_ACL_UNSAFE, make_digest_acl

from parkazoo.admin import init_map
from parkazoo.fsck import check
from parkazoo.local import LocalCluster
from parkazoo.protocol.audit_ensemble import audit_ensemble
from parkazoo.protocol.placement import DONE, ENSEMBLE, Directory
from parkazoo.protocol.rights import pin_acl
from tests.live.fsck_case import OURS_AND_MORE, FsckCase, new_mark
from tests.live.map_case import IDENTITY, UNREACHABLE_TIMEOUT_S, free_port, run_command
from tests.live.world import DEADLINE_S, connected, wait_until
from tests.where_is import where_is

ROUNDS = 5


class UseTest(FsckCase):
    """Beside clients, without rights, by the command."""

    def test_beside_clients(self) -> None:
        """Nothing is reported that is not so, and nothing that the clients do comes out wrong.

        With so short a grace a delete that is only slow counts as abandoned, and is finished or called off under
        its client's hands: it must not notice.
        """
        workers = [Worker(self.parkazoo(), self.root, number) for number in range(3)]
        for worker in workers:
            worker.start()
        try:
            for _ in range(ROUNDS):
                report = check(self.cluster.hosts, repair=True, grace_s=0.0)
                kinds = self.found(report).keys()
                self.assertLessEqual(kinds, {"unfinished-deletes", "differing-acls", "unfinished-promotions"})
                self.assertTrue(report.is_complete)
        finally:
            for worker in workers:
                worker.is_over.set()
            for worker in workers:
                worker.join()
        for worker in workers:
            if worker.error is not None:
                raise worker.error
            self.assertGreater(worker.rounds, 0)
        report = self.check()
        self.assertTrue(report.is_clean, report.remaining)

    # ---- who may not look ----------------------------------------------------------------------

    def test_hidden(self) -> None:
        """What may not be read is counted and told."""
        secret = ("digest", "stranger:secret")
        owner = self.parkazoo(auth_data=[secret])
        theirs = [make_digest_acl("stranger", "secret", all=True)]
        native, mirrored = (self.directory(self.root, is_native=each) for each in (True, False))
        leaf = f"{self.root}/leaf"
        for path in (native, mirrored, leaf):
            owner.create(path, acl=theirs)
        for path in (native, mirrored):
            owner.create(f"{path}/child")
        report = self.check()
        self.assertFalse(report.is_wrong or report.is_complete or report.is_clean)
        mirror = where_is(self.placement, mirrored).mirror
        self.assertEqual(
            sorted((found.ensemble, found.path) for found in report.hidden.paths),
            sorted((self.name(e), path) for e, path in (*map(self.home, (native, mirrored, leaf)), mirror)),
        )
        self.assertTrue(self.check(auth=[secret]).is_complete)
        self.kazoo(mirror.ensemble, auth_data=[secret]).set_acls(mirror.path, OPEN_ACL_UNSAFE)
        status, out, err = run_command("fsck", "--hosts", self.cluster.hosts)
        self.assertEqual((status, err), (0, ""))
        self.assertIn("nothing is wrong where fsck could read", out)
        report = self.check(repair=True)
        self.assertFalse(report.is_wrong)  # as far as this identity sees
        report = self.check(auth=[secret])
        self.assertEqual(self.found(report), {"differing-acls": [(self.name(mirror.ensemble), mirrored)]})
        self.assertTrue(self.check(repair=True, auth=[secret]).is_clean)
        owner.delete(leaf)
        owner.delete(native, recursive=True)
        owner.delete(mirrored, recursive=True)

    def test_hidden_places_of_our_own(self) -> None:
        """Without them nothing can be said."""
        secret = ("digest", "stranger:secret")
        owner = self.kazoo(1, auth_data=[secret])
        for path in ("/", DONE):
            owner.set_acls(path, [make_digest_acl("stranger", "secret", all=True)])
            self.assertTrue(self.check().is_blind)
            self.assertEqual(run_command("fsck", "--hosts", self.cluster.hosts)[0], 1)
            self.assertFalse(self.check(auth=[secret]).is_blind)
            owner.set_acls(path, OPEN_ACL_UNSAFE)

    def test_no_right_to_repair(self) -> None:
        secret = ("digest", "stranger:secret")
        d = self.mirrored()
        self.client.create(f"{d.path}/child")
        readable = [*READ_ACL_UNSAFE, make_digest_acl("stranger", "secret", all=True)]
        self.at_home(d).set_acls(d.home.path, readable)
        self.at_home(d).set_acls(d.pin, pin_acl(readable))
        report = self.check(repair=True)
        (found,) = report.remaining
        self.assertIn("--auth", found.remains)
        self.assertTrue(self.check(repair=True, auth=[secret]).is_clean)
        self.parkazoo(auth_data=[secret]).delete(d.path, recursive=True)

    # ---- the command ---------------------------------------------------------------------------

    def test_command(self) -> None:
        status, out, err = run_command("fsck", "--hosts", self.cluster.hosts)
        self.assertEqual((status, err), (0, ""))
        self.assertIn("nothing is wrong", out)
        with mock.patch("parkazoo.admin.walk.find_away", lambda *arguments: {"b": "it is away"}):
            status, out, _ = run_command("fsck", "--json", "--hosts", self.cluster.hosts)
        document = json.loads(out)
        told = document["clean"], document["complete"], document["absent"]
        self.assertEqual((status, *told), (1, False, False, {"b": "it is away"}))
        d = self.mirrored()
        self.client.delete(d.path)
        self.at_mirror(d).create(d.mirror.path)
        status, out, err = run_command("fsck", "--hosts", self.cluster.hosts)
        self.assertEqual((status, err), (1, ""))
        for text in ("empty mirrors", d.mirror.path, "parkazoo fsck --repair", "1 thing is wrong"):
            self.assertIn(text, out)
        status, out, _ = run_command("fsck", "--json", "--hosts", self.cluster.hosts)
        self.assertEqual(status, 1)
        document = json.loads(out)
        tally = document["findings"]["empty-mirrors"]
        self.assertEqual((document["clean"], tally["found"], tally["repaired"]), (False, 1, 0))
        self.assertEqual(tally["first"][0]["path"], d.mirror.path)
        status, out, _ = run_command("fsck", "--repair", "--json", PARKAZOO_HOSTS=self.cluster.hosts)
        self.assertEqual((status, json.loads(out)["findings"]["empty-mirrors"]["repaired"]), (0, 1))

    def test_an_ensemble_is_away(self) -> None:
        """What needs it is left out; the rest is found, also in mirrors whose directory is there."""
        for away in (0, 1):
            with self.subTest("abc"[away]):
                one, other = (at for at in range(3) if at != away)
                d, orphan = self.between(away, one), self.between(one, other)
                self.client.create(f"{d.path}/child", makepath=True)
                self.plain[one].create(f"{d.mirror.path}/.parkazoo")
                self.plain[other].create(f"{orphan.mirror.path}/child", makepath=True)
                server = self.cluster.ensembles[away].servers[0]
                server.stop()
                try:
                    hosts = ",".join(each.hosts for each in self.cluster.ensembles)
                    report = check(hosts, timeout_s=3600.0)  # an address that refuses is not waited for
                finally:
                    server.start()
                    server.wait_serving()
                    self.plain[one].delete(f"{d.mirror.path}/.parkazoo")
                    self.plain[other].delete(orphan.mirror.path, recursive=True)
                    wait_until(lambda: self.client.connected, "connected")
                found = {
                    "orphans": [(self.name(other), orphan.mirror.path)],
                    "foreign": [(self.name(one), f"{d.mirror.path}/.parkazoo")],
                }
                self.assertEqual(([*report.absent], self.found(report)), ([self.name(away)], found))
                undecided = {(found.ensemble, found.path) for found in report.undecided.paths}
                self.assertIn((self.name(one), d.mirror.path), undecided)
                self.assertTrue(report.is_blind)

    def between(self, home: int, mirror: int) -> Directory:
        """A directory that does not exist, by where it and its children would be."""
        paths = (f"{self.root}/{number}/x" for number in itertools.count())
        places = (where_is(self.placement, path) for path in paths)
        return next(d for d in places if (d.home.ensemble, d.mirror.ensemble) == (home, mirror))

    def test_a_name_that_turns_what_is_shown(self) -> None:
        """Names come from anybody: what a terminal would obey is escaped."""
        self.root = f"{self.root}/a\u202eb\u2066"
        self.client.create(self.root)
        d = self.mirrored()
        self.at_mirror(d).create(d.mirror.path)
        status, out, _ = run_command("fsck", "--hosts", self.cluster.hosts)
        self.assertEqual(status, 1)
        self.assertIn("a\\u202eb\\u2066", "".join(out.split()))
        self.assertTrue(all(each.isprintable() or each == "\n" for each in out))
        status, out, _ = run_command("where", d.path, "--hosts", self.cluster.hosts)
        self.assertEqual(status, 0)
        self.assertTrue(all(each.isprintable() or each == "\n" for each in out))
        self.at_mirror(d).delete(d.mirror.path)

    def test_command_interrupted(self) -> None:
        """^C while it waits to look again: one line, and the usual status."""
        d = self.mirrored()
        self.make_pin(d)
        self.at_home(d).create(d.mark(new_mark("transaction")))
        main = "from parkazoo.cli import main; main()"
        command = [sys.executable, "-c", main, "fsck", "--hosts", self.cluster.hosts]
        # It meets c when it has read the map: kazoo's client, which reads that, ignores a ^C now and then.
        self.client.join(timeout=DEADLINE_S)
        on_c = self.client.members["c"]

        def sessions() -> set[str]:
            return set(re.findall("sid=(0x[0-9a-f]+)", on_c.command(b"cons")))

        before = sessions()
        # Where it is ignored, as in a shell's background jobs, a child would ignore it too.
        self.addCleanup(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, signal.default_int_handler))
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            wait_until(lambda: sessions() - before, "it is connected")
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=DEADLINE_S)
        self.assertEqual((process.returncode, out), (130, ""), err)
        self.assertNotIn("Traceback", err)
        self.assertTrue(self.check(repair=True).is_clean)
        self.client.delete(d.path)


class HostileTest(unittest.TestCase):
    def refused(self, pattern: str, *arguments: str) -> None:
        status, out, err = run_command("fsck", "--timeout", f"{UNREACHABLE_TIMEOUT_S:g}", *arguments)
        self.assertEqual((status, out), (1, ""))
        self.assertRegex(err, pattern)
        self.assertNotIn("Traceback", err)

    def test_no_server(self) -> None:
        self.refused("no ZooKeeper answers", "--hosts", f"127.0.0.1:{free_port()}")
        status, out, err = run_command("fsck", "--hosts", "127.0.0.1:0")
        self.assertEqual((status, out, "is not host:port" in err), (2, "", True), err)

    def test_no_map_then_one_ensemble_then_a_dead_one(self) -> None:
        with LocalCluster(ensembles=2, servers=1, make_map=False) as cluster:
            a, b = (ensemble.hosts for ensemble in cluster.ensembles)
            self.refused("no cluster map", "--hosts", a)
            with connected(KazooClient(a, auth_data=[IDENTITY])) as plain:
                plain.create("/app/jobs/7", makepath=True)
                init_map(a, {"a": a})
                status, out, _ = run_command("fsck", "--hosts", a)
                self.assertEqual((status, "nothing is wrong" in out), (0, True))
                plain.create("/app/.parkazoo")
                plain.create("/parkazoo/mirrors")
                report = check(a, repair=True)
                self.assertEqual(
                    {found.path for found in report.remaining}, {"/app/.parkazoo", "/parkazoo/mirrors"}
                )
                plain.delete("/app", recursive=True)
                plain.delete("/parkazoo", recursive=True)
            made = init_map(a, {"a": a, "b": b}, auth=[IDENTITY], closed=True)
            self.refused("give the identity", "--hosts", a)
            identity = ":".join(IDENTITY)
            self.assertEqual(run_command("fsck", "--hosts", a, "--auth", identity)[0], 0)
            with connected(KazooClient(b, auth_data=[IDENTITY])) as plain:
                record = json.dumps(made.identity("x")).encode()
                plain.set(ENSEMBLE, record)
                self.refused("are not ensemble b", "--hosts", a, "--auth", identity)
            server = cluster.ensembles[1].servers[0]
            with connected(KazooClient(b, auth_data=[IDENTITY])) as plain:
                plain.set(ENSEMBLE, json.dumps(made.identity("b")).encode())

            def freeze(*arguments: Any) -> Any:
                server.freeze()
                return audit_ensemble(*arguments)

            with mock.patch("parkazoo.admin.walk.audit_ensemble", freeze):
                self.refused(f"no answer within {UNREACHABLE_TIMEOUT_S:g} s", "--hosts", a, "--auth", identity)
            server.thaw()

            def kill(*arguments: Any) -> Any:
                if server.is_running:
                    server.kill()
                return audit_ensemble(*arguments)

            with (
                mock.patch("parkazoo.admin.walk.audit_ensemble", kill),
                mock.patch("parkazoo.admin.walk.SESSION_TIMEOUT_S", 2.0),  # requests fail again and again
            ):
                self.refused(f"no answer within {UNREACHABLE_TIMEOUT_S:g} s", "--hosts", a, "--auth", identity)
            self.look_without_b(a, b, identity)

    def look_without_b(self, a: str, b: str, identity: str) -> None:
        """Of an ensemble that is down only that is said, at once; the other one is looked at."""
        with connected(KazooClient(a, auth_data=[IDENTITY])) as plain:
            plain.create("/parkazoo/strange")
            options = ("--hosts", a, "--auth", identity, "--timeout", "3600")
            status, out, err = run_command("fsck", *options)
            self.assertEqual((status, err), (1, ""))
            self.assertRegex(out, f"ensemble b could not be read: {b}: Connection refused")
            self.assertIn("/parkazoo/strange", out)
            status, out, _ = run_command("fsck", "--json", *options)
            found = json.loads(out)
            self.assertEqual(
                (status, found["absent"], found["complete"]), (1, {"b": f"{b}: Connection refused"}, False)
            )
            self.assertEqual(found["findings"]["foreign"]["found"], 1)
            status, out, err = run_command("fsck", "--json", "--repair", *options)
            self.assertEqual(status, 1)
            for told in (json.loads(out)["error"], err):
                self.assertIn(f"nothing is repaired while an ensemble is away: ensemble b: {b}: Conn", told)
            plain.delete("/parkazoo/strange")
            self.assertEqual(run_command("fsck", *options)[0], 1)


class Worker(threading.Thread):
    """A client that makes, uses and deletes directories of its own, and some that it shares with others."""

    def __init__(self, client: KazooClient, root: str, number: int) -> None:
        super().__init__()
        self.client = client
        self.root = root
        self.number = number
        self.is_over = threading.Event()
        self.error: Exception | None = None
        self.rounds = 0

    def run(self) -> None:
        try:
            while not self.is_over.is_set():
                self.use_own(f"{self.root}/own-{self.number}-{self.rounds % 5}")
                self.use_shared(f"{self.root}/shared-{self.rounds % 4}")
                self.rounds += 1
        except Exception as error:
            self.error = error

    def use_own(self, path: str) -> None:
        """Each answer is known."""
        client = self.client
        client.create(path, b"data")
        names = [client.create(f"{path}/n-", sequence=True).rpartition("/")[2] for _ in range(2)]
        if names != ["n-0000000000", "n-0000000001"]:
            raise AssertionError(names)
        for acl in (OURS_AND_MORE, OPEN_ACL_UNSAFE):
            client.set_acls(path, acl)
            if client.get_acls(path)[0] != acl:
                raise AssertionError(f"{path} has not the ACL that was set")
        if sorted(client.get_children(path)) != names or client.get(path)[0] != b"data":
            raise AssertionError(f"{path}: {client.get_children(path)}")
        for name in names:
            client.delete(f"{path}/{name}")
        again = client.create(f"{path}/n-", sequence=True)
        if not again.endswith("n-0000000002"):
            raise AssertionError(f"{again}: its number was given before")
        client.delete(again)
        client.delete(path)
        if client.exists(path) is not None:
            raise AssertionError(f"{path} is still there")

    def use_shared(self, path: str) -> None:
        """Any answer that one ZooKeeper could give to one of several clients."""
        client, child = self.client, f"{path}/child-{self.number}"
        calls: list[Callable[[], Any]] = [
            lambda: client.create(path),
            lambda: client.create(child),
            lambda: client.set_acls(path, OURS_AND_MORE),
            lambda: client.delete(child),
            lambda: client.delete(path),
        ]
        for call in calls:
            with contextlib.suppress(NoNodeError, NodeExistsError, NotEmptyError):
                call()
