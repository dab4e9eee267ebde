"""What the tests of the cluster map share: three ensembles that are empty before each test."""

from __future__ import annotations

import atexit
import contextlib
import io
import json
import logging
import os
import pty
import socket
import subprocess
import sys
import threading
import unittest
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any
from unittest import mock

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from parkazoo import ParKazooClient
from parkazoo.admin import MapProblem, check_map
from parkazoo.cli import main
from parkazoo.errors import ClusterMapError
from parkazoo.local import LocalCluster
from parkazoo.protocol.cluster_map import ClusterMap
from parkazoo.protocol.placement import CLIENTS, ENSEMBLE, FENCES, MAP
from tests.handlers import make_handler
from tests.live.world import Seen

FEW_FENCES = 8
SOON_S = 0.05  # between two looks for strangers, which the plain clients of these tests are and stay
UNREACHABLE_TIMEOUT_S = 8.0  # a server that does live answers in less, on a busy machine too
COMMAND_TIMEOUT_S = 120.0
IDENTITY = ("digest", "admin:secret-of-admin")


@cache
def empty_ensembles() -> tuple[LocalCluster, list[KazooClient]]:
    """The process's three ensembles without a map, and a client of each; they are started when first asked for."""
    cluster = LocalCluster(ensembles=3, servers=1, make_map=False)
    cluster.start()
    atexit.register(cluster.stop)
    plain = [KazooClient(each.hosts, auth_data=[IDENTITY]) for each in cluster.ensembles]
    for client in plain:
        client.start(30)
        atexit.register(client.stop)
    return cluster, plain


