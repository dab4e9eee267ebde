"""TLS on every ensemble, with a certificate authority of our own: what works, and the error of each mistake."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import tempfile
import unittest
from dataclasses import replace
from pathlib import Path
from typing import Any

from kazoo.client import KazooState
from kazoo.exceptions import ConfigurationError, NoAuthError
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.security import make_acl

from parkazoo import ParKazooClient
from parkazoo.admin import check_map, init_map, read_map, read_status
from parkazoo.errors import ClusterMapError
from parkazoo.kazoo_private import CONNECTION_DROP
from parkazoo.local import HOST, LocalCluster, LocalServer, free_ports
from parkazoo.protocol.placement import MAP
from tests.aio import aio_case
from tests.aio.aio_case import needs_aio
from tests.kazoo_suite.certificates import Authority, Credentials
from tests.live.map_case import output_of, run_command
from tests.live.secured import NETTY, SecuredTest, configure
from tests.live.test_top import load
from tests.live.world import DEADLINE_S, Seen, wait_until
from tests.where_is import where_is

X509 = "org.apache.zookeeper.server.auth.X509AuthenticationProvider"
KEY_PASSWORD = "of-the-key"


class Files:
    """PEM files in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority, self.stranger = Authority("ours"), Authority("another")
        self.ca = self.write("ca", self.authority.certificate)
        self.other_ca = self.write("other-ca", self.stranger.certificate)
        client = self.authority.issue("client")
        self.cert, self.key = self.write("cert", client.certificate), self.write("key", client.key)
        other = self.stranger.issue("client")
        self.other_cert, self.other_key = self.write("xcert", other.certificate), self.write("xkey", other.key)

    def write(self, name: str, data: bytes) -> str:
        path = self.folder / f"{name}.pem"
        path.write_bytes(data)
        return str(path)

    def keep(self, server: LocalServer, made: Credentials) -> str:
        """Write the key store of a server."""
        return self.write(f"server-{server.name}", made.key + made.certificate)

    def issue(self, server: LocalServer) -> str:
        return self.keep(server, self.authority.issue("localhost", HOST))


class TlsTest(SecuredTest):
    """Three ensembles, each with a port for TLS alone, which wants certificates, and one for plain text."""

    hosts: dict[str, str] = {}  # noqa: RUF012 - set once for the module

    @classmethod
    def setUpClass(cls) -> None:
        if not TlsTest.hosts:
            TlsTest.set_up()

    @classmethod
    def set_up(cls) -> None:
        folder = tempfile.TemporaryDirectory()
        unittest.addModuleCleanup(folder.cleanup)
        cls.files = files = Files(Path(folder.name))
        settings = {"serverCnxnFactory": NETTY, "authProvider.x509": X509, "ssl.trustStore.location": files.ca}
        cls.cluster = LocalCluster(3, 1, make_map=False, zoo_cfg=settings)
        unittest.addModuleCleanup(cls.cluster.stop)
        cls.cluster.start()
        cls.servers = {each.name: each.servers[0] for each in cls.cluster.ensembles}
        secure: dict[LocalServer, dict[str, str]] = {}
        for (name, server), port in zip(cls.servers.items(), free_ports(len(cls.servers)), strict=True):
            cls.hosts[name] = f"{HOST}:{port}"
            secure[server] = {"secureClientPort": str(port), "secureClientPortAddress": HOST}
            secure[server]["ssl.keyStore.location"] = files.issue(server)
        configure(secure)
        cls.options = {"use_ssl": True, "check_hostname": True, "ca": files.ca}
        cls.options |= {"certfile": files.cert, "keyfile": files.key}
        for hosts in cls.hosts.values():
            wait_until(lambda h=hosts: is_listening(h), f"{hosts} listens")
        cls.made = init_map(cls.hosts["a"], cls.hosts, **cls.options)


def is_listening(hosts: str) -> bool:
    host, _, port = hosts.partition(":")
    with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 1):
        return True
    return False


