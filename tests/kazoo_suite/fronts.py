"""Gateways where kazoo's tests expect the servers of an ensemble. As servers do, they share sessions."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path

from parkazoo.local.addresses import HOST
from tests.live.gateway_process import GatewayProcess


class Front:
    """A gateway with the names of a LocalServer."""

    def __init__(self, gateway: GatewayProcess) -> None:
        self._gateway = gateway
        self.is_running = False

    @property
    def port(self) -> int:
        return self._gateway.port

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    def start(self) -> None:
        self._gateway.start()
        self.is_running = True

    def wait_serving(self) -> None:
        """It has served since start() returned."""

    def stop(self) -> None:
        self.is_running = False
        self._gateway.end(signal.SIGTERM)


class Fronts:
    """
    :param hosts: of the cluster. :param tls: the options of a gateway that takes TLS.
    :ivar servers: the gateways; they run.
    """

    def __init__(self, hosts: str, count: int, tls: Sequence[str]) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="parkazoo-fronts-")
        self._hosts = hosts
        self._tls = tls
        self.servers = [self._front() for _ in range(count)]
        self._all = list(self.servers)
        with ThreadPoolExecutor() as pool:
            list(pool.map(Front.start, self.servers))

    def _front(self, *options: str) -> Front:
        return Front(GatewayProcess(self._hosts, Path(self._folder.name, "sessions"), *options))

    @cached_property
    def secure(self) -> Front:
        """One that takes TLS. It starts when it is first asked for."""
        front = self._front(*self._tls)
        self._all.append(front)
        front.start()
        return front

    def stop(self) -> None:
        for server in self._all:
            server.stop()
        self._folder.cleanup()
