"""No password in any log, repr or error, over the whole life of clients and commands."""

from __future__ import annotations

import logging
import socket
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kazoo.client import KazooState
from kazoo.exceptions import AuthFailedError, NoAuthError
from kazoo.security import CREATOR_ALL_ACL, make_digest_acl

from parkazoo import ParKazooClient
from parkazoo.admin import add_identity, check_map, init_map, read_map
from parkazoo.local import LocalCluster
from tests.kazoo_suite.certificates import Authority
from tests.live.map_case import run_command
from tests.live.secured import NETTY, SecuredTest
from tests.live.world import DEADLINE_S, Seen, wait_until

KEY_PASSWORD, WRONG_KEY_PASSWORD = "hush-of-the-key", "hush-not-of-the-key"
SASL_PASSWORD, WRONG_SASL_PASSWORD = "hush-of-sasl", "hush-not-of-sasl"
FIRST, SECOND, CLUSTER = "hush-first", "hush-second", "hush-of-the-cluster"
NO_SCHEME = "hush-no-scheme"
SECRETS = {
    KEY_PASSWORD, WRONG_KEY_PASSWORD, SASL_PASSWORD, WRONG_SASL_PASSWORD, FIRST, SECOND, CLUSTER, NO_SCHEME,
}  # fmt: skip
USERS = ("ann", "o'neil")
EVERYTHING = 1  # kazoo has a level below DEBUG
JAAS = f"""
Server {{
    org.apache.zookeeper.server.auth.DigestLoginModule required
    user_ann="{SASL_PASSWORD}";
}};
"""


class Log(logging.Handler):
    """Remembers all that is logged, tracebacks included."""

    def __init__(self) -> None:
        super().__init__(EVERYTHING)
        self.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))

    @contextmanager
    def listening(self) -> Iterator[None]:
        loggers = [logging.getLogger(name) for name in ("", "kazoo", "kazoo.client", "parkazoo", "parkazoo.admin")]
        levels = [each.level for each in loggers]
        propagate = logging.getLogger().handlers[:]
        for each in loggers:
            each.setLevel(EVERYTHING)
        logging.getLogger().handlers[:] = [self]
        try:
            yield
        finally:
            logging.getLogger().handlers[:] = propagate
            for each, level in zip(loggers, levels, strict=True):
                each.setLevel(level)