class TestWorks(TlsTest):
    def client(self, **options: Any) -> ParKazooClient:
        return self.parkazoo(self.hosts["a"], **{**self.options, **options})

    @property
    def tls(self) -> list[str]:
        return [f"--ca={self.files.ca}", f"--cert={self.files.cert}", f"--key={self.files.key}"]

    def test_everything(self) -> None:
        """Directories over two ensembles, watches, transactions, locks, queues; and a large value."""
        client, other = self.client(), self.client()
        client.join(timeout=DEADLINE_S)
        self.assertEqual({*client.members}, {*self.hosts})
        for number in range(12):
            path = f"/works/{number}"
            client.create(f"{path}/leaf", b"x" * 500_000, makepath=True)
            seen = Seen()
            self.assertEqual(other.get_children(path, watch=seen), ["leaf"])
            transaction = client.transaction()
            transaction.create(f"{path}/second")
            transaction.set_data(f"{path}/leaf", b"y" * 500_000)
            self.assertEqual(transaction.commit()[0], f"{path}/second")
            seen.wait()
            other.sync(path)
            self.assertEqual(other.get(f"{path}/leaf")[0], b"y" * 500_000)
        client.delete("/works", recursive=True)
        with client.Lock("/lock"):
            self.assertFalse(other.Lock("/lock").acquire(blocking=False))
        queue = client.LockingQueue("/queue")
        queue.put(b"item")
        self.assertEqual(other.LockingQueue("/queue").get(DEADLINE_S), b"item")
        results = [client.create_async("/many/n", sequence=True, makepath=True) for _ in range(1000)]
        self.assertEqual(len({result.get(timeout=DEADLINE_S) for result in results}), 1000)

    @needs_aio
    def test_asyncio(self) -> None:
        async def use() -> None:
            async with aio_case.ParKazooClient(self.hosts["a"], **self.options) as zk:
                paths = [f"/asyncio/{number}/leaf" for number in range(12)]
                await asyncio.gather(*(zk.create(path, b"x" * 500_000, makepath=True) for path in paths))
                values = await asyncio.gather(*map(zk.get, paths))
                self.assertEqual({value for value, _ in values}, {b"x" * 500_000})
                await zk.delete("/asyncio", recursive=True)

        asyncio.run(use())

    def test_deferred_writes(self) -> None:
        """Each is done once, though connections are lost between them."""
        client = self.client()
        paths = [client.create(f"/deferred/{number}/x", makepath=True) for number in range(6)]
        with client.deferred() as later:
            for number in range(6000):
                later.put(paths[number % 6], b"%d" % number)
                if number % 1500 == 700:
                    client._call(CONNECTION_DROP, None)
        self.assertEqual([client.retry(client.get, path)[1].version for path in paths], [1000] * len(paths))

    def test_reconnects_expires_and_resumes(self) -> None:
        client = self.client()
        self.hold(client)
        states = Seen()
        client.add_listener(states)
        client.ensure_path("/life")
        client.create("/life/e", ephemeral=True)
        configure({self.servers["b"]: {}})
        wait_until(lambda: KazooState.SUSPENDED in states and client.connected, "connected again")
        self.assertIsNotNone(client.exists("/life/e"))
        session = client.client_id
        resumed = self.client(client_id=session)  # from now on each takes the session from the other
        self.assertEqual(resumed.retry(resumed.exists, "/life/e").ephemeralOwner, session[0])
        self.expire(resumed, "c", self.hosts["c"], **self.options)
        wait_until(lambda: not client.exists("/life/e") if client.connected else False, "the session's end")

    def test_the_certificate_is_an_identity(self) -> None:
        """On every ensemble; the plain port of the same servers knows no identity."""
        client = self.client()
        acl = [make_acl("x509", "CN=client", all=True)]
        paths = [f"/mine/{number}" for number in range(12)]
        for path in paths:
            client.create(f"{path}/below", b"secret", acl=acl, makepath=True)
        stranger = self.kazoo(self.cluster.hosts)
        placement = self.made.make_placement()
        homes = [where_is(placement, f"{path}/below").home for path in paths]
        self.assertEqual({home.ensemble for home in homes}, {0, 1, 2})
        for ensemble, name in enumerate(self.servers):
            stranger = self.kazoo(self.servers[name].address)
            for home in homes:
                if home.ensemble == ensemble:
                    self.assertRaises(NoAuthError, stranger.get, home.path)

    def test_encrypted_key(self) -> None:
        made = self.files.authority.issue("client", password=KEY_PASSWORD)
        cert, key = self.files.write("ecert", made.certificate), self.files.write("ekey", made.key)
        client = self.client(certfile=cert, keyfile=key, keyfile_password=KEY_PASSWORD)
        self.assertIsNotNone(client.exists("/"))

    def test_without_a_look_at_the_certificate(self) -> None:
        """For users who want encryption alone."""
        client = self.client(ca=self.files.other_ca, verify_certs=False, check_hostname=False)
        self.assertIsNotNone(client.exists("/"))

    def test_administration(self) -> None:
        """The functions, and the command line."""
        self.assertEqual(read_map(self.hosts["a"], **self.options), self.made)
        self.assertEqual(check_map(self.hosts["a"], **self.options), [])
        self.assertEqual(init_map(self.hosts["a"], self.hosts, **self.options), self.made)
        ensembles = [f"--ensemble={name}={hosts}" for name, hosts in self.hosts.items()]
        for command in (
            ["map", "init", "--bootstrap", self.hosts["a"], *ensembles],
            ["map", "check", "--hosts", self.hosts["a"]],
            ["map", "show", "--hosts", self.hosts["a"]],
            ["where", "/works/1", "--hosts", self.hosts["a"]],
        ):
            status, out, err = run_command(*command, *self.tls)
            self.assertEqual((status, err), (0, ""), command)
            self.assertTrue(out)

    def test_top_follows(self) -> None:
        """The command's own watch names the hottest directory."""
        client = self.client()
        path = client.create("/followed/x", makepath=True)

        def is_named() -> bool:
            options = ["--hosts", self.hosts["a"], "--follow", "--once", "--interval=0.5", "--json"]
            found = json.loads(output_of("top", *options, *self.tls))
            names = [each["directory"] for each in found["directories"]]
            return not found["unseen"] and names[:1] == ["/followed"]

        with load(client, [path]):
            wait_until(is_named, "the directory's name")

    def test_by_another_name(self) -> None:
        self.asks_by_another_name(self.hosts["a"], **self.options | {"check_hostname": False})

    def test_servers_are_asked_over_tls(self) -> None:
        """What each says of itself, by a four-letter word."""
        found = read_status(self.hosts["a"], **self.options)
        self.assertEqual(
            [(each.server, each.trouble) for each in found.servers], [(h, None) for h in self.hosts.values()]
        )
        self.assertEqual([each.role for each in found.servers], ["standalone"] * 3)


