"""What every server is started with: lines of zoo.cfg, flags of the JVM, logging."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
    """The text of ``zoo.cfg`` for server number `own` (1, 2, ...) of an ensemble."""
    lines = dict(settings, dataDir="./data")  # relative, because the file's encoding is Latin-1
    if len(ports) == 1:
        lines |= {"clientPort": str(ports[own - 1].client), "clientPortAddress": machines[own - 1].address}
    else:
        lines["standaloneEnabled"] = "false"
        for number, (each, (host, _)) in enumerate(zip(ports, machines, strict=True), 1):
            lines[f"server.{number}"] = f"{host}:{each.quorum}:{each.election};{host}:{each.client}"
    return "".join(f"{key}={value}\n" for key, value in lines.items())
