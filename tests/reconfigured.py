"""An ensemble whose servers come and go by ZooKeeper's own reconfiguration, while its clients go on."""

from __future__ import annotations

from pathlib import Path

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from kazoo.security import make_digest_acl_credential

from parkazoo.local import LocalCluster, LocalServer, Machine, free_ports
from parkazoo.local.addresses import ServerPorts
from parkazoo.local.servers import LocalEnsemble
from parkazoo.local.settings import LOGBACK
from parkazoo.protocol.server_list import ServerList, parse_config
from tests.live.world import DEADLINE_S, wait_until

SUPER, SUPER_PASSWORD = "super", "operator"
ZOO_CFG = {"DigestAuthenticationProvider.superDigest": make_digest_acl_credential(SUPER, SUPER_PASSWORD)}
CONFIG = "/zookeeper/config"
WRITTEN = "/reconfigured"  # a write that a majority of the new servers has taken; it ends with the operator
STATIC = ("server.", "dynamicConfigFile=")  # what is no part of the static configuration begins so


class Reconfigured:
    """The servers of one ensemble of a cluster that was started with ZOO_CFG.

    `cluster.ensembles` always has those of the last reconfiguration.
    """

    def __init__(self, cluster: LocalCluster, index: int = 0) -> None:
        self._cluster = cluster
        self._index = index
        self._numbers = {server: number for number, server in enumerate(self.ensemble.servers, 1)}
        self._next = len(self._numbers) + 1
        model = self.ensemble.servers[0]
        self._machine, self._argv = model._machine, model._argv[len(model._machine.argv) :]
        self._operator = KazooClient(self.ensemble.hosts, auth_data=[("digest", f"{SUPER}:{SUPER_PASSWORD}")])

    def __enter__(self) -> Reconfigured:
        self._operator.start(DEADLINE_S)
        return self

    def __exit__(self, *_: object) -> None:
        self._operator.stop()
        self._operator.close()

    @property
    def session(self) -> int:
        """Of the operator: it may stay on a server that has left."""
        return int(self._operator.client_id[0])

    @property
    def ensemble(self) -> LocalEnsemble:
        return self._cluster.ensembles[self._index]

    def config(self) -> ServerList:
        """What the ensemble says of itself."""
        self._operator.retry(self._operator.sync, CONFIG)
        data, _ = self._operator.retry(self._operator.get, CONFIG)
        found = parse_config(data)
        assert found is not None, data
        return found

    def join(self) -> LocalServer:
        """Start one more server, on new ports. It returns when the server is one of the ensemble."""
        server = self.serve()
        self._numbers[server] = number = self._next - 1
        self._change(joining=f"server.{number}={_line(self._machine, server._ports, 'participant')}")
        return server

    def serve(self) -> LocalServer:
        """Start one more server, which follows the leader and is none of the ensemble."""
        ports = ServerPorts(*free_ports(len(ServerPorts._fields)))
        number, self._next = self._next, self._next + 1
        server = self._make(number, ports)
        server.start()
        server.wait_serving()  # it has found the leader, which takes it for an observer so far
        return server

    def leave(self, server: LocalServer) -> None:
        """Remove a server, perhaps the leader, from the ensemble. It runs on, and keeps its clients."""
        self._change(leaving=str(self._numbers.pop(server)))

    def _change(self, joining: str | None = None, leaving: str | None = None) -> None:
        """Reconfigure. When it returns, a majority of the new servers knows that."""
        wanted = {server.address for server in self._numbers}

        def is_done() -> bool:
            if self._addresses() != wanted:  # an earlier attempt may have got no answer
                self._operator.reconfig(joining, leaving, None)
            return self._addresses() == wanted

        wait_until(is_done, f"servers {wanted}")
        self._cluster.ensembles = tuple(
            LocalEnsemble(each.name, [*self._numbers]) if index == self._index else each
            for index, each in enumerate(self._cluster.ensembles)
        )
        self._operator.set_hosts(self.ensemble.hosts)
        self._operator.retry(self._write)

    def _addresses(self) -> set[str]:
        return {f"{host}:{port}" for host, port in self.config().servers}

    def _write(self) -> None:
        try:
            self._operator.set(WRITTEN, b"")
        except NoNodeError:
            self._operator.create(WRITTEN, ephemeral=True)

    def _make(self, number: int, ports: ServerPorts) -> LocalServer:
        """A server that knows those of the ensemble. It is an observer in its own file, as ZooKeeper wants it."""
        model = self.ensemble.servers[0]
        folder = model.data.with_name(str(number))
        (folder / "data").mkdir(parents=True)
        (folder / "data" / "myid").write_text(f"{number}\n")
        (folder / "logback.xml").write_text(LOGBACK)
        config, _ = self._operator.retry(self._operator.get, CONFIG)
        lines = [line for line in _lines(model.data / "zoo.cfg") if not line.startswith(STATIC)]
        lines += [line for line in config.decode().splitlines() if line.startswith("server.")]
        lines.append(f"server.{number}={_line(self._machine, ports, 'observer')}")
        (folder / "zoo.cfg").write_text("\n".join(lines))
        name = f"{self.ensemble.name}{number}"
        return LocalServer(name, folder, ports, self._argv, self._machine, model._supervisor)


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


def _line(machine: Machine, ports: ServerPorts, role: str) -> str:
    host = machine.address
    return f"{host}:{ports.quorum}:{ports.election}:{role};{host}:{ports.client}"