class TestMistakes(TlsTest):
    """Each is in the time-out's message, or raises at once where the client can know by itself."""

    def told(self, ensemble: str, reason: str) -> str:
        """A message that names the ensemble, the server's address and the reason."""
        name = rf"ensemble {ensemble}" if ensemble != "a" else "the cluster"
        return rf"(?s){name} \({self.hosts[ensemble]}: .*{reason}.*\)"

    def refused(self, ensemble: str, reason: str, **options: Any) -> None:
        name = None if ensemble == "a" else ensemble
        self.times_out(name, self.told(ensemble, reason), self.hosts["a"], **{**self.options, **options})

    def test_in_bounded_time(self) -> None:
        self.fails(
            SequentialThreadingHandler.timeout_exception,
            self.told("a", "certificate verify failed"),
            self.hosts["a"],
            5,
            **{**self.options, "ca": self.files.other_ca},
        )

    def test_wrong_authority(self) -> None:
        self.refused("a", "certificate verify failed", ca=self.files.other_ca)
        self.refused("a", "certificate verify failed", ca=None)

    def test_no_certificate_or_a_stranger_s(self) -> None:
        self.refused("a", "", certfile=None, keyfile=None)
        self.refused("a", "", certfile=self.files.other_cert, keyfile=self.files.other_key)

    def test_servers_certificates(self) -> None:
        """Of the bootstrap ensemble, or of another one: expired, for another address, by a stranger."""
        bad = {
            "certificate has expired": self.files.authority.issue("localhost", HOST, has_expired=True),
            "IP address mismatch": self.files.authority.issue("localhost", "127.0.0.9"),
            "certificate verify failed": self.files.stranger.issue("localhost", HOST),
        }
        for name in ("a", "c"):
            server = self.servers[name]
            try:
                for reason, made in bad.items():
                    with self.subTest(reason, ensemble=name):
                        self.files.keep(server, made)
                        configure({server: {}})
                        self.refused(name, reason)
            finally:
                self.files.issue(server)
                configure({server: {}})

    def test_plain_text_to_tls(self) -> None:
        self.times_out(None, self.told("a", ""), self.hosts["a"])

    def test_tls_to_plain_text(self) -> None:
        """At the bootstrap ensemble; and at another, which the map gives with its plain port."""
        plain = self.servers["a"].address
        self.times_out(None, rf"the cluster \({plain}: .+\)", plain, **self.options)
        admin = self.kazoo(plain)
        self.addCleanup(admin.set, MAP, self.made.to_json())
        mixed = replace(self.made, ensembles={**self.hosts, "c": self.servers["c"].address})
        admin.set(MAP, mixed.to_json())
        address = self.servers["c"].address
        self.times_out("c", rf"ensemble c \({address}: .+\)", self.hosts["a"], **self.options)

    def test_files(self) -> None:
        """The client need not ask a server to know that they are wrong."""
        folder = self.files.folder
        made = self.files.authority.issue("client", password=KEY_PASSWORD)
        key = self.files.write("wkey", made.key)
        cert = self.files.write("wcert", made.certificate)
        nonsense = self.files.write("nonsense", b"nonsense")
        for pattern, options in (
            ("none.pem", {"ca": str(folder / "none.pem")}),
            ("none.pem", {"certfile": str(folder / "none.pem")}),
            ("none.pem", {"keyfile": str(folder / "none.pem")}),
            ("nonsense.pem", {"ca": nonsense}),
            ("nonsense.pem", {"certfile": nonsense}),
            ("xkey.pem", {"keyfile": self.files.other_key}),
            ("wkey.pem", {"certfile": cert, "keyfile": key}),
            ("wkey.pem", {"certfile": cert, "keyfile": key, "keyfile_password": "wrong"}),
            ("verify_certs", {"verify_certs": False}),
        ):
            with self.subTest(pattern, **options):
                self.fails(ConfigurationError, pattern, self.hosts["a"], DEADLINE_S, **{**self.options, **options})

    def test_administration(self) -> None:
        options = {**self.options, "ca": self.files.other_ca, "timeout_s": 1}
        with self.assertRaisesRegex(ClusterMapError, f"{self.hosts['a']}.*certificate verify failed"):
            read_map(self.hosts["a"], **options)
        status, _, err = run_command(
            "map", "show", "--hosts", self.hosts["a"], "--ca", self.files.other_ca, "--timeout", "1"
        )
        self.assertEqual(status, 1)
        self.assertIn("certificate verify failed", err)
        status, _, err = run_command("map", "show", "--hosts", self.hosts["a"], "--ca", "none", "--timeout", "1")
        self.assertEqual(status, 2)
        status, _, err = run_command("map", "check", "--hosts", self.hosts["a"], "--timeout", "1")
        self.assertEqual(status, 1)
        self.assertIn("TLS?", err)
