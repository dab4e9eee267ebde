"""A lab on this machine alone, without root: real servers and load processes on 127.0.0.1, by parkazoo.local."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from bench import ROOT, moves_told
from bench.disk_wait import compile_library, environment
from bench.etcd_server import PROGRAM, Member, command_of
from bench.lab import ZOO_CFG, Ensembles, Faults, Lab, LabError, ProcessorTimes, Server, Shape, Told
from bench.machine import describe_machine, describe_versions, total_and_busy
from bench.replica import read_replica
from bench.sampling import Hear, sampled
from parkazoo.admin import grow_map, init_map
from parkazoo.errors import ClusterMapError
from parkazoo.local import HOST, LocalCluster, LocalClusterError, LocalServer, Machine, four_letter_word
from parkazoo.local.addresses import free_ports
from parkazoo.local.supervisor import Supervisor

MEMORY = Path("/dev/shm")
HEALTHY_TIMEOUT_S = 60.0
POLL_S = 0.1


class LoopbackFaults(Faults):
    """Processes can be killed and frozen. There are no hosts to be cut off, and no links to be limited."""

    def __init__(self) -> None:
        super().__init__("one machine without namespaces (loopback)")
        self.servers: dict[str, LocalServer] = {}

    def kill(self, server: Server) -> float:
        local = self.servers[server.name]
        with _as_lab_error():
            local.signal(signal.SIGKILL)
            killed_s = time.time()  # from here on it answers no one
            with suppress(LocalClusterError):  # it has ended by now
                local.kill()
        return killed_s

    def start(self, server: Server) -> None:
        with _as_lab_error():
            self.servers[server.name].start()

    def freeze(self, server: Server) -> float:
        with _as_lab_error():
            self.servers[server.name].freeze()
        return time.time()

    def thaw(self, server: Server) -> None:
        with _as_lab_error():
            self.servers[server.name].thaw()


class Loopback(Lab):
    """
    :param clients: how many load processes stand for client hosts.
    :param tell: called with a line of text when something begins that takes time.
    """

    def __init__(self, clients: int = 2, tell: Callable[[str], None] = lambda _: None) -> None:
        self._clients = [f"client{number}" for number in range(1, clients + 1)]
        self._tell = tell
        self._faults = LoopbackFaults()
        self.faults = self._faults
        self._etcd: dict[str, int] = {}  # of each server of etcd its process

    @property
    def clients(self) -> Sequence[str]:
        return self._clients

    @property
    def is_one_machine(self) -> bool:
        return True

    def describe(self) -> dict[str, Any]:
        return {"kind": "loopback", "machine": describe_machine(), "versions": describe_versions()}

    @contextmanager
    def ensembles(
        self,
        shape: Shape,
        mapped: int | None = None,
        settings: Mapping[str, str] | None = None,
        disk_wait_s: float = 0.0,
    ) -> Iterator[Ensembles]:
        with ExitStack() as stack:
            machine = Machine()
            if disk_wait_s:
                library = compile_library(Path(stack.enter_context(tempfile.TemporaryDirectory())))
                waits = environment(str(library), disk_wait_s)
                machine = Machine(argv=("env", *(f"{name}={value}" for name, value in waits.items())))
            # Servers that share a disk would measure the disk.
            forced = {"forceSync": "yes" if disk_wait_s else "no"}
            cluster = LocalCluster(
                shape.ensembles,
                shape.servers,
                make_map=False,
                zoo_cfg={**ZOO_CFG, **(settings or {}), **forced},
                progress=self._tell,
                machine_of=lambda _: machine,
            )
            yield stack.enter_context(self._running(cluster, shape, mapped))

    @contextmanager
    def _running(self, cluster: LocalCluster, shape: Shape, mapped: int | None) -> Iterator[Ensembles]:
        with _as_lab_error():
            cluster.start()
        try:
            local = [server for ensemble in cluster.ensembles for server in ensemble.servers]
            self._faults.servers = {server.name: server for server in local}
            servers = [Server(each.name, each.name[0], HOST, HOST, each.port) for each in local]
            ensembles = Ensembles(shape, servers)
            with _as_lab_error():
                init_map(ensembles.hosts(), ensembles.hosts_of(shape.names[:mapped]))
            yield ensembles
        finally:
            cluster.stop()  # a frozen server too

    @contextmanager
    def etcd_clusters(self, shape: Shape) -> Iterator[Ensembles]:
        if (program := shutil.which(PROGRAM)) is None:
            raise LabError(f"there is no {PROGRAM}")
        names = [(name, f"{name}{number}") for name in shape.names for number in range(1, shape.servers + 1)]
        with _as_lab_error():
            ports = iter(free_ports(2 * shape.size))
        members = {server: Member(HOST, next(ports), next(ports)) for _, server in names}
        folder = Path(tempfile.mkdtemp(prefix="parkazoo-etcd-", dir=MEMORY if MEMORY.is_dir() else None))
        supervisor = Supervisor(folder / "supervisor.log", remove=folder)
        try:
            for ensemble, server in names:
                (folder / server).mkdir()
                cluster = {name: each for name, each in members.items() if name.startswith(ensemble)}
                command = [program, *command_of(server, cluster)[1:]]
                with _as_lab_error():
                    log = str(folder / f"{server}.log")
                    self._etcd[server] = supervisor.ask("spawn", command, str(folder / server), log)
            for server, member in members.items():
                _wait_healthy(server, member, folder / f"{server}.log")
            yield Ensembles(
                shape,
                [Server(server, ensemble, HOST, HOST, members[server].port) for ensemble, server in names],
            )
        finally:
            self._etcd.clear()
            supervisor.end()

    def grow(self, ensembles: Ensembles, names: Sequence[str]) -> None:
        with _as_lab_error():
            grow_map(ensembles.hosts(), ensembles.hosts_of(names))

    def move(self, ensembles: Ensembles, path: str, to: str, per_second: float | None = None) -> Told:
        return moves_told.move(ensembles.hosts(), path, to, per_second)

    def rebalance(self, ensembles: Ensembles, seconds: float) -> Told:
        return moves_told.rebalance(ensembles.hosts(), seconds)

    def ask(self, server: Server, word: str) -> str:
        return four_letter_word(f"{server.address}:{server.port}", word)

    def weigh(self, server: Server) -> dict[str, int]:
        """Without the card: all servers have one, which carries the clients' bytes twice as well."""
        process = psutil.Process(self._etcd.get(server.name) or self._faults.servers[server.name].pid)
        times = process.cpu_times()
        return {"memory_bytes": process.memory_info().rss, "cpu_ms": int((times.user + times.system) * 1000)}

    def read_replicas(self, servers: Sequence[Server], root: str) -> list[tuple[int, str]]:
        return [self._read_replica(server, root) for server in servers]

    def _read_replica(self, server: Server, root: str) -> tuple[int, str]:
        try:
            return read_replica(f"{server.address}:{server.port}", root)
        except (KazooException, KazooTimeoutError) as error:
            raise LabError(f"{server.name} cannot be read: {type(error).__name__} {error}") from error

    def run_load(
        self,
        plans: Mapping[str, Mapping[str, Any]],
        folder: Path,
        tell: Callable[[str, str], None] = lambda host, line: None,
    ) -> dict[str, Path]:
        folder.mkdir(parents=True, exist_ok=True)
        results = {host: folder / f"{host}.npz" for host in plans}
        processes = {host: _start(plan, folder / f"{host}.json", results[host]) for host, plan in plans.items()}
        with ThreadPoolExecutor(len(processes)) as pool:
            watched = [pool.submit(_watch, host, process, tell) for host, process in processes.items()]
            try:
                for each in as_completed(watched):
                    each.result()
            finally:
                for process in processes.values():
                    process.kill()  # and its own processes end with it
        return results

    def watch(self, hear: Hear, lost: Callable[[str], None]) -> AbstractContextManager[None]:
        """One host: all that this program starts, and the loopback device, which other programs may use too."""
        cards = psutil.net_if_addrs().items()
        card = next(name for name, addresses in cards if HOST in {each.address for each in addresses})
        return sampled({"below": os.getpid(), "card": card}, hear, lost)

    def processor_times(self) -> dict[str, ProcessorTimes]:
        total_s, busy_s = total_and_busy()
        return {"this machine": ProcessorTimes(busy_s, total_s)}


