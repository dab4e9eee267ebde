"""Networks of unequal links: a topology from a file, and presets; target and achieved throughput, and latency."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.lab import Ensembles, NotPossible, Shape
from bench.report.section import Section
from bench.scenarios.caveats import caveats_of
from bench.scenarios.curves import HOW, Targets, make_answer, make_plots, make_table, raise_target
from bench.scenarios.evaluation import VALUE_BYTES, Evaluation, sets
from bench.scenarios.repetitions import times_of
from bench.scenarios.topology import (
    CLIENTS,
    EXAMPLE,
    WAN,
    Link,
    TopologyError,
    applied,
    make_preset,
    read_topology,
    servers_of,
)

NAME = "topologies"
TITLE = "Networks of unequal links"
FILE = "the topology"
REGIONS = 3
# Of the presets, the link of one hop.
HOPS: Mapping[str, Mapping[str, float]] = {
    "simple": {"delay_ms": 1},
    "wan": {"delay_ms": 20, "jitter_ms": 2, "loss": 0.001},
    "tree": {"delay_ms": 2},
    "ring": {"delay_ms": 2},
}
ABOUT = {
    "simple": "1 ms between any two hosts",
    "wan": "three regions, 20 ms, give or take 2, between two of them, and one packet of 1,000 lost; each "
    "ensemble has servers in all of them, clients are in the first",
    "tree": "all servers, and then the clients, are a binary tree with 2 ms for each edge",
    "ring": "all servers, and then the clients, are a ring with 2 ms for each edge",
}


@dataclass(frozen=True)
class Size:
    """
    :param systems: what is measured on which shapes; the topology, on the first that has all of its servers.
    :param presets: that are measured, of each shape.
    :param repeat: how often each rate is asked for.
    """

    systems: Mapping[str, str]
    presets: Mapping[str, Sequence[str]]
    threads: int
    targets: Targets
    warm_up_s: float
    measure_s: float
    repeat: int = 1


SEVERAL = {"1x3": "kazoo", "1x5": "kazoo", "3x3": "parkazoo"}
SIZES = {
    "small": Size({"1x3": "kazoo"}, {"1x3": [*HOPS]}, 2, Targets(20, 2, 20), 0.2, 0.8),
    "medium": Size(
        SEVERAL,
        {"1x3": ["simple", "ring"], "1x5": [WAN, "tree"], "3x3": [WAN]},
        4,
        Targets(200, 4, 51_200),
        0.5,
        1.5,
    ),
    "full": Size(
        {**SEVERAL, "1x9": "kazoo"},
        {"1x3": [*HOPS], "1x5": [*HOPS], "3x3": [*HOPS], "1x9": [*HOPS]},
        16,
        Targets(10, 2, 102_400),
        5,
        60,
    ),
}


def verify_topology(path: Path, size: str) -> None:
    """
    :raises TopologyError: the file has mistakes, or there is nothing in this size that it could be used for.
    """
    topology = read_topology(path)
    if not _fitting(SIZES[size], topology):
        raise TopologyError(
            f"the topology {path} names {', '.join(sorted(servers_of(topology)))}; no shape that is measured "
            f"({', '.join(SIZES[size].systems)}) has all of these servers, which are called a1, a2, ... b1, ..."
        )


def _fitting(size: Size, topology: Mapping[str, Link]) -> str:
    """The first shape that has the servers that a topology names; empty if there is none."""
    names = servers_of(topology)
    return next((shape for shape in size.systems if names <= {*_servers_of(Shape.parse(shape))}), "")


def _servers_of(shape: Shape) -> list[str]:
    return [f"{ensemble}{number}" for ensemble in shape.names for number in range(1, shape.servers + 1)]


def measure(evaluation: Evaluation) -> None:
    size = SIZES[evaluation.size]
    topology = read_topology(evaluation.topology or EXAMPLE)
    settings = sets(size.threads, size.warm_up_s, size.measure_s)
    try:
        for shape, system in size.systems.items():
            with evaluation.ensembles(shape) as ensembles:
                evaluation.warm_up(evaluation.plan(ensembles, system, in_flight=4, **settings))
                networks = {preset: make_network(preset, ensembles) for preset in size.presets.get(shape, ())}
                if shape == _fitting(size, topology):
                    networks[FILE] = topology
                for name, network in networks.items():
                    if name == FILE:
                        evaluation.document["topology"] = {each: str(link) for each, link in network.items()}
                    with applied(evaluation.lab.faults, ensembles.servers, evaluation.lab.clients, network):
                        for _ in evaluation.rounds(size.repeat):
                            raise_target(evaluation, ensembles, system, size.targets, {"network": name}, settings)
    except NotPossible as error:
        evaluation.not_measured("networks of unequal links", error)


def make_network(preset: str, ensembles: Ensembles) -> Mapping[str, Link]:
    """A preset of all servers and clients."""
    servers = [server.name for server in ensembles.servers]
    regions = [servers[number::REGIONS] for number in range(REGIONS)]
    regions[0].append(CLIENTS)
    hosts = {"regions": regions} if preset == WAN else {"hosts": [*servers, CLIENTS]}
    return make_preset({"preset": preset, **hosts, **HOPS[preset]})


def show(document: Mapping[str, Any]) -> Section:
    runs = document["runs"]
    by_name = {
        name: [run for run in runs if run["network"] == name]
        for name in dict.fromkeys(run["network"] for run in runs)
    }
    links = "; ".join(f"{name}: {link}" for name, link in document.get("topology", {}).items())
    about = {FILE: links, **ABOUT}
    networks = " ".join(f"{name.capitalize()}: {about[name]}." for name in by_name)
    return Section(
        NAME,
        TITLE,
        f"Requests (sets of {VALUE_BYTES} bytes) {HOW} {networks} Each rate was asked for: {times_of(runs)}.",
        [make_table(name, found) for name, found in by_name.items()],
        [plot for name, found in by_name.items() for plot in make_plots(found, NAME, name.replace(" ", "-"))],
        [
            "Delays are by programs that pass each packet on, and share the processors: they are never less than "
            "asked for, and more where packets are many. Jitter does not change the order of packets.",
            *caveats_of(document),
        ],
        [
            make_answer(f"What is the highest target that each shape achieves: {name}?", found)
            for name, found in by_name.items()
        ],
    )
