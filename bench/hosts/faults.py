"""Faults and limits of hosts over SSH; of emulated ones, those of their links too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.hosts import processors
from bench.hosts.dropping import Dropping
from bench.hosts.fleet import Fleet
from bench.hosts.inventory import SERVER
from bench.hosts.links import Links
from bench.lab import Faults, Matrix, Server, Way


class HostFaults(Faults):
    """What a user without root can do over SSH: kill, start, freeze, thaw."""

    def __init__(self, fleet: Fleet) -> None:
        super().__init__("a lab of real hosts, which does nothing as root,")
        self._fleet = fleet

    def kill(self, server: Server) -> float:
        return float(self._fleet.ask(server.host, "kill_server"))

    def start(self, server: Server) -> None:
        self._fleet.ask(server.host, "start_server")

    def freeze(self, server: Server) -> float:
        return float(self._fleet.ask(server.host, "freeze_server"))

    def thaw(self, server: Server) -> None:
        self._fleet.ask(server.host, "thaw_server")

    def undo_all(self) -> None:
        """But for processes: a server that is stopped is stopped."""


class EmulatedFaults(HostFaults):
    """The same, and what can be done to the links of emulated hosts."""

    def __init__(self, fleet: Fleet, emulation: str) -> None:
        super().__init__(fleet)
        self._emulation = emulation
        self._links = Links(emulation)
        hosts = sorted(fleet.inventory.hosts, key=lambda host: SERVER not in host.roles)
        self._dropping = Dropping(emulation, {host.name: host.inside for host in hosts})
        self._deaf: set[str] = set()  # to some of what others send
        self._cut: set[str] = set()
        self._changed: set[str] = set()

    def cut_off(self, host: str) -> None:
        self._cut.add(host)
        self._links.cut(host)

    def join(self, host: str) -> None:
        self._links.mend(host)
        self._cut.discard(host)

    def limit(self, host: str, rate_bytes_s: float) -> None:
        self._changed.add(host)
        self._links.limit(host, rate_bytes_s)

    def lose(self, host: str, share: float) -> None:
        self._changed.add(host)
        self._links.lose(host, share)

    def delay(self, host: str, ways: Mapping[str, Way]) -> None:
        self._changed.add(host)
        self._links.delay(host, ways)

    def limit_processors(self, host: str, count: float) -> None:
        self._changed.add(host)
        processors.limit(self._emulation, host, count)

    def lift(self, host: str) -> None:
        self._links.lift(host)
        processors.lift(self._emulation, host)
        self._changed.discard(host)

    @property
    def hosts(self) -> Sequence[str]:
        return [*self._dropping.hosts]

    def drop(self, matrix: Matrix, *, one_by_one: bool = False) -> None:
        receivers = {receiver for row in matrix.values() for receiver in row}
        self._deaf |= receivers
        self._dropping.set(matrix, sorted(self._deaf), one_by_one=one_by_one)
        self._deaf = receivers

    def drop_between(self, sender: str, receiver: str, p: float) -> None:
        self._deaf.add(receiver)
        self._dropping.update(sender, receiver, p)

    def undo_all(self) -> None:
        self.drop({})
        for host in [*self._cut]:
            self.join(host)
        for host in [*self._changed]:
            self.lift(host)
