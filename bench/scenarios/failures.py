"""Failures: what clients notice while a leader dies, freezes, or is cut off; and how long an election takes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from bench.lab import Ensembles, Faults, NotPossible, Server, Shape
from bench.load.record import ANSWERED
from bench.load.result import Result, ensembles_of, join
from bench.report.charts import add_legend, draw_lines, make_logarithmic, make_panels
from bench.report.section import Answer, Plot, Section, Table
from bench.report.text import milliseconds, share
from bench.scenarios import elections
from bench.scenarios.caveats import caveats_of
from bench.scenarios.evaluation import VALUE_BYTES, Evaluation, sleep_until
from bench.scenarios.repetitions import times_of
from bench.scenarios.roles import wait_all_serve, wait_leader
from bench.statistics import percentile_99, quantiles

NAME = "failures"
TITLE = "Failures: who notices when a leader is lost"
BUCKET_S = 0.25
UNNOTICED = 0.98  # of the requests are answered while the other ensemble has its trouble
NO_ANSWER = math.nan  # the line has a gap there
HIT = "a"  # the ensemble whose leader it is

Way = Callable[[Faults, Server], object]


class Fault(NamedTuple):
    begin: Way
    end: Way


FAULTS = {
    "killed": Fault(lambda faults, each: faults.kill(each), lambda faults, each: faults.start(each)),
    "frozen": Fault(lambda faults, each: faults.freeze(each), lambda faults, each: faults.thaw(each)),
    "cut off": Fault(lambda faults, each: faults.cut_off(each.host), lambda faults, each: faults.join(each.host)),
}


@dataclass(frozen=True)
class Size:
    """
    :param rate_s: requests/s of all clients together, far less than what the ensembles can do.
    :param repeat: how often each fault happens.
    :param before_s: seconds before the fault; `lasts_s`, of the fault, `after_s`, after it.
    """

    systems: Mapping[str, str]
    faults: Sequence[str]
    threads: int
    rate_s: float
    before_s: float
    lasts_s: float
    after_s: float
    elections: elections.Size
    repeat: int = 1


SIZES = {
    "small": Size({"1x3": "kazoo"}, ("killed",), 2, 60, 0.5, 1.5, 0.5, elections.Size(1, 20, 4)),
    "medium": Size(
        {"1x3": "kazoo", "3x3": "parkazoo"}, tuple(FAULTS), 4, 240, 3, 16, 4, elections.Size(100, 300, 60)
    ),
    "full": Size(
        {"1x3": "kazoo", "3x3": "parkazoo"}, tuple(FAULTS), 8, 3000, 20, 30, 20, elections.Size(100, 3600, 120)
    ),
}


def measure(evaluation: Evaluation) -> None:
    size = SIZES[evaluation.size]
    for shape, system in size.systems.items():
        with evaluation.ensembles(shape) as ensembles:
            evaluation.warm_up(evaluation.plan(ensembles, system, threads=size.threads, **_settings(size)))
            for _ in evaluation.rounds(size.repeat):
                for kind in size.faults:
                    _measure_fault(evaluation, size, ensembles, system, kind)
            if system == "kazoo":
                settings = {"threads": size.threads, "rate_s": size.rate_s, **_settings(size)}
                elections.measure_elections(evaluation, ensembles, size.elections, settings)


def _settings(size: Size) -> dict[str, Any]:
    return {
        "write": "set",
        "size": VALUE_BYTES,
        "warm_up_s": 2.0 if size.before_s > 2 else 0.5,
        "measure_s": size.before_s + size.lasts_s + size.after_s,
    }


def _measure_fault(evaluation: Evaluation, size: Size, ensembles: Ensembles, system: str, kind: str) -> None:
    lab, fault = evaluation.lab, FAULTS[kind]
    leader = wait_leader(lab, ensembles)
    plan = evaluation.plan(ensembles, system, threads=size.threads, rate_s=size.rate_s, **_settings(size))
    marks: dict[str, float] = {}

    def carry_out(begun_s: float) -> None:
        sleep_until(begun_s + plan.warm_up_s + size.before_s)
        marks["began_s"] = time.time()
        fault.begin(lab.faults, leader)
        sleep_until(marks["began_s"] + size.lasts_s)
        fault.end(lab.faults, leader)
        marks["ended_s"] = time.time()

    try:
        if kind == "cut off":
            lab.faults.join(leader.host)  # a lab that cannot do this cannot do the other either
        run = evaluation.run(ensembles, plan, {"fault": kind}, carry_out, BUCKET_S)
    except NotPossible as error:
        evaluation.not_measured(f"a leader that is {kind}", error)
        return
    run |= {"server": leader.name, **marks}
    run["noticed"] = what_is_noticed(evaluation.raw(run), marks["began_s"], marks["ended_s"])
    wait_all_serve(lab, ensembles)


def what_is_noticed(results: Sequence[Result], began_s: float, ended_s: float) -> list[dict[str, Any]]:
    """Of each ensemble, while the fault lasts: the share of the requests that are answered meanwhile, the longest
    time without any answer, the 99th percentile of latency; and that before it."""
    plan = results[0].plan
    columns = join(results)
    ensemble_of = ensembles_of(plan, columns["directory"])
    meant = columns["begun_ns"] / 1e9
    took = columns["took_ns"] / 1e9
    is_answered = columns["outcome"] == ANSWERED
    first_s = max(each.begun_s for each in results) + plan.warm_up_s
    found = []
    for number in range(plan.ensembles):
        is_here = ensemble_of == number
        is_during = is_here & (meant >= began_s) & (meant < ended_s)
        is_in_time = is_during & is_answered & (meant + took < ended_s)
        is_before = is_here & (meant >= first_s) & (meant < began_s)
        answers = np.sort((meant + took)[is_here & is_answered])
        answers = np.concatenate([[began_s], answers[(answers > began_s) & (answers < ended_s)], [ended_s]])
        found.append(
            {
                "answered_share": float(is_in_time.sum() / max(is_during.sum(), 1)),
                "before_s": percentile_99(took[is_before]),
                "during_s": percentile_99(took[is_during]),
                "silence_s": float(np.diff(answers).max()),
            }
        )
    return found


def show(document: Mapping[str, Any]) -> Section:
    traces = [run for run in document["runs"] if "noticed" in run]
    trials = [trial["took_s"] for trial in document["trials"]]
    return Section(
        NAME,
        TITLE,
        "Requests (sets of 100 bytes) come at random times at a fixed rate, spread evenly over the ensembles, "
        "whether earlier ones were answered or not. Then the leader of the first ensemble is killed, frozen or "
        "cut off, and comes back some seconds later. Latency counts from the time that a request was meant for. "
        f"Each fault happened: {times_of(traces)}.",
        [_trace_table(traces), *([elections.make_table(trials)] if trials else [])],
        [*(_trace_plot(run) for run in traces), *([elections.make_plot(trials)] if trials else [])],
        [
            "An ensemble gives up a silent leader after four seconds here (tickTime 1000, syncLimit 4); a dead "
            "one, whose connections the kernel has closed, at once.",
            "Times are as clients see them. A client of a silent server leaves it after two thirds of its session "
            "timeout (10 s); one that happens to connect to it waits for all of that, which is kazoo's way.",
            *caveats_of(document),
        ],
        _answers(traces, trials),
    )


def _answers(traces: Sequence[Mapping[str, Any]], trials: Sequence[float]) -> list[Answer]:
    others = {
        run["fault"]: min(each["answered_share"] for each in run["noticed"][1:])
        for run in traces
        if len(run["noticed"]) > 1
    }
    answers = []
    if others:
        answers.append(
            Answer(
                "What share of the requests to the other ensembles is answered in time while a leader is lost?",
                f"at least {UNNOTICED:.0%}",
                ", ".join(f"{fault} {each:.1%}" for fault, each in others.items()),
                min(others.values()) >= UNNOTICED,
            )
        )
    if trials:
        found = quantiles(trials, (0.0, 0.5, 1.0))
        answers.append(
            Answer(
                "How long until a write is answered when a leader has died, in an ensemble of three?",
                "",
                f"median {found[1]:.2f} s, {found[0]:.2f} to {found[2]:.2f} s in {len(trials)} trials",
            )
        )
    return answers


def _trace_table(traces: Sequence[Mapping[str, Any]]) -> Table:
    rows = []
    for run in traces:
        for name, each in zip(Shape.parse(run["shape"]).names, run["noticed"], strict=False):
            verdict = "not noticed" if each["answered_share"] >= UNNOTICED else "NOTICED"
            rows.append(
                [
                    f"{run['shape']}, leader {run['fault']}",
                    name,
                    share(each["answered_share"], 1),
                    milliseconds(each["silence_s"]),
                    milliseconds(each["before_s"]),
                    milliseconds(each["during_s"]),
                    "hit" if name == HIT else verdict,
                ]
            )
    columns = (
        "fault",
        "ensemble",
        "answered meanwhile",
        "longest silence, ms",
        "p99 before, ms",
        "p99 meanwhile, ms",
    )
    return Table("What clients notice while the fault lasts, on each ensemble", (*columns, ""), rows)


def _trace_plot(run: Mapping[str, Any]) -> Plot:
    figure, panels = make_panels(2)
    bucket_s, warm_up_s = run["over_time"]["bucket_s"], run["plan"]["warm_up_s"]
    answered, latency = {}, {}
    for name, each in zip(Shape.parse(run["shape"]).names, run["over_time"]["ensembles"], strict=False):
        times = [(place + 0.5) * bucket_s - warm_up_s for place in range(len(each["answered"]))]
        rows = [row for row in zip(times, each["answered"], each["median_s"], strict=True) if row[0] > 0]
        answered[f"ensemble {name}"] = [(at, count / bucket_s) for at, count, _ in rows]
        latency[f"ensemble {name}"] = [
            (at, NO_ANSWER if median is None else median * 1000) for at, _, median in rows
        ]
    draw_lines(panels[0], answered, "answers", "seconds", "requests/s", marker="")
    draw_lines(panels[1], latency, "median latency", "seconds", "ms", marker="")
    make_logarithmic(panels[1], "y")
    first_s = run["begun_s"] + warm_up_s
    for panel in panels:
        panel.axvspan(
            run["began_s"] - first_s, run["ended_s"] - first_s, color="0.9", label=f"leader {run['fault']}"
        )
    add_legend(figure, panels[0])
    name = f"{NAME}-{run['shape']}-{run['fault'].replace(' ', '-')}"
    return Plot(name, f"{run['shape']}: the leader {run['server']} of ensemble a is {run['fault']}", figure)
