"""A lab: machines for an evaluation, whatever they are: this one, emulated hosts, or real ones over SSH.

Scenarios (bench/scenarios) know a lab by this alone. What it is made of decides what a figure says: a lab
describes itself, and that is saved with each run.
"""

from __future__ import annotations

import re
import string
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

MOST_ENSEMBLES = len(string.ascii_lowercase)
SHAPE = re.compile(r"([1-9]\d?)x([1-9]\d?)")
# Of each sender and receiver, by the names of hosts: the probability that a packet is dropped (bench/chaos.py).
Matrix = Mapping[str, Mapping[str, float]]
Told = Mapping[str, Any]  # what a command has told, and when (bench/moves_told.py)

# Every server's, over ZooKeeper's defaults. With these an ensemble gives up a silent leader after four seconds.
ZOO_CFG = {
    "tickTime": "1000",
    "initLimit": "40",
    "syncLimit": "4",
    "minSessionTimeout": "2000",
    "maxSessionTimeout": "60000",
    "maxClientCnxns": "0",
    "admin.enableServer": "false",
    "4lw.commands.whitelist": "*",
}
# For servers that share a machine: little memory, few threads, no processor time for optimising compilers.
QUIET_JVM_FLAGS = ("-XX:TieredStopAtLevel=1", "-XX:ActiveProcessorCount=2", "-XX:+UseSerialGC", "-Xmx192m")


class LabError(Exception):
    """Something of the lab does not work. The message says what, on which host, and what to do."""


class NotPossible(LabError):
    """This lab cannot do that. The message says why; a scenario says so in place of a figure."""


@dataclass(frozen=True)
class Shape:
    """Ensembles, and servers of each: ``3x3``."""

    ensembles: int
    servers: int

    @classmethod
    def parse(cls, text: str) -> Shape:
        """
        :raises LabError: it is no shape.
        """
        match = SHAPE.fullmatch(text)
        if match is None or int(match[1]) > MOST_ENSEMBLES:
            raise LabError(
                f"{text!r} is no shape: write ensembles x servers of each, 3x3 for instance; "
                f"at most {MOST_ENSEMBLES} ensembles"
            )
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return f"{self.ensembles}x{self.servers}"

    @property
    def size(self) -> int:
        """Servers in all."""
        return self.ensembles * self.servers

    @property
    def names(self) -> Sequence[str]:
        """Of the ensembles: a, b, c, ..."""
        return string.ascii_lowercase[: self.ensembles]


class Server(NamedTuple):
    """A ZooKeeper server, or one of etcd.

    :param name: ``"b3"``, the third server of ensemble b.
    :param host: the name of the machine it runs on, as `Faults` takes it.
    :param address: as clients know that machine.
    :param port: for clients.
    """

    name: str
    ensemble: str
    host: str
    address: str
    port: int


@dataclass(frozen=True)
class Ensembles:
    """Ensembles that serve, with a cluster map on the first one.

    :param servers: all of them, ensemble by ensemble.
    """

    shape: Shape
    servers: Sequence[Server]

    def of(self, ensemble: str) -> list[Server]:
        return [server for server in self.servers if server.ensemble == ensemble]

    def hosts(self, ensemble: str = "a") -> str:
        """Hosts string of an ensemble, for KazooClient; of the first one, for ParKazooClient."""
        return ",".join(f"{server.address}:{server.port}" for server in self.of(ensemble))

    def all_hosts(self) -> list[str]:
        """Hosts strings of all ensembles."""
        return [self.hosts(name) for name in self.shape.names]

    def hosts_of(self, names: Sequence[str]) -> dict[str, str]:
        """Hosts strings by name, for a cluster map."""
        return {name: self.hosts(name) for name in names}


class Way(NamedTuple):
    """From one host to another, or from one host to all.

    :param delay_s: of each packet, give or take up to `jitter_s`; packets keep their order.
    :param rate_bytes_s: 0: not limited.
    """

    delay_s: float = 0.0
    jitter_s: float = 0.0
    rate_bytes_s: float = 0.0


class Faults:
    """What can be done to servers and hosts. A lab overrides what it can do; the rest raises NotPossible.

    Methods return when it is done, and raise LabError if that fails. What is left when `Lab.ensembles` ends is
    undone there.
    """

    def __init__(self, lab: str) -> None:
        self._lab = lab

    def _not_possible(self, what: str) -> NotPossible:
        return NotPossible(f"{self._lab} cannot {what}")

    def kill(self, server: Server) -> float:
        """SIGKILL, and wait for the end of the process.

        :returns: when the signal was sent, in seconds since the epoch; SSH takes longer than that to tell.
        """
        raise self._not_possible("kill servers")

    def start(self, server: Server) -> None:
        """Start a server that was killed, with its data, without waiting until it serves."""
        raise self._not_possible("start servers")

    def freeze(self, server: Server) -> float:
        """SIGSTOP: connections stay open, nothing is answered.

        :returns: when, in seconds since the epoch.
        """
        raise self._not_possible("freeze servers")

    def thaw(self, server: Server) -> None:
        raise self._not_possible("thaw servers")

    def cut_off(self, host: str) -> None:
        """From now on nothing reaches the host or comes from it, and no connection is closed."""
        raise self._not_possible("cut hosts off")

    def join(self, host: str) -> None:
        """Undo `cut_off`."""
        raise self._not_possible("cut hosts off")

    def limit(self, host: str, rate_bytes_s: float) -> None:
        """Limit what the host sends, and what it receives, to so much each."""
        raise self._not_possible("limit bandwidth")

    def limit_processors(self, host: str, count: float) -> None:
        """Limit what all programs of the host together get to so many processors' time."""
        raise self._not_possible("limit processors")

    def lift(self, host: str) -> None:
        """Undo `limit`, `limit_processors`, `delay` and `lose`."""
        raise self._not_possible("limit bandwidth")

    def delay(self, host: str, ways: Mapping[str, Way]) -> None:
        """Delay what the host sends, and limit its rate.

        :param ways: to other hosts; that of ``""``, to all for which there is none.
        """
        raise self._not_possible("delay packets")

    def lose(self, host: str, share: float) -> None:
        """Lose that share, 0 to 1, of the packets that reach the host."""
        raise self._not_possible("lose packets")

    @property
    def hosts(self) -> Sequence[str]:
        """The names that a chaos matrix may have, servers first."""
        raise self._not_possible("drop packets between two hosts")

    def drop(self, matrix: Matrix, *, one_by_one: bool = False) -> None:
        """Drop packets as the matrix says, and no others: it replaces what was there.

        :param one_by_one: tell one receiver after the other, not all at once.
        """
        raise self._not_possible("drop packets between two hosts")

    def drop_between(self, sender: str, receiver: str, p: float) -> None:
        """Change that probability alone."""
        raise self._not_possible("drop packets between two hosts")


