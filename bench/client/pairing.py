"""Measures a comparison: its sides in turn, many times over."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import psutil

from bench.client.comparison import Comparison
from bench.client.grown_map import make_grown
from bench.client.measure import Measure, Spread, ratios, spread
from bench.client.side import BenchError, Side, SideProcess, Turn
from bench.machine import Processors
from parkazoo.local import LocalCluster

MOST_AT_ONCE = 15  # of the servers that start together
PAIRS_OF_A_PROCESS = 5  # then it is made anew: where things lie in a process's memory must not decide
WARM_UP = 4  # a new process first has a turn with so many times fewer operations, which is not counted


class Servers:
    """Clusters of one server for each ensemble, started when they are first asked for."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._clusters: dict[tuple[int, bool], LocalCluster] = {}
        self._more: list[LocalCluster] = []

    def __enter__(self) -> Servers:
        return self

    def __exit__(self, *_: object) -> None:
        for cluster in (*self._clusters.values(), *self._more):
            cluster.stop()

    def hosts(self, ensembles: int, *, has_grown: bool = False) -> list[str]:
        """Of each ensemble.

        :param has_grown: whether the cluster began with one of them.
        :raises LocalClusterError: the servers cannot be started.
        """
        if (ensembles, has_grown) not in self._clusters:
            cluster = LocalCluster(
                ensembles=ensembles,
                servers=1,
                zoo_cfg={"forceSync": "no"},  # clients are measured, not the disk
                jvm_flags=("-XX:TieredStopAtLevel=4", "-Xmx512m"),  # servers as fast as they can be
                progress=self._tell,
                make_map=not has_grown,
            )
            self._clusters[ensembles, has_grown] = cluster
            cluster.start()
            if has_grown:
                make_grown({each.name: each.hosts for each in cluster.ensembles})
        return [each.hosts for each in self._clusters[ensembles, has_grown].ensembles]

    def new_hosts(self, ensembles: int) -> list[str]:
        """Of each of new ensembles without a map, of as many as one likes. Their servers are small.

        :raises LocalClusterError: the servers cannot be started.
        """
        clusters = [
            LocalCluster(size, 1, make_map=False, zoo_cfg={"forceSync": "no"}, progress=self._tell)
            for size in parts(ensembles, MOST_AT_ONCE)
        ]
        for cluster in clusters:
            self._more.append(cluster)
            cluster.start()
        return [each.hosts for cluster in clusters for each in cluster.ensembles]

    def pids(self) -> list[int]:
        clusters = self._clusters.values()
        return [server.pid for cluster in clusters for each in cluster.ensembles for server in each.servers]


def parts(count: int, most: int) -> list[int]:
    """As few parts as possible, of at most that size and nearly the same one."""
    number = -(-count // most)
    return [count * (each + 1) // number - count * each // number for each in range(number)]


@dataclass
class Outcome:
    """The turns of a comparison: those of each side by its name, and all of them in the order they were taken."""

    comparison: Comparison
    turns: dict[str, list[Turn]]
    order: list[str] = field(default_factory=list)
    load_average: float = 0.0
    busy_share: float = 0.0
    others_share: float = 0.0
    error: str = ""

    def ratio(self, measure: Measure, side: Side | None = None) -> Spread:
        """The subject's ratio to the base, or that of another side."""
        subject = side or self.comparison.subject
        return ratios(measure, self.turns[subject.name], self.turns[self.comparison.base.name])

    def value(self, measure: Measure, side: Side) -> Spread:
        return spread(measure.of(turn) for turn in self.turns[side.name])

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.comparison.name,
            "about": self.comparison.about,
            "subject": self.comparison.subject.name,
            "base": self.comparison.base.name,
            "limit": self.comparison.limit.name if self.comparison.limit else None,
            "goals": {measure.name: goal for measure, goal in self.comparison.goals.items()},
            "turns": {
                name: [
                    {"operations": turn.operations, "wall_s": turn.wall_s, "cpu_s": turn.cpu_s} for turn in turns
                ]
                for name, turns in self.turns.items()
            },
            "order": self.order,
            "load_average": self.load_average,
            "busy_share": self.busy_share,
            "others_share": self.others_share,
            "error": self.error,
        }


def orders(sides: Sequence[Side], chance: random.Random) -> Callable[[], list[Side]]:
    """The order of turns: a random one, then its reverse, then another random one, ..."""
    reverse: list[Side] = []

    def draw() -> list[Side]:
        nonlocal reverse
        if reverse:
            order, reverse = reverse, []
            return order
        order = chance.sample(sides, len(sides))
        reverse = order[::-1]
        return order

    return draw


def measure(
    comparison: Comparison, operations: int, pairs: int, servers: Servers, chance: random.Random
) -> Outcome:
    """Every side has a turn in each of the pairs. A side that fails ends it; the outcome has the error.

    :raises LocalClusterError: the servers cannot be started.
    """
    outcome = Outcome(comparison, {side.name: [] for side in comparison.sides})
    hosts = {side.name: servers.hosts(side.ensembles, has_grown=side.has_grown) for side in comparison.sides}
    processors = Processors(servers.pids())
    draw = orders(comparison.sides, chance)
    try:
        for first in range(0, pairs, PAIRS_OF_A_PROCESS):
            count = min(PAIRS_OF_A_PROCESS, pairs - first)
            _measure_some(outcome, hosts, operations, [draw() for _ in range(count)], processors)
    except BenchError as error:
        outcome.error = str(error)
    outcome.load_average = psutil.getloadavg()[0]
    outcome.busy_share = processors.busy_share
    outcome.others_share = processors.others_share
    return outcome


def _measure_some(
    outcome: Outcome,
    hosts: dict[str, list[str]],
    operations: int,
    orders: Sequence[Sequence[Side]],
    processors: Processors,
) -> None:
    processes = {side.name: SideProcess(side, hosts[side.name]) for side in outcome.comparison.sides}
    try:
        for process in processes.values():
            process.wait_ready()
        for process in processes.values():
            process.take_turn(max(operations // WARM_UP, 2))
        for order in orders:
            turns = {}
            for side in order:
                with processors:
                    report = processes[side.name].take_turn(operations)
                turns[side.name] = report.turn
                processors.own_s += report.all_cpu_s
            for name, turn in turns.items():  # whole pairs only
                outcome.turns[name].append(turn)
                outcome.order.append(name)
    finally:
        for process in processes.values():
            process.end()
