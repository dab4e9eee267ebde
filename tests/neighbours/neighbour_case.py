"""What the tests of programs in other languages share: a cluster, a gateway, how to build and run a program."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from bench import ROOT
from parkazoo.local import LocalCluster, Machine
from tests.live.gateway_process import GatewayProcess
from tests.live.world import LiveTest

HERE = Path(__file__).parent
BUILT = ROOT / "build" / "neighbours"
BUILD_S = 1800.0  # on a machine that is busy with other tests; the first time it downloads
RUN_S = 280.0  # a test has 300
ZOO_CFG = {"maxSessionTimeout": "300000"}  # in ms: what holds a program up for a minute expires none


class Tool:
    """A program that builds or runs others.

    :param elsewhere: folders in which it may be besides those in PATH. :param install: what to say without it.
    """

    def __init__(self, name: str, install: str, elsewhere: Sequence[str] = ()) -> None:
        places = os.pathsep.join([os.environ.get("PATH", os.defpath), *map(os.path.expanduser, elsewhere)])
        found = shutil.which(name, path=places)
        assert found is not None, f"there is no {name}: {install}"
        self.path = found
        self._install = install

    def run(self, *arguments: str | Path, folder: Path) -> str:
        """Run it; what it has printed. If its status is not 0 that is the failure."""
        done = subprocess.run(
            [self.path, *arguments], cwd=folder, capture_output=True, text=True, timeout=BUILD_S, check=False
        )
        assert done.returncode == 0, (
            f"{self.path}: {done.stdout}\n{done.stderr}\n(does it lack something? {self._install})"
        )
        return done.stdout


@cache
def neighbours_cluster() -> LocalCluster:
    """The process's three ensembles of one server each."""
    cluster = LocalCluster(ensembles=3, servers=1, zoo_cfg=ZOO_CFG)
    cluster.start()
    atexit.register(cluster.stop)
    return cluster


class NeighbourTest(LiveTest):
    """A test with a folder for files, at `folder`."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.cluster = neighbours_cluster()

    def setUp(self) -> None:
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def new_gateway(self, name: str, machine: Machine = Machine()) -> GatewayProcess:  # noqa: B008 - a tuple
        """One that serves on that machine, on loopback, with a table of its own."""
        gateway = GatewayProcess(self.cluster.hosts, self.folder / name, inside=machine.argv)
        self.addCleanup(gateway.end)
        gateway.start()
        return gateway

    def check_calls(self, command: Sequence[str]) -> None:
        """Let a program make its calls at a gateway, below a path of its own."""
        root = self.new_root(self.parkazoo())
        gateway = self.new_gateway("table")
        arguments = [*command, "calls", f"127.0.0.1:{gateway.port}", f"{root}/calls"]
        done = subprocess.run(
            arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=RUN_S, check=False
        )
        self.assertEqual(done.returncode, 0, done.stdout)
