"""The servers of a drill, the operator's commands, and what was done to whom when."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from kazoo.client import KazooClient

from bench import ROOT
from parkazoo.local import LocalCluster, LocalClusterError, LocalServer
from parkazoo.local.servers import LocalEnsemble
from tests.drills.page import addressed, commands
from tests.faults.load import Fault

SESSION_TIMEOUT_S = 10.0  # of the clients
SERVING_TIMEOUT_S = 120.0
COMMAND_TIMEOUT_S = 900.0
DATA = "version-2"  # the servers' name for the folder


class Stage:
    """Does the operator's work.

    :param tell: called with each step, in words.
    """

    def __init__(self, cluster: LocalCluster, tell: Callable[[str], None]) -> None:
        self.cluster = cluster
        self.faults: list[Fault] = []
        self._tell = tell
        self._addresses = {each.name: each.address for ensemble in cluster.ensembles for each in ensemble.servers}

    def commands(self, page: Path, values: Mapping[str, str]) -> list[list[str]]:
        """Returns those of a page, given from the root of the checkout."""
        return commands((ROOT / page).read_text(), values)

    def run(self, arguments: list[str], statuses: Collection[int] = (0,)) -> str:
        """Run `parkazoo` as an operator does, with this cluster's addresses. Returns what it prints.

        :raises LocalClusterError: its exit status is none of these.
        """
        self._tell(f"parkazoo {' '.join(arguments)}")
        done = subprocess.run(
            [sys.executable, "-m", "parkazoo", *addressed(arguments, self._addresses)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=COMMAND_TIMEOUT_S,
            check=False,
        )
        if done.returncode not in statuses:
            raise LocalClusterError(f"parkazoo {arguments[0]} ended with {done.returncode}: {done.stdout.strip()}")
        return done.stdout

    def restart(self, server: LocalServer, role: str) -> None:
        """End the server, as an init system does, and start it, without waiting until it serves."""
        self._tell(f"{server.name} ({role}) is restarted")
        began_s = time.monotonic()
        server.stop()
        stopped_s = time.monotonic()
        server.start()
        self.faults.append(Fault(began_s, float("inf"), "restart", server.name, role, stopped_s, stopped_s))

    def lose_data(self, server: LocalServer, role: str) -> None:
        """Kill the server and delete its data; `start` puts an empty one in its place, with its settings."""
        self._tell(f"{server.name} ({role}) loses its data")
        began_s = time.monotonic()
        server.kill()
        shutil.rmtree(server.data / "data" / DATA)
        self.faults.append(
            Fault(began_s, float("inf"), "replace", server.name, role, time.monotonic(), float("inf"))
        )

    def start(self, server: LocalServer) -> None:
        """Start the server for which `lose_data` was the last step, without waiting until it serves."""
        self._tell(f"{server.name} starts")
        self.faults[-1] = self.faults[-1]._replace(until_s=time.monotonic())
        server.start()

    def take_away(self, ensemble: LocalEnsemble, seconds: float) -> None:
        """End all servers of an ensemble at once, and start them after that time."""
        self._tell(f"the servers of {ensemble.name} end")
        began_s = time.monotonic()
        for server in ensemble.servers:
            server.kill()
        away_s = time.monotonic()
        time.sleep(seconds)
        self._tell(f"the servers of {ensemble.name} start")
        back_s = time.monotonic()
        for server in ensemble.servers:
            server.start()
        self.faults.append(Fault(began_s, float("inf"), "ensemble away", ensemble.name, "kill", away_s, back_s))

    def copy_data(self, server: LocalServer, to: Path) -> None:
        """Copy a server's data, which is stopped for that. They have every write from before."""
        client = KazooClient(server.address)
        client.start(SERVING_TIMEOUT_S)
        try:
            client.create("/copied", ephemeral=True)  # it has seen its own write
        finally:
            client.stop()
            client.close()
        self._tell(f"{server.name} is stopped, and its data are copied")
        server.stop()
        shutil.copytree(server.data / "data" / DATA, to)
        server.start()
        server.wait_serving(SERVING_TIMEOUT_S)

    def restore_data(self, ensemble: LocalEnsemble, copied: Path) -> None:
        """Have all servers of an ensemble begin with data of `copy_data`; wait until they serve."""
        self._tell(f"the servers of {ensemble.name} are stopped, and begin with these data")
        for server in ensemble.servers:
            server.stop()
        for server in ensemble.servers:
            shutil.rmtree(server.data / "data" / DATA)
            shutil.copytree(copied, server.data / "data" / DATA)
            server.start()
        self.settle()

    def settle(self) -> None:
        """Wait until all servers serve: what was done to them is over."""
        for ensemble in self.cluster.ensembles:
            for server in ensemble.servers:
                server.wait_serving(SERVING_TIMEOUT_S)
        self.note_end()

    def note_end(self) -> None:
        """All servers serve: what was done to them is over now, if it was not before."""
        now_s = time.monotonic()
        self.faults = [each._replace(ended_s=min(each.ended_s, now_s)) for each in self.faults]