class TestSecrets(SecuredTest):
    @classmethod
    def setUpClass(cls) -> None:
        temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(temporary.cleanup)
        cls.folder = folder = Path(temporary.name)
        authority = Authority()
        server, client = authority.issue("localhost", "127.0.0.1"), authority.issue("me", password=KEY_PASSWORD)
        files = {"ca": authority.certificate, "server": server.key + server.certificate}
        files |= {"cert": client.certificate, "key": client.key, "other": Authority("other").certificate}
        for name, data in files.items():
            (folder / f"{name}.pem").write_bytes(data)
        (folder / "jaas.conf").write_text(JAAS)
        cls.cluster = LocalCluster(
            3,
            1,
            make_map=False,
            zoo_cfg={
                "serverCnxnFactory": NETTY,
                "client.portUnification": "true",
                "ssl.keyStore.location": str(folder / "server.pem"),
                "ssl.trustStore.location": str(folder / "ca.pem"),
                "authProvider.x509": "org.apache.zookeeper.server.auth.X509AuthenticationProvider",
                "authProvider.sasl": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
            },
            jvm_flags=[f"-Djava.security.auth.login.config={folder / 'jaas.conf'}"],
        )
        cls.addClassCleanup(cls.cluster.stop)
        cls.cluster.start()
        cls.sasl = {"mechanism": "DIGEST-MD5", "username": "ann", "password": SASL_PASSWORD}
        cls.tls = {"use_ssl": True, "ca": str(folder / "ca.pem"), "certfile": str(folder / "cert.pem")}
        cls.tls |= {"keyfile": str(folder / "key.pem"), "keyfile_password": KEY_PASSWORD}

    def setUp(self) -> None:
        self.shown: list[str] = []
        self.secrets = set(SECRETS)

    def show(self, *things: object) -> None:
        for thing in things:
            self.shown += [repr(thing), str(thing)]
            if isinstance(thing, BaseException):
                self.shown += traceback.format_exception(thing)

    def show_error(self, call: Callable[[], Any]) -> None:
        with self.assertRaises(Exception) as caught:
            call()
        self.show(caught.exception)

    def show_client(self, client: ParKazooClient) -> None:
        """And take down the passwords of its sessions."""
        self.show(client, *client.members.values(), client.cluster_map, client._connection, client._session)
        for member in client.members.values():
            _, password = wait_until(lambda m=member: m.client_id, "its session")
            self.secrets |= {password.hex(), str(password)[2:-1]}

    def show_command(self, *arguments: str, **environment: str) -> int:
        status, out, err = run_command(*arguments, **environment)
        self.shown += [out, err]
        return status

    def test_whole_lives(self) -> None:
        """Nor a digest, whatever the quotes that repr() takes."""
        log = Log()
        with log.listening():
            self.administration()
            self.life()
            self.failures()
            self.commands()
        self.assertTrue(any("Auth(" in line for line in log.lines), "the log is listened to")
        self.assertTrue(any("Connect(" in line for line in log.lines), "kazoo's lowest level too")
        self.assertGreater(len(self.secrets), len(SECRETS) + 6)
        told = [(secret, line) for line in log.lines + self.shown for secret in self.secrets if secret in line]
        digests = [make_digest_acl(user, FIRST).id.id.partition(":")[2] for user in USERS]
        told += [(digest, line) for digest in digests for line in log.lines if digest in line]
        self.assertEqual(told[:5], [])
        for quote in ("'ann", "\"o'neil"):
            self.assertTrue(any(f"id={quote}:..." in line for line in log.lines), quote)

    def administration(self) -> None:
        hosts = {each.name: each.hosts for each in self.cluster.ensembles}
        identity = {"auth": [("digest", f"admin:{CLUSTER}")]}
        self.show(init_map(self.cluster.hosts, hosts, closed=True, **identity, **self.tls))
        self.show(read_map(self.cluster.hosts, **identity), check_map(self.cluster.hosts, **identity))
        wrong = {"sasl_options": {**self.sasl, "password": WRONG_SASL_PASSWORD}}
        self.show_error(lambda: read_map(self.cluster.hosts, **wrong))
        self.show_error(lambda: read_map(self.cluster.hosts, auth=[("digest", f"admin:{SECOND}")]))
        self.show_error(lambda: read_map(self.cluster.hosts, auth=[("no-scheme", NO_SCHEME)]))
        self.show_error(lambda: add_identity(self.cluster.hosts, ("no-scheme", NO_SCHEME), **identity))
        self.show_error(
            lambda: read_map(self.cluster.hosts, **{**self.tls, "keyfile_password": WRONG_KEY_PASSWORD})
        )

    def life(self) -> None:
        identities = [("digest", f"admin:{CLUSTER}"), ("digest", f"ann:{FIRST}")]
        client = self.parkazoo(self.cluster.hosts, auth_data=identities, sasl_options=dict(self.sasl), **self.tls)
        self.hold(client)
        self.show_client(client)
        client.add_auth("digest", f"bob:{SECOND}")
        acl = [make_digest_acl(user, FIRST, all=True) for user in USERS]
        for number in range(6):
            client.create(f"/secret/{number}/x", acl=acl, makepath=True)
            client.set_acls(f"/secret/{number}", acl)
            client.get_acls(f"/secret/{number}")
        transaction = client.transaction()
        transaction.create("/secret/0/y", acl=acl)
        transaction.commit()
        stranger = self.parkazoo(self.cluster.hosts, auth_data=identities[:1])
        self.show_error(lambda: stranger.set("/secret/0", b""))
        states = Seen()
        client.add_listener(states)
        client._connection._socket.shutdown(socket.SHUT_RDWR)
        wait_until(lambda: KazooState.SUSPENDED in states and client.connected, "connected again")
        self.show_client(client)
        client.stop()
        self.show(client)
        # Without SASL: a connection that is lost in its handshake, to a thief of the session too, is AUTH_FAILED.
        client = self.parkazoo(self.cluster.hosts, auth_data=identities, **self.tls)
        self.hold(client)
        states = Seen()
        client.add_listener(states)
        resumed = self.parkazoo(self.cluster.hosts, client_id=client.client_id, auth_data=identities)
        self.expire(resumed, "c", self.cluster.ensembles[2].hosts)
        wait_until(lambda: KazooState.LOST in states and client.connected, "a new session")
        client.join(timeout=DEADLINE_S)  # the others have new ones too
        self.show_client(client)
        client.create("/secret/of-all", acl=CREATOR_ALL_ACL)
        client.stop()
        self.show(client)

    def failures(self) -> None:
        def start(**options: Any) -> None:
            client = self.parkazoo(self.cluster.hosts, start=False, **options)
            try:
                client.start(0.5)
            finally:
                self.show(client, *client.members.values())

        identity = [("digest", f"admin:{CLUSTER}")]
        self.show_error(lambda: start(sasl_options={**self.sasl, "password": WRONG_SASL_PASSWORD}))
        self.show_error(lambda: start(sasl_options={**self.sasl, "mechanism": "NONE"}))
        self.show_error(lambda: start(auth_data=[("no-scheme", NO_SCHEME)]))
        self.show_error(lambda: start(auth_data=[("digest", f"ann:{FIRST}")]))
        self.show_error(lambda: start(**{**self.tls, "keyfile_password": WRONG_KEY_PASSWORD}))
        self.show_error(lambda: start(auth_data=identity, **{**self.tls, "ca": str(self.folder / "other.pem")}))
        client = self.parkazoo(self.cluster.hosts, auth_data=identity)
        self.assertRaises(NoAuthError, client.get, "/secret/0")
        self.show_error(lambda: client.add_auth("no-scheme", NO_SCHEME))
        self.show_error(lambda: client.get("/"))
        with self.assertRaises(AuthFailedError):
            client.get("/")

    def commands(self) -> None:
        hosts = self.cluster.hosts
        self.assertEqual(
            self.show_command("map", "show", "--hosts", hosts, "--auth", f"digest:admin:{CLUSTER}"), 0
        )
        self.assertEqual(
            self.show_command("map", "check", "--hosts", hosts, PARKAZOO_AUTH=f"digest:admin:{CLUSTER}"), 0
        )
        about = ["--hosts", hosts, "--auth", f"digest:admin:{CLUSTER}"]
        for command in (["add"], ["remove", "--yes"]):
            self.assertEqual(self.show_command("map", "identity", *command, f"digest:next:{SECOND}", *about), 0)
            self.assertNotEqual(self.show_command("map", "identity", *command, SECOND, *about), 0)
        self.assertEqual(self.show_command("map", "log", *about), 0)
        for arguments in (
            ["--auth", FIRST],
            ["--auth", f"digest:admin:{FIRST}"],
            ["--auth", f"no-scheme:{NO_SCHEME}"],
            ["--auth", f"digest:admin:{CLUSTER}", "--ca", str(self.folder / "other.pem"), "--timeout", "1"],
            ["--auth", f"digest:admin:{CLUSTER}", "--timeout", "none"],
        ):
            self.assertNotEqual(self.show_command("where", "/x", "--hosts", hosts, *arguments), 0)
        self.assertNotEqual(self.show_command("map", "check", "--hosts", hosts, PARKAZOO_AUTH=SECOND), 0)
        self.assertEqual(self.show_command("map", "check", "--help", PARKAZOO_AUTH=SECOND), 0)
