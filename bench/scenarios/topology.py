"""A topology: what the network of some servers is like, as a JSON file.

    {"a1": {"rate_mbit_s": 2, "delay_ms": 10, "loss": 0.01}, "a2": {}}

A server that is not named is as it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import ROOT
from bench.lab import Faults, LabError, Server

EXAMPLE = ROOT / "conf" / "topology.example.json"
ENTRIES = {
    "rate_mbit_s": "a number above 0",
    "delay_ms": "a number of at least 0",
    "loss": "a share, 0 to 1",
}


class TopologyError(LabError):
    """A topology cannot be used. The message names the file and the entry."""


@dataclass(frozen=True)
class Link:
    """
    :param rate_bytes_s: that the server's host may send, and receive; 0: not limited.
    :param delay_s: of what it sends.
    :param loss: the share of packets that do not reach it.
    """

    rate_bytes_s: float = 0.0
    delay_s: float = 0.0
    loss: float = 0.0

    def __str__(self) -> str:
        parts = [
            f"{self.rate_bytes_s * 8 / 1e6:g} Mbit/s" if self.rate_bytes_s else "",
            f"{self.delay_s * 1000:g} ms" if self.delay_s else "",
            f"{self.loss * 100:g}% lost" if self.loss else "",
        ]
        return ", ".join(filter(None, parts)) or "as it is"


def read_topology(path: Path) -> dict[str, Link]:
    """Of each server that the file names.

    :raises TopologyError: the file cannot be read or has mistakes.
    """
    try:
        entries = json.loads(path.read_text())
    except OSError as error:
        raise TopologyError(f"the topology {path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise TopologyError(f"the topology {path} is no JSON: {error}") from None
    if not isinstance(entries, dict):
        raise TopologyError(f"the topology {path} must be an object of servers, not {type(entries).__name__}")
    return {name: _read_link(path, name, entry) for name, entry in entries.items()}


def _read_link(path: Path, name: str, entry: Any) -> Link:
    if not isinstance(entry, dict):
        raise TopologyError(f"the topology {path}: {name} must be an object with {', '.join(ENTRIES)}")
    for key, value in entry.items():
        if key not in ENTRIES:
            raise TopologyError(f"the topology {path}: {name} has no {key!r}; there are {', '.join(ENTRIES)}")
        if not _is_good(key, value):
            raise TopologyError(f"the topology {path}: {key} of {name} is {value!r}; it must be {ENTRIES[key]}")
    return Link(
        entry.get("rate_mbit_s", 0.0) * 1e6 / 8, entry.get("delay_ms", 0.0) / 1000, float(entry.get("loss", 0.0))
    )


def _is_good(key: str, value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return {"rate_mbit_s": value > 0, "delay_ms": value >= 0, "loss": 0 <= value <= 1}[key]


@contextmanager
def applied(faults: Faults, servers: Sequence[Server], topology: Mapping[str, Link]) -> Iterator[None]:
    """
    :raises TopologyError: it names a server that is not there.
    :raises NotPossible: the lab cannot do what it asks for.
    """
    of_name = {server.name: server for server in servers}
    if unknown := sorted(topology.keys() - of_name.keys()):
        raise TopologyError(f"the topology names {unknown[0]}; the servers are {', '.join(of_name)}")
    hosts = [of_name[name].host for name in topology]
    try:
        for host, link in zip(hosts, topology.values(), strict=True):
            _apply(faults, host, link)
        yield
    finally:
        for host in hosts:
            faults.lift(host)


def _apply(faults: Faults, host: str, link: Link) -> None:
    if link.rate_bytes_s:
        faults.limit(host, link.rate_bytes_s)
    if link.delay_s:
        faults.delay(host, link.delay_s)
    if link.loss:
        faults.lose(host, link.loss)
