"""Servers and the ensembles they make: started, stopped, frozen, asked for their roles."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from parkazoo.local.addresses import HOST, ServerPorts
from parkazoo.local.cluster_error import LocalClusterError
from parkazoo.local.four_letter_words import WORD_TIMEOUT_S, Role, four_letter_word, role_of
from parkazoo.local.supervisor import Channel
from parkazoo.local.waiting import POLL_S, wait_until

STOP_TIMEOUT_S = 10.0
QUORUM_WORD_TIMEOUT_S = 0.5  # a frozen server must not slow down the wait for the others
LOG_LINES = 12
TAKEN = re.compile(r"Address already in use|java\.net\.BindException")


class Machine(NamedTuple):
    """Where a server runs.

    :param address: it listens there.
    :param argv: comes before the server's own command: ``("ip", "netns", "exec", "a1")``. Then no other
        program is expected at the address.
    """

    address: str = HOST
    argv: tuple[str, ...] = ()

    def is_free(self, port: int) -> bool:
        """Whether no process listens at a port, as far as a process here can tell."""
        if self.argv:
            return True
        with socket.socket() as candidate:
            candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server does
            try:
                candidate.bind((self.address, port))
            except OSError:
                return False
        return True


class LocalServer:
    """Runs one ZooKeeper server, with its name (``"a1"``), address, port, log, and in `data` its files.

    Methods raise LocalClusterError if the server is not in the state they need.
    """

    def __init__(
        self, name: str, folder: Path, ports: ServerPorts, argv: Sequence[str], machine: Machine, owner: Channel
    ) -> None:
        self.name = name
        self._ports = ports
        self._machine = machine
        self._argv = [*machine.argv, *argv]
        self._supervisor = owner
        self._pid: int | None = None
        self.data = folder
        self.log = folder / "zookeeper.log"
        self.port = ports.client
        self.address = f"{machine.address}:{ports.client}"

    def __repr__(self) -> str:
        return f"<LocalServer {self.name} at {self.address}>"

    def adopt(self, pid: int) -> None:
        """Take the process that the supervisor has started before for this server."""
        self._pid = pid

    @property
    def pid(self) -> int:
        """Process id.

        :raises LocalClusterError: if the server does not run.
        """
        if not self.is_running:
            raise LocalClusterError(f"server {self.name} at {self.address} is not running")
        assert self._pid is not None
        return self._pid

    @property
    def is_running(self) -> bool:
        """Whether there is a process; it may be frozen, or wait for a quorum."""
        if self._pid is None:
            return False
        try:
            if self._supervisor.ask("poll", self._pid) is None:
                return True
        except LocalClusterError:
            pass
        self._pid = None
        return False

    def start(self) -> None:
        """Starts the server, without waiting until it serves."""
        if self.is_running:
            raise LocalClusterError(f"server {self.name} at {self.address} is running already")
        if not wait_until(lambda: self._machine.is_free(self.port), STOP_TIMEOUT_S):
            raise LocalClusterError(
                f"port {self.port} of server {self.name} has been taken by another program: end that program"
            )
        self.launch()

    def launch(self) -> None:
        """Start the server without a look at its port."""
        self._pid = self._supervisor.ask("spawn", self._argv, str(self.data), str(self.log))

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Ends the server by SIGTERM, also a frozen one, and waits; after `timeout_s` seconds by SIGKILL."""
        self.signal(signal.SIGTERM)
        with contextlib.suppress(LocalClusterError):  # it has ended by now
            self.signal(signal.SIGCONT)
        if not wait_until(lambda: not self.is_running, timeout_s):
            self.kill()

    def kill(self) -> None:
        """Ends the server by SIGKILL and waits."""
        self.signal(signal.SIGKILL)
        if not wait_until(lambda: not self.is_running, STOP_TIMEOUT_S):
            raise LocalClusterError(f"server {self.name} (pid {self.pid}) does not end")

    def freeze(self) -> None:
        """Stops the process by SIGSTOP: its connections stay open, and it answers nothing."""
        self.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Continues a frozen process."""
        self.signal(signal.SIGCONT)

    def restart(self) -> None:
        """Stops the server if it runs, and starts it, without waiting until it serves."""
        if self.is_running:
            self.stop()
        self.start()

    def wait_serving(self, timeout_s: float = 30.0) -> None:
        """Waits until the server serves clients, which takes a quorum.

        :raises LocalClusterError: it ends, or does not serve within `timeout_s` seconds.
        """
        if not wait_until(lambda: not self.is_running or bool(role_of(self.address).name), timeout_s):
            raise LocalClusterError(
                f"server {self.name} at {self.address} does not serve after {timeout_s:g} s; {self.log}:\n"
                f"{self.log_tail()}"
            )
        if not self.is_running:
            raise LocalClusterError(self.obituary())

    def log_tail(self, lines: int = LOG_LINES) -> str:
        """The last lines of the log."""
        try:
            text = self.log.read_text(errors="replace")
        except OSError:
            return ""
        return "\n".join(text.splitlines()[-lines:])

    def obituary(self) -> str:
        return f"server {self.name} at {self.address} has ended; the end of its log:\n{self.log_tail()}"

    def has_lost_port(self) -> bool:
        """Whether one of the server's ports was taken by another program before it could listen there."""
        return TAKEN.search(self.log_tail(1000)) is not None

    def is_another(self) -> bool:
        """Whether another server answers at the address: it had the port first, and this one ends for that."""
        found = re.search(r"^dataDir=(.*)$", four_letter_word(self.address, "conf"), re.MULTILINE)
        own = self.data.resolve() / "data" / "version-2"
        return found is not None and _in_ascii(found[1]) != _in_ascii(own)

    def signal(self, number: signal.Signals) -> None:
        """Send the process a signal."""
        self._supervisor.ask("send", self.pid, int(number))


