"""Deferred writes beside synchronous and pipelined ones; and what the report on nil-externality has measured."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from bench import statistics
from bench.lab import Ensembles, NotPossible
from bench.published import NIL_EXTERNAL, THEIR_GET_S, THEIR_GETS, THEIR_PUT_S, THEIR_PUTS
from bench.report.charts import add_legend, draw_bars, draw_lines, make_logarithmic, make_panels
from bench.report.section import Answer, Plot, Section, Table, goal_is_met
from bench.report.text import NOTHING, milliseconds, plain, rate, rate_of, ratio
from bench.scenarios import failing_followers
from bench.scenarios.caveats import caveats_of
from bench.scenarios.evaluation import VALUE_BYTES, Evaluation, LoadError
from bench.scenarios.failing_followers import FOLLOWERS, Outage
from bench.scenarios.repetitions import times_of
from bench.scenarios.summary import call_s, latency_s, together_s
from bench.statistics import mean_s, percentile_s, scaled

Run = Mapping[str, Any]
Runs = Sequence[Run]

NAME = "deferred"
TITLE = "Deferred writes beside others"
MODES, SHARE, CLIENTS, RECENT = "modes", "share", "clients", "recent"
PARTS = (MODES, SHARE, CLIENTS, RECENT, FOLLOWERS)
SYNC, ASYNC, DEFERRED, BARRIERS = "sync", "200 in flight", "deferred", "deferred, a barrier each 100"
GETS = GET, GET_BESIDE = "get", "get, deferred() open"
KAZOO = KAZOO_SET, KAZOO_GET = "kazoo: set", "kazoo: get"
READS = *GETS, KAZOO_GET
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    SYNC: {},
    "16 in flight": {"in_flight": 16},
    ASYNC: {"in_flight": 200},
    DEFERRED: {"is_deferred": True},
    BARRIERS: {"is_deferred": True, "barrier_each": 100},
    GET: {"read_share": 1.0},
    GET_BESIDE: {"read_share": 1.0, "is_deferred": True},
    KAZOO_SET: {},
    KAZOO_GET: {"read_share": 1.0},
}
BOTH = (SYNC, DEFERRED)
MOST_PENDING = 3200  # of all clients of a crowd: a deferred write is committed after those before it
ENDS = 50, 100  # percentiles
GOALS = {"of async": 3.0, "of sync": 10.0, "CPU": 0.4, "call": 0.05}


@dataclass(frozen=True)
class Size:
    """
    :param shapes: for the modes; the first is that of all else.
    :param repeat: of all modes, one after the other, on the first shape.
    :param shares: of writes among requests.
    :param recent: of a batch's reads, the share that comes at once; `batch`, of so many sets and as many reads.
    :param outage: for the part in which followers die; `outage_shape`, of that part.
    """

    shapes: Sequence[str]
    repeat: int
    shares: Sequence[float]
    recent: Sequence[float]
    batch: int
    crowds: Sequence[int]
    outage_shape: str
    outage: Outage
    warm_up_s: float
    measure_s: float


SIZES = {
    "small": Size(("1x3",), 1, (0.5,), (0.5,), 10, (2,), "1x3", Outage(100, 0.3, 0.2, 0.5, 0.5), 0.1, 0.3),
    "medium": Size(
        ("1x3", "3x3"),
        3,
        (0.5,),
        (0, 1),
        100,
        (1, 16),
        "1x5",
        Outage(500, 2, 2, 4, 6),
        0.3,
        1,
    ),
    "full": Size(
        ("1x3", "1x5", "3x3"),
        3,
        (0, 0.1, 0.25, 0.5, 0.75, 0.9, 1),
        (0, 0.25, 0.5, 0.75, 1),
        1000,
        (1, 3, 10, 30, 100),
        "1x5",
        Outage(2000, 5, 5, 5, 20),
        1,
        4,
    ),
}


def measure(evaluation: Evaluation) -> None:
    size = SIZES[evaluation.size]
    for shape in dict.fromkeys((*size.shapes, size.outage_shape)):
        with evaluation.ensembles(shape) as ensembles:
            evaluation.warm_up(evaluation.plan(ensembles, "parkazoo", **_settings(size, ASYNC)))
            if shape in size.shapes:
                _measure_modes(evaluation, size, ensembles)
            if shape == size.shapes[0]:
                _measure_more(evaluation, size, ensembles)
            if shape == size.outage_shape:
                _measure_outages(evaluation, size, ensembles)


def _measure_modes(evaluation: Evaluation, size: Size, ensembles: Ensembles) -> None:
    """All of them, of kazoo on one ensemble alone."""
    modes = [mode for mode in SETTINGS if mode not in KAZOO or ensembles.shape.ensembles == 1]
    for _ in evaluation.rounds(size.repeat if str(ensembles.shape) == size.shapes[0] else 1):
        for mode in modes:
            _run(evaluation, size, ensembles, MODES, mode)


def _settings(size: Size, mode: str) -> dict[str, Any]:
    return {
        "nodes": 1,
        "write": "set",
        "size": VALUE_BYTES,
        "warm_up_s": size.warm_up_s,
        "measure_s": size.measure_s,
        **SETTINGS[mode],
    }


def _run(
    evaluation: Evaluation,
    size: Size,
    ensembles: Ensembles,
    part: str,
    mode: str,
    value: float = 0,
    **settings: Any,
) -> None:
    """
    :param value: of what is varied.
    """
    system = "kazoo" if mode in KAZOO else "parkazoo"
    plan = evaluation.plan(ensembles, system, **{**_settings(size, mode), **settings})
    with suppress(LoadError):
        evaluation.run(ensembles, plan, {"part": part, "mode": mode, "value": value})


def _measure_more(evaluation: Evaluation, size: Size, ensembles: Ensembles) -> None:
    for _ in evaluation.rounds():
        for share, mode in itertools.product(size.shares, BOTH):
            _run(evaluation, size, ensembles, SHARE, mode, share, read_share=1 - share)
        for share, mode in itertools.product(size.recent, BOTH):
            _run(evaluation, size, ensembles, RECENT, mode, share, batch=size.batch, recent_share=share)
        for clients, mode in itertools.product(size.crowds, (*BOTH, *GETS)):
            _run(evaluation, size, ensembles, CLIENTS, mode, clients, threads=clients, max_pending=MOST_PENDING)


def _measure_outages(evaluation: Evaluation, size: Size, ensembles: Ensembles) -> None:
    try:
        for _ in evaluation.rounds():
            for mode in BOTH:
                _measure_outage(evaluation, size, ensembles, mode)
    except NotPossible as error:
        evaluation.not_measured("followers that die", error)


def _measure_outage(evaluation: Evaluation, size: Size, ensembles: Ensembles, mode: str) -> None:
    outage, marks = size.outage, dict[str, Any]()
    total_s = outage.total_s(failing_followers.deaths_of(ensembles))
    settings = {**_settings(size, mode), "rate_s": outage.rate_s, "measure_s": total_s}
    plan = evaluation.plan(ensembles, "parkazoo", **settings)

    def meanwhile(begun_s: float) -> None:
        failing_followers.carry_out(evaluation.lab, ensembles, outage, begun_s + plan.warm_up_s, marks)

    label = {"part": FOLLOWERS, "mode": mode, "value": outage.rate_s}
    try:
        run = evaluation.run(ensembles, plan, label, meanwhile)
    except LoadError:
        return
    run |= marks
    run["flow"], run["no_quorum"] = failing_followers.find_flow(
        evaluation.raw(run), marks["died_s"][-1], marks["started_s"]
    )
    run["left"] = failing_followers.rates_by_servers(run["flow"], ensembles.shape.servers, **marks)


# ---- what there is to show -------------------------------------------------------------------------


def show(document: Mapping[str, Any]) -> Section:
    of: dict[str, list[Run]] = {}
    for run in document["runs"]:
        of.setdefault(run["part"], []).append(run)
    modes: dict[str, dict[str, Run]] = {}
    for run in of[MODES]:
        modes.setdefault(run["shape"], {})[run["mode"]] = run
    first = next(iter(modes.values()))
    others = [run for run in document["runs"] if run["part"] != MODES]
    has_all = {*BOTH, *GETS, ASYNC} <= first.keys()  # none has failed
    tables = [_mode_table(shape, runs) for shape, runs in modes.items()]
    tables += [_their_table(first)] if has_all else []
    plots = [_their_plot(first)] if has_all else []
    if SHARE in of:
        plots.append(_share_plot(of[SHARE]))
    if CLIENTS in of:
        tables.append(_client_table(of[CLIENTS]))
        plots.append(_client_plot(of[CLIENTS]))
    if RECENT in of:
        plots.append(_recent_plot(of[RECENT]))
    if FOLLOWERS in of:
        tables.append(failing_followers.make_table(of[FOLLOWERS]))
        if all("left" in run for run in of[FOLLOWERS]):  # older results have no such rates
            tables.append(failing_followers.make_rates_table(of[FOLLOWERS]))
        plots.append(failing_followers.make_plot(f"{NAME}-{FOLLOWERS}", of[FOLLOWERS]))
    return Section(
        NAME,
        TITLE,
        f"One ParKazoo client sets znodes of {VALUE_BYTES} bytes, if nothing else is said. Only what is committed "
        "is counted, when the client sees it. Modes take turns on the same servers. They were run "
        f"{times_of(of[MODES])}; with all else varied, {times_of(others)}.",
        tables,
        plots,
        [
            "A deferred write is not durable, and not visible to others, when its call returns. Theirs needs a "
            "supermajority of servers, has a log on disk, and is executed later. So the time of a call means "
            "another thing there; what may be compared is when a write is committed.",
            "`set` is a `set_async` that is waited for: with one in flight both are the same.",
            "Their figures are of another system on other machines: what may be compared is with and without.",
            *caveats_of(document),
        ],
        _answers(first) if has_all else [],
    )


def requests_s(run: Run) -> float:
    rate: float = run["rates"]["all"]
    return rate


def _cpu_s(run: Run) -> float | None:
    """Processor time of a request: the client's."""
    return statistics.ratio(run["cpu_share"], requests_s(run)) if requests_s(run) else None


