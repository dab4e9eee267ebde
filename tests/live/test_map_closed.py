"""Clusters that are closed to all but some identities; TLS."""

from __future__ import annotations

import contextlib
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.security import make_digest_acl

from parkazoo import ParKazooClient
from parkazoo.admin import add_identity, check_map, grow_map, init_map, read_map
from parkazoo.errors import ClusterMapError
from parkazoo.local import LocalCluster
from parkazoo.protocol.placement import DEFERRED, DONE, ENSEMBLE, FENCES, MAP, MIRRORS, ROOT
from tests.kazoo_suite.certificates import make_certificates
from tests.live.every_command import EveryCommand
from tests.live.map_case import FEW_FENCES, IDENTITY, MapCase, wipe


class ClosedTest(MapCase):
    def test_closed(self) -> None:
        made = init_map(self.a, self.all, auth=[IDENTITY], closed=True)
        stranger = KazooClient(self.a)
        self.addCleanup(stranger.close)
        self.addCleanup(stranger.stop)
        stranger.start(30)
        for path in (ROOT, MAP, ENSEMBLE, MIRRORS, FENCES, f"{FENCES}/0", DONE):
            with self.subTest(path):
                acl = self.plain[0].get_acls(path)[0]
                self.assertEqual(acl, [make_digest_acl("admin", "secret-of-admin", all=True)])
                for call in (stranger.get, stranger.get_children, stranger.get_acls):
                    self.assertRaises(NoAuthError, call, path)
                self.assertRaises(NoAuthError, stranger.set, path, b"")
                self.assertRaises(NoAuthError, stranger.create, path + "/x")
        stranger.create("/app")  # the users' part of the tree is as open as before
        stranger.delete("/app")
        self.assertEqual(read_map(self.a, auth=[IDENTITY]), made)
        self.assertEqual(check_map(self.a, auth=[IDENTITY]), [])
        self.assertEqual(init_map(self.a, self.all, auth=[IDENTITY], closed=True), made)

    def test_every_command(self) -> None:
        """The tests' own plain clients are strangers."""
        connection = [f"--auth={':'.join(IDENTITY)}"]
        hosts = {"a": self.a, "b": self.b}
        EveryCommand(self, hosts, connection, {"auth_data": [IDENTITY]}, has_strangers=True).run()

    def test_markers_of_deferred_writes(self) -> None:
        """Who could set one could make a write count as done that is not."""
        init_map(self.a, self.all, auth=[IDENTITY], closed=True)
        stranger, client = KazooClient(self.a), ParKazooClient(self.a, auth_data=[IDENTITY])
        for each in (stranger, client):
            self.addCleanup(each.close)
            self.addCleanup(each.stop)
            each.start(30)
        client.create("/x")
        with client.deferred() as later:
            later.put("/x", b"1")
            later.barrier()
            (marker,) = self.plain[0].get_children(DEFERRED)
            for call in (stranger.get, stranger.delete):
                self.assertRaises(NoAuthError, call, f"{DEFERRED}/{marker}")
            self.assertRaises(NoAuthError, stranger.set, f"{DEFERRED}/{marker}", b"")
            self.assertRaises(NoAuthError, stranger.create, f"{DEFERRED}/x")
            later.put("/x", b"2")
        self.assertEqual(client.get("/x")[0], b"2")

    def test_without_the_identity(self) -> None:
        init_map(self.a, self.all, auth=[IDENTITY], closed=True)
        for auth in ([], [("digest", "admin:wrong-one")]):
            with self.refused(f"no right to use {MAP} on server {self.a}: give the identity"):
                read_map(self.a, auth=auth)
            with self.refused(f"no right to use {ROOT} on ensemble b"):
                init_map(self.a, self.all, auth=auth)
            with self.refused(f"no right to use {MAP}"):
                check_map(self.a, auth=auth)

    def test_secrets_are_not_told(self) -> None:
        init_map(self.a, self.all, auth=[IDENTITY], closed=True)
        with self.assertRaises(ClusterMapError) as caught:
            read_map(self.a, auth=[("digest", "other:hush")])
        self.assertNotIn("hush", str(caught.exception))

    def test_closed_without_an_identity(self) -> None:
        with self.refused("needs an identity"):
            init_map(self.a, self.all, closed=True)

    def test_an_identity_that_has_no_right(self) -> None:
        """It would get none: that has to be said before "Use it"."""
        new = ("digest", "next:hush")
        init_map(self.a, self.all, auth=[IDENTITY], closed=True)
        with self.refused("the identity digest:next has no right to /parkazoo on ensemble b .* Leave it out"):
            init_map(self.a, self.all, auth=[IDENTITY, new], closed=True)
        for client in self.plain:
            wipe(client)
        init_map(self.a, self.all, auth=[IDENTITY, new], closed=True)
        for auth in ([IDENTITY], [new]):
            self.assertEqual(check_map(self.a, auth=auth), [])

    def test_what_init_mends_has_all_identities(self) -> None:
        new = ("digest", "next:hush")
        made = init_map(self.a, self.all, auth=[IDENTITY], closed=True)
        add_identity(self.a, new, auth=[IDENTITY])
        self.plain[1].delete(f"{FENCES}/1")
        self.assertEqual(init_map(self.a, self.all, auth=[new], closed=True), made)
        acl = self.plain[1].get_acls(f"{FENCES}/1")[0]
        self.assertEqual(acl, self.plain[0].get_acls(ROOT)[0])
        self.assertEqual(len(acl), 2)

    def test_an_emptied_bootstrap_ensemble_has_all_identities_again(self) -> None:
        new = ("digest", "next:hush")
        made = init_map(self.a, self.all, auth=[IDENTITY], closed=True)
        add_identity(self.a, new, auth=[IDENTITY])
        wipe(self.plain[0])
        self.assertEqual(init_map(self.a, self.all, auth=[IDENTITY], closed=True, replace=["a"]), made)
        self.assertEqual(self.plain[0].get_acls(MAP)[0], self.plain[1].get_acls(ROOT)[0])
        self.assertEqual(read_map(self.a, auth=[new]), made)

    def test_growth_that_began_with_other_identities(self) -> None:
        init_map(self.a, {"a": self.a}, auth=[IDENTITY], closed=True)
        self.plain[1].create(ROOT, acl=self.plain[0].get_acls(ROOT)[0])
        add_identity(self.a, ("digest", "next:hush"), auth=[IDENTITY])
        with self.assertRaisesRegex(ClusterMapError, f"{ROOT} on ensemble b .* is of an earlier attempt"):
            grow_map(self.a, {"b": self.b}, yes=True, strangers_gone=True, auth=[IDENTITY])
        wipe(self.plain[1])
        grow_map(self.a, {"b": self.b}, yes=True, strangers_gone=True, auth=[IDENTITY])
        self.assertEqual(self.plain[1].get_acls(FENCES)[0], self.plain[0].get_acls(ROOT)[0])

    def test_the_other_form_is_there(self) -> None:
        init_map(self.a, self.all, auth=[IDENTITY], closed=True)
        with self.refused("is closed: give --closed, and the identity that it needs in --auth$"):
            init_map(self.a, self.all, auth=[IDENTITY])
        for client in self.plain:
            wipe(client)
        init_map(self.a, self.all)
        with self.refused("is open to all: leave out --closed$"):
            init_map(self.a, self.all, auth=[IDENTITY], closed=True)


