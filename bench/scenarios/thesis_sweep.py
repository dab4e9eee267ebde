"""The thesis' sweep: the threads of a process, then the processes of a host, then the hosts, each step of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import psutil

from bench.lab import Ensembles
from bench.load.record import ANSWERED
from bench.load.result import Result, join
from bench.scenarios import accounts
from bench.scenarios.evaluation import READ_SHARES, Evaluation, LoadError
from bench.scenarios.summary import is_too_short
from bench.scenarios.thesis_runs import AGAIN, ONE, STEP_TITLES, STEPS, Runs
from bench.scenarios.thesis_sizes import Size, Subject
from bench.statistics import WINDOW_MEDIANS, count_by_time, percentile_by_time, spread

NEARLY = 0.9  # of the most requests/s: more clients than that takes add little but chance
MORE_MEDIANS = 1.2  # of a window, than the least
WARM_UP_WAITS = 2.0
MOST_STEP_S = 90.0  # of a window
SESSION_TIMEOUT_S = 60.0  # in which a client pings thrice: an answer may take as long as kazoo's usual ten seconds
TRACE_S = 1.0  # a bucket of what is shown over time
LASTS = {"writes": 1.0, "reads": 0.2}  # times the run over time: the thesis' figures are of writes
PERCENTILES_SHOWN = {"low_s": 5.0, "median_s": 50.0, "high_s": 95.0}
# Of memory; where all hosts are one machine, that is what ends first.
PROCESS_BYTES, CLIENT_BYTES, LEFT_BYTES = 48 << 20, 1 << 19, 1 << 30


def settings_of(size: Size, load: str) -> dict[str, Any]:
    """Entries of a plan."""
    return {
        "read_share": READ_SHARES[load],
        "size": size.value_bytes,
        "warm_up_s": size.warm_up_s,
        "measure_s": size.measure_s,
        "session_timeout_s": SESSION_TIMEOUT_S,
    }


def _label_of(subject: Subject, load: str) -> dict[str, Any]:
    return {"subject": subject.name, "is_limited": subject.is_limited, "load": load}


class Sweep:
    """
    :param earlier: runs of the parts before.
    """

    def __init__(self, evaluation: Evaluation, size: Size, earlier: Runs) -> None:
        self._evaluation = evaluation
        self._size = size
        self._earlier = earlier

    def run(self, ensembles: Ensembles, subject: Subject) -> None:
        """All steps; then the best again, because what has won among several has had luck as well."""
        for load in READ_SHARES:
            for step in self._size.steps:
                self._measure_step(ensembles, subject, load, step)
            self._measure_over_time(ensembles, subject, load)

    def _measure_step(self, ensembles: Ensembles, subject: Subject, load: str, step: str) -> None:
        base = tipping_point(self._runs(subject, load, STEPS[: STEPS.index(step)]))
        for value in self._size.numbers(subject, load, step):
            if value == 1 and step != self._size.steps[0]:
                continue  # that is a run of the step before
            counts = {**base, step: value}
            point = {**_label_of(subject, load), "step": step, "value": value}
            timed = self._timed(subject, load, counts)
            if why := find_obstacle(self._evaluation, counts, timed["measure_s"]):
                what = f"{subject.name}, {load}, {value} {STEP_TITLES[step]}"
                self._evaluation.not_measured(what, why, **point)
                continue
            settings = {**settings_of(self._size, load), **timed, "handler": subject.handler, **counts}
            for _ in self._evaluation.rounds():
                plan = self._evaluation.plan(ensembles, subject.system, **settings)
                with suppress(LoadError):
                    self._evaluation.run(ensembles, plan, point)

    def _runs(self, subject: Subject, load: str, steps: Sequence[str] = STEPS) -> Runs:
        label = _label_of(subject, load)
        return [
            run
            for run in (*self._earlier, *self._evaluation.document["runs"])
            if run["step"] in steps and all(run[name] == value for name, value in label.items())
        ]

    def _timed(self, subject: Subject, load: str, counts: Mapping[str, int]) -> dict[str, float]:
        """A window, and the time before it, for the latency that so many clients will have."""
        rates = [rate for rate, _ in figures(self._runs(subject, load))]
        wait_s = math.prod(counts.values()) / max([rate for rate in rates if rate > 0], default=math.inf)
        return {
            "warm_up_s": max(self._size.warm_up_s, WARM_UP_WAITS * wait_s),
            "measure_s": max(self._size.measure_s, math.ceil(MORE_MEDIANS * WINDOW_MEDIANS * wait_s)),
        }

    def _measure_over_time(self, ensembles: Ensembles, subject: Subject, load: str) -> None:
        evaluation, size = self._evaluation, self._size
        best = tipping_point(self._runs(subject, load))
        kinds = [(AGAIN, best, size.repeat if subject.handler == "threading" else min(size.repeat, 1))]
        if size.over_time_s and subject.is_limited:
            kinds.append((ONE, dict.fromkeys(STEPS, 1), 1))
        for step, counts, times in kinds:
            settings = {**settings_of(size, load), **self._timed(subject, load, counts)}
            if subject.is_limited:
                settings["measure_s"] = max(settings["measure_s"], size.over_time_s * LASTS[load])
            for _ in evaluation.rounds(times) if times else ():
                plan = evaluation.plan(ensembles, subject.system, handler=subject.handler, **settings, **counts)
                before = accounts.ask_all(evaluation.lab, ensembles)
                try:
                    run = evaluation.run(ensembles, plan, {**_label_of(subject, load), "step": step})
                except LoadError:
                    continue
                run["servers"] = accounts.between(before, accounts.ask_all(evaluation.lab, ensembles))
                run["trace"] = trace(evaluation.raw(run), run["begun_s"] + plan.warm_up_s)


def tipping_point(runs: Runs) -> dict[str, int]:
    """The fewest clients that do nearly the most requests/s; one, if there are no figures."""
    found = figures(runs)
    most = max((rate for rate, _ in found), default=0.0)
    counts = [each for rate, each in found if rate >= NEARLY * most]
    return min(counts, key=lambda each: math.prod(each.values()), default=dict.fromkeys(STEPS, 1))


def figures(runs: Runs) -> list[tuple[float, dict[str, int]]]:
    """Requests/s of each number of threads, processes and hosts, but for those with a run that is too short."""
    groups: dict[tuple[int, ...], list[Mapping[str, Any]]] = {}
    for run in runs:
        groups.setdefault(tuple(run["plan"][step] for step in STEPS), []).append(run)
    return [
        (spread(run["rates"]["all"] for run in some), dict(zip(STEPS, counts, strict=True)))
        for counts, some in groups.items()
        if not any(map(is_too_short, some))
    ]


def find_obstacle(
    evaluation: Evaluation, counts: Mapping[str, int], measure_s: float, most_s: float = MOST_STEP_S
) -> str:
    """Why so many clients cannot be measured here; empty if they can."""
    hosts, clients = len(evaluation.lab.clients), math.prod(counts.values())
    if counts["nodes"] > hosts:
        return f"there {'are' if hosts > 1 else 'is'} {hosts} client host{'s' * (hosts > 1)}"
    if measure_s > most_s:
        return (
            f"each of {clients:,} clients waits {measure_s / MORE_MEDIANS / WINDOW_MEDIANS:.0f} s for an answer: "
            f"a window of measuring has to last {measure_s:.0f} s"
        )
    needed = counts["nodes"] * counts["processes"] * PROCESS_BYTES + clients * CLIENT_BYTES
    free = psutil.virtual_memory().available - LEFT_BYTES
    if evaluation.lab.is_one_machine and needed > free:
        return f"they need some {needed / 2**30:.1f} GiB of memory, and {free / 2**30:.1f} GiB is free"
    return ""


def trace(results: Sequence[Result], first_s: float) -> dict[str, Any]:
    """Answers, and percentiles of their latencies, in each second in which something was measured."""
    columns, plan = join(results), results[0].plan
    is_answered = columns["outcome"] == ANSWERED
    took = columns["took_ns"][is_answered] / 1e9
    ended = columns["begun_ns"][is_answered] / 1e9 + took
    window = first_s, first_s + plan.measure_s, TRACE_S
    latencies = {
        name: percentile_by_time(ended, took, *window, percentile)
        for name, percentile in PERCENTILES_SHOWN.items()
    }
    return {
        "bucket_s": TRACE_S,
        "answered": count_by_time(ended, *window),
        **{name: [None if each is None else round(each, 6) for each in some] for name, some in latencies.items()},
    }