def _start(plan: Mapping[str, Any], source: Path, target: Path) -> subprocess.Popen[str]:
    source.write_text(json.dumps(plan, indent=1))
    return subprocess.Popen(
        [sys.executable, "-m", "bench.load", source.absolute(), target.absolute()],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _watch(host: str, process: subprocess.Popen[str], tell: Callable[[str, str], None]) -> None:
    """
    :raises LabError: it fails.
    """
    assert process.stdout is not None
    assert process.stderr is not None
    with process:
        for line in process.stdout:
            tell(host, line.rstrip("\n"))
        said = process.stderr.read().strip().splitlines()
    if process.returncode:
        raise LabError(f"{host}: the load failed: {said[-1] if said else 'it says nothing'}")


def _wait_healthy(server: str, member: Member, log: Path) -> None:
    """
    :raises LabError: the server does not serve within a minute.
    """
    deadline = time.monotonic() + HEALTHY_TIMEOUT_S
    while True:
        connection = http.client.HTTPConnection(member.address, member.port, timeout=HEALTHY_TIMEOUT_S)
        with closing(connection), suppress(OSError, ValueError, http.client.HTTPException):
            connection.request("GET", "/health")
            if json.load(connection.getresponse())["health"] == "true":
                return
        if time.monotonic() > deadline:
            said = log.read_text(errors="replace").strip().splitlines()
            raise LabError(f"the etcd server {server} does not serve: {said[-1] if said else 'it says nothing'}")
        time.sleep(POLL_S)


@contextmanager
def _as_lab_error() -> Iterator[None]:
    try:
        yield
    except (LocalClusterError, ClusterMapError) as error:
        raise LabError(str(error)) from error
