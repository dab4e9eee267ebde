"""Several local ensembles, started together."""

from __future__ import annotations

import os
import shutil
import string
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType

from parkazoo.admin import init_map
from parkazoo.local.addresses import ServerPorts, choose_ports
from parkazoo.local.class_data import class_data_flags
from parkazoo.local.cluster_error import LocalClusterError
from parkazoo.local.folder import State, lock_folder, recall, remember_pids
from parkazoo.local.jars import find_zookeeper
from parkazoo.local.java import find_java
from parkazoo.local.servers import (
    LocalEnsemble,
    LocalServer,
    Machine,
    find_servers,
    start_all,
    stop_all,
    wait_all_serving,
    wait_if_quorum,
)
from parkazoo.local.settings import ZOO_CFG, format_zoo_cfg, lay_out, server_command
from parkazoo.local.supervisor import Supervisor
from parkazoo.local.waiting import wait_until

START_TIMEOUT_S = 90.0
ATTEMPTS = 5
ENDING_S = 3.0  # servers whose supervisor was killed may not have ended yet
SUPERVISOR_LOG = "supervisor.log"


class LocalCluster:
    """Runs several ensembles of real ZooKeeper servers; they are ready when the context is entered.

    :param ensembles: their number, at most 26; their names are a, b, c, ...
    :param servers: the number of servers of each ensemble.
    :param data: folder for the servers' files, kept afterwards. If a cluster was there before, it returns with its
        znodes and ports. None: a temporary folder, deleted at the end.
    :param make_map: whether to make the cluster map at the first start in a folder. Later starts change no map.
    :param zoo_cfg: lines for every server's ``zoo.cfg``, over the defaults.
    :param jvm_flags: more flags for every server's JVM.
    :param progress: called with a line of text before each step that takes time.
    :param machine_of: from a server's name to its machine; 127.0.0.1 by default.
    """

    def __init__(
        self,
        ensembles: int = 3,
        servers: int = 3,
        data: Path | str | None = None,
        *,
        make_map: bool = True,
        zoo_cfg: Mapping[str, str] | None = None,
        jvm_flags: Sequence[str] = (),
        progress: Callable[[str], None] | None = None,
        machine_of: Callable[[str], Machine] = lambda _: Machine(),
    ) -> None:
        if not 1 <= ensembles <= len(string.ascii_lowercase):
            raise ValueError(f"ensembles must be 1 to {len(string.ascii_lowercase)}, not {ensembles}")
        if servers < 1:
            raise ValueError(f"servers must be at least 1, not {servers}")
        self._names = string.ascii_lowercase[:ensembles]
        self._size = servers
        self._given = None if data is None else Path(data).expanduser().absolute()
        self._make_map = make_map
        self._zoo_cfg = {**ZOO_CFG, **(zoo_cfg or {})}
        self._jvm_flags = tuple(jvm_flags)
        self._progress = progress or (lambda _: None)
        self._machine_of = machine_of
        self._supervisor: Supervisor | None = None
        self._folder: Path | None = None
        self.ensembles: tuple[LocalEnsemble, ...] = ()

    def __enter__(self) -> LocalCluster:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def hosts(self) -> str:
        """Returns the bootstrap ensemble's servers, ``"h:p,h:p,h:p"``, as ParKazooClient takes them.

        :raises LocalClusterError: the cluster has not been started.
        """
        return self._running()[0].hosts

    def _running(self) -> tuple[LocalEnsemble, ...]:
        if not self.ensembles:
            raise LocalClusterError("this local cluster is not running: start() it, or use it in a with statement")
        return self.ensembles

    def start(self, name: str | None = None) -> None:
        """Starts every server and waits until all serve; the first time it makes the map. After a failure nothing
        keeps running.

        :param name: an ensemble (``"b"``) or a server (``"b2"``) of a running cluster: start only this one, if it
            does not run, and wait until it serves, if a majority of its ensemble runs.
        :raises LocalClusterError: with the reason.
        """
        if name is not None:
            servers = find_servers(self._running(), name)
            start_all(servers)
            assert self._folder is not None
            remember_pids(self._folder, {each.name: each.pid for each in servers if each.is_running})
            wait_if_quorum(self.ensembles, servers)
            return
        if self._supervisor is not None:
            raise LocalClusterError("this local cluster is running already")
        java = find_java()
        jars = find_zookeeper(self._progress)
        flags = class_data_flags(java, jars, self._progress)
        argv = server_command(java, [*flags, *self._jvm_flags], jars)
        self._folder = folder = self._given or Path(tempfile.mkdtemp(prefix="parkazoo-"))
        try:
            lock = lock_folder(folder)
            try:
                remembered = recall(folder, self._names, self._size)
                if remembered:  # the pids of its last life say nothing any more
                    self._state({}, remembered, has_served=True).write(folder)
                remove = None if self._given else folder
                self._supervisor = Supervisor(folder / SUPERVISOR_LOG, [lock], remove)
                os.write(lock, str(self._supervisor.pid).encode())
            finally:
                os.close(lock)  # the supervisor has its own
            self._start(self._supervisor, folder, argv, remembered)
        except BaseException:
            self.stop()
            if self._given is None:
                shutil.rmtree(folder, ignore_errors=True)
            raise

    def stop(self, name: str | None = None) -> None:
        """Stops every server and waits. Does nothing if the cluster is not running.

        :param name: an ensemble (``"b"``) or a server (``"b2"``): stop only this one.
        :raises LocalClusterError: there is none of that name.
        """
        if name is not None:
            stop_all(find_servers(self._running(), name))
            return
        supervisor, self._supervisor = self._supervisor, None
        if supervisor is None:
            return
        servers = [server for ensemble in self.ensembles for server in ensemble.servers]
        self.ensembles = ()
        try:
            stop_all(servers)
        finally:
            supervisor.end()
            if self._given is None and self._folder is not None:  # a supervisor that was killed leaves it
                shutil.rmtree(self._folder, ignore_errors=True)

    def detach(self) -> None:
        """Leaves the servers running after this process; `stop_detached` ends them. The cluster needs a folder of
        its own.
        """
        if self._supervisor is None or self._given is None:
            raise LocalClusterError("only a running cluster with a data folder can be left running")
        self._supervisor.detach(self._given)
        self._supervisor = None
        self.ensembles = ()

    def _start(
        self,
        supervisor: Supervisor,
        folder: Path,
        argv: Sequence[str],
        remembered: Mapping[str, list[ServerPorts]],
    ) -> None:
        self._progress(f"starting {len(self._names) * self._size} ZooKeeper servers")
        deadline = time.monotonic() + START_TIMEOUT_S
        ports = dict(remembered) or dict(zip(self._names, choose_ports(len(self._names), self._size), strict=True))
        self._state({}, ports, has_served=bool(remembered)).write(folder)
        self._verify_free(remembered)
        ensembles = {name: self._spawn(name, folder / name, ports[name], argv, supervisor) for name in self._names}
        self.ensembles = tuple(ensembles.values())
        for name in self._names:
            self._progress(f"waiting for ensemble {name}")
            for attempt in range(1, ATTEMPTS + 1):
                if wait_all_serving(ensembles[name], deadline):
                    break
                if remembered or attempt == ATTEMPTS:
                    raise LocalClusterError(
                        f"another program has taken a port of ensemble {name} ({ensembles[name].hosts}): end it"
                    )
                stop_all(ensembles[name].servers)
                shutil.rmtree(folder / name)
                (ports[name],) = choose_ports(1, self._size)
                ensembles[name] = self._spawn(name, folder / name, ports[name], argv, supervisor)
                self.ensembles = tuple(ensembles.values())
        if self._make_map and not remembered:  # by now the map may have grown, and its servers must serve
            self._progress("making the cluster map")
            init_map(bootstrap=self.hosts, ensembles={each.name: each.hosts for each in self.ensembles})
        self._state(ensembles, ports, has_served=True).write(folder)

    def _verify_free(self, ports: Mapping[str, Sequence[ServerPorts]]) -> None:
        """:raises LocalClusterError: another process listens there, such as a server of the folder's original."""
        for name, servers in ports.items():
            for number, own in enumerate(servers, 1):
                machine = self._machine_of(f"{name}{number}")
                for port in filter(None, own):
                    if not wait_until(partial(machine.is_free, port), ENDING_S):
                        raise LocalClusterError(
                            f"{machine.address}:{port} is in use by another process: end it. If this folder is "
                            "a copy of another one, both have the same ports, and one of them runs at a time"
                        )

    @staticmethod
    def _state(
        ensembles: Mapping[str, LocalEnsemble], ports: Mapping[str, Sequence[ServerPorts]], *, has_served: bool
    ) -> State:
        return State(
            ports={name: [[*each] for each in several] for name, several in ports.items()},
            pids={name: [server.pid for server in each.servers] for name, each in ensembles.items()},
            has_served=has_served,
        )

    def _spawn(
        self, name: str, folder: Path, ports: Sequence[ServerPorts], argv: Sequence[str], owner: Supervisor
    ) -> LocalEnsemble:
        servers = []
        machines = [self._machine_of(f"{name}{number}") for number in range(1, len(ports) + 1)]
        for number, (own, machine) in enumerate(zip(ports, machines, strict=True), 1):
            server = LocalServer(f"{name}{number}", folder / str(number), own, argv, machine, owner)
            if not (server.data / "zoo.cfg").exists():
                lay_out(server.data, number, format_zoo_cfg(self._zoo_cfg, number, ports, machines))
            server.log.unlink(missing_ok=True)
            server.launch()  # should its port be taken, all of the ensemble must change: see `_start`
            servers.append(server)
        return LocalEnsemble(name, servers)