def _in_ascii(path: str | Path) -> str:
    """A path without what a JVM may show as question marks."""
    return re.sub(r"[^ -~]|\?", "", os.path.normpath(path))


class LocalEnsemble:
    """One ensemble of a LocalCluster."""

    def __init__(self, name: str, servers: Sequence[LocalServer]) -> None:
        self.name = name
        self.servers = tuple(servers)
        self.hosts = ",".join(server.address for server in servers)

    def __repr__(self) -> str:
        return f"<LocalEnsemble {self.name} at {self.hosts}>"

    def wait_quorum(self, timeout_s: float = 30.0) -> None:
        """Waits until a majority of the servers serves, under one leader.

        :raises LocalClusterError: that takes more than `timeout_s` seconds.
        """
        if not wait_until(self._has_quorum, timeout_s):
            raise LocalClusterError(f"ensemble {self.name} has no quorum after {timeout_s:g} s: {self._told()}")

    def leader(self) -> LocalServer:
        """Returns the server that leads (of an ensemble of one: that one).

        :raises LocalClusterError: none leads at this moment; `wait_quorum` first.
        """
        leaders = [(role.zxid, server) for server, role in self.roles().items() if role.is_leader]
        if not leaders:
            raise LocalClusterError(f"ensemble {self.name} has no leader: {self._told()}")
        return max(leaders, key=lambda each: each[0])[1]  # a deposed one that does not know yet is behind

    def followers(self) -> tuple[LocalServer, ...]:
        """Returns the servers that follow at this moment."""
        return tuple(server for server, role in self.roles().items() if role.name == "follower")

    def roles(self, timeout_s: float = WORD_TIMEOUT_S) -> dict[LocalServer, Role]:
        """Returns each server's role. It asks all at once; each has `timeout_s` seconds to answer."""
        with ThreadPoolExecutor(len(self.servers)) as pool:
            roles = pool.map(lambda server: role_of(server.address, timeout_s), self.servers)
            return dict(zip(self.servers, roles, strict=True))

    def _has_quorum(self) -> bool:
        roles = [role for role in self.roles(QUORUM_WORD_TIMEOUT_S).values() if role.name]
        return len([role for role in roles if role.is_leader]) == 1 and 2 * len(roles) > len(self.servers)

    def _told(self) -> str:
        return ", ".join(
            f"{server.address} {role.name or ('does not serve' if server.is_running else 'is down')}"
            for server, role in self.roles().items()
        )


def find_servers(ensembles: Sequence[LocalEnsemble], name: str) -> tuple[LocalServer, ...]:
    """The servers of the ensemble of that name, or the server.

    :raises LocalClusterError: there is neither.
    """
    for ensemble in ensembles:
        if ensemble.name == name:
            return ensemble.servers
        for server in ensemble.servers:
            if server.name == name:
                return (server,)
    known = ", ".join(f"{each.name} ({', '.join(server.name for server in each.servers)})" for each in ensembles)
    raise LocalClusterError(f"no ensemble and no server is called {name!r}: there are {known}")


def start_all(servers: Sequence[LocalServer]) -> None:
    """Start servers that do not run, without waiting until they serve."""
    for server in servers:
        if not server.is_running:
            server.start()


def wait_if_quorum(ensembles: Sequence[LocalEnsemble], servers: Sequence[LocalServer]) -> None:
    """Wait until servers that were started serve; not for those whose ensemble has no majority that runs.

    :raises LocalClusterError: one ends, or does not serve in time.
    """
    for ensemble in ensembles:
        if 2 * sum(each.is_running for each in ensemble.servers) > len(ensemble.servers):
            for server in ensemble.servers:
                if server in servers:
                    server.wait_serving()


def stop_all(servers: Sequence[LocalServer]) -> None:
    """Stop servers, all at once and whatever their state; no thread is needed, so it works at exit too."""
    for server in servers:
        with contextlib.suppress(LocalClusterError):  # it has ended before
            server.signal(signal.SIGTERM)
            server.signal(signal.SIGCONT)
    if not wait_until(lambda: not any(server.is_running for server in servers), STOP_TIMEOUT_S):
        for server in servers:
            with contextlib.suppress(LocalClusterError):
                server.kill()


def wait_all_serving(ensemble: LocalEnsemble, deadline: float) -> bool:
    """Wait until every server serves; False if one has lost a port."""
    while not all(role.name for role in ensemble.roles().values()):
        if any(server.has_lost_port() for server in ensemble.servers):
            return False
        for server in ensemble.servers:
            if not server.is_running:
                raise LocalClusterError(server.obituary())
        if time.monotonic() > deadline:
            ensemble.wait_quorum(0)
            for server in ensemble.servers:
                server.wait_serving(0)
        time.sleep(POLL_S)
    return not any(server.is_another() for server in ensemble.servers)
