"""fsck on real ensembles: each kind of damage made by hand, found, repaired, and found no more."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import sys
import threading
import time
import unittest
import uuid
from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError, NoNodeError, NotEmptyError
from kazoo.security import OPEN_ACL_UNSAFE, READ_ACL_UNSAFE, make_digest_acl

from parkazoo.admin import check_map, init_map
from parkazoo.errors import ClusterMapError
from parkazoo.fsck import Report, check
from parkazoo.local import LocalCluster
from parkazoo.protocol import findings
from parkazoo.protocol.audit import audit_ensemble
from parkazoo.protocol.directory import pin_acl, pin_data
from parkazoo.protocol.placement import DONE, ENSEMBLE, FENCES, MIRRORS, PIN, Directory, escape, join
from tests.live.test_map import IDENTITY, free_port, run_command, wipe
from tests.live.world import DEADLINE_S, LiveTest, connected, wait_until

GRACE_S = 0.3
ROUNDS = 5
DAY_S = 24 * 3600


class FsckTest(LiveTest):
    """On a cluster of its own, which each test leaves clean: else the next one finds more than it expects."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.cluster = LocalCluster(ensembles=3, servers=1)
        cls.addClassCleanup(cls.cluster.stop)
        cls.cluster.start()

    def setUp(self) -> None:
        super().setUp()
        self.client = self.parkazoo()
        self.plain = [self.kazoo(ensemble) for ensemble in range(self.ensembles)]
        self.root = self.new_root(self.client)

    def tearDown(self) -> None:
        self.client.delete(self.root, recursive=True)

    def check(self, repair: bool = False, **options: Any) -> Report:
        return check(self.cluster.hosts, repair=repair, grace_s=GRACE_S, **options)

    def found(self, report: Report) -> dict[str, list[tuple[str, str]]]:
        """Kinds with ensembles and paths; notes too."""
        for tally in report.tallies.values():
            self.assertEqual(tally.found, len(tally.paths))
        return {
            kind.name: sorted((found.ensemble, found.path) for found in tally.paths)
            for kind, tally in report.tallies.items()
            if tally.found
        }

    def mirrored(self) -> Directory:
        """A new directory that is not native and has no child yet."""
        path = self.directory(f"{self.root}", is_native=False)
        while self.client.exists(path):
            path = self.directory(path, is_native=False)
        self.client.create(path)
        return self.placement.directory(path)

    def at_home(self, d: Directory) -> KazooClient:
        return self.plain[d.home.ensemble]

    def at_mirror(self, d: Directory) -> KazooClient:
        return self.plain[d.mirror.ensemble]

    def make_pin(self, d: Directory) -> None:
        """As a promotion that is abandoned after it."""
        fence = self.at_mirror(d).exists(d.fence)
        self.at_home(d).create(d.pin, pin_data(fence), pin_acl(OPEN_ACL_UNSAFE))

    def name(self, ensemble: int) -> str:
        return "abc"[ensemble]

    def is_repaired(self, kind: str, places: Sequence[tuple[str, str]]) -> None:
        """It is found, found again and repaired, and found no more."""
        report = self.check()
        self.assertEqual(self.found(report), {kind: sorted(places)})
        self.assertFalse(report.is_clean)
        self.assertEqual(len(report.remaining), len(places))
        report = self.check(repair=True)
        self.assertEqual(self.found(report), {kind: sorted(places)})
        self.assertTrue(report.is_clean, report.remaining)
        self.assertEqual(self.found(self.check()), {})

    def is_told(self, kind: str, places: Sequence[tuple[str, str]]) -> None:
        """It is found, and left, with advice."""
        for repair in (True, False):
            report = self.check(repair)
            self.assertEqual(self.found(report), {kind: sorted(places)})
            self.assertFalse(report.is_clean)
            self.assertTrue(all(found.remains for found in report.remaining))

    # ---- nothing wrong -------------------------------------------------------------------------

    def test_clean(self) -> None:
        d = self.mirrored()
        for name in ("a", "b/c/d", "e%/f"):
            self.client.create(f"{d.path}/{name}", makepath=True)
        self.client.set_acls(d.path, [*OPEN_ACL_UNSAFE, *READ_ACL_UNSAFE])
        self.client.delete(f"{d.path}/b", recursive=True)
        self.client.create(f"{d.path}/ephemeral", ephemeral=True)
        report = self.check()
        self.assertEqual(self.found(report), {})
        self.assertTrue(report.is_clean and report.is_complete)
        self.assertGreater(report.looked_at, 3 * 1024)

    def test_nothing_is_written(self) -> None:
        d = self.mirrored()
        self.client.create(f"{d.path}/child")
        zxids = [self.last_zxid(client) for client in self.plain]
        self.at_home(d).create(d.mark(new_mark("-1")))
        self.check()
        self.at_home(d).delete(d.mark(self.at_home(d).get_children(d.pin)[0]))
        sessions = 3 * 4 + 2 * 2  # the bootstrap's map reader; begin and end of each
        for before, client in zip(zxids, self.plain, strict=True):
            self.assertLess(self.last_zxid(client) - before, sessions)

    def last_zxid(self, client: KazooClient) -> int:
        """Of all writes; sessions are some too."""
        client.create("/zxid")
        stat = client.exists("/zxid")
        client.delete("/zxid")
        return int(stat.czxid) & 0xFFFFFFFF

    def test_unfinished_promotion_is_a_note(self) -> None:
        d = self.mirrored()
        self.make_pin(d)
        for repair in (False, True):
            report = self.check(repair)
            self.assertEqual(self.found(report), {"unfinished-promotions": [(self.name(d.home.ensemble), d.path)]})
            self.assertTrue(report.is_clean)
            self.assertEqual(report.remaining, [])
        self.client.create(f"{d.path}/child")
        self.assertEqual(self.found(self.check()), {})

    # ---- repaired ------------------------------------------------------------------------------

    def test_empty_mirror(self) -> None:
        d = self.mirrored()
        self.client.delete(d.path)
        self.at_mirror(d).create(d.mirror.path)
        self.is_repaired("empty-mirrors", [(self.name(d.mirror.ensemble), d.mirror.path)])

    def test_empty_mirror_of_an_ephemeral(self) -> None:
        d = self.mirrored()
        self.client.delete(d.path)
        self.client.create(d.path, ephemeral=True)
        self.at_mirror(d).create(d.mirror.path)
        self.is_repaired("empty-mirrors", [(self.name(d.mirror.ensemble), d.mirror.path)])
        self.assertTrue(self.client.exists(d.path))

    def test_missing_pin(self) -> None:
        d = self.mirrored()
        self.client.create(f"{d.path}/child", b"data")
        self.at_home(d).delete(d.pin)
        self.at_mirror(d).set_acls(d.mirror.path, OURS_AND_MORE)
        self.is_repaired("missing-pins", [(self.name(d.home.ensemble), d.path)])
        self.assertEqual(self.client.get(f"{d.path}/child")[0], b"data")
        self.assertEqual(self.at_mirror(d).get_acls(d.mirror.path)[0], OPEN_ACL_UNSAFE)
        with self.assertRaises(NotEmptyError):
            self.client.delete(d.path)

    def test_unfinished_delete(self) -> None:
        d = self.mirrored()
        self.client.create(f"{d.path}/child")
        self.client.delete(f"{d.path}/child")
        for version in ("-1", "0"):
            self.at_home(d).create(d.mark(new_mark(version)))
        self.at_mirror(d).delete(d.mirror.path)
        self.is_repaired("unfinished-deletes", [(self.name(d.home.ensemble), d.path)])
        self.assertFalse(self.client.exists(d.path))
        done = self.at_home(d).get_children(DONE)
        self.assertEqual(len(done), 1)
        self.at_home(d).delete(f"{DONE}/{done[0]}")

    def test_unfinished_delete_that_lost_to_a_set(self) -> None:
        d = self.mirrored()
        self.client.set(d.path, b"data")
        self.make_pin(d)
        self.at_home(d).create(d.mark(new_mark("0")))
        place = (self.name(d.home.ensemble), d.path)
        self.assertEqual(self.found(self.check()), {"unfinished-deletes": [place]})
        self.assertTrue(self.check(repair=True).is_clean)
        self.assertEqual(self.client.get(d.path)[0], b"data")
        self.assertEqual(self.found(self.check()), {"missing-mirrors": [place]})

    def test_delete_that_had_no_effect(self) -> None:
        """Its mirror is there: it is called off, with children or without."""
        d = self.mirrored()
        self.client.create(f"{d.path}/child")
        for intent in ("-1", "transaction", "7"):
            self.at_home(d).create(d.mark(new_mark(intent)))
            self.is_repaired("unfinished-deletes", [(self.name(d.home.ensemble), d.path)])
            self.assertEqual(self.client.get_children(d.path), ["child"])
        self.client.delete(f"{d.path}/child")
        self.at_home(d).create(d.mark(new_mark("-1")))
        self.is_repaired("unfinished-deletes", [(self.name(d.home.ensemble), d.path)])
        self.assertTrue(self.client.exists(d.path))

    def test_unfinished_transaction(self) -> None:
        """It is called off, also without its mirror."""
        d = self.mirrored()
        self.make_pin(d)
        self.at_home(d).create(d.mark(new_mark("transaction")))
        place = (self.name(d.home.ensemble), d.path)
        self.assertEqual(self.found(self.check()), {"unfinished-deletes": [place]})
        self.assertTrue(self.check(repair=True).is_clean)
        self.assertTrue(self.client.exists(d.path))
        self.assertEqual(self.found(self.check()), {"missing-mirrors": [place]})

    def test_differing_acls(self) -> None:
        """What a set_acls leaves that ends after its first step; and other ways."""
        d = self.mirrored()
        self.client.create(f"{d.path}/child")
        place = (self.name(d.mirror.ensemble), d.path)
        self.at_home(d).set_acls(d.home.path, OURS_AND_MORE)
        self.is_repaired("differing-acls", [place])
        self.assertEqual(self.at_mirror(d).get_acls(d.mirror.path)[0], OURS_AND_MORE)
        self.at_mirror(d).set_acls(d.mirror.path, OPEN_ACL_UNSAFE)
        self.is_repaired("differing-acls", [place])
        self.at_home(d).set_acls(d.pin, OPEN_ACL_UNSAFE)
        self.is_repaired("differing-acls", [place])
        self.assertEqual(self.at_home(d).get_acls(d.pin)[0], pin_acl(OURS_AND_MORE))

    def test_missing_structure(self) -> None:
        paths = sorted([f"{FENCES}/17", f"{FENCES}/4", DONE])
        for path in paths:
            self.plain[1].delete(path, recursive=True)
        self.is_repaired("missing-structure", [("b", path) for path in paths])

    def test_stale_done_record(self) -> None:
        """Not before a day is over, by the servers' clock too."""
        path = f"{DONE}/{new_mark('-1')}"
        self.plain[1].create(path)
        self.assertEqual(self.found(self.check()), {})
        with mock.patch("parkazoo.admin.walk.time.time", lambda: time.time_ns() / 1e9 + 2 * DAY_S):
            report = self.check(repair=True)
        self.assertEqual(self.found(report), {"stale-done-records": [("b", path)]})
        self.assertIn("clock", report.remaining[0].remains)
        with mock.patch.object(findings, "STALE_AFTER_MS", -DAY_S * 1000):
            self.is_repaired("stale-done-records", [("b", path)])
        self.assertIsNone(self.plain[1].exists(path))

    # ---- told ----------------------------------------------------------------------------------

    def test_orphans(self) -> None:
        """Told; and when the directory has been made again, its children are joined to it."""
        d = self.mirrored()
        self.client.create(f"{d.path}/child", b"data")
        self.at_home(d).delete(d.home.path, recursive=True)
        self.is_told("orphans", [(self.name(d.mirror.ensemble), d.mirror.path)])
        self.client.create(d.path)
        self.is_repaired("missing-pins", [(self.name(d.home.ensemble), d.path)])
        self.assertEqual(self.client.get(f"{d.path}/child")[0], b"data")

    def test_foreign(self) -> None:
        d = self.mirrored()
        self.client.create(f"{d.path}/child")
        native = self.directory(self.root, is_native=True)
        self.client.create(native)
        home = self.home(native)
        places = [
            (0, "/parkazoo/strange"),
            (1, "/parkazoo/map"),
            (2, f"{FENCES}/1024"),
            (0, f"{FENCES}/5/below"),
            (1, f"{DONE}/strange"),
            (2, f"{MIRRORS}/strange"),
            (2, f"{MIRRORS}/%2F%"),
            (0, f"{MIRRORS}/{escape('/parkazoo/map')}"),
            (d.home.ensemble, d.mark("strange")),
            (d.mirror.ensemble, join(d.mirror.path, PIN)),
            (home.ensemble, join(home.path, PIN)),
        ]
        for ensemble, path in places:
            self.plain[ensemble].create(path)
        self.is_told("foreign", [(self.name(ensemble), path) for ensemble, path in places])
        report = self.check()
        (below,) = [found for found in report.remaining if found.path == f"{FENCES}/5/below"]
        self.assertIn("delete", below.remains)
        for ensemble, path in places:
            self.plain[ensemble].delete(path)

    def test_misplaced(self) -> None:
        d = self.mirrored()
        other = next(e for e in range(3) if e != self.placement.of_children("/"))
        elsewhere = next(e for e in range(3) if e != d.mirror.ensemble)
        native = self.directory(self.root, is_native=True)
        places = [
            (d.home.ensemble, join(d.home.path, "child")),
            (other, "/top"),
            (elsewhere, d.mirror.path),
            (other, f"{MIRRORS}/{escape(native)}"),
        ]
        for ensemble, path in places:
            self.plain[ensemble].create(path)
            self.plain[ensemble].create(f"{path}/below")
        self.is_told("misplaced", [(self.name(ensemble), path) for ensemble, path in places])
        for ensemble, path in places:
            self.plain[ensemble].delete(path, recursive=True)

    # ---- beside clients that work --------------------------------------------------------------

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
        self.assertTrue(report.is_clean)
        self.assertFalse(report.is_complete)
        mirror = self.placement.directory(mirrored).mirror
        self.assertEqual(
            sorted((found.ensemble, found.path) for found in report.hidden.paths),
            sorted((self.name(e), path) for e, path in (*map(self.home, (native, mirrored, leaf)), mirror)),
        )
        self.assertTrue(self.check(auth=[secret]).is_complete)
        self.kazoo(mirror.ensemble, auth_data=[secret]).set_acls(mirror.path, OPEN_ACL_UNSAFE)
        status, out, err = run_command("fsck", "--hosts", self.cluster.hosts)
        self.assertEqual((status, err), (0, ""))
        self.assertIn("nothing wrong in what could be looked at", out)
        report = self.check(repair=True)
        self.assertTrue(report.is_clean)  # as far as this identity sees
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

    def test_command_interrupted(self) -> None:
        """^C while it waits to look again: one line, and the usual status."""
        d = self.mirrored()
        self.make_pin(d)
        self.at_home(d).create(d.mark(new_mark("transaction")))
        main = "from parkazoo.cli import main; main()"
        command = [sys.executable, "-c", main, "fsck", "--hosts", self.cluster.hosts]
        # It meets c when it has read the map: kazoo's client, which reads that, ignores a ^C now and then.
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


