"""How long a server that was down takes until it has what it missed. A part of scenario raft."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from bench.lab import Ensembles
from bench.report import text
from bench.report.charts import draw_lines, make_panels
from bench.report.section import Plot, Table
from bench.report.text import rate
from bench.scenarios.evaluation import Evaluation
from bench.scenarios.roles import LEADING, roles, wait_leader, wait_until, zxid
from bench.statistics import spread

CATCHING_UP = "catching up"
EPOCH_BITS = 32  # the higher half of a zxid is the epoch of its leader

Trials = Sequence[Mapping[str, Any]]


def measure_catching_up(
    evaluation: Evaluation, ensembles: Ensembles, settings: Mapping[str, Any], missed_s: float
) -> None:
    """A follower is killed, clients write, it is started: how long until it has what the leader had then?

    :param settings: of the clients' plan.
    :param missed_s: for how long they write; 0: not at all.
    """
    lab = evaluation.lab
    leader = wait_leader(lab, ensembles)
    follower = next(each for each, mode in roles(lab, ensembles).items() if mode not in LEADING)
    before = zxid(lab, leader)
    lab.faults.kill(follower)
    if missed_s:
        entries = {**settings, "warm_up_s": 0.0, "measure_s": missed_s, "in_flight": 4}
        plan = evaluation.plan(ensembles, "kazoo", **entries)
        evaluation.run(ensembles, plan, {"of": CATCHING_UP, "value": missed_s, "load": "writes"})
    wanted = zxid(lab, leader)
    began_s = time.monotonic()
    lab.faults.start(follower)
    wait_until(lambda: zxid(lab, follower) >= wanted, f"{follower.name} has not caught up")
    took_s = time.monotonic() - began_s
    missed = count_entries(before, wanted)
    evaluation.document["trials"].append({"missed": missed, "took_s": took_s, "missed_s": missed_s})
    evaluation.tell(f"  {missed:,} entries caught up with in {took_s:.1f} s")


def count_entries(before: int, after: int) -> int:
    """Between two zxids. After another election they are counted from there."""
    return after - before if after >> EPOCH_BITS == before >> EPOCH_BITS else after & ((1 << EPOCH_BITS) - 1)


def make_table(trials: Trials) -> Table:
    rows = [[rate(missed), text.seconds(took_s)] for missed, took_s in _points(trials)]
    return Table("A restarted server catches up", ("entries missed", "seconds"), rows)


def _points(trials: Trials) -> list[tuple[float, float]]:
    """Entries missed, and seconds. Trials in which as long was missed repeat each other."""
    groups: dict[float, list[Mapping[str, Any]]] = {}
    for number, trial in enumerate(trials):
        groups.setdefault(trial.get("missed_s", -1 - number), []).append(trial)
    return [
        (spread(trial["missed"] for trial in some), spread(trial["took_s"] for trial in some))
        for some in groups.values()
    ]


def make_plot(trials: Trials) -> Plot:
    figure, panels = make_panels(1)
    draw_lines(panels[0], {"": sorted(_points(trials))}, "", "entries missed", "seconds until caught up")
    panels[0].set_ylim(bottom=0)
    return Plot("raft-catching-up", "How long a restarted server takes to catch up", figure)
