"""The runs of the thesis' scenario: what they are called, and the best of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from bench import statistics
from bench.scenarios.evaluation import READ_SHARES
from bench.scenarios.thesis_figures import BASE, BEST, ONE_PROCESS, THESIS_SUBJECT

Runs = Sequence[Mapping[str, Any]]

SCENARIO = "thesis"
STEPS = ("threads", "processes", "nodes")
AGAIN, ONE = "best", "one"  # after these: the best is run again, and one thread alone
LEAST_CURVE_S = 10.0
STEP_TITLES = {"threads": "threads of a process", "processes": "processes of a host", "nodes": "client hosts"}


def best_of(runs: Runs, is_limited: bool) -> dict[tuple[str, str], Mapping[str, Any]]:
    """Of each subject and load, the run with most requests/s; or the one for which that was run again."""
    found: dict[tuple[str, str], Mapping[str, Any]] = {}
    for run in runs:
        key = run["subject"], run["load"]
        if run["is_limited"] == is_limited and (
            key not in found or run["step"] == AGAIN or _rank(run) > _rank(found[key])
        ):
            found[key] = run
    return found


def _rank(run: Mapping[str, Any]) -> float:
    """Its requests/s; a run without figures is below all others."""
    rate: float = run["rates"]["all"]
    return -1 if math.isnan(rate) else rate


def run_of(runs: Runs, subject: str, load: str, step: str, number: int) -> Mapping[str, Any] | None:
    """With the bandwidth limited, the run with that number of threads, processes or hosts, as its step has them.

    The first row of a step is a run of the step before.
    """
    mine = [run for run in runs if run["is_limited"] and (run["subject"], run["load"]) == (subject, load)]
    of_step = [run for run in mine if run["step"] == step]
    if found := [run for run in of_step if run["plan"][step] == number]:
        return found[0]
    wanted = [{name: run["plan"][name] for name in STEPS} | {step: number} for run in of_step]
    earlier = [run for run in mine if run["step"] in STEPS[: STEPS.index(step)]]
    before = [run for run in earlier if {name: run["plan"][name] for name in STEPS} in wanted]
    return before[0] if before else None


def traced(runs: Runs, step: str, is_limited: bool) -> list[Mapping[str, Any]]:
    """Of the best, or of one thread, those that lasted long enough for a curve; of repetitions the middle one."""
    return [
        run
        for run in runs
        if "trace" in run
        and (run["step"], run["is_limited"]) == (step, is_limited)
        and not run.get("is_too_short")
        and run["plan"]["measure_s"] >= LEAST_CURVE_S
    ]


def is_of_step(run: Mapping[str, Any], step: str) -> bool:
    """Whether the run says something of that step: it is one of it, or the step's beginning."""
    return run["step"] == step or STEPS.index(run["step"]) < STEPS.index(step)


def times_of_base(runs: Runs) -> dict[str, dict[str, float]]:
    """What the thesis compared, of each load: three ensembles in units of one; the best, and one process."""
    found: dict[str, dict[str, float]] = {}
    for of, some in ((BEST, runs), (ONE_PROCESS, [run for run in runs if run["step"] == STEPS[0]])):
        best = best_of(some, is_limited=True)
        for load in READ_SHARES:
            mine, base = best.get((THESIS_SUBJECT, load)), best.get((BASE, load))
            if mine and base and base["rates"]["all"]:
                times = statistics.ratio(mine["rates"]["all"], base["rates"]["all"])
                found.setdefault(of, {})[load] = times
    return found
