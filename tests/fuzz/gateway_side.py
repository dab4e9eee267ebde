"""Three ensembles behind a gateway, and kazoo's own clients at it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kazoo.client import KazooClient

from tests.fuzz.cases import ENSEMBLES
from tests.fuzz.sides import Side
from tests.live.gateway_process import GatewayProcess


class GatewaySide(Side):
    """
    :param form: of the cluster map.
    """

    def __init__(self, form: str = "plain") -> None:
        super().__init__(KazooClient, ENSEMBLES, form)
        self._gateway: GatewayProcess | None = None

    @contextmanager
    def running(self) -> Iterator[GatewaySide]:
        with super().running(), tempfile.TemporaryDirectory() as folder:
            self._gateway = GatewayProcess(self.cluster.hosts, Path(folder, "sessions"))
            try:
                self._gateway.start()
                yield self
            finally:
                self._gateway.end()

    @property
    def hosts(self) -> str:
        assert self._gateway is not None
        return f"127.0.0.1:{self._gateway.port}"

    def hosts_of(self, ensemble: int) -> str:
        """Programs have one session, whose ensembles are the gateway's matter."""
        return self.hosts
