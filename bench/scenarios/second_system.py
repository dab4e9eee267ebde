"""A second system: etcd and ZooKeeper, asked by bare sockets, on as many servers with as much bandwidth."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from bench import statistics
from bench.lab import Ensembles, Server
from bench.load.plan import BARE, ETCD, ZOOKEEPER, Plan
from bench.report.charts import add_legend, draw_bars, make_panels
from bench.report.section import Answer, Plot, Section, Table
from bench.report.text import NOTHING, milliseconds, plain, rate, rate_of
from bench.scenarios.accounts import THREADS
from bench.scenarios.caveats import caveats_of
from bench.scenarios.curves import is_achieved, subject
from bench.scenarios.evaluation import Evaluation, LoadError, sleep_until
from bench.scenarios.repetitions import times_of
from bench.scenarios.summary import latency_s

Runs = Sequence[Mapping[str, Any]]
Weights = Mapping[str, Mapping[str, float]]  # of each server

NAME = "second-system"
TITLE = "A second system: etcd"
PARKAZOO = "parkazoo"
FREE, LIMITED = "unlimited", "limited"  # the parts
WRITES, ORDERED, LOCAL = "writes", "linearizable reads", "local reads"
LOADS: dict[str, dict[str, Any]] = {
    WRITES: {"read_share": 0.0},
    ORDERED: {"read_share": 1.0, "is_linearizable": True},
    LOCAL: {"read_share": 1.0},
}
LOADS_OF = {ZOOKEEPER: (WRITES, ORDERED, LOCAL), ETCD: (WRITES, ORDERED, LOCAL), PARKAZOO: (WRITES, LOCAL)}
SORTS_OF = {WRITES: "writes", ORDERED: "reads", LOCAL: "reads"}
TITLES = {FREE: "Without a limit", LIMITED: "At {} Mbit/s for each server"}
CARDS = ("card_sent_bytes", "card_received_bytes")
BEHIND = " (behind)"  # a rate that is less than was asked for
OUTSTANDING_EACH = 4  # requests that each client has outstanding on it, and directories that it has
EVEN = 1.2  # times the processors' time that a request costs the generator: what costs less is in favour
WEIGHED_SHARE = 0.8  # of the window: hosts take their time to answer, and the load must not have ended
AROUND_RUN_S, START_S = 3.5, 25.0  # about


@dataclass(frozen=True)
class Size:
    """
    :param systems: of each shape.
    :param clients: in one process, each with a connection to every ensemble.
    :param shares: of the requests/s in the closed loop: the rates of the open one.
    :param repeat: how often loads in the closed loop are run; those in the open loop are run once.
    """

    systems: Mapping[str, Sequence[str]]
    clients: int
    warm_up_s: float
    measure_s: float
    repeat: int
    shares: Sequence[float] = (0.5, 0.8)

    def about_s(self) -> float:
        """How long it takes, with both parts."""
        loads = sum(len(LOADS_OF[system]) for systems in self.systems.values() for system in systems)
        runs = loads * (2 * self.repeat + len(self.shares))
        starts = sum(1 + (ETCD in systems) for systems in self.systems.values())
        return runs * (self.warm_up_s + self.measure_s + AROUND_RUN_S) + starts * START_S


SIZES = {
    "small": Size({"1x1": (ZOOKEEPER, PARKAZOO, ETCD)}, 2, 0.2, 0.5, 1, (0.5,)),
    "medium": Size({"1x3": (ZOOKEEPER, ETCD)}, 6, 2, 7, 1),
    "full": Size({"1x3": (ZOOKEEPER, ETCD), "3x3": (ZOOKEEPER, PARKAZOO, ETCD)}, 6, 1, 6, 2),
}


def measure(evaluation: Evaluation) -> None:
    size = SIZES[evaluation.size]
    evaluation.tell(f"about {size.about_s() / 60:.0f} minutes")
    for shape, systems in size.systems.items():
        for some in ([each for each in systems if each != ETCD], [each for each in systems if each == ETCD]):
            if some:
                with _servers(evaluation, shape, some) as ensembles:
                    _measure_systems(evaluation, size, ensembles, some)


@contextmanager
def _servers(evaluation: Evaluation, shape: str, systems: Sequence[str]) -> Iterator[Ensembles]:
    with evaluation.etcd_clusters(shape) if ETCD in systems else evaluation.ensembles(shape) as ensembles:
        yield ensembles


def _measure_systems(evaluation: Evaluation, size: Size, ensembles: Ensembles, systems: Sequence[str]) -> None:
    for system in systems:
        evaluation.warm_up(_plan(evaluation, size, ensembles, system, read_share=0.5))
    closed = _measure_closed(evaluation, size, ensembles, systems, FREE)
    with evaluation.limited(ensembles.servers) as rate_bytes_s:
        part = FREE
        if rate_bytes_s:
            evaluation.document["rate_bytes_s"] = rate_bytes_s
            part = LIMITED
            closed = _measure_closed(evaluation, size, ensembles, systems, part)
        for _ in evaluation.rounds():
            for (system, load), rates in closed.items():
                for share in size.shares:
                    rate_s = share * statistics.spread(rates)
                    plan = _plan(evaluation, size, ensembles, system, rate_s=rate_s, **LOADS[load])
                    label = {"part": part, "load": load, "share": share}
                    with suppress(LoadError):
                        run = evaluation.run(ensembles, replace(plan, is_pinned=False), label)
                        run["target"] = rate_s


def _measure_closed(
    evaluation: Evaluation, size: Size, ensembles: Ensembles, systems: Sequence[str], part: str
) -> dict[tuple[str, str], list[float]]:
    """Of each system and load, requests/s."""
    found: dict[tuple[str, str], list[float]] = {}
    for _ in evaluation.rounds(size.repeat):
        for system in systems:
            for load in LOADS_OF[system]:
                plan = _plan(evaluation, size, ensembles, system, **LOADS[load])
                weights: list[Weights] = []

                def weigh(begun_s: float, weights: list[Weights] = weights) -> None:
                    for share in (0.0, WEIGHED_SHARE):
                        sleep_until(begun_s + size.warm_up_s + share * size.measure_s)
                        weights.append(_weigh_all(evaluation, ensembles))

                try:
                    run = evaluation.run(ensembles, plan, {"part": part, "load": load, "share": 0.0}, weigh)
                except LoadError:
                    continue
                run["costs"] = find_costs(run, *weights)
                evaluation.save()
                found.setdefault((system, load), []).append(run["rates"]["all"])
    return found


def _plan(evaluation: Evaluation, size: Size, ensembles: Ensembles, system: str, **entries: Any) -> Plan:
    count = ensembles.shape.ensembles
    plan = evaluation.plan(
        ensembles,
        system,
        nodes=1,
        threads=size.clients,
        write="set",
        in_flight=OUTSTANDING_EACH * count,
        directories=OUTSTANDING_EACH * count,
        is_pinned=True,
        warm_up_s=size.warm_up_s,
        measure_s=size.measure_s,
        **entries,
    )
    return replace(plan, root=f"/bench-{system[0]}")  # keys of one length


def _weigh_all(evaluation: Evaluation, ensembles: Ensembles) -> Weights:
    def weigh(server: Server) -> dict[str, float]:
        return {**evaluation.lab.weigh(server), "at_s": time.time()}

    names = [server.name for server in ensembles.servers]
    with ThreadPoolExecutor(THREADS) as pool:
        return dict(zip(names, pool.map(weigh, ensembles.servers), strict=True))


def find_costs(run: Mapping[str, Any], before: Weights, after: Weights) -> dict[str, float]:
    """What a request costs: microseconds of the processors, of all servers together and of the generator; bytes
    that the network card which carries most sends or receives, the mean of all ensembles.

    :param before: as Lab.weigh has it, with the time, ``at_s``; `after` likewise.
    """
    rate: float = run["rates"]["all"]
    if not rate:
        return {}

    def per_s(name: str, of: str) -> float:
        return (after[name][of] - before[name][of]) / (after[name]["at_s"] - before[name]["at_s"])

    plan, over_time = run["plan"], run["over_time"]["ensembles"]
    total = sum(sum(each["answered"]) for each in over_time)
    total_s = plan["warm_up_s"] + plan["measure_s"]
    costs = {
        "servers_us": sum(per_s(name, "cpu_ms") for name in before) * 1000 / rate,
        "generator_us": run["cpu_share"] * total_s * 1e6 / total,
    }
    if all(card in each for each in before.values() for card in CARDS):
        busiest: dict[str, float] = {}
        for name in before:
            ensemble = name[0]
            most = max(per_s(name, card) for card in CARDS)
            busiest[ensemble] = max(busiest.get(ensemble, 0.0), most)
        costs["card_bytes"] = sum(busiest.values()) / rate
    return costs


def show(document: Mapping[str, Any]) -> Section:
    runs = document["runs"]
    closed = [run for run in runs if not run["share"]]
    opened = [run for run in runs if run["share"]]
    parts = {part: some for part in (LIMITED, FREE) if (some := [run for run in closed if run["part"] == part])}
    first = next(iter(parts.values()))
    lost = sum(map(_lost, closed))
    return Section(
        NAME,
        TITLE,
        _about(document, closed),
        [
            *(_table(document, *each) for each in parts.items()),
            *([_generator_table(parts[FREE])] if FREE in parts else []),
            *([_latency_table(opened)] if opened else []),
        ],
        [_plot(document, first)],
        [
            *_fairness(closed),
            *([f"In the closed loop {lost:,} requests had no answer, or an error."] if lost else []),
            "ZooKeeper has no linearizable read. A sync before each get, on one connection, comes closest: it "
            "waits for the leader, but a deposed leader may answer it. Local reads may be stale on both sides.",
            f"{PARKAZOO} is asked by its own client, which costs more than a bare socket; the others are not.",
            "The servers of one system are started when those of the other have ended, so repetitions are not in "
            "turns.",
            *caveats_of(document),
        ],
        _answers(first),
    )


def _about(document: Mapping[str, Any], closed: Runs) -> str:
    limit = document.get("rate_bytes_s")
    bandwidth = f" at {limit * 8 / 1e6:g} Mbit/s for each server's network card, and" if limit else ""
    plan = closed[0]["plan"]
    return (
        f"Measured{bandwidth} without a limit. One process has {plan['threads']} clients, each with a connection "
        f"to every ensemble and {OUTSTANDING_EACH} requests outstanding on it. Values have 1 KiB; writes replace "
        "values that are there. On both sides a majority has a write in its log when it is answered. "
        "Several ensembles stand side by side: the directory of a key says which has it. "
        f"In the closed loop loads were run {times_of(closed)}."
    )


def _cost(run: Mapping[str, Any] | None, name: str) -> str:
    return NOTHING if run is None else rate(run["costs"].get(name))


def _table(document: Mapping[str, Any], part: str, runs: Runs) -> Table:
    """A row for each system and shape."""
    if part == LIMITED:
        cost, title = "card_bytes", "bytes on the busiest card, a {}"
    else:
        cost, title = "servers_us", "all servers, µs a {}"
    rows = []
    for name, of in _by_subject(runs).items():
        row = [rate_of(of[load]) if load in of else NOTHING for load in LOADS]
        rows.append([name, *row, *(_cost(of.get(load), cost) for load in LOADS)])
    columns = [*(f"{load}/s" for load in LOADS), *_of_each(title)]
    return Table(TITLES[part].format(_megabits(document)), ("", *columns), rows)


def _by_subject(runs: Runs) -> dict[str, dict[str, Mapping[str, Any]]]:
    """Of each system and shape, the run of each load."""
    found: dict[str, dict[str, Mapping[str, Any]]] = {}
    for run in runs:
        found.setdefault(subject(run), {})[run["load"]] = run
    return found


def _of_each(title: str) -> list[str]:
    return [title.format(load.removesuffix("s")) for load in LOADS]


def _generator_table(runs: Runs) -> Table:
    rows = [
        [name, *(_cost(of.get(load), "generator_us") for load in LOADS)] for name, of in _by_subject(runs).items()
    ]
    return Table("Processor time of the load generator, µs", ("", *_of_each("a {}")), rows)


def _megabits(document: Mapping[str, Any]) -> str:
    return f"{document.get('rate_bytes_s', 0) * 8 / 1e6:g}"


def _latency_table(runs: Runs) -> Table:
    """Of the open loop."""
    return Table(
        "At a share of the requests/s in the closed loop: latency in ms",
        ("", "load", "share", "target/s", "achieved/s", "median", "99%", "no answer"),
        [
            [
                subject(run),
                run["load"],
                f"{run['share']:.0%}",
                rate(run["target"]),
                rate_of(run) + ("" if is_achieved(run) else BEHIND),
                *(milliseconds(latency_s(run, SORTS_OF[run["load"]], each)) for each in (50, 99)),
                f"{_lost(run):,}",
            ]
            for run in runs
        ],
    )


def _lost(run: Mapping[str, Any]) -> int:
    """Requests without an answer, or with an error."""
    return int(run["unanswered"] + run["failed"])


def _plot(document: Mapping[str, Any], runs: Runs) -> Plot:
    figure, panels = make_panels(1)
    bars = {
        load: {subject(run).replace(" ", "\n"): run["rates"]["all"] for run in runs if run["load"] == load}
        for load in LOADS
    }
    draw_bars(panels[0], bars, "", "requests/s")
    add_legend(figure, panels[0])
    limit = TITLES[runs[0]["part"]].format(_megabits(document))
    return Plot(NAME, f"{limit}: requests/s of each system and shape", figure)


def _fairness(closed: Runs) -> list[str]:
    """What a request costs the generator on both sides, where the servers are not held back."""
    found: dict[str, dict[str, float]] = {load: {} for load in LOADS}
    for run in reversed(closed):  # so the first shape counts
        if run["part"] == FREE and run["costs"]:
            found[run["load"]][run["system"]] = run["costs"]["generator_us"]
    said = [_favour(load, of) for load, of in found.items() if {*BARE} <= of.keys()]
    if not said:
        return []
    return [
        "Processor time of the load generator for a request, ZooKeeper's first and then etcd's: "
        f"{'; '.join(said)}. Up to {EVEN:g} times counts as even."
    ]


def _favour(load: str, of: Mapping[str, float]) -> str:
    """:param of: each system, its microseconds."""
    times = of[ETCD] / of[ZOOKEEPER]
    favour = ZOOKEEPER if times > EVEN else ETCD if times < 1 / EVEN else ""
    verdict = f"in favour of {favour}" if favour else "even"
    return f"{load} {of[ZOOKEEPER]:.0f} and {of[ETCD]:.0f} µs, {times:.2f} times, {verdict}"


def _answers(runs: Runs) -> list[Answer]:
    found = [
        f"{subject(run)} {plain(run['rates']['all'], '{:,.0f}'.format)}" for run in runs if run["load"] == WRITES
    ]
    return [Answer(f"How many writes/s does etcd do beside ZooKeeper, {runs[0]['part']}?", "", ", ".join(found))]
