"""A fault while clients ask at a fixed rate, and what they notice of it, on each ensemble."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bench.lab import Ensembles, Shape
from bench.load.plan import Plan
from bench.load.record import ANSWERED
from bench.load.result import Result, ensembles_of, join
from bench.report.charts import add_legend, draw_lines, make_logarithmic, make_panels
from bench.report.section import Answer, Plot, Table
from bench.report.text import milliseconds, share
from bench.scenarios.evaluation import Evaluation, sets, sleep_until
from bench.statistics import percentile_99

BUCKET_S = 0.25
UNNOTICED = 0.98  # of the requests are answered while the other ensemble has its trouble
NO_ANSWER = math.nan  # the line has a gap there
HIT = "a"  # the ensemble that has it
MULTIPLES_HEIGHT = 5.0


@dataclass(frozen=True)
class Size:
    """
    :param systems: what is measured on which shapes; `faults`, of those the ones that there are.
    :param rate_s: requests/s of all clients together, far less than what the ensembles can do.
    :param before_s: seconds before the fault; `lasts_s`, of the fault; `after_s`, after it.
    :param repeat: how often there is each fault.
    :param more: entries of the plan of each load, over the usual ones.
    """

    systems: Mapping[str, str]
    faults: Mapping[str, Sequence[str]]
    threads: int
    rate_s: float
    before_s: float
    lasts_s: float
    after_s: float
    repeat: int = 1
    more: Mapping[str, Any] = field(default_factory=dict)

    def plan(self, warm_up_s: float) -> dict[str, Any]:
        """Entries of the plan of each load."""
        return {**sets(self.threads, warm_up_s, self.before_s + self.lasts_s + self.after_s), **self.more}


def measure_trace(
    evaluation: Evaluation,
    ensembles: Ensembles,
    plan: Plan,
    label: Mapping[str, Any],
    before_s: float,
    carry_out: Callable[[], object],
) -> dict[str, Any]:
    """
    :param carry_out: the fault, from its beginning to its end. It comes `before_s` seconds after the warm-up.
    :returns: the run, with the times of both and with what is noticed.
    """
    marks: dict[str, float] = {}

    def meanwhile(begun_s: float) -> None:
        sleep_until(begun_s + plan.warm_up_s + before_s)
        marks["began_s"] = time.time()
        carry_out()
        marks["ended_s"] = time.time()

    run = evaluation.run(ensembles, plan, {**label}, meanwhile, BUCKET_S)
    run |= marks
    run["noticed"] = what_is_noticed(evaluation.raw(run), marks["began_s"], marks["ended_s"])
    return run


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


def trace_table(traces: Sequence[Mapping[str, Any]]) -> Table:
    rows = []
    for run in traces:
        for name, each in zip(Shape.parse(run["shape"]).names, run["noticed"], strict=False):
            verdict = "not noticed" if each["answered_share"] >= UNNOTICED else "NOTICED"
            rows.append(
                [
                    f"{run['shape']}, {run['fault']}",
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


def answer_of_others(traces: Sequence[Mapping[str, Any]], when: str) -> list[Answer]:
    """Empty if there is one ensemble alone."""
    others = {
        run["fault"]: min(each["answered_share"] for each in run["noticed"][1:])
        for run in traces
        if len(run["noticed"]) > 1
    }
    if not others:
        return []
    return [
        Answer(
            f"What share of the requests to the other ensembles is answered in time while {when}?",
            f"at least {UNNOTICED:.0%}",
            "; ".join(f"{fault}: {each:.1%}" for fault, each in others.items()),
            min(others.values()) >= UNNOTICED,
        )
    ]


def trace_plot(run: Mapping[str, Any], scenario: str, about: str) -> Plot:
    """
    :param scenario: its name.
    """
    figure, panels = make_panels(2)
    _draw_trace(run, panels)
    panels[0].set_title("answers", fontsize=10)
    panels[1].set_title("median latency", fontsize=10)
    add_legend(figure, panels[0])
    words = f"{scenario} {run['shape']} {run['fault']}".replace(",", "").split()
    return Plot("-".join(words), f"{run['shape']}: {about}", figure)


def small_multiples(runs: Sequence[Mapping[str, Any]], scenario: str) -> list[Plot]:
    """Of each fault that several shapes had, the traces beside each other, to one scale.

    :param scenario: its name.
    """
    plots = []
    for fault in dict.fromkeys(run["fault"] for run in runs):
        some = [run for run in runs if run["fault"] == fault]
        if len(some) < 2:
            continue
        figure, panels = make_panels(len(some), MULTIPLES_HEIGHT, rows=2)
        rows = panels[: len(some)], panels[len(some) :]
        for run, *pair in zip(some, *rows, strict=True):
            _draw_trace(run, pair)
            pair[0].set_title(f"{run['system']} {run['shape']}", fontsize=9)
        for row in rows:
            limits = [each.get_ylim() for each in row]
            for number, panel in enumerate(row):
                panel.set_ylim(min(low for low, _ in limits), max(high for _, high in limits))
                if number:
                    panel.set_ylabel("")
                    panel.tick_params(labelleft=False)
        add_legend(figure, max(rows[0], key=lambda panel: len(panel.lines)))
        words = f"{scenario} {fault}".replace(",", "").split()
        plots.append(Plot("-".join(words), f"{fault}, on each shape: answers and their median latency", figure))
    return plots


def _draw_trace(run: Mapping[str, Any], panels: Sequence[Any]) -> None:
    """Answers and median latency over time."""
    bucket_s, warm_up_s = run["over_time"]["bucket_s"], run["plan"]["warm_up_s"]
    answered, latency = {}, {}
    for name, each in zip(Shape.parse(run["shape"]).names, run["over_time"]["ensembles"], strict=False):
        times = [(place + 0.5) * bucket_s - warm_up_s for place in range(len(each["answered"]))]
        rows = [row for row in zip(times, each["answered"], each["median_s"], strict=True) if row[0] > 0]
        answered[f"ensemble {name}"] = [(at, count / bucket_s) for at, count, _ in rows]
        latency[f"ensemble {name}"] = [
            (at, NO_ANSWER if median is None else median * 1000) for at, _, median in rows
        ]
    draw_lines(panels[0], answered, "", "seconds", "requests/s", marker="")
    draw_lines(panels[1], latency, "", "seconds", "ms", marker="")
    make_logarithmic(panels[1], "y")
    first_s = run["begun_s"] + warm_up_s
    for panel in panels:
        panel.axvspan(run["began_s"] - first_s, run["ended_s"] - first_s, color="0.9", label=run["fault"])
