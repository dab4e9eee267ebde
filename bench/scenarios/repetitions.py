"""Repetitions of a run, as one run: medians with their ranges; and runs that are too short for figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from bench.scenarios.summary import is_too_short
from bench.statistics import NO_FIGURE, join_histograms, spread

# What is folded, figure by figure. All else is the middle run's: its plan, and what it was like over time.
FOLDED = (
    "rates",
    "noticed",
    "stages",
    "felt",
    "moved",
    "servers",
    "cpu_share",
    "costs",
    "no_quorum",
    "left",
    "silence_s",
    "new_leaders",
    "serving",
    "connections",
    "replicated_s",
)

# What runs have that show what becomes of single requests while something happens, rather than rates.
TRACED = ("noticed", "no_quorum", "group")

Runs = Sequence[Mapping[str, Any]]


def fold(runs: Runs) -> list[dict[str, Any]]:
    """Each run that is no repetition of another one, with the figures of all its repetitions.

    Runs of old results have no repetitions. Where the window of a run was too short, ``is_too_short`` is true and
    its rates are NO_FIGURE, whenever it was measured.
    """
    groups: dict[int, list[Mapping[str, Any]]] = {}
    for number, run in enumerate(runs):
        groups.setdefault(run.get("repeats", number), []).append(run)
    return [_judged(_folded(some), some) for some in groups.values()]


def _judged(folded: dict[str, Any], runs: Runs) -> dict[str, Any]:
    """Without rates, if a repetition is too short: to leave that one out would choose the fast ones."""
    if any(name in folded for name in TRACED) or not any(map(is_too_short, runs)):
        return folded
    stages = {"stages": [{**each, "rate": NO_FIGURE} for each in folded["stages"]]} if "stages" in folded else {}
    felt = {"felt": [*map(_without_rates, folded["felt"])]} if "felt" in folded else {}
    return {**folded, **stages, **felt, "is_too_short": True, "rates": dict.fromkeys(folded["rates"], NO_FIGURE)}


def _without_rates(phase: Mapping[str, Any]) -> dict[str, Any]:
    """A phase of a load, with the figures of each sort of requests."""
    has_rate = {name for name, figures in phase.items() if isinstance(figures, Mapping) and "rate" in figures}
    return {**phase, **{name: {**phase[name], "rate": NO_FIGURE} for name in has_rate}}


def _folded(runs: Runs) -> dict[str, Any]:
    if len(runs) == 1:
        return dict(runs[0])
    middle = sorted(runs, key=lambda run: run["rates"]["all"])[(len(runs) - 1) // 2]
    return {
        **middle,
        **{name: _spread([run[name] for run in runs if name in run]) for name in FOLDED if name in middle},
        "latencies": [run["latency"] for run in runs],
        **({"calls": [run["call"] for run in runs if "call" in run]} if "call" in middle else {}),
        "latency": {
            sort: join_histograms([run["latency"][sort] for run in runs if sort in run["latency"]])
            for sort in middle["latency"]
        },
        "failed": sum(run["failed"] for run in runs),
        "unanswered": sum(run["unanswered"] for run in runs),
        "errors": sum((Counter(run["errors"]) for run in runs), Counter()),
        "limits": list(dict.fromkeys(limit for run in runs for limit in run["limits"])),
        "times": len(runs),
    }


def _spread(values: Sequence[Any]) -> Any:
    """Of numbers their median and range; of lists and objects, that of each entry that all have."""
    first = values[0]
    if isinstance(first, Mapping):
        return {
            key: _spread([each[key] for each in values]) for key in first if all(key in each for each in values)
        }
    if isinstance(first, list):
        return [_spread(each) for each in zip(*values, strict=False)]
    numbers = [each for each in values if isinstance(each, (int, float)) and not isinstance(each, bool)]
    return spread(numbers) if numbers else first


def times_of(runs: Runs) -> str:
    """How often they were run, in words: each once, 3 times each; 1 to 3 times."""
    times = sorted({run.get("times", 1) for run in runs})
    if times in ([], [1]):
        return "each once"
    return f"{times[0]} times each" if len(times) == 1 else f"{times[0]} to {times[-1]} times each"
