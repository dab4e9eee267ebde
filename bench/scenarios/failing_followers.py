"""Followers die, one after the other, until there is no quorum: what is accepted and committed meanwhile."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from bench.lab import Ensembles, Lab, Server
from bench.load.record import ANSWERED
from bench.load.result import Result, join
from bench.report.charts import add_legend, draw_lines, make_panels
from bench.report.section import Plot, Table
from bench.report.text import ranged, rate
from bench.scenarios.evaluation import sleep_until
from bench.scenarios.roles import LEADING, roles, wait_all_serve, wait_leader
from bench.statistics import count_by_time

FOLLOWERS = "followers"
BUCKET_S = 0.25
FLOWS = ACCEPTED, COMMITTED = "accepted", "committed"


@dataclass(frozen=True)
class Outage:
    """
    :param rate_s: writes/s.
    :param before_s: seconds before the first follower dies; `apart_s`, until the next one does; `lasts_s`, without
        a quorum; `after_s`, from the moment at which all are started again.
    """

    rate_s: float
    before_s: float
    apart_s: float
    lasts_s: float
    after_s: float

    def total_s(self, deaths: int) -> float:
        return self.before_s + (deaths - 1) * self.apart_s + self.lasts_s + self.after_s


def deaths_of(ensembles: Ensembles) -> int:
    """Followers without which there is no quorum."""
    return (ensembles.shape.servers + 1) // 2


def carry_out(
    lab: Lab, ensembles: Ensembles, outage: Outage, first_s: float, marks: MutableMapping[str, Any]
) -> None:
    """
    :param first_s: when what is measured begins, since the epoch.
    :param marks: gets the times of the deaths and of the new start.
    """
    leader = wait_leader(lab, ensembles)
    followers = [each for each, mode in roles(lab, ensembles).items() if mode not in LEADING and each != leader]
    dead: list[Server] = []
    died: list[float] = []
    for number in range(deaths_of(ensembles)):
        sleep_until(first_s + outage.before_s + number * outage.apart_s)
        lab.faults.kill(followers[number])
        dead.append(followers[number])
        died.append(time.time() - first_s)
    sleep_until(first_s + died[-1] + outage.lasts_s)
    for each in dead:
        lab.faults.start(each)
    marks.update(died_s=died, started_s=time.time() - first_s)
    wait_all_serve(lab, ensembles)


def find_flow(
    results: Sequence[Result], died_s: float, started_s: float
) -> tuple[dict[str, Any], dict[str, float | None]]:
    """What was accepted and committed in each bucket, and what was neither refused nor committed at its end.

    :returns: that, and its figures while there was no quorum; `drained_s` is how long it took from the new start
        until everything that had been accepted by then had its end.
    """
    columns, plan = join(results), results[0].plan
    first_s = max(each.begun_s for each in results) + plan.warm_up_s
    begun, ended = columns["begun_ns"] / 1e9 - first_s, (columns["begun_ns"] + columns["took_ns"]) / 1e9 - first_s
    is_done = columns["outcome"] == ANSWERED
    returned = begun + (columns["late_ns"] + columns["call_ns"]) / 1e9
    accepted = returned if plan.is_deferred else ended[is_done]  # an answer accepts what is not deferred
    count = {
        ACCEPTED: count_by_time(accepted, 0, plan.measure_s, BUCKET_S),
        COMMITTED: count_by_time(ended[is_done], 0, plan.measure_s, BUCKET_S),
    }
    gone = count_by_time(ended, 0, plan.measure_s, BUCKET_S)
    before = int((returned < 0).sum() - (ended < 0).sum())
    came = count_by_time(returned, 0, plan.measure_s, BUCKET_S)
    backlog = accumulate((new - old for new, old in zip(came, gone, strict=True)), initial=before)
    waited = ended[(returned < started_s) & (ended > started_s)]
    pending = list(backlog)[1:]
    span = slice(int(died_s / BUCKET_S) + 1, int(started_s / BUCKET_S))
    return {"bucket_s": BUCKET_S, **count, "backlog": pending}, {
        **{name: sum(each[span]) for name, each in count.items()},
        "backlog": max(pending),
        "drained_s": float(np.max(waited) - started_s) if waited.size else None,
        "lost": int((~is_done).sum()),
    }


def rates_by_servers(
    flow: Mapping[str, Any], servers: int, died_s: Sequence[float], started_s: float
) -> list[dict[str, float]]:
    """What was accepted and committed each second with all servers, with one less, and so on."""
    found = []
    for dead, (begin_s, end_s) in enumerate(pairwise([0.0, *died_s, started_s])):
        first, last = math.ceil(begin_s / BUCKET_S), int(end_s / BUCKET_S)
        if first < last:
            rates = {name: sum(flow[name][first:last]) / ((last - first) * BUCKET_S) for name in FLOWS}
            found.append({"servers": servers - dead, **rates})
    return found


def make_rates_table(runs: Sequence[Mapping[str, Any]]) -> Table:
    return Table(
        "Writes/s with so many servers left",
        ("", "asked for", "servers", *FLOWS),
        [
            [run["mode"], rate(run["value"]), str(each["servers"]), *(rate(each[name]) for name in FLOWS)]
            for run in runs
            for each in run["left"]
        ],
    )


def make_table(runs: Sequence[Mapping[str, Any]]) -> Table:
    rows = []
    for run in runs:
        found = run["no_quorum"]
        rows.append(
            [
                run["mode"],
                rate(run["value"]),
                *(rate(found[name]) for name in (*FLOWS, "backlog")),
                ranged(found["drained_s"], "{:.1f}".format),
                rate(found["lost"]),
            ]
        )
    columns = ("", "writes/s", *FLOWS, "largest backlog", "drained after, s", "not done")
    return Table("While there is no quorum; the backlog is drained after the new start", columns, rows)


def make_plot(name: str, runs: Sequence[Mapping[str, Any]]) -> Plot:
    figure, panels = make_panels(len(runs), height=4.2)
    for panel, run in zip(panels, runs, strict=True):
        flow = run["flow"]
        times = [(place + 0.5) * BUCKET_S for place in range(len(flow["backlog"]))]
        lines = {
            "accepted/s": [each / BUCKET_S for each in flow[ACCEPTED]],
            "committed/s": [each / BUCKET_S for each in flow[COMMITTED]],
            "backlog": flow["backlog"],
        }
        points = {each: list(zip(times, values, strict=True)) for each, values in lines.items()}
        draw_lines(panel, points, run["mode"], "seconds", "writes", marker="")
        panel.axvspan(run["died_s"][-1], run["started_s"], color="0.9", label="no quorum")
    add_legend(figure, panels[0])
    return Plot(name, "Writes accepted, committed and pending while followers die", figure)
