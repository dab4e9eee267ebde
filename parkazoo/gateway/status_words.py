"""The answers to four-letter words, by which operators look at a gateway. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from parkazoo.version import __version__

# Monitors parse both parts of it.
VERSION = f"3.9.5-parkazoo-gateway-{__version__}, built on 2026-11-28 00:00 UTC"


class ProgramStatus(NamedTuple):
    """A program's connection.

    :param address: ``ADDRESS:PORT``. :param session: its id; 0: it has none yet.
    """

    address: str
    session: int
    timeout_ms: int
    queued: int
    received: int
    sent: int

    @property
    def line(self) -> str:
        return f" /{self.address}[1](queued={self.queued},recved={self.received},sent={self.sent})"

    @property
    def long_line(self) -> str:
        return f"{self.line[:-1]},sid=0x{self.session & (1 << 64) - 1:x},to={self.timeout_ms})"


class GatewayStatus(NamedTuple):
    """:param zxid: the highest that an ensemble has answered. :param sessions: how many there are."""

    programs: Sequence[ProgramStatus]
    sessions: int
    zxid: int
    received: int
    sent: int
    port: int


def _ruok(status: GatewayStatus) -> str:
    return "imok"


def _isro(status: GatewayStatus) -> str:
    return "rw"


def _srvr(status: GatewayStatus) -> str:
    return "\n".join((f"Zookeeper version: {VERSION}", *_counts(status)))


def _stat(status: GatewayStatus) -> str:
    lines = (each.line for each in status.programs)
    return "\n".join((f"Zookeeper version: {VERSION}", "Clients:", *lines, "", *_counts(status)))


def _counts(status: GatewayStatus) -> tuple[str, ...]:
    return (
        f"Received: {status.received}",
        f"Sent: {status.sent}",
        f"Connections: {len(status.programs)}",
        f"Outstanding: {_outstanding(status)}",
        f"Zxid: 0x{status.zxid:x}",
        "Mode: standalone",
        "",
    )


def _cons(status: GatewayStatus) -> str:
    return "\n".join((*(each.long_line for each in status.programs), "", ""))


def _mntr(status: GatewayStatus) -> str:
    facts = {
        "zk_version": VERSION,
        "zk_server_state": "standalone",
        "zk_packets_received": status.received,
        "zk_packets_sent": status.sent,
        "zk_num_alive_connections": len(status.programs),
        "zk_global_sessions": status.sessions,
        "zk_outstanding_requests": _outstanding(status),
    }
    return "".join(f"{name}\t{value}\n" for name, value in facts.items())


def _envi(status: GatewayStatus) -> str:
    return f"Environment:\nzookeeper.version={VERSION}\n"


def _conf(status: GatewayStatus) -> str:
    return f"clientPort={status.port}\n"


def _outstanding(status: GatewayStatus) -> int:
    return sum(each.queued for each in status.programs)


# Words of a server that a gateway has nothing to say to.
OTHER_WORDS = (
    b"crst",
    b"dirs",
    b"dump",
    b"gtmk",
    b"hash",
    b"lead",
    b"orst",
    b"srst",
    b"stmk",
    b"wchc",
    b"wchp",
    b"wchs",
)
WORDS: Mapping[bytes, Callable[[GatewayStatus], str] | None] = {
    **dict.fromkeys(OTHER_WORDS),
    b"ruok": _ruok,
    b"isro": _isro,
    b"srvr": _srvr,
    b"stat": _stat,
    b"cons": _cons,
    b"mntr": _mntr,
    b"envi": _envi,
    b"conf": _conf,
}


def answer_word(word: bytes, status: GatewayStatus) -> bytes:
    """Return the answer to one of WORDS."""
    write = WORDS[word]
    if write is None:
        return f"{word.decode()} is not executed because it is not in the whitelist.\n".encode()
    return write(status).encode()