def called_s(run: Run, percentile: float = 50) -> float | None:
    """The median, or another percentile, until the call returned; `committed_s`, until the write was committed."""
    return call_s(run, percentile)


def committed_s(run: Run, percentile: float = 50) -> float | None:
    return latency_s(run, "writes", percentile)


def read_s(run: Run, percentile: float = 50) -> float | None:
    return latency_s(run, "reads", percentile)


def all_s(run: Run) -> float | None:
    """The median of writes and reads together; `mean_all_s`, their mean."""
    return together_s(run, partial(percentile_s, percentile=50))


def mean_all_s(run: Run) -> float | None:
    return together_s(run, mean_s)


def _times(value: float | None, base: float | None) -> str:
    return NOTHING if value is None or base is None else ratio(value, base)


def _answers(modes: Mapping[str, Run]) -> list[Answer]:
    """Of deferred writes, each goal."""
    shape, ours = modes[DEFERRED]["shape"], modes[DEFERRED]
    asked = (
        (
            f"How many times the writes/s of {ASYNC} does one client on {shape} defer?",
            requests_s,
            ASYNC,
            "of async",
        ),
        ("How many times the writes/s of one call after the other are that?", requests_s, SYNC, "of sync"),
        (
            f"What share of the processor time of a write with {ASYNC} does a deferred one take?",
            _cpu_s,
            ASYNC,
            "CPU",
        ),
        (
            "What share of the time of a synchronous set does a deferred one take to return?",
            called_s,
            SYNC,
            "call",
        ),
    )
    answers = []
    for question, find, other, name in asked:
        value, base = find(ours), find(modes[other])
        if value is not None and base:
            times, is_least = statistics.ratio(value, base), name.startswith("of")
            goal = f"at {'least' if is_least else 'most'} {GOALS[name]:g}"
            is_met = goal_is_met([times], GOALS[name]) if is_least else goal_is_met([-times], -GOALS[name])
            measured = plain(times, "{:.3g}".format) + (_committed(modes) if name == "call" else "")
            answers.append(Answer(question, goal, measured, is_met))
    return answers


