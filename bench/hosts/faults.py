"""Faults and limits of hosts over SSH; of emulated ones, those of their links too."""

from __future__ import annotations

from bench.hosts.fleet import Fleet
from bench.hosts.links import Links
from bench.lab import Faults, Server


class HostFaults(Faults):
    """What a user without root can do over SSH: kill, start, freeze, thaw."""

    def __init__(self, fleet: Fleet) -> None:
        super().__init__("a lab of real hosts, which does nothing as root,")
        self._fleet = fleet

    def kill(self, server: Server) -> float:
        return float(self._fleet.ask(server.host, "kill_server"))

    def start(self, server: Server) -> None:
        self._fleet.ask(server.host, "start_server")

    def freeze(self, server: Server) -> None:
        self._fleet.ask(server.host, "freeze_server")

    def thaw(self, server: Server) -> None:
        self._fleet.ask(server.host, "thaw_server")

    def undo_all(self) -> None:
        """But for processes: a server that is stopped is stopped."""


class EmulatedFaults(HostFaults):
    """The same, and what can be done to the links of emulated hosts."""

    def __init__(self, fleet: Fleet, emulation: str) -> None:
        super().__init__(fleet)
        self._links = Links(emulation)
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

    def delay(self, host: str, delay_s: float) -> None:
        self._changed.add(host)
        self._links.delay(host, delay_s)

    def lift(self, host: str) -> None:
        self._links.lift(host)
        self._changed.discard(host)

    def undo_all(self) -> None:
        for host in [*self._cut]:
            self.join(host)
        for host in [*self._changed]:
            self.lift(host)
