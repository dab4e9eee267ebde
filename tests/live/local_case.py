"""What the tests of local ensembles share."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Callable, Iterator
from pathlib import Path

from parkazoo import local
from parkazoo.local import LocalCluster, free_ports
from parkazoo.local.waiting import wait_until

WAIT_S = 30.0
CALL = "from parkazoo.cli import main; main()"


def is_listening(address: str) -> bool:
    """Also True of a frozen server: only the end of the process closes its port."""
    host, _, port = address.rpartition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


@contextlib.contextmanager
def taken_port() -> Iterator[int]:
    with socket.socket() as other:
        other.bind((local.HOST, free_ports(1)[0]))
        other.listen()
        yield other.getsockname()[1]


class LocalCase(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="parkazoo-test-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        self.assertTrue(wait_until(condition, WAIT_S), what)

    def cluster(self, ensembles: int = 1, servers: int = 1, data: Path | None = None) -> LocalCluster:
        cluster = LocalCluster(ensembles, servers, data, make_map=False)
        self.addCleanup(cluster.stop)
        cluster.start()
        return cluster

    def python(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments],
            env={**os.environ, "COLUMNS": "200", **environment},
            capture_output=True,
            text=True,
            timeout=2 * WAIT_S,
            check=False,
        )
