"""What the tests of TLS, SASL and secrets share: servers with other settings, failing starts, ended sessions."""

from __future__ import annotations

import itertools
import re
import threading
import unittest
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest import mock

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionClosedError

from parkazoo import ParKazooClient
from parkazoo.admin import read_map
from parkazoo.local import HOST, LocalCluster, LocalServer
from parkazoo.wire import same_ensemble
from tests.live.world import DEADLINE_S, end_session, sockets, wait_until

NETTY = "org.apache.zookeeper.server.NettyServerCnxnFactory"


def configure(settings_of: Mapping[LocalServer, Mapping[str, str]]) -> None:
    """Change lines of the servers' ``zoo.cfg``, restart them, and wait until they serve."""
    for server, settings in settings_of.items():
        file = server.data / "zoo.cfg"
        lines = dict(line.split("=", 1) for line in file.read_text().splitlines())
        file.write_text("".join(f"{key}={value}\n" for key, value in (lines | dict(settings)).items()))
        server.restart()
    for server in settings_of:
        server.wait_serving()


class SecuredTest(unittest.TestCase):
    """A test against `cluster`. Every client that it makes ends with it."""

    cluster: LocalCluster

    def parkazoo(self, hosts: str, *, start: bool = True, **options: Any) -> ParKazooClient:
        return self._begin(ParKazooClient(hosts, **options), start)

    def kazoo(self, hosts: str, **options: Any) -> KazooClient:
        return self._begin(KazooClient(hosts, **options), True)

    def _begin(self, client: Any, start: bool) -> Any:
        self.addCleanup(client.close)
        self.addCleanup(client.stop)
        if start:
            client.start(DEADLINE_S)
        return client

    def asks_by_another_name(self, hosts: str, **options: Any) -> None:
        """No map names the server so: those that it names are asked whether they are one ensemble with it."""
        ask, answers = same_ensemble._has_registration, list[Any]()

        def asked(*arguments: Any) -> Iterator[Any]:
            found = yield from ask(*arguments)
            answers.append(found)
            return found

        other = hosts.replace(HOST, "localhost")
        with mock.patch.object(same_ensemble, "_has_registration", asked):
            client = self.parkazoo(other, **options)
        client.join(timeout=DEADLINE_S)
        self.assertEqual(answers, [True])
        self.assertEqual(read_map(other, **options), client.cluster_map)

    @contextmanager
    def nothing_left(self) -> Iterator[None]:
        """After the block there are no more threads and sockets than before it."""
        before = threading.active_count(), len(sockets())
        yield
        wait_until(
            lambda: threading.active_count() <= before[0] and len(sockets()) <= before[1],
            f"{threading.enumerate()} and {sockets()}, at first {before}",
        )

    def fails(self, kind: type[BaseException], pattern: str, hosts: str, timeout_s: float, **options: Any) -> None:
        """start() raises `kind` with a message that fits, and leaves nothing running."""
        with self.nothing_left():
            client = ParKazooClient(hosts, **options)
            with self.assertRaisesRegex(kind, pattern):
                client.start(timeout_s)
            self.assertFalse(client.connected)
            self.assertRaises((kind, ConnectionClosedError), client.get, "/")

    def times_out(self, ensemble: str | None, pattern: str, hosts: str, **options: Any) -> None:
        """An ensemble cannot be joined; the time-out, whenever it comes, says so and why.

        :param ensemble: None: the first, which `hosts` leads to.
        """
        with self.nothing_left():
            client = ParKazooClient(hosts, **options)
            if ensemble is None:
                client.start_async()
            else:
                client.start(DEADLINE_S)
                self.assertRaises(client.handler.timeout_exception, client.join, ensemble, timeout=0.01)
            # A server that has just been restarted may first refuse the connection.
            wait_until(lambda: re.search(pattern, client._session.roster.describe_missing()), f"why: {pattern}")
            with self.assertRaisesRegex(client.handler.timeout_exception, pattern):
                if ensemble is None:
                    client.start(0.01)
                else:
                    client.join(ensemble, timeout=0.01)
            client.stop()
            client.close()
            self.assertRaises(ConnectionClosedError, client.get, "/")

    def hold(self, client: ParKazooClient) -> None:
        """Have the client make an ephemeral on each ensemble, so that it has something to lose there."""
        assert client.cluster_map is not None
        placement = client.cluster_map.make_placement()
        missing = {*range(len(client.cluster_map.names))}
        for parent in (f"/held/{number}" for number in itertools.count()):
            if (ensemble := placement.of_children(parent)) in missing:
                client.create(f"{parent}/e", ephemeral=True, sequence=True, makepath=True)
                missing.remove(ensemble)
            if not missing:
                return

    def expire(self, client: ParKazooClient, ensemble: str, hosts: str, **options: Any) -> None:
        """End the client's session on one ensemble behind its back."""
        member = client.members[ensemble]
        session = wait_until(lambda: member.client_id, "its session, which another client may have taken")
        end_session(session, hosts, **options)