class MapCase(unittest.TestCase):
    """Three ensembles of one server, empty before each test; only as many fences as a test needs, and short pauses
    between two looks for strangers.
    """

    @classmethod
    def setUpClass(cls) -> None:
        cls.cluster, cls.plain = empty_ensembles()
        cls.a, cls.b, cls.c = (each.hosts for each in cls.cluster.ensembles)
        cls.all = {"a": cls.a, "b": cls.b, "c": cls.c}

    def setUp(self) -> None:
        for client in self.plain:
            wipe(client)
        for name, value in (("contents.FENCE_COUNT", FEW_FENCES), ("strangers.LOOK_EVERY_S", SOON_S)):
            patch = mock.patch(f"parkazoo.admin.{name}", value)
            patch.start()
            self.addCleanup(patch.stop)

    def publish(self, changed: ClusterMap) -> None:
        """Write that map to all ensembles, of the same epoch or not."""
        for client in self.plain:
            client.set(MAP, changed.to_json())

    @contextlib.contextmanager
    def refused(self, pattern: str) -> Iterator[None]:
        """The block raises a ClusterMapError and writes nothing."""
        before = [dump(client) for client in self.plain]
        with self.assertRaisesRegex(ClusterMapError, pattern):
            yield
        self.assertEqual([dump(client) for client in self.plain], before)

    def client(self, hosts: str | None = None) -> tuple[ParKazooClient, Seen]:
        """Its states are seen from its first CONNECTED on."""
        client = ParKazooClient(hosts or self.a, handler=make_handler())
        self.addCleanup(client.close)
        self.addCleanup(client.stop)
        client.start()
        states = Seen()
        client.add_listener(states)
        return client, states

    def at_once(self, *calls: Callable[[], Any]) -> list[Any]:
        """What each returns, or raises."""
        barrier = threading.Barrier(len(calls))
        results: list[Any] = [None] * len(calls)

        def run(index: int) -> None:
            barrier.wait()
            try:
                results[index] = calls[index]()
            except Exception as error:
                results[index] = error

        threads = [threading.Thread(target=run, args=(index,)) for index in range(len(calls))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(COMMAND_TIMEOUT_S)
        return results


def wipe(client: KazooClient) -> None:
    with contextlib.suppress(NoNodeError):
        fences = client.get_children(FENCES)
        for start in range(0, len(fences), 256):
            transaction = client.transaction()
            for name in fences[start : start + 256]:
                transaction.delete(f"{FENCES}/{name}")
            transaction.commit()
    for name in client.get_children("/"):
        if name != "zookeeper":
            client.delete(f"/{name}", recursive=True)


def dump(client: KazooClient, path: str = "/") -> dict[str, tuple[bytes, int, int]]:
    """Every znode with data, id of creation and of change.

    But for what clients write when they can: registrations, and now and then what the ensemble's znode holds.
    """
    data, stat = client.get(path)
    found = {path: (data, stat.czxid, stat.mzxid if path != ENSEMBLE else 0)}
    for name in client.get_children(path):
        child = path.rstrip("/") + "/" + name
        if child != "/zookeeper" and path != CLIENTS:
            found |= dump(client, child)
    return found


def run_command(*arguments: str, **environment: str) -> tuple[int, str, str]:
    """Exit status, stdout and stderr of ``parkazoo``, run in this process.

    Where logging is not set up, as under unittest, its lines go to stderr, whatever that is at the moment. Those
    of the test's own clients are none of the command's: they go where they would without it. Warnings are shown as
    in a process of the command's own, not as unittest shows them.
    """
    out, err = io.StringIO(), io.StringIO()
    unhandled = logging.StreamHandler()
    unhandled.setLevel(logging.WARNING)
    with (
        mock.patch.object(logging, "lastResort", unhandled),
        warnings.catch_warnings(),
        mock.patch.object(sys, "argv", ["parkazoo", *arguments]),
        mock.patch.dict(os.environ, {"COLUMNS": "200", **environment}),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        for unshown in (DeprecationWarning, ResourceWarning):
            warnings.simplefilter("ignore", unshown)
        try:
            main()
        except SystemExit as end:
            status = end.code
    assert isinstance(status, int)
    return status, out.getvalue(), err.getvalue()


def output_of(*arguments: str, **environment: str) -> str:
    """Stdout of ``parkazoo``, which succeeds and complains of nothing."""
    status, out, err = run_command(*arguments, **environment)
    assert (status, err) == (0, ""), f"{arguments} ended with status {status}; stderr:\n{err}\nstdout:\n{out}"
    return out


def error_of(*arguments: str, status: int = 1, out: str | None = None, **environment: str) -> str:
    """Stderr of ``parkazoo``, which fails.

    :param out: what it shows on stdout; None: whatever it likes.
    """
    ended, shown, err = run_command(*arguments, **environment)
    is_expected = ended == status and out in (None, shown)
    assert is_expected, f"{arguments} ended with status {ended}; stderr:\n{err}\nstdout:\n{shown}"
    return err


def run_on_a_terminal(typed: str, *arguments: str) -> str:
    """What ``parkazoo`` shows on a terminal on which that is typed, in a process of its own."""
    ours, its = pty.openpty()
    with os.fdopen(ours, "r+b", buffering=0) as terminal:
        try:
            process = subprocess.Popen(
                [sys.executable, "-m", "parkazoo", *arguments],
                stdin=its,
                stdout=its,
                stderr=its,
                env={**os.environ, "COLUMNS": "200", "TERM": "dumb"},
            )
        finally:
            os.close(its)
        terminal.write(typed.encode())
        shown = b""
        with contextlib.suppress(OSError):  # so Linux says that nobody has the other end any more
            while part := terminal.read(1 << 16):
                shown += part
        process.wait(COMMAND_TIMEOUT_S)
    return shown.decode().replace("\r\n", "\n")


def check_but_strangers(hosts: str, **options: Any) -> list[MapProblem]:
    """What `check_map` finds, but the sessions of these tests, which are plain kazoo's."""
    with mock.patch("parkazoo.admin.strangers.LOOK_EVERY_S", 0.0):
        return [each for each in check_map(hosts, **options) if "not registered" not in each.problem]


def assert_found(test: unittest.TestCase, hosts: str, *expected: tuple[str, str, bool]) -> None:
    """`map check` and `status` find exactly that, as text and as JSON, and their exit statuses say so.

    :param expected: of each finding the ensemble, a pattern of the problem, and whether it is a warning.
    """
    status = 0 if all(is_warning for _, _, is_warning in expected) else 1
    for command in (("map", "check"), ("status",)):
        found, out, err = run_command(*command, "--json", "--hosts", hosts)
        test.assertEqual(err, "")
        findings = json.loads(out)["findings"]
        told = [(each["ensemble"], each["problem"], each["is_warning"]) for each in findings]
        test.assertEqual(len(told), len(expected), told)
        for (name, problem, is_warning), (wanted, pattern, weight) in zip(told, expected, strict=True):
            test.assertEqual((name, is_warning), (wanted, weight), problem)
            test.assertRegex(problem, pattern)
        test.assertTrue(all(each["remedy"] for each in findings))
        test.assertEqual(found, status, told)
        shown, out, _ = run_command(*command, "--hosts", hosts, COLUMNS="2000")
        test.assertEqual(shown, status, out)
        for name, pattern, _ in expected:
            test.assertRegex(out, rf"(?s){name} .*{pattern.lstrip('^').partition(':')[0]}")


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def other_spelling(hosts: str) -> str:
    """The same server under another host name."""
    return hosts.replace("127.0.0.1", "localhost")
