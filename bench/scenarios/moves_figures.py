"""What moves of directories cost: from the requests of a load, and from what commands have told."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from bench.lab import Told
from bench.load.record import FAILED
from bench.load.result import Result, join
from bench.scenarios.summary import SORTS
from bench.statistics import count_by_time, percentile_by_time

BUCKET_S = 1.0
NUMBER = re.compile(r"\d+ of \d+: ")  # in front, if a command moves several
COPIED = re.compile(r"copied ([\d,]+) znodes from (\S+) to \S+")
MOVED = re.compile(r"(\S+) has moved to (\S+): operations there have waited for (\d+) ms")
CALLED_OFF = re.compile(r"called off after (\d+) ms")
STAYS = re.compile(r"(\S+) stays on ")

Span = tuple[float, float]
Figures = dict[str, Any]


def find_moves(told: Told) -> list[dict[str, Any]]:
    """Of each directory that a command has moved, or could not: where to, its znodes, and its holds.

    :returns: one at least, with entries ``directory``, ``source``, ``target`` (empty if it stays), ``znodes``,
        ``copied_at_s``, when the first copy was made, and ``holds``, each from when to when; it has moved in the
        last one.
    """
    found: list[dict[str, Any]] = []
    new: dict[str, Any] = {"source": "", "znodes": 0, "copied_at_s": None}
    about, holds = new, list[Span]()

    def end(directory: str, target: str) -> None:
        nonlocal about, holds
        found.append({"directory": directory, "target": target, **about, "holds": holds})
        about, holds = new, []

    for at_s, told_step in told["steps"]:
        step = NUMBER.sub("", told_step, count=1)
        if copied := COPIED.match(step):
            first_s = about["copied_at_s"] or at_s
            about = {"source": copied[2], "znodes": int(copied[1].replace(",", "")), "copied_at_s": first_s}
        elif called_off := CALLED_OFF.match(step):
            holds.append((at_s - int(called_off[1]) / 1000, at_s))
        elif moved := MOVED.match(step):
            holds.append((at_s - int(moved[3]) / 1000, at_s))
            end(moved[1], moved[2])
        elif stays := STAYS.match(step):
            end(stays[1], "")
    if holds or not found:
        end("", "")
    return found


def copied_s(told: Told) -> float | None:
    """Znodes/s of the first copy; None if it took no time."""
    copied = told["copied"]
    if len(copied) < 2 or copied[-1][0] <= copied[0][0]:
        return None
    return float((copied[-1][1] - copied[0][1]) / (copied[-1][0] - copied[0][0]))


class Requests:
    """Those of a load that have not failed: when they were meant to begin, and how long they took."""

    def __init__(self, results: Sequence[Result]) -> None:
        columns, plan = join(results), results[0].plan
        self.first_s = max(each.begun_s for each in results) + plan.warm_up_s
        self.last_s = self.first_s + plan.measure_s
        has_ended = columns["outcome"] != FAILED
        self.took = columns["took_ns"][has_ended] / 1e9
        self.begun = columns["begun_ns"][has_ended] / 1e9
        self.directory = columns["directory"][has_ended]
        self._kind = columns["kind"][has_ended]
        self._of_sort = {sort: np.isin(self._kind, kinds) for sort, kinds in SORTS.items()}

    def phase(self, when: str, spans: Iterable[Span], chosen: Any = True) -> Figures:
        """What was meant for some spans of the load's time: writes, reads, and all together.

        :param chosen: a mask; only those.
        """
        clipped = [(max(began_s, self.first_s), min(ended_s, self.last_s)) for began_s, ended_s in spans]
        spans = [(began_s, ended_s) for began_s, ended_s in clipped if began_s < ended_s]
        seconds = sum(ended_s - began_s for began_s, ended_s in spans)
        meant, ended = (chosen & _is_within(times, spans) for times in (self.begun, self.begun + self.took))
        sorts = {**self._of_sort, "all": np.ones_like(meant)}
        found = {sort: self._figures(meant & of, int((ended & of).sum()), seconds) for sort, of in sorts.items()}
        return {"when": when, "seconds": seconds, **{sort: each for sort, each in found.items() if each}}

    def _figures(self, meant: Any, ended: int, seconds: float) -> Figures:
        took = self.took[meant]
        if not took.size:
            return {}
        median_s, p99_s = np.percentile(took, (50, 99))
        figures = {"median_s": float(median_s), "p99_s": float(p99_s), "longest_s": float(took.max())}
        return {"requests": took.size, "rate": ended / seconds, **figures}

    def longest_s(self, span: Span, chosen: Any = True) -> float | None:
        """Of the requests that were under way at any moment of the span."""
        began_s, ended_s = span
        took = self.took[chosen & (self.begun < ended_s) & (self.begun + self.took > began_s)]
        return float(took.max()) if took.size else None

    def writes_by_time(self) -> list[int]:
        writes = (self.begun + self.took)[self._of_sort["writes"]]
        return count_by_time(writes, self.first_s, self.last_s, BUCKET_S)

    def slowest_by_time(self) -> list[float | None]:
        """The 99th percentile of the latencies in each second."""
        ended = self.begun + self.took
        return percentile_by_time(ended, self.took, self.first_s, self.last_s, BUCKET_S, 99)


def _is_within(times: Any, spans: Iterable[Span]) -> Any:
    is_within = np.zeros(times.shape, dtype=bool)
    for began_s, ended_s in spans:
        is_within |= (times >= began_s) & (times < ended_s)
    return is_within


def balance_figures(results: Sequence[Result], commands: Sequence[Told], paths: Sequence[str]) -> Figures:
    """
    :param commands: ``map grow`` and ``map rebalance``.
    :param paths: of the load's directories.
    """
    requests = Requests(results)
    grow, rebalance = commands
    phases = {
        "before": (requests.first_s, grow["began_s"]),
        "map grow": (grow["began_s"], grow["ended_s"]),
        "map rebalance": (rebalance["began_s"], rebalance["ended_s"]),
        "after": (rebalance["ended_s"], requests.last_s),
    }
    moved = []
    for move in (each for each in find_moves(rebalance) if each["directory"]):
        number = paths.index(move["directory"]) if move["directory"] in paths else -1
        moved.append(_cost(requests, move, requests.directory == number))
    return {
        "felt": [requests.phase(when, [span]) for when, span in phases.items()],
        "moved": moved,
        "writes_s": requests.writes_by_time(),
        "slowest_s": requests.slowest_by_time(),
    }


def move_figures(results: Sequence[Result], commands: Sequence[Told]) -> Figures:
    """
    :param commands: ``map move``, each of the load's first directory, with its ``per_second``.
    """
    requests = Requests(results)
    is_there = requests.directory == 0
    moved = []
    copying: dict[float | None, list[Span]] = {}
    held: list[Span] = []
    for told in commands:
        (move,) = find_moves(told)
        cost = _cost(requests, move, is_there)
        about = {"per_second": told["per_second"], "copied_s": copied_s(told), "why": told["why"]}
        moved.append({**cost, **about, "took_s": told["ended_s"] - told["began_s"]})
        copied = told["began_s"], move["copied_at_s"] or told["ended_s"]
        copying.setdefault(told["per_second"], []).append(copied)
        held += move["holds"]
    spans = {
        "before": [(requests.first_s, commands[0]["began_s"])],
        **{_name_copying(rate): each for rate, each in copying.items()},
        "held": held,
    }
    return {
        "felt": [
            {"who": who, **requests.phase(when, each, chosen)}
            for who, chosen in (("the directory", is_there), ("others", ~is_there))
            if chosen.any()
            for when, each in spans.items()
        ],
        "moved": moved,
        "slowest_s": requests.slowest_by_time(),
    }


def _name_copying(per_second: float | None) -> str:
    return "copied" if per_second is None else f"copied, at most {per_second:,.0f}/s"


def _cost(requests: Requests, move: Mapping[str, Any], is_there: Any) -> Figures:
    """
    :param is_there: a mask, of the requests in the directory.
    """
    *called_off, last = move["holds"] or [(0.0, 0.0)]
    if not move["target"]:
        called_off = move["holds"]
    costs = [each for span in called_off if (each := requests.longest_s(span)) is not None]
    return {
        **{name: move[name] for name in ("directory", "source", "target", "znodes")},
        "tries": len(move["holds"]),
        "held_s": last[1] - last[0] if move["target"] else None,
        "longest_s": requests.longest_s(last, is_there) if move["holds"] else None,
        "called_off_s": max(costs, default=None),
    }