class LossTest(LiveTest):
    """An ensemble is emptied, and made anew with what it had given up."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.cluster = LocalCluster(ensembles=3, servers=1)
        cls.addClassCleanup(cls.cluster.stop)
        cls.cluster.start()

    def found(self, report: Report) -> dict[str, set[str]]:
        return {
            kind.name: {found.path for found in tally.paths}
            for kind, tally in report.tallies.items()
            if tally.found
        }

    def test_an_emptied_ensemble(self) -> None:
        placement = self.placement
        lost = next(e for e in (1, 2) if e != placement.of_children("/"))
        name = "abc"[lost]
        paths = [f"/{number}" for number in range(40)]
        mirrored = {path for path in paths if placement.of_children(path) == lost != placement.of(path)}
        client = self.parkazoo()
        for number, path in enumerate(paths):
            client.create(path)
            if number % 2:
                client.create(f"{path}/child")
        children = {path for path in mirrored if client.get_children(path)}
        self.assertTrue(children and mirrored - children)
        self.assertEqual(self.found(check(self.cluster.hosts)), {})
        client.stop()

        wipe(self.kazoo(lost))
        hosts = {each.name: each.hosts for each in self.cluster.ensembles}
        with self.assertRaisesRegex(ClusterMapError, f"--replace {name}"):
            init_map(self.cluster.hosts, hosts)
        init_map(self.cluster.hosts, hosts, replace=[name])
        self.assertEqual(check_map(self.cluster.hosts), [])

        expected = {"lost-children": children}
        for repair in (False, True):
            report = check(self.cluster.hosts, repair=repair, accept_loss=[name] if not repair else ["a"])
            self.assertEqual(self.found(report), expected)
            self.assertEqual(len(report.remaining), len(children))
        status, out, _ = run_command("fsck", "--hosts", self.cluster.hosts)
        self.assertEqual(status, 1)
        self.assertIn("children were lost", out)
        client.start()
        used, deleted, *_ = sorted(children)
        self.assertEqual(client.get_children(used), [])
        client.create(f"{used}/again")
        client.delete(deleted)
        expected["lost-children"] -= {used, deleted}
        accept = ("fsck", "--hosts", self.cluster.hosts, "--accept-loss", name)
        self.assertEqual(run_command(*accept)[0], 2)
        status, _, err = run_command("fsck", "--hosts", self.cluster.hosts, "--repair", "--accept-loss", "x")
        self.assertEqual(status, 1)
        self.assertIn("no ensemble of the map is called 'x'", err)
        self.assertEqual(self.found(check(self.cluster.hosts)), expected)
        self.assertEqual(run_command(*accept, "--repair")[0], 0)
        self.assertEqual(self.found(check(self.cluster.hosts)), {})
        self.assertEqual(client.get_children(used), ["again"])

    def test_the_mirrors_are_gone(self) -> None:
        """A repair does not make their folder again, as if nothing had been in it."""
        plain = self.kazoo(1)
        plain.delete(MIRRORS, recursive=True)
        for repair in (False, True):
            report = check(self.cluster.hosts, repair=repair)
            self.assertEqual(self.found(report)["lost-mirrors"], {MIRRORS})
            self.assertFalse(report.is_clean)
        plain.create(MIRRORS)


class HostileTest(unittest.TestCase):
    def refused(self, pattern: str, *arguments: str) -> None:
        status, out, err = run_command("fsck", "--timeout", "3", *arguments)
        self.assertEqual((status, out), (1, ""))
        self.assertRegex(err, pattern)
        self.assertNotIn("Traceback", err)

    def test_no_server(self) -> None:
        self.refused("no ZooKeeper answers", "--hosts", f"127.0.0.1:{free_port()}")
        self.refused("is not host:port", "--hosts", "127.0.0.1:0")

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
                self.refused("no answer within 3 s", "--hosts", a, "--auth", identity)
            server.thaw()
            server.stop()
            self.refused(f"ensemble b \\({b}", "--hosts", a, "--auth", identity)


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


OURS_AND_MORE = [*OPEN_ACL_UNSAFE, make_digest_acl("stranger", "secret", all=True)]


def new_mark(intent: str) -> str:
    return f"{uuid.uuid4().hex}.{intent}"
