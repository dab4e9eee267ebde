"""Digest and SASL (DIGEST-MD5) on every ensemble: who is let in, who is refused, what outlives a connection."""

from __future__ import annotations

import asyncio
import json
import tempfile
import unittest
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from kazoo.client import KazooState
from kazoo.exceptions import AuthFailedError, ConfigurationError, ConnectionClosedError, NoAuthError
from kazoo.security import CREATOR_ALL_ACL, make_acl

from parkazoo import ParKazooClient
from parkazoo.admin import check_map, init_map, read_map
from parkazoo.errors import ClusterMapError
from parkazoo.fsck import check
from parkazoo.local import LocalCluster
from tests.aio import aio_case
from tests.aio.aio_case import needs_aio
from tests.live.every_command import EveryCommand
from tests.live.map_case import FEW_FENCES, run_command
from tests.live.secured import SecuredTest, configure
from tests.live.world import DEADLINE_S, Seen, wait_until

USER, PASSWORD = "ann", "of-ann"
DIGEST, SECOND = ("digest", "bob:of-bob"), ("digest", "cleo:of-cleo")
ENSEMBLES = ("a", "b", "c")
SASL_CFG = {"authProvider.sasl": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"}
JAAS = """
Server {{
    org.apache.zookeeper.server.auth.DigestLoginModule required
    user_ann="{password}";
}};
"""


def sasl(username: str = USER, password: str = PASSWORD) -> dict[str, str]:
    return {"mechanism": "DIGEST-MD5", "username": username, "password": password}


class AuthTest(SecuredTest):
    """Three ensembles whose servers admit users of SASL, and all others without a name."""

    jaas: Path

    @classmethod
    def setUpClass(cls) -> None:
        if not hasattr(AuthTest, "jaas"):
            AuthTest.set_up()

    @classmethod
    def set_up(cls) -> None:
        folder = tempfile.TemporaryDirectory()
        unittest.addModuleCleanup(folder.cleanup)
        cls.jaas = Path(folder.name, "jaas.conf")
        cls.jaas.write_text(JAAS.format(password=PASSWORD))
        cls.cluster = LocalCluster(
            3,
            1,
            zoo_cfg=SASL_CFG,
            jvm_flags=[f"-Djava.security.auth.login.config={cls.jaas}"],
        )
        unittest.addModuleCleanup(cls.cluster.stop)
        cls.cluster.start()
        cls.servers = {each.name: each.servers[0] for each in cls.cluster.ensembles}

    def client(self, **options: Any) -> ParKazooClient:
        return self.parkazoo(self.cluster.hosts, **options)

    def directories(self, client: ParKazooClient, acl: Any) -> list[str]:
        """Znodes of which the homes and the children are on all ensembles."""
        placement = client.cluster_map.make_placement()
        paths = [f"/{self.id()}/{number}" for number in range(12)]
        self.assertEqual({placement.of_children(path) for path in paths}, {0, 1, 2})
        for path in paths:
            client.create(path, b"home", acl=acl, makepath=True)
            client.create(f"{path}/child", b"child", acl=acl)
        return paths

    def may(self, client: ParKazooClient, paths: list[str]) -> None:
        for path in paths:
            self.assertEqual(client.get(path)[0], b"home")
            self.assertEqual(client.get_children(path), ["child"])
            self.assertEqual(client.get(f"{path}/child")[0], b"child")

    def may_not(self, client: ParKazooClient, paths: list[str]) -> None:
        for path in paths:
            self.assertRaises(NoAuthError, client.get, path)
            self.assertRaises(NoAuthError, client.get_children, path)
            self.assertRaises(NoAuthError, client.set, f"{path}/child", b"")
            self.assertRaises(NoAuthError, client.delete, f"{path}/child")

    def outlives(self, client: ParKazooClient, paths: list[str]) -> None:
        """The client is who it was after its connections were lost, and after its session expired on each."""
        self.hold(client)
        states = Seen()
        client.add_listener(states)
        configure({server: {} for server in self.servers.values()})
        wait_until(lambda: KazooState.SUSPENDED in states and client.connected, "connected again")
        self.may(client, paths)
        for ensemble in ENSEMBLES:
            self.hold(client)
            states.clear()
            self.expire(client, ensemble, self.servers[ensemble].address)
            wait_until(lambda: KazooState.LOST in states and client.connected, f"new session after {ensemble}")
            self.may(client, paths)


class TestDigest(AuthTest):
    def test_outlives(self) -> None:
        client = self.client(auth_data=[DIGEST])
        paths = self.directories(client, CREATOR_ALL_ACL)
        self.outlives(client, paths)
        self.may_not(self.client(), paths)
        self.may_not(self.client(auth_data=[("digest", "bob:wrong")]), paths)

    def test_added_later(self) -> None:
        """Beside one that was given before: the client is both, for as long as it lives."""
        owner = self.client(auth_data=[SECOND])
        paths = self.directories(owner, CREATOR_ALL_ACL)
        client = self.client(auth_data=[DIGEST])
        self.may_not(client, paths)
        client.add_auth(*SECOND)
        self.may(client, paths)
        both = client.create("/both", acl=CREATOR_ALL_ACL)
        self.assertEqual(len(client.get_acls(both)[0]), 2)
        self.outlives(client, paths)

    def test_unknown_scheme(self) -> None:
        self.fails(AuthFailedError, "", self.cluster.hosts, DEADLINE_S, auth_data=[DIGEST, ("no-scheme", "x")])

    def test_unknown_scheme_later(self) -> None:
        with self.nothing_left():
            client = ParKazooClient(self.cluster.hosts)
            client.start(DEADLINE_S)
            self.assertRaises(AuthFailedError, client.add_auth, "no-scheme", "x")
            wait_until(lambda: client.client_state == "AUTH_FAILED", "the state tells")
            client.stop()
            client.close()


class TestSasl(AuthTest):
    @contextmanager
    def other_password(self, ensemble: str) -> Iterator[None]:
        """One ensemble knows the user under another password."""
        self.jaas.write_text(JAAS.format(password="another"))
        try:
            configure({self.servers[ensemble]: {}})
        finally:
            self.jaas.write_text(JAAS.format(password=PASSWORD))
        try:
            yield
        finally:
            configure({self.servers[ensemble]: {}})

    def test_outlives(self) -> None:
        client = self.client(sasl_options=sasl())
        paths = self.directories(client, [make_acl("sasl", USER, all=True)])
        self.outlives(client, paths)
        self.may_not(self.client(), paths)
        self.may_not(self.client(auth_data=[DIGEST]), paths)

    def test_creator_and_digest_beside(self) -> None:
        """A client that is both; the old spelling of SASL, in auth_data."""
        client = self.client(sasl_options=sasl(), auth_data=[DIGEST])
        paths = self.directories(client, CREATOR_ALL_ACL)
        self.may(self.client(auth_data=[DIGEST]), paths)
        with self.assertWarns(DeprecationWarning):
            old = self.client(auth_data=[("sasl", f"{USER}:{PASSWORD}")])
        self.may(old, paths)

    @needs_aio
    def test_asyncio(self) -> None:
        async def use() -> None:
            async with aio_case.ParKazooClient(self.cluster.hosts, sasl_options=sasl()) as zk:
                paths = [f"/asyncio/{number}/leaf" for number in range(12)]
                acl = [make_acl("sasl", USER, all=True)]
                await asyncio.gather(*(zk.create(path, acl=acl, makepath=True) for path in paths))
                self.assertEqual((await zk.get_acls(paths[0]))[0], acl)
                await zk.delete("/asyncio", recursive=True)
            wrong = aio_case.ParKazooClient(self.cluster.hosts, sasl_options=sasl(password="wrong"))
            with self.assertRaises(AuthFailedError):
                await wrong.start(DEADLINE_S)

        asyncio.run(use())

    def test_wrong_password(self) -> None:
        for options in (sasl(password="wrong"), sasl(username="nobody")):
            with self.subTest(options["username"]):
                self.fails(AuthFailedError, "", self.cluster.hosts, DEADLINE_S, sasl_options=options)

    def test_wrong_password_on_one_ensemble(self) -> None:
        for ensemble in ENSEMBLES:
            with self.subTest(ensemble), self.other_password(ensemble), self.nothing_left():
                client = ParKazooClient(self.cluster.hosts, sasl_options=sasl())
                with self.assertRaises(AuthFailedError):
                    client.start(DEADLINE_S)
                    client.join(ensemble, timeout=DEADLINE_S)
                wait_until(lambda c=client: not c.connected, "its end")
                self.assertRaises((AuthFailedError, ConnectionClosedError), client.get, "/")
                client.stop()
                client.close()

    def test_refused_when_it_comes_back(self) -> None:
        """The password was changed on one ensemble while the client lived: the client has ended, for good."""
        client = self.client(sasl_options=sasl())
        client.join(timeout=DEADLINE_S)
        with self.other_password("b"):
            wait_until(lambda: client.client_state == "AUTH_FAILED", "refused")
            self.assertRaises(AuthFailedError, client.get, "/")

    def test_options_of_no_use(self) -> None:
        for pattern, options in (
            ("mechanism", {"username": USER, "password": PASSWORD}),
            ("NO-SUCH", {**sasl(), "mechanism": "NO-SUCH"}),
        ):
            with self.subTest(pattern):
                self.fails(ConfigurationError, pattern, self.cluster.hosts, DEADLINE_S, sasl_options=options)

    def test_administration(self) -> None:
        hosts = {each.name: each.hosts for each in self.cluster.ensembles}
        options = {"sasl_options": sasl()}
        made = read_map(self.cluster.hosts, **options)
        self.assertEqual(init_map(self.cluster.hosts, hosts, **options), made)
        self.assertEqual(check_map(self.cluster.hosts, **options), [])
        self.asks_by_another_name(self.cluster.hosts, **options)
        with self.nothing_left(), self.assertRaisesRegex(ClusterMapError, "refuse the identity"):
            read_map(self.cluster.hosts, sasl_options=sasl(password="wrong"))

    def test_every_command(self) -> None:
        """On servers that admit nobody else, in a closed cluster."""
        zoo_cfg = {**SASL_CFG, "sessionRequireClientSASLAuth": "true"}
        flags = [f"-Djava.security.auth.login.config={self.jaas}"]
        connection = [f"--auth=sasl:{USER}:{PASSWORD}"]
        with (
            LocalCluster(2, 1, make_map=False, zoo_cfg=zoo_cfg, jvm_flags=flags) as cluster,
            mock.patch("parkazoo.admin.contents.FENCE_COUNT", FEW_FENCES),
        ):
            hosts = {each.name: each.hosts for each in cluster.ensembles}
            EveryCommand(self, hosts, connection, {"sasl_options": sasl()}, has_strangers=False).run()
            self.doCleanups()

    def test_one_ensemble_admits_no_others(self) -> None:
        """Every command says so of that ensemble, and what it knows of the others."""
        wanted = {"sessionRequireClientSASLAuth": "true"}
        configure({self.servers["b"]: wanted})
        try:
            hosts = ",".join(each.hosts for each in self.cluster.ensembles)
            told = "ensemble b .* admits only clients that authenticate, by SASL"
            for command in ("status", "map check", "clients", "map epochs", "fsck"):
                with self.subTest(command):
                    status, out, err = run_command(*command.split(), "--hosts", hosts)
                    self.assertEqual((status, err), (1, ""))
                    self.assertRegex(" ".join(out.split()), told)
            status, out, _ = run_command("status", "--json", "--hosts", hosts)
            found = json.loads(out)
            self.assertEqual((status, [each["ensemble"] for each in found["findings"]]), (1, ["b"]))
            self.assertEqual([each["role"] for each in found["servers"]], ["standalone"] * 3)
            status, out, err = run_command("status", "--json", "--hosts", self.servers["b"].address)
            self.assertEqual(status, 1)
            self.assertRegex(json.loads(out)["error"], "server .* admits only clients that authenticate")
            self.assertEqual(check_map(hosts, sasl_options=sasl()), [])
            self.assertFalse(check(hosts, sasl_options=sasl()).absent)
        finally:
            configure({self.servers["b"]: dict.fromkeys(wanted, "false")})
