"""Unequal links and processors: a topology from a file, and presets; target and achieved throughput; latency."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.lab import Ensembles, Lab, NotPossible, Shape
from bench.report.section import Section
from bench.scenarios.caveats import caveats_of
from bench.scenarios.curves import HOW, Targets, make_answer, make_plots, make_table, raise_target
from bench.scenarios.evaluation import VALUE_BYTES, Evaluation, Parts, sets
from bench.scenarios.repetitions import times_of
from bench.scenarios.roles import wait_leader
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
TITLE = "Networks of unequal links and processors"
FILE = "the topology"
REGIONS = 3
# Of the presets, the link of one hop.
HOPS: Mapping[str, Mapping[str, float]] = {
    "simple": {"delay_ms": 1},
    "wan": {"delay_ms": 20, "jitter_ms": 2, "loss": 0.001},
    "tree": {"delay_ms": 2},
    "ring": {"delay_ms": 2},
}
# Of a processor, what each server gets; and the slow one, of ensemble a.
ALIKE, SLOW_LEADER, SLOW_FOLLOWER = "processors alike", "a slow leader", "a slow follower"
PROCESSORS = (ALIKE, SLOW_LEADER, SLOW_FOLLOWER)
CPU_SHARE, SLOW_SHARE = 0.15, 0.05
ABOUT = {
    ALIKE: f"each server gets {CPU_SHARE:g} of a processor",
    SLOW_LEADER: f"each server gets {CPU_SHARE:g} of a processor, the leader of ensemble a {SLOW_SHARE:g}",
    SLOW_FOLLOWER: f"each server gets {CPU_SHARE:g} of a processor, a follower of ensemble a {SLOW_SHARE:g}",
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
    :param presets: that are measured, of each shape; or some of PROCESSORS.
    :param repeat: how often each rate is asked for.
    :param has_file: whether the topology is measured.
    """

    systems: Mapping[str, str]
    presets: Mapping[str, Sequence[str]]
    threads: int
    targets: Targets
    warm_up_s: float
    measure_s: float
    repeat: int = 1
    has_file: bool = True


SEVERAL = {"1x3": "kazoo", "1x5": "kazoo", "3x3": "parkazoo"}


def _part(systems: Mapping[str, str], presets: Sequence[str], *, has_file: bool = False) -> Size:
    targets = Targets(20, 3, 102_400, 4, 60)
    return Size(systems, dict.fromkeys(systems, presets), 8, targets, 0.5, 3, has_file=has_file)


SIZES: dict[str, Any] = {
    "small": Size({"1x3": "kazoo"}, {"1x3": [*HOPS, SLOW_LEADER]}, 2, Targets(20, 2, 20), 0.2, 0.8),
    "medium": Size(
        SEVERAL,
        {"1x3": ["simple", "ring"], "1x5": [WAN, "tree"], "3x3": [WAN]},
        4,
        Targets(200, 4, 51_200),
        0.5,
        1.5,
    ),
    "full": Parts(
        links=_part(SEVERAL, [*HOPS], has_file=True),
        processors=_part({"1x3": "kazoo", "3x3": "parkazoo"}, PROCESSORS),
    ),
}


def verify_topology(path: Path, size: str) -> None:
    """
    :raises TopologyError: the file has mistakes, or there is nothing in this size that it could be used for.
    """
    topology, found = read_topology(path), SIZES[size]
    sizes = [each for each in (found.values() if isinstance(found, Parts) else [found]) if each.has_file]
    if not any(_fitting(each, topology) for each in sizes):
        shapes = dict.fromkeys(shape for each in sizes for shape in each.systems)
        raise TopologyError(
            f"the topology {path} names {', '.join(sorted(servers_of(topology)))}; no shape that is measured "
            f"({', '.join(shapes)}) has all of these servers, which are called a1, a2, ... b1, ..."
        )


def _fitting(size: Size, topology: Mapping[str, Link]) -> str:
    """The first shape that has the servers that a topology names; empty if there is none, or it is not wanted."""
    names = servers_of(topology)
    shapes = size.systems if size.has_file else ()
    return next((shape for shape in shapes if names <= {*_servers_of(Shape.parse(shape))}), "")


def _servers_of(shape: Shape) -> list[str]:
    return [f"{ensemble}{number}" for ensemble in shape.names for number in range(1, shape.servers + 1)]


def measure(evaluation: Evaluation) -> None:
    size = evaluation.chosen(SIZES)
    topology = read_topology(evaluation.topology or EXAMPLE)
    settings = sets(size.threads, size.warm_up_s, size.measure_s)
    for shape, system in size.systems.items():
        names = [*size.presets.get(shape, ()), *([FILE] if shape == _fitting(size, topology) else [])]
        if not names:
            continue
        with evaluation.ensembles(shape) as ensembles:
            evaluation.warm_up(evaluation.plan(ensembles, system, in_flight=4, **settings))
            for name in names:
                network = topology if name == FILE else make_network(name, evaluation.lab, ensembles)
                if name == FILE:
                    evaluation.document["topology"] = {each: str(link) for each, link in network.items()}
                asked: Sequence[float] = ()
                try:
                    with applied(evaluation.lab.faults, ensembles.servers, evaluation.lab.clients, network):
                        for _ in evaluation.rounds(size.repeat):
                            how = {"network": name}, settings, asked
                            asked = raise_target(evaluation, ensembles, system, size.targets, *how)
                except NotPossible as error:
                    evaluation.not_measured(f"{shape}, {name}", error)


def make_network(preset: str, lab: Lab, ensembles: Ensembles) -> Mapping[str, Link]:
    """A preset of all servers and clients; or of processors."""
    if preset in PROCESSORS:
        leader = wait_leader(lab, ensembles)
        follower = next(each for each in ensembles.of(leader.ensemble) if each != leader)
        slow = {SLOW_LEADER: leader.name, SLOW_FOLLOWER: follower.name}.get(preset)
        shares = {each.name: SLOW_SHARE if each.name == slow else CPU_SHARE for each in ensembles.servers}
        return {name: Link(cpu=share) for name, share in shares.items()}
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