class ProcessorTimes(NamedTuple):
    """Seconds of all processors of a machine together, since it was started."""

    busy_s: float
    total_s: float


class Lab(ABC):
    """Machines for an evaluation. Methods raise LabError."""

    faults: Faults

    @property
    @abstractmethod
    def clients(self) -> Sequence[str]:
        """Names of the hosts that produce load."""

    @property
    @abstractmethod
    def is_one_machine(self) -> bool:
        """Whether all hosts share the processors of one machine, which are the limit then before all else."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Kind (``loopback``, ``emulated``, ``hosts``), machines, versions: what decides about figures."""

    @abstractmethod
    def ensembles(
        self,
        shape: Shape,
        mapped: int | None = None,
        settings: Mapping[str, str] | None = None,
        disk_wait_s: float = 0.0,
    ) -> AbstractContextManager[Ensembles]:
        """New, empty, all serving, with a cluster map. At the end faults are undone and servers stopped.

        :param mapped: so many of them, the first ones, are in the map; None: all.
        :param settings: of the servers, over ZOO_CFG.
        :param disk_wait_s: what each fsync of a server takes (bench/disk_wait.py); 0: as the lab has it.
        :raises NotPossible: servers cannot wait so here.
        """

    @abstractmethod
    def etcd_clusters(self, shape: Shape) -> AbstractContextManager[Ensembles]:
        """Clusters of etcd in the place of ensembles: new, empty, all serving. There is no cluster map."""

    @abstractmethod
    def grow(self, ensembles: Ensembles, names: Sequence[str]) -> None:
        """Add these to the cluster map, as ``parkazoo map grow`` does it, and wait until all clients know."""

    @abstractmethod
    def move(self, ensembles: Ensembles, path: str, to: str, per_second: float | None = None) -> Told:
        """Move a directory, as ``parkazoo map move`` does it. Why it could not move is in what is returned.

        :param per_second: as its option ``--rate``; None: no limit.
        """

    @abstractmethod
    def rebalance(self, ensembles: Ensembles, seconds: float) -> Told:
        """Move directories, as ``parkazoo map rebalance`` does it.

        :param seconds: how long writes are counted.
        """

    @abstractmethod
    def ask(self, server: Server, word: str) -> str:
        """A server's answer to a four-letter word (``srvr``, ``mntr``); empty if there is none within 2 s."""

    @abstractmethod
    def weigh(self, server: Server) -> dict[str, int]:
        """What a server's process has in memory and has used of the processors, and what its host's network card
        has carried since it is there.

        :returns: bytes: ``memory_bytes``; ``card_received_bytes`` and ``card_sent_bytes``, of the card with the
            server's address, where that is one host's alone. Milliseconds: ``cpu_ms``.
        """

    @abstractmethod
    def read_replicas(self, servers: Sequence[Server], root: str) -> list[tuple[int, str]]:
        """What each server has below a znode: how many znodes, and a digest of all about them (replica.py)."""

    @abstractmethod
    def run_load(
        self,
        plans: Mapping[str, Mapping[str, Any]],
        folder: Path,
        tell: Callable[[str, str], None] = lambda host, line: None,
    ) -> dict[str, Path]:
        """Run ``python -m bench.load PLAN RESULT`` on client hosts, all at the same time, until all have ended.

        :param plans: of each host; written there as a JSON file PLAN.
        :param folder: on this machine. Results are brought there, one file for each host: ``HOST.npz``.
        :param tell: called, from any thread, with the host and each line that its process prints, at once.
        :returns: the result file of each host.
        :raises LabError: a process failed (its last line on stderr says why) or a host died; the others are ended.
        """

    @abstractmethod
    def watch(
        self, hear: Callable[[Mapping[str, Any]], None], lost: Callable[[str], None]
    ) -> AbstractContextManager[None]:
        """See what each host does, each second, as long as the context.

        :param hear: called, from any thread, with what bench/sampler.py has to say.
        :param lost: called, from any thread, with the reason, if a host is not seen any more.
        """

    @abstractmethod
    def processor_times(self) -> dict[str, ProcessorTimes]:
        """Of each machine, once even if it carries many hosts."""
