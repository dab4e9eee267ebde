"""Target and achieved throughput, after the benchmark "Resolving Consensus": curves, a pool of clients, chains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import Any

from bench.report.charts import add_legend, draw_lines, make_panels
from bench.report.section import Plot, Section, Table
from bench.report.text import milliseconds, rate_of
from bench.scenarios.caveats import caveats_of
from bench.scenarios.curves import (
    HOW,
    Runs,
    Targets,
    make_answer,
    make_distribution_table,
    make_plots,
    make_table,
    raise_target,
    subject,
)
from bench.scenarios.evaluation import VALUE_BYTES, Evaluation, LoadError, Parts, sets
from bench.scenarios.repetitions import times_of
from bench.scenarios.summary import latency_s
from bench.statistics import scaled

NAME = "networks"
TITLE = "Target and achieved throughput"
POOLED = 1000  # requests outstanding, of a pool
KEYS, KEY_BYTES = 10, 10  # the slides' own: so many, and bytes of the value of each
OPEN, POOL, TEN, CHAINED, UNEQUAL = "open", "pool", "ten", "chained", "unequal"
BEFORE = {"equal": OPEN, "topology": UNEQUAL}  # in results from before scenario `topologies` came
TITLES = {
    OPEN: "Any number of requests outstanding",
    POOL: f"A pool of {POOLED:,} clients",
    TEN: f"A pool of {POOLED:,} clients, and {KEYS} keys of {KEY_BYTES} bytes",
    UNEQUAL: "Unequal links",
}
# Of the plan. Each of the few keys has a directory of its own, so that they are spread over the ensembles.
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    OPEN: {},
    TEN: {"pool": POOLED, "size": KEY_BYTES, "directories": KEYS, "leaves": 1},
}


@dataclass(frozen=True)
class Size:
    """
    :param systems: what is measured on which shapes.
    :param loops: in which ways, on which of them, a rate is raised.
    :param chains: of so many requests, each of which waits for the one before, on `chained`, `chains_s` of them.
    :param repeat: how often each rate is asked for.
    :param is_limited: the servers' bandwidth is, while rates are raised: it and not the processors is to be full.
    """

    systems: Mapping[str, str]
    threads: int
    warm_up_s: float
    measure_s: float
    targets: Targets
    loops: Mapping[str, Sequence[str]]
    chained: Sequence[str] = ()
    chains: Sequence[int] = ()
    chains_s: float = 20
    repeat: int = 1
    is_limited: bool = True


ALL = {
    "1x1": "kazoo",
    "1x3": "kazoo",
    "1x5": "kazoo",
    "1x7": "kazoo",
    "1x9": "kazoo",
    "3x3": "parkazoo",
    "9x3": "parkazoo",
}
TWO = ("1x3", "3x3")
CHAINED_ON = {shape: ALL[shape] for shape in ("1x3", "1x9", "3x3")}
CHAINS = (1, 2, 5, 10)


def _curves(loop: str, first_s: float, *, is_limited: bool, repeat: int = 1) -> Size:
    """One loop on all shapes."""
    targets = Targets(first_s, 3, 102_400, 4, 60)
    return Size(ALL, 8, 0.5, 3, targets, {loop: [*ALL]}, repeat=repeat, is_limited=is_limited)


SIZES: dict[str, Any] = {
    "small": Size(
        {"1x1": "kazoo"},
        2,
        0.2,
        0.8,
        Targets(50, 2, 50),
        {OPEN: ("1x1",), TEN: ("1x1",)},
        ("1x1",),
        (1, 2),
        is_limited=False,
    ),
    "medium": Size(
        {shape: ALL[shape] for shape in ("1x1", "1x3", "1x5", "1x9", "3x3")},
        4,
        0.5,
        2,
        Targets(50, 3, 25_600),
        {OPEN: [*ALL], TEN: TWO},
        TWO,
        (1, 3, 10),
    ),
    "full": Parts(
        theirs=_curves(TEN, 30, is_limited=False),
        keys=_curves(TEN, 10, is_limited=True, repeat=2),
        open=_curves(OPEN, 10, is_limited=True),
        chains=Size(CHAINED_ON, 8, 0.5, 3, Targets(0, 2, 0), {}, [*CHAINED_ON], CHAINS, repeat=3),
    ),
}


def measure(evaluation: Evaluation) -> None:
    size = evaluation.chosen(SIZES)
    settings = sets(size.threads, size.warm_up_s, size.measure_s)
    for shape, system in size.systems.items():
        with evaluation.ensembles(shape) as ensembles:
            evaluation.warm_up(evaluation.plan(ensembles, system, in_flight=4, **settings))
            for _ in evaluation.rounds(size.repeat):
                for chain in size.chains if shape in size.chained else ():
                    plan = evaluation.plan(ensembles, system, rate_s=size.chains_s, chain=chain, **settings)
                    with suppress(LoadError):
                        evaluation.run(ensembles, plan, {"loop": CHAINED, "chain": chain})
            with evaluation.limited(ensembles.servers) if size.is_limited else nullcontext() as rate_bytes_s:
                evaluation.document["rate_bytes_s"] = rate_bytes_s
                asked: dict[str, Sequence[float]] = {}
                for _ in evaluation.rounds(size.repeat):
                    for loop in (loop for loop, shapes in size.loops.items() if shape in shapes):
                        of_loop = {**settings, **SETTINGS[loop]}
                        how = {"loop": loop}, of_loop, asked.get(loop, ())
                        asked[loop] = raise_target(evaluation, ensembles, system, size.targets, *how)


def show(document: Mapping[str, Any]) -> Section:
    parts: dict[str, list[Mapping[str, Any]]] = {}
    for run in document["runs"]:
        parts.setdefault(run.get("loop") or BEFORE[run["network"]], []).append(run)
    chained = parts.pop(CHAINED, [])
    return Section(
        NAME,
        TITLE,
        f"Requests (sets, of {VALUE_BYTES} bytes if nothing else is said) {HOW} With a pool of {POOLED:,} clients "
        "no more are outstanding: the others wait, and that counts. In a chain each request waits for the one "
        "before. "
        f"Each rate was asked for: {times_of(document['runs'])}.",
        [
            *(make_table(TITLES[part], runs) for part, runs in parts.items()),
            *(table for part, runs in parts.items() for table in make_distribution_table(TITLES[part], runs)),
            *([_chains_table(chained)] if chained else []),
        ],
        [
            *(plot for part, runs in parts.items() for plot in make_plots(runs, NAME, part)),
            *([_chains_plot(chained)] if chained else []),
        ],
        caveats_of(document),
        [
            make_answer("What is the highest target, of requests/s, that each shape achieves?", parts[part])
            for part in (OPEN, TEN, POOL)[: 1 if OPEN in parts else None]
            if part in parts
        ],
    )


def _chains_table(runs: Runs) -> Table:
    return Table(
        "Chains: each request waits for the one before; latency of a whole chain in ms",
        ("", "requests in a chain", "chains/s", "median", "of it, each", "99%"),
        [
            [
                subject(run),
                str(run["chain"]),
                rate_of(run),
                milliseconds(latency_s(run, "writes", 50)),
                milliseconds(
                    scaled(median, 1 / run["chain"]) if (median := latency_s(run, "writes", 50)) else None
                ),
                milliseconds(latency_s(run, "writes", 99)),
            ]
            for run in runs
        ],
    )


def _chains_plot(runs: Runs) -> Plot:
    figure, panels = make_panels(1)
    lines = {
        f"{name}, {percentile}%": [
            (run["chain"], scaled(latency, 1000))
            for run in runs
            if subject(run) == name and (latency := latency_s(run, "writes", percentile))
        ]
        for name in dict.fromkeys(map(subject, runs))
        for percentile in (50, 99)
    }
    draw_lines(panels[0], lines, "", "requests in a chain", "latency of a chain, ms")
    add_legend(figure, panels[0])
    return Plot(f"{NAME}-chains", "Latency of chains of dependent requests", figure)