class TlsTest(unittest.TestCase):
    """Connections by TLS, and an identity that is the client's certificate."""

    def test_every_command(self) -> None:
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        certificates = make_certificates()
        files = {"ca": certificates.ca, "server": certificates.server}
        files |= {"cert": certificates.client_certificate, "key": certificates.client_key}
        for name, data in files.items():
            (folder / f"{name}.pem").write_bytes(data)
        zoo_cfg = {
            "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
            "client.portUnification": "true",
            "ssl.keyStore.location": str(folder / "server.pem"),
            "ssl.trustStore.location": str(folder / "ca.pem"),
            "authProvider.x509": "org.apache.zookeeper.server.auth.X509AuthenticationProvider",
        }
        options = {"use_ssl": True, "ca": str(folder / "ca.pem")}
        options |= {"certfile": str(folder / "cert.pem"), "keyfile": str(folder / "key.pem")}
        cluster = stack.enter_context(LocalCluster(ensembles=2, servers=1, make_map=False, zoo_cfg=zoo_cfg))
        hosts = {each.name: each.hosts for each in cluster.ensembles}
        arguments = [f"--{name}={folder}/{name}.pem" for name in ("ca", "cert", "key")]
        with mock.patch("parkazoo.admin.contents.FENCE_COUNT", FEW_FENCES):
            EveryCommand(self, hosts, arguments, options, has_strangers=False).run()
        with self.assertRaisesRegex(ClusterMapError, "no right to use"):
            read_map(cluster.hosts)
        self.assertEqual(check_map(cluster.hosts, **options), [])
