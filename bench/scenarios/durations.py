"""How long the scenarios took, in the newest committed results: what a run of them may take."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from bench import RUNS
from bench.scenarios.evaluation import stem


def estimate(pieces: Sequence[tuple[str, str]], size: str, runs: Path = RUNS) -> str:
    """In words: the minutes of all, and of each.

    :param pieces: scenarios, each with its part, or an empty one; `size`, theirs.
    :param runs: with committed results.
    """
    took = {stem(*piece): _newest_s(*piece, size, runs) for piece in pieces}
    known = {name: took_s / 60 for name, took_s in took.items() if took_s is not None}
    if not known:
        return f"docs/runs does not say how long this takes: it has no results of size {size}"
    said = [f"{name} {minutes:.0f}" for name, minutes in known.items()]
    if unknown := [name for name in took if name not in known]:
        said.append(f"not known of {', '.join(unknown)}")
    return f"about {sum(known.values()):.0f} minutes, by the newest results in docs/runs: {', '.join(said)}"


def _newest_s(name: str, part: str, size: str, runs: Path) -> float | None:
    """The seconds that the newest run of a scenario, or of its part, took; None if there is none of that size."""
    documents = [json.loads(path.read_text()) for path in runs.rglob(f"{name}*.json")]
    took = [
        (each["about"]["date"], each["about"]["took_s"])
        for each in documents
        if (each.get("scenario"), each.get("part", "")) == (name, part) and each["about"]["size"] == size
    ]
    return max(took)[1] if took else None
