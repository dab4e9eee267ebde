"""Failures: what clients notice while a leader dies, freezes, or is cut off."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from bench.lab import Ensembles, Faults, NotPossible, Server
from bench.report.section import Section
from bench.scenarios import elections
from bench.scenarios.caveats import caveats_of
from bench.scenarios.evaluation import VALUE_BYTES, Evaluation, sleep_until
from bench.scenarios.noticing import measure_trace, trace_plot, trace_table
from bench.scenarios.roles import wait_all_serve, wait_leader

NAME = "failures"
TITLE = "Failures: who notices when a leader is lost"

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
    :param before_s: seconds before the fault; `lasts_s`, of the fault, `after_s`, after it.
    """

    systems: Mapping[str, str]
    faults: Sequence[str]
    threads: int
    rate_s: float
    before_s: float
    lasts_s: float
    after_s: float


SIZES = {
    "small": Size({"1x3": "kazoo"}, ("killed",), 2, 60, 0.5, 1.5, 0.5),
    "medium": Size({"1x3": "kazoo", "3x3": "parkazoo"}, tuple(FAULTS), 4, 240, 3, 16, 4),
    "full": Size({"1x3": "kazoo", "3x3": "parkazoo"}, tuple(FAULTS), 8, 3000, 20, 30, 20),
}


def measure(evaluation: Evaluation) -> None:
    size = SIZES[evaluation.size]
    for shape, system in size.systems.items():
        with evaluation.ensembles(shape) as ensembles:
            evaluation.warm_up(evaluation.plan(ensembles, system, threads=size.threads, **_settings(size)))
            for kind in size.faults:
                _measure_fault(evaluation, size, ensembles, system, kind)


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

    def carry_out() -> None:
        until_s = time.time() + size.lasts_s
        fault.begin(lab.faults, leader)
        sleep_until(until_s)
        fault.end(lab.faults, leader)

    try:
        if kind == "cut off":
            lab.faults.join(leader.host)  # a lab that cannot do this cannot do the other either
        measure_trace(
            evaluation, ensembles, plan, {"fault": kind, "server": leader.name}, size.before_s, carry_out
        )
    except NotPossible as error:
        evaluation.not_measured(f"a leader that is {kind}", error)
        return
    wait_all_serve(lab, ensembles)


def show(document: Mapping[str, Any]) -> Section:
    traces = [run for run in document["runs"] if "noticed" in run]
    before = {"1x3, killed": document["trials"]} if document["trials"] else {}  # scenario `elections` has them now
    return Section(
        NAME,
        TITLE,
        "Requests (sets of 100 bytes) come at random times at a fixed rate, spread evenly over the ensembles, "
        "whether earlier ones were answered or not. Then the leader of the first ensemble is killed, frozen or "
        "cut off, and comes back some seconds later. Latency counts from the time that a request was meant for.",
        [trace_table(traces, "leader "), *([elections.make_table(before)] if before else [])],
        [
            *(
                trace_plot(run, NAME, f"the leader {run['server']} of ensemble a is {run['fault']}", "leader ")
                for run in traces
            ),
            *([elections.make_plot(before, NAME)] if before else []),
        ],
        [
            "An ensemble gives up a silent leader after four seconds here (tickTime 1000, syncLimit 4); a dead "
            "one, whose connections the kernel has closed, at once.",
            "Times are as clients see them. A client of a silent server leaves it after two thirds of its session "
            "timeout (10 s); one that happens to connect to it waits for all of that, which is kazoo's way.",
            *caveats_of(document),
        ],
    )
