"""What every server is started with: lines of zoo.cfg, flags of the JVM, logging."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from parkazoo.local.addresses import ServerPorts
from parkazoo.local.servers import Machine

ZOO_CFG = {
    "tickTime": "500",
    "initLimit": "40",
    "syncLimit": "10",
    "minSessionTimeout": "1000",
    "maxSessionTimeout": "60000",
    "maxClientCnxns": "0",
    "admin.enableServer": "false",
    "4lw.commands.whitelist": "*",
    "reconfigEnabled": "true",
    "extendedTypesEnabled": "true",
}
# Nine servers share a small machine: little memory, few threads, no time spent on optimising compilers.
JVM_FLAGS = (
    "-Xmx192m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:ActiveProcessorCount=2",
    "-Djava.awt.headless=true",
    "-Dfile.encoding=UTF-8",
    "-Dlogback.configurationFile=logback.xml",
)
LOGBACK = """\
<configuration>
  <statusListener class="ch.qos.logback.core.status.NopStatusListener"/>
  <appender name="console" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d{ISO8601} %-5level [%thread] %logger{0}: %msg%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="console"/></root>
  <logger name="org.apache.zookeeper.server.command" level="WARN"/>
</configuration>
"""


def format_zoo_cfg(
    settings: Mapping[str, str], own: int, ports: Sequence[ServerPorts], machines: Sequence[Machine]
) -> str:
    """The text of ``zoo.cfg`` for server number `own` (1, 2, ...) of an ensemble; a server without a port for a
    quorum stands alone.
    """
    lines = dict(settings, dataDir="./data")  # relative, because the file's encoding is Latin-1
    if not ports[own - 1].quorum:
        lines |= {"clientPort": str(ports[own - 1].client), "clientPortAddress": machines[own - 1].address}
    else:
        lines["standaloneEnabled"] = "false"
        for number, (each, (host, _)) in enumerate(zip(ports, machines, strict=True), 1):
            lines[f"server.{number}"] = f"{host}:{each.quorum}:{each.election};{host}:{each.client}"
    return "".join(f"{key}={value}\n" for key, value in lines.items())


def lay_out(folder: Path, own: int, zoo_cfg: str) -> None:
    """Write what server number `own` needs into its folder."""
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "myid").write_text(f"{own}\n")
    (folder / "logback.xml").write_text(LOGBACK)
    (folder / "zoo.cfg").write_text(zoo_cfg)


def java_command(java: Path, flags: Sequence[str], jars: Sequence[Path]) -> list[str]:
    return [str(java), *JVM_FLAGS, *flags, "-cp", os.pathsep.join(map(str, jars))]


def server_command(java: Path, flags: Sequence[str], jars: Sequence[Path]) -> list[str]:
    """The command of a server, in its folder.

    :param flags: after those of every server.
    """
    return [*java_command(java, flags, jars), "org.apache.zookeeper.server.quorum.QuorumPeerMain", "./zoo.cfg"]
