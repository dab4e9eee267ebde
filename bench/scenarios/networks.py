"""Arbitrary networks, after the benchmark "Resolving Consensus": target and achieved throughput, and latency."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.lab import Ensembles, NotPossible, Shape
from bench.report.charts import add_legend, draw_lines, make_logarithmic, make_panels
from bench.report.section import Answer, Plot, Section, Table
from bench.report.text import MARK, milliseconds, rate, rate_of
from bench.scenarios.caveats import caveats_of
from bench.scenarios.evaluation import VALUE_BYTES, Evaluation
from bench.scenarios.repetitions import times_of
from bench.scenarios.summary import latency_s
from bench.scenarios.topology import EXAMPLE, TopologyError, applied, read_topology
from bench.statistics import PERCENTILES, cumulate, decode, scaled

Runs = Sequence[Mapping[str, Any]]

NAME = "networks"
TITLE = "Arbitrary networks: target and achieved throughput"
POINTS = 400  # of a distribution's line


@dataclass(frozen=True)
class Size:
    """
    :param systems: what is measured on which shapes.
    :param rates_s: requests/s of all clients together that are asked for.
    :param fixed_rate_s: of these, the one whose latencies are shown as a distribution.
    :param of_topology_s: those that are asked for over a network of unequal links.
    :param repeat: how often each rate is asked for.
    """

    systems: Mapping[str, str]
    threads: int
    rates_s: Sequence[float]
    fixed_rate_s: float
    of_topology_s: Sequence[float]
    warm_up_s: float
    measure_s: float
    repeat: int = 1


SIZES = {
    "small": Size({"1x1": "kazoo"}, 2, (50,), 50, (), 0.2, 0.8),
    "medium": Size(
        {"1x1": "kazoo", "1x3": "kazoo", "1x5": "kazoo", "1x7": "kazoo", "1x9": "kazoo", "3x3": "parkazoo"},
        4,
        (100, 400, 1600),
        400,
        (10, 20, 40),
        1,
        3,
    ),
    "full": Size(
        {"1x1": "kazoo", "1x3": "kazoo", "1x5": "kazoo", "1x7": "kazoo", "1x9": "kazoo", "3x3": "parkazoo"},
        16,
        (100, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000),
        1000,
        (10, 20, 40, 80, 160),
        5,
        60,
        repeat=5,
    ),
}


def verify_topology(path: Path, size: str) -> None:
    """
    :raises TopologyError: the file has mistakes, or there is nothing in this size that it could be used for.
    """
    names = read_topology(path).keys()
    if not SIZES[size].of_topology_s:
        raise TopologyError(f"the size {size} has no unequal links: leave the topology out, or take another size")
    shapes = [*SIZES[size].systems]
    if not any(names <= set(_servers_of(Shape.parse(shape))) for shape in shapes):
        raise TopologyError(
            f"the topology {path} names {', '.join(names)}; no shape that is measured ({', '.join(shapes)}) has "
            "all of these servers, which are called a1, a2, ... b1, ..."
        )


def _servers_of(shape: Shape) -> list[str]:
    return [f"{ensemble}{number}" for ensemble in shape.names for number in range(1, shape.servers + 1)]


def measure(evaluation: Evaluation) -> None:
    size = SIZES[evaluation.size]
    topology = read_topology(evaluation.topology or EXAMPLE)
    for shape, system in size.systems.items():
        with evaluation.ensembles(shape) as ensembles:
            settings = _settings(size)
            evaluation.warm_up(evaluation.plan(ensembles, system, in_flight=4, **settings))
            for _ in evaluation.rounds(size.repeat):
                _ask(evaluation, ensembles, system, size.rates_s, {"network": "equal"}, settings)
            if size.of_topology_s and topology.keys() <= {server.name for server in ensembles.servers}:
                try:
                    with applied(evaluation.lab.faults, ensembles.servers, topology):
                        evaluation.document["topology"] = {name: str(link) for name, link in topology.items()}
                        unequal = {"network": "topology"}
                        for _ in evaluation.rounds(size.repeat):
                            _ask(evaluation, ensembles, system, size.of_topology_s, unequal, settings)
                except NotPossible as error:
                    evaluation.not_measured("a network of unequal links", error)


def _settings(size: Size) -> dict[str, Any]:
    return {
        "write": "set",
        "size": VALUE_BYTES,
        "threads": size.threads,
        "warm_up_s": size.warm_up_s,
        "measure_s": size.measure_s,
    }


def _ask(
    evaluation: Evaluation,
    ensembles: Ensembles,
    system: str,
    rates_s: Sequence[float],
    label: Mapping[str, Any],
    settings: Mapping[str, Any],
) -> None:
    for rate_s in rates_s:
        plan = evaluation.plan(ensembles, system, rate_s=rate_s, **settings)
        evaluation.run(ensembles, plan, {**label, "target": rate_s})


def show(document: Mapping[str, Any]) -> Section:
    equal = [run for run in document["runs"] if run["network"] == "equal"]
    unequal = [run for run in document["runs"] if run["network"] == "topology"]
    fixed = SIZES[document["about"]["size"]].fixed_rate_s
    links = "; ".join(f"{name}: {link}" for name, link in document.get("topology", {}).items())
    return Section(
        NAME,
        TITLE,
        f"Requests (sets of {VALUE_BYTES} bytes) come at random times, at a rate that is raised from run to run, "
        "whether earlier ones were answered or not. Latency counts from the time that a request was meant for, so "
        "that a system which is behind is seen to be; one without an answer counts with the time until the end."
        + (f" Unequal links: {links}." if links else "")
        + f" Each rate was asked for: {times_of(document['runs'])}.",
        [_table("Links as they are", equal), *([_table("Unequal links", unequal)] if unequal else [])],
        [
            _throughput_plot(equal, "equal"),
            _latency_plot(equal, "equal"),
            _distribution_plot([run for run in equal if run["target"] == fixed], fixed),
            *([_throughput_plot(unequal, "unequal"), _latency_plot(unequal, "unequal")] if unequal else []),
        ],
        caveats_of(document),
        _answers(equal),
    )


def _answers(equal: Runs) -> list[Answer]:
    highest = max((run["target"] for run in equal), default=0)
    achieved = {_subject(run): run["rates"]["all"] / highest for run in equal if run["target"] == highest}
    if not achieved:
        return []
    return [
        Answer(
            f"What share of {rate(highest)} requests/s does each shape achieve?",
            "",
            ", ".join(f"{subject} {each:.0%}" for subject, each in achieved.items()),
        )
    ]


def _subject(run: Mapping[str, Any]) -> str:
    return f"{run['system']} {run['shape']}"


def _table(title: str, runs: Runs) -> Table:
    return Table(
        f"{title}: achieved throughput, and percentiles of latency in ms",
        ("", "target/s", "achieved/s", *(f"{each:g}%" for each in PERCENTILES), "no answer"),
        [
            [
                _subject(run),
                rate(run["target"]),
                rate_of(run),
                *(milliseconds(latency_s(run, "writes", each)) for each in PERCENTILES),
                f"{run['unanswered'] + run['failed']:,}",
            ]
            for run in runs
        ],
    )


def _throughput_plot(runs: Runs, links: str) -> Plot:
    figure, panels = make_panels(1)
    lines = {
        name: [(run["target"], run["rates"]["all"]) for run in runs if _subject(run) == name]
        for name in dict.fromkeys(map(_subject, runs))
    }
    targets = sorted({run["target"] for run in runs})
    panels[0].plot(targets, targets, color="0.7", linestyle=":", label="as asked")
    draw_lines(panels[0], lines, "", "target, requests/s", "achieved, requests/s")
    make_logarithmic(panels[0])
    add_legend(figure, panels[0])
    return Plot(f"{NAME}-throughput-{links}", f"Achieved against target throughput, {links} links", figure)


def _latency_plot(runs: Runs, links: str) -> Plot:
    figure, panels = make_panels(2, 6.0, rows=2)
    for panel, percentile in zip(panels, PERCENTILES, strict=True):
        lines = {}
        for name in dict.fromkeys(map(_subject, runs)):
            found = [
                (run["rates"]["all"], latency)
                for run in runs
                if _subject(run) == name and (latency := latency_s(run, "writes", percentile))
            ]
            lines[name] = [(achieved, scaled(latency, 1000)) for achieved, latency in found]
        draw_lines(panel, lines, f"{percentile:g}th percentile", "achieved, requests/s", "latency, ms")
        make_logarithmic(panel)
    add_legend(figure, panels[0])
    return Plot(f"{NAME}-latency-{links}", f"Latency over achieved throughput, {links} links", figure)


def _distribution_plot(runs: Runs, rate_s: float) -> Plot:
    figure, panels = make_panels(1)
    lines = {}
    for run in runs:
        if "writes" in run["latency"]:
            points = cumulate(decode(run["latency"]["writes"]))
            step = max(1, len(points) // POINTS)
            lines[_subject(run) + (MARK if run["limits"] else "")] = [
                (latency * 1000, share) for latency, share in [*points[::step], points[-1]]
            ]
    draw_lines(panels[0], lines, "", "latency, ms", "share of the requests", marker="")
    make_logarithmic(panels[0], "x")
    add_legend(figure, panels[0])
    return Plot(f"{NAME}-distribution", f"Cumulative distribution of latency at {rate_s:g} requests/s", figure)
