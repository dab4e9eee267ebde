"""A topology: what the network of some hosts is like, as a JSON file.

    {"a1": {"rate_mbit_s": 2, "delay_ms": 10, "loss": 0.01, "cpu": 0.5},
     "a1 to a2": {"delay_ms": 40, "jitter_ms": 5},
     "clients to a1": {"rate_mbit_s": 1, "loss": 0.1}}

A host has the name of its server; ``clients`` are all hosts that make load. An entry of a host holds for what it
sends and receives, its delay for what it sends. An entry of a pair holds for what the first sends to the second,
and its delay stands in place of the host's. What is not named is as it is.

Or it is a preset of some hosts and the link of one hop:

    {"preset": "ring", "hosts": ["a1", "a2", "a3", "clients"], "delay_ms": 10}
    {"preset": "wan", "regions": [["a1", "clients"], ["a2"], ["a3"]], "delay_ms": 40, "jitter_ms": 4}
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any, NamedTuple

from bench import ROOT
from bench.lab import Faults, LabError, Server, Way

EXAMPLE = ROOT / "conf" / "topology.example.json"
RATE, DELAY, JITTER, LOSS, CPU = "rate_mbit_s", "delay_ms", "jitter_ms", "loss", "cpu"
ENTRIES = {
    RATE: "a number above 0",
    DELAY: "a number of at least 0",
    JITTER: "a number of at least 0, and at most the delay",
    LOSS: "a share, 0 to 1",
    CPU: "a number of processors above 0",
}
OF_A_HOST = (RATE, DELAY, LOSS, CPU)
OF_A_PAIR = (RATE, DELAY, JITTER, LOSS)
CLIENTS = "clients"
TO = " to "
PRESET, HOSTS, REGIONS = "preset", "hosts", "regions"


class TopologyError(LabError):
    """A topology cannot be used. The message names the file and the entry."""


@dataclass(frozen=True)
class Link:
    """Of a host, or from one to another.

    :param rate_bytes_s: 0: not limited.
    :param delay_s: of what is sent, give or take up to `jitter_s`.
    :param loss: the share of packets that are dropped.
    :param cpu: processors, of a host alone; 0: not limited.
    """

    rate_bytes_s: float = 0.0
    delay_s: float = 0.0
    loss: float = 0.0
    jitter_s: float = 0.0
    cpu: float = 0.0

    def __str__(self) -> str:
        jitter = f" ± {self.jitter_s * 1000:g}" if self.jitter_s else ""
        parts = [
            f"{self.rate_bytes_s * 8 / 1e6:g} Mbit/s" if self.rate_bytes_s else "",
            f"{self.delay_s * 1000:g}{jitter} ms" if self.delay_s else "",
            f"{self.loss * 100:g}% lost" if self.loss else "",
            f"{self.cpu:g} processors" if self.cpu else "",
        ]
        return ", ".join(filter(None, parts)) or "as it is"


def read_topology(path: Path) -> dict[str, Link]:
    """Of each host, and of each pair (``a1 to a2``), that the file names.

    :raises TopologyError: the file cannot be read or has mistakes.
    """
    try:
        entries = json.loads(path.read_text())
    except OSError as error:
        raise TopologyError(f"the topology {path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise TopologyError(f"the topology {path} is no JSON: {error}") from None
    if not isinstance(entries, dict):
        raise TopologyError(f"the topology {path} must be an object of hosts, not {type(entries).__name__}")
    try:
        if PRESET in entries:
            return make_preset(entries)
        return {_see_name(name): _read_link(name, entry) for name, entry in entries.items()}
    except TopologyError as error:
        raise TopologyError(f"the topology {path}: {error}") from None


def ends(name: str) -> list[str]:
    """The hosts that an entry is of: one, or two."""
    return name.split(TO)


def servers_of(topology: Mapping[str, Link]) -> set[str]:
    """The servers that it names."""
    return {end for name in topology for end in ends(name)} - {CLIENTS}


def _see_name(name: str) -> str:
    hosts = ends(name)
    if len(hosts) > 2 or not all(hosts) or any(" " in each for each in hosts):
        raise TopologyError(f"{name!r} is neither a host (a1) nor a pair (a1 to a2)")
    if len(hosts) == 2 and hosts[0] == hosts[1] != CLIENTS:
        raise TopologyError(f"{name!r}: what a host sends to itself does not leave it")
    return name


def _read_link(name: str, entry: Any) -> Link:
    known = OF_A_PAIR if TO in name else OF_A_HOST
    if not isinstance(entry, dict):
        raise TopologyError(f"{name} must be an object with {', '.join(known)}")
    for key, value in entry.items():
        if key not in known:
            raise TopologyError(f"{name} has no {key!r}; there are {', '.join(known)}")
        if not _is_good(key, value) or (key == JITTER and value > entry.get(DELAY, 0)):
            raise TopologyError(f"{key} of {name} is {value!r}; it must be {ENTRIES[key]}")
    return Link(
        entry.get(RATE, 0.0) * 1e6 / 8,
        entry.get(DELAY, 0.0) / 1000,
        float(entry.get(LOSS, 0.0)),
        entry.get(JITTER, 0.0) / 1000,
        float(entry.get(CPU, 0.0)),
    )


def _is_good(key: str, value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value < float("inf"):
        return False
    return value > 0 if key in (RATE, CPU) else 0 <= value <= 1 if key == LOSS else value >= 0


# presets: of how many hops is the way from one host to another


def _in_a_star(_: int, __: int, ___: int) -> int:
    return 1


def _in_a_ring(one: int, other: int, count: int) -> int:
    """The shorter way round."""
    return min((one - other) % count, (other - one) % count)


def _in_a_tree(one: int, other: int, _: int) -> int:
    """Each has two children, in the order in which they are named."""
    hops = 0
    while one != other:
        one, other = max(one, other), min(one, other)
        one, hops = (one - 1) // 2, hops + 1
    return hops


DISTANCES: Mapping[str, Callable[[int, int, int], int]] = {
    "simple": _in_a_star,
    "ring": _in_a_ring,
    "tree": _in_a_tree,
}
WAN = "wan"  # regions, in which all is as it is


def make_preset(entries: Mapping[str, Any]) -> dict[str, Link]:
    """The links of a preset, as a file has it.

    :raises TopologyError: it has mistakes.
    """
    name = entries[PRESET]
    if name not in (*DISTANCES, WAN):
        raise TopologyError(f"there is no preset {name!r}; there are {', '.join((*DISTANCES, WAN))}")
    key = REGIONS if name == WAN else HOSTS
    hop = _read_link(TO, {each: value for each, value in entries.items() if each not in (PRESET, key)})
    if hop == Link():
        raise TopologyError(f"the preset {name} has no link: it needs some of {', '.join(OF_A_PAIR)}")
    groups = entries.get(key)
    if name != WAN:
        groups = [groups]
    if not isinstance(groups, list) or not all(map(_is_list_of_names, groups)):
        raise TopologyError(f"{key} of the preset {name} must be a list of {'lists of ' * (name == WAN)}hosts")
    hosts = [host for group in groups for host in group]
    if len({*hosts}) < len(hosts):
        raise TopologyError(f"{key} of the preset {name} names a host twice")
    if len(groups if name == WAN else hosts) < 2:
        raise TopologyError(f"the preset {name} takes at least two {key}")
    if name == WAN:
        region = {host: number for number, group in enumerate(groups) for host in group}
        return {f"{one}{TO}{other}": hop for one, other in permutations(hosts, 2) if region[one] != region[other]}
    distance = DISTANCES[name]
    return {
        f"{hosts[one]}{TO}{hosts[other]}": _of_hops(hop, distance(one, other, len(hosts)))
        for one, other in permutations(range(len(hosts)), 2)
    }


def _is_list_of_names(group: object) -> bool:
    return isinstance(group, list) and all(isinstance(each, str) and " " not in each and each for each in group)


def _of_hops(hop: Link, hops: int) -> Link:
    loss = round(1 - (1 - hop.loss) ** hops, 9)
    return Link(hop.rate_bytes_s, hop.delay_s * hops, loss, hop.jitter_s * hops)


# on a lab


class _Plan(NamedTuple):
    """What is to be done to each host, by its name in the lab."""

    rates: dict[str, float]
    cpus: dict[str, float]
    losses: dict[str, float]
    ways: dict[str, dict[str, Way]]
    matrix: dict[str, dict[str, float]]


@contextmanager
def applied(
    faults: Faults, servers: Sequence[Server], clients: Sequence[str], topology: Mapping[str, Link]
) -> Iterator[None]:
    """
    :param clients: names of hosts.
    :raises TopologyError: it names a server that is not there.
    :raises NotPossible: the lab cannot do what it asks for.
    """
    plan = _plan(servers, clients, topology)
    hosts = {*plan.rates, *plan.cpus, *plan.losses, *plan.ways}
    try:
        for host, rate_bytes_s in plan.rates.items():
            faults.limit(host, rate_bytes_s)
        for host, cpu in plan.cpus.items():
            faults.limit_processors(host, cpu)
        for host, ways in plan.ways.items():
            faults.delay(host, ways)
        for host, loss in plan.losses.items():
            faults.lose(host, loss)
        if plan.matrix:
            faults.drop(plan.matrix)
        yield
    finally:
        if plan.matrix:
            faults.drop({})
        for host in sorted(hosts):
            faults.lift(host)


def _plan(servers: Sequence[Server], clients: Sequence[str], topology: Mapping[str, Link]) -> _Plan:
    of_name = {**{server.name: [server.host] for server in servers}, CLIENTS: [*clients]}
    for name in topology:
        for end in ends(name):
            if end not in of_name:
                raise TopologyError(f"the topology names {end}; the hosts are {', '.join(of_name)}")
    plan = _Plan({}, {}, {}, defaultdict(dict), defaultdict(dict))
    for name, link in topology.items():
        way = Way(link.delay_s, link.jitter_s, link.rate_bytes_s)
        for sender in of_name[ends(name)[0]]:
            if TO not in name:
                of_host = ((plan.rates, link.rate_bytes_s), (plan.cpus, link.cpu), (plan.losses, link.loss))
                for part, value in of_host:
                    if value:
                        part[sender] = value
                if link.delay_s:
                    plan.ways[sender][""] = Way(link.delay_s)
                continue
            for receiver in of_name[ends(name)[1]]:
                if sender != receiver and way != Way():
                    plan.ways[sender][receiver] = way
                if sender != receiver and link.loss:
                    plan.matrix[sender][receiver] = link.loss
    return plan
