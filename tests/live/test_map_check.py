"""The cluster map read, and compared with real ensembles."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
import threading
import unittest
from unittest import mock
from unittest.mock import ANY

from kazoo.client import KazooClient
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE, make_digest_acl

from parkazoo import ParKazooClient
from parkazoo.admin import change_hosts, check_map, init_map, read_map
from parkazoo.admin.clients import AdminClient
from parkazoo.admin.contents import parts_of
from parkazoo.errors import ClusterMapError
from parkazoo.local import LocalCluster, LocalEnsemble
from parkazoo.protocol.cluster_map import ClusterMap, no_map_error
from parkazoo.protocol.placement import CLIENTS, DONE, ENSEMBLE, FENCES, MAP, MIRRORS, ROOT
from tests.live.map_case import (
    FEW_FENCES,
    IDENTITY,
    UNREACHABLE_TIMEOUT_S,
    MapCase,
    assert_found,
    dump,
    free_port,
    other_spelling,
    run_command,
    wipe,
)
from tests.live.secured import configure
from tests.live.world import DEADLINE_S, wait_until


class ReadTest(MapCase):
    def test_no_map(self) -> None:
        with self.refused(f"^{re.escape(str(no_map_error(self.a, None)))}$"):
            read_map(self.a)

    def test_not_the_bootstrap_ensemble(self) -> None:
        made = init_map(self.a, self.all)
        self.assertEqual(read_map(self.b), made)
        self.plain[1].delete(MAP)
        with self.refused(
            f"no cluster map.*on {self.b}: these servers are ensemble b of cluster {made.cluster}: give"
        ):
            read_map(self.b)

    def test_no_server_there(self) -> None:
        closed_port = f"127.0.0.1:{free_port()}"
        with self.refused(
            f"no ZooKeeper answers within {UNREACHABLE_TIMEOUT_S:g} s: {closed_port}: Connection refused"
        ):
            read_map(closed_port, timeout_s=UNREACHABLE_TIMEOUT_S)

    def test_unusable(self) -> None:
        self.plain[0].create(MAP, b"", makepath=True)
        for data, pattern in ((b"", "damaged"), (b"[]", "damaged"), (b'{"format": 7}', "format 7.*upgrade")):
            self.plain[0].set(MAP, data)
            with self.refused(f"cannot use the cluster map at {MAP} on {self.a}: it .*{pattern}"):
                read_map(self.a)

    def test_nothing_is_left_running(self) -> None:
        init_map(self.a, self.all)
        before = threading.active_count()
        read_map(self.a)
        check_map(self.a)
        self.assertEqual(threading.active_count(), before)


class CheckTest(MapCase):
    def setUp(self) -> None:
        super().setUp()
        self.map = init_map(self.a, self.all)
        self.assertEqual(check_map(self.a), [])

    def assert_found(self, *expected: tuple[str, str]) -> None:
        """Exactly these findings: ensemble and pattern of the problem."""
        before = [dump(client) for client in self.plain]
        findings = check_map(self.a, timeout_s=UNREACHABLE_TIMEOUT_S)
        self.assertEqual([finding.ensemble for finding in findings], [name for name, _ in expected], findings)
        for finding, (_, pattern) in zip(findings, expected, strict=True):
            self.assertRegex(finding.problem, pattern)
            self.assertTrue(finding.remedy)
        self.assertEqual([dump(client) for client in self.plain], before)

    def change_map(self, **ensembles: str) -> None:
        changed = ClusterMap(
            self.map.cluster, {**self.map.ensembles, **ensembles}, self.map.placement, self.map.bootstrap
        )
        self.publish(changed)

    def test_record_missing(self) -> None:
        self.plain[1].delete(ENSEMBLE)
        self.assert_found(("b", f"{ENSEMBLE} is missing"))

    def test_record_of_another_ensemble(self) -> None:
        self.plain[1].set(ENSEMBLE, json.dumps({"cluster": "other", "name": "x"}).encode())
        self.assert_found(("b", f"server {self.b} is ensemble x of cluster other"))

    def test_record_damaged(self) -> None:
        for data in (b"", b"{", b"[]", b'"x"', b'{"name": "b"}', b"[" * 100_000):
            self.plain[1].set(ENSEMBLE, data)
            self.assert_found(("b", f"server {self.b} is marked with something unknown"))

    def test_structure_missing(self) -> None:
        self.plain[1].delete(f"{FENCES}/3")
        self.assert_found(("b", f"^missing: {FENCES}/3$"))
        for number in range(FEW_FENCES):
            if number != 3:
                self.plain[1].delete(f"{FENCES}/{number}")
        self.plain[2].delete(DONE)
        self.plain[2].delete(MIRRORS)
        self.assert_found(("b", f"{FENCES}/4 and 3 more"), ("c", f"^{MIRRORS} is missing: it has lost its data"))

    def test_all_missing(self) -> None:
        wipe(self.plain[2])
        self.assert_found(("c", f"^{ENSEMBLE} and {MIRRORS} are missing: it has lost its data"))
        (finding,) = check_map(self.a)
        self.assertIn("--replace c", finding.remedy)

    def test_emptied_with_a_server_down(self) -> None:
        """That server may have the last copy, and would lose it if it were started beside the emptied ones."""
        closed_port = f"127.0.0.1:{free_port()}"
        self.change_map(b=f"{self.b},{closed_port}")
        wipe(self.plain[1])
        emptied, down = check_map(self.a)
        self.assertIn("lost its data", emptied.problem)
        self.assertIn(closed_port, down.problem)
        self.assertRegex(down.remedy, "^do not start it beside the emptied ones")

    def test_open_and_closed(self) -> None:
        self.plain[1].set_acls(ROOT, CREATOR_ALL_ACL)
        (finding,) = check_map(self.a, auth=[IDENTITY])
        self.assertEqual(
            (finding.ensemble, finding.problem), ("a, c", f"{ROOT} is open there and closed elsewhere")
        )

    def test_other_identities(self) -> None:
        for client in self.plain:
            wipe(client)
        init_map(self.a, self.all, auth=[IDENTITY], closed=True)
        self.assertEqual(check_map(self.a, auth=[IDENTITY]), [])
        acl = [*self.plain[1].get_acls(ROOT)[0], make_digest_acl("next", "hush", all=True)]
        self.plain[1].set_acls(ROOT, acl[::-1])
        self.plain[1].set_acls(MIRRORS, acl)
        self.plain[1].set_acls(f"{FENCES}/3", acl)
        self.plain[2].set_acls(f"{FENCES}/3", OPEN_ACL_UNSAFE)
        self.plain[2].set_acls(CLIENTS, [*self.plain[2].get_acls(ROOT)[0], *READ_ACL_UNSAFE])
        found = [(each.ensemble, each.problem, each.is_warning) for each in check_map(self.a, auth=[IDENTITY])]
        told = "not the same identities as elsewhere may use"
        self.assertEqual(
            found, [("b", f"{told} {ROOT}, {MIRRORS}, {FENCES}/3", True), ("c", f"{told} {CLIENTS}", True)]
        )
        for path in (ROOT, MIRRORS, f"{FENCES}/3"):
            self.plain[1].set_acls(path, acl[:1])
        self.plain[2].set_acls(CLIENTS, acl[:1])
        self.assertEqual(check_map(self.a, auth=[IDENTITY]), [])

    def test_ensemble_down(self) -> None:
        closed_port = f"127.0.0.1:{free_port()}"
        self.change_map(b=closed_port)
        self.assert_found(("b", f"cannot be reached: {closed_port}: Connection refused"))

    def test_server_down(self) -> None:
        closed_port = f"127.0.0.1:{free_port()}"
        self.change_map(b=f"{self.b},{closed_port}")
        self.assert_found(("b", f"server {closed_port}: Connection refused"))
        status, out, _ = run_command("map", "check", "--hosts", self.a)
        self.assertEqual(status, 0)
        self.assertRegex(out, f"warnings.*\n(.*\n)*.*b .*server {closed_port}")
        self.plain[2].delete(DONE)  # beside a warning, what is wrong is wrong
        self.assertEqual(run_command("map", "check", "--hosts", self.a)[0], 1)

    def test_server_of_another_ensemble(self) -> None:
        self.change_map(b=f"{self.b},{other_spelling(self.c)}")
        self.assert_found(("b", f"server {other_spelling(self.c)} is ensemble c of cluster {self.map.cluster}"))

    def test_ensembles_exchanged(self) -> None:
        self.change_map(b=self.c, c=self.b)
        self.assert_found(("b", "is ensemble c of"), ("c", "is ensemble b of"))

    def test_new_address(self) -> None:
        """The map gets the new address, by hand; check and clients then verify it."""
        moved = other_spelling(self.b)
        with self.refused(
            f"another cluster map .*ensemble b is {self.b}, not {moved}.*`parkazoo map hosts` changes"
        ):
            init_map(self.a, {**self.all, "b": moved})
        changed = dataclasses.replace(self.map, ensembles={**self.all, "b": moved}, epoch=2)
        self.plain[0].set(MAP, changed.to_json())
        self.assertEqual(
            [(each.ensemble, each.is_warning) for each in check_map(self.a)], [("b", True), ("c", True)]
        )
        self.assertEqual(init_map(self.a, {**self.all, "b": moved}), changed)
        self.assertEqual(check_map(self.a), [])
        with contextlib.closing(ParKazooClient(self.a)) as client:
            client.start(30)
            self.assertEqual(client.cluster_map.ensembles, {**self.all, "b": moved})
            for number in range(12):
                client.create(f"/{number}/child", makepath=True)
            client.stop()
        self.change_map(b=other_spelling(self.c))  # a mistake
        self.assert_found(("b", f"server {other_spelling(self.c)} is ensemble c of"))
        client = ParKazooClient(self.a)
        self.addCleanup(client.close)
        self.addCleanup(client.stop)
        client.start(30)
        with self.assertRaisesRegex(ClusterMapError, "not ensemble b"):
            client.join("b", timeout=30)


class ThreeServersTest(unittest.TestCase):
    """MapCase of three servers: each one is asked, because a wrong one hides among the others."""

    def test_three_servers(self) -> None:
        with LocalCluster(ensembles=2, servers=3, make_map=False) as cluster:
            a, b = cluster.ensembles
            (a1, a2, a3), (b1, b2, b3) = (each.hosts.split(",") for each in cluster.ensembles)
            for ensembles, pattern in (
                (
                    {"a": f"{a1},{a2},{b3}", "b": f"{b1},{b2}"},
                    "is not in one ensemble with the other servers of a",
                ),
                ({"a": f"{a1},{a2},{b3}", "b": f"{b1},{b2},{a3}"}, "is not in one ensemble with|are one ensemble"),
                ({"a": a1, "b": a2}, "a and b are one ensemble"),
                ({"a": f"{a1},{a2}", "b": f"{b1},{b2}", "c": b3}, "b and c are one ensemble"),
            ):
                with self.subTest(ensembles), self.assertRaisesRegex(ClusterMapError, pattern):
                    init_map(a1, ensembles)
            for ensemble in (a, b):
                with contextlib.closing(KazooClient(ensemble.hosts)) as client:
                    client.start(30)
                    self.assertEqual(client.get_children("/"), ["zookeeper"])
                    client.stop()
            made = init_map(f"{a3},{a1}", {"a": a.hosts, "b": b.hosts})
            self.assertEqual((made.bootstrap, read_map(a2)), ("a", made))
            self.assertEqual(check_map(a.hosts), [])

            follower = a.followers()[0]
            follower.freeze()
            findings = check_map(a.hosts, timeout_s=UNREACHABLE_TIMEOUT_S)
            self.assertEqual([(each.ensemble, each.problem) for each in findings], [("a", ANY)])
            self.assertRegex(findings[0].problem, f"{follower.address}: (serves no requests|timed out)")
            self.assertTrue(findings[0].is_warning)
            again = init_map(a.hosts, {"a": a.hosts, "b": b.hosts}, timeout_s=UNREACHABLE_TIMEOUT_S)
            self.assertEqual(again, made)
            frozen = (
                f"server {follower.address} does not answer as one of ensemble a: (serves no requests|timed out)"
            )
            with self.assertRaisesRegex(ClusterMapError, frozen):
                change_hosts(b.hosts, {"a": f"{a.hosts},{other_spelling(a1)}"}, timeout_s=UNREACHABLE_TIMEOUT_S)
            follower.thaw()
            for hosts, epoch in ((f"{b1},{b2}", 2), (b.hosts, 3)):
                changed = change_hosts(b2, {"b": hosts}, fewer=True)
                self.assertEqual((changed.ensembles["b"], changed.epoch), (hosts, epoch))
                left_out = [("b", f"the map does not name server {b3}, a voting member", True)]
                assert_found(self, f"{b3},{a3}", *(left_out if epoch == 2 else ()))

            self.elect_meanwhile(a, b)
            for server in b.servers[:2]:
                server.kill()
            found = check_map(a.hosts, timeout_s=UNREACHABLE_TIMEOUT_S)
            self.assertEqual(
                [each.ensemble for each in found if "cannot be reached" in each.problem], ["b"], found
            )
            self.assertFalse(any(each.is_warning for each in found), found)
            self.assertRegex(
                found[0].problem, f"{b1}: Connection refused, .*{b3}: answers, but not as .*no quorum"
            )

    def elect_meanwhile(self, a: LocalEnsemble, b: LocalEnsemble) -> None:
        """The leader stops while the command reads, which goes on when there is another one: no alert flaps."""
        leader = a.leader()

        def stop_and_read(client: AdminClient) -> frozenset[str]:
            if client.name == "a" and leader.is_running:
                leader.stop()
            return parts_of(client)

        with mock.patch("parkazoo.admin.check.parts_of", stop_and_read):
            found = check_map(b.hosts)
        self.assertFalse(leader.is_running)
        self.assertEqual([each for each in found if not each.is_warning], [], found)
        self.assertLessEqual({each.ensemble for each in found}, {"a"}, found)
        leader.start()
        a.wait_quorum()
        leader.wait_serving()
        wait_until(lambda: check_map(b.hosts) == [], "all is well")


class SettingsTest(unittest.TestCase):
    """Servers whose settings are in the way. No other test uses them: they could not load its large znodes."""

    def setUp(self) -> None:
        self.cluster = LocalCluster(ensembles=2, servers=1)
        self.addCleanup(self.cluster.stop)
        self.cluster.start()
        self.b = self.cluster.ensembles[1].servers[0]

    def test_too_many_connections(self) -> None:
        """They are told from servers without a quorum."""
        configure({self.b: {"maxClientCnxns": "2"}})
        for _ in range(2):
            client = KazooClient(self.b.address)
            self.addCleanup(client.close)
            self.addCleanup(client.stop)
            client.start(DEADLINE_S)
        told = f"{self.b.address}: closes connections as they come: more than its maxClientCnxns"
        findings = check_map(self.cluster.hosts, timeout_s=UNREACHABLE_TIMEOUT_S)
        self.assertEqual([(each.ensemble, each.is_warning) for each in findings], [("b", False)], findings)
        self.assertIn(f"cannot be reached: {told}", findings[0].problem)
        limit = f"--timeout={UNREACHABLE_TIMEOUT_S:g}"
        status, out, _ = run_command("status", "--hosts", self.cluster.hosts, limit)
        self.assertEqual(status, 1)
        self.assertIn("closes connections as they come: more than its maxClientCnxns", " ".join(out.split()))

    def test_a_smaller_buffer(self) -> None:
        self.b._argv.insert(1, "-Djute.maxbuffer=500000")
        configure({self.b: {}})
        told = rf"requests of 1,048,575 bytes, .* too large for {self.b.address}"
        assert_found(self, self.cluster.hosts, ("b", told, True))
        self.b._argv.remove("-Djute.maxbuffer=500000")
        configure({self.b: {}})
        assert_found(self, self.cluster.hosts)
