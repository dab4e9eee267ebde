"""The lab of hosts over SSH, real or emulated."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

from bench.disk_wait import environment
from bench.hosts import deployment, etcd, zookeeper
from bench.hosts.faults import EmulatedFaults, HostFaults
from bench.hosts.fleet import Fleet, cleanup
from bench.hosts.inventory import CLIENT
from bench.hosts.namespaces import NAMES, network_of, switch_of
from bench.hosts.remote import HostError, Remote
from bench.lab import Ensembles, Lab, NotPossible, ProcessorTimes, Server, Shape, Told
from bench.machine import describe_versions
from bench.sampling import Hear, sampled

DESCRIBED = ("processor", "processors", "memory_bytes", "system", "python", "java")
LONGEST_SILENCE_S = 600.0  # of a load
WORD_TIMEOUT_S = 2.0


class WatchEnded(Exception):
    """It is to end."""


class HostLab(Lab):
    """
    :param fleet: connected as long as the lab is used.
    :raises LabError: a host cannot be used, or it lacks something that cannot be had.
    """

    def __init__(self, fleet: Fleet, tell: Callable[[str], None] = lambda _: None) -> None:
        self._fleet = fleet
        self._about = deployment.deploy(fleet, tell)
        emulation = fleet.inventory.emulation
        self._faults = EmulatedFaults(fleet, emulation) if emulation else HostFaults(fleet)
        self.faults = self._faults
        # of each machine the first host, for there may be many on one
        self._machines = {about["boot"]: name for name, about in reversed(self._about.items())}

    @property
    def clients(self) -> Sequence[str]:
        return [host.name for host in self._fleet.inventory.having(CLIENT)]

    @property
    def is_one_machine(self) -> bool:
        return len(self._machines) == 1

    def describe(self) -> dict[str, Any]:
        inventory = self._fleet.inventory
        return {
            "kind": "emulated" if inventory.emulation else "hosts",
            "machines": {name: {key: self._about[name][key] for key in DESCRIBED} for name in self._machine_names},
            "hosts": {host.name: sorted(host.roles) for host in inventory.hosts},
            "jvm_flags": sorted({flag for host in inventory.hosts for flag in host.jvm_flags}),
            "versions": describe_versions(),
        }

    @property
    def _machine_names(self) -> list[str]:
        return [*self._machines.values()]

    @contextmanager
    def ensembles(
        self,
        shape: Shape,
        mapped: int | None = None,
        settings: Mapping[str, str] | None = None,
        disk_wait_s: float = 0.0,
    ) -> Iterator[Ensembles]:
        variables: Mapping[str, str] = {}
        if disk_wait_s:
            if not self._fleet.inventory.emulation:
                raise NotPossible("real hosts wait for their own disks, and for no others")
            deployment.bring_disk_wait(self._fleet)
            variables = environment(zookeeper.DISK_WAIT, disk_wait_s)
        started = zookeeper.start(self._fleet, shape, settings, variables)
        with cleanup(lambda: zookeeper.stop(self._fleet)), cleanup(self._faults.undo_all):
            zookeeper.make_map(self._fleet, started, mapped)
            yield started

    @contextmanager
    def etcd_clusters(self, shape: Shape) -> Iterator[Ensembles]:
        started = etcd.start(self._fleet, shape)
        with cleanup(lambda: zookeeper.stop(self._fleet)), cleanup(self._faults.undo_all):
            yield started

    def grow(self, ensembles: Ensembles, names: Sequence[str]) -> None:
        zookeeper.grow_map(self._fleet, ensembles, names)

    def move(self, ensembles: Ensembles, path: str, to: str, per_second: float | None = None) -> Told:
        return zookeeper.move(self._fleet, "move", ensembles.hosts(), path, to, per_second)

    def rebalance(self, ensembles: Ensembles, seconds: float) -> Told:
        return zookeeper.move(self._fleet, "rebalance", ensembles.hosts(), seconds)

    def ask(self, server: Server, word: str) -> str:
        place = server.address, server.port
        return self._fleet.on(server.host, lambda remote: remote.talk(*place, word, WORD_TIMEOUT_S))

    def weigh(self, server: Server) -> dict[str, int]:
        return dict(self._fleet.ask(server.host, "weigh_server"))

    def read_replicas(self, servers: Sequence[Server], root: str) -> list[tuple[int, str]]:
        addresses = [f"{server.address}:{server.port}" for server in servers]
        found = self._fleet.ask(self.clients[0], "read_replicas", addresses, root)
        return [(znodes, digest) for znodes, digest in found]

    def run_load(
        self,
        plans: Mapping[str, Mapping[str, Any]],
        folder: Path,
        tell: Callable[[str, str], None] = lambda host, line: None,
    ) -> dict[str, Path]:
        folder.mkdir(parents=True, exist_ok=True)

        def work(remote: Remote) -> Path:
            name = remote.host.name
            there = remote.ask(
                "load",
                stdin=json.dumps(plans[name]).encode() + b"\n",
                keep_stdin=True,
                timeout_s=LONGEST_SILENCE_S,
                tell=lambda line: tell(name, line),
            )
            here = folder / f"{name}.npz"
            remote.fetch(there, here)
            return here

        hosts = [host for host in self._fleet.inventory.hosts if host.name in plans]
        return self._fleet.each("", work, hosts, all_or_none=True)

    def watch(self, hear: Hear, lost: Callable[[str], None]) -> AbstractContextManager[None]:
        """Emulated hosts are seen from their switch, by one process; a real one sees itself."""
        emulation = self._fleet.inventory.emulation
        if not emulation:
            return self._watch_each(hear, lost)
        hosts = [host.name for host in self._fleet.inventory.hosts]
        networks = {host: (NAMES / network_of(emulation, host)).stat().st_ino for host in hosts}
        return sampled({"networks": networks}, hear, lost, ("ip", "netns", "exec", switch_of(emulation)))

    @contextmanager
    def _watch_each(self, hear: Hear, lost: Callable[[str], None]) -> Iterator[None]:
        is_over = threading.Event()

        def tell(line: str) -> None:
            if is_over.is_set():
                raise WatchEnded  # the channel is closed then, which ends the sampler there
            if line.startswith("{"):  # a login shell may have printed others
                hear(json.loads(line))

        def watch(remote: Remote) -> None:
            with suppress(WatchEnded):
                try:
                    remote.ask("sample", remote.host.name, remote.host.inside, keep_stdin=True, tell=tell)
                except HostError as error:
                    lost(f"{remote.host.name}: {error}")

        hosts = self._fleet.inventory.hosts
        with ThreadPoolExecutor(len(hosts)) as pool:
            for host in hosts:
                pool.submit(watch, self._fleet[host.name])
            try:
                yield
            finally:
                is_over.set()

    def processor_times(self) -> dict[str, ProcessorTimes]:
        hosts = [host for host in self._fleet.inventory.hosts if host.name in self._machine_names]
        found = self._fleet.each("", lambda remote: remote.ask("processor_times"), hosts)
        return {name: ProcessorTimes(each["busy_s"], each["total_s"]) for name, each in found.items()}
