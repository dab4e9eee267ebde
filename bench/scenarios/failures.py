"""Failures: what clients notice while servers die, freeze, or are cut off."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from bench.lab import Ensembles, Faults, NotPossible, Server
from bench.report.section import Section
from bench.scenarios import elections
from bench.scenarios.caveats import caveats_of
from bench.scenarios.evaluation import Evaluation, LoadError, Parts, sleep_until
from bench.scenarios.networks import SETTINGS, TEN
from bench.scenarios.noticing import (
    Size,
    answer_of_others,
    measure_trace,
    small_multiples,
    trace_plot,
    trace_table,
)
from bench.scenarios.repetitions import times_of
from bench.scenarios.roles import wait_all_serve, wait_leader

NAME = "failures"
TITLE = "Failures: who notices when servers are lost"

Victims = Callable[[Server, Sequence[Server]], Sequence[Server]]
Way = Callable[[Faults, Server], object]


class Fault(NamedTuple):
    """
    :param of: the leader and its followers, those that it befalls.
    """

    of: Victims
    begin: Way
    end: Way


def _leader(leader: Server, _: Sequence[Server]) -> Sequence[Server]:
    return [leader]


def _follower(_: Server, followers: Sequence[Server]) -> Sequence[Server]:
    return followers[:1]


def _followers(_: Server, followers: Sequence[Server]) -> Sequence[Server]:
    """As many as can be spared."""
    return followers[: len(followers) // 2]


def _minority(leader: Server, followers: Sequence[Server]) -> Sequence[Server]:
    """As many as can be spared, the leader with them."""
    return [leader, *followers[: len(followers) // 2 - 1]]


WAYS: dict[str, tuple[Way, Way]] = {
    "killed": (lambda faults, each: faults.kill(each), lambda faults, each: faults.start(each)),
    "frozen": (lambda faults, each: faults.freeze(each), lambda faults, each: faults.thaw(each)),
    "cut off": (lambda faults, each: faults.cut_off(each.host), lambda faults, each: faults.join(each.host)),
}
VICTIMS: dict[str, Victims] = {
    "leader": _leader,
    "follower": _follower,
    "followers": _followers,
    "minority": _minority,
}
FAULTS = {f"{name} {how}": Fault(victims, *way) for name, victims in VICTIMS.items() for how, way in WAYS.items()}


ONE = [name for name in FAULTS if name.startswith(("leader ", "follower "))]
KILLED = "leader killed"
SHAPES = {
    "1x3": "kazoo",
    "1x5": "kazoo",
    "1x7": "kazoo",
    "1x9": "kazoo",
    "3x3": "parkazoo",
    "9x3": "parkazoo",
}


def _part(shapes: Sequence[str], faults: Sequence[str], repeat: int, **more: Any) -> Size:
    systems = {shape: SHAPES[shape] for shape in shapes}
    return Size(systems, dict.fromkeys(shapes, faults), 4, more.pop("rate_s", 480), 3, 12, 5, repeat, more)


SIZES: dict[str, Any] = {
    "small": Size({"1x3": "kazoo"}, {"1x3": (KILLED,)}, 2, 60, 0.5, 1.5, 0.5),
    "medium": Size(
        {"1x3": "kazoo", "1x5": "kazoo", "1x9": "kazoo", "3x3": "parkazoo"},
        {
            "1x3": [name for name in ONE if name != "follower frozen"],
            "1x5": ("minority killed",),
            "1x9": ("minority killed",),
            "3x3": [name for name in ONE if name.startswith("leader ")],
        },
        4,
        240,
        2,
        12,
        2,
    ),
    "full": Parts(
        killed=_part([*SHAPES], [KILLED], 3),
        pool=_part(("1x3", "3x3"), [KILLED], 3, rate_s=1000, **SETTINGS[TEN]),
        others=_part(("1x3", "3x3"), [name for name in ONE if name != KILLED], 1),
        five=_part(("1x5",), [name for name in FAULTS if name not in ONE], 1),
    ),
}


def measure(evaluation: Evaluation) -> None:
    size = evaluation.chosen(SIZES)
    for shape, system in size.systems.items():
        with evaluation.ensembles(shape) as ensembles:
            closed_loop = {**_settings(size), "pool": 0}
            evaluation.warm_up(evaluation.plan(ensembles, system, **closed_loop))
            for _ in evaluation.rounds(size.repeat):
                for kind in size.faults[shape]:
                    _measure_fault(evaluation, size, ensembles, system, kind)


def _settings(size: Size) -> dict[str, Any]:
    return size.plan(2.0 if size.before_s > 2 else 0.5)


def _measure_fault(evaluation: Evaluation, size: Size, ensembles: Ensembles, system: str, kind: str) -> None:
    lab, fault = evaluation.lab, FAULTS[kind]
    leader = wait_leader(lab, ensembles)
    victims = fault.of(leader, [each for each in ensembles.of(leader.ensemble) if each != leader])
    plan = evaluation.plan(ensembles, system, rate_s=size.rate_s, **_settings(size))

    def carry_out() -> None:
        until_s = time.time() + size.lasts_s
        _each(fault.begin, lab.faults, victims)
        sleep_until(until_s)
        _each(fault.end, lab.faults, victims)

    try:
        if kind.endswith("cut off"):
            lab.faults.join(leader.host)  # a lab that cannot do this cannot do the other either
        run = measure_trace(evaluation, ensembles, plan, {"fault": kind}, size.before_s, carry_out)
        run["server"] = ", ".join(each.name for each in victims)
    except NotPossible as error:
        evaluation.not_measured(kind, error)
    except LoadError:
        pass
    finally:
        wait_all_serve(lab, ensembles)


def _each(way: Way, faults: Faults, victims: Sequence[Server]) -> None:
    """All at once."""
    with ThreadPoolExecutor(len(victims)) as pool:
        for _ in pool.map(lambda each: way(faults, each), victims):
            pass


def _sizes(traces: Sequence[Mapping[str, Any]]) -> str:
    return " and ".join(str(each) for each in sorted({run["plan"]["size"] for run in traces}))


def show(document: Mapping[str, Any]) -> Section:
    # Results from before followers came name no victim, and have the trials of elections.
    traces = [
        run | {"fault": f"leader {run['fault']}" if run["fault"] in WAYS else run["fault"]}
        for run in document["runs"]
        if "noticed" in run
    ]
    before = {"1x3, killed": document["trials"]} if document["trials"] else {}
    return Section(
        NAME,
        TITLE,
        f"Requests (sets of {_sizes(traces)} bytes) come at random times at a fixed rate, spread evenly over the "
        "ensembles, whether earlier ones were answered or not. Then servers of the first ensemble are killed, "
        "frozen or cut off, and come back some seconds later: the leader, a follower, or as many as can be "
        "spared, followers alone or a minority with the leader. Latency counts from the time that a request was "
        "meant for. "
        f"Each fault happened: {times_of(traces)}.",
        [trace_table(traces), *([elections.make_table(before)] if before else [])],
        [
            *small_multiples(traces, NAME),
            *(trace_plot(run, NAME, f"{run['fault']}, which is {run['server']} of ensemble a") for run in traces),
            *([elections.make_plot(before, NAME)] if before else []),
        ],
        [
            "An ensemble gives up a silent leader after four seconds here (tickTime 1000, syncLimit 4); a dead "
            "one, whose connections the kernel has closed, at once.",
            "Times are as clients see them. A client of a silent server leaves it after two thirds of its session "
            "timeout (10 s); one that happens to connect to it waits for all of that, which is kazoo's way.",
            *caveats_of(document),
        ],
        [*answer_of_others(traces, "servers are lost"), *(elections.make_answers(before) if before else [])],
    )
