"""How far a run of several parts is, and how long it may still take."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

LOOK_S = 1.0


@dataclass
class PartProgress:
    """A part on its way.

    :param results: file of its JSON lines.
    :param tests: how many there are.
    :param since: when this run began; what is in the file from before is not of it.
    :param before: seconds of each test in the last run of this checkout.
    :param before_s: that run's seconds, its servers' start included; 0 if there was none.
    """

    results: Path
    tests: int
    since: float
    before: Mapping[str, float] = field(default_factory=dict)
    before_s: float = 0
    done: dict[str, float] = field(default_factory=dict)
    has_ended: bool = False

    @classmethod
    def begin(cls, results: Path, tests: int) -> PartProgress:
        """:param results: of the last run; this one's come there too."""
        records = _read(results)
        before = _seconds(records)
        end = next((record["end"] for record in records if "end" in record), None)
        return cls(results, tests, time.time(), before, end or sum(before.values()))

    def look(self) -> None:
        records = _read(self.results)
        if not records or records[0].get("began", 0) < self.since:
            return
        self.done = _seconds(records)
        self.has_ended = any("end" in record for record in records)

    def left_s(self, pace_s: float) -> float:
        """:param pace_s: seconds for a test, if there was no run before."""
        if self.has_ended:
            return 0
        if not self.before:
            return pace_s * max(0, self.tests - len(self.done))
        a_test_s = self.before_s / len(self.before)
        scale = self.before_s / max(sum(self.before.values()), 1e-3)
        gone = sum(self.before[test] * scale if test in self.before else a_test_s for test in self.done)
        return max(0.0, a_test_s * self.tests - gone)


def _read(results: Path) -> list[dict[str, Any]]:
    """A last line may be half written."""
    if not results.exists():
        return []
    return [json.loads(line) for line in results.read_text().split("\n")[:-1]]


def _seconds(records: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    return {record["test"]: record["seconds"] for record in records if "test" in record}


def left_s(parts: Sequence[PartProgress], at_a_time: int) -> float | None:
    """How long the run may still take; None: nobody knows yet.

    :param at_a_time: so many parts.
    """
    done = [seconds for part in parts for seconds in part.done.values()]
    if not done and not all(part.before for part in parts):
        return None
    pace_s = sum(done) / max(1, len(done))
    left = [part.left_s(pace_s) for part in parts]
    return max(*left, sum(left) / at_a_time) if len(left) > 1 else left[0]


@contextmanager
def shown(console: Console, parts: Sequence[PartProgress], at_a_time: int) -> Iterator[None]:
    """A bar at the bottom of the terminal, during the block; nothing without parts or without a terminal."""
    if not (parts and console.is_terminal):
        yield
        return
    over = threading.Event()
    columns = TextColumn("{task.completed}/{task.total} tests"), BarColumn(), TextColumn("{task.fields[left]}")
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("", total=sum(part.tests for part in parts), left="")

        def follow() -> None:
            while not over.wait(LOOK_S):
                for part in parts:
                    if not part.has_ended:
                        part.look()
                done = sum(len(part.done) for part in parts)
                bar.update(task, completed=done, left=_describe(left_s(parts, at_a_time)))

        follower = threading.Thread(target=follow)
        follower.start()
        try:
            yield
        finally:
            over.set()
            follower.join()


def _describe(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"about {seconds / 60:.0f} min left" if seconds >= 90 else f"about {seconds:.0f} s left"
