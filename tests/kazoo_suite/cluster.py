"""What stands in for kazoo's module ``kazoo.testing.common``: its ZookeeperCluster over parkazoo.local.

kazoo's harness starts servers by itself and can use no others. This module gives it running ones, and keeps them
running from test class to test class: each test has a chroot of its own. (kazoo's module is not imported at all:
on import it installs a handler for SIGUSR1.)

The servers differ from kazoo's own in one point: a server has one client port, which takes TLS and plain text,
so that one cluster map serves both.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from parkazoo.admin import init_map
from parkazoo.local import LocalCluster
from parkazoo.protocol.placement import Placement
from tests.kazoo_suite.certificates import Certificates, make_certificates
from tests.kazoo_suite.fronts import Fronts

SERVERS = 3


def ensembles() -> int:
    return 3 if os.environ["PARKAZOO_SUITE"] in ("3", "grown", "gateway") else 1


def has_gateways() -> bool:
    return os.environ["PARKAZOO_SUITE"] == "gateway"


class Server:
    """Server `index` of the bootstrap ensemble, or a gateway, with the names of kazoo's ManagedZooKeeper."""

    def __init__(self, cluster: ZookeeperCluster, index: int) -> None:
        self._cluster = cluster
        self._index = index

    @property
    def _server(self) -> Any:
        return self._cluster.servers[self._index]

    @property
    def address(self) -> str:
        return str(self._server.address)

    @property
    def secure_address(self) -> str:
        secure = self._cluster.secure
        return self.address if secure is None else str(secure.address)

    @property
    def client_port(self) -> int:
        return int(self._server.port)

    secure_client_port = client_port

    @property
    def running(self) -> bool:
        return self._cluster.is_current and bool(self._server.is_running)

    def run(self) -> None:
        """Start the server if it is stopped, and wait until it serves."""
        if not self.running:
            self._server.start()
            self._server.wait_serving()

    def stop(self) -> None:
        if self.running:
            self._server.stop()


class ZookeeperCluster:
    """What kazoo's harness makes for each set of options. It starts when it is used; the cluster that ran
    before, with other options, ends then."""

    _current: ZookeeperCluster | None = None
    failure: Exception | None = None  # servers that did not start; the run ends then

    def __init__(
        self,
        configuration_entries: tuple[str, ...] = (),
        java_system_properties: tuple[str, ...] = (),
        jaas_config: str | None = None,
        **unused: Any,  # where ZooKeeper is, ports, size: parkazoo.local knows better
    ) -> None:
        self.settings = (tuple(configuration_entries), tuple(java_system_properties), jaas_config)
        self._servers = [Server(self, index) for index in range(SERVERS)]

    @property
    def is_current(self) -> bool:
        return ZookeeperCluster._current is not None and ZookeeperCluster._current.settings == self.settings

    @property
    def servers(self) -> Sequence[Any]:
        """Those to which tests connect."""
        if not self.is_current:
            self.start()
        current = ZookeeperCluster._current
        assert current is not None
        return current._local.ensembles[0].servers if current._fronts is None else current._fronts.servers

    @property
    def secure(self) -> Any:
        """The gateway that takes TLS, if tests connect to gateways."""
        _ = self.servers
        current = ZookeeperCluster._current
        assert current is not None
        return None if current._fronts is None else current._fronts.secure

    def __getitem__(self, index: int) -> Server:
        return self._servers[index]

    def __iter__(self) -> Iterator[Server]:
        return iter(self._servers)

    def start(self) -> None:
        """Start every server that does not run."""
        if self.is_current:
            for server in self:
                server.run()
            return
        close()
        entries, properties, jaas = self.settings
        folder, _ = certificates()
        flags = [*properties, "-Dreadonlymode.enabled=true", "-Dfile.encoding=UTF-8"]
        if jaas:
            (folder / "jaas.conf").write_text(jaas)
            flags.append(f"-Djava.security.auth.login.config={folder / 'jaas.conf'}")
        self._local = LocalCluster(
            ensembles=ensembles(),
            servers=1 if has_gateways() else SERVERS,
            make_map=os.environ["PARKAZOO_SUITE"] in ("1", "3", "gateway"),
            zoo_cfg={
                **dict(entry.split("=", 1) for entry in entries),
                "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
                "authProvider.1": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
                "authProvider.x509": "org.apache.zookeeper.server.auth.X509AuthenticationProvider",
                "client.portUnification": "true",
                "ssl.keyStore.location": str(folder / "server.pem"),
                "ssl.trustStore.location": str(folder / "ca.pem"),
            },
            jvm_flags=tuple(flags),
        )
        try:
            self._local.start()
            if os.environ["PARKAZOO_SUITE"] == "grown":
                hosts = {each.name: each.hosts for each in self._local.ensembles}
                init_map(self._local.hosts, hosts, form="grown")
            tls = [
                f"--listen-{what}={folder / name}"
                for what, name in (("cert", "server.pem"), ("key", "server.pem"), ("ca", "ca.pem"))
            ]
            self._fronts = Fronts(self._local.hosts, SERVERS, tls) if has_gateways() else None
        except Exception as error:
            ZookeeperCluster.failure = error
            raise
        ZookeeperCluster._current = self

    def stop(self) -> None:
        for server in self:
            server.stop()

    def terminate(self) -> None:
        """After each test class: the servers go on, for the next one."""

    def get_logs(self) -> list[str]:
        return []

    def get_ssl_client_configuration(self) -> dict[str, bytes]:
        _, made = certificates()
        return {"client_key": made.client_key, "client_cert": made.client_certificate, "ca_cert": made.ca}


class Chroots:
    """For the module uuid in kazoo's harness, which makes a chroot of ``/kazootests`` and a random name."""

    wants_bootstrap = False  # whether the children of the next chroot must live on the bootstrap ensemble

    @classmethod
    def uuid4(cls) -> uuid.UUID:
        placement = Placement(ensembles())
        while True:
            made = uuid.uuid4()
            if not cls.wants_bootstrap or placement.of_children(f"/kazootests{made.hex}") == placement.bootstrap:
                return made


@cache
def certificates() -> tuple[Path, Certificates]:
    """Certificates for this run, and the folder that holds those of the servers."""
    folder = Path(tempfile.mkdtemp(prefix="parkazoo-kazoo-suite-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    made = make_certificates()
    (folder / "server.pem").write_bytes(made.server)
    (folder / "ca.pem").write_bytes(made.ca)
    return folder, made


def close() -> None:
    """Stop the servers, if any run."""  # not by atexit: too late for the threads that stop them in parallel
    current, ZookeeperCluster._current = ZookeeperCluster._current, None
    if current is not None:
        if current._fronts is not None:
            current._fronts.stop()
        current._local.stop()