def _committed(modes: Mapping[str, Run]) -> str:
    """Until when a write is no more than a promise, beside the call that returns it."""
    deferred, sync = (milliseconds(committed_s(modes[mode])).replace("\n", ", ") for mode in (DEFERRED, SYNC))
    return f"; it is committed after {deferred} ms, a synchronous one after {sync}"


def _mode_table(shape: str, modes: Mapping[str, Run]) -> Table:
    def times(mode: str, find: Any, base: str) -> str:
        value = find(modes[mode])
        is_one = mode == base and value is not None and not math.isnan(value)
        return "1" if is_one else _times(value, find(modes[base]) if base in modes else None)

    rows = []
    for mode, run in modes.items():
        is_get = mode in READS
        rows.append(
            [
                mode,
                rate_of(run),
                times(mode, requests_s, GET if is_get else SYNC),
                NOTHING if is_get else times(mode, requests_s, ASYNC),
                NOTHING if is_get else times(mode, _cpu_s, ASYNC),
                milliseconds(read_s(run) if is_get else called_s(run)),
                NOTHING if is_get else times(mode, called_s, SYNC),
                NOTHING if is_get else milliseconds(committed_s(run)),
                NOTHING if is_get else times(mode, committed_s, SYNC),
            ]
        )
    goals = ["goal of deferred", "", f"{GOALS['of sync']:g}", f"{GOALS['of async']:g}", f"{GOALS['CPU']:g}"]
    return Table(
        f"One client on {shape}",
        (
            "",
            "/s",
            "of sync",
            "of 200 in flight",
            "CPU, of 200 in flight",
            "call, ms",
            "of sync",
            "committed after, ms",
            "of sync",
        ),
        [*rows, [*goals, "", f"{GOALS['call']:g}", "", ""]],
    )


