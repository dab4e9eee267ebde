"""The runs of the thesis' scenario: what they are called, and the best of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from bench import statistics
from bench.scenarios.evaluation import READ_SHARES
from bench.scenarios.thesis_figures import BEST, ONE_PROCESS

Runs = Sequence[Mapping[str, Any]]

SCENARIO = "thesis"
BASE = "kazoo 1x3"
THESIS_SUBJECT = "parkazoo 3x3"  # the thesis ran three ensembles of three servers, and one; no other shapes
STEPS = ("threads", "processes", "nodes")
AGAIN = "best"  # the step after these: the best is run again
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
