"""Elections: how long an ensemble serves no writes when its leader has died. A part of scenario failures."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from bench.lab import Ensembles
from bench.load.record import ANSWERED
from bench.load.result import Result, join
from bench.report.charts import COLOURS, label, make_panels
from bench.report.section import Plot, Table
from bench.report.text import rate
from bench.scenarios.evaluation import Evaluation
from bench.scenarios.roles import wait_all_serve, wait_leader
from bench.statistics import first_after, quantiles

LAST_TRIAL_S = 8.0  # so long, or half a round, before the end of a round none is begun any more


@dataclass(frozen=True)
class Size:
    """
    :param trials: fewer if they take more than `most_s` seconds.
    :param round_s: of the load during which leaders are killed one after the other.
    """

    trials: int
    most_s: float
    round_s: float


class Kill(NamedTuple):
    """Of a leader; when, in seconds since the epoch."""

    server: str
    killed_s: float


def measure_elections(
    evaluation: Evaluation, ensembles: Ensembles, size: Size, settings: Mapping[str, Any]
) -> None:
    """Leaders are killed one after the other, while clients write.

    :param settings: of the clients' plan.
    """
    lab = evaluation.lab
    kills: list[Kill] = []
    last_s = min(LAST_TRIAL_S, size.round_s / 2)
    deadline = time.monotonic() + size.most_s
    trials = evaluation.document["trials"]

    def kill_leaders(begun_s: float) -> None:
        kills.clear()
        while time.time() < begun_s + size.round_s - last_s and len(trials) + len(kills) < size.trials:
            leader = wait_leader(lab, ensembles)
            kills.append(Kill(leader.name, lab.faults.kill(leader)))
            wait_leader(lab, ensembles)
            lab.faults.start(leader)
            wait_all_serve(lab, ensembles)

    while len(trials) < size.trials:
        plan = evaluation.plan(ensembles, "kazoo", **{**settings, "measure_s": size.round_s})
        run = evaluation.run(ensembles, plan, {"fault": "elections"}, kill_leaders)
        trials += times_to_serve(evaluation.raw(run), kills)
        if time.monotonic() > deadline:
            break


def times_to_serve(results: Sequence[Result], kills: Sequence[Kill]) -> list[dict[str, Any]]:
    """From each kill until the first answer to a write that was begun after it."""
    columns = join(results)
    begun = columns["begun_ns"] / 1e9
    ended = begun + columns["took_ns"] / 1e9
    is_answered = columns["outcome"] == ANSWERED
    trials = []
    for server, killed_s in kills:
        served_s = first_after(ended[is_answered & (begun > killed_s)], killed_s)
        if served_s is not None:
            trials.append({"server": server, "took_s": served_s - killed_s})
    return trials


def make_table(trials: Sequence[float]) -> Table:
    shares = (0.0, 0.05, 0.5, 0.95, 1.0)
    figures = [f"{each:.2f}" for each in quantiles(trials, shares)]
    return Table(
        "Seconds from the death of a leader until a write was answered again, ensemble of three",
        ("trials", "shortest", "5%", "median", "95%", "longest"),
        [[rate(len(trials)), *figures]],
    )


def make_plot(trials: Sequence[float]) -> Plot:
    figure, panels = make_panels(1)
    found = sorted(trials)
    panels[0].step(
        [found[0], *found], [each / len(found) for each in range(len(found) + 1)], where="post", color=COLOURS[0]
    )
    panels[0].set_ylim(0, 1.02)
    label(panels[0], "", "seconds until a write is answered again", "share of the trials")
    about = f"Election time: {len(trials)} leaders killed, one after the other, in an ensemble of three"
    return Plot("failures-elections", about, figure)