def _their_table(modes: Mapping[str, Run]) -> Table:
    puts, takes, commits = [[find(modes[mode]) for mode in BOTH] for find in (requests_s, called_s, committed_s)]
    gets, reads = [[find(modes[mode]) for mode in GETS] for find in (requests_s, read_s)]
    return Table(
        f"Theirs ({NIL_EXTERNAL.title}, table 1) and ours: one client, without deferred writes and with them",
        ("", "theirs, without", "with", "times", "ours, without", "with", "times"),
        [
            [
                "put, ms until the call returns",
                *(milliseconds(each) for each in THEIR_PUT_S),
                _times(THEIR_PUT_S[1], THEIR_PUT_S[0]),
                *(milliseconds(each) for each in takes),
                _times(takes[1], takes[0]),
            ],
            [
                "put, ms until it is committed",
                *[NOTHING] * 3,
                *(milliseconds(each) for each in commits),
                _times(commits[1], commits[0]),
            ],
            [
                "get, ms",
                *(milliseconds(each) for each in THEIR_GET_S),
                _times(THEIR_GET_S[1], THEIR_GET_S[0]),
                *(milliseconds(each) for each in reads),
                _times(reads[1], reads[0]),
            ],
            *(
                [
                    name,
                    *map(rate, theirs),
                    _times(theirs[1], theirs[0]),
                    *map(rate, ours),
                    _times(ours[1], ours[0]),
                ]
                for name, theirs, ours in (("puts/s", THEIR_PUTS, puts), ("gets/s", THEIR_GETS, gets))
            ),
        ],
    )


def _their_plot(modes: Mapping[str, Run]) -> Plot:
    def times(find: Any, with_it: str = DEFERRED, without: str = SYNC) -> float:
        before, after = (find(modes[mode]) for mode in (without, with_it))
        return statistics.ratio(after, before) if before and after else 0.0

    figure, panels = make_panels(1)
    names = ("put: time of the call", "put: rate", "get: rate")
    theirs = [after / before for before, after in (THEIR_PUT_S, THEIR_PUTS, THEIR_GETS)]
    ours = [times(called_s), times(requests_s), times(requests_s, GET_BESIDE, GET)]
    committed = {"put: until it is\ncommitted": times(committed_s)}
    bars = {
        "theirs": dict(zip(names, theirs, strict=True)),
        "ours": dict(zip(names, ours, strict=True)) | committed,
    }
    draw_bars(panels[0], bars, "one client", "times that without deferred writes")
    panels[0].set_yscale("log")
    add_legend(figure, panels[0])
    return Plot(f"{NAME}-theirs", "What deferred writes change for one client, theirs and ours", figure)


def _lines(
    runs: Runs, find: Any, factor: float = 1.0, modes: Sequence[str] = BOTH
) -> dict[str, list[tuple[float, float]]]:
    return {
        mode: [
            (run["value"], scaled(value, factor))
            for run in runs
            if run["mode"] == mode and (value := find(run)) is not None
        ]
        for mode in modes
    }


def _share_plot(runs: Runs) -> Plot:
    figure, panels = make_panels(2, rows=2)
    for panel, find, what in zip(
        panels,
        (called_s, read_s, all_s, mean_all_s),
        ("writes, median", "reads, median", "both together, median", "both together, mean"),
        strict=True,
    ):
        draw_lines(panel, _lines(runs, find, 1000), what, "share of writes", "ms")
        panel.set_ylim(bottom=0)
    add_legend(figure, panels[0])
    return Plot(f"{NAME}-share", "Latency against the share of writes; a write until its call returns", figure)


def _client_table(runs: Runs) -> Table:
    rows = []
    for run in runs:
        is_get = run["mode"] in GETS
        called = [milliseconds(read_s(run, each) if is_get else called_s(run, each)) for each in ENDS]
        committed = [NOTHING if is_get else milliseconds(committed_s(run, each)) for each in ENDS]
        rows.append([run["mode"], rate(run["value"]), rate_of(run), *called, *committed])
    most = max(run["plan"].get("max_pending", 0) for run in runs)  # older results have none
    return Table(
        "Clients at once" + (f", with {most:,} deferred writes pending at most" if most else ""),
        ("", "clients", "/s", "call, median ms", "longest", "committed after, median ms", "longest"),
        rows,
    )


def _client_plot(runs: Runs) -> Plot:
    figure, panels = make_panels(2, rows=2)
    draw_lines(panels[0], _lines(runs, requests_s), "puts, committed", "clients", "puts/s")
    draw_lines(panels[1], _lines(runs, requests_s, modes=GETS), "gets", "clients", "gets/s")
    draw_lines(panels[2], _lines(runs, called_s, 1000), "puts, until the call returns", "clients", "ms")
    draw_lines(panels[3], _lines(runs, committed_s, 1000), "puts, until they are committed", "clients", "ms")
    for panel in panels:
        make_logarithmic(panel)
    add_legend(figure, panels[0])
    return Plot(f"{NAME}-clients", "Throughput and median latency against the number of clients", figure)


def _recent_plot(runs: Runs) -> Plot:
    figure, panels = make_panels(1)
    x = "share of the reads that come at once after the write of their znode"
    title = "the others come after all writes of a batch"
    draw_lines(panels[0], _lines(runs, read_s, 1000), title, x, "read, ms")
    panels[0].set_ylim(bottom=0)
    add_legend(figure, panels[0])
    return Plot(f"{NAME}-recent", "Median latency of reads against the share of recent ones", figure)
